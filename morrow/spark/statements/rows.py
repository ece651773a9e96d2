"""INSERT, DELETE, UPDATE, MERGE and TRUNCATE, as the DataFrame calls `write`, `delete`, `update` and `merge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.names import own
from morrow.engine.plan.filter import parse_filter
from morrow.spark.statements.queries import Session, query
from morrow.spark.statements.text import Statement, requalified
from morrow.spark.writing.assigning import assigned, by_column, default_of
from morrow.spark.writing.delete import delete
from morrow.spark.writing.merge import Merge, merge
from morrow.spark.writing.update import update
from morrow.spark.writing.write import session_overwrites_dynamically, write
from morrow.writers.operations.delete import of_partitions
from morrow.writers.operations.merge import SOURCE, TARGET
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from morrow.table import Table

DEFAULT = "DEFAULT"


def insert(session: Session, words: Statement) -> None:
    """INSERT INTO | OVERWRITE [TABLE] t [PARTITION (...)] [(columns)] [BY NAME] [REPLACE WHERE condition] query."""
    overwrites = words.has("OVERWRITE")
    if not overwrites and not words.has("INTO"):
        raise words.unexpected("INTO or OVERWRITE")
    words.has("TABLE")
    path = words.path()
    table = session.table(path)
    static = partition(session, words) if words.has("PARTITION") else {}
    columns = None
    if words.word() == "(" and words.word(1) not in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("):
        columns = [_name(text) for text in words.listed()]
    by_name = words.has("BY", "NAME")
    where = None
    if words.has("REPLACE", "WHERE"):
        where = words.until("SELECT", "VALUES", "WITH", "FROM", "TABLE")
    rows = _as_columns(query(session, words.rest()), table, static, columns, by_name=by_name)
    if where is not None:
        write(rows, table, "overwrite", replace_where=_unqualified(where, path, None))
        return
    if not overwrites:
        write(_with_constants(rows, table, static), table)
        return
    dynamic = bool(session_overwrites_dynamically(session.spark))
    write(rows, table, "overwrite", partition=static or None, dynamic=dynamic)


def partition(session: Session, words: Statement) -> dict[str, str | None]:
    """Takes ``(column = value, ...)``; returns the values of those that have one, as text."""
    found: dict[str, str | None] = {}
    for text in words.listed():
        part = Statement(text)
        name = part.name()
        if not part.is_at_end():
            if not part.takes("="):
                raise part.unexpected("=")
            value = session.spark.sql(f"SELECT CAST({part.rest()} AS STRING)").collect()[0][0]
            found[name] = value
    return found


def _as_columns(
    rows: DataFrame, table: Table, static: Mapping[str, object], columns: list[str] | None, *, by_name: bool
) -> DataFrame:
    """Returns the rows of a query as those of columns of the table, as Spark's SQL assigns values."""
    target = WriteTarget.of(table._metadata)
    known = target.schema.by_name
    if by_name and columns is None:
        columns = rows.columns
    if columns is None:
        given = set(by_column(static, target, rows.sparkSession))
        names = [name for name in known if name not in given]
    else:
        if len({name.casefold() for name in columns}) < len(columns):
            raise InvalidArgument(f"{target.where}: a column is given twice")
        names = list(by_column(dict.fromkeys(columns), target, rows.sparkSession))
    if len(names) != len(rows.columns):
        raise InvalidArgument(f"{target.where}: the query has {len(rows.columns)} columns, for {', '.join(names)}")
    places = {own("set", number): known[name] for number, name in enumerate(names)}
    return assigned(rows.toDF(*places), places, ()).toDF(*names)


def _with_constants(rows: DataFrame, table: Table, values: Mapping[str, str | None]) -> DataFrame:
    from pyspark.sql import functions

    from morrow.spark.types.to_spark import spark_type

    target = WriteTarget.of(table._metadata)
    for name, value in by_column(values, target, rows.sparkSession).items():
        rows = rows.withColumn(name, functions.lit(value).cast(spark_type(target.schema.by_name[name].type, name)))
    return rows


def delete_rows(session: Session, words: Statement) -> None:
    """DELETE FROM t [AS alias] [WHERE condition]."""
    if not words.has("FROM"):
        raise words.unexpected("FROM")
    path = words.path()
    alias = words.alias()
    table = session.table(path)
    condition = _condition(words, path, alias, "DELETE")
    if condition is None:
        table.truncate()
        return
    target = WriteTarget.of(table._metadata)
    if target.keyed and not _is_of_partitions(target, condition):
        delete(session.spark, table, where=_expression(condition))
    else:
        delete(session.spark, table, where=condition)


def _is_of_partitions(target: WriteTarget, condition: str) -> bool:
    try:
        return of_partitions(target, parse_filter(condition, target.schema.fields))
    except MorrowError:  # Spark may know it
        return False


def update_rows(session: Session, words: Statement) -> None:
    """UPDATE t [AS alias] SET column = value, ... [WHERE condition]."""
    path = words.path()
    alias = words.alias()
    table = session.table(path)
    if not words.has("SET"):
        raise words.unexpected("SET")
    values = _assignments(words, table, lambda text: _unqualified(text, path, alias), path, alias, ("WHERE",))
    condition = _condition(words, path, alias, "UPDATE")
    where = None if condition is None else _expression(condition)
    update(session.spark, table, set=values, where=where)


def truncate(session: Session, words: Statement) -> None:
    """TRUNCATE TABLE t [PARTITION (...)]."""
    if not words.has("TABLE"):
        raise words.unexpected("TABLE")
    table = session.table(words.path())
    if words.has("PARTITION"):
        spec = partition(session, words)
        words.end()
        table.drop_partition(spec)
        return
    words.end()
    table.truncate()


def merge_rows(session: Session, words: Statement) -> None:
    """MERGE INTO t [AS alias] USING source [AS alias] ON condition WHEN ..."""
    if words.has("WITH", "SCHEMA", "EVOLUTION"):
        raise Unsupported("MERGE WITH SCHEMA EVOLUTION here", hint="add the columns by ALTER TABLE")
    if not words.has("INTO"):
        raise words.unexpected("INTO")
    path = words.path()
    here = words.alias()
    table = session.table(path)
    if not words.has("USING"):
        raise words.unexpected("USING")
    given, default = _source(words)
    source = query(session, f"SELECT * FROM {given}")
    there = words.alias() or default
    if not words.has("ON"):
        raise words.unexpected("ON")
    sided = _sided(path, here, there)
    made = merge(source, table, on=_expression(_checked(sided(words.until("WHEN")), "MERGE")))
    while words.has("WHEN"):
        made = _clause(made, words, table, sided, path, here)
    words.end()
    made.execute()


def _source(words: Statement) -> tuple[str, str | None]:
    """Takes a query in parentheses, or the name of a table; returns its text, and its name without an alias."""
    if words.word() == "(":
        return f"({words.parenthesized()})", None
    start = words.at
    names = words.path()
    return words.text[words.start(start) : words.taken], names[-1]


def _clause(
    made: Merge,
    words: Statement,
    table: Table,
    sided: Callable[[str], str],
    path: tuple[str, ...],
    alias: str | None,
) -> Merge:
    matched = not words.has("NOT")
    if not words.has("MATCHED"):
        raise words.unexpected("MATCHED")
    by_source = not matched and words.has("BY", "SOURCE")
    words.has("BY", "TARGET")
    condition = None
    if words.has("AND"):
        condition = _expression(_checked(sided(words.until("THEN")), "MERGE"))
    if not words.has("THEN"):
        raise words.unexpected("THEN")
    names = list(WriteTarget.of(table._metadata).schema.by_name)
    all_columns: dict[str, object] = {name: _column(SOURCE, name) for name in names}
    if words.has("DELETE") and (matched or by_source):
        return made.when_not_matched_by_source_delete(condition) if by_source else made.when_matched_delete(condition)
    if words.has("UPDATE", "SET") and (matched or by_source):
        if words.takes("*") and not by_source:
            return made.when_matched_update(all_columns, condition)
        values = _assignments(words, table, sided, path, alias, ("WHEN",))
        if by_source:
            return made.when_not_matched_by_source_update(values, condition)
        return made.when_matched_update(values, condition)
    if words.has("INSERT") and not matched and not by_source:
        if words.takes("*"):
            return made.when_not_matched_insert(all_columns, condition)
        columns = [_name(text, path, alias) for text in words.listed()]
        if not words.has("VALUES"):
            raise words.unexpected("VALUES")
        given = [_value(_checked(sided(text), "MERGE"), name, table) for text, name in zip(words.listed(), columns)]
        if len(given) != len(columns) or len(set(columns)) != len(columns):
            raise words.unexpected("a value for each column, named once,")
        return made.when_not_matched_insert(dict(zip(columns, given)), condition)
    raise words.unexpected("what this clause can do")


# Expressions


def _assignments(
    words: Statement,
    table: Table,
    told: Callable[[str], str],
    path: tuple[str, ...],
    alias: str | None,
    ends: tuple[str, ...],
) -> dict[str, object]:
    found: dict[str, object] = {}
    more = True
    while more:
        name = _name(words.until("="), path, alias)
        words.takes("=")
        if name in found:
            raise InvalidArgument(f"{table.path}: {name!r} is set twice")
        found[name] = _value(_checked(told(words.until(",", *ends)), "SET"), name, table)
        more = words.takes(",")
    return found


def _value(text: str, name: str, table: Table) -> object:
    if text.strip().upper() != DEFAULT:
        return _expression(text)
    target = WriteTarget.of(table._metadata)
    fields = {field.name.casefold(): field for field in target.schema.fields}
    return default_of(fields[name.casefold()] if name.casefold() in fields else target.schema.column(name))


def _name(text: str, path: tuple[str, ...] = (), alias: str | None = None) -> str:
    """Returns the column that a text names, perhaps behind the name of its table."""
    words = Statement(text)
    names = words.path()
    words.end()
    found = _qualifier(names, path, alias)
    names = names[found:]
    if len(names) != 1:
        raise Unsupported(f"setting {'.'.join(names)}, which is a member of a column,", hint="set the whole column")
    return names[0]


def _qualifier(names: tuple[str, ...], path: tuple[str, ...], alias: str | None) -> int:
    """Returns how many parts of a name are the table's."""
    folded = tuple(name.casefold() for name in names)
    own_names = [path[at:] for at in range(len(path))] if alias is None else [(alias,)]
    for one in own_names:
        if len(folded) > len(one) and folded[: len(one)] == tuple(name.casefold() for name in one):
            return len(one)
    return 0


def _unqualified(text: str, path: tuple[str, ...], alias: str | None) -> str:
    def prefix(names: tuple[str, ...]) -> tuple[int, str] | None:
        length = _qualifier(names, path, alias)
        return (length, "") if length else None

    return requalified(text, prefix)


def _sided(path: tuple[str, ...], here: str | None, there: str | None) -> Callable[[str], str]:
    """Returns the function that names the sides of a merge in an expression as `merge` does."""

    def prefix(names: tuple[str, ...]) -> tuple[int, str] | None:
        if there is not None and len(names) > 1 and names[0].casefold() == there.casefold():
            return 1, f"{SOURCE}."
        length = _qualifier(names, path, here)
        return (length, f"{TARGET}.") if length else None

    return lambda text: requalified(text, prefix)


def _condition(words: Statement, path: tuple[str, ...], alias: str | None, command: str) -> str | None:
    if not words.has("WHERE"):
        words.end()
        return None
    return _checked(_unqualified(words.rest(), path, alias), command)


def _checked(text: str, command: str) -> str:
    if Statement(text).has_subquery():
        raise Unsupported(f"a subquery in {command} here", hint="join its rows by MERGE INTO ... USING (query)")
    return text


def _expression(text: str) -> Column:
    from pyspark.sql import functions

    return functions.expr(text)


def _column(side: str, name: str) -> Column:
    from morrow.spark.writing.merge_rows import side as of_side

    return of_side(side, name)
