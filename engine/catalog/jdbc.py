"""The JDBC catalog: the names of databases and tables are in a database, their files in a warehouse.

The tables of the database, and the folders ``warehouse/<database>.db/<table>``, are the same as in Java Paimon, so both
can use one catalog. With ``lock.enabled``, the default in object stores, all changes of a table are made under its
lock. The lock also makes commits safe if the object store lacks conditional puts.

A lock is a row of ``paimon_distributed_locks``. If a process is killed, other processes remove its row after the lock
has expired. A writer that has held its lock for longer may have lost it, so its commit is refused.

A view is a row of ``paimon_views``, whose text is JSON as in Java.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from morrow.engine.catalog.databases import LOCATION, check_empty, refuse, refuse_renaming
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.jdbc_database import (
    EXISTS,
    LOCKS,
    PROPERTY,
    CatalogRows,
    Database,
    Duplicate,
    check_properties,
    open_database,
)
from morrow.engine.catalog.names import (
    BRANCH_PREFIX,
    MARK,
    checked_name,
    make_missing_error,
    make_no_database_error,
    table_name,
)
from morrow.engine.catalog.protocol import View, view_from_json, view_to_json
from morrow.engine.catalog.settings import (
    LOCK_ACQUIRE_TIMEOUT,
    LOCK_CHECK_MAX_SLEEP,
    LOCK_ENABLED,
    LOCK_TYPE,
    SYNC_ALL_PROPERTIES,
    WAREHOUSE,
    Settings,
)
from morrow.engine.errors import (
    AlreadyExists,
    InvalidArgument,
    MorrowError,
    StorageError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.resolve import lock_creation, resolve
from morrow.engine.options.declarations import INT, TEXT, Options, declare_honoured
from morrow.engine.options.declared.table import BUCKET_KEY, PARTITION, PRIMARY_KEY
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import TableOwner
from morrow.engine.schema.evolution import create_first_schema
from morrow.engine.structs import replace


class JdbcViews:
    """The methods of a JDBC catalog for views."""

    rows: CatalogRows
    title: Any
    has_table: Callable[[str], bool]
    _require_database: Callable[[str], None]
    _lock: Callable[[str, str], AbstractContextManager[object]]

    def views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted. Raises `DatabaseNotFound`."""
        self._require_database(database)
        return self.rows.views(database)

    def view(self, name: str) -> View:
        """Return a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, view = table_name(name)
        text = self.rows.view(database, view)
        if text is None:
            raise self._without_view(database, view)
        where = f"{self.title}, {name}"
        try:
            return view_from_json(json.loads(text), where)
        except ValueError as error:
            raise StorageError(f"{where}: the view is not JSON: {error}") from error

    def create_view(self, name: str, view: View) -> None:
        """Create a view. Raises `DatabaseNotFound`, `AlreadyExists`."""
        database, own = table_name(name)
        checked_name("view", own)
        self._require_database(database)
        text = json.dumps(view_to_json(view), ensure_ascii=False)
        with self._lock(database, own):
            if self.has_table(name) or not self.rows.add_view(database, own, text):
                raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already")

    def drop_view(self, name: str) -> None:
        """Drop a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        database, view = table_name(name)
        if not self.rows.remove_view(database, view):
            raise self._without_view(database, view)

    def _without_view(self, database: str, view: str) -> TableNotFound:
        return make_missing_error(self.title, "view", database, view, self.views(database))


METASTORE = "jdbc"
CATALOG_KEY = declare_honoured("catalog-key", TEXT, METASTORE, "Name of the catalog among those of its database")
LOCK_KEY_MAX_LENGTH = declare_honoured("lock-key-max-length", INT, 255, "Longest name of a lock")
RESERVED = {
    LOCATION: "tables of a JDBC catalog lie in its warehouse",
    EXISTS: "it is the catalog's mark of a database",
}
"""Database properties that users cannot set, and the hints of their errors."""


def open_catalog(settings: Settings) -> JdbcCatalog:
    """Return the catalog for these settings; create missing catalog tables in the database.

    Raises:
        InvalidArgument: an option is missing, unknown, or has an invalid value.
        Unsupported: a database that Morrow does not support. StorageError: the database does not answer.
    """
    settings.checked((CATALOG_KEY, LOCK_KEY_MAX_LENGTH), (PROPERTY,))
    given = settings.given
    warehouse = settings.required(WAREHOUSE)
    store, root = resolve(warehouse, settings.storage_options(warehouse), settings.verify)
    enabled = given.get(LOCK_ENABLED)
    if (kind := given.get(LOCK_TYPE)) not in ("", METASTORE):
        raise Unsupported(f"lock.type={kind!r} in a JDBC catalog", hint="leave it out: its lock is in its database")
    locks = None
    database, key = open_database(settings), given.get(CATALOG_KEY)
    if enabled if enabled is not None else not store.is_local:
        timeout, sleep = (given.get(each).total_seconds() for each in (LOCK_ACQUIRE_TIMEOUT, LOCK_CHECK_MAX_SLEEP))
        locks = Locks(database, key, timeout, sleep, given.get(LOCK_KEY_MAX_LENGTH))
    rows = CatalogRows(database, key)
    rows.prepare(None if locks is None else given.get(LOCK_KEY_MAX_LENGTH))
    files = FilesystemCatalog(store, root, settings.allowed_roots, settings.public)
    return JdbcCatalog(files, rows, locks, given.get(SYNC_ALL_PROPERTIES))


@dataclass(frozen=True)
class JdbcCatalog(JdbcViews):
    """A `Catalog` with names in `rows` and tables in the folders of `files`."""

    files: FilesystemCatalog
    rows: CatalogRows
    locks: Locks | None
    keeps_properties: bool

    @property
    def title(self) -> str:
        """The address of the database."""
        return f"{self.rows.database.where} ({self.rows.key})"

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the catalog without secrets."""
        return self.files.options

    # Databases

    def databases(self) -> list[str]:
        return self.rows.databases()

    def has_database(self, name: str) -> bool:
        return self.rows.has_database(name)

    def create_database(
        self, name: str, *, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        location = self.files.store.url(self.files.folder_of(checked_name("database", name)))
        refuse(self.title, properties or (), RESERVED)
        made = self.rows.add_database(name, {LOCATION: location, **(properties or {})})
        if not made and not ignore_if_exists:
            raise AlreadyExists(f"{self.title}: there is a database {name!r} already")

    def database_properties(self, name: str) -> dict[str, str]:
        self._require_database(name)
        location = self.files.store.url(self.files.folder_of(name))  # for a database that has only tables
        return {LOCATION: location, **self.rows.database_properties(name)}

    def alter_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        gone = tuple(removed)
        self._require_database(name)
        refuse(self.title, (*properties, *gone), RESERVED)
        self.rows.change_database(name, properties, gone)

    def drop_database(self, name: str, *, cascade: bool = False, ignore_if_not_exists: bool = False) -> None:
        if ignore_if_not_exists and not self.has_database(name):
            return
        tables, views = self.tables(name), self.rows.views(name)
        if not cascade:
            check_empty(self.title, name, tables, views)
        for table in tables:
            self.drop_table(f"{name}.{table}", ignore_if_not_exists=True)
        self.rows.remove_database(name)
        self.files.remove_folder(name)

    def rename_database(self, name: str, new_name: str) -> None:
        self._require_database(name)
        refuse_renaming(self, new_name)

    # Tables

    def tables(self, database: str) -> list[str]:
        self._require_database(database)
        return self.rows.tables(database)

    def has_table(self, name: str) -> bool:
        return self.rows.has_table(*table_name(name))

    def table(self, name: str) -> TableMetadata:
        database, table = table_name(name)
        if not self.rows.has_table(database, table):
            self._require_database(database)
            raise make_missing_error(self.title, "table", database, table, self.rows.tables(database))
        return self._place(name)

    def where_of(self, name: str) -> str:
        return self.files.where_of(name)

    def create_table(self, name: str, schema: TableSchema) -> TableMetadata:
        self.where_of(name)
        database, table = table_name(name)
        place, properties = self._place(name), self._properties(schema)
        check_properties(name, properties)
        self.create_database(database, ignore_if_exists=True)
        with self._lock(database, table):
            if self.has_table(name) or table in self.rows.views(database):
                raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already")
            create_first_schema(place, schema)
            try:
                self.rows.add_table(database, table)
            except BaseException:
                with suppress(MorrowError):  # the first of the two errors is more helpful
                    self.files.remove_table(place)
                raise
            self.rows.set_properties(database, table, properties)
        return place

    def drop_table(self, name: str, *, ignore_if_not_exists: bool = False) -> None:
        if ignore_if_not_exists and not self.has_table(name):
            return
        place = self.table(name)
        self.files.check_removal(place)
        if self.rows.remove_table(*table_name(name)):
            self.files.remove_table(place)

    def rename_table(self, name: str, new_name: str) -> TableMetadata:
        self.where_of(new_name)
        old, new = table_name(name), table_name(new_name)
        first, second = sorted((old, new))
        with self._lock(*first), self._lock(*second) if first != second else nullcontext():
            source, target = self.table(name), self._place(new_name)
            self._require_database(new[0])
            if self.has_table(new_name) or new[1] in self.rows.views(new[0]) or source.store.is_dir(target.root):
                raise AlreadyExists(f"{self.title}: there is a table, view or folder of {new_name!r} already")
            self.rows.rename_table(old, new)
            try:
                if source.store.is_local:
                    self.files.store.make_folder(target.root.rpartition("/")[0])
                self.files.store.move_folder(source.root, target.root)
            except BaseException:
                self.rows.rename_table(new, old)
                raise
        return target

    # Helpers

    def synchronize(self, name: str, schema: TableSchema) -> None:
        """Store the options of a table in the database, if the catalog is configured to."""
        if self.keeps_properties:
            self.rows.set_properties(*table_name(name), self._properties(schema))

    def _properties(self, schema: TableSchema) -> dict[str, str]:
        if not self.keeps_properties:
            return {}
        buckets = Options(schema.options).get(BUCKET_KEY) or (schema.primary_keys and schema.trimmed_primary_keys)
        keys = {PRIMARY_KEY: schema.primary_keys, PARTITION: schema.partition_keys, BUCKET_KEY: buckets}
        return {**schema.options, **{option.key: ",".join(names) for option, names in keys.items() if names}}

    def _require_database(self, database: str) -> None:
        if not self.has_database(database):
            raise make_no_database_error(self.title, database, self.databases())

    def _place(self, name: str) -> TableMetadata:
        database, table = table_name(name)
        found = self.files.found(name)
        if self.locks is None:
            return replace(found, owner=JdbcTable(self, name))
        store = lock_creation(self.files.store, partial(_hold_lock, self.locks, database, table))
        return replace(found, store=store, owner=JdbcTable(self, name))

    def _lock(self, database: str, table: str) -> AbstractContextManager[object]:
        return nullcontext() if self.locks is None else self.locks.hold(database, table)


@dataclass(frozen=True)
class JdbcTable(TableOwner):
    """The catalog's side of a table: its lock, and its options in the database."""

    catalog: JdbcCatalog
    name: str

    def lock(self, branch: str) -> AbstractContextManager[object]:
        database, table = table_name(self.name)
        return self.catalog._lock(database, table if branch == MAIN_BRANCH else f"{table}{MARK}{BRANCH_PREFIX}{branch}")

    def schema_changed(self, branch: str, schema: TableSchema) -> None:
        if branch == MAIN_BRANCH:
            self.catalog.synchronize(self.name, schema)


@contextmanager
def _hold_lock(locks: Locks, database: str, table: str) -> Iterator[Callable[[], None]]:
    with locks.hold(database, table):
        yield partial(locks.check, database, table)


SHORTEST_SLEEP = 0.003
LONGEST_SLEEP = 0.05
"""Maximum sleep between attempts. A lock is free only for moments, so longer sleeps would miss them."""
IMPATIENT_SECONDS = 0.2
"""Time after which a waiter asks four times as often as at first (nine times after twice that), so the oldest wins."""
COURTESY_SECONDS = 0.01
"""Pause before a released lock is acquired again, so that other waiters, which ask only from time to time, get it."""
MARGIN_SECONDS = 2.0
"""Safety margin before expiry, as locks expire in whole seconds and two clocks are compared."""


class Locks:
    """The locks of one catalog. A thread may acquire a lock again that it already holds."""

    def __init__(self, database: Database, key: str, timeout: float, longest_sleep: float, most_key: int) -> None:
        self._database, self._key = database, key
        self._timeout, self._longest_sleep, self._most_key = timeout, longest_sleep, most_key
        self._own = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_own"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._own = threading.local()

    @contextmanager
    def hold(self, database: str, table: str) -> Iterator[None]:
        """Hold the lock of a table within the block.

        Raises:
            StorageError: others hold the lock for longer than ``lock-acquire-timeout``, or the database does not
                answer.
        """
        name, held = f"{self._key}.{database}.{table}", self._get_held()
        if name in held:
            yield
            return
        since = self._acquire(name)
        noted = self._find_stored_time(name)
        held[name] = since
        try:
            yield
        finally:
            del held[name]
            # Do not delete the row of another process that found this lock expired.
            self._database.run(f"DELETE FROM {LOCKS} WHERE lock_id = ? AND acquired_at = ?", name, noted)
            self._own.given_back = (name, time.monotonic())

    def check(self, database: str, table: str) -> None:
        """Raise `StorageError` if this thread does not have the lock of a table, or may have lost it."""
        since = self._get_held().get(f"{self._key}.{database}.{table}")
        if since is None or time.monotonic() - since > self._timeout - min(MARGIN_SECONDS, self._timeout / 2):
            raise StorageError(
                f"{self._database.where}: the lock of {database}.{table} was held for longer than "
                f"{self._timeout:.0f} s; nothing was committed, raise lock-acquire-timeout"
            )

    def _get_held(self) -> dict[str, float]:
        if not hasattr(self._own, "held"):
            self._own.held = {}
        found: dict[str, float] = self._own.held
        return found

    def _acquire(self, name: str) -> float:
        """Acquire a lock; return the time of the request that succeeded."""
        if len(name) > self._most_key:
            raise InvalidArgument(
                f"the name of the lock {name!r} is longer than lock-key-max-length = {self._most_key}"
            )
        begin = time.monotonic()
        last, when = getattr(self._own, "given_back", ("", 0.0))
        if last == name and begin - when < LONGEST_SLEEP:
            time.sleep(COURTESY_SECONDS)
        while True:
            since = time.monotonic()
            if self._try(name):
                return since
            if since - begin > self._timeout:
                raise StorageError(
                    f"{self._database.where}: the lock {name} could not be acquired in {since - begin:.0f} s; who "
                    f"holds it is in {LOCKS}"
                )
            sleep = LONGEST_SLEEP / (1 + (since - begin) / IMPATIENT_SECONDS) ** 2
            time.sleep(min(max(sleep, SHORTEST_SLEEP), self._longest_sleep) * (1 + random.random()) / 2)

    def _try(self, name: str) -> bool:
        # Waiters only read: in SQLite, a write would block the holder from releasing its lock.
        expired = f"{self._database.lock_age} > expire_time_seconds"
        found = self._database.ask(f"SELECT {expired} FROM {LOCKS} WHERE lock_id = ?", name)
        if found and not found[0][0]:
            return False
        if found:
            self._database.run(f"DELETE FROM {LOCKS} WHERE {expired} AND lock_id = ?", name)
        try:
            self._database.run(
                f"INSERT INTO {LOCKS} (lock_id, expire_time_seconds) VALUES (?, ?)", name, int(self._timeout)
            )
        except Duplicate:
            return False
        return True

    def _find_stored_time(self, name: str) -> object:
        """Return the time that the database has stored for a lock that this thread holds."""
        rows = self._database.ask(f"SELECT acquired_at FROM {LOCKS} WHERE lock_id = ?", name)
        return rows[0][0] if rows else None
