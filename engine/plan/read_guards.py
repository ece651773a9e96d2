"""Guards of running reads against files that are removed meanwhile.

Expiry, the deletion of a tag and a rollback first make a snapshot invisible (by the hint EARLIEST, or by renaming its
file) and then remove files. So a missing file is not damage if nothing keeps the plan's snapshot any longer; the error
becomes `SnapshotExpired`. If the snapshot is still kept, the table is damaged, and `FileMissing` stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from morrow.engine.errors import FileMissing, MorrowError, SnapshotExpired
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.store import FileStore
from morrow.engine.plan.changelogs import list_living_changelog_ids
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.polars_threads import check_process

KEEP_ROWS = "plan the read anew; a tag made beforehand (Table.tags.create) keeps the files of a long read"
KEEP_CHANGES = "read the table as a whole, then changes from there; a consumer_id keeps those not read yet"


@contextmanager
def guard_read(plan: ScanPlan, store: FileStore) -> Iterator[None]:
    """Guard code that reads the files of `plan` and of its fallback.

    Raises:
        SnapshotExpired: a file is missing, and no snapshot or tag keeps the plan's files.
        Unsupported: the process was forked from one that has run queries.
    """
    check_process()
    try:
        yield
    except FileMissing as error:
        for part in plan.parts:
            if part.snapshot is None or not part.root:  # a writer's plan of individual files
                continue
            metadata = TableMetadata(store, part.root, part.branch)
            _check_held(metadata, part.snapshot, error, of_changes=part.of_changes)
        raise


@contextmanager
def guard_planning(metadata: TableMetadata, snapshot: Snapshot | None, *, of_changes: bool = False) -> Iterator[None]:
    """Guard code that reads the manifests of `snapshot`. Raises as `guard_read`."""
    check_process()
    try:
        yield
    except FileMissing as error:
        if snapshot is not None:
            _check_held(metadata, snapshot, error, of_changes=of_changes)
        raise


def _check_held(metadata: TableMetadata, snapshot: Snapshot, missing: FileMissing, *, of_changes: bool) -> None:
    try:
        held = _is_living(metadata, snapshot) or (
            _has_changelog(metadata, snapshot) if of_changes else _has_tag(metadata, snapshot)
        )
    except MorrowError:  # a failed look-up must not hide the missing file
        return
    if not held:
        what, hint = ("its changes were", KEEP_CHANGES) if of_changes else ("it was", KEEP_ROWS)
        raise SnapshotExpired(
            f"{metadata.where}: snapshot {snapshot.id} was removed while {what} read ({missing.path} is gone); {hint}"
        ) from missing


def _is_living(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    found = metadata.snapshot_or_none(snapshot.id)
    if found is None or not is_same_commit(found, snapshot):
        return False
    earliest = metadata.earliest_snapshot_id()
    return earliest is not None and earliest <= snapshot.id


def _has_tag(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return whether a tag keeps the snapshot: tags keep its rows, but not its changelog."""
    return any(is_same_commit(tag.snapshot, snapshot) for tag in metadata.tags())


def _has_changelog(metadata: TableMetadata, snapshot: Snapshot) -> bool:
    """Return whether a changelog keeps the snapshot's changes. It may outlive the snapshot without keeping its rows."""
    found = metadata.changelog_or_none(snapshot.id)
    return found is not None and is_same_commit(found, snapshot) and snapshot.id in list_living_changelog_ids(metadata)


def is_same_commit(one: Snapshot, other: Snapshot) -> bool:
    """Return whether both snapshots are of one commit: after a rollback, another commit may have the same id.

    Catalogs that keep snapshots may add members to them, or change their time.
    """
    return one.id == other.id and one.delta_manifest_list == other.delta_manifest_list
