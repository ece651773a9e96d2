"""Eight processes commit to one table at the same time: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

from pathlib import Path

from bench.races import COMMITS, PROCESSES, Outcome, race
from tests.support.s3_server import BUCKET, s3_server

EVERYTHING = PROCESSES * COMMITS


def check(outcome: Outcome) -> None:
    assert outcome.refused == {}
    assert outcome.acknowledged == EVERYTHING
    assert outcome.snapshots == tuple(range(1, EVERYTHING + 1))
    assert outcome.lost == frozenset()
    assert outcome.twice == frozenset()


def test_on_a_local_disk(tmp_path: Path) -> None:
    check(race("morrow", str(tmp_path)))


def test_in_an_object_store() -> None:
    # A server that takes one request at a time is served best by losers that wait as long as a commit takes.
    patience = {"commit.min-retry-wait": "200 ms"}
    with s3_server() as storage:
        outcome = race("morrow", f"s3://{BUCKET}/wh", storage, options=patience)
    check(outcome)
