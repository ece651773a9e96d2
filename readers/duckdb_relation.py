"""Scans as DuckDB relations, and the table function ``paimon_scan`` for SQL.

DuckDB reads a scan through a `PaimonDataset`: its projections and filters arrive in `scanner(columns, filter)`, the
files are scanned and masked by Polars, and the columns come back as Arrow without a copy. That measures faster than
DuckDB's own ``read_parquet`` of the same files for full reads and about equal for aggregates, and it serves every
format and merge engine alike.

DuckDB has no Python table functions, but ``query(<text>)`` in a macro is bound from text that a Python function
returns; the function hands the dataset over as a view in an in-memory database of its own, which all cursors share.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from morrow.readers.dataset import PaimonDataset

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

HANDOFF_DATABASE = "morrow_handoff"
MOST_VIEWS = 256
"""Hand-off views kept for one connection; older ones are dropped (a query binds its view at once)."""


def relation(source: PaimonDataset | pa.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """A relation over `source` on `connection` (DuckDB's default connection when None)."""
    import duckdb

    return (connection or duckdb.default_connection()).from_arrow(source)


class ScanFunction:
    """The macro ``paimon_scan(path, as_of := ..., ...)`` of one DuckDB instance.

    `open_dataset` gets the macro's arguments as text (None where not given) and returns what to scan.
    """

    PARAMETERS = ("as_of", "snapshot", "tag", "timestamp", "branch")

    def __init__(self, open_dataset: Callable[..., PaimonDataset]) -> None:
        self._open_dataset = open_dataset
        self._views: list[str] = []
        self._cursor: duckdb.DuckDBPyConnection | None = None

    def install(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the macro on `connection`; installing twice replaces it."""
        self._cursor = connection.cursor()
        self._cursor.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {HANDOFF_DATABASE}")
        helper = f"morrow_plan_{uuid.uuid4().hex}"
        connection.create_function(  # type: ignore[call-overload]  # the stub wants an invariant list of unions
            helper,
            self.plan,
            ["varchar"] * (1 + len(self.PARAMETERS)),
            "varchar",
            null_handling="special",
            side_effects=True,
        )
        defaults = ", ".join(f"{name} := NULL" for name in self.PARAMETERS)
        arguments = ", ".join(f"{name}::VARCHAR" for name in self.PARAMETERS)
        connection.execute(
            f"CREATE OR REPLACE TEMP MACRO paimon_scan(path, {defaults}) AS TABLE "
            f"FROM query({helper}(path, {arguments}))"
        )

    def plan(
        self,
        path: str,
        as_of: str | None,
        snapshot: str | None,
        tag: str | None,
        timestamp: str | None,
        branch: str | None,
    ) -> str:
        """SQL text that reads the table: called by DuckDB while it binds a query."""
        dataset = self._open_dataset(path, as_of=as_of, snapshot=snapshot, tag=tag, timestamp=timestamp, branch=branch)
        view = f"{HANDOFF_DATABASE}.scan_{uuid.uuid4().hex}"
        self._hand_over(dataset, view)
        return f"FROM {view}"

    def _hand_over(self, dataset: PaimonDataset, view: str) -> None:
        assert self._cursor is not None
        while len(self._views) >= MOST_VIEWS:
            self._cursor.execute(f"DROP VIEW IF EXISTS {self._views.pop(0)}")
        self._cursor.execute(f"USE {HANDOFF_DATABASE}")
        self._cursor.from_arrow(dataset).create_view(view.split(".")[1], replace=True)
        self._views.append(view)
