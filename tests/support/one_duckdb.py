"""One DuckDB for all tests of a process, since creating one takes longer than most queries."""

from __future__ import annotations

import functools

import duckdb


@functools.cache
def one_duckdb() -> duckdb.DuckDBPyConnection:
    """Return a connection whose time zone is UTC. Tests leave nothing behind in it."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'").fetchall()
    return connection
