"""The context of statements: catalog, current database, DuckDB connection and parameter values.

Expressions are sqlglot trees. This module also resolves their columns and replaces subqueries with values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.errors import ColumnNotFound, InvalidArgument, MorrowError, Unsupported
from morrow.engine.plan.filter.sql_parsing import describe_problem, run_with_stack
from morrow.engine.plan.time_travel import TravelArguments
from morrow.queries.dialect import NOT_CONSTANT, Dialect, Node, find_parameter, make_literal
from morrow.queries.query import Prepared, Sources, make_relation, prepare_query
from morrow.readers.expressions.sql import SESSION
from morrow.statements.sessions import SqlSession
from morrow.statements.statement import Name, Values, format_name
from morrow.tables.table import Table

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from morrow.engine.catalog.databases import Database
    from morrow.engine.catalog.protocol import Function, View
    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.format.types import DataType
    from morrow.engine.plan.filter import FilterLike
    from morrow.engine.schema.columns import SchemaLike
    from morrow.scans.system_tables import SystemScan
    from morrow.tables.format_table import FormatTable
    from morrow.tables.table_operations import CompactedTable


class Warehouse(Protocol):
    """The methods of `Catalog` that statements call."""

    @property
    def warehouse(self) -> str: ...
    def databases(self) -> list[str]: ...
    def tables(self, database: str) -> list[str]: ...
    def table(self, name: str, *, branch: str | None = None) -> Table: ...
    def format_table(self, name: str) -> FormatTable: ...
    def system(self, name: str, **at: Unpack[TravelArguments]) -> SystemScan: ...
    def database(self, name: str) -> Database: ...
    def create_database(
        self, name: str, *, properties: Mapping[str, object] | None = None, ignore_if_exists: bool = False
    ) -> None: ...
    def alter_database(
        self, name: str, properties: Mapping[str, object] | None = None, *, unset: str | Sequence[str] = ()
    ) -> None: ...
    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None: ...
    def create_table(
        self,
        name: str,
        *,
        schema: SchemaLike,
        primary_keys: str | Sequence[str] = (),
        partition_keys: str | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> Table: ...
    def create_format_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        format: str = ...,
        partition_keys: str | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> FormatTable: ...
    def views(self, database: str) -> list[str]: ...
    def view(self, name: str) -> View: ...
    def create_view(
        self,
        name: str,
        query: str,
        *,
        comment: str | None = None,
        options: Mapping[str, object] | None = None,
        ignore_if_exists: bool = False,
        replace: bool = False,
    ) -> View: ...
    def replace_view(self, name: str, view: View, *, new_name: str | None = None) -> View: ...
    def drop_view(self, name: str, *, ignore_if_not_exists: bool = False) -> None: ...
    def functions(self, database: str) -> list[str]: ...
    def function(self, name: str) -> Function: ...
    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None: ...
    def rename_table(self, name: str, new_name: str) -> Table: ...
    def check_replaceable(self) -> None: ...
    def begin_replacement(self, name: str, schema: SchemaLike, **described: Any) -> Table: ...
    def publish_replacement(self, name: str, branch: str) -> Table: ...
    def replace_table(self, name: str, by: str) -> Table: ...
    def copy_table(self, source: str | Table, name: str, *, where: FilterLike | None = None) -> Table: ...
    def clone_parquet(
        self, folder: str | os.PathLike[str], name: str, *, options: Mapping[str, object] | None = None
    ) -> Table: ...
    def compact(
        self,
        *,
        databases: str | None = None,
        including: str | None = None,
        excluding: str | None = None,
        full: bool = False,
    ) -> list[CompactedTable]: ...


@dataclass
class Context:
    """The context shared by the statements of a text, which run one by one."""

    catalog: Warehouse
    sources: Sources
    connection: duckdb.DuckDBPyConnection
    database: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    session: SqlSession = field(kw_only=True)
    prefix: Name = ()
    """The catalog that the statement names, if it is not the current one; `catalog` is this catalog."""

    # Names

    def full_name(self, name: Name) -> str:
        """Return ``database.table``. Raises `InvalidArgument` for a name of another form."""
        if len(name) == 1 and self.database is not None:
            return f"{self.database}.{name[0]}"
        if len(name) == 1:
            raise InvalidArgument(f"{name[0]!r}: in which database? Write database.table, or USE a database first")
        if len(name) > 2 or "." in name[0]:
            raise InvalidArgument(f"{format_name(name)!r} is no name of a table here; write database.table")
        return ".".join(name)

    def plain_name(self, name: Name, what: str) -> str:
        """Return ``database.table``. Raises `InvalidArgument` for a branch or a system table."""
        full = self.full_name(name)
        found = parse_object_name(full)
        if found.branch is not None or found.system is not None:
            raise InvalidArgument(f"{what}: {full!r} is no table itself")
        return full

    def table(self, name: Name) -> Table:
        """Open a table, or a branch of it. Raises `InvalidArgument` for a system table, others as `Catalog.table`."""
        full = self.full_name(name)
        found = parse_object_name(full)
        if found.system is not None:
            raise InvalidArgument(f"{full!r} is a system table; it is only read")
        return self.open_table(found.table, found.branch)

    def open_table(self, name: str, branch: str | None = None) -> Table:
        """Open ``database.table`` with the session's options for writes. Raises as `Catalog.table`."""
        table = self.catalog.table(name, branch=branch)
        options = self.session.select_write_options(self.catalog, name)
        return table.with_options(options) if options else table

    def format_table(self, name: Name) -> FormatTable | None:
        """Open a format table; None for another kind of table, or if the catalog does not support them."""
        try:
            return self.catalog.format_table(self.full_name(name))
        except (InvalidArgument, Unsupported):
            return None

    def database_of(self, name: Name) -> str:
        """Return the named database, or the current one."""
        if name:
            return name[0]
        if self.database is None:
            known = ", ".join(self.catalog.databases()) or "none"
            raise InvalidArgument(f"in which database? Write IN database, or USE one first; there are: {known}")
        return self.database

    # Queries and values

    def prepared(self, query: str) -> Prepared:
        """Prepare a query, with parameters replaced by literals."""
        return prepare_query(
            query,
            self.sources,
            database=self.database,
            connection=self.connection,
            parameters=self.parameters,
            literals=True,
        )

    def rows(self, query: str) -> pa.Table:
        """Return the rows of a query as an Arrow table. Raises as `make_relation` if DuckDB fails."""
        return make_relation(self.prepared(query), self.connection).to_arrow_table()

    def expression(self, text: str, what: str) -> Node:
        """Parse an expression, and replace its parameters with literals."""
        try:
            tree = run_with_stack(lambda: sqlglot.parse_one(text, into=exp.Condition, dialect=Dialect), text, what)
        except SqlglotError as error:
            raise InvalidArgument(f"{what}: {text!r} does not parse{describe_problem(error)}") from None
        holder = exp.Paren(this=tree)
        for placeholder in list(holder.find_all(exp.Placeholder)):
            placeholder.replace(make_literal(find_parameter(placeholder, self.parameters)))
        return holder.this

    def constant(self, text: str, what: str) -> Any:
        """Evaluate an expression of constants, in a DuckDB without tables and file access."""
        import duckdb

        tree = self.expression(text, what)
        if tree.find(*NOT_CONSTANT) is not None:
            raise InvalidArgument(f"{what}: {text!r} is no constant")
        with duckdb.connect(config=SESSION) as apart:
            apart.execute("SET TimeZone = 'UTC'")
            try:
                found = apart.execute(exp.select(tree).sql(dialect=DuckDB)).fetchone()
            except duckdb.Error as error:
                raise InvalidArgument(f"{what}: {text!r}: {str(error).splitlines()[0]}") from error
        assert found is not None  # a SELECT without FROM returns one row
        return found[0]

    def partition(self, given: Values, what: str) -> dict[str, object]:
        """Evaluate the values of partition columns."""
        return {name: self.constant(text, f"{what} {name}") for name, text in given.items() if text is not None}

    def zone(self) -> str:
        """Return the time zone of the connection. Raises as `make_relation` while the connection has an open result."""
        query = Prepared("SELECT current_setting('TimeZone') AS zone", {}, {})
        return str(make_relation(query, self.connection).fetchall()[0][0])

    def relation(self, rows: pa.Table) -> duckdb.DuckDBPyRelation:
        from morrow.readers.execution.duckdb_relation import make_relation

        return make_relation(rows, self.connection)

    def make_rows(self, **columns: Sequence[str | None]) -> duckdb.DuckDBPyRelation:
        """Return columns of text as a relation."""
        import pyarrow as pa

        return self.relation(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}))

    def did(self, deed: str) -> duckdb.DuckDBPyRelation:
        """Return the result of a statement that changes tables: one row that reports what was done."""
        return self.make_rows(done=[deed])


def default_connection() -> duckdb.DuckDBPyConnection:
    """Return DuckDB's default connection. It is set to UTC, as filters use, unless the user has SET a TimeZone."""
    import duckdb

    from morrow.readers.execution.duckdb_relation import check_connection

    connection = check_connection(None)
    with suppress(duckdb.InvalidInputException), connection.cursor() as cursor:  # raises if its settings are locked
        cursor.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


MAX_VALUES = 100_000
"""Maximum values of a subquery, since they become a list in the condition."""


class DependsOnRows(Exception):
    """Raised if a subquery cannot be replaced by values: it reads the target's columns, or returns too many."""

    def __init__(self, error: MorrowError) -> None:
        super().__init__(str(error))
        self.error = error
        """The error to raise if the statement cannot evaluate the subquery for each row."""


def parse_expression(context: Context, text: str, what: str) -> Node:
    """Parse an expression below a parent node, so that every part of it can be replaced."""
    return exp.Paren(this=context.expression(text, what))


def render_expression(holder: Node) -> str:
    return str(run_with_stack(lambda: holder.this.sql(dialect=DuckDB), "", "the statement"))


def bind_expression(context: Context, text: str, what: str) -> str:
    """Return an expression in DuckDB's SQL, with parameters replaced by literals."""
    return render_expression(parse_expression(context, text, what))


UTC = frozenset(
    ("UTC", "Etc/UTC", "UCT", "Etc/UCT", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal")
)
INSTANTS = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.UnixToTime)
NOW = frozenset(("now", "get_current_timestamp", "transaction_timestamp", "make_timestamptz"))
COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def check_zone(context: Context, tree: Node, what: str, zoned: Collection[str], others: Collection[str] = ()) -> None:
    """Refuse an expression with instants if the session is not in UTC, since statements evaluate it in UTC.

    Instants that are only copied, or compared with each other, do not depend on the time zone.

    Args:
        zoned: columns that contain instants. others: other columns, of either side.
    """
    names = {name.lower() for name in zoned}
    sure = names - {name.lower() for name in others}
    kinds = exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ
    has_instant = (
        tree.find(*INSTANTS) is not None
        or any(node.this in kinds for node in tree.find_all(exp.DataType))
        or any(node.name.lower() in NOW for node in tree.find_all(exp.Anonymous))
    )
    used = (node for node in tree.find_all(exp.Identifier) if node.name.lower() in names)
    if not has_instant and all(_is_alike(node, sure) for node in used):
        return
    zone = context.zone()
    if zone not in UTC:
        hint = "SET TimeZone = 'UTC' in it, or pass no connection"
        raise Unsupported(f"{what}: a change by instants while the connection's TimeZone is {zone},", hint=hint)


def _is_alike(column: Node, instants: Collection[str]) -> bool:
    """Return whether the use of an instant column is independent of the time zone."""
    while isinstance(column.parent, (exp.Column, exp.Dot, exp.Paren)):
        column = column.parent
    parent = column.parent
    if isinstance(parent, COMPARED):
        sides = (parent.this.unnest(), parent.expression.unnest())
        return all(isinstance(s, (exp.Column, exp.Dot)) and s.output_name.lower() in instants for s in sides)
    return parent is None or isinstance(parent, exp.Is)


def has_instants(type: DataType | pa.DataType) -> bool:
    """Return whether values of a Paimon or Arrow type are or contain instants."""
    return re.search(r"LOCAL TIME ZONE|tz=", str(type)) is not None


def is_inside(node: Node, kind: type) -> bool:
    return node.find_ancestor(kind) is not None


def build_path(parts: Sequence[Node]) -> Node:
    first, *rest = (part.copy() for part in parts)
    column: Node = exp.Column(this=first)
    for part in rest:
        column = exp.Dot(this=column, expression=part)
    return column


def replace_subqueries(context: Context, tree: Node, what: str) -> None:
    """Replace subqueries with their values, which are computed once when the statement begins.

    Raises:
        DependsOnRows: a subquery is correlated or too large. InvalidArgument: more than one row or column.
    """
    while (node := tree.find(exp.Query)) is not None:
        parent = node.parent
        if isinstance(parent, exp.In) and parent.args.get("query") is not None:
            values = _evaluate_subquery(context, node, what)
            parent.set("query", None)
            parent.set("expressions", [make_literal(value) for value in values] or [exp.null()])
            if not values:  # IN an empty list is false, even for null
                parent.replace(exp.Boolean(this=False))
        elif isinstance(parent, exp.Exists):
            rows = _run_subquery(context, f"SELECT 1 FROM ({_render_node(node)}) LIMIT 1")
            parent.replace(exp.Boolean(this=rows.num_rows > 0))
        elif isinstance(parent, (exp.Any, exp.All)):
            raise DependsOnRows(Unsupported(f"ANY and ALL of a subquery, {what}", hint="use IN, or MERGE INTO"))
        else:
            values = _evaluate_subquery(context, node, what)
            if len(values) > 1:
                raise InvalidArgument(f"{what}: a subquery returns {len(values)} rows where one value is expected")
            node.replace(make_literal(values[0] if values else None))


def _render_node(node: Node) -> str:
    inner = node.this if isinstance(node, exp.Subquery) and not node.alias else node
    return str(inner.sql(dialect=DuckDB))


def _run_subquery(context: Context, query: str) -> pa.Table:
    """Return the rows of a subquery. Raises `DependsOnRows` if it is correlated or wrong."""
    try:
        return context.rows(query)
    except (ColumnNotFound, InvalidArgument) as error:
        raise DependsOnRows(error) from error


def _evaluate_subquery(context: Context, node: Node, what: str) -> list[object]:
    rows = _run_subquery(context, _render_node(node))
    if rows.num_columns != 1:
        raise InvalidArgument(f"{what}: a subquery returns {rows.num_columns} columns where one is expected")
    column = rows.column(0).unique() if rows.num_rows > 1 and isinstance(node.parent, exp.In) else rows.column(0)
    if len(column) > MAX_VALUES:
        raise DependsOnRows(Unsupported(f"a subquery of {len(column)} values, {what}", hint="use MERGE INTO"))
    return list(column.to_pylist())


def make_counts(
    context: Context, snapshot: Snapshot | None, inserted: int | None, updated: int | None, deleted: int | None
) -> duckdb.DuckDBPyRelation:
    """Return the result of a statement that changes rows: counts (null if unknown) and the snapshot."""
    values = dict(zip(COUNTS, (inserted, updated, deleted)))
    columns = {name: pa.array([value], pa.int64()) for name, value in values.items()}
    made = pa.array([None if snapshot is None else snapshot.id], pa.int64())
    return context.relation(pa.table({**columns, "snapshot": made}))


COUNTS = ("rows_inserted", "rows_updated", "rows_deleted")
