"""The tables of a catalog by name; by default of a warehouse folder: ``warehouse/<database>.db/<table>``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from morrow.engine.arguments import mapping
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.names import MARK, SYSTEM_DATABASE, object_name
from morrow.engine.catalog.settings import table_defaults
from morrow.engine.catalog.watching import changed
from morrow.engine.errors import AlreadyExists, InvalidArgument
from morrow.engine.io.resolve import Roots, given_roots, location_of, resolve
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.time_travel import NOW, Travel, TravelArguments
from morrow.engine.telling import public_names, shown
from morrow.session import Verify
from morrow.system import SystemScan, make_catalog_scan, make_system_scan
from morrow.table import Table
from morrow.table_scan import make_scan
from morrow.travelling import travels

if TYPE_CHECKING:
    import duckdb

    from morrow.engine.catalog.protocol import Catalog as CatalogProtocol
    from morrow.engine.schema.columns import SchemaLike
    from morrow.many_tables import CompactedTable
    from morrow.readers.execution.dataset import PaimonDataset
    from morrow.statements.parameters import Parameters

T = TypeVar("T")


class Catalog:
    """The databases and tables of one warehouse folder, or of another catalog (`Catalog.over`).

    cat = morrow.Catalog("warehouse")
    cat.databases(), cat.tables("db"), cat.table("db.orders")
    cat.create_table("db.items", schema="id BIGINT, name STRING", primary_keys=["id"], options={"bucket": 4})
    """

    _database: str | None = None
    """The database of the last USE, for unqualified names in SQL."""

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
        store, root = resolve(location_of(warehouse, "warehouse"), storage_options, verify, filesystem)
        self._catalog: CatalogProtocol = FilesystemCatalog(store, root, given_roots(allowed_roots))

    @classmethod
    def over(cls, catalog: CatalogProtocol) -> Self:
        """Returns the tables of any object with the methods of `morrow.engine.catalog.protocol.Catalog`."""
        made = cls.__new__(cls)
        made._catalog = catalog
        return made

    @property
    def warehouse(self) -> str:
        """The folder or URL of the warehouse, or what another catalog calls itself."""
        return self._catalog.title

    @property
    def is_folder(self) -> bool:
        """Returns whether the catalog is a warehouse folder and no more: its tables can be opened by their paths."""
        return isinstance(self._catalog, FilesystemCatalog)

    def databases(self) -> list[str]:
        """Returns the names of all databases, sorted."""
        return self._catalog.databases()

    def tables(self, database: str) -> list[str]:
        """Returns the names of the tables of a database, sorted. Raises `DatabaseNotFound`."""
        return self._catalog.tables(database)

    def table(self, name: str, *, branch: str | None = None) -> Table:
        """Opens the table ``database.table``.

        Raises:
            InvalidArgument: a name without a database. DatabaseNotFound, TableNotFound, BranchNotFound.
        """
        metadata = self._catalog.table(name)
        return Table(metadata if branch is None else metadata.on_branch(branch))

    @travels
    def system(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        limit: int | None = None,
        *,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
        **at: Unpack[TravelArguments],
    ) -> SystemScan:
        """Returns a scan of a system table: ``cat.system("db.orders$snapshots")``, ``cat.system("all_tables")``.

        Args:
            name: ``db.orders$files``, on a branch ``db.orders$branch_dev$files``; or a system table of the catalog:
                ``all_tables``, ``all_partitions``, ``all_table_options``, ``catalog_options``, optionally prefixed by
                ``sys.`` (Paimon's names of the first two are ``sys.tables`` and ``sys.partitions``).
            columns, filter, limit: as for `Table.scan`.
            from_snapshot, to_snapshot, as_of, snapshot, tag, timestamp, watermark, version, branch: for system tables
                of a table, as for `Table.system`.

        Raises:
            DatabaseNotFound, TableNotFound, BranchNotFound: nothing has this name.
            InvalidArgument, ColumnNotFound, ...: as `Table.system`.
        """
        if not isinstance(name, str):
            raise InvalidArgument(f"the name of a system table is text such as 'db.orders$files', not {name!r}")
        if MARK not in name:
            past = {**at, "from_snapshot": from_snapshot, "to_snapshot": to_snapshot}
            if given := [argument for argument, value in past.items() if value is not None]:
                raise InvalidArgument(f"the tables about all tables have no past: leave out {', '.join(given)}")
            return make_catalog_scan(self._catalog, name, columns=columns, filter=filter, limit=limit)
        found = object_name(name)
        if found.system is None:
            raise InvalidArgument(f"{name!r} is a table, not a system table: use Catalog.table")
        return self.table(found.table, branch=found.branch).system(
            found.system, columns, filter, limit, from_snapshot=from_snapshot, to_snapshot=to_snapshot, **at
        )

    def sql(
        self,
        query: str,
        parameters: Parameters = None,
        *,
        database: str | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Runs SQL statements on this catalog, and returns the result of the last one as a DuckDB relation.

        cat.sql("SELECT count(*) FROM db.orders VERSION AS OF 'v1' AS o JOIN db.items USING (item)").fetchall()
        cat.sql("UPDATE db.orders SET amount = $amount WHERE id = $id", {"id": 1, "amount": 10}).fetchall()

        Columns and filters of queries reach the files. Statements that change tables are done when this returns, each
        in one commit, by the methods of `Table` and with their guarantees and errors; their rows say what was done.
        docs/sql.md lists them.

        The dialect is DuckDB's; names may stand in backticks too. ``db.orders`` may be followed by

        - ``VERSION AS OF`` (or ``FOR VERSION AS OF``, ``FOR SYSTEM_VERSION AS OF``): the name of a tag, a snapshot id,
          ``'snapshot.<id>'`` or ``'watermark-<millis>'``; tags come first.
        - ``TIMESTAMP AS OF`` (or ``FOR TIMESTAMP AS OF``, ``FOR SYSTEM_TIME AS OF``): ISO text, seconds since 1970 as a
          number (Spark's unit), or an expression of constants; what has no time zone is in UTC.
        - ``/*+ OPTIONS('scan.snapshot-id' = '3') */``, or another ``scan.*`` option of time travel; other options are
          refused.

        Branches and system tables are quoted names: ``db."orders$branch_dev"``, ``db."orders$snapshots"``,
        ``sys.all_tables``.

        Args:
            query: one or more statements, which semicolons separate.
            parameters: values of ``$name`` by name, or of ``?`` in order.
            database: the database of unqualified names; None: the one of the last ``USE``, without one they are tables
                and views of the connection.
            connection: DuckDB's default connection when None.

        Raises:
            InvalidArgument: not a statement, or a query that DuckDB does not understand. Those before it are done.
            Unsupported: a statement, or a part of one, that Morrow does not have.
            DatabaseNotFound, TableNotFound, BranchNotFound, SnapshotNotFound, SnapshotExpired, TagNotFound.
            Others: as the methods that do the work.
        """
        from morrow.readers.execution.duckdb_relation import checked_connection
        from morrow.statements.context import Context
        from morrow.statements.parameters import bound
        from morrow.statements.parsing import parsed
        from morrow.statements.running import run
        from morrow.statements.sources import CatalogSources

        text, values = bound(query, parameters)
        sources = CatalogSources(self, self._dataset)
        context = Context(self, sources, checked_connection(connection), database or self._database, values)
        statements = parsed(text)
        if not statements:
            raise InvalidArgument("0 statements where one query was expected")
        for statement in statements:
            found = run(context, statement)
        if database is None:
            self._database = context.database
        return found

    def _dataset(self, name: str, travel: Travel) -> PaimonDataset:
        """Returns the dataset of ``db.orders``, ``db.orders$branch_dev``, ``db.orders$files`` or ``sys.tables``."""
        parts = object_name(name)
        if parts.system is None and name.startswith(f"{SYSTEM_DATABASE}."):
            if travel != NOW:
                raise InvalidArgument(f"{name}: the tables about all tables have no past")
            return self.system(name).dataset()
        metadata = self._catalog.table(parts.table)
        travel = replace(travel, branch=parts.branch)
        if parts.system is not None:
            return make_system_scan(metadata, parts.system, travel=travel).dataset()
        return make_scan(metadata, travel=travel).dataset()

    def create_table(
        self,
        name: str,
        *,
        schema: SchemaLike,
        primary_keys: str | Sequence[str] = (),
        partition_keys: str | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        defaults: Mapping[str, object] | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Creates the table ``database.table``, and its database if it does not exist.

        Args:
            schema: the columns: a pyarrow or Polars schema (or anything that exports one: a frame, a relation), SQL
                (``"id BIGINT NOT NULL, name STRING COMMENT 'x' DEFAULT 'y'"``), or a mapping of names to types in SQL
                or pyarrow. Comments of Arrow fields are their metadata ``comment``.
            primary_keys: the primary key columns, which become NOT NULL; empty: an append table.
            partition_keys: columns whose values become folders.
            options: Paimon's table options, checked as Java checks them; values may be numbers and booleans.
            comment: the table's comment.
            defaults: column name -> the value for rows that do not give one.
            ignore_if_exists: return the existing table, whatever its schema.

        Raises:
            AlreadyExists: the table exists.
            InvalidArgument, ColumnNotFound: an invalid name, column, key or option; nothing was made.
            Unsupported: a type or option that Morrow does not handle.
        """
        where = self._catalog.where_of(name)
        if ignore_if_exists and self._catalog.has_table(name):
            return self.table(name)
        from morrow.engine.schema.creating import new_schema  # brings much along that reads do without

        first = new_schema(
            schema,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options={**table_defaults(self._catalog.options), **mapping(options, "options")},
            comment=comment,
            defaults=defaults,
            where=where,
        )
        try:
            return self._told(Table(self._catalog.create_table(name, first)))
        except AlreadyExists:
            if ignore_if_exists:  # another process was faster
                return self.table(name)
            raise

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drops a table with all its files, except those outside of its folder or behind links.

        Raises:
            DatabaseNotFound, TableNotFound. UnsafePath: a link above the table leads out of the warehouse.
        """
        self._catalog.drop_table(name, ignore_if_not_exists=ignore_if_not_exists)
        self._told(None)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Renames a table, also into another database; both names are ``database.table``.

        Raises:
            DatabaseNotFound, TableNotFound, AlreadyExists.
            Unsupported: in object stores, where a rename is many steps that others would see.
        """
        return self._told(Table(self._catalog.rename_table(name, new_name)))

    def check_replaceable(self) -> None:
        """Raises `Unsupported` where a table cannot be put in the place of another one, as in object stores."""
        from morrow.many_tables import check_replaceable

        check_replaceable(self._catalog)

    def replace_table(self, name: str, by: str) -> Table:
        """Puts the table `by` in the place of the table `name`, which is dropped; it need not exist.

        Between the two renames there is no table `name`.

        Raises:
            DatabaseNotFound, TableNotFound: there is no table `by`. Unsupported: in object stores.
        """
        from morrow.many_tables import replace_table

        return self._told(Table(replace_table(self._catalog, name, by)))

    def copy_table(self, source: str | Table, name: str, *, where: FilterLike | None = None) -> Table:
        """Copies a table: its newest columns, keys and options, and its rows in one commit. History is not copied.

        Args:
            source: ``database.table`` of this catalog, or any table.
            name: the copy, ``database.table``. If it exists, its partitions of which there are rows are replaced; all
                of its rows where it has no partitions.
            where: only partitions for which this condition on partition columns is true.

        Raises:
            DatabaseNotFound, TableNotFound: no such source.
            InvalidArgument: `where` is about other columns, or the copy exists with other columns, keys or buckets.
            Others as `create_table` and `Table.overwrite`; a table made by this call is dropped then.
        """
        from morrow.many_tables import copy_table

        return copy_table(self._catalog, self.table(source) if isinstance(source, str) else source, name, where)

    def clone_parquet(
        self, folder: str | os.PathLike[str], name: str, *, options: Mapping[str, object] | None = None
    ) -> Table:
        """Makes a table of the rows of the Parquet files below a local folder, in one commit; the files stay.

        Folders ``<column>=<value>``, as Hive and Spark write them, make partition columns. The table has no primary
        key. Columns that only some of the files have are null in the rows of the others. Timestamps of the type INT96,
        which Spark writes unless told otherwise, become TIMESTAMP(9) in UTC.

        Args:
            folder: files and folders whose names begin with ``_`` or ``.`` are left out.
            name: the table, ``database.table``, which must not exist.
            options: of the table.

        Raises:
            AlreadyExists: the table exists.
            InvalidArgument: no Parquet file, files that cannot be read or whose columns have different types.
            Unsupported: a folder in an object store. Others as `create_table`; no table is left then.
        """
        from morrow.many_tables import clone_parquet

        return clone_parquet(self._catalog, folder, name, options)

    def compact(
        self,
        *,
        databases: str | None = None,
        including: str | None = None,
        excluding: str | None = None,
        full: bool = False,
    ) -> list[CompactedTable]:
        """Compacts many tables, one after the other, each in a commit of its own; an error does not stop the others.

        Args:
            databases: a regular expression for the whole names of databases; None: all.
            including, excluding: regular expressions for whole names ``database.table``; None: all, and none.
            full: as for `Table.compact`.

        Returns: for each table its snapshot (None: nothing was worth it), or its error.

        Raises:
            InvalidArgument: not a regular expression.
        """
        from morrow.many_tables import compact_tables

        return compact_tables(self._catalog, databases, including, excluding, full=full)

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Creates a database. Raises `AlreadyExists`, `InvalidArgument`."""
        self._catalog.create_database(name, ignore_if_exists=ignore_if_exists)
        self._told(None)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Drops a database; with `cascade` its tables too.

        Raises:
            DatabaseNotFound. InvalidArgument: it holds tables, and `cascade` is false.
        """
        self._catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=ignore_if_not_exists)
        self._told(None)

    def rename_database(self, name: str, new_name: str) -> None:
        """Renames a database with its tables, atomically. Raises as `rename_table`."""
        self._catalog.rename_database(name, new_name)
        self._told(None)

    def _told(self, done: T) -> T:
        """Tells watchers that there are other tables now."""
        changed(self.warehouse)
        return done

    def __getitem__(self, name: str) -> Table:
        """Opens the table ``database.table``: ``cat["db.orders"]``. Raises as `table`."""
        return self.table(name)

    def _ipython_key_completions_(self) -> list[str]:
        return [f"{database}.{name}" for database in self.databases() for name in self.tables(database)]

    def __dir__(self) -> list[str]:
        return public_names(self)

    def __repr__(self) -> str:
        return f"Catalog({shown(self.warehouse)!r})"

    def _repr_html_(self) -> str:
        from morrow.html.tables import table, titled

        rows = [(database, ", ".join(self.tables(database))) for database in self.databases()]
        return titled(repr(self), table(("database", "tables"), rows))


def sql(
    query: str,
    catalog: Catalog | str | os.PathLike[str],
    parameters: Parameters = None,
    *,
    database: str | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> duckdb.DuckDBPyRelation:
    """Runs SQL statements on a catalog, given as a `Catalog` or its warehouse folder; see `Catalog.sql`."""
    found = catalog if isinstance(catalog, Catalog) else Catalog(catalog)
    return found.sql(query, parameters, database=database, connection=connection)
