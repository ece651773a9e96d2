"""INSERT, DELETE, UPDATE, TRUNCATE and MERGE INTO, as the DataFrame calls `write`, `delete`, `update` and `merge`.

Names in expressions of a statement are rewritten to the form that these calls accept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.names import SOURCE, TARGET, reserve_name
from morrow.engine.plan.filter import parse_filter
from morrow.spark.statements.queries import Session, query
from morrow.spark.statements.tokens import SparkWords, replace_parts, rewrite_qualifiers
from morrow.spark.types import format_spark_default, to_spark_type
from morrow.spark.writing.assignments import assign_columns, default_of, resolve_columns
from morrow.spark.writing.changes import update
from morrow.spark.writing.delete import delete
from morrow.spark.writing.merge import Merge, make_side_column, merge
from morrow.spark.writing.schema_evolution import Evolution
from morrow.spark.writing.write import is_overwriting_dynamically, write
from morrow.statements.dml_parser import UNMATCHED_BY_SOURCE
from morrow.statements.statement import Delete, Insert, MergeInto, Name, Truncate, Update, Values, When
from morrow.writers.operations.update import is_of_partitions
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from morrow.engine.format.types import DataField
    from morrow.tables.table import Table


def insert(session: Session, statement: Insert) -> None:
    table = session.table(statement.table)
    static = evaluate_partition(session, statement.partition)
    columns, where = statement.columns, statement.replace_where
    if statement.evolves:
        is_plain = not (static or statement.overwrite or where)
        _write_evolving(query(session, statement.query), table, plain=is_plain)
        return
    names = _list_columns(table, static, columns, session.spark)
    rows = query(session, replace_defaults(statement.query, table, names))
    rows = _to_columns(rows, table, static, columns, by_name=statement.by_name)
    if where is not None:
        condition = strip_qualifier(where, statement.table, None)
        write(_add_constants(rows, table, static), table, "overwrite", replace_where=condition)
        return
    if not statement.overwrite:
        write(_add_constants(rows, table, static), table)
        return
    dynamic = bool(is_overwriting_dynamically(session.spark))
    write(rows, table, "overwrite", partition=static or None, dynamic=dynamic)


def _write_evolving(rows: DataFrame, table: Table, *, plain: bool) -> None:
    if not plain:
        raise Unsupported("INSERT WITH SCHEMA EVOLUTION other than INTO a table BY NAME here")
    write(rows, table, merge_schema=Evolution(widens=True))


def evaluate_partition(session: Session, partition: Values) -> dict[str, str | None]:
    """Return the values of partition columns as text, None for columns without a value."""
    return {
        name: None if text is None else session.spark.sql(f"SELECT CAST({text} AS STRING)").collect()[0][0]
        for name, text in partition.items()
    }


def _to_columns(
    rows: DataFrame, table: Table, static: Mapping[str, object], columns: Sequence[str] | None, *, by_name: bool
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
    table: Table, static: Mapping[str, object], columns: Sequence[str] | None, spark: SparkSession
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
    words = SparkWords(text)
    if not words.has("VALUES") or all(token.text.upper() != DEFAULT for token in words.tokens):
        return text
    fields = WriteTarget.of(table._metadata).schema.by_name
    parts: dict[tuple[int, int], str] = {}
    while words.next is not None:
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


def delete_rows(session: Session, statement: Delete) -> None:
    if statement.source is not None:
        raise Unsupported("DELETE ... USING here", hint=JOINED)
    table = session.table(statement.table)
    condition = build_condition(statement)
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


def update_rows(session: Session, statement: Update) -> None:
    if statement.source is not None:
        raise Unsupported("UPDATE ... FROM here", hint=JOINED)
    path, alias = statement.table, statement.alias
    table = session.table(path)
    values = build_assignments(statement.set, table, lambda text: strip_qualifier(text, path, alias), path, alias)
    condition = build_condition(statement)
    update(session.spark, table, set=values, where=None if condition is None else to_column(condition))


def truncate(session: Session, statement: Truncate) -> None:
    table = session.table(statement.table)
    if statement.partition is None:
        table.truncate()
    else:
        table.drop_partition(evaluate_partition(session, statement.partition))


def merge_rows(session: Session, statement: MergeInto) -> None:
    if statement.evolves:
        raise Unsupported("MERGE WITH SCHEMA EVOLUTION here", hint="add the columns by ALTER TABLE")
    if statement.source_columns:
        raise Unsupported("MERGE with names of the source's columns here", hint="name the columns in the query")
    path, here, there = statement.table, statement.alias, statement.source_alias
    table = session.table(path)
    words = SparkWords(statement.source)
    names = () if words.comes("(") else words.path()
    source = query(session, f"SELECT * FROM {statement.source}")
    name = here or path[-1]
    if (there or "".join(names[-1:])).casefold() == name.casefold():
        raise InvalidArgument(f"MERGE INTO {'.'.join(path)}: both sides are called {name!r}; give one of them an alias")
    sided = make_side_qualifier(path, here, names, there)
    made = merge(source, table, on=to_column(refuse_subquery(sided(statement.on), "MERGE")))
    for clause in statement.clauses:
        made = _add_clause(made, clause, table, sided, path, here)
    made.execute()


def _add_clause(
    made: Merge,
    clause: When,
    table: Table,
    sided: Callable[[str], str],
    path: tuple[str, ...],
    alias: str | None,
) -> Merge:
    condition = None
    if clause.condition is not None:
        condition = to_column(refuse_subquery(sided(clause.condition), "MERGE"))
    by_source = clause.when == UNMATCHED_BY_SOURCE
    if clause.action == "delete":
        return made.when_not_matched_by_source_delete(condition) if by_source else made.when_matched_delete(condition)
    if clause.set is None:
        names = WriteTarget.of(table._metadata).schema.by_name
        values: dict[str, object] = {name: make_side_column(SOURCE, name) for name in names}
    else:
        if any(not column for column, _ in clause.set):
            raise Unsupported("INSERT without columns in MERGE here", hint="name the columns")
        values = build_assignments(clause.set, table, sided, path, alias)
    if clause.action == "insert":
        return made.when_not_matched_insert(values, condition)
    if by_source:
        return made.when_not_matched_by_source_update(values, condition)
    return made.when_matched_update(values, condition)


JOINED = "MERGE INTO ... USING joins rows of others"
DEFAULT = "DEFAULT"


def build_assignments(
    given: Sequence[tuple[Name, str]],
    table: Table,
    told: Callable[[str], str],
    path: tuple[str, ...],
    alias: str | None,
) -> dict[str, object]:
    """Return the values of ``column = value`` by column, rewritten by `told`."""
    found: dict[str, object] = {}
    for names, text in given:
        name = find_column(names, path, alias)
        if name in found:
            raise InvalidArgument(f"{table.path}: {name!r} is set twice")
        found[name] = parse_value(refuse_subquery(told(text), "SET"), name, table)
    return found


def parse_value(text: str, name: str, table: Table) -> object:
    """Return the value of an assignment in the form that `update` and `merge` accept."""
    if text.strip().upper() != DEFAULT:
        return to_column(text)
    target = WriteTarget.of(table._metadata)
    fields = {field.name.casefold(): field for field in target.schema.fields}
    return default_of(fields[name.casefold()] if name.casefold() in fields else target.schema.column(name))


def find_column(names: Name, path: tuple[str, ...], alias: str | None) -> str:
    """Return the column of a name, which may begin with the name of its table."""
    names = names[count_qualifier(names, path, alias) :]
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


def build_condition(statement: Delete | Update) -> str | None:
    """Return the condition of a statement without the name of its table, or None."""
    if statement.where is None:
        return None
    return refuse_subquery(strip_qualifier(statement.where, statement.table, statement.alias), statement.kind)


def refuse_subquery(text: str, command: str) -> str:
    """Return an expression. Raises `Unsupported` if it contains a query."""
    if SparkWords(text).has_subquery():
        raise Unsupported(f"a subquery in {command} here", hint="join its rows by MERGE INTO ... USING (query)")
    return text


def to_column(text: str) -> Column:
    """Return an expression in Spark's SQL as a column."""
    from pyspark.sql import functions

    return functions.expr(text)
