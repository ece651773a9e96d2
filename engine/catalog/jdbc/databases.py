"""Databases that hold catalogs, by the address that Java takes: ``jdbc:sqlite:...``, ``jdbc:postgresql://...``.

Every statement is a transaction of its own, as in Java. Parameters are written ``?``.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from morrow.engine.catalog.settings import URI, Settings
from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.io.secrets import StorageOptions
from morrow.engine.telling import harmless, redacted, remember

if TYPE_CHECKING:
    import psycopg

Rows: TypeAlias = list[tuple[Any, ...]]
T = TypeVar("T")

PROPERTY = "jdbc."
"""The prefix of options of the driver."""
BUSY_SECONDS = 60.0
BUSY_SLEEPS = (0.001, 0.02)
"""Pauses before a busy file is asked again, at first and at most: by SQLite's own, of 100 ms, others would be first."""
CONNECT_SECONDS = "30"
JOURNAL = "journal_mode="
JOURNALS = ("WAL", "DELETE", "TRUNCATE", "PERSIST")
"""How a file is changed safely; with WAL readers, of which Java leaves some open, do not keep writers out."""
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
"""The properties of PostgreSQL's driver in Java that are understood -> parameters of libpq."""


class Duplicate(Exception):
    """A row whose key is in the table already."""


class Database(ABC):
    """One database. Several threads may use it; it is pickled without secrets."""

    lock_age: str
    """SQL of the seconds since a lock was acquired."""

    def __init__(self, where: str) -> None:
        self.where = where

    @abstractmethod
    def ask(self, statement: str, *values: object) -> Rows:
        """Returns the rows of a query. Raises `StorageError`."""

    @abstractmethod
    def run(self, statement: str, *values: object) -> int:
        """Runs a statement; returns the number of rows it changed. Raises `Duplicate`, `StorageError`."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Returns whether the database has a table of this name."""

    def failed(self, error: Exception) -> StorageError:
        """Returns the error of a database that does not do what it was asked."""
        lines = str(harmless(error)).strip().splitlines() or [type(error).__name__]
        return StorageError(f"{self.where}: {lines[0]}; check the option {URI} and whether the database is up")


class Sqlite(Database):
    """A file. Each statement opens it anew, which costs a tenth of a millisecond and suits threads and forks."""

    lock_age = "strftime('%s', 'now') - strftime('%s', acquired_at)"

    def __init__(self, where: str, path: str, journal: str = "") -> None:
        super().__init__(where)
        self._path = path
        if journal:
            self.ask(f"PRAGMA journal_mode = {journal}")  # the file keeps it

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
    """Returns whether others have the file: a statement, which is a transaction, was not carried out."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Postgres(Database):
    """A server. Each thread keeps a connection, and makes another where that one has broken."""

    lock_age = "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at))"

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
        return self._with(lambda connection: connection.execute(_numbered(statement), values).fetchall(), again=True)

    def run(self, statement: str, *values: object) -> int:
        return self._with(lambda connection: int(connection.execute(_numbered(statement), values).rowcount))

    def has_table(self, name: str) -> bool:
        return bool(self.ask("SELECT 1 WHERE to_regclass(?) IS NOT NULL", name))

    def _with(self, use: Callable[[psycopg.Connection[Any]], T], *, again: bool = False) -> T:
        import psycopg

        connection = self._connection()
        try:
            return use(connection)
        except psycopg.errors.UniqueViolation as error:
            raise Duplicate(str(harmless(error))) from error
        except psycopg.Error as error:
            if connection.broken or connection.closed:
                self._local.connection = None
                if again:  # the server has ended a connection that was idle
                    return self._with(use)
            raise self.failed(error) from error

    def _connection(self) -> psycopg.Connection[Any]:
        import psycopg
        from psycopg.conninfo import make_conninfo

        # A fork has the connection of its parent, which it must neither use nor close.
        found = getattr(self._local, "connection", None)
        if found is None or self._local.process != os.getpid() or found.closed:
            try:
                found = psycopg.connect(make_conninfo(**self._parameters), autocommit=True)
            except psycopg.Error as error:
                raise self.failed(error) from None  # its words have the address
            self._local.connection, self._local.process = found, os.getpid()
        return found


def database_of(settings: Settings) -> Database:
    """Returns the database that the option ``uri`` names.

    Raises:
        InvalidArgument: no address. Unsupported: another database, or a driver that is not installed.
    """
    uri = settings.required(URI)
    for prefix, kind in KINDS.items():
        if uri.startswith(prefix):
            return kind(uri, uri.removeprefix(prefix), settings)
    raise Unsupported(
        f"a JDBC catalog in {redacted(uri).partition('?')[0]}",
        hint="Morrow knows jdbc:sqlite:FILE and jdbc:postgresql://HOST:PORT/DATABASE",
    )


def _sqlite(uri: str, rest: str, settings: Settings) -> Database:  # noqa: ARG001  # SQLite has no users
    path, mark, query = rest.partition("?")
    journal = query.partition("=")[2].upper() if query.startswith(JOURNAL) else ""
    if not path or ":memory:" in path or "mode=memory" in rest:
        raise Unsupported(f"the catalog {uri}", hint="a database in memory is gone with its connection; name a file")
    if mark and not path.startswith("file:") and journal not in JOURNALS:
        raise Unsupported(f"the settings in {uri}", hint=f"name the file alone, or with ?{JOURNAL}WAL")
    return Sqlite(uri, rest if path.startswith("file:") else str(Path(path).expanduser().absolute()), journal)


def _postgres(uri: str, rest: str, settings: Settings) -> Database:
    try:
        import psycopg  # noqa: F401  # is it there?
    except ImportError as error:
        raise Unsupported(
            "a JDBC catalog in PostgreSQL without psycopg", hint="pip install 'morrow[postgres]'"
        ) from error
    parts = urlsplit(uri.removeprefix("jdbc:"))
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    given |= {key.removeprefix(PROPERTY): value for key, value in settings.raw.items() if key.startswith(PROPERTY)}
    remember({"password": given.get("password", "")})
    if unknown := sorted(set(given) - set(DRIVER_NAMES)):
        known = ", ".join(sorted(DRIVER_NAMES))
        raise InvalidArgument(f"unknown properties of PostgreSQL: {', '.join(unknown)}; known are {known}")
    parameters = {"connect_timeout": CONNECT_SECONDS} | {DRIVER_NAMES[key]: value for key, value in given.items()}
    try:
        places = {"host": parts.hostname, "port": parts.port and str(parts.port), "dbname": unquote(parts.path[1:])}
    except ValueError as error:
        raise InvalidArgument(f"the address {redacted(uri)}: {error}") from error
    if zone := _local_zone():
        parameters["options"] = f"-c TimeZone={zone}"  # in which locks note their time, as Java's driver does
    where = f"jdbc:postgresql:{rest.partition('?')[0]}"
    return Postgres(where, parameters | {key: value for key, value in places.items() if value})


KINDS: dict[str, Callable[[str, str, Settings], Database]] = {
    "jdbc:sqlite:": _sqlite,
    "jdbc:postgresql:": _postgres,
}


def _local_zone() -> str | None:
    """Returns the name of this machine's time zone, as a JVM on it would find it; None where it has none."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named if all(c.isalnum() or c in "/_+-" for c in named) else None
    with suppress(OSError):
        target = str(LOCAL_ZONE.resolve())
        if ZONES in target:
            return target.rpartition(ZONES)[2]
    return None


def _numbered(statement: str) -> str:
    return statement.replace("?", "%s")
