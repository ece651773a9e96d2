"""Keys of many types: first reads of overlapping files against the plain scan of the same files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, compare, timed
from bench.data import Ids, base_ids, update_ids
from bench.tables import HOME

ROWS, UPDATE_ROWS, UPDATES = 1_000_000, 50_000, 5
NUMBER = pl.col("n")
KEYS: dict[str, dict[str, tuple[str, pl.Expr]]] = {
    "BIGINT": {"k": ("BIGINT", NUMBER)},
    "STRING of several lengths": {"k": ("STRING", pl.format("user-{}", NUMBER))},
    "STRING, 40 bytes": {"k": ("STRING", pl.format("https://example.com/shop/{}/item/{}", NUMBER % 97, NUMBER))},
    "BINARY": {"k": ("BYTES", pl.format("{}", NUMBER * 2_654_435_761 % 2**32).cast(pl.Binary))},
    "DECIMAL(20, 2)": {"k": ("DECIMAL(20, 2)", NUMBER.cast(pl.Decimal(20, 2)))},
    "TIMESTAMP(6)": {"k": ("TIMESTAMP(6)", (NUMBER * 1_000_003).cast(pl.Datetime("us")))},
    "five columns": {
        "a": ("STRING", pl.format("region-{}", NUMBER % 7)),
        "b": ("INT", (NUMBER // 7 % 13).cast(pl.Int32)),
        "c": ("STRING", pl.format("shop-{}", NUMBER // 91 % 1_000)),
        "d": ("BIGINT", NUMBER),
        "e": ("DATE", (NUMBER % 30).cast(pl.Int32).cast(pl.Date)),
    },
}
VALUES = {"city": "STRING", "amount": "DOUBLE", "quantity": "INT", "price": "DOUBLE"}
SUM = (pl.len(), pl.col("amount").sum())


def rows(ids: Ids, key: dict[str, tuple[str, pl.Expr]], seed: int) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    numbers = pl.DataFrame({"n": ids})
    return numbers.select(
        *(made.alias(name) for name, (_, made) in key.items()),
        city=pl.format("city {}", NUMBER * 7 % 50),
        amount=pl.Series(random.random(len(ids)) * 1000).round(2),
        quantity=pl.Series(random.integers(1, 100, len(ids), dtype=np.int32)),
        price=pl.Series(random.random(len(ids)) * 90).round(2),
    )


@pytest.fixture(scope="module", params=KEYS)
def keyed(request: pytest.FixtureRequest) -> Iterator[tuple[str, morrow.Table]]:
    home = HOME / "keys"
    shutil.rmtree(home, ignore_errors=True)
    key = KEYS[request.param]
    schema = ", ".join(f"{name} {kind}" for name, kind in {**{n: k for n, (k, _) in key.items()}, **VALUES}.items())
    table = morrow.Catalog(home).create_table(
        "db.t", schema=schema, primary_keys=list(key), options={"bucket": 1, "write-only": True}
    )
    table.upsert(rows(base_ids(0, ROWS), key, 0))
    for number in range(UPDATES):
        table.upsert(rows(update_ids(ROWS, UPDATE_ROWS, number), key, number + 1))
    yield request.param, table
    shutil.rmtree(home, ignore_errors=True)


def plain(table: morrow.Table) -> pl.LazyFrame:
    return pl.scan_parquet(sorted(Path(table.path).rglob("data-*.parquet"))).select(table.schema.names)


def test_full_read(benchmark: BenchmarkFixture, keyed: tuple[str, morrow.Table]) -> None:
    name, table = keyed
    compare(
        benchmark,
        "Keys of any type: full read",
        f"{name}, first",
        lambda: morrow.open(table.path).scan().to_polars(),
        baseline=("Polars scan, no merge", timed(lambda: plain(table).collect())),
        bound=Bound(2),
        before=morrow.clear_caches,
    )


def test_count_and_sum(benchmark: BenchmarkFixture, keyed: tuple[str, morrow.Table]) -> None:
    name, table = keyed
    compare(
        benchmark,
        "Keys of any type: count and sum",
        f"{name}, first",
        lambda: morrow.open(table.path).scan(columns=["amount"]).lazy().select(SUM).collect(),
        baseline=("Polars scan, no merge", timed(lambda: plain(table).select(SUM).collect())),
        bound=Bound(5),
        before=morrow.clear_caches,
    )
