"""The database of a JDBC catalog (SQLite, PostgreSQL or MySQL), with its tables and statements.

Addresses are ``jdbc:sqlite:...``, ``jdbc:postgresql://...`` and ``jdbc:mysql://...``. Names and types of the tables are
as in Java. Every statement is a separate transaction, as in Java. Parameters are written ``?``.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from morrow.engine.catalog.settings import URI, Settings
from morrow.engine.errors import AlreadyExists, InvalidArgument, StorageError, Unsupported
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.plugins import require_extra
from morrow.engine.redaction import redact_error, redact_text, register_secrets

Rows: TypeAlias = list[tuple[Any, ...]]
T = TypeVar("T")

PROPERTY = "jdbc."
"""The prefix of driver options."""
BUSY_SECONDS = 60.0
BUSY_SLEEPS = (0.001, 0.02)
"""First and longest pause before a busy file is tried again. SQLite's own pause of 100 ms would let others go first."""
CONNECT_SECONDS = "30"
JOURNAL = "journal_mode="
JOURNALS = ("WAL", "DELETE", "TRUNCATE", "PERSIST")
"""Journal modes of a file. With WAL, readers do not block writers; Java leaves some readers open."""
LOCAL_ZONE = Path("/etc/localtime")
ZONES = "/zoneinfo/"
DRIVER_NAMES = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connectTimeout": "connect_timeout",
    "ApplicationName": "application_name",
}
"""Supported properties of PostgreSQL's JDBC driver -> parameters of libpq."""

MYSQL_NAMES = {
    "user": "user",
    "password": "password",
    "connectTimeout": "connect_timeout",
    "sslMode": "ssl_mode",
    "useSSL": "use_ssl",
}
"""Supported properties of MySQL's JDBC driver -> names here."""
MYSQL_IDLE = frozenset(
    (
        *("allowPublicKeyRetrieval", "autoReconnect", "characterEncoding", "nullCatalogMeansCurrent"),
        *("rewriteBatchedStatements", "serverTimezone", "connectionTimeZone", "useUnicode", "zeroDateTimeBehavior"),
        *("useAffectedRows", "tinyInt1isBit", "socketTimeout"),
    )
)
"""Properties of MySQL's JDBC driver without effect here: connections are UTF-8, the server compares times."""
MYSQL_SSL = {"": "", "DISABLED": "", "PREFERRED": "", "REQUIRED": "true"}
"""Values of sslMode -> whether connections must be encrypted."""
DEFAULT_MYSQL_MILLIS = "30000"
"""The default of connectTimeout, as for PostgreSQL."""
MYSQL_DUPLICATE = 1062
"""MySQL's error for a row whose key exists."""


class Duplicate(Exception):
    """A row with this key already exists."""


class Database(ABC):
    """One database. Thread-safe; pickled without secrets."""

    lock_age: str
    """SQL expression for the seconds since a lock was acquired."""
    table_suffix: ClassVar[str] = ""
    """SQL after the columns of CREATE TABLE."""
    given_rows: ClassVar[tuple[str, str]] = ("(VALUES (?, ?, ?, ?){more}) AS given", ", (?, ?, ?, ?)")
    """SQL of a table whose rows have four parameters: the text with the first row, and the text of each further row."""
    upsert: ClassVar[str] = (
        "ON CONFLICT (catalog_key, database_name, property_key) DO UPDATE SET property_value = excluded.property_value"
    )
    """SQL of an INSERT of properties that replaces values."""

    def __init__(self, where: str) -> None:
        self.where = where

    @abstractmethod
    def ask(self, statement: str, *values: object) -> Rows:
        """Return the rows of a query. Raises `StorageError`."""

    @abstractmethod
    def run(self, statement: str, *values: object) -> int:
        """Run a statement; return the number of rows it changed. Raises `Duplicate`, `StorageError`."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Return whether the database has a table of this name."""

    def failed(self, error: Exception) -> StorageError:
        """Return the error for a failed statement."""
        lines = str(redact_error(error)).strip().splitlines() or [type(error).__name__]
        return StorageError(f"{self.where}: {lines[0]}; check the option {URI} and whether the database is up")


class Sqlite(Database):
    """An SQLite file. Each statement opens the file again, which takes 0.1 ms and is safe with threads and forks."""

    lock_age = "strftime('%s', 'now') - strftime('%s', acquired_at)"

    def __init__(self, where: str, path: str, journal: str = "") -> None:
        super().__init__(where)
        self._path = path
        if journal:
            self.ask(f"PRAGMA journal_mode = {journal}")  # stored in the file

    def ask(self, statement: str, *values: object) -> Rows:
        return self._with(lambda connection: connection.execute(statement, values).fetchall())

    def run(self, statement: str, *values: object) -> int:
        return self._with(lambda connection: connection.execute(statement, values).rowcount)

    def has_table(self, name: str) -> bool:
        return bool(self.ask("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name))

    def _with(self, use: Callable[[sqlite3.Connection], T]) -> T:
        begin, (pause, longest) = time.monotonic(), BUSY_SLEEPS
        while True:
            try:
                is_uri = self._path.startswith("file:")
                with closing(sqlite3.connect(self._path, timeout=0, isolation_level=None, uri=is_uri)) as connection:
                    return use(connection)
            except sqlite3.IntegrityError as error:
                raise Duplicate(str(error)) from error
            except sqlite3.Error as error:
                if not _is_busy(error) or time.monotonic() - begin > BUSY_SECONDS:
                    raise self.failed(error) from error
            time.sleep(pause * (1 + random.random()) / 2)
            pause = min(1.5 * pause, longest)


def _is_busy(error: sqlite3.Error) -> bool:
    """Return whether other processes use the file. The statement, a transaction of its own, was not carried out."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Server(Database):
    """A database server. Each thread keeps a connection, and reconnects if the connection is broken."""

    def __init__(self, where: str, parameters: Mapping[str, str]) -> None:
        super().__init__(where)
        self._parameters = StorageOptions(parameters, where)
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {"where": self.where, "_parameters": self._parameters}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = threading.local()

    def ask(self, statement: str, *values: object) -> Rows:
        return self._with(lambda cursor: [tuple(row) for row in cursor.fetchall()], statement, values, again=True)

    def run(self, statement: str, *values: object) -> int:
        return self._with(lambda cursor: int(cursor.rowcount), statement, values)

    @property
    @abstractmethod
    def errors(self) -> type[Exception]:
        """The base class of the driver's errors."""

    @abstractmethod
    def connect(self) -> Any:
        """Return a new connection of the driver, which commits each statement."""

    @abstractmethod
    def is_duplicate(self, error: Exception) -> bool:
        """Return whether a statement failed because a row with its key exists."""

    @abstractmethod
    def is_lost(self, connection: Any) -> bool:
        """Return whether a connection can no longer be used."""

    def _with(self, use: Callable[[Any], T], statement: str, values: tuple[object, ...], *, again: bool = False) -> T:
        connection = self._connection()
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(statement.replace("?", "%s"), values)
                return use(cursor)
        except self.errors as error:
            if self.is_duplicate(error):
                raise Duplicate(str(redact_error(error))) from error
            if self.is_lost(connection):
                self._local.connection = None
                if again:  # the server has closed an idle connection
                    return self._with(use, statement, values)
            raise self.failed(error) from error

    def _connection(self) -> Any:
        # A forked process inherits its parent's connection, which it must neither use nor close.
        found = getattr(self._local, "connection", None)
        if found is None or self._local.process != os.getpid() or self.is_lost(found):
            try:
                found = self.connect()
            except self.errors as error:
                raise self.failed(error) from None  # its message contains the address
            self._local.connection, self._local.process = found, os.getpid()
        return found


class Postgres(Server):
    """A PostgreSQL server, by psycopg."""

    lock_age = "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at))"

    @property
    def errors(self) -> type[Exception]:
        import psycopg

        found: type[Exception] = psycopg.Error
        return found

    def connect(self) -> Any:
        import psycopg
        from psycopg.conninfo import make_conninfo

        return psycopg.connect(make_conninfo(**self._parameters), autocommit=True)

    def is_duplicate(self, error: Exception) -> bool:
        import psycopg

        return isinstance(error, psycopg.errors.UniqueViolation)

    def is_lost(self, connection: Any) -> bool:
        return bool(connection.broken or connection.closed)

    def has_table(self, name: str) -> bool:
        return bool(self.ask("SELECT 1 WHERE to_regclass(?) IS NOT NULL", name))


class Mysql(Server):
    """A MySQL or MariaDB server, by PyMySQL."""

    lock_age = "TIMESTAMPDIFF(SECOND, acquired_at, NOW())"
    # A key of four names exceeds InnoDB's 3072 bytes with four bytes a character. Names of Paimon differ in case.
    table_suffix = " CHARACTER SET utf8mb3 COLLATE utf8mb3_bin"
    given_rows = ("(SELECT ?, ?, ?, ?{more}) AS given", " UNION ALL SELECT ?, ?, ?, ?")
    upsert = "ON DUPLICATE KEY UPDATE property_value = VALUES(property_value)"

    @property
    def errors(self) -> type[Exception]:
        import pymysql

        found: type[Exception] = pymysql.err.MySQLError
        return found

    def connect(self) -> Any:
        import pymysql

        given = dict(self._parameters)
        numbers = {name: int(given.pop(name)) for name in ("port", "connect_timeout") if name in given}
        encrypted: dict[str, Any] = {"ssl": {"check_hostname": False}} if given.pop("ssl", "") else {}
        flag = pymysql.constants.CLIENT.FOUND_ROWS  # counts matched rows, as in other databases
        return pymysql.connect(**given, **numbers, **encrypted, autocommit=True, charset="utf8mb4", client_flag=flag)

    def is_duplicate(self, error: Exception) -> bool:
        return bool(error.args) and error.args[0] == MYSQL_DUPLICATE

    def is_lost(self, connection: Any) -> bool:
        return not connection.open

    def has_table(self, name: str) -> bool:
        query = "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
        return bool(self.ask(query, name))


def open_database(settings: Settings) -> Database:
    """Return the database that the option ``uri`` names.

    Raises `InvalidArgument`: not an address. `Unsupported`: another database, or the driver is not installed.
    """
    uri = settings.required(URI)
    for prefix, kind in KINDS.items():
        if uri.startswith(prefix):
            return kind(uri, uri.removeprefix(prefix), settings)
    raise Unsupported(
        f"a JDBC catalog in {redact_text(uri).partition('?')[0]}",
        hint="write jdbc:sqlite:FILE, jdbc:postgresql://HOST:PORT/DATABASE or jdbc:mysql://HOST:PORT/DATABASE",
    )


def _open_sqlite(uri: str, rest: str, settings: Settings) -> Database:  # noqa: ARG001  # SQLite has no users
    path, mark, query = rest.partition("?")
    journal = query.partition("=")[2].upper() if query.startswith(JOURNAL) else ""
    if not path or ":memory:" in path or "mode=memory" in rest:
        raise Unsupported(f"the catalog {uri}", hint="a database in memory is gone with its connection; name a file")
    if mark and not path.startswith("file:") and journal not in JOURNALS:
        raise Unsupported(f"the settings in {uri}", hint=f"name the file alone, or with ?{JOURNAL}WAL")
    return Sqlite(uri, rest if path.startswith("file:") else str(Path(path).expanduser().absolute()), journal)


def _parse_address(
    uri: str, settings: Settings, server: str, names: Mapping[str, str], idle: Collection[str] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the host, port and database of an address, and the driver's properties under the names of `names`.

    Properties come from the address and from the options ``jdbc.*``; the options of `idle` do nothing here.
    """
    parts = urlsplit(uri.removeprefix("jdbc:"))
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    given |= {key.removeprefix(PROPERTY): value for key, value in settings.raw.items() if key.startswith(PROPERTY)}
    register_secrets({"password": given.get("password", "")})
    if unknown := sorted(set(given) - set(names) - set(idle)):
        known = ", ".join(sorted(names))
        raise InvalidArgument(f"unknown properties of {server}: {', '.join(unknown)}; known are {known}")
    try:
        places = {"host": parts.hostname, "port": parts.port and str(parts.port), "database": unquote(parts.path[1:])}
    except ValueError as error:
        raise InvalidArgument(f"the address {redact_text(uri)}: {error}") from error
    place = {key: value for key, value in places.items() if value}
    return place, {names[key]: value for key, value in given.items() if key in names}


def _open_postgres(uri: str, rest: str, settings: Settings) -> Database:
    with require_extra("a JDBC catalog in PostgreSQL", "psycopg", "postgres"):
        import psycopg  # noqa: F401
    place, given = _parse_address(uri, settings, "PostgreSQL", DRIVER_NAMES)
    parameters = {"connect_timeout": CONNECT_SECONDS, **given}
    if "database" in place:
        place["dbname"] = place.pop("database")
    if zone := _find_local_zone():
        parameters["options"] = f"-c TimeZone={zone}"  # the zone of lock times, as with Java's driver
    return Postgres(f"jdbc:postgresql:{rest.partition('?')[0]}", parameters | place)


def _open_mysql(uri: str, rest: str, settings: Settings) -> Database:
    with require_extra("a JDBC catalog in MySQL", "pymysql", "mysql"):
        import pymysql  # noqa: F401
    place, given = _parse_address(uri, settings, "MySQL", MYSQL_NAMES, MYSQL_IDLE)
    if "database" not in place:
        raise InvalidArgument(f"{redact_text(uri)} names no database; write jdbc:mysql://HOST:PORT/DATABASE")
    millis = given.pop("connect_timeout", DEFAULT_MYSQL_MILLIS)
    if not millis.isdecimal():
        raise InvalidArgument(f"connectTimeout of MySQL is a number of milliseconds, not {millis!r}")
    mode = "REQUIRED" if given.pop("use_ssl", "").lower() == "true" else ""
    mode = given.pop("ssl_mode", mode).upper()
    if mode not in MYSQL_SSL:
        raise Unsupported(f"sslMode={mode} of MySQL", hint=f"write one of {', '.join(filter(None, MYSQL_SSL))}")
    parameters = {**given, "connect_timeout": str(max(1, int(millis) // 1000)), "ssl": MYSQL_SSL[mode]}
    return Mysql(f"jdbc:mysql:{rest.partition('?')[0]}", parameters | place)


KINDS: dict[str, Callable[[str, str, Settings], Database]] = {
    "jdbc:sqlite:": _open_sqlite,
    "jdbc:postgresql:": _open_postgres,
    "jdbc:mysql:": _open_mysql,
}


def _find_local_zone() -> str | None:
    """Return the name of this machine's time zone, as a JVM would find it; None if the machine has none."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named if all(c.isalnum() or c in "/_+-" for c in named) else None
    with suppress(OSError):
        target = str(LOCAL_ZONE.resolve())
        if ZONES in target:
            return target.rpartition(ZONES)[2]
    return None


TABLES = "paimon_tables"
DATABASE_PROPERTIES = "paimon_database_properties"
TABLE_PROPERTIES = "paimon_table_properties"
VIEWS = "paimon_views"
LOCKS = "paimon_distributed_locks"

EXISTS = "exists"
MAX_NAME = 255
MAX_VALUE = 1000

_KEY = f"VARCHAR({MAX_NAME}) NOT NULL"
_VALUE = f"VARCHAR({MAX_VALUE})"
COLUMNS = {
    TABLES: f"catalog_key {_KEY}, database_name {_KEY}, table_name {_KEY}, "
    "PRIMARY KEY (catalog_key, database_name, table_name)",
    DATABASE_PROPERTIES: f"catalog_key {_KEY}, database_name {_KEY}, property_key VARCHAR({MAX_NAME}), "
    f"property_value {_VALUE}, PRIMARY KEY (catalog_key, database_name, property_key)",
    TABLE_PROPERTIES: f"catalog_key {_KEY}, database_name {_KEY}, table_name {_KEY}, property_key {_KEY}, "
    f"property_value {_VALUE}, PRIMARY KEY (catalog_key, database_name, table_name, property_key)",
    VIEWS: f"catalog_key {_KEY}, database_name {_KEY}, view_name {_KEY}, view_schema TEXT NOT NULL, "
    "PRIMARY KEY (catalog_key, database_name, view_name)",
}
LOCK_COLUMNS = (
    "lock_id VARCHAR({most}) NOT NULL, acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, "
    "expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id)"
)
OF_DATABASE = "catalog_key = ? AND database_name = ?"
OF_TABLE = f"{OF_DATABASE} AND table_name = ?"


@dataclass(frozen=True)
class CatalogRows:
    """The rows of the catalog `key` in a database, which several catalogs may share."""

    database: Database
    key: str

    def prepare(self, lock_key_length: int | None) -> None:
        """Create missing tables; the lock table only if the length of its keys is given."""
        wanted = dict(COLUMNS)
        if lock_key_length is not None:
            wanted[LOCKS] = LOCK_COLUMNS.format(most=lock_key_length)
        for name, columns in wanted.items():
            if self.database.has_table(name):
                continue
            try:
                with suppress(Duplicate):  # PostgreSQL's error if another process creates the table now
                    self.database.run(f"CREATE TABLE IF NOT EXISTS {name} ({columns}){self.database.table_suffix}")
            except StorageError:
                if not self.database.has_table(name):
                    raise

    # Databases

    def databases(self) -> list[str]:
        """Return the sorted names of all databases that have properties, tables or views."""
        homes = (TABLES, DATABASE_PROPERTIES, VIEWS)
        union = " UNION ".join(f"SELECT database_name FROM {home} WHERE catalog_key = ?" for home in homes)
        return sorted(row[0] for row in self.database.ask(union, *[self.key] * len(homes)))

    def has_database(self, name: str) -> bool:
        homes = (TABLES, DATABASE_PROPERTIES, VIEWS)
        union = " UNION ALL ".join(f"SELECT 1 FROM {home} WHERE {OF_DATABASE}" for home in homes)
        return bool(self.database.ask(f"{union} LIMIT 1", *[self.key, name] * len(homes)))

    def add_database(self, name: str, properties: Mapping[str, str]) -> bool:
        """Add a database with these properties; return False if it already exists."""
        if self.has_database(name):
            return False
        _check_length(name)
        _check_properties(f"property of the database {name}", properties)
        rows = [(self.key, name, key, value) for key, value in {EXISTS: "true", **properties}.items()]
        insert = f"INSERT INTO {DATABASE_PROPERTIES} VALUES {', '.join(['(?, ?, ?, ?)'] * len(rows))}"
        try:
            self.database.run(insert, *chain.from_iterable(rows))
        except Duplicate:
            return False
        return True

    def database_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a database, without the marker of its existence."""
        query = f"SELECT property_key, property_value FROM {DATABASE_PROPERTIES} WHERE {OF_DATABASE}"
        rows = self.database.ask(query, self.key, name)
        return {str(key): str(value) for key, value in rows if key != EXISTS and value is not None}

    def change_database(self, name: str, properties: Mapping[str, str], removed: Iterable[str]) -> None:
        """Set some properties of a database if it still exists, and remove others."""
        _check_properties(f"property of the database {name}", properties)
        rows = [(self.key, name, key, value) for key, value in properties.items()]
        if rows:
            first, more = self.database.given_rows
            homes = " OR ".join(
                f"EXISTS (SELECT 1 FROM {home} WHERE {OF_DATABASE})" for home in (TABLES, DATABASE_PROPERTIES, VIEWS)
            )
            self.database.run(
                f"INSERT INTO {DATABASE_PROPERTIES} (catalog_key, database_name, property_key, property_value) "
                f"SELECT * FROM {first.format(more=more * (len(rows) - 1))} WHERE {homes} {self.database.upsert}",
                *chain.from_iterable(rows),
                *[self.key, name] * 3,
            )
        gone = tuple(removed)
        if gone:
            marks = ", ".join("?" * len(gone))
            query = f"DELETE FROM {DATABASE_PROPERTIES} WHERE {OF_DATABASE} AND property_key IN ({marks})"
            self.database.run(query, self.key, name, *gone)

    def remove_database(self, name: str) -> None:
        for home in (TABLES, DATABASE_PROPERTIES, TABLE_PROPERTIES, VIEWS):
            self.database.run(f"DELETE FROM {home} WHERE {OF_DATABASE}", self.key, name)

    def views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted."""
        rows = self.database.ask(f"SELECT view_name FROM {VIEWS} WHERE {OF_DATABASE}", self.key, database)
        return sorted(row[0] for row in rows)

    def view(self, database: str, view: str) -> str | None:
        """Return the JSON of a view, None if there is none."""
        query = f"SELECT view_schema FROM {VIEWS} WHERE {OF_DATABASE} AND view_name = ?"
        rows = self.database.ask(query, self.key, database, view)
        return str(rows[0][0]) if rows else None

    def add_view(self, database: str, view: str, json: str) -> bool:
        """Add a view; return False if one of this name exists."""
        try:
            self.database.run(f"INSERT INTO {VIEWS} VALUES (?, ?, ?, ?)", self.key, database, view, json)
        except Duplicate:
            return False
        return True

    def remove_view(self, database: str, view: str) -> bool:
        """Remove a view; return False if there was none."""
        query = f"DELETE FROM {VIEWS} WHERE {OF_DATABASE} AND view_name = ?"
        return self.database.run(query, self.key, database, view) > 0

    # Tables

    def tables(self, database: str) -> list[str]:
        """Return the names of the tables of a database, sorted."""
        rows = self.database.ask(f"SELECT table_name FROM {TABLES} WHERE {OF_DATABASE}", self.key, database)
        return sorted(row[0] for row in rows)

    def has_table(self, database: str, table: str) -> bool:
        return bool(self.database.ask(f"SELECT 1 FROM {TABLES} WHERE {OF_TABLE}", self.key, database, table))

    def add_table(self, database: str, table: str) -> None:
        """Add a table. Raises `AlreadyExists`."""
        try:
            self.database.run(f"INSERT INTO {TABLES} VALUES (?, ?, ?)", self.key, database, table)
        except Duplicate as error:
            raise AlreadyExists(f"{self.database.where}: there is a table {database}.{table} already") from error

    def remove_table(self, database: str, table: str) -> bool:
        """Remove a table with its properties; return False if there was none."""
        removed = self.database.run(f"DELETE FROM {TABLES} WHERE {OF_TABLE}", self.key, database, table)
        self.database.run(f"DELETE FROM {TABLE_PROPERTIES} WHERE {OF_TABLE}", self.key, database, table)
        return removed > 0

    def rename_table(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Rename a table with its properties. Raises `AlreadyExists`."""
        for home in (TABLES, TABLE_PROPERTIES):
            try:
                update = f"UPDATE {home} SET database_name = ?, table_name = ? WHERE {OF_TABLE}"
                self.database.run(update, *new, self.key, *old)
            except Duplicate as error:
                raise AlreadyExists(f"{self.database.where}: there is a table {'.'.join(new)} already") from error

    def set_properties(self, database: str, table: str, properties: Mapping[str, str]) -> None:
        """Replace the properties of a table."""
        self.database.run(f"DELETE FROM {TABLE_PROPERTIES} WHERE {OF_TABLE}", self.key, database, table)
        for name, value in properties.items():
            with suppress(Duplicate):  # another process does the same
                self.database.run(
                    f"INSERT INTO {TABLE_PROPERTIES} VALUES (?, ?, ?, ?, ?)", self.key, database, table, name, value
                )


def check_properties(table: str, properties: Mapping[str, str]) -> None:
    """Raise `InvalidArgument` for options that are too long for the database."""
    _check_length(table)
    _check_properties(f"option of {table}", properties, "; open the catalog with sync-all-properties=false")


def _check_properties(what: str, properties: Mapping[str, str], hint: str = "") -> None:
    for name, value in properties.items():
        if len(name) > MAX_NAME or len(value) > MAX_VALUE:
            raise InvalidArgument(
                f"the {what}, {name[:MAX_NAME]!r}, is longer than a JDBC catalog keeps: {MAX_NAME} characters of "
                f"name and {MAX_VALUE} of value{hint}"
            )


def _check_length(name: str) -> None:
    if len(name) > MAX_NAME:
        raise InvalidArgument(f"the name {name[:40]!r}... has {len(name)} characters, a JDBC catalog keeps {MAX_NAME}")
