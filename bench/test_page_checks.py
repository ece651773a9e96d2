"""Reads with ``verify="pages"`` against the same reads without, to measure the cost of hashing pages.

Pages are hashed once per file and process. So "first" is the first read of a process (with files in the system's
cache), and "again" every later read.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, compare, timed
from bench.conftest import Tables
from bench.tables import Table
from morrow.readers.files.page_checksums import PAGE_CACHE

PASSES = {"first": (PAGE_CACHE.clear, Bound(1.15)), "again": (None, Bound(1.05))}
TABLES = {"append": "append", "bigint": "merge-on-read", "dv10": "deletion vectors"}
READS: dict[str, Callable[[morrow.Table], object]] = {
    "full read": lambda table: table.scan().to_polars(),
    "sum of a column": lambda table: table.scan(["amount"]).lazy().select(pl.col("amount").sum()).collect(),
    "1,000 keys": lambda table: table.scan(filter="id BETWEEN 1000000 AND 1002000").to_polars(),
}


def clock(table: Table, read: Callable[[morrow.Table], object]) -> Callable[[], float]:
    opened = morrow.open(table.path)
    return timed(lambda: read(opened))


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("name", TABLES)
def test_checked(benchmark: BenchmarkFixture, table: Tables, name: str, what: str, when: str) -> None:
    data, read = table(name), READS[what]
    checked = morrow.open(data.path, verify="pages")
    before, bound = PASSES[when]
    compare(
        benchmark,
        'Page checksums: verify="pages"',
        f"{TABLES[name]}, {what}, {when}",
        lambda: read(checked),
        baseline=("without", clock(data, read)),
        # A read of few rows uses few pages, but hashes its columns completely once.
        bound=None if what == "1,000 keys" and when == "first" else bound,
        before=before,
    )
