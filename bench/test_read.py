"""Full reads, aggregates and filters of merge-on-read, deletion-vector and append tables against the plain scan.

The plain scan reads the same columns of the same files without merging, and returns deleted rows too. Its time is about
the minimum for a reader of these files.
"""

from __future__ import annotations

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, compare, timed
from bench.conftest import Tables
from bench.tables import Table

MERGED = {"bigint": "key BIGINT", "composite": "key (STRING, INT)"}
DELETED = {"dv10": "10 % deleted", "dv50": "50 % deleted"}
PASSES = {"first": morrow.clear_caches, "again": None}

SUM = (pl.len(), pl.col("amount").sum())

FULL_BOUNDS = {"first": {"bigint": 1.5, "composite": 2.0}, "again": {"bigint": 1.15, "composite": 1.15}}
SUM_BOUNDS = {"first": {"bigint": 2.5, "composite": 5.0}, "again": {"bigint": 1.1, "composite": 1.1}}

FILTERS = {
    "1,000 keys": ("id BETWEEN 1000000 AND 1002000", pl.col("id").is_between(1_000_000, 1_002_000)),
    "0.1 % by amount": ("amount < 1", pl.col("amount") < 1),
    "an hour of created": (
        "created >= TIMESTAMP '2024-03-02 00:00:00' AND created < TIMESTAMP '2024-03-02 01:00:00'",
        pl.col("created").is_between(pl.datetime(2024, 3, 2), pl.datetime(2024, 3, 2, 1), closed="left"),
    ),
}
"""Name -> the filter as SQL for Morrow and as an expression for the plain scan."""


def plain(table: Table) -> pl.LazyFrame:
    return pl.scan_parquet(table.files).select(table.columns)


def full(table: Table) -> pl.DataFrame:
    return morrow.open(table.path).scan().to_polars()


def total(table: Table) -> pl.DataFrame:
    return morrow.open(table.path).scan(columns=["amount"]).lazy().select(SUM).collect()


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", MERGED)
def test_full_read_merged(benchmark: BenchmarkFixture, table: Tables, name: str, when: str) -> None:
    data = table(name)
    compare(
        benchmark,
        "Merge-on-read, deduplicate: full read",
        f"{MERGED[name]}, {when}",
        lambda: full(data),
        baseline=("Polars scan, no merge", timed(lambda: plain(data).collect())),
        bound=Bound(FULL_BOUNDS[when][name]),
        before=PASSES[when],
    )


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", MERGED)
def test_count_and_sum_merged(benchmark: BenchmarkFixture, table: Tables, name: str, when: str) -> None:
    data = table(name)
    compare(
        benchmark,
        "Merge-on-read, deduplicate: count and sum",
        f"{MERGED[name]}, {when}",
        lambda: total(data),
        baseline=("Polars scan, no merge", timed(lambda: plain(data).select(SUM).collect())),
        bound=Bound(SUM_BOUNDS[when][name]),
        before=PASSES[when],
    )


@pytest.mark.parametrize("name", DELETED)
def test_full_read_with_deletion_vectors(benchmark: BenchmarkFixture, table: Tables, name: str) -> None:
    data = table(name)
    compare(
        benchmark,
        "Deletion vectors",
        f"full read, {DELETED[name]}, first",
        lambda: full(data),
        baseline=("Polars scan, dead rows too", timed(lambda: plain(data).collect())),
        bound=Bound(1.2),
        before=morrow.clear_caches,
    )


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", DELETED)
def test_count_and_sum_with_deletion_vectors(benchmark: BenchmarkFixture, table: Tables, name: str, when: str) -> None:
    data = table(name)
    compare(
        benchmark,
        "Deletion vectors",
        f"count and sum, {DELETED[name]}, {when}",
        lambda: total(data),
        baseline=("Polars scan, dead rows too", timed(lambda: plain(data).select(SUM).collect())),
        bound=Bound({"first": 1.2, "again": 1.1}[when]),
        before=PASSES[when],
    )


@pytest.mark.parametrize("filtered", FILTERS)
@pytest.mark.parametrize("name", ["bigint", "dv10"])
def test_filtered_read(benchmark: BenchmarkFixture, table: Tables, name: str, filtered: str) -> None:
    data = table(name)
    text, expression = FILTERS[filtered]
    compare(
        benchmark,
        "Filters",
        f"{filtered}, {'merge-on-read' if name == 'bigint' else DELETED[name]}, again",
        lambda: morrow.open(data.path).scan(filter=text).to_polars(),
        baseline=("Polars scan, same filter", timed(lambda: plain(data).filter(expression).collect())),
        bound=Bound(1.5),
        rounds=11,
    )


def test_full_read_append(benchmark: BenchmarkFixture, table: Tables) -> None:
    data = table("append")
    compare(
        benchmark,
        "Append table",
        "full read, first",
        lambda: full(data),
        baseline=("Polars scan", timed(lambda: plain(data).collect())),
        before=morrow.clear_caches,
    )


def test_count_append(benchmark: BenchmarkFixture, table: Tables) -> None:
    data = table("append")
    compare(
        benchmark,
        "Append table",
        "count(), first",
        lambda: morrow.open(data.path).scan().count(),
        baseline=("Polars scan", timed(lambda: plain(data).select(pl.len()).collect())),
        before=morrow.clear_caches,
    )


@pytest.mark.parametrize("when", PASSES)
def test_full_read_orc(benchmark: BenchmarkFixture, table: Tables, when: str) -> None:
    """Measure ORC against Arrow's scan of all files at once, since Polars and DuckDB cannot read ORC."""
    import pyarrow.dataset

    data = table("orc")
    plain_orc = pyarrow.dataset.dataset(list(data.files), format="orc")
    compare(
        benchmark,
        "ORC, merge-on-read, deduplicate: full read",
        f"key BIGINT, {when}",
        lambda: morrow.open(data.path).scan().to_arrow(),
        baseline=("Arrow ORC scan, no merge", timed(lambda: plain_orc.to_table(columns=list(data.columns)))),
        bound=Bound({"first": 1.7, "again": 1.2}[when]),
        before=PASSES[when],
    )
