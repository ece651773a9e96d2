"""From which snapshot to which changes are read.

Snapshots that expired may live on as changelogs, ``changelog/changelog-<id>``, whose content is that of a snapshot.
"""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument, SnapshotNotFound
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.snapshot_search import last_until


def snapshot_or_changelog(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """The snapshot, or the changelog that is kept of it when it expired.

    Raises:
        SnapshotExpired, SnapshotNotFound: there is neither.
    """
    try:
        return metadata.snapshot(snapshot_id)
    except SnapshotNotFound:
        found = metadata.changelog_or_none(snapshot_id)
        if found is None:
            raise
        return found


def id_at(metadata: TableMetadata, millis: int) -> int | None:
    """The newest snapshot that was committed at or before a time (epoch milliseconds); None when all are younger."""
    found = last_until(metadata, millis)
    return None if found is None else found.id


def snapshots_between(metadata: TableMetadata, start: int, end: int) -> list[Snapshot]:
    """The snapshots after `start`, up to `end` included.

    Raises:
        InvalidArgument: `end` is before `start`.
        SnapshotExpired, SnapshotNotFound: one of them is not there.
    """
    check_order(metadata, start, end)
    return [snapshot_or_changelog(metadata, snapshot_id) for snapshot_id in range(start + 1, end + 1)]


def check_order(metadata: TableMetadata, start: int, end: int) -> None:
    if end < start:
        raise InvalidArgument(
            f"{metadata.where}: changes go from an older snapshot to a newer one, not {start} to {end}"
        )
