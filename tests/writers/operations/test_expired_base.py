"""A compaction whose files others compact and expire meanwhile."""

from __future__ import annotations

import pytest

import morrow
from morrow.engine.errors import CommitConflict, FileMissing
from morrow.writers.operations import expired_base


def test_files_that_went_because_their_snapshot_expired_are_a_conflict(keyed: morrow.Table) -> None:
    base = keyed._metadata.latest_snapshot()
    keyed.upsert([{"id": 1, "p": "x", "n": 11, "v": "a"}])
    keyed.compact(full=True)
    keyed.expire_snapshots(retain_max=1, retain_min=1)

    with (
        pytest.raises(CommitConflict, match="expired while it was compacted"),
        expired_base.compacting(keyed._metadata, base),
    ):
        raise FileMissing("data-1.parquet")


def test_files_of_a_living_snapshot_are_missing(keyed: morrow.Table) -> None:
    """That is a damaged table, which no second attempt would mend."""
    with pytest.raises(FileMissing), expired_base.compacting(keyed._metadata, keyed._metadata.latest_snapshot()):
        raise FileMissing("data-1.parquet")
