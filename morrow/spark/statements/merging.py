"""MERGE INTO, as the DataFrame call `merge`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.statements.expressions import as_column, assignments, column_of, sides, value_of, without_subquery
from morrow.spark.statements.queries import Session, query
from morrow.spark.statements.text import Statement
from morrow.spark.writing.merge import Merge, merge
from morrow.spark.writing.merge_rows import side
from morrow.writers.operations.merge_clauses import SOURCE
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.tables.table import Table


def merge_rows(session: Session, words: Statement) -> None:
    """MERGE INTO t [AS alias] USING source [AS alias] ON condition WHEN ..."""
    if words.has("WITH", "SCHEMA", "EVOLUTION"):
        raise Unsupported("MERGE WITH SCHEMA EVOLUTION here", hint="add the columns by ALTER TABLE")
    words.need("INTO")
    path = words.path()
    here = words.alias()
    table = session.table(path)
    words.need("USING")
    given, names = _source(words)
    source = query(session, f"SELECT * FROM {given}")
    there = words.alias()
    name = here or path[-1]
    if (there or "".join(names[-1:])).casefold() == name.casefold():
        raise InvalidArgument(f"MERGE INTO {'.'.join(path)}: both sides are called {name!r}; give one of them an alias")
    words.need("ON")
    sided = sides(path, here, names, there)
    made = merge(source, table, on=as_column(without_subquery(sided(words.until("WHEN")), "MERGE")))
    while words.has("WHEN"):
        made = _clause(made, words, table, sided, path, here)
    words.end()
    made.execute()


def _source(words: Statement) -> tuple[str, tuple[str, ...]]:
    """Takes a query in parentheses, or the name of a table; returns its text, and the parts of the name."""
    if words.word() == "(":
        return f"({words.parenthesized()})", ()
    start = words.at
    names = words.path()
    return words.text[words.start(start) : words.taken], names


def _clause(
    made: Merge,
    words: Statement,
    table: Table,
    sided: Callable[[str], str],
    path: tuple[str, ...],
    alias: str | None,
) -> Merge:
    matched = not words.has("NOT")
    words.need("MATCHED")
    by_source = not matched and words.has("BY", "SOURCE")
    words.has("BY", "TARGET")
    condition = None
    if words.has("AND"):
        condition = as_column(without_subquery(sided(words.until("THEN")), "MERGE"))
    words.need("THEN")
    names = list(WriteTarget.of(table._metadata).schema.by_name)
    all_columns: dict[str, object] = {name: side(SOURCE, name) for name in names}
    if words.has("DELETE") and (matched or by_source):
        return made.when_not_matched_by_source_delete(condition) if by_source else made.when_matched_delete(condition)
    if words.has("UPDATE", "SET") and (matched or by_source):
        if words.has("*") and not by_source:
            return made.when_matched_update(all_columns, condition)
        values = assignments(words, table, sided, path, alias, ("WHEN",))
        if by_source:
            return made.when_not_matched_by_source_update(values, condition)
        return made.when_matched_update(values, condition)
    if words.has("INSERT") and not matched and not by_source:
        if words.has("*"):
            return made.when_not_matched_insert(all_columns, condition)
        columns = [column_of(text, path, alias) for text in words.expressions()]
        words.need("VALUES")
        texts = [without_subquery(sided(text), "MERGE") for text in words.expressions()]
        given = [value_of(text, name, table) for text, name in zip(texts, columns)]
        if len(texts) != len(columns) or len(set(columns)) != len(columns):
            raise words.unexpected("a value for each column, named once,")
        return made.when_not_matched_insert(dict(zip(columns, given)), condition)
    raise words.unexpected("what this clause can do")
