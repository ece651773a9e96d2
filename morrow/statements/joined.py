"""UPDATE and DELETE that look at other tables for each row, by subqueries, FROM or USING.

A query finds the rows, and a merge changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from morrow.readers.expressions.sql import quote_identifier
from morrow.statements.context import Context
from morrow.writers.operations.merge_clauses import SOURCE, TARGET

if TYPE_CHECKING:
    from morrow.engine.format.snapshot import Snapshot
    from morrow.statements.row_statements import Delete, Update
    from morrow.tables.table import Table
    from morrow.writers.operations.merge import Merge


def delete_joined(context: Context, statement: Delete, table: Table) -> Snapshot | None:
    """Deletes the rows for which a condition with correlated subqueries is true."""
    found = _matched(context, statement, table, {})
    return None if found is None else found.when_matched_delete().execute()


def update_joined(context: Context, statement: Update, table: Table, values: Mapping[str, str]) -> Snapshot | None:
    """Updates rows by values, or a condition, with correlated subqueries. `values`: SQL by the columns that are set."""
    found = _matched(context, statement, table, values)
    sets: dict[str, object] = {name: f"{SOURCE}.{_value(i)}" for i, name in enumerate(values)}
    return None if found is None else found.when_matched_update(sets).execute()


def _matched(context: Context, statement: Delete | Update, table: Table, values: Mapping[str, str]) -> Merge | None:
    """Returns a merge that matches the rows of a statement; None where there are none.

    A row is known by the columns that the statement reads, and by its key: rows that are alike in all of these are
    changed alike, also where another commit has moved them meanwhile; a row that another commit has changed in one of
    them is not.
    """
    texts = [*values.values(), *([] if statement.where is None else [statement.where])]
    known = [*table.primary_keys, *_read_columns(context, texts, table)]
    columns = list(dict.fromkeys(known)) or [table._newest.fields[0].name]
    alias = quote_identifier(statement.alias or statement.table[-1])
    selected = [f"{alias}.{quote_identifier(name)} AS {_key(i)}" for i, name in enumerate(columns)]
    selected += [f"{text} AS {_value(i)}" for i, text in enumerate(values.values())]
    others = "" if statement.source is None else f", {statement.source}"
    place = ".".join(map(quote_identifier, statement.table))
    where = "" if statement.where is None else f" WHERE {statement.where}"
    rows = context.rows(f"SELECT DISTINCT {', '.join(selected)} FROM {place} AS {alias}{others}{where}")
    if not rows.num_rows:
        return None
    equal = (
        f"{TARGET}.{quote_identifier(name)} IS NOT DISTINCT FROM {SOURCE}.{_key(i)}" for i, name in enumerate(columns)
    )
    return table.merge(rows, " AND ".join(equal))


def _read_columns(context: Context, texts: Iterable[str], table: Table) -> list[str]:
    """Returns the columns of the table that expressions may read: all whose names they have."""
    by_folded = {field.name.lower(): field.name for field in table._newest.fields}
    names = (
        part.name.lower()
        for text in texts
        for column in exp.Paren(this=context.expression(text, "the statement")).find_all(exp.Column)
        for part in column.parts
    )
    return [by_folded[name] for name in dict.fromkeys(names) if name in by_folded]


def _key(number: int) -> str:
    return f"key_{number}"


def _value(number: int) -> str:
    return f"value_{number}"
