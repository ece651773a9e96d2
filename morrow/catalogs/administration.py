"""Administration of a catalog: databases and tables created, altered, renamed, copied, compacted and dropped.

Base classes of `morrow.catalogs.catalog.Catalog`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from morrow.engine.arguments import check_mapping
from morrow.engine.catalog import databases
from morrow.engine.catalog.databases import Database
from morrow.engine.catalog.protocol import notify_watchers
from morrow.engine.catalog.settings import select_table_defaults
from morrow.engine.errors import AlreadyExists
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.plan.filter import FilterLike
from morrow.engine.structs import replace
from morrow.tables.table import Table

if TYPE_CHECKING:
    from morrow.engine.catalog.protocol import Catalog as CatalogProtocol
    from morrow.engine.schema.columns import SchemaLike
    from morrow.tables.format_table import FormatTable
    from morrow.tables.table_operations import CompactedTable


class CatalogDatabases:
    """The methods of `morrow.Catalog` for databases."""

    _catalog: CatalogProtocol

    def database(self, name: str) -> Database:
        """Return what the catalog tells of a database: its location, comment, owner and properties.

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
            properties: what the catalog keeps with it, for all its clients: texts, numbers and booleans by name.
            comment: the property ``comment``.
            ignore_if_exists: leave a database that exists as it is.

        Raises:
            AlreadyExists, InvalidArgument.
            Unsupported: properties or a comment, in a catalog that keeps none; nothing was made.
        """
        given = databases.check_properties(properties, comment)
        databases.create_database(self._catalog, name, given, ignore_if_exists=ignore_if_exists)
        self._told(None)

    def alter_database(
        self,
        name: str,
        properties: Mapping[str, object] | None = None,
        *,
        unset: str | Sequence[str] = (),
        comment: str | None = None,
    ) -> None:
        """Change properties of a database: sets some, removes others.

        Args:
            name: its name.
            properties: those to set, as for `create_database`.
            unset: the names of those to remove; it does not matter whether they are there.
            comment: the new comment; empty: none.

        Raises:
            DatabaseNotFound. InvalidArgument: nothing to change.
            Unsupported: in a catalog that keeps none, or not this one; nothing was changed.
        """
        given = databases.check_properties(properties, comment)
        databases.alter_database(self._catalog, name, given, unset)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Drop a database; with `cascade` its tables too.

        Raises:
            DatabaseNotFound. InvalidArgument: it holds tables, and `cascade` is false.
        """
        self._catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=ignore_if_not_exists)
        self._told(None)

    def rename_database(self, name: str, new_name: str) -> None:
        """Rename a database with its tables, atomically. Raises as `rename_table`."""
        self._catalog.rename_database(name, new_name)
        self._told(None)

    def _told(self, done: T) -> T:
        """Tell watchers that there are other tables now."""
        notify_watchers(self._catalog.title)
        return done


T = TypeVar("T")


class CatalogChanges(CatalogDatabases):
    """The methods of `morrow.Catalog` that change which databases and tables there are."""

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
            return Table(self._catalog.table(name))
        from morrow.engine.schema.creation import build_first_schema  # brings much along that reads do without

        first = build_first_schema(
            schema,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options={**select_table_defaults(self._catalog.options), **check_mapping(options, "options")},
            comment=comment,
            defaults=defaults,
            where=where,
        )
        try:
            return self._told(Table(self._catalog.create_table(name, first)))
        except AlreadyExists:
            if ignore_if_exists:  # another process was faster
                return Table(self._catalog.table(name))
            raise

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
        """Create a format table: a folder of files that the catalog names. Hive and REST catalogs have them.

        Args:
            schema, partition_keys, comment: as for `create_table`; there is no primary key.
            format: ``parquet``, ``orc``, ``csv``, ``json`` or ``text``.
            options: Paimon's options of format tables, such as ``csv.field-delimiter``, and ``path``, its folder.

        Raises:
            AlreadyExists: the table exists. InvalidArgument, ColumnNotFound: a name, column or key that is wrong.
            Unsupported: the catalog makes no such tables; another format; columns that Hive does not keep as they are.
        """
        from morrow.engine.catalog.protocol import create_format_table
        from morrow.engine.schema.creation import build_first_schema, format_options
        from morrow.tables.format_table import FormatTable

        where = self._catalog.where_of(name)
        made = build_first_schema(schema, partition_keys=partition_keys, comment=comment, where=where)
        texts = format_options({FILE_FORMAT.key: format, **check_mapping(options, "options")}, where)
        return FormatTable(create_format_table(self._catalog, name, replace(made, options=texts)))

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table with all its files, except those outside of its folder or behind links.

        Raises:
            DatabaseNotFound, TableNotFound. UnsafePath: a link above the table leads out of the warehouse.
        """
        self._catalog.drop_table(name, ignore_if_not_exists=ignore_if_not_exists)
        self._told(None)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Rename a table, also into another database; both names are ``database.table``.

        Raises:
            DatabaseNotFound, TableNotFound, AlreadyExists.
            Unsupported: in object stores, where a rename is many steps that others would see.
        """
        return self._told(Table(self._catalog.rename_table(name, new_name)))

    def check_replaceable(self) -> None:
        """Raise `Unsupported` where a table cannot be put in the place of another one, as in object stores."""
        from morrow.tables.table_operations import check_replaceable

        check_replaceable(self._catalog)

    def replace_table(self, name: str, by: str) -> Table:
        """Put the table `by` in the place of the table `name`, which is dropped; it need not exist.

        Between the two renames there is no table `name`.

        Raises:
            DatabaseNotFound, TableNotFound: there is no table `by`. Unsupported: in object stores.
        """
        from morrow.tables.table_operations import replace_table

        return self._told(Table(replace_table(self._catalog, name, by)))

    def copy_table(self, source: str | Table, name: str, *, where: FilterLike | None = None) -> Table:
        """Copy a table: its newest columns, keys and options, and its rows in one commit. History is not copied.

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
        from morrow.tables.table_operations import copy_table

        table = Table(self._catalog.table(source)) if isinstance(source, str) else source
        return copy_table(self._catalog, table, name, where)

    def clone_parquet(
        self, folder: str | os.PathLike[str], name: str, *, options: Mapping[str, object] | None = None
    ) -> Table:
        """Make a table of the rows of the Parquet files below a local folder, in one commit; the files stay.

        Folders ``<column>=<value>``, as Hive and Spark write them, make partition columns: of the files' type if they
        hold the column too, numbers if all values are, else text. The table has no primary key. Columns that only some
        of the files have are null in the rows of the others. Timestamps of the type INT96, which Spark writes unless
        told otherwise, become TIMESTAMP(9) in UTC, or TIMESTAMP(6) if nanoseconds do not hold them.

        Args:
            folder: files and folders whose names begin with ``_`` or ``.`` are left out, unless ``=`` follows.
            name: the table, ``database.table``, which must not exist.
            options: of the table.

        Raises:
            AlreadyExists: the table exists.
            InvalidArgument: no Parquet file, files that cannot be read or whose columns have different types, folders
                that name different columns or other values than their files, a folder that the table would lie in.
            Unsupported: a folder in an object store or of a table of Delta Lake, Iceberg, Hudi, Paimon and the like,
                whose removed rows are still in files; dates of the Julian calendar. Others as `create_table`; no table
                is left then.
        """
        from morrow.tables.table_operations import clone_parquet

        return clone_parquet(self._catalog, folder, name, options)

    def compact(
        self,
        *,
        databases: str | None = None,
        including: str | None = None,
        excluding: str | None = None,
        full: bool = False,
    ) -> list[CompactedTable]:
        """Compact many tables, one after the other, each in a commit of its own; an error does not stop the others.

        Args:
            databases: a regular expression for the whole names of databases; None: all.
            including, excluding: regular expressions for whole names ``database.table``; None: all, and none.
            full: as for `Table.compact`.

        Returns: for each table its snapshot (None: nothing was worth it), or its error.

        Raises:
            InvalidArgument: not a regular expression.
        """
        from morrow.tables.table_operations import compact_tables

        return compact_tables(self._catalog, databases, including, excluding, full=full)
