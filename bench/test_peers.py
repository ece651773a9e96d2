"""The other readers of Paimon tables for Python, on the same table, in turn with Morrow."""

from __future__ import annotations

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, compare
from bench.conftest import Peers, Tables

SECTION = "Other readers, merge-on-read, deduplicate"
PASSES = {"first": morrow.clear_caches, "again": None}
FULL_BOUNDS = {"first": Bound(3.5, faster=True), "again": Bound(4.2, faster=True)}
SUM_BOUNDS = {"first": Bound(6, faster=True), "again": Bound(12, faster=True)}
FORMS = {"Arrow": morrow.Scan.to_arrow, "Polars": morrow.Scan.to_polars}

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("form", FORMS)
def test_full_read_pypaimon_rust(benchmark: BenchmarkFixture, table: Tables, peer: Peers, form: str, when: str) -> None:
    """Compare with a reader that returns Arrow batches. Morrow's native form is Polars, so both are measured."""
    data, rust = table("bigint"), peer("pypaimon-rust")
    compare(
        benchmark,
        SECTION,
        f"full read to {form}, {when}",
        lambda: FORMS[form](morrow.open(data.path).scan()),
        baseline=("pypaimon-rust 0.4.0", lambda: rust.clock(data.warehouse, "full", "amount")),
        bound=FULL_BOUNDS[when] if form == "Arrow" else None,
        before=PASSES[when],
    )


@pytest.mark.parametrize("when", PASSES)
def test_count_and_sum_pypaimon_rust(benchmark: BenchmarkFixture, table: Tables, peer: Peers, when: str) -> None:
    data, rust = table("bigint"), peer("pypaimon-rust")
    sums = (pl.len(), pl.col("amount").sum())
    compare(
        benchmark,
        SECTION,
        f"count and sum, {when}",
        lambda: morrow.open(data.path).scan(columns=["amount"]).lazy().select(sums).collect(),
        baseline=("pypaimon-rust 0.4.0 SQL", lambda: rust.clock(data.warehouse, "sum", "amount")),
        bound=SUM_BOUNDS[when],
        before=PASSES[when],
    )


def test_full_read_pypaimon(benchmark: BenchmarkFixture, table: Tables, peer: Peers) -> None:
    """Compare with a reader that needs half a minute per read, so without warm-up."""
    data, pypaimon = table("bigint"), peer("pypaimon")
    compare(
        benchmark,
        SECTION,
        "full read to Arrow, first",
        lambda: morrow.open(data.path).scan().to_arrow(),
        baseline=("pypaimon 2.1.0", lambda: pypaimon.clock(data.warehouse, "full", "amount")),
        before=morrow.clear_caches,
        rounds=3,
        warmup=False,
    )


@pytest.mark.parametrize("name", ["bigint", "dv10"])
def test_peers_read_the_same_rows(table: Tables, peer: Peers, name: str) -> None:
    """Check that peers return the same rows, so that times are comparable."""
    data = table(name)
    amounts = morrow.open(data.path).scan(columns=["amount"]).to_polars()["amount"]
    answer = peer("pypaimon-rust").read(data.warehouse, "sum", "amount")

    assert answer["rows"] == len(amounts)
    assert answer["sum"] == pytest.approx(amounts.sum())
