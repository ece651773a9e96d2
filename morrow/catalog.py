"""A warehouse folder as a catalog: ``warehouse/<database>.db/<table>``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.errors import AlreadyExists
from morrow.engine.io.resolve import resolve
from morrow.engine.schema.columns import SchemaLike
from morrow.engine.schema.creating import new_schema
from morrow.table import Table


class Catalog:
    """The tables of one warehouse.

    cat = morrow.Catalog("warehouse")
    cat.databases(), cat.tables("db"), cat.table("db.orders")
    cat.create_table("db.items", schema="id BIGINT, name STRING", primary_keys=["id"], options={"bucket": 4})
    """

    def __init__(self, warehouse: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None) -> None:
        store, root = resolve(os.fspath(warehouse), storage_options)
        self._catalog = FilesystemCatalog(store, root)

    @property
    def warehouse(self) -> str:
        """The folder or URL of the warehouse."""
        return self._catalog.store.url(self._catalog.root)

    def databases(self) -> list[str]:
        """Names of all databases, sorted."""
        return self._catalog.databases()

    def tables(self, database: str) -> list[str]:
        """Names of the tables of a database, sorted. Raises `DatabaseNotFound`."""
        return self._catalog.tables(database)

    def table(self, name: str, *, branch: str | None = None) -> Table:
        """The table ``database.table``.

        Raises:
            InvalidArgument: a name without a database. DatabaseNotFound, TableNotFound, BranchNotFound.
        """
        metadata = self._catalog.table(name)
        return Table(metadata if branch is None else metadata.on_branch(branch))

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
        """Make the table ``database.table``, and its database if it is not there.

        Args:
            schema: the columns: a pyarrow or Polars schema (or anything that exports one: a frame, a relation), SQL
                (``"id BIGINT NOT NULL, name STRING COMMENT 'x' DEFAULT 'y'"``), or a mapping of names to types in SQL
                or pyarrow. Comments of Arrow fields are their metadata ``comment``.
            primary_keys: columns whose values tell rows apart; they become NOT NULL. None of them: an append table.
            partition_keys: columns whose values become folders.
            options: table options of Paimon, checked as Java checks them; numbers and booleans are taken.
            comment: what the table is for.
            defaults: column name -> the value for rows that do not give one.
            ignore_if_exists: give the table that is there, whatever its schema.

        Raises:
            AlreadyExists: there is a table of this name.
            InvalidArgument, ColumnNotFound: a name, column, key or option that cannot be; nothing was made.
            Unsupported: a type or option that Morrow does not handle.
        """
        place = self._catalog.place_of(name)
        if ignore_if_exists and self._catalog.has_table(name):
            return self.table(name)
        first = new_schema(
            schema,
            primary_keys=primary_keys,
            partition_keys=partition_keys,
            options=options,
            comment=comment,
            defaults=defaults,
            where=place.where,
        )
        try:
            return Table(self._catalog.create_table(name, first))
        except AlreadyExists:
            if ignore_if_exists:  # another process was faster
                return self.table(name)
            raise

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Remove a table with all its files. Raises `DatabaseNotFound`, `TableNotFound`."""
        self._catalog.drop_table(name, ignore_if_not_exists=ignore_if_not_exists)

    def rename_table(self, name: str, new_name: str) -> Table:
        """Give a table another name, here or in another database; both are ``database.table``.

        Raises:
            DatabaseNotFound, TableNotFound, AlreadyExists.
            Unsupported: in object stores, where it would be many steps that others see.
        """
        return Table(self._catalog.rename_table(name, new_name))

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Make a database. Raises `AlreadyExists`, `InvalidArgument`."""
        self._catalog.create_database(name, ignore_if_exists=ignore_if_exists)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Remove a database, with `cascade` its tables too.

        Raises:
            DatabaseNotFound. InvalidArgument: it holds tables, and `cascade` was not given.
        """
        self._catalog.drop_database(name, cascade=cascade, ignore_if_not_exists=ignore_if_not_exists)

    def rename_database(self, name: str, new_name: str) -> None:
        """Give a database another name, at once with its tables. Raises as `rename_table`."""
        self._catalog.rename_database(name, new_name)

    def __repr__(self) -> str:
        return f"Catalog({self.warehouse!r})"
