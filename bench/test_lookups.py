"""Rows by primary key: one key, many keys, and keys from several threads, against plain scans and other readers.

The table is merge-on-read: 4 buckets with three updates of 100,000 rows each on top. The plain scan filters the same
files by the same keys, and merges nothing.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, Limit, compare, record, timed
from bench.conftest import Peers, Tables
from bench.tables import Table

SECTION = "Lookups"
KEYS, THREADS, MANY = 200, 8, 1_000
FIRST = """
import sys, time
import morrow
table = morrow.open(sys.argv[1])
began = time.perf_counter()
table.get(4242)
print(time.perf_counter() - began)
"""


def draw_keys(data: Table, count: int, seed: int = 7) -> list[int]:
    """Return keys of rows of the base, spread evenly."""
    return (np.random.default_rng(seed).integers(0, data.live_rows * 9 // 10, count) * 2).tolist()


@pytest.fixture(scope="module")
def opened(table: Tables) -> tuple[Table, morrow.Table]:
    data = table("lookups")
    found = morrow.open(data.path)
    for key in draw_keys(data, KEYS):
        found.get(key)
    return data, found


def measure(get: Callable[[int], object], keys: list[int], share: float) -> float:
    """Return the quantile `share` of the seconds of a call."""
    times = []
    for key in keys:
        began = time.perf_counter()
        get(key)
        times.append(time.perf_counter() - began)
    return float(np.quantile(times, share))


@pytest.mark.parametrize(("what", "share", "bound"), [("p50", 0.5, 3), ("p99", 0.99, 12)])
def test_one_key(
    benchmark: BenchmarkFixture, opened: tuple[Table, morrow.Table], what: str, share: float, bound: float
) -> None:
    data, table = opened
    keys = draw_keys(data, KEYS, 8)
    record(benchmark, SECTION, f"get, {what}", lambda: measure(table.get, keys, share), bound=Limit(bound, "ms"))


def test_first_key_of_a_process(benchmark: BenchmarkFixture, opened: tuple[Table, morrow.Table]) -> None:
    command = [sys.executable, "-c", FIRST, opened[0].path]
    record(
        benchmark,
        SECTION,
        "get, first in a process",
        lambda: float(subprocess.run(command, capture_output=True, text=True, check=True).stdout),
        bound=Limit(60, "ms"),
    )


def test_keys_from_threads(benchmark: BenchmarkFixture, opened: tuple[Table, morrow.Table]) -> None:
    data, table = opened
    keys = draw_keys(data, KEYS, 9)

    def each() -> float:
        with ThreadPoolExecutor(THREADS) as pool:
            began = time.perf_counter()
            list(pool.map(table.get, keys))
            return (time.perf_counter() - began) / len(keys)

    record(benchmark, SECTION, f"get from {THREADS} threads, a lookup", each, bound=Limit(2, "ms"))


@pytest.mark.parametrize("spread", ["spread", "neighbours"])
def test_many_keys(benchmark: BenchmarkFixture, opened: tuple[Table, morrow.Table], spread: str) -> None:
    data, table = opened
    keys = draw_keys(data, MANY) if spread == "spread" else list(range(2_000, 2_000 + 2 * MANY, 2))
    plain = pl.scan_parquet(data.files).select(data.columns).filter(pl.col("id").is_in(keys))
    compare(
        benchmark,
        SECTION,
        f"get_many, {MANY:,} keys, {spread}",
        lambda: table.get_many({"id": keys}),
        baseline=("Polars scan, same keys, no merge", timed(plain.collect)),
        bound=Bound(1),
    )


@pytest.mark.peers
@pytest.mark.parametrize("name", ["pypaimon", "pypaimon-rust"])
def test_one_key_by_others(
    benchmark: BenchmarkFixture, opened: tuple[Table, morrow.Table], peer: Peers, name: str
) -> None:
    data, table = opened
    key = itertools.cycle(draw_keys(data, KEYS, 8))
    other = peer(name)
    compare(
        benchmark,
        f"{SECTION}, other readers",
        "one key",
        lambda: table.get(next(key)),
        baseline=(name, lambda: other.clock(data.warehouse, "key", f"id={next(key)}")),
    )
