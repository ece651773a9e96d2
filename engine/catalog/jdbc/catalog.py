"""The JDBC catalog: which databases and tables there are stands in a database, their files lie in a warehouse.

The tables of the database, and the folders ``warehouse/<database>.db/<table>``, are Java Paimon's: both work on one
catalog. What happens to one table is done under its lock where ``lock.enabled`` is set, as it is by default in object
stores; there the lock also makes commits safe where the store has no conditional put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

from morrow.engine.catalog.databases import LOCATION, check_empty, refuse, refuse_renaming
from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.catalog.jdbc.databases import PROPERTY, database_of
from morrow.engine.catalog.jdbc.locks import Locks
from morrow.engine.catalog.jdbc.rows import EXISTS, CatalogRows, check_properties
from morrow.engine.catalog.jdbc.views import JdbcViews
from morrow.engine.catalog.names import BRANCH_PREFIX, MARK, checked_name, table_name
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
    DatabaseNotFound,
    MorrowError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.locked import locked
from morrow.engine.io.resolve import resolve
from morrow.engine.options.declared.table import BUCKET_KEY, PARTITION, PRIMARY_KEY
from morrow.engine.options.declaring import honoured
from morrow.engine.options.given import Options
from morrow.engine.options.kinds import INT, TEXT
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import TableOwner
from morrow.engine.schema.committing import create_first_schema
from morrow.engine.telling import did_you_mean
from morrow.engine.values import replace

METASTORE = "jdbc"
CATALOG_KEY = honoured("catalog-key", TEXT, METASTORE, "Name of the catalog among those of its database")
LOCK_KEY_MAX_LENGTH = honoured("lock-key-max-length", INT, 255, "Longest name of a lock")
RESERVED = {
    LOCATION: "tables of a JDBC catalog lie in its warehouse",
    EXISTS: "it is the catalog's mark of a database",
}
"""Properties of databases that nobody sets."""


def opened(settings: Settings) -> JdbcCatalog:
    """Returns the catalog of these settings; makes its tables in the database where they are not there.

    Raises:
        InvalidArgument: an option that is missing, unknown, or has a value of no meaning.
        Unsupported: a database that Morrow does not know. StorageError: it does not answer.
    """
    settings.checked((CATALOG_KEY, LOCK_KEY_MAX_LENGTH), (PROPERTY,))
    given = settings.given
    warehouse = settings.required(WAREHOUSE)
    store, root = resolve(warehouse, settings.storage_options(warehouse), settings.verify)
    enabled = given.get(LOCK_ENABLED)
    if (kind := given.get(LOCK_TYPE)) not in ("", METASTORE):
        raise Unsupported(f"lock.type={kind!r} in a JDBC catalog", hint="leave it out: its lock is in its database")
    locks = None
    database, key = database_of(settings), given.get(CATALOG_KEY)
    if enabled if enabled is not None else not store.is_local:
        timeout, sleep = (given.get(each).total_seconds() for each in (LOCK_ACQUIRE_TIMEOUT, LOCK_CHECK_MAX_SLEEP))
        locks = Locks(database, key, timeout, sleep, given.get(LOCK_KEY_MAX_LENGTH))
    rows = CatalogRows(database, key)
    rows.prepare(None if locks is None else given.get(LOCK_KEY_MAX_LENGTH))
    files = FilesystemCatalog(store, root, settings.allowed_roots, settings.public)
    return JdbcCatalog(files, rows, locks, given.get(SYNC_ALL_PROPERTIES))


@dataclass(frozen=True)
class JdbcCatalog(JdbcViews):
    """A `Catalog` of names in `rows` and of tables in the folders of `files`."""

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
        self._known(name)
        location = self.files.store.url(self.files.folder_of(name))  # of one that only has tables
        return {LOCATION: location, **self.rows.database_properties(name)}

    def alter_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        gone = tuple(removed)
        self._known(name)
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
        self._known(name)
        refuse_renaming(self, new_name)

    # Tables

    def tables(self, database: str) -> list[str]:
        self._known(database)
        return self.rows.tables(database)

    def has_table(self, name: str) -> bool:
        return self.rows.has_table(*table_name(name))

    def table(self, name: str) -> TableMetadata:
        database, table = table_name(name)
        if not self.rows.has_table(database, table):
            self._known(database)
            tables = self.rows.tables(database)
            known, hint = ", ".join(tables) or "none", did_you_mean(table, tables)
            raise TableNotFound(
                f"{self.title}: there is no table {name!r}; {hint}the tables of {database} are: {known}"
            )
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
                with suppress(MorrowError):  # of the two errors the first tells more
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
            self._known(new[0])
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

    # Parts

    def synchronize(self, name: str, schema: TableSchema) -> None:
        """Notes the options of a table in the database, if that is wanted."""
        if self.keeps_properties:
            self.rows.set_properties(*table_name(name), self._properties(schema))

    def _properties(self, schema: TableSchema) -> dict[str, str]:
        if not self.keeps_properties:
            return {}
        buckets = Options(schema.options).get(BUCKET_KEY) or (schema.primary_keys and schema.trimmed_primary_keys)
        keys = {PRIMARY_KEY: schema.primary_keys, PARTITION: schema.partition_keys, BUCKET_KEY: buckets}
        return {**schema.options, **{option.key: ",".join(names) for option, names in keys.items() if names}}

    def _known(self, database: str) -> None:
        if not self.has_database(database):
            databases = self.databases()
            known, hint = ", ".join(databases) or "none", did_you_mean(database, databases)
            raise DatabaseNotFound(f"{self.title}: there is no database {database!r}; {hint}the databases are: {known}")

    def _place(self, name: str) -> TableMetadata:
        database, table = table_name(name)
        found = self.files.found(name)
        if self.locks is None:
            return replace(found, owner=JdbcTable(self, name))
        store = locked(self.files.store, partial(_held, self.locks, database, table))
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
def _held(locks: Locks, database: str, table: str) -> Iterator[Callable[[], None]]:
    with locks.hold(database, table):
        yield partial(locks.check, database, table)
