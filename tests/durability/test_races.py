"""Eight processes commit to one table at the same time: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import os
from pathlib import Path

from bench.races import COMMITS, PROCESSES, Outcome, race
from tests.support.s3_server import BUCKET, s3_server

REMOTE_COMMITS = COMMITS if os.environ.get("HYPOTHESIS_PROFILE") == "long" else COMMITS // 3
"""Of each process. The server is the same machine, and all other processes wait while it works."""


def check(outcome: Outcome, commits: int) -> None:
    everything = PROCESSES * commits
    assert outcome.refused == {}
    assert outcome.acknowledged == everything
    assert outcome.snapshots == tuple(range(1, everything + 1))
    assert outcome.lost == frozenset()
    assert outcome.twice == frozenset()


def test_on_a_local_disk(tmp_path: Path) -> None:
    check(race("morrow", str(tmp_path)), COMMITS)


def test_in_an_object_store() -> None:
    # A server that takes one request at a time is served best by losers that wait as long as a commit takes.
    patience = {"commit.min-retry-wait": "200 ms"}
    with s3_server() as storage:
        outcome = race("morrow", f"s3://{BUCKET}/wh", storage, commits=REMOTE_COMMITS, options=patience)
    check(outcome, REMOTE_COMMITS)
