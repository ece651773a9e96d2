"""The Hive catalog, as in Java Paimon: tables are registered in the Hive metastore, their files are in folders.

A commit atomically creates a file. With ``lock.enabled``, the default in object stores, it holds the metastore's lock
of the table.

The metastore stores a copy of a table's schema. For tables with ``metastore.partitioned-table`` it also stores the
list of partitions: commits add new partitions and drop empty ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import polars as pl

from morrow.engine.catalog import databases
from morrow.engine.catalog.databases import check_empty, refuse, refuse_renaming
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.hive.client import (
    Locks,
    Metastore,
    ObjectExists,
    ObjectMissing,
    find_user,
    load_thrift_types,
)
from morrow.engine.catalog.hive.options import HiveOptions, read_hive_options, to_hadoop_location
from morrow.engine.catalog.hive.tables import (
    LOCATION,
    VIRTUAL_VIEW,
    HiveFolders,
    HiveViews,
    MetastoreTables,
    find_location,
    format_of,
    has_partitions,
    is_external,
    is_paimon,
)
from morrow.engine.catalog.names import (
    BRANCH_PREFIX,
    MARK,
    checked_name,
    make_missing_error,
    make_no_database_error,
    table_name,
)
from morrow.engine.catalog.partition_statistics import partition_specs, partition_statistics
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
from morrow.engine.format.paths import DATABASE_SUFFIX, MAIN_BRANCH, escape_path_name
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import OVERWRITE, Snapshot
from morrow.engine.io.resolve import confine, lock_creation, resolve, unescape_location
from morrow.engine.io.store import FileStore
from morrow.engine.options.declarations import Options
from morrow.engine.options.declared.connectors import METASTORE_PARTITIONED_TABLE, METASTORE_TAG_TO_PARTITION
from morrow.engine.options.declared.table import DATA_FILE_PATH_DIRECTORY, PATH
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned, TableOwner
from morrow.engine.redaction import get_logger
from morrow.engine.schema.evolution import create_first_schema
from morrow.engine.structs import replace

RESERVED = {LOCATION: "say where a database lies by its location"}
"""Database parameters that users cannot set, and the hints of their errors."""


class HiveDatabases:
    """The methods of a Hive catalog for databases."""

    metastore: Metastore
    kept: MetastoreTables
    choices: HiveOptions
    title: Any
    tables: Callable[[str], list[str]]
    views: Callable[[str], list[str]]
    drop_table: Callable[..., None]
    check_name: Callable[[str, str], None]
    resolved: Callable[[str], Any]

    def databases(self) -> list[str]:
        return sorted(self.metastore.call("get_all_databases"))

    def has_database(self, name: str) -> bool:
        try:
            self.metastore.call("get_database", name)
        except ObjectMissing:
            return False
        return True

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        self.check_name("database", name)
        given = dict(properties or {})
        refuse(self.title, given, RESERVED)
        location = given.pop(databases.LOCATION, f"{self.choices.location}/{name}{DATABASE_SUFFIX}")
        comment, owner = given.pop(databases.COMMENT, None), given.pop(databases.OWNER, find_user())
        made = load_thrift_types().Database(name, comment, location, given, ownerName=owner, ownerType=1)
        if self.kept.location_in_properties:
            made.locationUri, made.parameters = None, {**given, LOCATION: location}
        if self.has_database(name):
            if not ignore_if_exists:
                raise AlreadyExists(f"{self.title}: there is a database {name!r} already")
            return
        if self.kept.location_in_properties:
            store, root = self.resolved(location)
            store.make_folder(root)
        try:
            self.metastore.call("create_database", made)
        except ObjectExists:
            if not ignore_if_exists:
                raise AlreadyExists(f"{self.title}: there is a database {name!r} already") from None

    def database_properties(self, name: str) -> dict[str, str]:
        return {**self._read_properties(self._database(name)), databases.LOCATION: self.location_of_database(name)}

    def alter_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        gone = frozenset(removed)
        refuse(self.title, (*properties, *gone), RESERVED)
        refuse(self.title, gone, {databases.LOCATION: "set another location"})
        before, changed = self._database(name), self._database(name)
        kept = {**self._read_properties(before), **properties}
        location = kept.pop(databases.LOCATION, None)
        kept = {key: value for key, value in kept.items() if key not in gone}
        hidden = {key: value for key, value in (before.parameters or {}).items() if key in RESERVED}
        changed.description = kept.pop(databases.COMMENT, None)
        changed.ownerName = kept.pop(databases.OWNER, None)
        changed.parameters = {**kept, **hidden}
        if location is not None and self.kept.location_in_properties:
            changed.parameters[LOCATION] = location
            store, root = self.resolved(location)
            store.make_folder(root)
        elif location is not None:
            changed.locationUri = location
        self.metastore.call("alter_database", name, changed)
        there = self._read_properties(self._database(name))
        if location is not None:
            there[databases.LOCATION] = self._location_as(location, name)
        for key in (*properties, *gone):
            if (there.get(key) or None) != (properties.get(key) or None):  # Hive 2 metastores keep the first comment
                self.metastore.call("alter_database", name, before)
                what = f"changing the property {key!r} of the database {name!r}, which this metastore leaves as it is,"
                raise Unsupported(what, where=self.title, hint="give it when the database is created")

    def _location_as(self, wanted: str, name: str) -> str:
        """Return the location of a database as `wanted` spells it if both are the same; the metastore adds a scheme."""
        there = self.location_of_database(name)
        return wanted if self.resolved(there)[1] == self.resolved(wanted)[1] else there

    def _read_properties(self, found: Any) -> dict[str, str]:
        told = {key: value for key, value in (found.parameters or {}).items() if key not in RESERVED}
        own = {databases.COMMENT: found.description, databases.OWNER: found.ownerName}
        return {**told, **{key: value for key, value in own.items() if value is not None}}

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        if ignore_if_not_exists and not self.has_database(name):
            return
        tables, views = self.tables(name), self.views(name)
        if not cascade:
            check_empty(self.title, name, tables, views)
        location = self.location_of_database(name)
        for table in tables:
            self.drop_table(f"{name}.{table}", ignore_if_not_exists=True)
        for view in views:
            self.metastore.call("drop_table", name, view, False)
        self.metastore.call("drop_database", name, True, False)
        if self.kept.location_in_properties:
            store, root = self.resolved(location)
            confine(store, (root.rpartition("/")[0],)).delete_folder(root)

    def rename_database(self, name: str, new_name: str) -> None:
        self._database(name)
        self.check_name("database", new_name)
        refuse_renaming(self, new_name)

    def location_of_database(self, name: str) -> str:
        """Return the folder or URL below which tables of a database are created. Raises `DatabaseNotFound`."""
        found = self._database(name)
        location = (found.parameters or {}).get(LOCATION) or found.locationUri
        return str(location).rstrip("/") if location else f"{self.choices.location}/{name}{DATABASE_SUFFIX}"

    def _database(self, name: str) -> Any:
        try:
            return self.metastore.call("get_database", name)
        except ObjectMissing:
            raise make_no_database_error(self.title, name, self.databases()) from None


BATCH = 300
"""Maximum number of tables per call."""


def open_catalog(settings: Settings) -> HiveCatalog:
    """Return the catalog for these settings.

    Raises:
        InvalidArgument: an option is missing, unknown, or has an invalid value.
        Unsupported: a feature that Morrow's client lacks, such as Kerberos.
        StorageError: the metastore does not answer.
    """
    options = read_hive_options(settings)
    metastore = Metastore(options.uris, options.timeout, tells_user=options.tells_user, wire=options.wire)
    is_hive_3 = metastore.knows("get_catalogs")
    store = resolve(options.warehouse, settings.storage_options(options.warehouse), settings.verify)[0]
    locks = None
    if options.locks if options.locks is not None else not (store.is_local or options.warehouse.startswith("hdfs:")):
        locks = Locks(metastore, options.lock_timeout, options.longest_sleep)
    kept = MetastoreTables(options.all_properties, options.location_in_properties, is_hive_3)
    return HiveCatalog(metastore, locks, kept, options, settings)


@dataclass(frozen=True)
class HiveCatalog(HiveDatabases, HiveViews, HiveFolders):
    """A `Catalog` with names in a metastore and tables in folders."""

    metastore: Metastore
    locks: Locks | None
    kept: MetastoreTables
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
        return self._place(name, self._require_table(database, table))

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
        path = schema.options.get(PATH.key)
        location = to_hadoop_location(path) if path else f"{self.location_of_database(database)}/{table}"
        external = (
            path is not None or self.choices.makes_external or schema.options.get("external", "").lower() == "true"
        )
        schema = replace(schema, options={key: value for key, value in schema.options.items() if key != PATH.key})
        if path is not None:
            schema = self._find_schema_in(self._at(name, location), schema)
        made = self.kept.new_table(database, table, schema, location, external=external)
        place = self._at(name, location, is_external=external)
        with self.lock_of(database, table):
            if self.kept_table(database, table) is not None:
                raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already")
            if not place.schema_ids():
                create_first_schema(place, schema)
            try:
                self.add_table(made, location)
            except BaseException:
                if path is None:
                    with suppress(MorrowError):  # the first of the two errors is more helpful
                        self._remove_files(place)
                raise
        return place

    @staticmethod
    def _find_schema_in(place: TableMetadata, schema: TableSchema) -> TableSchema:
        """Return the schema of the table that lies in a folder already, or `schema` if there is none.

        Raises `InvalidArgument`: the columns or keys differ.
        """
        if not place.schema_ids():
            return schema
        there = place.latest_schema()
        same = [(each.name, each.type) for each in there.fields] == [(each.name, each.type) for each in schema.fields]
        keys = (there.partition_keys, there.primary_keys) == (schema.partition_keys, schema.primary_keys)
        if not (same and keys):
            raise InvalidArgument(f"{place.where}: the table in this folder has other columns or keys; leave them out")
        return there

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        database, table = table_name(name)
        if ignore_if_not_exists and not self.has_table(name):
            return
        found = self._require_table(database, table, formats=True)
        place = self._place(name, found)
        if not is_external(found):
            self._files_around(place).check_removal(place)
        try:
            self.metastore.call("drop_table", database, table, False)
        except ObjectMissing:
            if not ignore_if_not_exists:
                raise self.missing(database, table) from None
        if not is_external(found):
            self._remove_files(place)

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        self.where_of(new_name)
        old, new = table_name(name), table_name(new_name)
        first, second = sorted((old, new))
        with self.lock_of(*first), self.lock_of(*second) if first != second else nullcontext():
            found = self._require_table(*old)
            self._database(new[0])
            if self.kept_table(*new) is not None:
                raise AlreadyExists(f"{self.title}: there is a table or view {new_name!r} already")
            source = self._place(name, found)
            target = self._at(new_name, f"{self.location_of_database(new[0])}/{new[1]}")
            if not is_external(found) and source.store.is_dir(target.root):
                raise AlreadyExists(f"{target.where}: there is a folder already")
            found.dbName, found.tableName = new
            self.metastore.call("alter_table", *old, found)
            moved = self._require_table(*new)
            place = self._place(new_name, moved)
            if place.root != source.root and not place.schema_ids() and source.schema_ids():
                place.store.move_folder(source.root, place.root)  # in case the metastore has not moved the folder
        return place

    # Helpers

    def kept_table(self, database: str, table: str) -> Any:
        """Return the object of this name in the metastore (a Paimon table, view or Hive table), or None."""
        try:
            return self.metastore.call("get_table", database, table)
        except ObjectMissing:
            return None

    def check_name(self, what: str, name: str) -> None:
        """Check the name of a new database or table. Raises `InvalidArgument`."""
        checked_name(what, name)
        if name != name.lower():
            raise InvalidArgument(f"{name!r} cannot name a {what} in Hive's metastore: write {name.lower()!r}")

    def synchronize(self, name: str, before: TableSchema, schema: TableSchema) -> None:
        """Store a new schema of a table in the metastore. Raises the error of the metastore."""
        database, table = table_name(name)
        found = self._require_table(database, table)
        removed = set(before.options) - set(schema.options)
        found.parameters = {
            key: value
            for key, value in {**found.parameters, **self.kept.properties(schema)}.items()
            if key not in removed
        }
        self.kept.describe(found, schema)
        context = load_thrift_types().EnvironmentContext(self.choices.of_changes)
        self.metastore.call("alter_table_with_environment_context", database, table, found, context)

    def add_table(self, made: Any, location: str) -> None:
        name = f"{made.dbName}.{made.tableName}"
        try:
            self.metastore.call("create_table", made)
        except ObjectExists:
            raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already") from None
        except UnclearOutcome:
            there = self.kept_table(made.dbName, made.tableName)
            if there is None or unescape_location(find_location(there) or "") != unescape_location(location):
                raise

    def _require_table(self, database: str, table: str, *, formats: bool = False) -> Any:
        found = self.kept_table(database, table)
        if found is None or found.tableType == VIRTUAL_VIEW:
            raise self.missing(database, table)
        if not (is_paimon(found) or (formats and format_of(found))):
            what = f"{database}.{table}, a table of Hive's own,"
            raise Unsupported(what, where=self.title, hint="Catalog.format_table opens some")
        return found

    def missing(self, database: str, table: str) -> TableNotFound:
        return make_missing_error(self.title, "table", database, table, self.tables(database))

    def _place(self, name: str, found: Any) -> TableMetadata:
        location = self.location_of_table(name, found)
        owns = Owned.TAGS if METASTORE_TAG_TO_PARTITION.key in found.parameters else Owned.NOTHING
        return self._at(name, location, owns, is_external=is_external(found))

    def location_of_table(self, name: str, found: Any) -> str:
        location = find_location(found)
        if not location:
            raise StorageError(f"{self.title}: the metastore does not say where {name} lies")
        return location

    def _at(self, name: str, location: str, owns: Owned = Owned.NOTHING, *, is_external: bool = False) -> TableMetadata:
        store, root = self.resolved(location)
        if self.locks is not None:
            store = lock_creation(store, partial(_hold_lock, self.locks, *table_name(name)))
        place = TableMetadata(store, root, allowed_roots=self.settings.allowed_roots)
        return replace(place, owner=HiveTable(self, place, name.lower(), owns, is_external))

    def resolved(self, location: str) -> tuple[FileStore, str]:
        """Return the store and the folder of a location of the metastore."""
        place = unescape_location(location)
        return resolve(place, self.settings.storage_options(place), self.settings.verify)

    def _files_around(self, place: TableMetadata) -> FilesystemCatalog:
        return FilesystemCatalog(place.store, place.root.rpartition("/")[0], self.settings.allowed_roots)

    def _remove_files(self, place: TableMetadata) -> None:
        self._files_around(place).remove_table(place)

    def lock_of(self, database: str, table: str) -> AbstractContextManager[object]:
        return nullcontext() if self.locks is None else self.locks.hold(database.lower(), table.lower())


@contextmanager
def _hold_lock(locks: Locks, database: str, table: str) -> Iterator[Callable[[], None]]:
    with locks.hold(database.lower(), table.lower()):
        yield partial(locks.check, database.lower(), table.lower())


log = get_logger(__name__)


class TableKeeper(Protocol):
    """The catalog methods that the owners of its tables use."""

    @property
    def metastore(self) -> Metastore: ...

    @property
    def kept(self) -> MetastoreTables: ...

    def lock_of(self, database: str, table: str) -> AbstractContextManager[object]:
        """Return the lock of a table, if the catalog uses locks."""

    def synchronize(self, name: str, before: TableSchema, schema: TableSchema) -> None:
        """Store a new schema in the metastore."""


@dataclass(frozen=True)
class HiveTable(TableOwner):
    """The metastore's side of one table. It `owns` tags that are shown as partitions; only Java creates these."""

    catalog: TableKeeper
    place: TableMetadata
    """The files of the table, without an owner."""
    name: str
    owns: Owned = Owned.NOTHING
    is_external: bool = False

    def lock(self, branch: str) -> AbstractContextManager[object]:
        database, table = table_name(self.name)
        return self.catalog.lock_of(
            database, table if branch == MAIN_BRANCH else f"{table}{MARK}{BRANCH_PREFIX}{branch}"
        )

    def schema_changed(self, branch: str, schema: TableSchema) -> None:
        """Store the schema in the metastore; if the metastore refuses it, for example for a type, remove it again."""
        if branch != MAIN_BRANCH:
            return
        try:
            self.catalog.synchronize(self.name, self.place.schema(schema.id - 1), schema)
        except MorrowError:
            self.place.store.delete(self.place.paths.schema(schema.id))
            raise

    def snapshot_committed(self, branch: str, snapshot: Snapshot) -> None:
        """Update the partitions; the snapshot is already committed, so a failure is only a warning."""
        if branch != MAIN_BRANCH or not has_partitions(self.place.schema(snapshot.schema_id)):
            return
        database, table = table_name(self.name)
        try:
            tell_partitions(self.catalog.metastore, self.catalog.kept, database, table, self.place, snapshot)
        except (ObjectMissing, MorrowError) as error:
            log.warning("%s: the metastore misses partitions of snapshot %d: %s", self.name, snapshot.id, error)

    def add_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        _send_partitions(
            self.catalog.metastore, self.catalog.kept, *table_name(self.name), self._load_listed_schema(), partitions
        )

    def report_done(self, partitions: Sequence[Mapping[str, str]]) -> None:
        self._load_listed_schema()
        event = load_thrift_types().PartitionEventType.LOAD_DONE
        for spec in partitions:
            with suppress(ObjectMissing):  # as in Java
                self.catalog.metastore.call("markPartitionForEvent", *table_name(self.name), dict(spec), event)

    def _load_listed_schema(self) -> TableSchema:
        """Return the newest schema. Raises `Unsupported` if the metastore does not keep the table's partitions."""
        schema = self.place.latest_schema()
        if not has_partitions(schema):
            hint = f"set {METASTORE_PARTITIONED_TABLE.key!r} = 'true'"
            raise Unsupported("marking a partition as done in the metastore", where=self.place.where, hint=hint)
        return schema


PARTITION_BATCH = 500
"""Maximum number of partitions per call."""


def tell_partitions(
    metastore: Metastore, kept: MetastoreTables, database: str, table: str, metadata: TableMetadata, snapshot: Snapshot
) -> None:
    """Add the partitions that a snapshot adds files to, and drop partitions that an overwrite leaves without files.

    Raises `StorageError`: the metastore refuses or fails.
    """
    schema = metadata.schema(snapshot.schema_id)
    changed = partition_statistics(metadata, snapshot)
    added = [each["spec"] for each in changed if each["fileCount"] > 0]
    if added:
        _send_partitions(metastore, kept, database, table, schema, added)
    fewer = [each["spec"] for each in changed if each["fileCount"] < 0]
    if fewer and snapshot.commit_kind == OVERWRITE:
        living = _find_live_partitions(metadata, snapshot, schema)
        for spec in fewer:
            values = [spec[key] for key in schema.partition_keys]
            if tuple(values) not in living:
                try:
                    metastore.call("drop_partition", database, table, values, False)
                except ObjectMissing:
                    continue


def _send_partitions(
    metastore: Metastore,
    kept: MetastoreTables,
    database: str,
    table: str,
    schema: TableSchema,
    added: Sequence[Mapping[str, str]],
) -> None:
    there = metastore.call("get_table", database, table)
    for begin in range(0, len(added), PARTITION_BATCH):
        parts = [_partition(kept, there, schema, spec) for spec in added[begin : begin + PARTITION_BATCH]]
        request = load_thrift_types().AddPartitionsRequest(database, table, parts, ifNotExists=True, needResult=False)
        metastore.call("add_partitions_req", request)


def _partition(kept: MetastoreTables, table: Any, schema: TableSchema, spec: Mapping[str, str]) -> Any:
    now = int(time.time())
    made = load_thrift_types().Partition(
        values=[spec[key] for key in schema.partition_keys],
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=now,
        lastAccessTime=now,
        sd=copy(table.sd),
        parameters={},
    )
    folders = [f"{escape_path_name(key)}={escape_path_name(spec[key])}" for key in schema.partition_keys]
    below = Options(schema.options).get(DATA_FILE_PATH_DIRECTORY)
    kept.place_partition(made, "/".join(filter(None, (find_location(table), below, *folders))))
    return made


def _find_live_partitions(metadata: TableMetadata, snapshot: Snapshot, schema: TableSchema) -> set[tuple[str, ...]]:
    """Return the values of the partitions that have files."""
    rows = read_live_entries(metadata, snapshot, schema).frame.select(pl.col("_PARTITION").unique())["_PARTITION"]
    specs = partition_specs(metadata, schema, rows.to_list())
    return {tuple(spec[key] for key in schema.partition_keys) for spec in specs}
