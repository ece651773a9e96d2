"""Writers whose base goes while they work: somebody compacted its files, and expiry removed them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from morrow.engine.errors import CommitConflict, FileMissing
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata


def is_living(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Whether it is there and not being removed: the file of an expired snapshot goes after those it names."""
    earliest = metadata.earliest_snapshot_id()
    there = metadata.snapshot_or_none(snapshot.id) == snapshot
    return there and earliest is not None and earliest <= snapshot.id


@contextmanager
def compacting(metadata: TableMetadata, base: Snapshot | None) -> Iterator[None]:
    """Within the block the files of `base` are compacted.

    Raises:
        CommitConflict: one of them is missing, since the snapshot has expired.
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
