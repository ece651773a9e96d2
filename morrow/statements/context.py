"""The session of `Catalog.sql` and the context of its statements: options, columns, expressions and subqueries.

Expressions are sqlglot trees. This module also resolves their columns and replaces subqueries with values.

Options apply to the reads and writes of later statements, as by `Table.with_options`: ``scan.snapshot-id`` to all
tables, ``paimon.database.table.scan.snapshot-id`` to one. A session ends with its `Catalog`; nothing is stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.catalog.settings import CATALOG_TYPE
from morrow.engine.errors import (
    AlreadyExists,
    ColumnNotFound,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    Unsupported,
)
from morrow.engine.options import Options
from morrow.engine.options.table_options import OPTIONS, find_present_key
from morrow.engine.options.table_settings import ANY, match_settings, split_setting, strip_prefix
from morrow.engine.plan.filter.sql_parsing import describe_problem, run_with_stack
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.redaction import suggest_name
from morrow.engine.structs import replace
from morrow.queries.dialect import NOT_CONSTANT, Dialect, Node, find_parameter, make_literal
from morrow.queries.query import Prepared, Sources, make_relation, prepare_query
from morrow.readers.expressions.sql import SESSION
from morrow.statements import statement as st
from morrow.tables.table import Table
from morrow.writers.target import READ_OPTION_KEYS, WRITE_OPTION_KEYS, check_write_options

if TYPE_CHECKING:
    import duckdb

    from morrow.engine.catalog.databases import Database
    from morrow.engine.catalog.protocol import Function, View
    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.format.types import DataType
    from morrow.engine.plan.filter import FilterLike
    from morrow.engine.schema.columns import SchemaLike
    from morrow.scans.system_tables import SystemScan
    from morrow.statements.sources import CatalogSources
    from morrow.tables.format_table import FormatTable
    from morrow.tables.table_operations import CompactedTable

DEFAULT_CATALOG = "default_catalog"
"""The name of the catalog that the session began with, as in Flink."""
DEFAULT_DATABASE = "default"
FORM = "paimon.<database>.<table>.<option>"

S = TypeVar("S", bound=st.Statement)


@dataclass
class SqlSession:
    """The state that one statement leaves to the next.

    Args:
        sources: the catalogs by name. open_catalog: opens a catalog by its options.
        current: the name of the current catalog. database: the database of the last USE.
        settings: the values of SET by their keys.
    """

    sources: dict[str, CatalogSources]
    open_catalog: Callable[[Mapping[str, str]], CatalogSources]
    current: str = DEFAULT_CATALOG
    database: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def find_catalog(self, name: str) -> CatalogSources:
        """Return a catalog by its name. Raises `InvalidArgument`."""
        if name not in self.sources:
            hint = suggest_name(name, self.sources)
            raise InvalidArgument(f"there is no catalog {name!r}; {hint}there are {', '.join(self.sources)}")
        return self.sources[name]

    def select_options(self, catalog: Warehouse, table: str) -> dict[str, str]:
        """Return the options of SET for the table ``database.table`` of a catalog."""
        if not self.settings:
            return {}
        given = {strip_prefix(key): value for key, value in self.settings.items()}
        name = next((name for name, each in self.sources.items() if each.catalog is catalog), ANY)
        own = tuple(table.split(".", 1))
        return {option: given[key] for option, key in match_settings(given, (name, *own), own).items()}

    def select_write_options(self, catalog: Warehouse, table: str) -> dict[str, str]:
        """Return the options of SET for writes of a table."""
        given = self.select_options(catalog, table)
        return {key: value for key, value in given.items() if find_present_key(key) in WRITE_OPTION_KEYS}


def set_option(context: Context, statement: st.SetOption) -> duckdb.DuckDBPyRelation:
    """Set an option of the session, or show one or all of them."""
    settings = context.session.settings
    if statement.key is None:
        return context.make_rows(key=list(settings), value=list(settings.values()))
    if statement.value is None:
        if statement.key not in settings:
            _split_key(statement.key)
            raise InvalidArgument(f"SET {statement.key}: the option is not set; write SET '{statement.key}' = 'value'")
        return context.make_rows(key=[statement.key], value=[settings[statement.key]])
    _check_setting(context.session, statement.key, statement.value)
    settings[statement.key] = statement.value
    return context.make_rows(key=[statement.key], value=[statement.value])


def _check_setting(session: SqlSession, key: str, value: str) -> None:
    """Refuse an unknown option, a value that does not parse, and an option that belongs to stored tables."""
    names, option = _split_key(key)
    if len(names) == 3 and names[0] != ANY:
        session.find_catalog(names[0])
    elif len(names) not in (0, 2, 3):
        raise InvalidArgument(f"SET {key}: name the table; write {FORM}")
    check_write_options([option], READ_OPTION_KEYS | WRITE_OPTION_KEYS)
    Options({option: value}, f"SET {key}").get(OPTIONS[find_present_key(option)])


def _split_key(key: str, verb: str = "SET") -> tuple[tuple[str, ...], str]:
    split = split_setting(strip_prefix(key))
    if split is None:
        hint = suggest_name(strip_prefix(key), OPTIONS)
        others = "set options of DuckDB by its connection; those of Flink and Spark have no effect here"
        raise Unsupported(f"{verb} {key}, which is not an option of reads or writes of tables,", hint=hint + others)
    return split


def reset_option(context: Context, statement: st.ResetOption) -> duckdb.DuckDBPyRelation:
    """Remove one or all options of the session."""
    if statement.key is None or statement.key.upper() == "ALL":
        context.session.settings.clear()
        return context.did("reset all options")
    _split_key(statement.key, "RESET")
    settings, option = context.session.settings, strip_prefix(statement.key)
    for key in [each for each in settings if strip_prefix(each) == option]:
        del settings[key]
    return context.did(f"reset {statement.key}")


def create_catalog(context: Context, statement: st.CreateCatalog) -> duckdb.DuckDBPyRelation:
    """Open a catalog by its options, under a name of the session."""
    sources, name = context.session.sources, statement.catalog
    if name in sources:
        if statement.if_not_exists:
            return context.did(f"left the catalog {name}, which exists")
        raise AlreadyExists(f"the session has a catalog {name!r}; DROP CATALOG removes it from the session")
    if not statement.options:
        hint = f"WITH ('{CATALOG_TYPE.key}' = 'paimon', 'warehouse' = '...')"
        raise InvalidArgument(f"CREATE CATALOG {name} needs options: {hint}")
    sources[name] = context.session.open_catalog(statement.options)
    return context.did(f"created the catalog {name}")


def drop_catalog(context: Context, statement: st.DropCatalog) -> duckdb.DuckDBPyRelation:
    """Remove a catalog from the session. Its tables stay."""
    session, name = context.session, statement.catalog
    if statement.if_exists and name not in session.sources:
        return context.did(f"there was no catalog {name}")
    session.find_catalog(name)
    if name == session.current or name == DEFAULT_CATALOG:
        what = "the current catalog; USE another one first" if name == session.current else "the session's own catalog"
        raise InvalidArgument(f"DROP CATALOG {name}: it is {what}")
    del session.sources[name]
    return context.did(f"removed the catalog {name} from the session")


def use(context: Context, statement: st.Use) -> duckdb.DuckDBPyRelation:
    """Choose the current catalog, database, or both (``USE catalog.database``)."""
    name, session = statement.database, context.session
    is_catalog = statement.word == "CATALOG"
    if not is_catalog and statement.word is None and len(name) == 1 and name[0] in session.sources:
        is_catalog = name[0] not in context.catalog.databases()
    if is_catalog:
        _use_catalog(context, name[0])
        databases = context.catalog.databases()
        context.database = DEFAULT_DATABASE if DEFAULT_DATABASE in databases else None
        return context.did(f"use catalog {name[0]}")
    if len(name) > 2:
        raise InvalidArgument(f"USE {st.format_name(name)}: write USE catalog.database")
    catalog = session.find_catalog(name[0]).catalog if len(name) == 2 else context.catalog
    if name[-1] not in catalog.databases():
        known = "" if len(name) == 2 else f"; catalogs are {', '.join(session.sources)}"
        raise DatabaseNotFound(f"there is no database {st.format_name(name)}{known}")
    if len(name) == 2:
        _use_catalog(context, name[0])
    context.database = name[-1]
    return context.did(f"use {st.format_name(name)}")


def _use_catalog(context: Context, name: str) -> None:
    found = context.session.find_catalog(name)
    context.session.current = name
    context.catalog, context.sources = found.catalog, found


LENGTHS: Mapping[str, int] = {
    **dict.fromkeys(("table", "to", "view", "source", "procedure"), 2),
    "database": 1,
    "path": 3,
}
"""The field of a statement with a name -> the parts of a name without its catalog."""
FORMS = ("the name of a catalog", "database", "database.table", "database.table.column")
"""The form of a name by its number of parts."""
OF_DATABASES = ("databases", "tables", "views", "functions", "table extended")
"""What SHOW shows of a database, or of a catalog."""


def resolve_catalog(context: Context, statement: S) -> tuple[Context, S]:
    """Return the statement without the catalog in its names, and the context with this catalog.

    Queries inside of the statement still read the current catalog.

    Raises `InvalidArgument` for an unknown catalog, and for names in two catalogs.
    """
    if isinstance(statement, st.Use):
        return context, statement
    if isinstance(statement, st.Explain):
        inner, plain = resolve_catalog(context, statement.statement)
        return inner, replace(statement, statement=plain)
    found: dict[str, st.Name] = {}
    for each in fields(statement):
        name = getattr(statement, each.name)
        most = _count_parts(statement, each.name)
        if most is not None and isinstance(name, tuple) and len(name) > most:
            found[each.name] = name
    catalogs = {name[0] for name in found.values()}
    if not found:
        return context, statement
    for field_name, name in found.items():
        most = _count_parts(statement, field_name) or 0
        if len(name) > most + 1 or name[0] not in context.session.sources:
            form = "CALL sys.name(...)" if field_name == "procedure" else FORMS[most]
            known = f"catalogs of this session are {', '.join(context.session.sources)}"
            raise InvalidArgument(
                f"{statement.kind} {st.format_name(name)}: the name has {len(name)} parts; write {form}; {known}"
            )
    if len(catalogs) > 1:
        raise InvalidArgument(f"{statement.kind} of two catalogs: {' and '.join(sorted(catalogs))}")
    [catalog] = catalogs
    there = context.session.find_catalog(catalog)
    plain_names = {field_name: name[1:] for field_name, name in found.items()}
    return replace(context, catalog=there.catalog, prefix=(catalog,)), replace(statement, **plain_names)


def _count_parts(statement: st.Statement, field_name: str) -> int | None:
    """Return how many parts a name has without its catalog; None for other fields."""
    if isinstance(statement, st.Show) and field_name == "name":
        if statement.what == "databases":
            return 0
        return 1 if statement.what in OF_DATABASES else 2
    if field_name == "path" and not isinstance(statement, st.CommentColumn):
        return None
    return LENGTHS.get(field_name)


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
    prefix: st.Name = ()
    """The catalog that the statement names, if it is not the current one; `catalog` is this catalog."""

    # Names

    def full_name(self, name: st.Name) -> str:
        """Return ``database.table``. Raises `InvalidArgument` for a name of another form."""
        if len(name) == 1 and self.database is not None:
            return f"{self.database}.{name[0]}"
        if len(name) == 1:
            raise InvalidArgument(f"{name[0]!r}: in which database? Write database.table, or USE a database first")
        if len(name) > 2 or "." in name[0]:
            raise InvalidArgument(f"{st.format_name(name)!r} is not a table name here; write database.table")
        return ".".join(name)

    def plain_name(self, name: st.Name, what: str) -> str:
        """Return ``database.table``. Raises `InvalidArgument` for a branch or a system table."""
        full = self.full_name(name)
        found = parse_object_name(full)
        if found.branch is not None or found.system is not None:
            raise InvalidArgument(f"{what}: {full!r} is not a table itself")
        return full

    def table(self, name: st.Name) -> Table:
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

    def format_table(self, name: st.Name) -> FormatTable | None:
        """Open a format table; None for another kind of table, or if the catalog does not support them."""
        try:
            return self.catalog.format_table(self.full_name(name))
        except (InvalidArgument, Unsupported):
            return None

    def database_of(self, name: st.Name) -> str:
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
            raise InvalidArgument(f"{what}: {text!r} is not a constant")
        with duckdb.connect(config=SESSION) as apart:
            apart.execute("SET TimeZone = 'UTC'")
            try:
                found = apart.execute(exp.select(tree).sql(dialect=DuckDB)).fetchone()
            except duckdb.Error as error:
                raise InvalidArgument(f"{what}: {text!r}: {str(error).splitlines()[0]}") from error
        assert found is not None  # a SELECT without FROM returns one row
        return found[0]

    def partition(self, given: st.Values, what: str) -> dict[str, object]:
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

    Raises `DependsOnRows`: a subquery is correlated or too large. `InvalidArgument`: more than one row or column.
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
