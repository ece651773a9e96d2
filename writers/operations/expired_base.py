"""Checks for a base snapshot that expires while a writer reads it: its files were compacted, then removed by expiry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from morrow.engine.errors import CommitConflict, FileMissing
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata


def is_living(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Returns whether the snapshot exists and is not expiring: its file is removed after the files that it names."""
    earliest = metadata.earliest_snapshot_id()
    there = metadata.snapshot_or_none(snapshot.id) == snapshot
    return there and earliest is not None and earliest <= snapshot.id


@contextmanager
def compacting(metadata: TableMetadata, base: Snapshot | None) -> Iterator[None]:
    """Turns a file missing from `base` into a conflict, for a block that compacts the files of `base`.

    Raises:
        CommitConflict: a file is missing because the snapshot has expired.
    """
    try:
        yield
    except FileMissing as error:
        if base is None or is_living(metadata, base):
            raise
        raise CommitConflict(
            f"{metadata.where}: snapshot {base.id} expired while it was compacted: others have compacted its files; "
            "nothing was changed, compact again"
        ) from error
