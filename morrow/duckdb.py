"""Paimon tables in DuckDB's SQL: ``morrow.duckdb.install(con)``.

con.sql("SELECT * FROM paimon_scan('warehouse/db.db/orders', as_of := 'v1') WHERE amount > 10")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.engine.catalog.names import object_name
from morrow.engine.errors import InvalidArgument
from morrow.readers.dataset import PaimonDataset
from morrow.readers.duckdb_relation import ScanFunction

if TYPE_CHECKING:
    import duckdb


def install(connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyConnection:
    """Make ``paimon_scan`` known to `connection` (DuckDB's default connection when None), and return it.

    ``paimon_scan(path, as_of := NULL, snapshot := NULL, tag := NULL, timestamp := NULL, version := NULL,
    branch := NULL)`` is a table: columns and filters of the query reach the files. ``version`` is the name of a tag, a
    snapshot id, ``snapshot.<id>`` or ``watermark-<millis>``; ``as_of`` is any of them, or a time. The path may end with
    the name of a branch or system table: ``'warehouse/db.db/orders$snapshots'``, ``'...$branch_dev$files'``.
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
    version: str | None = None,
) -> PaimonDataset:
    """The dataset of a ``paimon_scan`` call; all arguments arrive as text.

    Raises:
        InvalidArgument: `snapshot` is no number; and whatever opening and planning raise.
    """
    from morrow.session import open as open_table

    if snapshot is not None and not (snapshot.isascii() and snapshot.isdigit()):
        raise InvalidArgument(f"snapshot := {snapshot!r} is no snapshot id")
    number = None if snapshot is None else int(snapshot)
    if as_of is not None and version is not None:
        raise InvalidArgument("give only one of as_of, version")
    as_of = as_of if version is None else version  # both are text here, and that is a version
    name = object_name(path)
    if branch is not None and name.branch is not None:
        raise InvalidArgument(f"branch := {branch!r}, but the path names the branch {name.branch!r}")
    table = open_table(name.table, branch=branch or name.branch)
    if name.system is None:
        return table.dataset(as_of=as_of, snapshot=number, tag=tag, timestamp=timestamp)
    return table.system(name.system, as_of=as_of, snapshot=number, tag=tag, timestamp=timestamp).dataset()
