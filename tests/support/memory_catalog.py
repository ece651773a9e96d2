"""A catalog in memory that commits by itself, whose names are not paths and whose folders do not define the tables.

It owns schemas and snapshots like a REST server: it decides which is the newest, and writes the files.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import RLock

from morrow.engine.catalog.names import checked_name, table_name
from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, TableNotFound
from morrow.engine.format.paths import MAIN_BRANCH, TablePaths
from morrow.engine.format.schema import TableSchema, format_schema
from morrow.engine.format.snapshot import Snapshot, format_snapshot
from morrow.engine.io.store import FileStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned, TableOwner


@dataclass
class MemoryTable(TableOwner):
    """A table whose newest schema and snapshot are here, whatever its folder contains."""

    store: FileStore
    folder: str
    schemas: list[TableSchema] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    commits: int = 0
    guard: RLock = field(default_factory=RLock)

    owns = Owned.SCHEMAS | Owned.SNAPSHOTS

    @property
    def paths(self) -> TablePaths:
        return TablePaths(self.folder, MAIN_BRANCH)

    def lock(self, branch: str) -> AbstractContextManager[object]:
        assert branch == MAIN_BRANCH
        return self.guard

    def latest_snapshot(self, branch: str) -> Snapshot | None:
        assert branch == MAIN_BRANCH
        return self.snapshots[-1] if self.snapshots else None

    def commit_snapshot(self, branch: str, base: Snapshot | None, snapshot: Snapshot) -> bool:
        with self.guard:
            if self.latest_snapshot(branch) == snapshot:
                return True
            if self.latest_snapshot(branch) != base:
                return False
            self.store.write(self.paths.snapshot(snapshot.id), format_snapshot(snapshot))
            self.snapshots.append(snapshot)
            self.commits += 1
            return True

    def roll_back(self, branch: str, goal: Snapshot) -> None:
        assert branch == MAIN_BRANCH
        with self.guard:
            while self.snapshots[-1] != goal:
                self.store.delete(self.paths.snapshot(self.snapshots.pop().id))

    def commit_schema(self, branch: str, schema: TableSchema, changes: Sequence[object]) -> bool:
        assert branch == MAIN_BRANCH
        with self.guard:
            if schema.id != len(self.schemas) or (schema.id and not changes):
                return False
            self.store.write(self.paths.schema(schema.id), format_schema(schema))
            self.schemas.append(schema)
            return True


class MemoryCatalog:
    """A `Catalog` with its names in a dictionary."""

    def __init__(self, store: FileStore, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._databases: dict[str, dict[str, MemoryTable]] = {}
        self._guard = RLock()

    title = "the catalog in memory"
    options: Mapping[str, str] = {"metastore": "memory"}

    def databases(self) -> list[str]:
        return sorted(self._databases)

    def has_database(self, name: str) -> bool:
        return name in self._databases

    def create_database(self, name: str, *, ignore_if_exists: bool = False) -> None:
        checked_name("database", name)
        with self._guard:
            if name in self._databases and not ignore_if_exists:
                raise AlreadyExists(f"{self.title}: there is a database {name!r} already")
            self._databases.setdefault(name, {})

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        if ignore_if_not_exists and name not in self._databases:
            return
        if self._tables(name) and not cascade:
            raise InvalidArgument(f"{self.title}: the database {name!r} holds tables")
        del self._databases[name]

    def rename_database(self, name: str, new_name: str) -> None:
        checked_name("database", new_name)
        with self._guard:
            found = self._tables(name)
            if new_name in self._databases:
                raise AlreadyExists(f"{self.title}: there is a database {new_name!r} already")
            self._databases[new_name] = found
            del self._databases[name]

    def tables(self, database: str) -> list[str]:
        return sorted(self._tables(database))

    def has_table(self, name: str) -> bool:
        database, table = table_name(name)
        return table in self._databases.get(database, {})

    def table(self, name: str) -> TableMetadata:
        return self._metadata(self.owner(name))

    def owner(self, name: str) -> MemoryTable:
        database, table = table_name(name)
        found = self._tables(database).get(table)
        if found is None:
            raise TableNotFound(f"{self.title}: there is no table {name!r}")
        return found

    def where_of(self, name: str) -> str:
        database, table = table_name(name)
        return f"{self.title}, {checked_name('database', database)}.{checked_name('table', table)}"

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        self.where_of(name)
        database, table = table_name(name)
        made = MemoryTable(self._store, f"{self._folder}/{uuid.uuid4().hex}")
        with self._guard:
            self.create_database(database, ignore_if_exists=True)
            if table in self._databases[database]:
                raise AlreadyExists(f"{self.title}: there is a table {name!r} already")
            made.commit_schema(MAIN_BRANCH, schema, ())
            self._databases[database][table] = made
        return self._metadata(made)

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        if ignore_if_not_exists and not self.has_table(name):
            return
        database, table = table_name(name)
        self._store.delete_folder(self.owner(name).folder)
        del self._databases[database][table]

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        self.where_of(new_name)
        (database, table), (new_database, new_table) = table_name(name), table_name(new_name)
        with self._guard:
            found, others = self.owner(name), self._tables(new_database)
            if new_table in others:
                raise AlreadyExists(f"{self.title}: there is a table {new_name!r} already")
            others[new_table] = found
            del self._databases[database][table]
        return self._metadata(found)

    def _tables(self, database: str) -> dict[str, MemoryTable]:
        if database not in self._databases:
            raise DatabaseNotFound(f"{self.title}: there is no database {database!r}")
        return self._databases[database]

    def _metadata(self, table: MemoryTable) -> TableMetadata:
        return TableMetadata(self._store, table.folder, owner=table)
