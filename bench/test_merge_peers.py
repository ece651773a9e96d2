"""The other readers of Paimon tables for Python on tables whose merge engine combines versions, in turn with Morrow."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench import tables
from bench.compare import Bound, compare
from bench.conftest import Peers, Tables
from bench.peers import Peer
from bench.test_merge_engines import ENGINES
from bench.test_peers import FORMS, PASSES
from bench.test_read import total

SECTION = "Other readers, merge engines"
FULL_BOUNDS = {"first": Bound(4.8, faster=True), "again": Bound(8, faster=True)}
SUM_BOUNDS = {"first": Bound(6, faster=True), "again": Bound(20, faster=True)}
NOTES = {"sequence_groups": "pypaimon 2.1.0 refuses tables with sequence groups"}

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(
    ("name", "form", "when"),
    [
        ("partial_update", "Arrow", "first"),
        ("partial_update", "Arrow", "again"),
        ("partial_update", "Polars", "first"),
        ("sequence_groups", "Arrow", "first"),
        ("aggregation", "Arrow", "first"),
    ],
)
def test_full_read_folded_pypaimon_rust(
    benchmark: BenchmarkFixture, table: Tables, peer: Peers, name: str, form: str, when: str
) -> None:
    """Compare with a reader that returns Arrow batches. Morrow's native form is Polars."""
    data, rust = table(name), peer("pypaimon-rust")
    compare(
        benchmark,
        SECTION,
        f"{ENGINES[name][0]}: to {form}, {when}",
        lambda: FORMS[form](morrow.open(data.path).scan()),
        baseline=("pypaimon-rust 0.4.0", lambda: rust.clock(data.warehouse, "full", "amount")),
        bound=FULL_BOUNDS[when] if (name, form) == ("partial_update", "Arrow") else None,
        before=PASSES[when],
        rounds=5,
        note=NOTES.get(name, ""),
    )


@pytest.mark.parametrize("when", PASSES)
def test_count_and_sum_folded_pypaimon_rust(benchmark: BenchmarkFixture, table: Tables, peer: Peers, when: str) -> None:
    data, rust = table("partial_update"), peer("pypaimon-rust")
    compare(
        benchmark,
        SECTION,
        f"partial-update: count and sum, {when}",
        lambda: total(data),
        baseline=("pypaimon-rust 0.4.0 SQL", lambda: rust.clock(data.warehouse, "sum", "amount")),
        bound=SUM_BOUNDS[when],
        before=PASSES[when],
        rounds=5,
    )


def test_full_read_folded_pypaimon(benchmark: BenchmarkFixture, table: Tables, peer: Peers) -> None:
    """Compare with a reader that needs half a minute per read, so without warm-up and with one engine only."""
    data, pypaimon = table("partial_update"), peer("pypaimon")
    compare(
        benchmark,
        SECTION,
        "partial-update: to Arrow, first",
        lambda: morrow.open(data.path).scan().to_arrow(),
        baseline=("pypaimon 2.1.0", lambda: pypaimon.clock(data.warehouse, "full", "amount")),
        before=morrow.clear_caches,
        rounds=3,
        warmup=False,
    )


@pytest.mark.parametrize("column", ["amount", "quantity"])
@pytest.mark.parametrize(
    ("reader", "name"),
    [
        *(("pypaimon-rust", name) for name in ENGINES),
        ("pypaimon", "partial_update"),
        ("pypaimon", "aggregation"),
    ],
)
def test_peers_merge_to_the_same_rows(peer: Peers, reader: str, name: str, column: str) -> None:
    """Check that peers return the same rows. Uses the tables of `make bench-quick`, since pypaimon is slow."""
    data = tables.make(name, quick=True)
    values = morrow.open(data.path).scan(columns=[column]).to_polars()[column]
    answer = peer(reader).read(data.warehouse, "sum", column)

    assert answer["rows"] == len(values) == data.live_rows
    assert answer["sum"] == pytest.approx(values.sum())


def test_pypaimon_refuses_sequence_groups() -> None:
    """Check that pypaimon cannot read the table, which is why its row is missing."""
    refusing = Peer("pypaimon")
    with pytest.raises(RuntimeError, match="ended with code 1"):
        refusing.read(tables.make("sequence_groups", quick=True).warehouse, "full", "amount")
    refusing.close()
