"""Merge-on-read tables as Morrow and pypaimon write them: a base of 2 million rows, five updates, nothing compacted."""

from __future__ import annotations

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.compare import Bound, compare, timed
from bench.conftest import Tables
from bench.test_read import FULL_BOUNDS, PASSES, SUM, SUM_BOUNDS, full, plain, total

SECTION = "Merge-on-read, deduplicate: by who wrote the files"
WRITTEN = {"by_morrow": "by Morrow", "by_pypaimon": "by pypaimon 2.1.0"}

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", WRITTEN)
def test_full_read(benchmark: BenchmarkFixture, table: Tables, name: str, when: str) -> None:
    data = table(name)
    compare(
        benchmark,
        SECTION,
        f"{WRITTEN[name]}: full read, {when}",
        lambda: full(data),
        baseline=("Polars scan, no merge", timed(lambda: plain(data).collect())),
        bound=Bound(FULL_BOUNDS[when]["bigint"]),
        before=PASSES[when],
    )


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", WRITTEN)
def test_count_and_sum(benchmark: BenchmarkFixture, table: Tables, name: str, when: str) -> None:
    data = table(name)
    compare(
        benchmark,
        SECTION,
        f"{WRITTEN[name]}: count and sum, {when}",
        lambda: total(data),
        baseline=("Polars scan, no merge", timed(lambda: plain(data).select(SUM).collect())),
        bound=Bound(SUM_BOUNDS[when]["bigint"]),
        before=PASSES[when],
    )


@pytest.mark.parametrize("name", WRITTEN)
def test_rows(table: Tables, name: str) -> None:
    """Check that the rows read are the rows written: one row per key."""
    data = table(name)

    assert total(data).rows()[0][0] == full(data).select(pl.col("id").n_unique()).item() == data.live_rows
