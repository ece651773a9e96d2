"""The catalog of Hive's metastore, as Java Paimon's: tables that Hive sees, schemas and rows in folders.

A commit is a file that is created once; with ``lock.enabled``, as by default in object stores, under the metastore's
lock of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.hive.client import Gone, Metastore, Taken, thrift_types
from morrow.engine.catalog.hive.databases import HiveDatabases
from morrow.engine.catalog.hive.folders import HiveFolders, format_of
from morrow.engine.catalog.hive.locks import Locks
from morrow.engine.catalog.hive.options import HiveOptions, hive_options
from morrow.engine.catalog.hive.owner import HiveTable
from morrow.engine.catalog.hive.tables import (
    VIRTUAL_VIEW,
    Kept,
    is_external,
    is_paimon,
    location_of,
)
from morrow.engine.catalog.hive.views import HiveViews
from morrow.engine.catalog.names import checked_name, table_name
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import (
    AlreadyExists,
    InvalidArgument,
    MorrowError,
    StorageError,
    TableNotFound,
    UnclearOutcome,
    Unsupported,
)
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.locked import locked
from morrow.engine.io.resolve import resolve, unescaped
from morrow.engine.io.store import FileStore
from morrow.engine.options.declared.catalogs import METASTORE_TAG_TO_PARTITION
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.schema.committing import create_first_schema
from morrow.engine.telling import did_you_mean
from morrow.engine.values import replace

BATCH = 300
"""The most tables of one call."""


def opened(settings: Settings) -> HiveCatalog:
    """Returns the catalog of these settings.

    Raises:
        InvalidArgument: an option that is missing, unknown, or has a value of no meaning.
        Unsupported: what Morrow's client does not do, such as Kerberos. StorageError: the metastore does not answer.
    """
    options = hive_options(settings)
    metastore = Metastore(options.uris, options.timeout, tells_user=options.tells_user, wire=options.wire)
    is_hive_3 = metastore.knows("get_catalogs")
    store = resolve(options.warehouse, settings.storage_options(options.warehouse), settings.verify)[0]
    locks = None
    if options.locks if options.locks is not None else not (store.is_local or options.warehouse.startswith("hdfs:")):
        locks = Locks(metastore, options.lock_timeout, options.longest_sleep)
    kept = Kept(options.all_properties, options.location_in_properties, is_hive_3)
    return HiveCatalog(metastore, locks, kept, options, settings)


@dataclass(frozen=True)
class HiveCatalog(HiveDatabases, HiveViews, HiveFolders):
    """A `Catalog` of names in a metastore and of tables in folders."""

    metastore: Metastore
    locks: Locks | None
    kept: Kept
    choices: HiveOptions
    settings: Settings

    @property
    def title(self) -> str:
        """The address of the metastore."""
        return self.metastore.where

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the catalog without secrets."""
        return self.settings.public

    # Tables

    def tables(self, database: str) -> list[str]:
        self._database(database)
        names = self.metastore.call("get_all_tables", database)
        found = []
        for begin in range(0, len(names), BATCH):
            found += self.metastore.call("get_table_objects_by_name", database, names[begin : begin + BATCH])
        formats = self.choices.has_format_tables
        return sorted(each.tableName for each in found if is_paimon(each) or (formats and format_of(each)))

    def has_table(self, name: str) -> bool:
        found = self.kept_table(*table_name(name))
        return found is not None and (is_paimon(found) or format_of(found) is not None)

    def table(self, name: str) -> TableMetadata:
        database, table = table_name(name)
        return self._place(name, self._known_table(database, table))

    def where_of(self, name: str) -> str:
        database, table = table_name(name)
        for what, text in (("database", database), ("table", table)):
            self.check_name(what, text)
        return f"{self.title}, {name}"

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        self.where_of(name)
        database, table = table_name(name)
        if METASTORE_TAG_TO_PARTITION.key in schema.options:
            raise Unsupported(f"the option {METASTORE_TAG_TO_PARTITION}", where=name, hint="create the table in Java")
        self.create_database(database, ignore_if_exists=True)
        location = f"{self.location_of_database(database)}/{table}"
        external = self.choices.makes_external or schema.options.get("external", "").lower() == "true"
        made = self.kept.new_table(database, table, schema, location, external=external)
        place = self._at(name, location)
        with self.lock_of(database, table):
            if self.kept_table(database, table) is not None:
                raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already")
            create_first_schema(place, schema)
            try:
                self.add_table(made, location)
            except BaseException:
                with suppress(MorrowError):  # of the two errors the first tells more
                    self._remove_files(place)
                raise
        return place

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        database, table = table_name(name)
        if ignore_if_not_exists and not self.has_table(name):
            return
        found = self._known_table(database, table, formats=True)
        place = self._place(name, found)
        if not is_external(found):
            self._files_around(place).check_removal(place)
        try:
            self.metastore.call("drop_table", database, table, False)
        except Gone:
            if not ignore_if_not_exists:
                raise self.missing(database, table) from None
        if not is_external(found):
            self._remove_files(place)

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        self.where_of(new_name)
        old, new = table_name(name), table_name(new_name)
        first, second = sorted((old, new))
        with self.lock_of(*first), self.lock_of(*second) if first != second else nullcontext():
            found = self._known_table(*old)
            self._database(new[0])
            if self.kept_table(*new) is not None:
                raise AlreadyExists(f"{self.title}: there is a table or view {new_name!r} already")
            source = self._place(name, found)
            target = self._at(new_name, f"{self.location_of_database(new[0])}/{new[1]}")
            if not is_external(found) and source.store.is_dir(target.root):
                raise AlreadyExists(f"{target.where}: there is a folder already")
            found.dbName, found.tableName = new
            self.metastore.call("alter_table", *old, found)
            moved = self._known_table(*new)
            place = self._place(new_name, moved)
            if place.root != source.root and not place.schema_ids() and source.schema_ids():
                place.store.move_folder(source.root, place.root)  # the metastore moves what it can
        return place

    # Parts

    def kept_table(self, database: str, table: str) -> Any:
        """Returns what the metastore has under a name, be it a table, a view or a table of Hive's; None for nothing."""
        try:
            return self.metastore.call("get_table", database, table)
        except Gone:
            return None

    def check_name(self, what: str, name: str) -> None:
        """Checks the name of a new database or table. Raises `InvalidArgument`."""
        checked_name(what, name)
        if name != name.lower():
            raise InvalidArgument(f"{name!r} is no name for a {what} in Hive's metastore: write {name.lower()!r}")

    def synchronize(self, name: str, before: TableSchema, schema: TableSchema) -> None:
        """Notes a new schema of a table in the metastore. Raises what its refusal is."""
        database, table = table_name(name)
        found = self._known_table(database, table)
        removed = set(before.options) - set(schema.options)
        found.parameters = {
            key: value
            for key, value in {**found.parameters, **self.kept.properties(schema)}.items()
            if key not in removed
        }
        self.kept.describe(found, schema)
        context = thrift_types().EnvironmentContext(self.choices.of_changes)
        self.metastore.call("alter_table_with_environment_context", database, table, found, context)

    def add_table(self, made: Any, location: str) -> None:
        name = f"{made.dbName}.{made.tableName}"
        try:
            self.metastore.call("create_table", made)
        except Taken:
            raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already") from None
        except UnclearOutcome:
            there = self.kept_table(made.dbName, made.tableName)
            if there is None or unescaped(location_of(there) or "") != unescaped(location):
                raise

    def _known_table(self, database: str, table: str, *, formats: bool = False) -> Any:
        found = self.kept_table(database, table)
        if found is None or found.tableType == VIRTUAL_VIEW:
            raise self.missing(database, table)
        if not (is_paimon(found) or (formats and format_of(found))):
            what = f"{database}.{table}, a table of Hive's own,"
            raise Unsupported(what, where=self.title, hint="Catalog.format_table opens some")
        return found

    def missing(self, database: str, table: str) -> TableNotFound:
        tables = self.tables(database)
        known, hint = ", ".join(tables) or "none", did_you_mean(table, tables)
        return TableNotFound(
            f"{self.title}: there is no table '{database}.{table}'; {hint}the tables of {database} are: {known}"
        )

    def _place(self, name: str, found: Any) -> TableMetadata:
        location = self.location_of_table(name, found)
        owns = Owned.TAGS if METASTORE_TAG_TO_PARTITION.key in found.parameters else Owned.NOTHING
        return self._at(name, location, owns)

    def location_of_table(self, name: str, found: Any) -> str:
        location = location_of(found)
        if not location:
            raise StorageError(f"{self.title}: the metastore does not say where {name} lies")
        return location

    def _at(self, name: str, location: str, owns: Owned = Owned.NOTHING) -> TableMetadata:
        store, root = self.resolved(location)
        if self.locks is not None:
            store = locked(store, partial(_held, self.locks, *table_name(name)))
        place = TableMetadata(store, root, allowed_roots=self.settings.allowed_roots)
        return replace(place, owner=HiveTable(self, place, name.lower(), owns))

    def resolved(self, location: str) -> tuple[FileStore, str]:
        """Returns the store and the folder of a location of the metastore."""
        place = unescaped(location)
        return resolve(place, self.settings.storage_options(place), self.settings.verify)

    def _files_around(self, place: TableMetadata) -> FilesystemCatalog:
        return FilesystemCatalog(place.store, place.root.rpartition("/")[0], self.settings.allowed_roots)

    def _remove_files(self, place: TableMetadata) -> None:
        self._files_around(place).remove_table(place)

    def lock_of(self, database: str, table: str) -> AbstractContextManager[object]:
        return nullcontext() if self.locks is None else self.locks.hold(database.lower(), table.lower())


@contextmanager
def _held(locks: Locks, database: str, table: str) -> Iterator[Callable[[], None]]:
    with locks.hold(database.lower(), table.lower()):
        yield partial(locks.check, database.lower(), table.lower())
