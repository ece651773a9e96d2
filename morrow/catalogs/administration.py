"""Administration of a catalog: databases and tables created, altered, renamed, copied, compacted and dropped.

Base classes of `morrow.catalogs.catalog.Catalog`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from morrow.engine.arguments import check_mapping
from morrow.engine.catalog import databases
from morrow.engine.catalog.databases import Database
from morrow.engine.catalog.names import check_new_table_name
from morrow.engine.catalog.protocol import has_table_locations, notify_watchers
from morrow.engine.catalog.settings import select_table_defaults
from morrow.engine.errors import AlreadyExists, Unsupported
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PATH
from morrow.engine.plan.filter import FilterLike
from morrow.engine.structs import replace
from morrow.tables.table import Table

if TYPE_CHECKING:
    from morrow.catalogs.imports import ImportPlan
    from morrow.engine.catalog.protocol import Catalog as CatalogProtocol
    from morrow.engine.format.schema import TableSchema
    from morrow.engine.schema.columns import SchemaLike
    from morrow.engine.schema.schema_changes import SchemaChange
    from morrow.tables.format_table import FormatTable
    from morrow.tables.table_operations import CompactedTable
    from morrow.writers.operations.append import SchemaMode


class CatalogDatabases:
    """The methods of `morrow.Catalog` for databases."""

    _catalog: CatalogProtocol

    def database(self, name: str) -> Database:
        """Return a database's location, comment, owner and properties, as the catalog reports them.

        Raises:
            DatabaseNotFound: it does not exist.
        """
        return databases.find_database(self._catalog, name)

    def create_database(
        self,
        name: str,
        *,
        properties: Mapping[str, object] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> None:
        """Create a database.

        Args:
            name: its name.
            properties: properties that the catalog stores for all clients: text, numbers and booleans by name.
            comment: the property ``comment``.
            ignore_if_exists: leave an existing database unchanged.

        Raises:
            AlreadyExists, InvalidArgument.
            Unsupported: the catalog cannot store properties or a comment; nothing was created.
        """
        given = databases.check_properties(properties, comment)
        databases.create_database(self._catalog, name, given, ignore_if_exists=ignore_if_exists)
        self._notify(None)

    def alter_database(
        self,
        name: str,
        properties: Mapping[str, object] | None = None,
        *,
        unset: str | Sequence[str] = (),
        comment: str | None = None,
    ) -> None:
        """Set and remove properties of a database.

        Args:
            name: its name.
            properties: the properties to set, as for `create_database`.
            unset: names of the properties to remove; missing ones are ignored.
            comment: the new comment; an empty text removes it.

        Raises:
            DatabaseNotFound. InvalidArgument: nothing to change.
            Unsupported: the catalog cannot store properties, or not this one; nothing was changed.
        """
        given = databases.check_properties(properties, comment)
        databases.alter_database(self._catalog, name, given, unset)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Drop a database; with `cascade` its tables too.

        Raises:
            DatabaseNotFound. InvalidArgument: it holds tables, and `cascade` is false.
        """
        self._catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=ignore_if_not_exists)
        self._notify(None)

    def rename_database(self, name: str, new_name: str) -> None:
        """Rename a database with its tables, atomically. Raises as `rename_table`."""
        self._catalog.rename_database(name, new_name)
        self._notify(None)

    def _notify(self, done: T) -> T:
        """Notify watchers that the set of tables has changed, and return `done`."""
        notify_watchers(self._catalog.title)
        return done


T = TypeVar("T")


class CatalogChanges(CatalogDatabases):
    """The methods of `morrow.Catalog` that create, drop, rename and copy tables."""

    _catalog: CatalogProtocol

    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        primary_keys: str | Sequence[str] = (),
        partition_keys: str | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        defaults: Mapping[str, object] | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Create the table ``database.table``, and its database if it does not exist.

        Args:
            schema: the columns: a pyarrow or Polars schema (or anything that exports one: a frame, a relation), SQL
                (``"id BIGINT NOT NULL, name STRING COMMENT 'x' DEFAULT 'y'"``), or a mapping of names to types in SQL
                or pyarrow. Comments of Arrow fields are their metadata ``comment``.
            primary_keys: the primary key columns, which become NOT NULL; if empty, the table is an append table.
            partition_keys: columns whose values become folders.
            options: Paimon's table options, checked as Java checks them; values may be numbers and booleans. In Hive
                and REST catalogs, ``path`` is the table's folder, which dropping it keeps.
            comment: the table's comment.
            defaults: column name -> the value for rows that do not give one.
            ignore_if_exists: return the existing table, whatever its schema.

        Raises:
            AlreadyExists: the table exists.
            InvalidArgument, ColumnNotFound: an invalid name, column, key or option; nothing was created.
            Unsupported: a type or option that Morrow does not handle.
        """
        check_new_table_name(name, self._catalog.databases)
        if ignore_if_exists and self._catalog.has_table(name):
            return Table(self._catalog.table(name))
        first = self._build_first(
            name,
            schema,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
            defaults=defaults,
        )
        try:
            return self._create(name, first)
        except AlreadyExists:
            if ignore_if_exists:  # another process was faster
                return Table(self._catalog.table(name))
            raise

    def _build_first(
        self, name: str, schema: SchemaLike, *, options: Mapping[str, object] | None, **described: Any
    ) -> TableSchema:
        """Return the schema of a new table, with the defaults of the catalog's options."""
        from morrow.engine.schema.creation import build_first_schema  # imports much that reads do not need

        check_new_table_name(name, self._catalog.databases)
        given = {**select_table_defaults(self._catalog.options), **check_mapping(options, "options")}
        path = given.pop(PATH.key, None) if has_table_locations(self._catalog) else None
        made = build_first_schema(schema, options=given, where=self._catalog.where_of(name), **described)
        return made if path is None else replace(made, options={**made.options, PATH.key: str(path)})

    def _create(self, name: str, first: TableSchema) -> Table:
        return self._notify(Table(self._catalog.create_table(name, first)))

    def create_format_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        format: str = FILE_FORMAT.default,
        partition_keys: str | Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> FormatTable:
        """Create a format table: a folder of files registered in the catalog. Hive and REST catalogs support it.

        Args:
            schema, partition_keys, comment: as for `create_table`; format tables do not have a primary key.
            format: ``parquet``, ``orc``, ``csv``, ``json`` or ``text``.
            options: Paimon's options of format tables, such as ``csv.field-delimiter``, and ``path``, its folder.

        Raises:
            AlreadyExists: the table exists. InvalidArgument, ColumnNotFound: a name, column or key that is wrong.
            Unsupported: the catalog cannot create format tables; another format; column types that Hive would change.
        """
        from morrow.engine.catalog.protocol import create_format_table
        from morrow.engine.schema.creation import build_first_schema, format_options
        from morrow.tables.format_table import FormatTable

        check_new_table_name(name, self._catalog.databases)
        where = self._catalog.where_of(name)
        made = build_first_schema(schema, partition_keys=partition_keys, comment=comment, where=where)
        texts = format_options({FILE_FORMAT.key: format, **check_mapping(options, "options")}, where)
        return FormatTable(create_format_table(self._catalog, name, replace(made, options=texts)))

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table with all its files, except files outside its folder or behind links.

        Raises:
            DatabaseNotFound, TableNotFound. UnsafePath: a link above the table leads out of the warehouse.
        """
        self._catalog.drop_table(name, ignore_if_not_exists=ignore_if_not_exists)
        self._notify(None)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Rename a table, optionally into another database; both names are ``database.table``.

        Raises:
            DatabaseNotFound, TableNotFound, AlreadyExists.
            Unsupported: the warehouse is in an object store, which cannot rename a folder atomically.
        """
        check_new_table_name(new_name, self._catalog.databases)
        return self._notify(Table(self._catalog.rename_table(name, new_name)))

    def move_table(self, name: str, new_name: str) -> None:
        """Rename a table or format table in a REST catalog. Raises as `rename_table`."""
        self._get_server("renaming a format table").move_table(name, new_name)
        self._notify(None)

    def replace_schema(self, name: str, schema: TableSchema) -> None:
        """Have the server replace a table by an empty one with these columns, which keeps its snapshots.

        Raises:
            DatabaseNotFound, TableNotFound. InvalidArgument: other partition keys. Unsupported: no REST catalog.
        """
        self._get_server("replacing a table by an empty one").replace_schema(name, schema)
        self._notify(None)

    def _get_server(self, what: str) -> Any:
        """Return the catalog. Raises `Unsupported` if no server keeps its tables."""
        if not hasattr(self._catalog, "alter_folder_table"):
            raise Unsupported(what, where=self._catalog.title, hint="create it again")
        return self._catalog

    def alter_format_table(self, name: str, changes: Sequence[SchemaChange]) -> None:
        """Change options of a format table: `SetOption` and `RemoveOption`. REST catalogs support it.

        Raises:
            DatabaseNotFound, TableNotFound. Unsupported: another catalog.
        """
        self._get_server("changing a format table").alter_folder_table(name, changes)

    def check_replaceable(self) -> None:
        """Raise `Unsupported` if tables cannot be replaced, as in object stores."""
        from morrow.tables.table_operations import check_replaceable

        check_replaceable(self._catalog)

    def replace_table(self, name: str, by: str) -> Table:
        """Replace the table `name` with the table `by`. The old table is dropped; it need not exist.

        The table `name` does not exist for a moment between the two renames.

        Raises:
            DatabaseNotFound, TableNotFound: the table `by` does not exist. Unsupported: the warehouse is in an object
                store.
        """
        from morrow.tables.table_operations import replace_table

        return self._notify(Table(replace_table(self._catalog, name, by)))

    def begin_replacement(self, name: str, schema: SchemaLike, **described: Any) -> Table:
        """Return a branch for the rows of a table that will replace the table `name`; arguments as `create_table`.

        `publish_replacement` makes the branch the table, which keeps its snapshots and tags.

        Raises:
            DatabaseNotFound, TableNotFound. Unsupported: other partition keys, or a catalog that owns schemas.
            Others as `create_table`.
        """
        from morrow.writers.history.branches import begin_replacement

        before, given = self._catalog.table(name), {"options": None, **described}
        return Table(begin_replacement(before, self._build_first(name, schema, **given)))

    def publish_replacement(self, name: str, branch: str) -> Table:
        """Make a branch of `begin_replacement` the table `name`, in one commit.

        Raises:
            CommitConflict: the columns of the table were changed meanwhile.
        """
        from morrow.writers.history.branches import publish_replacement

        metadata = self._catalog.table(name)
        publish_replacement(metadata, metadata.on_branch(branch))
        return self._notify(Table(self._catalog.table(name)))

    def copy_table(self, source: str | Table, name: str, *, where: FilterLike | None = None) -> Table:
        """Copy a table: its newest columns, keys and options, and its rows in one commit. History is not copied.

        Args:
            source: ``database.table`` of this catalog, or any table.
            name: the copy, ``database.table``. If it exists, the partitions that the copied rows belong to are
                replaced; without partitions, all its rows are.
            where: copy only partitions that match this condition on partition columns.

        Raises:
            DatabaseNotFound, TableNotFound: no such source.
            InvalidArgument: `where` uses other columns, or the copy exists with other columns, keys or buckets.
            Others as `create_table` and `Table.overwrite`; a table created by this call is dropped again.
        """
        from morrow.tables.table_operations import copy_table

        check_new_table_name(name, self._catalog.databases)
        table = Table(self._catalog.table(source)) if isinstance(source, str) else source
        return copy_table(self._catalog, table, name, where)

    @overload
    def import_table(
        self,
        source: object,
        name: str,
        *,
        primary_keys: str | Sequence[str] = ...,
        partition_keys: str | Sequence[str] | None = ...,
        options: Mapping[str, object] | None = ...,
        comment: str | None = ...,
        query: str | None = ...,
        format: str | None = ...,
        csv: Mapping[str, object] | None = ...,
        schema_mode: SchemaMode = ...,
        storage_options: Mapping[str, str] | None = ...,
        dry_run: Literal[False] = ...,
    ) -> Table: ...

    @overload
    def import_table(
        self,
        source: object,
        name: str,
        *,
        primary_keys: str | Sequence[str] = ...,
        partition_keys: str | Sequence[str] | None = ...,
        options: Mapping[str, object] | None = ...,
        comment: str | None = ...,
        query: str | None = ...,
        format: str | None = ...,
        csv: Mapping[str, object] | None = ...,
        schema_mode: SchemaMode = ...,
        storage_options: Mapping[str, str] | None = ...,
        dry_run: Literal[True],
    ) -> ImportPlan: ...

    def import_table(
        self,
        source: object,
        name: str,
        *,
        primary_keys: str | Sequence[str] = (),
        partition_keys: str | Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
        query: str | None = None,
        format: str | None = None,
        csv: Mapping[str, object] | None = None,
        schema_mode: SchemaMode = None,
        storage_options: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> Table | ImportPlan:
        """Import rows into a table, and create the table with their columns if it does not exist.

            cat.import_table("old/*.parquet", "db.t", primary_keys="id")
            cat.import_table("exports/2024", "db.logs", csv={"delimiter": ";", "encoding": "latin-1"})
            cat.import_table("postgresql://host/shop", "db.orders", query="SELECT * FROM orders")

        Memory is bounded. Files are committed in steps of 1 GiB, and the snapshots record them. After an interruption,
        the same call imports the remaining files, so that each file is imported once. Files that were imported
        before are left out; to add rows again, use `Table.append`. The record of a complete import expires with its
        snapshots.

        Args:
            source: a file, a folder, a pattern such as ``old/**/*.parquet``, or a list of them: Parquet, ORC, Arrow,
                CSV or JSON lines, also as Hive and Spark write them, on a disk or in an object store
                (``s3://bucket/old/*.parquet``). Folders ``<column>=<value>`` become partition columns. Hidden files
                are left out: names with ``_`` or ``.`` in front.
                Or a table of Delta Lake or Iceberg: its folder, its metadata file, or the object of deltalake or
                pyiceberg. Or the URI of a database, or an open connection, with `query`. Or anything that
                `Table.append` takes.
            name: the table, ``database.table``.
            primary_keys, options, comment: as for `create_table`.
            partition_keys: as for `create_table`; None: the partition columns of the source.
            query: the SQL text whose result is imported, run by the database.
            format: ``parquet``, ``orc``, ``arrow``, ``csv`` or ``json``; None: as names or first bytes tell.
            csv: the form of CSV files: ``delimiter``, ``header`` (True or False), ``null_values`` (a list), ``quote``
                and ``encoding``.
            schema_mode: ``merge``: take columns that only some files have, widen types, and add columns to an existing
                table. None: files that differ are refused.
            storage_options: options of the store of the source, as for `morrow.open`; None: as the warehouse.
            dry_run: return an `ImportPlan` with the schema of the table, and write nothing.

        Raises:
            InvalidArgument: files that cannot be read, differ, or contradict their folders; text that no type holds
                without loss; keys or options that an existing table does not have; a file that has changed since it
                was imported.
            Unsupported: a folder of Hudi, Paimon and the like, or a part of a table of Delta Lake or Iceberg, whose
                files also hold removed rows; dates of the Julian calendar; a library that is not installed.
            Others: as `create_table` and `Table.append`. A table made by this call is removed if nothing was committed.
        """
        from morrow.catalogs.imports import plan_import

        plan = plan_import(
            self,
            source,
            name,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
            query=query,
            format=format,
            csv=csv,
            schema_mode=schema_mode,
            storage_options=storage_options,
        )
        return plan if dry_run else plan.run()

    def clone_parquet(
        self, folder: str | os.PathLike[str], name: str, *, options: Mapping[str, object] | None = None
    ) -> Table:
        """Create an append table from the Parquet files below a folder: `import_table` into a new table.

        Columns that only some files have are null in rows of the other files. INT96 timestamps, Spark's default, become
        TIMESTAMP(9) in UTC, or TIMESTAMP(6) if they exceed the range of nanoseconds. The files stay.

        A file becomes a data file by a hard link (in another file system by a copy), if it has all columns in the types
        and encodings of Paimon files: do not change such files in place. The rows of other files are written
        again. Tables with buckets, file indexes, row tracking or another ``file.format`` link no files.

        Raises:
            AlreadyExists: the table exists. Others: as `import_table`.
        """
        from morrow.catalogs.imports import clone_parquet

        return clone_parquet(self, folder, name, options)

    def compact(
        self,
        *,
        databases: str | None = None,
        including: str | None = None,
        excluding: str | None = None,
        full: bool = False,
    ) -> list[CompactedTable]:
        """Compact tables one by one, each in its own commit. An error in one table does not stop the others.

        Args:
            databases: a regular expression that database names match in full; None: all.
            including, excluding: regular expressions that names ``database.table`` match in full; None includes all and
                excludes none.
            full: as for `Table.compact`.

        Returns: for each table its snapshot (None if nothing was worth compacting), or its error.

        Raises:
            InvalidArgument: not a regular expression.
        """
        from morrow.tables.table_operations import compact_tables

        return compact_tables(self._catalog, databases, including, excluding, full=full)
