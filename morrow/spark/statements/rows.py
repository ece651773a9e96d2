"""INSERT, DELETE, UPDATE and TRUNCATE, as the DataFrame calls `write`, `delete` and `update`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.names import own
from morrow.engine.plan.filter import parse_filter
from morrow.spark.statements.expressions import DEFAULT, as_column, assignments, column_of, condition_of, unqualified
from morrow.spark.statements.queries import Session, query
from morrow.spark.statements.text import Statement, replaced
from morrow.spark.types.to_spark import default_sql, spark_type
from morrow.spark.writing.assigning import assigned, by_column
from morrow.spark.writing.delete import delete
from morrow.spark.writing.evolving import Evolution
from morrow.spark.writing.update import update
from morrow.spark.writing.write import session_overwrites_dynamically, write
from morrow.writers.operations.delete import of_partitions
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.engine.format.types import DataField
    from morrow.tables.table import Table


def insert(session: Session, words: Statement) -> None:
    """INSERT INTO | OVERWRITE [TABLE] t [PARTITION (...)] [(columns)] [BY NAME] [REPLACE WHERE condition] query."""
    evolves = words.has("WITH", "SCHEMA", "EVOLUTION")
    overwrites = words.has("OVERWRITE")
    if not overwrites and not words.has("INTO"):
        raise words.unexpected("INTO or OVERWRITE")
    words.has("TABLE")
    path = words.path()
    table = session.table(path)
    static = partition(session, words) if words.has("PARTITION") else {}
    columns = None
    if words.word() == "(" and words.word(1) not in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("):
        columns = [column_of(text) for text in words.expressions()]
    by_name = words.has("BY", "NAME")
    where = None
    if words.has("REPLACE", "WHERE"):
        where = words.until("SELECT", "VALUES", "WITH", "FROM", "TABLE")
    text = words.rest()
    if evolves:
        _evolve(query(session, text), table, plain=by_name and columns is None and not (static or overwrites or where))
        return
    names = _names(table, static, columns, session.spark)
    rows = _as_columns(query(session, with_defaults(text, table, names)), table, static, columns, by_name=by_name)
    if where is not None:
        write(rows, table, "overwrite", replace_where=unqualified(where, path, None))
        return
    if not overwrites:
        write(_with_constants(rows, table, static), table)
        return
    dynamic = bool(session_overwrites_dynamically(session.spark))
    write(rows, table, "overwrite", partition=static or None, dynamic=dynamic)


def _evolve(rows: DataFrame, table: Table, *, plain: bool) -> None:
    if not plain:
        raise Unsupported("INSERT WITH SCHEMA EVOLUTION other than INTO a table BY NAME here")
    write(rows, table, merge_schema=Evolution(widens=True))


def partition(session: Session, words: Statement) -> dict[str, str | None]:
    """Takes ``(column = value, ...)``; returns the values of those that have one, as text."""
    found: dict[str, str | None] = {}
    for text in words.expressions():
        part = Statement(text)
        name = part.name()
        if not part.is_at_end():
            if not part.has("="):
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
    names = _names(table, static, columns, rows.sparkSession)
    if len(names) != len(rows.columns):
        raise InvalidArgument(f"{target.where}: the query has {len(rows.columns)} columns, for {', '.join(names)}")
    places = {own("set", number): known[name] for number, name in enumerate(names)}
    return assigned(rows.toDF(*places), places, ()).toDF(*names)


def _names(table: Table, static: Mapping[str, object], columns: list[str] | None, spark: SparkSession) -> list[str]:
    """Returns the table's columns that values are for, in their order."""
    target = WriteTarget.of(table._metadata)
    if columns is None:
        given = set(by_column(static, target, spark))
        return [name for name in target.schema.by_name if name not in given]
    if len({name.casefold() for name in columns}) < len(columns):
        raise InvalidArgument(f"{target.where}: a column is given twice")
    return list(by_column(dict.fromkeys(columns), target, spark))


def with_defaults(text: str, table: Table, names: Sequence[str]) -> str:
    """Returns a query with the default values of columns in the place of DEFAULT among its VALUES."""
    words = Statement(text)
    if not words.has("VALUES") or all(token.text.upper() != DEFAULT for token in words.tokens):
        return text
    fields = WriteTarget.of(table._metadata).schema.by_name
    parts: dict[tuple[int, int], str] = {}
    while words.next is not None and words.word() != ";":
        is_row = words.has("(")
        number, more = 0, True
        while more:
            at = words.at
            is_default = words.word() == DEFAULT
            if words.until(",").upper() == DEFAULT and is_default and number < len(names):
                parts[words.start(at), words.taken] = _default_sql(fields[names[number]])
            number, more = number + 1, is_row and words.has(",")
        if is_row:
            words.need(")")
        if not words.has(","):
            break
    return replaced(text, parts)


def _default_sql(field: DataField) -> str:
    kind = spark_type(field.type, field.name)
    plain = "NULL" if field.default_value is None else default_sql(field, kind)
    return f"CAST({plain} AS {kind.simpleString()})"


def _with_constants(rows: DataFrame, table: Table, values: Mapping[str, str | None]) -> DataFrame:
    from pyspark.sql import functions

    target = WriteTarget.of(table._metadata)
    for name, value in by_column(values, target, rows.sparkSession).items():
        rows = rows.withColumn(name, functions.lit(value).cast(spark_type(target.schema.by_name[name].type, name)))
    return rows


def delete_rows(session: Session, words: Statement) -> None:
    """DELETE FROM t [AS alias] [WHERE condition]."""
    words.need("FROM")
    path = words.path()
    alias = words.alias()
    table = session.table(path)
    condition = condition_of(words, path, alias, "DELETE")
    if condition is None:
        table.truncate()
        return
    target = WriteTarget.of(table._metadata)
    if target.keyed and not _is_of_partitions(target, condition):
        delete(session.spark, table, where=as_column(condition))
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
    words.need("SET")
    values = assignments(words, table, lambda text: unqualified(text, path, alias), path, alias, ("WHERE",))
    condition = condition_of(words, path, alias, "UPDATE")
    where = None if condition is None else as_column(condition)
    update(session.spark, table, set=values, where=where)


def truncate(session: Session, words: Statement) -> None:
    """TRUNCATE TABLE t [PARTITION (...)]."""
    words.need("TABLE")
    table = session.table(words.path())
    if words.has("PARTITION"):
        spec = partition(session, words)
        words.end()
        table.drop_partition(spec)
        return
    words.end()
    table.truncate()
