"""Races of processes that commit to one table at the same time: the number of lost acknowledged rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import peers
from bench.compare import Limit, record
from bench.race_worker import ENGINES
from bench.races import COMMITS, PROCESSES, Outcome, race
from tests.support.s3_server import BUCKET, s3_server

SECTION = f"Races: {PROCESSES} processes, {COMMITS} commits each"
STORES = ("local disk", "S3 server on the loopback")


@pytest.mark.peers
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("engine", ENGINES)
def test_race(benchmark: BenchmarkFixture, tmp_path: Path, engine: str, store: str) -> None:
    if engine in peers.PEERS:
        peers.install(engine)
    outcomes: list[Outcome] = []

    def lost() -> float:
        if store == STORES[0]:
            outcomes.append(race(engine, str(tmp_path)))
        else:
            with s3_server() as storage:
                outcomes.append(race(engine, f"s3://{BUCKET}/wh", storage))
        return len(outcomes[-1].lost) + len(outcomes[-1].twice)

    # The bound applies to Morrow only; losses of peers are just shown.
    bound = Limit(0 if engine == "morrow" else None, "rows lost or doubled")
    measured = record(benchmark, SECTION, f"{engine}, {store}", lost, bound=bound, rounds=1)
    found = outcomes[-1]
    wrong = "wrong rows; " if measured.value else ""
    measured.note = (
        f"{wrong}{found.acknowledged} commits acknowledged in {found.seconds:.0f} s, {len(found.snapshots)} snapshots"
    )
    benchmark.extra_info.update(measured.info())


def test_time_of_a_commit(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Measure commits of several warm processes, without fsync, which depends on the disk and not the table."""
    outcomes: list[Outcome] = []

    def seconds() -> float:
        outcomes.append(race("morrow", str(tmp_path / str(len(outcomes))), warm=2, fsync=False))
        assert not outcomes[-1].lost and not outcomes[-1].twice
        return outcomes[-1].seconds / outcomes[-1].acknowledged

    what = "morrow, local disk: a commit, of all processes together, without fsync"
    measured = record(benchmark, SECTION, what, seconds, bound=Limit(10, "ms"), rounds=5)
    measured.note = f"{1 / (measured.value or 1) * 1000:.0f} commits a second"
    benchmark.extra_info.update(measured.info())
