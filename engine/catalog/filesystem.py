"""The filesystem catalog: databases are folders ``<name>.db`` of the warehouse, tables are folders in them.

A table exists from the creation of its first schema file until its schemas are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from morrow.engine.arguments import check_text
from morrow.engine.catalog.databases import LOCATION, check_empty
from morrow.engine.catalog.names import checked_name, make_missing_error, table_name
from morrow.engine.catalog.settings import LOCK_ENABLED, WAREHOUSE, Settings
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    UnsafePath,
    Unsupported,
)
from morrow.engine.format.paths import DATABASE_SUFFIX, check_segment
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.resolve import check_inside, confine, is_inside, is_link, resolve
from morrow.engine.io.store import FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import suggest_name

SCHEMA_FOLDER = "schema"
DROPPED_FIRST = ("snapshot", "changelog", "tag", "branch")
"""Folders that make rows visible. A drop removes them first, so an interrupted drop leaves an empty table."""

NO_FOLDER = "the warehouse's folder does not exist"


def open_catalog(settings: Settings) -> FilesystemCatalog:
    """Return the catalog for these settings. Raises `InvalidArgument`, and `Unsupported` for a lock."""
    given = settings.checked().given
    if given.get(LOCK_ENABLED):
        hint = "leave it out where the store has conditional puts; a catalog with metastore=jdbc has a lock"
        raise Unsupported(f"the option {LOCK_ENABLED} of a filesystem catalog", hint=hint)
    warehouse = settings.required(WAREHOUSE)
    store, root = resolve(warehouse, settings.storage_options(warehouse), settings.verify)
    return FilesystemCatalog(store, root, settings.allowed_roots, settings.public)


@dataclass(frozen=True)
class FilesystemCatalog:
    """A `Catalog` of the databases and tables under the folder `root` of `store`."""

    store: FileStore
    root: str
    allowed_roots: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def title(self) -> str:
        """The folder or URL of the warehouse."""
        return self.store.url(self.root)

    @property
    def options(self) -> Mapping[str, str]:
        """The options that were set, and the location of the warehouse, without credentials."""
        return {**self.settings, WAREHOUSE.key: self.title}

    def databases(self) -> list[str]:
        """Return the names of all databases, sorted; none if the folder does not exist yet.

        Raises `InvalidArgument`: the warehouse is a file.
        """
        listed = self.store.list(self.root)
        if not listed and self.root and self.store.exists(self.root) and not self.store.is_dir(self.root):
            raise InvalidArgument(f"{self.title}: a warehouse is a folder, this is a file; name the folder")
        return sorted(
            s.name.removesuffix(DATABASE_SUFFIX) for s in listed if s.is_dir and s.name.endswith(DATABASE_SUFFIX)
        )

    @property
    def exists(self) -> bool:
        """Whether the folder of the warehouse exists."""
        return self.store.is_dir(self.root) or bool(self.store.list(self.root))

    def tables(self, database: str) -> list[str]:
        """Return the names of the tables in `database`, sorted: the folders that hold a schema.

        Raises `DatabaseNotFound`: the database does not exist.
        """
        folder = self._database(database)
        listed = self.store.list(folder)
        return sorted(s.name for s in listed if s.is_dir and self.store.is_dir(f"{folder}/{s.name}/{SCHEMA_FOLDER}"))

    def table(self, name: str) -> TableMetadata:
        """Return the metadata of ``database.table``.

        Raises `InvalidArgument`: the name does not have this form. DatabaseNotFound, TableNotFound: it does not exist.
        """
        database, table = table_name(name)
        self._database(database)
        found = self.found(name)
        if not self._is_table(found):
            raise make_missing_error(self.store.url(self.root), "table", database, table, self.tables(database))
        return found

    def has_database(self, name: str) -> bool:
        """Return whether a database of this name exists."""
        return self.store.is_dir(self.folder_of(name))

    def has_table(self, name: str) -> bool:
        """Return whether a table ``database.table`` exists. Raises `InvalidArgument` for other names."""
        return self.has_database(table_name(name)[0]) and self._is_table(self.found(name))

    def database_properties(self, name: str) -> dict[str, str]:
        """Return the location of a database, the only property of a folder. Raises `DatabaseNotFound`."""
        return {LOCATION: self.store.url(self._database(name))}

    # Creating, dropping and renaming databases

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        """Create a database, and the warehouse if it does not exist.

        Raises `AlreadyExists`: the database exists. `InvalidArgument`, `UnsafePath`: not a valid database name.
        """
        folder = self.folder_of(checked_name("database", name))
        if self.store.is_dir(folder):
            if not ignore_if_exists:
                raise AlreadyExists(f"{self.store.url(self.root)}: there is a database {name!r} already")
            return
        if self.store.exists(folder):
            raise AlreadyExists(f"{self.store.url(folder)}: the database cannot be created where there is a file")
        if self.root:
            self.store.make_folder(self.root)
        self.store.make_folder(folder)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        """Drop a database, with `cascade` its tables too.

        Raises `DatabaseNotFound`: it does not exist. `InvalidArgument`: it holds tables.
        """
        if ignore_if_not_exists and not self.has_database(name):
            return
        tables = self.tables(name)
        if not cascade:
            check_empty(self.store.url(self.root), name, tables)
        for table in tables:
            self.drop_table(f"{name}.{table}", ignore_if_not_exists=True)
        self.remove_folder(name)

    def remove_folder(self, database: str) -> None:
        """Remove the folder of a database, with everything in it."""
        confine(self.store, (self.root,)).delete_folder(self.folder_of(database))

    def rename_database(self, name: str, new_name: str) -> None:
        """Rename a database in one step, with all its tables.

        Raises:
            DatabaseNotFound: the old name does not exist. AlreadyExists: the new name exists.
            Unsupported: the warehouse is in an object store.
        """
        source, target = self._database(name), self.folder_of(checked_name("database", new_name))
        if self.store.is_dir(target):
            raise AlreadyExists(f"{self.store.url(self.root)}: there is a database {new_name!r} already")
        self.store.move_folder(source, target)

    # Creating, dropping and renaming tables

    def place_of(self, name: str) -> TableMetadata:
        """Return the location of a new table ``database.table``. Raises `InvalidArgument` for an invalid name."""
        database, table = table_name(name)
        checked_name("database", database)
        checked_name("table", table)
        return self.found(name)

    def where_of(self, name: str) -> str:
        """Return the location of a new table for messages. Raises `InvalidArgument` for an invalid name."""
        return self.place_of(name).where

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        """Create a table with this first schema, and its database if it does not exist.

        Raises `AlreadyExists`: the table exists. `InvalidArgument`: not a valid table name.
        """
        place = self.place_of(name)
        self.create_database(table_name(name)[0], ignore_if_exists=True)
        from morrow.engine.schema.evolution import create_first_schema  # expensive to import, and not needed for reads

        create_first_schema(place, schema)
        return place

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        """Drop a table with all files in its folder; files in other folders are kept.

        A link in the table is removed, but its target is kept. The same applies if the table's folder is itself a link,
        unless the link leads below `allowed_roots`.

        Raises:
            DatabaseNotFound, TableNotFound: it does not exist.
            UnsafePath: a link above the table leads out of the warehouse; nothing was removed.
        """
        if ignore_if_not_exists and not self.has_table(name):
            return
        self.remove_table(self.table(name))

    def check_removal(self, table: TableMetadata) -> None:
        """Raise `UnsafePath` if a link above the table leads out of the warehouse."""
        root = table.root
        if not is_link(self.store, root) or is_inside(self.store, f"{root}/.", table.removable_roots):
            check_inside(self.store, root, (self.root, *table.removable_roots))

    def remove_table(self, table: TableMetadata) -> None:
        """Remove the files of a table; keep files and raise errors as `drop_table` does."""
        root, warehouse = table.root, confine(self.store, (self.root, *table.removable_roots))
        if not is_link(self.store, root) or is_inside(self.store, f"{root}/.", table.removable_roots):
            self.check_removal(table)
            found = [status.name for status in self.store.list(root) if status.is_dir]
            rest = [folder for folder in found if folder not in (*DROPPED_FIRST, SCHEMA_FOLDER)]
            for folder in (*DROPPED_FIRST, *rest, SCHEMA_FOLDER):
                if folder in found:
                    table.store.delete_folder(f"{root}/{folder}")
        warehouse.delete_folder(root)

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        """Rename a table in one step, within its database or to another.

        Raises:
            DatabaseNotFound, TableNotFound: the old name does not exist. AlreadyExists: the new name exists.
            Unsupported: the warehouse is in an object store.
        """
        source, target = self.table(name), self.place_of(new_name)
        self._database(table_name(new_name)[0])
        if self.store.is_dir(target.root):
            raise AlreadyExists(f"{target.where}: there is a table or folder already")
        self.store.move_folder(source.root, target.root)
        return target

    def found(self, name: str) -> TableMetadata:
        """Return the location of a table, whether or not the table exists."""
        database, table = table_name(name)
        folder = self.folder_of(database)
        return TableMetadata(
            self.store, f"{folder}/{_check_folder_name(table, folder)}", allowed_roots=self.allowed_roots
        )

    def _is_table(self, place: TableMetadata) -> bool:
        return self.store.is_dir(f"{place.root}/{SCHEMA_FOLDER}")

    def folder_of(self, database: str) -> str:
        """Return the folder of a database, whether or not the database exists."""
        check_text(database, "the name of a database")
        name = f"{_check_folder_name(database, self.root)}{DATABASE_SUFFIX}"
        return f"{self.root}/{name}" if self.root else name  # the root of a bucket is an empty path

    def _database(self, database: str) -> str:
        folder = self.folder_of(database)
        if not self.store.is_dir(folder):
            databases = self.databases()
            known = ", ".join(databases) or ("none" if self.exists else f"none; {NO_FOLDER}")
            hint = suggest_name(database, databases)
            raise DatabaseNotFound(
                f"{self.store.url(self.root)}: there is no database {database!r}; {hint}the databases are: {known}"
            )
        return folder


def check_warehouse(catalog: object) -> None:
    """Raise `DatabaseNotFound` if `catalog` is a folder that does not exist.

    Without this check, an operation on all tables of a warehouse would silently do nothing if the path is mistyped.
    """
    if isinstance(catalog, FilesystemCatalog) and not catalog.exists:
        raise DatabaseNotFound(f"{catalog.title}: {NO_FOLDER}; correct the path, or create a database in it")


def _check_folder_name(name: str, where: str) -> str:
    """Return the name of a database or table, which is also its folder's. Raises `UnsafePath` for an invalid name."""
    try:
        return check_segment(name, where)
    except UnsafePath as error:
        raise UnsafePath(f"{where}: no folder can be named {name!r}; leave /, \\ and null characters out") from error
