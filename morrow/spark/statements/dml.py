"""INSERT, DELETE, UPDATE, TRUNCATE and MERGE INTO, as the DataFrame calls `write`, `delete`, `update` and `merge`.

Names in expressions of a statement are rewritten to the form that these calls accept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.names import reserve_name
from morrow.engine.plan.filter import parse_filter
from morrow.spark.statements.queries import Session, query
from morrow.spark.statements.tokens import Statement, replace_parts, rewrite_qualifiers
from morrow.spark.types import format_spark_default, to_spark_type
from morrow.spark.writing.assignments import assign_columns, default_of, resolve_columns
from morrow.spark.writing.changes import update
from morrow.spark.writing.delete import delete
from morrow.spark.writing.merge import Merge, make_side_column, merge
from morrow.spark.writing.schema_evolution import Evolution
from morrow.spark.writing.write import is_overwriting_dynamically, write
from morrow.writers.operations.delete import is_of_partitions
from morrow.writers.operations.merge import SOURCE, TARGET
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from morrow.engine.format.types import DataField
    from morrow.tables.table import Table


def insert(session: Session, words: Statement) -> None:
    """Execute an INSERT.

    INSERT INTO | OVERWRITE [TABLE] t [PARTITION (...)] [(columns)] [BY NAME] [REPLACE WHERE condition] query
    """
    evolves = words.has("WITH", "SCHEMA", "EVOLUTION")
    overwrites = words.has("OVERWRITE")
    if not overwrites and not words.has("INTO"):
        raise words.unexpected("INTO or OVERWRITE")
    words.has("TABLE")
    path = words.path()
    table = session.table(path)
    static = parse_partition(session, words) if words.has("PARTITION") else {}
    columns = None
    if words.word() == "(" and words.word(1) not in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("):
        columns = [parse_column(text) for text in words.expressions()]
    by_name = words.has("BY", "NAME")
    where = None
    if words.has("REPLACE", "WHERE"):
        where = words.until("SELECT", "VALUES", "WITH", "FROM", "TABLE")
    text = words.rest()
    if evolves:
        _write_evolving(
            query(session, text), table, plain=by_name and columns is None and not (static or overwrites or where)
        )
        return
    names = _list_columns(table, static, columns, session.spark)
    rows = _to_columns(query(session, replace_defaults(text, table, names)), table, static, columns, by_name=by_name)
    if where is not None:
        write(rows, table, "overwrite", replace_where=strip_qualifier(where, path, None))
        return
    if not overwrites:
        write(_add_constants(rows, table, static), table)
        return
    dynamic = bool(is_overwriting_dynamically(session.spark))
    write(rows, table, "overwrite", partition=static or None, dynamic=dynamic)


def _write_evolving(rows: DataFrame, table: Table, *, plain: bool) -> None:
    if not plain:
        raise Unsupported("INSERT WITH SCHEMA EVOLUTION other than INTO a table BY NAME here")
    write(rows, table, merge_schema=Evolution(widens=True))


def parse_partition(session: Session, words: Statement) -> dict[str, str | None]:
    """Parse ``(column = value, ...)``; return the values as text, None for columns without a value."""
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


def _to_columns(
    rows: DataFrame, table: Table, static: Mapping[str, object], columns: list[str] | None, *, by_name: bool
) -> DataFrame:
    """Return the rows of a query as columns of the table, with values assigned as in Spark's SQL."""
    target = WriteTarget.of(table._metadata)
    known = target.schema.by_name
    if by_name and columns is None:
        columns = rows.columns
    names = _list_columns(table, static, columns, rows.sparkSession)
    if len(names) != len(rows.columns):
        raise InvalidArgument(f"{target.where}: the query has {len(rows.columns)} columns, for {', '.join(names)}")
    places = {reserve_name("set", number): known[name] for number, name in enumerate(names)}
    return assign_columns(rows.toDF(*places), places, ()).toDF(*names)


def _list_columns(
    table: Table, static: Mapping[str, object], columns: list[str] | None, spark: SparkSession
) -> list[str]:
    """Return the columns of the table that get values, in the order of the values."""
    target = WriteTarget.of(table._metadata)
    if columns is None:
        given = set(resolve_columns(static, target, spark))
        return [name for name in target.schema.by_name if name not in given]
    if len({name.casefold() for name in columns}) < len(columns):
        raise InvalidArgument(f"{target.where}: a column is given twice")
    return list(resolve_columns(dict.fromkeys(columns), target, spark))


def replace_defaults(text: str, table: Table, names: Sequence[str]) -> str:
    """Return a query whose VALUES have the columns' default values instead of DEFAULT."""
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
                parts[words.start(at), words.taken] = _format_default(fields[names[number]])
            number, more = number + 1, is_row and words.has(",")
        if is_row:
            words.need(")")
        if not words.has(","):
            break
    return replace_parts(text, parts)


def _format_default(field: DataField) -> str:
    kind = to_spark_type(field.type, field.name)
    plain = "NULL" if field.default_value is None else format_spark_default(field, kind)
    return f"CAST({plain} AS {kind.simpleString()})"


def _add_constants(rows: DataFrame, table: Table, values: Mapping[str, str | None]) -> DataFrame:
    from pyspark.sql import functions

    target = WriteTarget.of(table._metadata)
    for name, value in resolve_columns(values, target, rows.sparkSession).items():
        rows = rows.withColumn(name, functions.lit(value).cast(to_spark_type(target.schema.by_name[name].type, name)))
    return rows


def delete_rows(session: Session, words: Statement) -> None:
    """Execute DELETE FROM t [AS alias] [WHERE condition]."""
    words.need("FROM")
    path = words.path()
    alias = words.alias()
    table = session.table(path)
    condition = parse_condition(words, path, alias, "DELETE")
    if condition is None:
        table.truncate()
        return
    target = WriteTarget.of(table._metadata)
    if target.keyed and not _is_of_partitions(target, condition):
        delete(session.spark, table, where=to_column(condition))
    else:
        delete(session.spark, table, where=condition)


def _is_of_partitions(target: WriteTarget, condition: str) -> bool:
    try:
        return is_of_partitions(target, parse_filter(condition, target.schema.fields))
    except MorrowError:  # Spark may support the condition
        return False


def update_rows(session: Session, words: Statement) -> None:
    """Execute UPDATE t [AS alias] SET column = value, ... [WHERE condition]."""
    path = words.path()
    alias = words.alias()
    table = session.table(path)
    words.need("SET")
    values = parse_assignments(words, table, lambda text: strip_qualifier(text, path, alias), path, alias, ("WHERE",))
    condition = parse_condition(words, path, alias, "UPDATE")
    where = None if condition is None else to_column(condition)
    update(session.spark, table, set=values, where=where)


def truncate(session: Session, words: Statement) -> None:
    """Execute TRUNCATE TABLE t [PARTITION (...)]."""
    words.need("TABLE")
    table = session.table(words.path())
    if words.has("PARTITION"):
        spec = parse_partition(session, words)
        words.end()
        table.drop_partition(spec)
        return
    words.end()
    table.truncate()


def merge_rows(session: Session, words: Statement) -> None:
    """Execute MERGE INTO t [AS alias] USING source [AS alias] ON condition WHEN ..."""
    if words.has("WITH", "SCHEMA", "EVOLUTION"):
        raise Unsupported("MERGE WITH SCHEMA EVOLUTION here", hint="add the columns by ALTER TABLE")
    words.need("INTO")
    path = words.path()
    here = words.alias()
    table = session.table(path)
    words.need("USING")
    given, names = _parse_source(words)
    source = query(session, f"SELECT * FROM {given}")
    there = words.alias()
    name = here or path[-1]
    if (there or "".join(names[-1:])).casefold() == name.casefold():
        raise InvalidArgument(f"MERGE INTO {'.'.join(path)}: both sides are called {name!r}; give one of them an alias")
    words.need("ON")
    sided = make_side_qualifier(path, here, names, there)
    made = merge(source, table, on=to_column(refuse_subquery(sided(words.until("WHEN")), "MERGE")))
    while words.has("WHEN"):
        made = _parse_clause(made, words, table, sided, path, here)
    words.end()
    made.execute()


def _parse_source(words: Statement) -> tuple[str, tuple[str, ...]]:
    """Parse a query in parentheses or the name of a table; return its text, and the parts of the name."""
    if words.word() == "(":
        return f"({words.parenthesized()})", ()
    start = words.at
    names = words.path()
    return words.text[words.start(start) : words.taken], names


def _parse_clause(
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
        condition = to_column(refuse_subquery(sided(words.until("THEN")), "MERGE"))
    words.need("THEN")
    names = list(WriteTarget.of(table._metadata).schema.by_name)
    all_columns: dict[str, object] = {name: make_side_column(SOURCE, name) for name in names}
    if words.has("DELETE") and (matched or by_source):
        return made.when_not_matched_by_source_delete(condition) if by_source else made.when_matched_delete(condition)
    if words.has("UPDATE", "SET") and (matched or by_source):
        if words.has("*") and not by_source:
            return made.when_matched_update(all_columns, condition)
        values = parse_assignments(words, table, sided, path, alias, ("WHEN",))
        if by_source:
            return made.when_not_matched_by_source_update(values, condition)
        return made.when_matched_update(values, condition)
    if words.has("INSERT") and not matched and not by_source:
        if words.has("*"):
            return made.when_not_matched_insert(all_columns, condition)
        columns = [parse_column(text, path, alias) for text in words.expressions()]
        words.need("VALUES")
        texts = [refuse_subquery(sided(text), "MERGE") for text in words.expressions()]
        given = [parse_value(text, name, table) for text, name in zip(texts, columns)]
        if len(texts) != len(columns) or len(set(columns)) != len(columns):
            raise words.unexpected("a value for each column, named once,")
        return made.when_not_matched_insert(dict(zip(columns, given)), condition)
    raise words.unexpected("what this clause can do")


DEFAULT = "DEFAULT"


def parse_assignments(
    words: Statement,
    table: Table,
    told: Callable[[str], str],
    path: tuple[str, ...],
    alias: str | None,
    ends: tuple[str, ...],
) -> dict[str, object]:
    """Parse ``column = value, ...`` up to one of the words; return the values, rewritten by `told`."""
    found: dict[str, object] = {}
    more = True
    while more:
        name = parse_column(words.until("="), path, alias)
        words.has("=")
        if name in found:
            raise InvalidArgument(f"{table.path}: {name!r} is set twice")
        found[name] = parse_value(refuse_subquery(told(words.until(",", *ends)), "SET"), name, table)
        more = words.has(",")
    return found


def parse_value(text: str, name: str, table: Table) -> object:
    """Return the value of an assignment in the form that `update` and `merge` accept."""
    if text.strip().upper() != DEFAULT:
        return to_column(text)
    target = WriteTarget.of(table._metadata)
    fields = {field.name.casefold(): field for field in target.schema.fields}
    return default_of(fields[name.casefold()] if name.casefold() in fields else target.schema.column(name))


def parse_column(text: str, path: tuple[str, ...] = (), alias: str | None = None) -> str:
    """Return the column named by a text, which may begin with the name of its table."""
    words = Statement(text)
    names = words.path()
    words.end()
    found = count_qualifier(names, path, alias)
    names = names[found:]
    if len(names) != 1:
        raise Unsupported(f"setting {'.'.join(names)}, which is a member of a column,", hint="set the whole column")
    return names[0]


def count_qualifier(names: tuple[str, ...], path: tuple[str, ...], alias: str | None) -> int:
    """Return how many leading parts of a name are the table's name."""
    folded = tuple(name.casefold() for name in names)
    for one in [path[at:] for at in range(len(path))] if alias is None else [(alias,)]:
        if len(folded) > len(one) and folded[: len(one)] == tuple(name.casefold() for name in one):
            return len(one)
    return 0


def strip_qualifier(text: str, path: tuple[str, ...], alias: str | None) -> str:
    """Remove the table's name before columns from an expression."""

    def prefix(names: tuple[str, ...]) -> tuple[int, str] | None:
        length = count_qualifier(names, path, alias)
        return (length, "") if length else None

    return rewrite_qualifiers(text, prefix)


def make_side_qualifier(
    path: tuple[str, ...], here: str | None, source: tuple[str, ...], there: str | None
) -> Callable[[str], str]:
    """Return the function that renames the sides of a merge in an expression to `merge`'s names.

    Args:
        path, source: the names of both sides in the statement; `source` is empty for a query.
        here, there: their aliases.
    """

    def prefix(names: tuple[str, ...]) -> tuple[int, str] | None:
        length = count_qualifier(names, source, there)
        if length:
            return length, f"{SOURCE}."
        length = count_qualifier(names, path, here)
        return (length, f"{TARGET}.") if length else None

    return lambda text: rewrite_qualifiers(text, prefix)


def parse_condition(words: Statement, path: tuple[str, ...], alias: str | None, command: str) -> str | None:
    """Parse the rest of a statement; return its condition, or None."""
    if not words.has("WHERE"):
        words.end()
        return None
    return refuse_subquery(strip_qualifier(words.rest(), path, alias), command)


def refuse_subquery(text: str, command: str) -> str:
    """Return an expression. Raises `Unsupported` if it contains a query."""
    if Statement(text).has_subquery():
        raise Unsupported(f"a subquery in {command} here", hint="join its rows by MERGE INTO ... USING (query)")
    return text


def to_column(text: str) -> Column:
    """Return an expression in Spark's SQL as a column."""
    from pyspark.sql import functions

    return functions.expr(text)
