"""The filesystem catalog: databases are folders ``<name>.db`` of the warehouse, tables are folders in them.

A table is there from the moment its first schema file is, and until its schemas are gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, TableNotFound
from morrow.engine.format.paths import segment
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.store import FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.committing import create_first_schema

DATABASE_SUFFIX = ".db"
SYSTEM_DATABASE = "sys"
SYSTEM_TABLE_MARK = "$"
SCHEMA_FOLDER = "schema"
DROPPED_FIRST = ("snapshot", "changelog", "tag", "branch")
"""What makes rows visible goes first: whatever interrupts a drop leaves an empty table that can be dropped again."""


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
        return sorted(s.name for s in listed if s.is_dir and self.store.is_dir(f"{folder}/{s.name}/{SCHEMA_FOLDER}"))

    def table(self, name: str) -> TableMetadata:
        """The metadata of ``database.table``.

        Raises:
            InvalidArgument: not of that form. DatabaseNotFound, TableNotFound: nothing of that name.
        """
        database, _ = _split(name)
        self._database(database)
        found = self._place(name)
        if not self._is_table(found):
            known = ", ".join(self.tables(database)) or "none"
            raise TableNotFound(
                f"{self.store.url(self.root)}: there is no table {name!r}; the tables of {database} are: {known}"
            )
        return found

    def has_database(self, name: str) -> bool:
        """Whether there is a database of this name."""
        return self.store.is_dir(self._database_folder(name))

    def has_table(self, name: str) -> bool:
        """Whether there is a table ``database.table``. Raises `InvalidArgument` for a name not of that form."""
        return self.has_database(_split(name)[0]) and self._is_table(self._place(name))

    # Databases made, dropped and renamed

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Make a database, and the warehouse if it is not there.

        Raises:
            AlreadyExists: there is one of this name. InvalidArgument, UnsafePath: a name that no database can have.
        """
        folder = self._database_folder(_checked("database", name))
        if self.store.is_dir(folder):
            if not ignore_if_exists:
                raise AlreadyExists(f"{self.store.url(self.root)}: there is a database {name!r} already")
            return
        if self.store.exists(folder):
            raise AlreadyExists(f"{self.store.url(folder)}: there is a file where the database would be")
        if self.root:
            self.store.make_folder(self.root)
        self.store.make_folder(folder)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Remove a database; with `cascade` its tables too.

        Raises:
            DatabaseNotFound: there is none. InvalidArgument: it holds tables.
        """
        if ignore_if_not_exists and not self.has_database(name):
            return
        tables = self.tables(name)
        if tables and not cascade:
            raise InvalidArgument(
                f"{self.store.url(self.root)}: the database {name!r} holds {len(tables)} tables "
                f"({', '.join(tables[:5])}); drop them first, or pass cascade=True"
            )
        for table in tables:
            self.drop_table(f"{name}.{table}", ignore_if_not_exists=True)
        self.store.delete_folder(self._database_folder(name))

    def rename_database(self, name: str, new_name: str) -> None:
        """Give a database another name, at once, with all its tables.

        Raises:
            DatabaseNotFound, AlreadyExists. Unsupported: in object stores.
        """
        source, target = self._database(name), self._database_folder(_checked("database", new_name))
        if self.store.is_dir(target):
            raise AlreadyExists(f"{self.store.url(self.root)}: there is a database {new_name!r} already")
        self.store.move_folder(source, target)

    # Tables made, dropped and renamed

    def place_of(self, name: str) -> TableMetadata:
        """Where a new table ``database.table`` would lie. Raises `InvalidArgument` for a name no table can have."""
        database, table = _split(name)
        _checked("database", database)
        _checked("table", table)
        return self._place(name)

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        """Make a table of this first schema, and its database if it is not there.

        Raises:
            AlreadyExists: there is a table of this name. InvalidArgument: a name that no table can have.
        """
        place = self.place_of(name)
        self.create_database(_split(name)[0], ignore_if_exists=True)
        create_first_schema(place, schema)
        return place

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Remove a table with all its files; those in folders outside of the table's own stay.

        Raises:
            DatabaseNotFound, TableNotFound: there is none.
        """
        if ignore_if_not_exists and not self.has_table(name):
            return
        root = self.table(name).root
        found = [status.name for status in self.store.list(root) if status.is_dir]
        rest = [folder for folder in found if folder not in (*DROPPED_FIRST, SCHEMA_FOLDER)]
        for folder in (*DROPPED_FIRST, *rest, SCHEMA_FOLDER):
            if folder in found:
                self.store.delete_folder(f"{root}/{folder}")
        self.store.delete_folder(root)

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        """Give a table another name, at once, in the same or another database.

        Raises:
            DatabaseNotFound, TableNotFound, AlreadyExists. Unsupported: in object stores.
        """
        source, target = self.table(name), self.place_of(new_name)
        self._database(_split(new_name)[0])
        if self.store.is_dir(target.root):
            raise AlreadyExists(f"{target.where}: there is a table or folder already")
        self.store.move_folder(source.root, target.root)
        return target

    def _place(self, name: str) -> TableMetadata:
        database, table = _split(name)
        folder = self._database_folder(database)
        return TableMetadata(self.store, f"{folder}/{segment(table, folder)}")

    def _is_table(self, place: TableMetadata) -> bool:
        return self.store.is_dir(f"{place.root}/{SCHEMA_FOLDER}")

    def _database_folder(self, database: str) -> str:
        name = f"{segment(database, self.root)}{DATABASE_SUFFIX}"
        return f"{self.root}/{name}" if self.root else name  # a bucket's own root is empty

    def _database(self, database: str) -> str:
        folder = self._database_folder(database)
        if not self.store.is_dir(folder):
            known = ", ".join(self.databases()) or "none"
            raise DatabaseNotFound(
                f"{self.store.url(self.root)}: there is no database {database!r}; the databases are: {known}"
            )
        return folder


def _split(name: str) -> tuple[str, str]:
    database, dot, table = name.partition(".")
    if not dot or not database or not table:
        raise InvalidArgument(f"{name!r} is no table name; write database.table")
    return database, table


def _checked(what: str, name: str) -> str:
    """The name of something new. Raises `InvalidArgument` for what Paimon keeps for itself, or cannot find again."""
    if not name.strip() or name != name.strip() or name.startswith(".") or SYSTEM_TABLE_MARK in name:
        raise InvalidArgument(
            f"{name!r} is no name for a {what}: it must not be blank, begin with '.' or a blank, end with a blank, "
            f"or have {SYSTEM_TABLE_MARK!r} in it"
        )
    if what == "database" and name == SYSTEM_DATABASE:
        raise InvalidArgument(f"{name!r} is the database of Paimon's own tables; choose another name")
    return name
