"""The `Catalog` protocol: how databases and tables are found by name, made, changed and dropped.

A table is found as `TableMetadata`: the store and folder of its files, and the catalog's side of it (`TableOwner`),
which commits where the catalog does. Where the folder lies is the catalog's affair: names are no paths.

`docs/implementing.md` tells how to write one; `morrow.testing.CatalogTests` holds it to what is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from morrow.engine.format.schema import TableSchema
from morrow.engine.plan.metadata import TableMetadata


class Catalog(Protocol):
    """Databases of tables. Tables are named ``database.table``; names are case-sensitive.

    Every method raises `StorageError` when the catalog does not answer, and those that take the name of a table
    `InvalidArgument` for another form of name. Several threads may call them.
    """

    @property
    def title(self) -> str:
        """The catalog's name in messages, such as a folder or URL. It has no secrets."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options that ``sys.catalog_options`` shows, without secrets."""

    def databases(self) -> list[str]:
        """Returns the names of all databases, sorted. Raises `DatabaseNotFound`: there is no such catalog."""

    def has_database(self, name: str) -> bool:
        """Returns whether a database of this name exists."""

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Creates a database. Raises `AlreadyExists`, and `InvalidArgument` for what `checked_name` refuses."""

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Drops a database; with `cascade` its tables too.

        Raises:
            DatabaseNotFound: it does not exist. InvalidArgument: it holds tables.
        """

    def rename_database(self, name: str, new_name: str) -> None:
        """Renames a database in one step, with all its tables.

        Raises:
            DatabaseNotFound, AlreadyExists. Unsupported: the catalog cannot; nothing was changed.
        """

    def tables(self, database: str) -> list[str]:
        """Returns the names of the tables in `database`, sorted. Raises `DatabaseNotFound`."""

    def has_table(self, name: str) -> bool:
        """Returns whether a table exists; False too where there is no such database."""

    def table(self, name: str) -> TableMetadata:
        """Returns the metadata of a table, on its main branch. Raises `DatabaseNotFound`, `TableNotFound`."""

    def where_of(self, name: str) -> str:
        """Returns the title of a table that need not exist, for messages.

        Raises:
            InvalidArgument: a name that no table can have.
        """

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        """Creates a table with this first schema, and its database if it does not exist.

        Raises:
            AlreadyExists: the table exists. InvalidArgument: a name that no table can have.
        """

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drops a table with its files. Raises `DatabaseNotFound`, `TableNotFound`."""

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        """Renames a table in one step, within its database or to another.

        Raises:
            DatabaseNotFound, TableNotFound, AlreadyExists. Unsupported: the catalog cannot; nothing was changed.
        """
