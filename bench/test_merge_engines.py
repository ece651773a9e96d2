"""Merge engines that combine versions: full reads against the plain scan of the same files without merging.

Every update sets half of the columns; the others are null. The curves show the time of a first read of a table of fixed
size, by the number of keys in one update and by the number of overlapping updates.
"""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, compare, timed
from bench.conftest import Tables
from bench.tables import CURVE_ROWS, OVERLAPPING_FILES, UPDATED_KEYS
from bench.test_read import PASSES, SUM, full, plain, total

ENGINES = {
    "partial_update": ("partial-update", 2.2),
    "sequence_groups": ("partial-update, two sequence groups and a sum", 2.2),
    "aggregation": ("aggregation: sum, max, last_non_null_value", 2.2),
}
"""Table -> its description and the bound of its first read."""
AGAIN = 1.15


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", ENGINES)
def test_full_read_folded(benchmark: BenchmarkFixture, table: Tables, name: str, when: str) -> None:
    data = table(name)
    what, first = ENGINES[name]
    compare(
        benchmark,
        "Merge engines: full read",
        f"{what}, {when}",
        lambda: full(data),
        baseline=("Polars scan, no merge", timed(lambda: plain(data).collect())),
        bound=Bound({"first": first, "again": AGAIN}[when]),
        before=PASSES[when],
    )

    assert full(data).height == data.live_rows


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", ENGINES)
def test_count_and_sum_folded(benchmark: BenchmarkFixture, table: Tables, name: str, when: str) -> None:
    data = table(name)
    compare(
        benchmark,
        "Merge engines: count and sum",
        f"{ENGINES[name][0]}, {when}",
        lambda: total(data),
        baseline=("Polars scan, no merge", timed(lambda: plain(data).select(SUM).collect())),
        bound=Bound({"first": 4.0, "again": AGAIN}[when]),
        before=PASSES[when],
    )


@pytest.mark.parametrize("keys", UPDATED_KEYS)
def test_updated_keys(benchmark: BenchmarkFixture, table: Tables, keys: int) -> None:
    data = table(f"updated_{keys}")
    percent = keys * 100 / CURVE_ROWS
    compare(
        benchmark,
        "Partial-update: one update of more and more keys",
        f"{percent:g} % of the keys updated, first",
        lambda: full(data),
        baseline=("Polars scan, no merge", timed(lambda: plain(data).collect())),
        before=morrow.clear_caches,
    )
    benchmark.extra_info["curve"] = {
        "at": percent,
        "axis": f"% of {data.live_rows:,} keys updated",
        "each": "1 % of the keys",
    }


@pytest.mark.parametrize("files", OVERLAPPING_FILES)
def test_overlapping_files(benchmark: BenchmarkFixture, table: Tables, files: int) -> None:
    data = table(f"overlapping_{files}")
    compare(
        benchmark,
        "Partial-update: more and more overlapping files",
        f"{files} {'update' if files == 1 else 'updates'} of 2 % of the keys each, first",
        lambda: full(data),
        baseline=("Polars scan, no merge", timed(lambda: plain(data).collect())),
        before=morrow.clear_caches,
    )
    benchmark.extra_info["curve"] = {
        "at": files,
        "axis": f"overlapping files, each updates 2 % of {data.live_rows:,} keys",
        "each": "file",
    }
