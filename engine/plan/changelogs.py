"""Changelogs that outlive their snapshots, and the ranges of snapshots whose changes are read.

``changelog/changelog-<id>`` is a copy of the file of an expired snapshot. The hints in the folder are written as
Java does. LATEST is only a hint. If EARLIEST exists, the changelogs before it are being removed by expiry.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from morrow.engine.errors import FileMissing, InvalidArgument, SnapshotNotFound
from morrow.engine.format.paths import CHANGELOG_PREFIX, EARLIEST, LATEST, parse_numbered
from morrow.engine.format.snapshot import Snapshot, parse_snapshot
from morrow.engine.io.store import read_each
from morrow.engine.plan.metadata import TableMetadata, read_hint
from morrow.engine.plan.time_travel import find_last_until


def build_changelog_folder(metadata: TableMetadata) -> str:
    return f"{metadata.paths.branch_root}/changelog"


def build_changelog_path(metadata: TableMetadata, changelog_id: int) -> str:
    return f"{build_changelog_folder(metadata)}/{CHANGELOG_PREFIX}{changelog_id}"


def list_changelog_ids(metadata: TableMetadata) -> list[int]:
    """Return the ids of all changelogs, ascending."""
    listed = metadata.store.list(build_changelog_folder(metadata))
    found = (parse_numbered(status.name, CHANGELOG_PREFIX) for status in listed if not status.is_dir)
    return sorted(number for number in found if number is not None)


def list_living_changelog_ids(metadata: TableMetadata) -> list[int]:
    """Return the ids of the changelogs from EARLIEST on, ascending; expiry is removing older ones."""
    ids = list_changelog_ids(metadata)
    earliest = read_hint(metadata.store, f"{build_changelog_folder(metadata)}/{EARLIEST}")
    return ids[ids.index(earliest) :] if earliest in ids else ids


def read_changelog_or_none(metadata: TableMetadata, changelog_id: int) -> Snapshot | None:
    """Return the changelog with this id, or None if its file does not exist."""
    path = build_changelog_path(metadata, changelog_id)
    try:
        return parse_snapshot(metadata.store.read(path), path)
    except FileMissing:
        return None


def read_changelogs(metadata: TableMetadata, ids: Sequence[int]) -> Iterator[Snapshot | None]:
    """Yield these changelogs in order, None for each that does not exist."""
    return read_each(metadata.store, lambda changelog_id: read_changelog_or_none(metadata, changelog_id), ids)


def write_changelog_hints(metadata: TableMetadata, *, earliest: int | None = None, latest: int | None = None) -> None:
    """Write the given hints. EARLIEST, which Java sets later, is also written if it does not exist yet."""
    folder = build_changelog_folder(metadata)
    if latest is not None:
        metadata.store.write(f"{folder}/{LATEST}", str(latest).encode())
    if earliest is None and not metadata.store.exists(f"{folder}/{EARLIEST}"):
        earliest = next(iter(list_changelog_ids(metadata)), None)
    if earliest is not None:
        metadata.store.write(f"{folder}/{EARLIEST}", str(earliest).encode())


def remove_changelog_hints(metadata: TableMetadata) -> None:
    """Remove both hints after the last changelog is gone."""
    folder = build_changelog_folder(metadata)
    metadata.store.delete_many([f"{folder}/{EARLIEST}", f"{folder}/{LATEST}"])


def find_snapshot_or_changelog(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """Return the snapshot, or its changelog if the snapshot has expired.

    Raises `SnapshotExpired`, `SnapshotNotFound`: neither exists.
    """
    try:
        return metadata.snapshot(snapshot_id)
    except SnapshotNotFound:
        found = metadata.changelog_or_none(snapshot_id)
        if found is None:
            raise
        return found


def list_leading_changelog_ids(metadata: TableMetadata) -> list[int]:
    """Return the ids of the changelogs that lead up to the oldest snapshot without a gap, ascending."""
    earliest = metadata.earliest_snapshot_id()
    if earliest is None:
        return []
    there, first = set(list_living_changelog_ids(metadata)), earliest
    while first - 1 in there:
        first -= 1
    return list(range(first, earliest))


def find_oldest_change(metadata: TableMetadata, *, changelogs: bool) -> int | None:
    """Return the id of the oldest snapshot whose changes remain; with `changelogs`, of the oldest changelog.

    None if the table has none.
    """
    kept = list_leading_changelog_ids(metadata) if changelogs else []
    return kept[0] if kept else metadata.earliest_snapshot_id()


def find_id_at(metadata: TableMetadata, millis: int, *, changelogs: bool = False) -> int | None:
    """Return the id of the newest snapshot committed at or before a time (epoch milliseconds); None if all are younger.

    `changelogs`: include snapshots that have become changelogs.
    """
    found = find_last_until(metadata, millis)
    if found is not None or not changelogs:
        return None if found is None else found.id
    kept = list_leading_changelog_ids(metadata)
    place = bisect_right(
        kept, millis, key=lambda changelog_id: find_snapshot_or_changelog(metadata, changelog_id).time_millis
    )
    return kept[place - 1] if place else None


def list_snapshots_between(metadata: TableMetadata, start: int, end: int, *, changelogs: bool = True) -> list[Snapshot]:
    """Return the snapshots after `start`, up to and including `end`.

    `changelogs`: include snapshots that have become changelogs.

    Raises:
        InvalidArgument: `end` is before `start`.
        SnapshotExpired, SnapshotNotFound: one of them does not exist.
    """
    check_snapshot_order(metadata, start, end)
    find = find_snapshot_or_changelog if changelogs else TableMetadata.snapshot
    return [find(metadata, snapshot_id) for snapshot_id in range(start + 1, end + 1)]


def check_snapshot_order(metadata: TableMetadata, start: int, end: int) -> None:
    if end < start:
        raise InvalidArgument(
            f"{metadata.where}: changes go from an older snapshot to a newer one, not {start} to {end}"
        )
