"""Planning a table of 100,000 files in 1,000 partitions: metadata only, the data files do not exist."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Limit, compare
from bench.conftest import Tables
from bench.tables import PARTITION

PASSES = {"first": morrow.clear_caches, "again": None}


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize(
    ("what", "filtered", "milliseconds"),
    [
        ("all files", None, 1000),
        ("one partition of 1,000", f"dt = '{PARTITION}'", 100),
    ],
)
def test_plan(
    benchmark: BenchmarkFixture, table: Tables, what: str, filtered: str | None, milliseconds: int, when: str
) -> None:
    path = table("many_files").path
    compare(
        benchmark,
        "Planning 100,000 files",
        f"{what}, {when}",
        lambda: morrow.open(path).scan(filter=filtered).plan,
        bound=Limit(milliseconds, "ms"),
        before=PASSES[when],
    )
