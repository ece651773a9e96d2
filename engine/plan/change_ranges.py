"""The ranges of snapshots whose changes are read.

Expired snapshots may live on as changelogs, ``changelog/changelog-<id>``, whose content is that of a snapshot.
"""

from __future__ import annotations

from bisect import bisect_right

from morrow.engine.errors import InvalidArgument, SnapshotNotFound
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.changelogs import living_changelog_ids
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.snapshot_search import last_until


def snapshot_or_changelog(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Returns the snapshot, or the changelog kept of it after it expired.

    Raises:
        SnapshotExpired, SnapshotNotFound: neither exists.
    """
    try:
        return metadata.snapshot(snapshot_id)
    except SnapshotNotFound:
        found = metadata.changelog_or_none(snapshot_id)
        if found is None:
            raise
        return found


def kept_changelog_ids(metadata: TableMetadata) -> list[int]:
    """Returns the ids of the changelogs that lead up to the oldest snapshot without a gap, ascending."""
    earliest = metadata.earliest_snapshot_id()
    if earliest is None:
        return []
    there, first = set(living_changelog_ids(metadata)), earliest
    while first - 1 in there:
        first -= 1
    return list(range(first, earliest))


def oldest_change(metadata: TableMetadata, *, changelogs: bool) -> int | None:
    """Returns the id of the oldest snapshot, with `changelogs` of the oldest changelog, whose changes remain.

    None when the table has none.
    """
    kept = kept_changelog_ids(metadata) if changelogs else []
    return kept[0] if kept else metadata.earliest_snapshot_id()


def id_at(metadata: TableMetadata, millis: int, *, changelogs: bool = False) -> int | None:
    """Returns the newest snapshot committed at or before a time (epoch milliseconds), by id; None when all are younger.

    Args:
        changelogs: include snapshots that have become changelogs.
    """
    found = last_until(metadata, millis)
    if found is not None or not changelogs:
        return None if found is None else found.id
    kept = kept_changelog_ids(metadata)
    place = bisect_right(
        kept, millis, key=lambda changelog_id: snapshot_or_changelog(metadata, changelog_id).time_millis
    )
    return kept[place - 1] if place else None


def snapshots_between(metadata: TableMetadata, start: int, end: int, *, changelogs: bool = True) -> list[Snapshot]:
    """Returns the snapshots after `start`, up to and including `end`.

    Args:
        changelogs: include snapshots that have become changelogs.

    Raises:
        InvalidArgument: `end` is before `start`.
        SnapshotExpired, SnapshotNotFound: one of them does not exist.
    """
    check_order(metadata, start, end)
    find = snapshot_or_changelog if changelogs else TableMetadata.snapshot
    return [find(metadata, snapshot_id) for snapshot_id in range(start + 1, end + 1)]


def check_order(metadata: TableMetadata, start: int, end: int) -> None:
    if end < start:
        raise InvalidArgument(
            f"{metadata.where}: changes go from an older snapshot to a newer one, not {start} to {end}"
        )
