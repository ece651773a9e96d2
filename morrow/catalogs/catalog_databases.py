"""Databases of a catalog created, described, changed, dropped and renamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from morrow.engine.catalog import databases
from morrow.engine.catalog.databases import Database
from morrow.engine.catalog.watching import changed

if TYPE_CHECKING:
    from morrow.engine.catalog.protocol import Catalog as CatalogProtocol

T = TypeVar("T")


class CatalogDatabases:
    """The methods of `morrow.Catalog` for databases."""

    _catalog: CatalogProtocol

    def database(self, name: str) -> Database:
        """Returns what the catalog tells of a database: its location, comment, owner and properties.

        Raises:
            DatabaseNotFound: it does not exist.
        """
        return databases.database_of(self._catalog, name)

    def create_database(
        self,
        name: str,
        *,
        properties: Mapping[str, object] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> None:
        """Creates a database.

        Args:
            name: its name.
            properties: what the catalog keeps with it, for all its clients: texts, numbers and booleans by name.
            comment: the property ``comment``.
            ignore_if_exists: leave a database that exists as it is.

        Raises:
            AlreadyExists, InvalidArgument.
            Unsupported: properties or a comment, in a catalog that keeps none; nothing was made.
        """
        given = databases.checked_properties(properties, comment)
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
        """Changes properties of a database: sets some, removes others.

        Args:
            name: its name.
            properties: those to set, as for `create_database`.
            unset: the names of those to remove; it does not matter whether they are there.
            comment: the new comment; empty: none.

        Raises:
            DatabaseNotFound. InvalidArgument: nothing to change.
            Unsupported: in a catalog that keeps none, or not this one; nothing was changed.
        """
        given = databases.checked_properties(properties, comment)
        databases.alter_database(self._catalog, name, given, unset)

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
        changed(self._catalog.title)
        return done
