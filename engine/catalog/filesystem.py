"""The filesystem catalog: databases are folders ``<name>.db`` of the warehouse, tables are folders in them."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound
from morrow.engine.format.paths import segment
from morrow.engine.io.store import FileStore
from morrow.engine.plan.metadata import TableMetadata

DATABASE_SUFFIX = ".db"


@dataclass(frozen=True)
class FilesystemCatalog:
    """Finds databases and tables under the folder `root` of `store`."""

    store: FileStore
    root: str

    def databases(self) -> list[str]:
        """Names of all databases, sorted.

        Raises:
            DatabaseNotFound: there is no warehouse at this place.
        """
        listed = self.store.list(self.root)
        if not listed and not self.store.is_dir(self.root):
            raise DatabaseNotFound(f"{self.root}: there is no such warehouse folder")
        return sorted(
            s.name.removesuffix(DATABASE_SUFFIX) for s in listed if s.is_dir and s.name.endswith(DATABASE_SUFFIX)
        )

    def tables(self, database: str) -> list[str]:
        """Names of the tables in `database`, sorted: the folders that hold a schema.

        Raises:
            DatabaseNotFound: the warehouse has no such database.
        """
        folder = self._database(database)
        listed = self.store.list(folder)
        return sorted(s.name for s in listed if s.is_dir and self.store.is_dir(f"{folder}/{s.name}/schema"))

    def table(self, name: str) -> TableMetadata:
        """The metadata of ``database.table``.

        Raises:
            InvalidArgument: not of that form. DatabaseNotFound, TableNotFound: nothing of that name.
        """
        database, dot, table = name.partition(".")
        if not dot or not database or not table:
            raise InvalidArgument(f"{name!r} is no table name; write database.table")
        folder = self._database(database)
        path = f"{folder}/{segment(table, folder)}"
        if not self.store.is_dir(f"{path}/schema"):
            known = ", ".join(self.tables(database)) or "none"
            raise TableNotFound(
                f"{self.store.url(self.root)}: there is no table {name!r}; the tables of {database} are: {known}"
            )
        return TableMetadata(self.store, path)

    def _database(self, database: str) -> str:
        name = f"{segment(database, self.root)}{DATABASE_SUFFIX}"
        folder = f"{self.root}/{name}" if self.root else name  # a bucket's own root is empty
        if not self.store.is_dir(folder):
            known = ", ".join(self.databases()) or "none"
            raise DatabaseNotFound(
                f"{self.store.url(self.root)}: there is no database {database!r}; the databases are: {known}"
            )
        return folder
