"""A warehouse folder as a catalog: ``warehouse/<database>.db/<table>``."""

from __future__ import annotations

import os
from collections.abc import Mapping

from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.io.resolve import resolve
from morrow.table import Table


class Catalog:
    """The tables of one warehouse.

    cat = morrow.Catalog("warehouse")
    cat.databases(), cat.tables("db"), cat.table("db.orders")
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

    def __repr__(self) -> str:
        return f"Catalog({self.warehouse!r})"
