"""deltalake on a Delta table of the same files with the same deletion vectors, in turn with Morrow."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import compare
from bench.conftest import Peers, Tables
from bench.tables import DELTA
from bench.test_read import DELETED, PASSES, total

SECTION = "Other formats: the same files and deletion vectors as a Delta table"
NAME = "deltalake 1.6.6"

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", DELETED)
def test_full_read(benchmark: BenchmarkFixture, table: Tables, peer: Peers, name: str, when: str) -> None:
    data, other = table(name), peer("deltalake")
    compare(
        benchmark,
        SECTION,
        f"{DELETED[name]}: full read to Arrow, {when}",
        lambda: morrow.open(data.path).scan().to_arrow(),
        baseline=(NAME, lambda: other.clock(data.beside(DELTA), "full", "amount")),
        before=PASSES[when],
    )


@pytest.mark.parametrize("when", PASSES)
@pytest.mark.parametrize("name", DELETED)
def test_count_and_sum(benchmark: BenchmarkFixture, table: Tables, peer: Peers, name: str, when: str) -> None:
    data, other = table(name), peer("deltalake")
    compare(
        benchmark,
        SECTION,
        f"{DELETED[name]}: count and sum, {when}",
        lambda: total(data),
        baseline=(NAME, lambda: other.clock(data.beside(DELTA), "sum", "amount")),
        before=PASSES[when],
    )


@pytest.mark.parametrize("name", DELETED)
def test_same_rows(table: Tables, peer: Peers, name: str) -> None:
    """Check that both read the same rows, so that times are comparable."""
    data = table(name)
    rows, amount = total(data).row(0)
    answer = peer("deltalake").read(data.beside(DELTA), "sum", "amount")

    assert (answer["rows"], answer["sum"]) == (rows, pytest.approx(amount))
