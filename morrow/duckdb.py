"""Paimon tables in DuckDB's SQL: ``morrow.duckdb.install(con)``.

con.sql("SELECT * FROM paimon_scan('warehouse/db.db/orders', as_of := 'v1') WHERE amount > 10")
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from morrow.engine.arguments import text
from morrow.engine.errors import InvalidArgument
from morrow.engine.io.resolve import Roots, check_verify, given_roots
from morrow.engine.plan.time_travel import TravelArguments
from morrow.readers.execution.dataset import PaimonDataset
from morrow.readers.execution.duckdb_relation import ScanFunction, checked_connection

if TYPE_CHECKING:
    import os

    import duckdb

    from morrow.catalogs.catalog import Catalog
    from morrow.session import Verify

__all__ = ["attach", "detach", "install", "refresh"]

NUMBERS = {"snapshot": ("[0-9]+", "snapshot id"), "watermark": ("-?[0-9]+", "number of milliseconds")}


def install(
    connection: duckdb.DuckDBPyConnection | None = None, *, allowed_roots: Roots = (), verify: Verify | None = None
) -> duckdb.DuckDBPyConnection:
    """Registers ``paimon_scan`` on `connection` (DuckDB's default connection when None), and returns the connection.

    ``paimon_scan(path, as_of := NULL, snapshot := NULL, tag := NULL, timestamp := NULL, watermark := NULL,
    version := NULL, branch := NULL)`` is a table: columns and filters of the query reach the files. ``version`` is the
    name of a tag, a snapshot id, ``snapshot.<id>`` or ``watermark-<millis>``; ``as_of`` is any of them, or a time. The
    path may end with the name of a branch or system table: ``'warehouse/db.db/orders$snapshots'``,
    ``'...$branch_dev$files'``.

    Args:
        allowed_roots, verify: as for `morrow.open`, for all tables. Installing again replaces them.

    Raises:
        InvalidArgument: not a connection; an unknown `verify`; `allowed_roots` that are no folders or URLs.
    """
    connection = checked_connection(connection)
    check_verify(verify)
    opening = partial(open_dataset, allowed_roots=given_roots(allowed_roots), verify=verify)
    ScanFunction(opening).install(connection)
    return connection


def attach(
    connection: duckdb.DuckDBPyConnection | None, warehouse: Catalog | str | os.PathLike[str], name: str
) -> duckdb.DuckDBPyConnection:
    """Attaches a warehouse, so that ``name.database.table`` works in SQL of the connection; returns the connection.

    morrow.duckdb.attach(con, "warehouse", "pm")
    con.sql('SELECT count(*) FROM pm.db.orders JOIN pm.db."orders$snapshots" ON true')

    Every query sees the newest snapshot and columns; columns and filters of the query reach the files. Tables that
    this process makes or drops are there at once, those of other processes at the second query after, or after
    `refresh`. All cursors of the connection have it. It only reads: `Catalog.sql` writes, and travels in time.

    Args:
        connection: DuckDB's default connection when None.
        warehouse: a catalog, or the folder or URL of a warehouse.
        name: of the database, which must not exist on the connection.

    Raises:
        InvalidArgument: the name is taken. Unsupported: names of databases or tables that DuckDB cannot tell apart.
    """
    from morrow.attaching import attach as attached
    from morrow.catalogs.catalog import Catalog

    catalog = warehouse if isinstance(warehouse, Catalog) else Catalog(warehouse)
    attached(connection, catalog, name)
    return checked_connection(connection)


def refresh(connection: duckdb.DuckDBPyConnection | None, name: str) -> None:
    """Looks for new tables of an attached warehouse now. Raises `InvalidArgument` where `name` is none."""
    from morrow.attaching import attachment

    attachment(connection, name).refresh()


def detach(connection: duckdb.DuckDBPyConnection | None, name: str) -> None:
    """Removes an attached warehouse from the connection, and all that it has put there.

    A connection that was closed may be given too. Raises `InvalidArgument` where `name` is none.
    """
    from morrow.attaching import detach as detached

    detached(connection, name)


def open_dataset(
    path: str, given: Mapping[str, str], *, allowed_roots: Roots = (), verify: Verify | None = None
) -> PaimonDataset:
    """Returns the dataset of a ``paimon_scan`` call, whose arguments are all text.

    Raises:
        InvalidArgument: an argument is no number where one is needed. Others as opening and planning.
    """
    from morrow.scans import reopening
    from morrow.scans.table_scan import Scan
    from morrow.session import scan_at

    text(path, "the path of paimon_scan")
    is_lasting = path.startswith("/")  # whatever the folder of the process becomes
    key = (path, allowed_roots, verify) if is_lasting and not given else None
    scan = None if key is None else reopening.kept(key)
    if scan is not None:
        return scan.dataset()
    for argument, value in given.items():
        text(value, f"{argument} of paimon_scan")
    at = cast("TravelArguments", {name: _value(name, value) for name, value in given.items()})
    made = scan_at(path, allowed_roots=allowed_roots, verify=verify, **at)
    if key is not None and isinstance(made, Scan):
        reopening.keep(key, made)
    return made.dataset()


def _value(argument: str, value: str) -> int | str:
    if argument not in NUMBERS:
        return value
    pattern, meaning = NUMBERS[argument]
    if not re.fullmatch(pattern, value):
        raise InvalidArgument(f"{argument} := {value!r} is no {meaning}")
    return int(value)
