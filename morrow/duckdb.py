"""Paimon tables in DuckDB's SQL: ``morrow.duckdb.install(con)``.

con.sql("SELECT * FROM paimon_scan('warehouse/db.db/orders', as_of := 'v1') WHERE amount > 10")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument
from morrow.readers.dataset import PaimonDataset
from morrow.readers.duckdb_relation import ScanFunction

if TYPE_CHECKING:
    import duckdb


def install(connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyConnection:
    """Make ``paimon_scan`` known to `connection` (DuckDB's default connection when None), and return it.

    ``paimon_scan(path, as_of := NULL, snapshot := NULL, tag := NULL, timestamp := NULL, branch := NULL)`` is a table:
    columns and filters of the query reach the files. ``as_of`` is a snapshot id, tag name or time.
    """
    import duckdb

    connection = connection or duckdb.default_connection()
    ScanFunction(open_dataset).install(connection)
    return connection


def open_dataset(
    path: str,
    as_of: str | None = None,
    snapshot: str | None = None,
    tag: str | None = None,
    timestamp: str | None = None,
    branch: str | None = None,
) -> PaimonDataset:
    """The dataset of a ``paimon_scan`` call; all arguments arrive as text.

    Raises:
        InvalidArgument: `snapshot` is no number; and whatever opening and planning raise.
    """
    from morrow.session import open as open_table

    if snapshot is not None and not (snapshot.isascii() and snapshot.isdigit()):
        raise InvalidArgument(f"snapshot := {snapshot!r} is no snapshot id")
    return open_table(path, branch=branch).dataset(
        as_of=as_of,
        snapshot=None if snapshot is None else int(snapshot),
        tag=tag,
        timestamp=timestamp,
    )
