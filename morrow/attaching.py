"""A warehouse as a database of a DuckDB connection: ``morrow.duckdb.attach(con, "warehouse", "pm")``.

DuckDB has no catalogs in Python. The database is one in memory, with a schema for each database and a view for each
table; the body of a view is text that a Python function returns whenever a query is bound, so that every query sees the
newest snapshot and schema. Views of tables that come and go are made and dropped with them.
"""

from __future__ import annotations

import atexit
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from morrow.catalog import Catalog
from morrow.engine.arguments import text
from morrow.engine.catalog.names import MARK
from morrow.engine.catalog.watching import watch
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.plan.time_travel import NOW
from morrow.readers.execution.duckdb_relation import HANDOFF_DATABASE, HandOffs, checked_connection
from morrow.readers.expressions.sql import quote_identifier, quote_text
from morrow.readers.system.registry import SYSTEM_TABLES

if TYPE_CHECKING:
    import duckdb

LOOK_SECONDS = 1.0
"""How often queries look for tables that other processes have made."""
RESERVED = ("information_schema", "pg_catalog")
Names = dict[str, dict[str, tuple[str, ...]]]
"""Databases, their tables, and the columns that tell whether a view is to be made anew."""

_attached: list[Attachment] = []
_lock = threading.Lock()


class Attachment:
    """A warehouse that is a database of a DuckDB connection; made by `attach`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, catalog: Catalog, name: str) -> None:
        self.name = name
        self._catalog = catalog
        self._connection = connection
        self._lock = threading.RLock()
        self._views: Names = {}
        self._looked = time.monotonic()
        self._is_gone = False
        self._function = f"morrow_table_{uuid.uuid4().hex}"
        self._database = quote_identifier(name)
        self._handoffs = HandOffs(connection, f"{HANDOFF_DATABASE}_{uuid.uuid4().hex}")
        connection.create_function(  # type: ignore[call-overload]  # the stub wants an invariant list of unions
            self._function, self._plan, ["varchar"], "varchar", null_handling="special", side_effects=True
        )
        self._execute(f"ATTACH ':memory:' AS {self._database}")
        self._number = self._numbered()
        try:
            self.refresh()
        except BaseException:
            self.detach()
            raise
        watch(self._changed)

    def _plan(self, name: str) -> str:
        """Returns SQL that reads a table; DuckDB calls it while it binds a query."""
        self._look()
        dataset = self._catalog._dataset(name, NOW)
        return self._handoffs.text(dataset)

    def _look(self) -> None:
        """Looks for tables that others have made, once in a while; the next query sees them."""
        if self._lock.acquire(blocking=False):
            try:
                if time.monotonic() - self._looked > LOOK_SECONDS:
                    self.refresh()
            except MorrowError:  # this query is about its own table
                pass
            finally:
                self._lock.release()

    def refresh(self) -> None:
        """Makes views of new tables, and drops those of tables that are gone.

        Raises:
            Unsupported: names that DuckDB takes for one. Others as `Catalog.tables`.
        """
        with self._lock:
            self._looked = time.monotonic()
            there = {database: self._catalog.tables(database) for database in self._catalog.databases()}
            self._check(there)
            for database in [name for name in self._views if name not in there]:
                self._execute(f"DROP SCHEMA IF EXISTS {self._schema(database)} CASCADE")
                del self._views[database]
            for database, tables in there.items():
                self._refresh_schema(database, tables)

    def _refresh_schema(self, database: str, tables: Sequence[str]) -> None:
        known = self._views.get(database)
        if known is None:
            self._execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema(database)}")
            known = self._views[database] = {}
        for table in [name for name in known if name not in tables]:
            for view in known.pop(table):
                self._execute(f"DROP VIEW IF EXISTS {self._schema(database)}.{quote_identifier(view)}")
        for table in [name for name in tables if name not in known]:
            known[table] = tuple(self._made(database, table))

    def _made(self, database: str, table: str) -> list[str]:
        """Makes the views of a table and of its system tables; returns their names."""
        made = []
        for view in (table, *(f"{table}{MARK}{name}" for name in SYSTEM_TABLES)):
            full = quote_text(f"{database}.{view}")
            where = f"{self._schema(database)}.{quote_identifier(view)}"
            try:
                self._execute(f"CREATE OR REPLACE VIEW {where} AS SELECT * FROM query({self._function}({full}))")
            except InvalidArgument:
                if view == table:  # it cannot be read: a query that names it says why
                    reason = quote_text(f"{database}.{view} cannot be read: Catalog.table says why")
                    self._execute(f"CREATE OR REPLACE VIEW {where} AS SELECT error({reason})")
                else:
                    continue  # a system table that this table does not have
            made.append(view)
        return made

    def _check(self, there: dict[str, list[str]]) -> None:
        for names in (list(there), *there.values()):
            folded = [name.casefold() for name in names]
            alike = sorted(name for name, fold in zip(names, folded) if folded.count(fold) > 1)
            if alike:
                raise Unsupported(
                    f"attaching names that differ only in case ({', '.join(alike)})",
                    where=self._catalog.warehouse,
                    hint="DuckDB takes them for one; use paimon_scan",
                )
        reserved = next((name for name in there if name.casefold() in RESERVED), None)
        if reserved is not None:
            raise Unsupported(f"attaching a database {reserved!r}, a name of DuckDB's own,", hint="use paimon_scan")

    def _changed(self, title: str) -> None:
        import duckdb

        if title == self._catalog.warehouse and not self._is_gone:
            # The connection was closed, or a table cannot be a view: what changed in the catalog is done all the same.
            with suppress(duckdb.ConnectionException, MorrowError):
                if self.is_there():
                    self.refresh()
                else:
                    _forget(self)

    def is_there(self) -> bool:
        """Returns whether the database is still attached: DETACH takes it away, and others may have its name then.

        Raises:
            duckdb.ConnectionException: the connection was closed.
        """
        return self._number is not None and self._numbered() == self._number

    def _numbered(self) -> int | None:
        """Returns DuckDB's number of the database of this name."""
        query = "SELECT database_oid FROM duckdb_databases() WHERE database_name = ?"
        with self._handoffs.cursor() as cursor:
            found = cursor.execute(query, [self.name]).fetchone()
        return None if found is None else int(found[0])

    def _schema(self, database: str) -> str:
        return f"{self._database}.{quote_identifier(database)}"

    def _execute(self, statement: str) -> None:
        import duckdb

        with self._handoffs.cursor() as cursor:
            try:
                cursor.execute(statement)
            except duckdb.ConnectionException:
                raise
            except duckdb.Error as error:
                raise InvalidArgument(f"{self.name}: {str(error).splitlines()[0]}") from error

    def is_on(self, connection: duckdb.DuckDBPyConnection) -> bool:
        """Returns whether the connection, or one whose cursor it is, has this attachment."""
        import duckdb

        if connection is self._connection:
            return True
        try:
            found = connection.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = ?", [self._function])
            return found.fetchone() is not None
        except duckdb.Error:  # closed
            return False

    def detach(self) -> None:
        """Removes the database, its views and what they need; queries that run go on."""
        import duckdb

        with self._lock:
            with suppress(duckdb.Error), self._handoffs.cursor() as cursor:  # an error: the connection was closed
                if self.is_there():
                    cursor.execute(f"DETACH DATABASE {self._database}")
                self._handoffs.close()
            with suppress(duckdb.Error):
                self._connection.remove_function(self._function)
            self._views = {}
            self._is_gone = True


def attach(connection: duckdb.DuckDBPyConnection | None, warehouse: Catalog | str, name: str) -> Attachment:
    """Makes a warehouse a database of a connection; see `morrow.duckdb.attach`."""
    connection = checked_connection(connection)
    catalog = warehouse if isinstance(warehouse, Catalog) else Catalog(warehouse)
    text(name, "the name of an attached warehouse")
    query = "SELECT 1 FROM duckdb_databases() WHERE lower(database_name) = lower(?)"
    with connection.cursor() as cursor:
        if cursor.execute(query, [name]).fetchone() is not None:
            raise InvalidArgument(f"the connection has a database {name!r} already")
    for gone in _named(connection, name):  # detached by SQL
        _forget(gone)
    made = Attachment(connection, catalog, name)
    with _lock:
        if not _attached:
            atexit.register(_detach_all)
        _attached.append(made)
    return made


def _detach_all() -> None:
    """Removes all attachments as the process ends: DuckDB complains of functions that are left in its connections."""
    with _lock:
        left, _attached[:] = list(_attached), []
    for each in left:
        each.detach()


def attachment(connection: duckdb.DuckDBPyConnection | None, name: str) -> Attachment:
    """Returns the attachment of this name. Raises `InvalidArgument` where there is none."""
    found = _named(checked_connection(connection), name)
    if not found:
        raise InvalidArgument(f"the connection has no warehouse attached as {name!r}")
    return found[-1]


def _named(connection: duckdb.DuckDBPyConnection, name: str) -> list[Attachment]:
    with _lock:
        return [each for each in _attached if each.name.lower() == name.lower() and each.is_on(connection)]


def _forget(gone: Attachment) -> None:
    """Removes what an attachment needs, whose database may be gone already."""
    with _lock, suppress(ValueError):
        _attached.remove(gone)
    gone.detach()


def detach(connection: duckdb.DuckDBPyConnection | None, name: str) -> None:
    """Removes an attached warehouse; see `morrow.duckdb.detach`."""
    _forget(attachment(connection, name))
