"""Growth of time with the size of a table: rows, files, columns, partitions, and files that are only planned.

Each section is a curve with a fitted exponent: 1 is linear, 0 is constant. Sizes go up to 10 million rows, 10,000
files and 50,000 partitions; with MORROW_BENCH_HUGE to 100 million rows and a million planned files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench import planning
from bench.compare import compare, timed
from bench.tables import HOME

HUGE = bool(os.environ.get("MORROW_BENCH_HUGE"))
ROWS = (100_000, 1_000_000, 10_000_000, *((100_000_000,) if HUGE else ()))
FILES = (10, 100, 1_000, 10_000)
COLUMNS = (5, 50, 500)
PARTITIONS = (10, 100, 1_000, 10_000, 50_000)
PLANNED = (1_000, 10_000, 100_000, *((1_000_000,) if HUGE else ()))
PIECE = 2_000_000
"""Number of rows per write."""
UPDATED = 20
"""Every 20th key is updated."""
WIDE_ROWS = 50_000
SMALL_ROWS = 50
QUICK = 10
"""Divisor of the sizes in a quick run."""
LIMIT = "Polars over the same files"


@pytest.fixture
def home() -> Iterator[Path]:
    """Create a folder for the tables of a test, and remove it afterwards."""
    folder = HOME / "scale"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def divisor(request: pytest.FixtureRequest) -> int:
    return QUICK if request.config.getoption("--quick") else 1


def _measured(
    benchmark: BenchmarkFixture,
    section: str,
    at: int,
    axis: str,
    subject: Callable[[], object],
    baseline: tuple[str, Callable[[], object]] | None,
    *,
    rounds: int = 3,
) -> None:
    """Measure a point of a curve: a first read in turns with the baseline."""
    given = None if baseline is None else (baseline[0], timed(baseline[1]))
    compare(benchmark, section, f"{at:,} {axis}", subject, baseline=given, before=morrow.clear_caches, rounds=rounds)
    benchmark.extra_info["curve"] = {"at": at, "axis": axis, "each": axis.removesuffix("s")}


def _keyed(home: Path, rows: int) -> morrow.Table:
    """Make a table whose base is one sorted run, with an update of some keys on top."""
    table = morrow.Catalog(home).create_table(
        "db.t",
        schema="id BIGINT, a DOUBLE, b BIGINT, s STRING",
        primary_keys=["id"],
        options={"bucket": 1, "write-only": True},
    )
    for start in range(0, rows, PIECE):
        table.append(_rows(np.arange(start, min(start + PIECE, rows))))
    table.compact(full=True)
    table.append(_rows(np.arange(0, rows, UPDATED)))
    return table


def _rows(ids: np.ndarray) -> pl.DataFrame:
    names = pl.Series(ids % 1000).cast(pl.String)
    return pl.DataFrame({"id": ids, "a": ids * 0.5, "b": ids % 997, "s": names})


@pytest.mark.parametrize("rows", ROWS)
def test_rows(benchmark: BenchmarkFixture, home: Path, divisor: int, rows: int) -> None:
    table = _keyed(home, rows // divisor)
    files = [file.path for file in table.scan().plan.files]
    wanted = [pl.len(), pl.col("a").sum()]
    _measured(
        benchmark,
        "Scale: count and sum of a merged table",
        rows // divisor,
        "rows",
        lambda: morrow.open(table.path).scan().lazy().select(wanted).collect(),
        (LIMIT, lambda: pl.scan_parquet(files).select(wanted).collect()),
    )
    assert table.count() == rows // divisor


def _wide(home: Path, count: int, columns: int, rows: int) -> morrow.Table:
    """Create an append table of `count` partitions with one file each."""
    names = [f"c{number}" for number in range(columns)]
    schema = ", ".join(["p INT", *(f"{name} {'DOUBLE' if i % 2 else 'BIGINT'}" for i, name in enumerate(names))])
    table = morrow.Catalog(home).create_table("db.t", schema=schema, partition_keys=["p"])
    at = np.arange(count * rows)
    values = {name: at * 0.5 if i % 2 else at for i, name in enumerate(names)}
    table.append(pl.DataFrame({"p": (at // rows).astype(np.int32), **values}))
    return table


def _small_files(home: Path, count: int) -> morrow.Table:
    """Create an append table of `count` files, in one commit."""
    table = morrow.Catalog(home).create_table("db.t", schema="id BIGINT, a DOUBLE, b BIGINT, s STRING")
    user, messages = "scale", []
    for number in range(count):
        with table.writer(user) as writer:
            writer.write(_rows(np.arange(number * SMALL_ROWS, (number + 1) * SMALL_ROWS)))
            messages += writer.prepare()
    table.committer(user).commit(messages)
    return table


@pytest.mark.parametrize("count", FILES)
def test_files(benchmark: BenchmarkFixture, home: Path, divisor: int, count: int) -> None:
    count = count // divisor
    _read(benchmark, "Scale: full read of small files", count, "files", _small_files(home, count))


@pytest.mark.parametrize("count", [*PARTITIONS[:-1], pytest.param(PARTITIONS[-1], marks=pytest.mark.long)])
def test_partitions(benchmark: BenchmarkFixture, home: Path, divisor: int, count: int) -> None:
    count = count // divisor
    table = _wide(home, count, 3, SMALL_ROWS)
    _read(benchmark, "Scale: full read of partitions of one file", count, "partitions", table)


@pytest.mark.parametrize("count", COLUMNS)
def test_columns(benchmark: BenchmarkFixture, home: Path, divisor: int, count: int) -> None:
    table = _wide(home, 1, count, WIDE_ROWS // divisor)
    _read(benchmark, "Scale: full read of wide tables", count, "columns", table)


def _read(benchmark: BenchmarkFixture, section: str, at: int, axis: str, table: morrow.Table) -> None:
    files = [file.path for file in table.scan().plan.files]
    _measured(
        benchmark,
        section,
        at,
        axis,
        lambda: morrow.open(table.path).scan().to_polars(),
        (LIMIT, lambda: pl.scan_parquet(files).collect()),
    )


@pytest.mark.parametrize("count", PLANNED)
def test_planned_files(benchmark: BenchmarkFixture, home: Path, divisor: int, count: int) -> None:
    count //= divisor
    path = planning.made(home, count, max(count // 10, 1))
    _measured(benchmark, "Scale: planning", count, "files", lambda: morrow.open(path).scan().plan, None)
