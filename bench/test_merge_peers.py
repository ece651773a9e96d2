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
from bench.test_peers import FORMS

SECTION = "Other readers, merge engines"
BOUNDS = {"partial_update": Bound(4, faster=True)}
NOTES = {"sequence_groups": "pypaimon 2.1.0 refuses tables with sequence groups"}

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(
    ("name", "form"),
    [("partial_update", "Arrow"), ("partial_update", "Polars"), ("sequence_groups", "Arrow"), ("aggregation", "Arrow")],
)
def test_full_read_folded_pypaimon_rust(
    benchmark: BenchmarkFixture, table: Tables, peer: Peers, name: str, form: str
) -> None:
    """Compares with a reader that returns Arrow batches; Morrow's own form is Polars."""
    data, rust = table(name), peer("pypaimon-rust")
    compare(
        benchmark,
        SECTION,
        f"{ENGINES[name][0]}: to {form}, first",
        lambda: FORMS[form](morrow.open(data.path).scan()),
        baseline=("pypaimon-rust 0.4.0", lambda: rust.clock(data.warehouse, "full", "amount")),
        bound=BOUNDS.get(name),
        before=morrow.clear_caches,
        rounds=5,
        note=NOTES.get(name, ""),
    )


def test_full_read_folded_pypaimon(benchmark: BenchmarkFixture, table: Tables, peer: Peers) -> None:
    """Compares with a reader that needs half a minute per read: no turn to warm up, and only one of the engines."""
    data, pypaimon = table("partial_update"), peer("pypaimon")
    compare(
        benchmark,
        SECTION,
        "partial-update: to Arrow, first",
        lambda: morrow.open(data.path).scan().to_arrow(),
        baseline=("pypaimon 2.1.0", lambda: pypaimon.clock(data.warehouse, "full", "amount")),
        bound=Bound(80, faster=True),
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
    """Checks that peers return the same rows. The tables are those of `make bench-quick`: pypaimon takes its time."""
    data = tables.make(name, quick=True)
    values = morrow.open(data.path).scan(columns=[column]).to_polars()[column]
    answer = peer(reader).read(data.warehouse, "sum", column)

    assert answer["rows"] == len(values) == data.live_rows
    assert answer["sum"] == pytest.approx(values.sum())


def test_pypaimon_refuses_sequence_groups() -> None:
    """Checks that the peer cannot read the table, which is why it has no row here."""
    refusing = Peer("pypaimon")
    with pytest.raises(RuntimeError, match="ended with code 1"):
        refusing.read(tables.make("sequence_groups", quick=True).warehouse, "full", "amount")
    refusing.close()
