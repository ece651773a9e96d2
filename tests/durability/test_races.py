"""Concurrent commits of several processes: acknowledged rows are neither lost nor duplicated.

The processes compete from the first commit to the last: three in `make test`, eight with 200 commits in
`make test-long`.
"""

from __future__ import annotations

import os
from pathlib import Path

from bench.races import PROCESSES, Outcome, race
from tests.support.s3_server import BUCKET, s3_server

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
RACERS = PROCESSES if LONG else 3
EACH = 200 if LONG else 6
"""Commits per process."""


def check(outcome: Outcome, commits: int) -> None:
    everything = RACERS * commits
    assert outcome.refused == {}
    assert outcome.acknowledged == everything
    assert outcome.snapshots == tuple(range(1, everything + 1))
    assert outcome.lost == frozenset()
    assert outcome.twice == frozenset()


def test_on_a_local_disk(tmp_path: Path) -> None:
    check(race("morrow", str(tmp_path), processes=RACERS, commits=EACH), EACH)


def test_in_an_object_store() -> None:
    with s3_server() as storage:
        outcome = race("morrow", f"s3://{BUCKET}/wh", storage, processes=RACERS, commits=EACH)
    check(outcome, EACH)
