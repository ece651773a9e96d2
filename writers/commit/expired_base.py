"""Checks for a base snapshot that expires while a writer reads it: its files were compacted or replaced by others, then
removed by expiry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from morrow.engine.errors import CommitConflict, FileMissing, SnapshotExpired
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.commit.routes import version_of


def is_living(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Returns whether the snapshot exists and is not expiring: its file is removed after the files that it names."""
    return is_living_version(metadata, snapshot.id, version_of(snapshot))


def is_living_version(metadata: TableMetadata, snapshot_id: int, version: str) -> bool:
    """Returns `is_living` of the snapshot with this id and version (`routes.version_of`)."""
    earliest = metadata.earliest_snapshot_id()
    there = metadata.snapshot_or_none(snapshot_id)
    return there is not None and version_of(there) == version and earliest is not None and earliest <= snapshot_id


@contextmanager
def compacting(metadata: TableMetadata, base: Snapshot | None) -> Iterator[None]:
    """Turns a file missing from `base` into a conflict, for a block that compacts the files of `base`.

    Raises:
        CommitConflict: a file is missing because the snapshot has expired.
    """
    with _held(metadata, base, "compacted: others have compacted its files; nothing was changed, compact again"):
        yield


@contextmanager
def reading(metadata: TableMetadata, base: Snapshot | None) -> Iterator[None]:
    """Turns a file missing from `base` into a conflict, for a block that reads rows of `base` and commits nothing.

    A block that commits as well might have committed before the error, and must not be repeated.

    Raises:
        CommitConflict: a file is missing because the snapshot has expired.
    """
    with _held(metadata, base, "read: others have changed the table; nothing was changed, do it again"):
        yield


@contextmanager
def _held(metadata: TableMetadata, base: Snapshot | None, what: str) -> Iterator[None]:
    try:
        yield
    except (FileMissing, SnapshotExpired) as error:
        if base is None or is_living(metadata, base):
            raise
        raise CommitConflict(f"{metadata.where}: snapshot {base.id} expired while it was {what}") from error
