"""Paimon tables in DuckDB: the function ``paimon_scan``, and warehouses attached as databases.

``morrow.duckdb.install(con)`` registers ``paimon_scan('warehouse/db.db/orders', as_of := 'v1')``.
``morrow.duckdb.attach(con, "warehouse", "pm")`` attaches a warehouse. DuckDB has no catalogs in Python, so the
database has a schema for each database and a view for each table. A Python function returns the SQL of a view whenever
a query is bound, so that every query sees the newest snapshot and schema. Views are created and dropped as tables
appear and disappear. The database is read-only, so that ``CREATE TABLE pm.db.t`` fails instead of creating a DuckDB
table. DuckDB can only attach files as read-only, so the views are created in memory and copied to a file, which
replaces the previous one.
"""

from __future__ import annotations

import atexit
import re
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from morrow.catalogs.catalog import Catalog
from morrow.engine.arguments import check_text
from morrow.engine.catalog.filesystem import check_warehouse
from morrow.engine.catalog.names import MARK
from morrow.engine.catalog.protocol import watch
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.io.resolve import Roots, check_verify, resolve_roots
from morrow.engine.plan.time_travel import NOW, TravelArguments
from morrow.readers.execution.datasets import PaimonDataset
from morrow.readers.execution.duckdb_relation import (
    ACCESS_SQL,
    HANDOFF_DATABASE,
    HandOffs,
    ScanFunction,
    check_connection,
    is_file_access_allowed,
)
from morrow.readers.expressions.sql import quote_identifier, quote_text
from morrow.readers.system.registry import SYSTEM_TABLES

if TYPE_CHECKING:
    import os

    import duckdb

    from morrow.session import Verify

__all__ = ["attach", "detach", "install", "refresh"]

NUMBERS = {"snapshot": ("[0-9]+", "snapshot id"), "watermark": ("-?[0-9]+", "number of milliseconds")}


def install(
    connection: duckdb.DuckDBPyConnection | None = None, *, allowed_roots: Roots = (), verify: Verify | None = None
) -> duckdb.DuckDBPyConnection:
    """Register ``paimon_scan`` on `connection` (DuckDB's default connection when None), and return the connection.

    ``paimon_scan(path, as_of := NULL, snapshot := NULL, tag := NULL, timestamp := NULL, watermark := NULL,
    version := NULL, branch := NULL)`` is a table function. Columns and filters of the query are pushed to the files.
    ``version`` is the name of a tag, a snapshot id, ``snapshot.<id>`` or ``watermark-<millis>``; ``as_of`` is any of
    them, or a time. The path may end with the name of a branch or system table: ``'warehouse/db.db/orders$snapshots'``,
    ``'...$branch_dev$files'``.

    Args:
        allowed_roots, verify: as for `morrow.open`, for all tables. Installing again replaces them.

    Raises:
        InvalidArgument: not a connection, an unknown `verify`, or `allowed_roots` other than folders and URLs.
    """
    connection = check_connection(connection)
    check_verify(verify)
    opening = partial(open_dataset, allowed_roots=resolve_roots(allowed_roots), verify=verify)
    ScanFunction(opening).install(connection)
    return connection


def attach(
    connection: duckdb.DuckDBPyConnection | None, warehouse: Catalog | str | os.PathLike[str], name: str
) -> duckdb.DuckDBPyConnection:
    """Attach a warehouse, so that ``name.database.table`` works in SQL of the connection; return the connection.

    morrow.duckdb.attach(con, "warehouse", "pm")
    con.sql('SELECT count(*) FROM pm.db.orders JOIN pm.db."orders$snapshots" ON true')

    Every query sees the newest snapshot and schema. Columns and filters of the query are pushed to the files. New and
    dropped tables are visible at once if this process made the change, else at the second query after it, or after
    `refresh`. All cursors of the connection see the database. It is read-only; use `Catalog.sql` for writes and time
    travel.

    Args:
        connection: DuckDB's default connection when None.
        warehouse: a catalog, or the folder or URL of a warehouse.
        name: the name of the DuckDB database, which must not exist on the connection.

    Raises:
        InvalidArgument: the name is taken. Unsupported: names of databases or tables that differ only in case, or that
            DuckDB reserves.
    """
    from morrow.catalogs.catalog import Catalog

    catalog = warehouse if isinstance(warehouse, Catalog) else Catalog(warehouse)
    attach_catalog(connection, catalog, name)
    return check_connection(connection)


def refresh(connection: duckdb.DuckDBPyConnection | None, name: str) -> None:
    """Update the tables of an attached warehouse now. Raises `InvalidArgument` if `name` is not attached."""

    find_attachment(connection, name).refresh()


def detach(connection: duckdb.DuckDBPyConnection | None, name: str) -> None:
    """Remove an attached warehouse and its functions from the connection.

    The connection may be closed. Raises `InvalidArgument` if `name` is not attached.
    """

    detach_catalog(connection, name)


def open_dataset(
    path: str, given: Mapping[str, str], *, allowed_roots: Roots = (), verify: Verify | None = None
) -> PaimonDataset:
    """Return the dataset of a ``paimon_scan`` call. All arguments are text.

    Raises `InvalidArgument`: an argument must be a number. Others as for opening and planning.
    """
    from morrow.scans import table_scan
    from morrow.scans.table_scan import Scan
    from morrow.session import scan_at

    check_text(path, "the path of paimon_scan")
    is_lasting = path.startswith("/")  # absolute, so independent of the current folder
    key = (path, allowed_roots, verify) if is_lasting and not given else None
    scan = None if key is None else table_scan.find_cached_scan(key)
    if scan is not None:
        return scan.dataset()
    for argument, value in given.items():
        check_text(value, f"{argument} of paimon_scan")
    at = cast("TravelArguments", {name: _parse_value(name, value) for name, value in given.items()})
    made = scan_at(path, allowed_roots=allowed_roots, verify=verify, **at)
    if key is not None and isinstance(made, Scan):
        table_scan.cache_scan(key, made)
    return made.dataset()


def _parse_value(argument: str, value: str) -> int | str:
    if argument not in NUMBERS:
        return value
    pattern, meaning = NUMBERS[argument]
    if not re.fullmatch(pattern, value):
        raise InvalidArgument(f"{argument} := {value!r} is not a {meaning}")
    return int(value)


_attached: list[Attachment] = []
_lock = threading.Lock()


def attach_catalog(connection: duckdb.DuckDBPyConnection | None, warehouse: Catalog | str, name: str) -> Attachment:
    """Attach a warehouse as a database of a connection; see `morrow.duckdb.attach`."""
    connection = check_connection(connection)
    catalog = warehouse if isinstance(warehouse, Catalog) else Catalog(warehouse)
    check_warehouse(catalog._catalog)
    check_text(name, "the name of an attached warehouse")
    query = "SELECT 1 FROM duckdb_databases() WHERE lower(database_name) = lower(?)"
    with connection.cursor() as cursor:
        if cursor.execute(query, [name]).fetchone() is not None:
            raise InvalidArgument(f"the connection has a database {name!r} already")
    for gone in _list_attachments(connection, name):  # detached by SQL
        _forget_attachment(gone)
    made = Attachment(connection, catalog, name, _forget_attachment)
    with _lock:
        if not _attached:
            atexit.register(_detach_all)
        _attached.append(made)
    return made


def _detach_all() -> None:
    """Remove all attachments at exit, since DuckDB complains about functions left in its connections."""
    with _lock:
        left, _attached[:] = list(_attached), []
    for each in left:
        each.detach()


def find_attachment(connection: duckdb.DuckDBPyConnection | None, name: str) -> Attachment:
    """Return the attachment of this name. Raises `InvalidArgument` if it does not exist."""
    found = _list_attachments(check_connection(connection), name)
    if not found:
        raise InvalidArgument(f"the connection has no warehouse attached as {name!r}")
    return found[-1]


def _list_attachments(connection: duckdb.DuckDBPyConnection, name: str) -> list[Attachment]:
    with _lock:
        return [each for each in _attached if each.name.lower() == name.lower() and each.is_on(connection)]


def _forget_attachment(gone: Attachment) -> None:
    """Release the resources of an attachment, whose database may already be detached."""
    with _lock, suppress(ValueError):
        _attached.remove(gone)
    gone.detach()


def detach_catalog(connection: duckdb.DuckDBPyConnection | None, name: str) -> None:
    """Remove an attached warehouse; see `morrow.duckdb.detach`."""
    _forget_attachment(find_attachment(connection, name))


CHECK_INTERVAL_SECONDS = 1.0
"""Interval in which queries check for tables created by other processes."""
RESERVED = ("information_schema", "pg_catalog")
Names = dict[str, dict[str, tuple[str, ...]]]
"""Databases, their tables, and the tables' columns. A view is recreated if its columns change."""


class Attachment:
    """A warehouse attached as a database of a DuckDB connection; created by `attach`."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        catalog: Catalog,
        name: str,
        on_gone: Callable[[Attachment], None],
    ) -> None:
        """Attach the warehouse. `on_gone` is called if SQL has detached it."""
        self.name = name
        self._catalog = catalog
        self._on_gone = on_gone
        self._connection = connection
        self._lock = threading.RLock()
        self._views: Names = {}
        self._looked = time.monotonic()
        self._is_published = False
        self._making_in: int | None = None
        self._is_gone = False
        self._function = f"morrow_table_{uuid.uuid4().hex}"
        self._database = quote_identifier(name)
        self._number: int | None = None
        self._handoffs = HandOffs(connection, f"{HANDOFF_DATABASE}_{uuid.uuid4().hex}")
        self._made_in = self._handoffs.base if is_file_access_allowed(connection) else self._database
        connection.create_function(  # type: ignore[call-overload]  # the stub requires an invariant list of unions
            self._function, self._plan, ["varchar"] * 2, "varchar", null_handling="special", side_effects=True
        )
        try:
            if self._made_in == self._database:
                self._execute(f"ATTACH ':memory:' AS {self._database}")
                self._number = self._find_number()
            self.refresh()
        except BaseException:
            self.detach()
            raise
        watch(self._handle_change)

    def _plan(self, allowed: str, name: str) -> str:
        """Return SQL that reads a table. DuckDB calls it while it binds a query, with the value of `ACCESS_SQL`."""
        if self._making_in == threading.get_ident():
            schema = self._catalog._dataset(name, NOW).schema
            empty = PaimonDataset(schema, lambda *_: schema.empty_table().to_reader(), schema)
            return self._handoffs.text(empty, allowed)
        self._look()
        return self._handoffs.text(self._catalog._dataset(name, NOW), allowed)

    def _look(self) -> None:
        """Check periodically for tables of other processes, which the next query then sees."""
        if self._lock.acquire(blocking=False):
            try:
                if time.monotonic() - self._looked > CHECK_INTERVAL_SECONDS:
                    self.refresh()
            except MorrowError:  # must not fail a query of another table
                pass
            finally:
                self._lock.release()

    def refresh(self) -> None:
        """Create views of new tables, and drop views of dropped tables.

        Raises:
            Unsupported: names that differ only in case. InvalidArgument: the database was detached. Others as
            `Catalog.tables`.
        """
        with self._lock:
            self._looked = time.monotonic()
            if self._number is not None and not self.is_there():
                raise InvalidArgument(f"{self.name} was detached from the connection")
            there = {database: self._catalog.tables(database) for database in self._catalog.databases()}
            self._check(there)
            if self._is_published and self._has_names(there):
                return
            self._is_published = False
            with self._making():
                self._make(there)
            if self._made_in != self._database:
                self._publish()
            self._is_published = True

    @contextmanager
    def _making(self) -> Iterator[None]:
        """Mark this thread as creating views, which needs the columns of tables but not their rows."""
        self._making_in = threading.get_ident()
        try:
            yield
        finally:
            self._making_in = None

    def _make(self, there: dict[str, list[str]]) -> None:
        """Create the views of these tables, and drop all other views."""
        for database in [name for name in self._views if name not in there]:
            self._execute(f"DROP SCHEMA IF EXISTS {self._schema(database)} CASCADE")
            del self._views[database]
        for database, tables in there.items():
            self._refresh_schema(database, tables)

    def _has_names(self, there: dict[str, list[str]]) -> bool:
        """Return whether the views match these tables."""
        return {name: set(tables) for name, tables in there.items()} == {
            name: set(known) for name, known in self._views.items()
        }

    def _publish(self) -> None:
        """Replace the published views, which queries see, with the current ones, atomically."""
        copy = f"{self._made_in}_copy"
        replacing = "" if self._number is None else "OR REPLACE "
        with tempfile.TemporaryDirectory(prefix="morrow-", ignore_cleanup_errors=True) as folder:
            file = quote_text(f"{folder}/views.duckdb")
            self._execute(f"ATTACH {file} AS {copy}")
            self._execute(f"COPY FROM DATABASE {self._made_in} TO {copy} (SCHEMA)")
            self._execute(f"DETACH DATABASE {copy}")
            self._execute(f"ATTACH {replacing}{file} AS {self._database} (READ_ONLY)")
        self._number = self._find_number()

    def _refresh_schema(self, database: str, tables: Sequence[str]) -> None:
        known = self._views.get(database)
        if known is None:
            self._execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema(database)}")
            known = self._views[database] = {}
        for table in [name for name in known if name not in tables]:
            for view in known.pop(table):
                self._execute(f"DROP VIEW IF EXISTS {self._schema(database)}.{quote_identifier(view)}")
        for table in [name for name in tables if name not in known]:
            known[table] = tuple(self._make_views(database, table))

    def _make_views(self, database: str, table: str) -> list[str]:
        """Create the views of a table and of its system tables; return their names."""
        made = []
        for view in (table, *(f"{table}{MARK}{name}" for name in SYSTEM_TABLES)):
            full = quote_text(f"{database}.{view}")
            where = f"{self._schema(database)}.{quote_identifier(view)}"
            try:
                text = f"{self._function}({ACCESS_SQL}, {full})"
                self._execute(f"CREATE OR REPLACE VIEW {where} AS SELECT * FROM query({text})")
            except InvalidArgument:
                if view == table:  # unreadable; a query of it reports why
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

    def _handle_change(self, title: str) -> None:
        import duckdb

        if title == self._catalog.warehouse and not self._is_gone:
            # The connection was closed, or a table cannot be a view; the change of the catalog must succeed anyway.
            with suppress(duckdb.ConnectionException, MorrowError):
                if self.is_there():
                    self.refresh()
                else:
                    self._on_gone(self)

    def is_there(self) -> bool:
        """Return whether the database is still attached. After DETACH another database may have its name.

        Raises:
            duckdb.ConnectionException: the connection was closed.
        """
        with self._lock:
            return self._number is not None and self._find_number() == self._number

    def _find_number(self) -> int | None:
        """Return DuckDB's id of the database with this name."""
        query = "SELECT database_oid FROM duckdb_databases() WHERE database_name = ?"
        with self._handoffs.cursor() as cursor:
            found = cursor.execute(query, [self.name]).fetchone()
        return None if found is None else int(found[0])

    def _schema(self, database: str) -> str:
        return f"{self._made_in}.{quote_identifier(database)}"

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
        """Return whether the connection, or the connection of this cursor, has this attachment."""
        import duckdb

        if connection is self._connection:
            return True
        try:
            found = connection.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = ?", [self._function])
            return found.fetchone() is not None
        except duckdb.Error:  # closed
            return False

    def detach(self) -> None:
        """Remove the database, its views and their functions. Running queries continue."""
        import duckdb

        with self._lock:
            with suppress(duckdb.Error), self._handoffs.cursor() as cursor:  # raises if the connection was closed
                if self.is_there():
                    cursor.execute(f"DETACH DATABASE {self._database}")
                self._handoffs.close()
            with suppress(duckdb.Error):
                self._connection.remove_function(self._function)
            self._views = {}
            self._is_gone = True
