"""`paimon_scan` in DuckDB against `read_parquet` of the same files."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
import morrow.duckdb
from bench.compare import Bound, compare, timed
from bench.conftest import Tables

TABLES = {"bigint": "merge-on-read, key BIGINT", "dv10": "10 % deleted", "append": "append table"}
PASSES = {"first": morrow.clear_caches, "again": None}
WORK = {
    "full read to Arrow": ("{columns}", ""),
    "count and sum": ("count(*), sum(amount)", ""),
    "0.1 % by amount": ("id, amount", "WHERE amount < 1"),
    "the top 10": ("id, amount", "ORDER BY amount DESC LIMIT 10"),
}
"""Name of a measurement -> selected columns, and the end of the query."""


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)
        yield connection


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("what", WORK)
@pytest.mark.parametrize("name", TABLES)
def test_paimon_scan(
    benchmark: BenchmarkFixture,
    table: Tables,
    connection: duckdb.DuckDBPyConnection,
    name: str,
    what: str,
    when: str,
) -> None:
    data = table(name)
    selected, end = WORK[what]
    selected = selected.format(columns=", ".join(data.columns))
    scan = f"SELECT {selected} FROM paimon_scan('{data.path}') {end}"
    plain = f"SELECT {selected} FROM read_parquet({list(data.files)}) {end}"
    compare(
        benchmark,
        "DuckDB function",
        f"{what}, {TABLES[name]}, {when}",
        lambda: connection.sql(scan).to_arrow_table(),
        baseline=("DuckDB read_parquet", timed(lambda: connection.sql(plain).to_arrow_table())),
        bound=Bound(1.2),
        before=PASSES[when],
    )
