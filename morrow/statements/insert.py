"""INSERT, and queries that fill tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa
from sqlglot.dialects.duckdb import DuckDB

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import CharType, DataField, VarCharType
from morrow.engine.redaction import suggest_name
from morrow.engine.schema.defaults import parse_default
from morrow.queries.dialect import make_literal
from morrow.queries.query import Prepared, run_prepared
from morrow.readers.expressions.sql import name_type, query_errors, to_morrow_error
from morrow.statements.context import Context, bind_expression, make_counts
from morrow.statements.statement import Insert
from morrow.statements.tokens import read_words
from morrow.writers.ingest.sources import Source

if TYPE_CHECKING:
    import duckdb

    from morrow.engine.plan.filter import FilterLike
    from morrow.tables.format_table import FormatTable
    from morrow.tables.table import Table

Done = TypeVar("Done", covariant=True)

BATCH_ROWS = 1 << 17
TEXTS = (CharType, VarCharType)


class _Target(Protocol[Done]):
    """The target of a write of rows."""

    def append(self, data: object, /) -> Done: ...

    def overwrite(
        self,
        data: object,
        /,
        *,
        partition: Mapping[str, object] | None = None,
        replace_where: FilterLike | None = None,
        dynamic: bool | None = None,
    ) -> Done: ...


@dataclass
class Filling:
    """The rows of a query as the source of a write, with the number of rows read."""

    relation: duckdb.DuckDBPyRelation
    names: tuple[str, ...]
    rows: int = 0
    reader: pa.RecordBatchReader | None = None

    def __enter__(self) -> Filling:
        return self

    def __exit__(self, *_: object) -> None:
        if self.reader is not None:  # the connection is busy until the rows are read
            self.reader.close()

    @property
    def source(self) -> Source:
        return Source(self.names, self._pieces())

    def _pieces(self) -> Iterator[pa.Table]:
        try:
            self.reader = self.relation.to_arrow_reader(BATCH_ROWS)
            for batch in self.reader:
                self.rows += batch.num_rows
                yield pa.Table.from_batches([batch]).rename_columns(list(self.names))
        except query_errors() as error:
            raise to_morrow_error(error) from error


def insert(context: Context, statement: Insert) -> duckdb.DuckDBPyRelation:
    """Write the rows of a query, matching columns by position or by name."""
    try:
        table = context.table(statement.table)
    except Unsupported:
        files = context.format_table(statement.table)
        if files is None:
            raise
        return _insert_into_files(context, statement, files)
    if statement.evolves:
        found = _run(context, context.prepared(statement.query)).limit(0).to_arrow_table().schema
        add_missing_columns(table, found, found.names)
    schema = table._newest
    given = _partition(context, statement, schema)
    names = _list_columns(statement, schema, given)
    query = context.prepared(_build_query(context, statement, names, schema))
    with assign_columns(context, query, names, schema, given, by_name=statement.by_name) as filling:
        snapshot = _write_rows(context, statement, table, filling, given)
    return make_counts(context, snapshot, filling.rows, None if schema.primary_keys else 0, _count_deleted(statement))


def _insert_into_files(context: Context, statement: Insert, table: FormatTable) -> duckdb.DuckDBPyRelation:
    """Write the rows of a query to a format table."""
    if statement.evolves:
        raise Unsupported("INSERT WITH SCHEMA EVOLUTION of a format table", where=table.path)
    schema = table._table.schema
    given = _partition(context, statement, schema)
    names = _list_columns(statement, schema, given)
    query = context.prepared(_build_query(context, statement, names, schema))
    with assign_columns(context, query, names, schema, given, by_name=statement.by_name) as filling:
        _write_rows(context, statement, table, filling, given)
    return make_counts(context, None, filling.rows, 0, _count_deleted(statement))


def add_missing_columns(table: Table, columns: pa.Schema, names: Sequence[str]) -> None:
    """Add the columns of these names that a table lacks."""
    from morrow.writers.operations.append import add_columns

    there = {name.lower() for name in table._newest.by_name}
    new = [columns.field(name) for name in names if name.lower() not in there]
    if new:
        add_columns(table._metadata, pa.schema(new))


def _write_rows(
    context: Context, statement: Insert, table: _Target[Done], filling: Filling, given: Mapping[str, object]
) -> Done:
    if statement.replace_where is not None:
        condition = bind_expression(context, statement.replace_where, "REPLACE WHERE")
        return table.overwrite(filling.source, replace_where=condition)
    if statement.overwrite:
        is_static = bool(given) and None not in statement.partition.values()
        return table.overwrite(filling.source, partition=given or None, dynamic=False if is_static else None)
    return table.append(filling.source)


def _count_deleted(statement: Insert) -> int | None:
    return None if statement.loss is not None else 0


def find_column(name: str, schema: TableSchema) -> DataField:
    """Return the column of this name, ignoring case if only one column matches. Raises `ColumnNotFound`."""
    alike = [each for each in schema.by_name if each.lower() == name.lower()]
    return schema.column(alike[0] if name not in schema.by_name and len(alike) == 1 else name)


def _partition(context: Context, statement: Insert, schema: TableSchema) -> dict[str, object]:
    for name in statement.partition:
        if find_column(name, schema).name not in schema.partition_keys:
            keys = ", ".join(schema.partition_keys) or "none"
            raise InvalidArgument(f"INSERT: {name!r} is not a partition column; they are: {keys}")
    found = context.partition(statement.partition, "PARTITION")
    return {find_column(name, schema).name: value for name, value in found.items()}


def _list_columns(statement: Insert, schema: TableSchema, given: Mapping[str, object]) -> list[str]:
    if statement.columns is None:
        return [name for name in schema.by_name if name not in given]
    names = [find_column(name, schema).name for name in statement.columns]
    both = next((name for name in names if name in given), None)
    if both is not None:
        raise InvalidArgument(f"INSERT: {both!r} is in the list of columns and has a value in PARTITION")
    return names


def assign_columns(
    context: Context,
    query: Prepared,
    names: Sequence[str],
    schema: TableSchema,
    constants: Mapping[str, object],
    *,
    by_name: bool,
) -> Filling:
    """Return the rows of a query cast to the assigned columns, with constant values for further columns.

    Raises:
        InvalidArgument: the query cannot be run, or has a wrong number of columns. ColumnNotFound: matching by name,
            the table lacks a column.
    """
    import duckdb

    found = _run(context, query)
    given = [str(kind) for kind in found.types]
    if by_name:
        names = _match_columns(found.columns, names, schema)
    elif len(given) != len(names):
        raise InvalidArgument(
            f"INSERT: the query has {len(given)} columns where {len(names)} are expected: {', '.join(names)}"
        )
    aliases = [f"c{number}" for number in range(len(given))]
    values = [_cast(alias, kind, schema.by_name[name]) for alias, name, kind in zip(aliases, names, given)]
    fixed = [_make_constant(value, schema.by_name[name]) for name, value in constants.items()]
    numbered = [f"{value} AS v{number}" for number, value in enumerate([*values, *fixed])]
    text = f"SELECT {', '.join(numbered)} FROM ({query.text}\n) AS q({', '.join(aliases)})"
    relation = _run(context, Prepared(text, query.variables, {}))
    assert isinstance(relation, duckdb.DuckDBPyRelation)  # the result of a SELECT
    return Filling(relation, (*names, *constants))


def _cast(value: str, given: str, field: DataField) -> str:
    from morrow.writers.operations.expressions import is_cast

    return f"CAST({value} AS {name_type(field.type)})" if is_cast(given, field.type) else value


def _run(context: Context, query: Prepared) -> Any:
    return run_prepared(query, context.connection.sql, {})


def _make_constant(value: object, field: DataField) -> str:
    text = make_literal(value).sql(dialect=DuckDB)
    return f"CAST({text} AS {name_type(field.type)})"


def _match_columns(columns: Sequence[str], allowed: Sequence[str], schema: TableSchema) -> list[str]:
    """Return the table columns that match the columns of a query. Other columns get default values."""
    names = []
    for column in columns:
        alike = [name for name in allowed if name == column] or [n for n in allowed if n.lower() == column.lower()]
        if len(alike) != 1:
            hint = suggest_name(column, allowed)
            raise ColumnNotFound(f"INSERT BY NAME: there is no column {column!r}; {hint}there are {', '.join(allowed)}")
        names.append(alike[0])
    if len(set(names)) != len(names):
        raise InvalidArgument("INSERT BY NAME: the query has several columns of one name")
    for field in schema.fields:
        if field.name in allowed and field.name not in names and not field.type.nullable and not field.default_value:
            raise InvalidArgument(f"INSERT BY NAME: the column {field.name!r} is NOT NULL, and the query lacks it")
    return names


# VALUES


def _build_query(context: Context, statement: Insert, names: Sequence[str], schema: TableSchema) -> str:
    """Return the query of an INSERT, with the cells of VALUES cast to their columns' types.

    DEFAULT is replaced with the default value of its column. DuckDB gives each column of VALUES one type, so that
    `'01'` next to `2` would be a number. If rows write a column differently, each value is therefore cast separately.
    """
    query = statement.query
    words = read_words(query)
    if not words.comes("VALUES"):
        return query
    has_defaults = any(token.text.upper() == "DEFAULT" for token in words.tokens)
    words.need("VALUES")

    def row() -> list[str]:
        return words.enclosed(lambda: words.until(","))

    rows = words.listed(row)
    if words.next is not None and not has_defaults:
        return query  # with ORDER BY, LIMIT or UNION it is an ordinary query
    words.end()
    if any(len(each) != len(names) for each in rows):
        if not has_defaults:
            return query  # refused later for its number of columns
        raise InvalidArgument(f"INSERT: every row of VALUES needs {len(names)} values: {', '.join(names)}")
    fields = [schema.by_name[name] for name in names]
    made = [
        [find_default(field) if value.upper() == "DEFAULT" else value for field, value in zip(fields, each)]
        for each in rows
    ]
    mixed = {i for i, column in enumerate(zip(*made)) if len({*map(_guess_kind, column)} - {None}) > 1}
    if mixed:
        cells = ", ".join(f"({cell})" for each in made for cell in each)
        types = iter(map(str, _run(context, context.prepared(f"SELECT {cells}")).types))
        made = [
            [
                _cast_cell(f"({cell})", kind, fields[i]) if i in mixed else cell
                for i, (cell, kind) in enumerate(zip(each, types))
            ]
            for each in made
        ]
    elif not has_defaults:
        return query
    return "VALUES " + ", ".join(f"({', '.join(each)})" for each in made)


def _cast_cell(cell: str, given: str, field: DataField) -> str:
    """Cast a value whose column is written differently in other rows, between text and numbers."""
    is_text = given.startswith(("VARCHAR", "STRING_LITERAL")) or isinstance(field.type, TEXTS)
    return f"CAST({cell} AS {name_type(field.type)})" if is_text else _cast(cell, given, field)


def _guess_kind(value: str) -> str | None:
    """Return the kind of a literal in VALUES: text, number or something else; None for NULL."""
    if value.upper() == "NULL":
        return None
    return (
        "text"
        if value[0] == "'"
        else "number"
        if value[0] in "+-.0123456789"
        else value.split("(")[0].split(" ")[0].upper()
    )


def find_default(field: DataField) -> str:
    """Return the default value of a column as a SQL literal, NULL without one."""
    if field.default_value is None:
        return "NULL"
    value = parse_default(field.type, field.default_value, field.name).as_py()
    return f"CAST({make_literal(value).sql(dialect=DuckDB)} AS {name_type(field.type)})"
