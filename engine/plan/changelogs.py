"""Changelogs that live longer than their snapshots: ``changelog/changelog-<id>``, copies of snapshot files.

The hints beside them are written as Java does. LATEST is a hint only; before EARLIEST, when it is there, expiry is at
work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from morrow.engine.errors import FileMissing
from morrow.engine.format.snapshot import Snapshot, parse_snapshot
from morrow.engine.plan.metadata import TableMetadata

CHANGELOG_PREFIX = "changelog-"
EARLIEST, LATEST = "EARLIEST", "LATEST"


def changelog_folder(metadata: TableMetadata) -> str:
    return f"{metadata.paths.branch_root}/changelog"


def changelog_path(metadata: TableMetadata, changelog_id: int) -> str:
    return f"{changelog_folder(metadata)}/{CHANGELOG_PREFIX}{changelog_id}"


def changelog_ids(metadata: TableMetadata) -> list[int]:
    """Ids of all changelogs, ascending."""
    listed = metadata.store.list(changelog_folder(metadata))
    names = (s.name.removeprefix(CHANGELOG_PREFIX) for s in listed if s.name.startswith(CHANGELOG_PREFIX))
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def living_changelog_ids(metadata: TableMetadata) -> list[int]:
    """Ids of the changelogs from EARLIEST on, ascending: those before are being removed."""
    ids = changelog_ids(metadata)
    try:
        hint = metadata.store.read(f"{changelog_folder(metadata)}/{EARLIEST}").strip()
    except FileMissing:
        return ids
    earliest = int(hint) if hint.isdigit() else None
    return ids[ids.index(earliest) :] if earliest in ids else ids


def changelog_or_none(metadata: TableMetadata, changelog_id: int) -> Snapshot | None:
    """The changelog with this id, None when there is no such file."""
    path = changelog_path(metadata, changelog_id)
    try:
        return parse_snapshot(metadata.store.read(path), path)
    except FileMissing:
        return None


def each_changelog(metadata: TableMetadata, ids: Sequence[int]) -> Iterator[Snapshot | None]:
    """These changelogs one after another, None for one that is not there."""
    return metadata.each(lambda changelog_id: changelog_or_none(metadata, changelog_id), ids)


def write_changelog_hints(metadata: TableMetadata, *, earliest: int | None = None, latest: int | None = None) -> None:
    """Write those of the hints that are given; EARLIEST, which Java sets later, also when there is none yet."""
    folder = changelog_folder(metadata)
    if latest is not None:
        metadata.store.write(f"{folder}/{LATEST}", str(latest).encode())
    if earliest is None and not metadata.store.exists(f"{folder}/{EARLIEST}"):
        earliest = next(iter(changelog_ids(metadata)), None)
    if earliest is not None:
        metadata.store.write(f"{folder}/{EARLIEST}", str(earliest).encode())


def remove_changelog_hints(metadata: TableMetadata) -> None:
    """Remove both, when there are no changelogs any more."""
    folder = changelog_folder(metadata)
    metadata.store.delete_many([f"{folder}/{EARLIEST}", f"{folder}/{LATEST}"])
