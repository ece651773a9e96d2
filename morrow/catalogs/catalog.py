"""The class `Catalog`: tables, views and functions by name, and SQL over them.

The default catalog is a warehouse folder: ``warehouse/<database>.db/<table>``. `Catalog.sql` reads views and calls
functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import msgspec

from morrow.catalogs.administration import CatalogChanges
from morrow.engine.arguments import check_mapping, check_text
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.names import MARK, SYSTEM_DATABASE, ObjectName, parse_object_name, table_name
from morrow.engine.catalog.protocol import View, find_folder_table, replace_view, require_functions, require_views
from morrow.engine.errors import AlreadyExists, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.io.resolve import Roots, resolve, resolve_roots, to_location
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.folder_table import FORMAT_TABLE, OBJECT_TABLE
from morrow.engine.plan.time_travel import NOW, Travel, TravelArguments
from morrow.engine.redaction import clean_text, explain_missing_name, list_public_names
from morrow.scans.arguments import expose_travel_arguments
from morrow.scans.table_scan import make_scan
from morrow.session import Verify
from morrow.tables.table import Table

if TYPE_CHECKING:
    import duckdb

    from morrow.engine.catalog.protocol import Catalog as CatalogProtocol
    from morrow.engine.catalog.protocol import Function
    from morrow.readers.execution.datasets import PaimonDataset
    from morrow.scans.changes import Mode
    from morrow.scans.system_tables import SystemScan
    from morrow.statements.context import SqlSession
    from morrow.statements.tokens import Parameters
    from morrow.tables.format_table import FormatTable, ObjectTable


OTHER_NAMES = {
    "list_databases": "databases()",
    "list_namespaces": "databases()",
    "listDatabases": "databases()",
    "create_namespace": "create_database(name)",
    "drop_namespace": "drop_database(name)",
    "list_tables": "tables(database)",
    "listTables": "tables(database)",
    "list_views": "views(database)",
    "get_table": "table(name)",
    "load_table": "table(name)",
    "open_table": "table(name)",
    "getTable": "table(name)",
    "get_database": "database(name)",
    "table_exists": "`name in catalog`",
    "tableExists": "`name in catalog`",
    "scan": "table(name).scan()",
    "read": "table(name).to_polars()",
    "query": "sql(query)",
    "execute": "sql(query)",
}
"""The methods that do what methods of these names do in pypaimon, pyiceberg, DuckDB and PySpark."""


class CatalogViews:
    """The methods of `morrow.Catalog` for views and functions."""

    _catalog: CatalogProtocol

    def views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted. Raises `DatabaseNotFound`, `Unsupported`."""
        return require_views(self._catalog).views(database)

    def view(self, name: str) -> View:
        """Return the view ``database.view``: its query, the queries for other engines and its columns.

        Raises:
            DatabaseNotFound, TableNotFound. Unsupported: a catalog without views.
        """
        return require_views(self._catalog).view(name)

    def create_view(
        self,
        name: str,
        query: str,
        *,
        dialects: Mapping[str, str] | None = None,
        comment: str | None = None,
        options: Mapping[str, object] | None = None,
        ignore_if_exists: bool = False,
        replace: bool = False,
    ) -> View:
        """Create the view ``database.view`` of a query, which other engines of the catalog may read as well.

        Args:
            query: SQL as `Catalog.sql` runs it. Names without a database refer to the view's own database. Its columns
                are determined now.
            dialects: the query as other engines write it: ``{"spark": "SELECT ...", "flink": "SELECT ..."}``.
            comment, options: stored with the view.
            ignore_if_exists: return the existing view, whatever its query.
            replace: replace an existing view.

        Raises:
            AlreadyExists: a table or view has this name. InvalidArgument: the query is wrong.
            DatabaseNotFound, TableNotFound: the query reads a missing table. Unsupported: the catalog does not support
                views.
        """
        catalog = require_views(self._catalog)
        database, _ = table_name(name)
        if ignore_if_exists and name.partition(".")[2] in catalog.views(database):
            return catalog.view(name)
        from morrow.engine.schema.creation import build_first_schema

        rows = cast(Any, self).sql(check_text(query, "query"), database=database)
        made = build_first_schema(rows.limit(0).to_arrow_table().schema, where=name)
        given = {
            key: check_text(value, "a text of a dialect") for key, value in check_mapping(dialects, "dialects").items()
        }
        settings = {key: str(value) for key, value in check_mapping(options, "options").items()}
        view = View(query, made.fields, given, comment, settings)
        try:
            if replace and name.partition(".")[2] in catalog.views(database):
                replace_view(catalog, name, view)
            else:
                catalog.create_view(name, view)
        except AlreadyExists:
            if not ignore_if_exists:
                raise
        return catalog.view(name)

    def replace_view(self, name: str, view: View, *, new_name: str | None = None) -> View:
        """Replace the view ``database.view`` by a definition such as `view` returns, or move it to another name.

        Raises:
            DatabaseNotFound, TableNotFound: it does not exist. AlreadyExists: the new name exists.
            Unsupported: a catalog without views.
        """
        catalog = require_views(self._catalog)
        replace_view(catalog, name, view, new_name)
        return catalog.view(new_name or name)

    def drop_view(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a view. Raises `DatabaseNotFound`, `TableNotFound`, and `Unsupported`: a catalog without views."""
        try:
            require_views(self._catalog).drop_view(name)
        except TableNotFound:
            if not ignore_if_not_exists:
                raise

    def functions(self, database: str) -> list[str]:
        """Return the names of the functions that a REST server keeps in a database, sorted.

        Raises:
            DatabaseNotFound. Unsupported: a catalog without functions.
        """
        return require_functions(self._catalog).functions(database)

    def function(self, name: str) -> Function:
        """Return the function ``database.name`` of a REST server. `Catalog.sql` can call functions defined in SQL.

        Raises:
            DatabaseNotFound. TableNotFound: no such function. Unsupported: a catalog without functions.
        """
        return require_functions(self._catalog).function(name)

    def create_function(
        self, name: str, function: Function, *, ignore_if_exists: bool = False, replace: bool = False
    ) -> None:
        """Create the function ``database.name`` at a REST server, for all engines that know one of its definitions.

        Raises:
            DatabaseNotFound. AlreadyExists: neither `ignore_if_exists` nor `replace` is true.
            InvalidArgument: a wrong name. Unsupported: a catalog without functions.
        """
        catalog = require_functions(self._catalog)
        if replace:
            self.drop_function(name, ignore_if_not_exists=True)
        try:
            catalog.create_function(name, function)
        except AlreadyExists:
            if not ignore_if_exists:
                raise

    def alter_function(self, name: str, *changes: Mapping[str, Any]) -> None:
        """Change a function: each change has the JSON members of ``FunctionChange``.

        Raises:
            DatabaseNotFound. TableNotFound: no such function. AlreadyExists: a definition of this name.
            Unsupported: a catalog without functions.
        """
        require_functions(self._catalog).alter_function(name, changes)

    def drop_function(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a function. Raises `DatabaseNotFound`, `TableNotFound`, `Unsupported`."""
        try:
            require_functions(self._catalog).drop_function(name)
        except TableNotFound:
            if not ignore_if_not_exists:
                raise


class Catalog(CatalogChanges, CatalogViews):
    """The databases and tables of one warehouse folder, or of another catalog (`Catalog.over`).

    cat = morrow.Catalog("warehouse")
    cat.databases(), cat.tables("db"), cat.table("db.orders")
    cat.create_table("db.items", schema="id BIGINT, name STRING", primary_keys=["id"], options={"bucket": 4})
    """

    _session: SqlSession | None = None
    """The state that statements of `sql` leave to the next ones."""

    def __init__(
        self,
        warehouse: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        allowed_roots: Roots = (),
        verify: Verify | None = None,
        filesystem: object = None,
    ) -> None:
        """
        Args:
            warehouse: its folder or URL; it need not exist yet.
            storage_options, allowed_roots, verify, filesystem: as for `morrow.open`, for all tables.
        """
        store, root = resolve(to_location(warehouse, "warehouse"), storage_options, verify, filesystem)
        self._catalog: CatalogProtocol = FilesystemCatalog(store, root, resolve_roots(allowed_roots))

    @classmethod
    def over(cls, catalog: CatalogProtocol) -> Self:
        """Return the tables of any object with the methods of `morrow.engine.catalog.protocol.Catalog`."""
        made = cls.__new__(cls)
        made._catalog = catalog
        return made

    @property
    def warehouse(self) -> str:
        """The folder or URL of the warehouse, or the name of another catalog."""
        return self._catalog.title

    @property
    def is_folder(self) -> bool:
        """Whether the catalog is just a warehouse folder, so that its tables can be opened by their paths."""
        return isinstance(self._catalog, FilesystemCatalog)

    def databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._catalog.databases()

    def tables(self, database: str | None = None) -> list[str]:
        """Return the names of the tables of a database, sorted; without one, ``database.table`` of all tables.

        Raises:
            DatabaseNotFound.
        """
        return list(self) if database is None else self._catalog.tables(database)

    def table(self, name: str, *, branch: str | None = None) -> Table:
        """Open the table ``database.table``.

        Raises:
            InvalidArgument: a name without a database. DatabaseNotFound, TableNotFound, BranchNotFound.
        """
        metadata = self._catalog.table(name)
        return Table(metadata if branch is None else metadata.on_branch(branch))

    def format_table(self, name: str) -> FormatTable:
        """Open a format table: a folder of Parquet, ORC, CSV, JSON or text files registered in the catalog.

        Raises:
            InvalidArgument: a table of another kind. DatabaseNotFound, TableNotFound.
            Unsupported: the catalog does not support format tables.
        """
        from morrow.tables.format_table import FormatTable

        return FormatTable(find_folder_table(self._catalog, name, FORMAT_TABLE))

    def object_table(self, name: str) -> ObjectTable:
        """Open an object table: the files below a folder as rows. Raises as `format_table`."""
        from morrow.tables.format_table import ObjectTable

        return ObjectTable(find_folder_table(self._catalog, name, OBJECT_TABLE))

    @expose_travel_arguments
    def system(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        *,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
        mode: Mode = "auto",
        **at: Unpack[TravelArguments],
    ) -> SystemScan:
        """Return a scan of a system table: ``cat.system("db.orders$snapshots")``, ``cat.system("all_tables")``.

        Args:
            name: ``db.orders$files``, on a branch ``db.orders$branch_dev$files``; or a system table of the catalog:
                ``all_tables``, ``all_partitions``, ``all_table_options``, ``catalog_options``, optionally prefixed by
                ``sys.`` (Paimon's names of the first two are ``sys.tables`` and ``sys.partitions``).
            columns, filter, limit: as for `Table.scan`.
            from_snapshot, to_snapshot, mode, as_of, snapshot, tag, timestamp, watermark, version, branch: for system
                tables of a table, as for `Table.system`.

        Raises:
            DatabaseNotFound, TableNotFound, BranchNotFound: nothing with this name exists.
            InvalidArgument, ColumnNotFound, ...: as `Table.system`.
        """
        from morrow.scans.system_tables import make_catalog_scan

        if not isinstance(name, str):
            raise InvalidArgument(f"the name of a system table is text such as 'db.orders$files', not {name!r}")
        if MARK not in name:
            past = {**at, "from_snapshot": from_snapshot, "to_snapshot": to_snapshot}
            if given := [argument for argument, value in past.items() if value is not None]:
                raise InvalidArgument(f"the tables about all tables have no past: leave out {', '.join(given)}")
            return make_catalog_scan(self._catalog, name, columns=columns, filter=filter, limit=limit)
        found = parse_object_name(name)
        if found.system is None:
            raise InvalidArgument(f"{name!r} is a table, not a system table: use Catalog.table")
        return self.table(found.table, branch=found.branch).system(
            found.system, columns, filter, limit, from_snapshot=from_snapshot, to_snapshot=to_snapshot, mode=mode, **at
        )

    def sql(
        self,
        query: str,
        parameters: Parameters = None,
        *,
        params: Parameters = None,
        database: str | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Run SQL statements on this catalog, and return the result of the last one as a DuckDB relation.

        cat.sql("SELECT count(*) FROM db.orders VERSION AS OF 'v1' AS o JOIN db.items USING (item)").fetchall()
        cat.sql("UPDATE db.orders SET amount = $amount WHERE id = $id", {"id": 1, "amount": 10}).fetchall()

        Columns and filters of queries reach the files. Statements that change tables are complete when this returns.
        Each is one commit by a method of `Table`, with its guarantees and errors, and returns rows that report what was
        done. docs/sql.md lists them.

        The dialect is DuckDB's; names may also be quoted with backticks. ``db.orders`` may be followed by

        - ``VERSION AS OF`` (or ``FOR VERSION AS OF``, ``FOR SYSTEM_VERSION AS OF``): the name of a tag, a snapshot id,
          ``'snapshot.<id>'`` or ``'watermark-<millis>'``; tags come first.
        - ``TIMESTAMP AS OF`` (or ``FOR TIMESTAMP AS OF``, ``FOR SYSTEM_TIME AS OF``): ISO text, seconds since 1970 as a
          number (Spark's unit), or an expression of constants; a time without a zone is in UTC.
        - ``/*+ OPTIONS('scan.snapshot-id' = '3') */``, or another ``scan.*`` option of time travel; other options raise
          `Unsupported`.

        Branches and system tables are quoted names: ``db."orders$branch_dev"``, ``db."orders$snapshots"``,
        ``sys.all_tables``.

        Args:
            query: one or more statements, separated by semicolons.
            parameters, params: values of ``$name`` by name, or of ``?`` in order; DuckDB names them `params`.
            database: the database of unqualified names. None: the database of the last ``USE``; without it unqualified
                names are tables and views of the connection.
            connection: the DuckDB connection; None: DuckDB's default one, set to UTC unless its ``TimeZone`` was set.
                In other time zones, queries compare instants with clock times by that zone; statements that change
                tables and would do so are refused.

        Raises:
            InvalidArgument: not a statement, or a query that DuckDB does not understand. Earlier statements have taken
                effect.
            Unsupported: a statement, or a part of one, that Morrow does not support.
            DatabaseNotFound, TableNotFound, BranchNotFound, SnapshotNotFound, SnapshotExpired, TagNotFound.
            Others: as the methods called by the statement.
        """
        from morrow.readers.execution.duckdb_relation import check_connection
        from morrow.statements.context import Context, default_connection
        from morrow.statements.ddl import check_statement
        from morrow.statements.execution import run_statement
        from morrow.statements.parser import parse_statements
        from morrow.statements.tokens import bind_parameters

        if parameters is not None and params is not None:
            raise InvalidArgument("parameters and params are two names of one argument; pass one of them")
        text, values = bind_parameters(query, parameters if params is None else params)
        session = self._session = self._session or self._begin_session()
        sources = session.find_catalog(session.current)
        duckdb = default_connection() if connection is None else check_connection(connection)
        context = Context(sources.catalog, sources, duckdb, database or session.database, values, session=session)
        statements = parse_statements(text)
        if not statements:
            raise InvalidArgument("0 statements where one query was expected")
        for statement in statements:
            check_statement(statement)
        for statement in statements:
            found = run_statement(context, statement)
        if database is None:
            session.database = context.database
        return found

    def _begin_session(self) -> SqlSession:
        from morrow.statements.context import DEFAULT_CATALOG, SqlSession
        from morrow.statements.sources import CatalogSources

        def make_sources(catalog: Catalog) -> CatalogSources:
            return CatalogSources(catalog, catalog._dataset, session)

        session = SqlSession({}, lambda options: make_sources(open_with(options)))
        session.sources[DEFAULT_CATALOG] = make_sources(self)
        return session

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_session"}

    def _dataset(
        self,
        name: str,
        travel: Travel,
        options: Mapping[str, str] = MappingProxyType({}),
        tracked: Sequence[str] = (),
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> PaimonDataset:
        """Return the dataset of ``db.orders``, ``db.orders$branch_dev``, ``db.orders$files`` or ``sys.tables``.

        `options`: of reads, as for `Table.with_options`; tables without such options refuse them. Time travel has
        precedence over them. `tracked`: columns of row tracking to add, if the table has them. `settings`: options of
        the session, over which `options` have precedence; tables without such options ignore them.
        """
        from morrow.scans.system_tables import make_system_scan

        parts = parse_object_name(name)
        if parts.system is None and name.startswith(f"{SYSTEM_DATABASE}."):
            if travel != NOW or options:
                raise InvalidArgument(f"{name}: the tables about all tables have no past and no options of reads")
            return self.system(name).dataset()
        try:
            metadata = self._catalog.table(parts.table)
        except Unsupported:
            if options:
                raise
            return self._folder_dataset(parts, travel)
        if (options := {**settings, **options}) and parts.system is None:
            from morrow.writers.target import with_dynamic_options

            metadata = with_dynamic_options(metadata, options)
        travel = msgspec.structs.replace(travel, branch=parts.branch)
        if parts.system is not None:
            return make_system_scan(metadata, parts.system, travel=travel).dataset()
        scan = make_scan(metadata, travel=travel)
        return (scan.with_tracked_columns(tracked) if tracked else scan).dataset()

    def _folder_dataset(self, name: ObjectName, travel: Travel) -> PaimonDataset:
        """Return the dataset of a format or object table. Raises `Unsupported` for time travel and other tables."""
        kind = find_folder_table(self._catalog, name.table).kind
        if name.system is not None or name.branch is not None or travel != NOW:
            what = f"{name.table}, a {kind}, with a branch, a state or a system table,"
            raise Unsupported(what, hint="it is a folder of files, without snapshots")
        made = self.format_table(name.table) if kind == FORMAT_TABLE else self.object_table(name.table)
        return made.scan().dataset()

    def __getitem__(self, name: str) -> Table:
        """Open the table ``database.table``: ``cat["db.orders"]``. Raises as `table`."""
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        """Return whether the table ``database.table`` exists: ``"db.orders" in cat``."""
        return isinstance(name, str) and self._catalog.has_table(name)

    def __iter__(self) -> Iterator[str]:
        """Yield the names ``database.table`` of all tables, database by database."""
        return (f"{database}.{name}" for database in self.databases() for name in self.tables(database))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    if not TYPE_CHECKING:  # else mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(explain_missing_name("Catalog", name, OTHER_NAMES, list_public_names(self)))

    def __dir__(self) -> list[str]:
        return list_public_names(self)

    def __repr__(self) -> str:
        return f"Catalog({clean_text(self.warehouse)!r})"

    def _repr_html_(self) -> str:
        from morrow.html import add_title, build_table

        rows = [(database, ", ".join(self.tables(database))) for database in self.databases()]
        return add_title(repr(self), build_table(("database", "tables"), rows))


def sql(
    query: str,
    catalog: Catalog | str | os.PathLike[str],
    parameters: Parameters = None,
    *,
    database: str | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> duckdb.DuckDBPyRelation:
    """Run SQL statements on a catalog, given as a `Catalog` or its warehouse folder; see `Catalog.sql`."""
    found = catalog if isinstance(catalog, Catalog) else Catalog(catalog)
    return found.sql(query, parameters, database=database, connection=connection)


def open_with(
    options: Mapping[str, object],
    allowed_roots: tuple[str, ...] = (),
    storage_options: Mapping[str, str] | None = None,
    verify: Verify | None = None,
) -> Catalog:
    """Open a catalog by these options alone, without environment or profile. Raises as `open_catalog`."""
    from morrow.engine.catalog.settings import Settings, open_catalog

    settings = Settings.of(options, storage_options=storage_options, allowed_roots=allowed_roots, verify=verify)
    return Catalog.over(open_catalog(settings))
