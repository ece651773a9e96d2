"""One DuckDB for all tests of a process: it takes longer to make than most of what is asked of it."""

from __future__ import annotations

import functools

import duckdb


@functools.cache
def one_duckdb() -> duckdb.DuckDBPyConnection:
    """Open a connection whose time zone is UTC. Leave nothing behind in it."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'").fetchall()
    return connection
