"""Growth of lookups and of questions in SQL with rows, files and columns, and a service that answers for minutes.

Each section is a curve with a fitted exponent, as in `bench.test_scale`. The tables are merge-on-read: a base and
updates on top. A table of many files has a tenth as many buckets.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Limit, compare, record, timed
from bench.conftest import Tables
from bench.memory_worker import status
from bench.test_lookups import draw_keys, measure
from bench.test_scale import COLUMNS, FILES, HUGE, PIECE, QUICK, UPDATED

ROWS = (100_000, 1_000_000, 10_000_000, *((100_000_000,) if HUGE else ()))
FILE_ROWS, WIDE_ROWS = 1_000_000, 100_000
"""Rows of tables with many files, and of wide tables."""
WRITES = 10
"""Files of a bucket in a table with many files."""
KEYS = 100
GROUPS = 1_000
POINTS = [*(("rows", at) for at in ROWS), *(("files", at) for at in FILES), *(("columns", at) for at in COLUMNS)]
QUESTIONS = {
    "rows by a range in SQL": "SELECT id, v FROM {} WHERE v BETWEEN 0.5 AND 0.501",
    "groups in SQL": "SELECT g, count(*), sum(v) FROM {} GROUP BY g",
}
THREADS, SCANS = 16, 50
"""Threads of the service, and the lookups of a thread between two scans of a range of keys."""
MEGABYTE = 10**6


def make_rows(ids: npt.NDArray[np.int64], columns: int) -> pl.DataFrame:
    """Return a row per id with a group, a value from 0 to 1, and as many more values as make `columns`."""
    values = np.random.default_rng(0).random(len(ids))
    more = {f"c{number}": values + number for number in range(3, columns)}
    return pl.DataFrame({"id": ids, "g": ids % GROUPS, "v": values, **more})


def make_table(home: Path, axis: str, at: int, divisor: int) -> tuple[morrow.Table, int]:
    """Make a table of this size; return it with the number of its keys."""
    columns = at if axis == "columns" else 3
    rows = at if axis == "rows" else (FILE_ROWS if axis == "files" else WIDE_ROWS) // divisor
    buckets = max(at // WRITES, 1) if axis == "files" else max(rows // 5_000_000, 1)
    table = morrow.Catalog(home).create_table(
        "db.t",
        schema=", ".join(["id BIGINT, g BIGINT, v DOUBLE", *(f"c{number} DOUBLE" for number in range(3, columns))]),
        primary_keys=["id"],
        options={"bucket": buckets, "write-only": True},
    )
    if axis == "files":
        for number in range(WRITES):
            table.upsert(make_rows(np.arange(number, rows, WRITES), columns))
        return table, rows
    for start in range(0, rows, PIECE):
        table.upsert(make_rows(np.arange(start, min(start + PIECE, rows)), columns))
    table.compact(full=True)
    table.upsert(make_rows(np.arange(0, rows, UPDATED), columns))
    return table, rows


@pytest.fixture(scope="module", params=POINTS, ids=lambda point: f"{point[1]}-{point[0]}")
def grown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int, morrow.Table, int]]:
    """Return an axis, a size on it, and a table of this size with the number of its keys."""
    axis, at = request.param
    divisor = QUICK if request.config.getoption("--quick") else 1
    at = at // divisor if axis == "rows" else at
    folder = tmp_path_factory.mktemp("growth")
    yield axis, at, *make_table(folder, axis, at, divisor)
    shutil.rmtree(folder)


def describe(benchmark: BenchmarkFixture, axis: str, at: int) -> None:
    benchmark.extra_info["curve"] = {"at": at, "axis": axis, "each": axis.removesuffix("s")}


def test_lookups(benchmark: BenchmarkFixture, grown: tuple[str, int, morrow.Table, int]) -> None:
    axis, at, table, rows = grown
    keys = np.random.default_rng(1).integers(0, rows, KEYS).tolist()
    what = f"{at:,} {axis}"
    record(
        benchmark,
        f"Growth by {axis}: one row by its key",
        what,
        lambda: measure(table.get, keys, 0.5),
        bound=Limit(None, "ms"),
    )
    describe(benchmark, axis, at)
    assert table.get(keys[0])["g"] == keys[0] % GROUPS  # type: ignore[index]  # each key has a row


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(benchmark: BenchmarkFixture, grown: tuple[str, int, morrow.Table, int], name: str) -> None:
    axis, at, table, _ = grown
    files = table.system("files").to_polars()["file_path"].to_list()
    catalog, plain = morrow.Catalog(Path(table.path).parents[1]), duckdb.connect()
    asked, baseline = QUESTIONS[name].format("db.t"), QUESTIONS[name].format(f"read_parquet({files})")
    compare(
        benchmark,
        f"Growth by {axis}: {name}",
        f"{at:,} {axis}",
        lambda: catalog.sql(asked).to_arrow_table(),
        baseline=("DuckDB read_parquet, no merge", timed(lambda: plain.sql(baseline).to_arrow_table())),
        rounds=3,
    )
    describe(benchmark, axis, at)


@pytest.fixture(scope="module")
def service(table: Tables, request: pytest.FixtureRequest) -> dict[str, float]:
    """Answer lookups and ranges from threads for minutes; return lookups per second, their p99 and the memory."""
    data = table("lookups")
    opened, keys = morrow.open(data.path), draw_keys(data, 100_000, 11)
    seconds = 5 if request.config.getoption("--quick") else int(os.environ.get("MORROW_BENCH_SERVICE", "120"))
    times: list[list[float]] = [[] for _ in range(THREADS)]
    ends = time.perf_counter() + seconds

    def answer(number: int) -> None:
        asked = iter(keys[number::THREADS] * 100)
        while (began := time.perf_counter()) < ends:
            key = next(asked)
            opened.get(key)
            times[number].append(time.perf_counter() - began)
            if len(times[number]) % SCANS == 0:
                opened.scan(filter=f"id BETWEEN {key} AND {key + 1_000}").to_arrow()

    def run(until: Callable[[], bool]) -> int:
        peak = 0
        while not until():
            peak = max(peak, status("VmRSS"))
            time.sleep(0.5)
        return peak

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    early = run(lambda: time.perf_counter() > ends - seconds * 0.8)
    late = run(lambda: not any(thread.is_alive() for thread in threads))
    every = [each for some in times for each in some]
    return {
        "lookups a second": len(every) / seconds,
        "p99": float(np.quantile(every, 0.99)),
        "memory after the first fifth": early / MEGABYTE,
        "peak memory": late / MEGABYTE,
        "seconds": seconds,
    }


@pytest.mark.parametrize(
    ("what", "unit"),
    [("lookups a second", "/s"), ("p99", "ms"), ("memory after the first fifth", "MB"), ("peak memory", "MB")],
)
def test_service(benchmark: BenchmarkFixture, service: dict[str, float], what: str, unit: str) -> None:
    record(
        benchmark,
        f"Growth by time: a service of {THREADS} threads",
        what,
        lambda: service[what],
        bound=Limit(None, unit),
        rounds=1,
        note=f"{service['seconds']:.0f} s",
    )
