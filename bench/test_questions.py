"""Questions of analysts: conditions of every kind, groups, the top rows and metadata, against scans that merge nothing.

The table is merge-on-read: 4 buckets of 4 million rows, with three updates of 100,000 rows on top. DuckDB's
`read_parquet` reads the same files. Polars' scan of them, and pypaimon-rust, answer the conditions that they can.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench import compare, tables
from bench.compare import Bound, timed
from bench.data import Ids

SECTION = "Questions"
ROWS, BUCKETS, UPDATES, UPDATE_ROWS = 4_000_000, 4, 3, 100_000
SCHEMA = {
    "id": "BIGINT NOT NULL",
    "i": "INT",
    "b": "DOUBLE",
    "f": "FLOAT",
    "s": "STRING",
    "c": "STRING",
    "dt": "DATE",
    "st": "ROW<x INT, y STRING>",
}
OPTIONS = {"bucket": BUCKETS, "write-only": True}


@dataclass(frozen=True)
class Question:
    """A condition and the bounds of its ratio, as `scan(filter=)` and in SQL."""

    condition: str
    scan: float
    sql: float


CONDITIONS = (
    Question("b BETWEEN 1000 AND 5000", 2, 2),
    Question("f BETWEEN 1000 AND 5000", 2, 2),
    Question("s = 'k0000001'", 2, 2),
    Question("s LIKE 'k00000%'", 2, 2),
    Question("s IN ('k0000001', 'k0399999')", 2, 2),
    Question("abs(i) = 100", 1.5, 1.5),
    Question("st.x = 100", 1.5, 1.5),
    Question("i + 1 = 101", 2, 2),
    Question("year(dt) = 2001", 1.5, 1.5),
)
AGGREGATES = {
    "groups with count and sum": ("SELECT c, count(*), sum(i) FROM {} GROUP BY c", 2),
    "top 10 by a value": ("SELECT id, b FROM {} ORDER BY b DESC LIMIT 10", 2.5),
    "count(DISTINCT c)": ("SELECT count(DISTINCT c) FROM {}", 2.5),
    "count, min and max of the key": ("SELECT count(*), min(id), max(id) FROM {}", 1.5),
}


def make_rows(ids: Ids, seed: int) -> pl.DataFrame:
    """Return one row per id: values at random, dates that ascend with the id, texts of 400,000 kinds."""
    random = np.random.default_rng(seed)
    count = len(ids)
    x = pl.Series("x", random.integers(0, 100_000, count, dtype=np.int32))
    return pl.DataFrame({"id": ids}).select(
        "id",
        i=pl.Series(random.integers(-100_000, 100_000, count, dtype=np.int32)),
        b=pl.Series(random.random(count) * 10_000_000),
        f=pl.Series((random.random(count) * 10_000_000).astype(np.float32)),
        s=pl.format("k{}", pl.Series(random.integers(0, 400_000, count)).cast(pl.String).str.zfill(7)),
        c=pl.format("city {}", pl.Series(random.integers(0, 1_000, count))),
        dt=pl.lit(dt.date(1990, 1, 1)) + pl.duration(days=pl.col("id") // 400),
        st=pl.struct(x, pl.format("y{}", x).alias("y")),
    )


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> morrow.Table:
    """Return the table, written by Morrow to bench/.data if it is not there."""
    quick = request.config.getoption("--quick")
    home = tables.HOME / ("quick" if quick else "full") / "questions"
    rows, update_rows = (
        (ROWS // tables.QUICK_DIVISOR, UPDATE_ROWS // tables.QUICK_DIVISOR) if quick else (ROWS, UPDATE_ROWS)
    )
    if (path := home / "db.db" / "t").exists():
        return morrow.open(path)
    catalog = morrow.Catalog(home)
    made = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options=OPTIONS)
    made.upsert(make_rows(np.arange(rows, dtype=np.int64), 0))
    made.compact(full=True)
    for number in range(UPDATES):
        keys = np.sort(np.random.default_rng(number).choice(rows, update_rows, replace=False)).astype(np.int64)
        made.upsert(make_rows(keys, 100 + number))
    return made


@pytest.fixture(scope="module")
def files(table: morrow.Table) -> str:
    """Return the relation of the data files of the newest snapshot in DuckDB, which merges nothing."""
    paths = [str(Path(str(table.location)) / name) for name in live_files(table)]
    return f"read_parquet({paths})"


def live_files(table: morrow.Table) -> list[str]:
    return table.system("files").to_polars()["file_path"].to_list()
