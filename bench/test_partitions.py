"""Thousands of partitions with one small file each: read against a Polars scan of the same files, and written."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, Limit, compare, timed
from bench.tables import HOME

SECTION = "Many partitions"
PARTITIONS, ROWS_EACH = 3_000, 100
ROUNDS = 5
SCHEMA = "id BIGINT, p INT, a DOUBLE, b BIGINT, s STRING"


def rows() -> pl.DataFrame:
    """Return rows that alternate between all partitions."""
    numbers = np.arange(PARTITIONS * ROWS_EACH)
    return pl.DataFrame(
        {
            "id": numbers,
            "p": (numbers % PARTITIONS).astype(np.int32),
            "a": np.random.default_rng(1).random(len(numbers)),
            "b": numbers % 997,
            "s": pl.Series(numbers % 1000).cast(pl.String),
        }
    )


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    folder = HOME / "partitions"
    shutil.rmtree(folder, ignore_errors=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def written(home: Path, name: str, data: pl.DataFrame) -> morrow.Table:
    table = morrow.Catalog(home).create_table(f"db.{name}", schema=SCHEMA, partition_keys=["p"])
    table.append(data)
    return table


def test_partitions_are_written(benchmark: BenchmarkFixture, home: Path) -> None:
    data = rows()
    names = map(str, itertools.count())
    compare(
        benchmark,
        SECTION,
        f"append to {PARTITIONS:,} new partitions, a file each",
        lambda: written(home, f"w{next(names)}", data),
        bound=Limit(10_000, "ms"),
        rounds=1,
        warmup=False,
    )


def test_partitions_are_read(benchmark: BenchmarkFixture, home: Path) -> None:
    table = written(home, "read", rows())
    files = sorted(str(path) for path in Path(table.path).glob("p=*/bucket-0/*.parquet"))
    assert table.scan().to_polars().height == PARTITIONS * ROWS_EACH
    compare(
        benchmark,
        SECTION,
        f"full read of {PARTITIONS:,} partitions of a file each",
        lambda: morrow.open(table.path).scan().to_polars(),
        baseline=("Polars over the same files", timed(lambda: pl.scan_parquet(files).collect())),
        bound=Bound(2),
        rounds=ROUNDS,
    )


MANY = {
    "1,500 partitions of two files that overlap": (["p", "id"], ["p"], 1, 1),
    "50 buckets of 20 runs": (["id"], [], 50, 19),
}
"""Name of a case -> primary key, partition keys, buckets, updates of a tenth of the keys."""


@pytest.mark.long
@pytest.mark.parametrize("what", MANY)
def test_many_sections_are_merged(benchmark: BenchmarkFixture, home: Path, what: str) -> None:
    keys, by, buckets, updates = MANY[what]
    table = morrow.Catalog(home).create_table(
        f"db.m{buckets}",
        schema=SCHEMA,
        primary_keys=keys,
        partition_keys=by,
        options={"bucket": buckets, "write-only": True},
    )
    data = rows().with_columns(p=(pl.col("id") % 1_500).cast(pl.Int32))
    table.upsert(data)
    for number in range(updates):
        table.upsert(data.sample(fraction=0.1, seed=number))
    files = sorted(str(path) for path in Path(table.path).rglob("data-*.parquet"))
    compare(
        benchmark,
        SECTION,
        f"{what}: full read, first",
        lambda: morrow.open(table.path).scan().to_polars(),
        baseline=(
            "Polars over the same files",
            timed(lambda: pl.scan_parquet(files, hive_partitioning=False).collect()),
        ),
        bound=Bound(2),
        before=morrow.clear_caches,
        rounds=ROUNDS,
    )
    assert table.scan().to_polars().height == PARTITIONS * ROWS_EACH
