"""Changelogs that outlive their snapshots: ``changelog/changelog-<id>``, copies of snapshot files.

The hints beside them are written as Java does. LATEST is only a hint; changelogs before EARLIEST, when that file
exists, are being removed by expiry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from morrow.engine.errors import FileMissing
from morrow.engine.format.paths import CHANGELOG_PREFIX, EARLIEST, LATEST, numbered
from morrow.engine.format.snapshot import Snapshot, parse_snapshot
from morrow.engine.io.ahead import each
from morrow.engine.plan.listing import read_hint
from morrow.engine.plan.metadata import TableMetadata


def changelog_folder(metadata: TableMetadata) -> str:
    return f"{metadata.paths.branch_root}/changelog"


def changelog_path(metadata: TableMetadata, changelog_id: int) -> str:
    return f"{changelog_folder(metadata)}/{CHANGELOG_PREFIX}{changelog_id}"


def changelog_ids(metadata: TableMetadata) -> list[int]:
    """Returns the ids of all changelogs, ascending."""
    listed = metadata.store.list(changelog_folder(metadata))
    found = (numbered(status.name, CHANGELOG_PREFIX) for status in listed if not status.is_dir)
    return sorted(number for number in found if number is not None)


def living_changelog_ids(metadata: TableMetadata) -> list[int]:
    """Returns the ids of the changelogs from EARLIEST on, ascending: those before it are being removed."""
    ids = changelog_ids(metadata)
    earliest = read_hint(metadata.store, f"{changelog_folder(metadata)}/{EARLIEST}")
    return ids[ids.index(earliest) :] if earliest in ids else ids


def changelog_or_none(metadata: TableMetadata, changelog_id: int) -> Snapshot | None:
    """Returns the changelog with this id, None when there is no such file."""
    path = changelog_path(metadata, changelog_id)
    try:
        return parse_snapshot(metadata.store.read(path), path)
    except FileMissing:
        return None


def each_changelog(metadata: TableMetadata, ids: Sequence[int]) -> Iterator[Snapshot | None]:
    """Yields these changelogs in order, None for one that does not exist."""
    return each(metadata.store, lambda changelog_id: changelog_or_none(metadata, changelog_id), ids)


def write_changelog_hints(metadata: TableMetadata, *, earliest: int | None = None, latest: int | None = None) -> None:
    """Writes the hints that are given; EARLIEST, which Java sets later, also when it does not exist yet."""
    folder = changelog_folder(metadata)
    if latest is not None:
        metadata.store.write(f"{folder}/{LATEST}", str(latest).encode())
    if earliest is None and not metadata.store.exists(f"{folder}/{EARLIEST}"):
        earliest = next(iter(changelog_ids(metadata)), None)
    if earliest is not None:
        metadata.store.write(f"{folder}/{EARLIEST}", str(earliest).encode())


def remove_changelog_hints(metadata: TableMetadata) -> None:
    """Removes both hints, when no changelogs are left."""
    folder = changelog_folder(metadata)
    metadata.store.delete_many([f"{folder}/{EARLIEST}", f"{folder}/{LATEST}"])
