"""Compaction of manifests by itself, without a change of rows."""

from __future__ import annotations

from morrow.engine.format.snapshot import COMPACT, Snapshot
from morrow.engine.values import replace
from morrow.writers.commit.attempt import Committer
from morrow.writers.commit.changes import Changes
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.commit.preparing import NothingMerged, SnapshotRequest
from morrow.writers.target import WriteTarget


def compact_manifests(target: WriteTarget) -> Snapshot | None:
    """Merges the small manifests, and those that delete files, of the newest snapshot, in a COMPACT snapshot.

    Returns: the snapshot, None where no manifest is worth merging. No maintenance follows.

    Raises:
        CommitConflict, UnclearOutcome: as `TableCommit.commit`. CorruptFile, FileMissing: a manifest cannot be read.
    """
    committer = Committer(_merging_manifests(target))
    if committer.log.latest() is None:
        return None
    request = SnapshotRequest(COMPACT, BATCH_COMMIT_IDENTIFIER, Changes(), check=False, only_manifests=True)
    try:
        return committer.create(request)
    except NothingMerged:
        return None
    finally:
        committer.log.settle()


def _merging_manifests(target: WriteTarget) -> WriteTarget:
    """Returns the table with thresholds that merge whatever manifests can be merged."""
    return replace(target, write=replace(target.write, manifest_merge_count=1, manifest_full_compaction=1))
