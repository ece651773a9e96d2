"""Rollback: an earlier snapshot becomes the newest, and all later snapshots are removed.

As in Java, later snapshots, changelogs and tags are removed, and a tag whose snapshot has expired becomes a snapshot
again. Schemas and consumers are not rolled back. In addition, files that are no longer needed are removed (Java leaves
them to the orphan files cleaning). Later snapshots are retired so that the table is readable at every moment:

    1. retire later tags, so that no tag is left without a place among the snapshots
    2. delete the hint LATEST: then readers, Java's included, list the folder for the newest snapshot
    3. retire the later snapshots, the newest first: each time an older snapshot becomes the newest
    4. write the goal if it does not exist (a tag keeps it, or a branch has it)
    5. set EARLIEST if the table begins elsewhere now
    6. retire the snapshot that was kept so that the table always has one
    7. retire later changelogs
    8. set the hint LATEST

Between 4 and 6 the id of the newest snapshot may be far from the goal's. A killed run leaves a table at its old
snapshot, at one in between, or at the goal; another call completes the rollback. Committers of this machine wait
meanwhile, since the caller holds the `commit_lock`. A committer on another machine may add a snapshot after one that
has just been retired. Such a snapshot does not follow an existing one, and is retired too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from morrow.engine.errors import CommitConflict, InvalidArgument, SnapshotExpired
from morrow.engine.format.paths import CHANGELOG_PREFIX, EARLIEST, LATEST
from morrow.engine.format.snapshot import Snapshot, format_snapshot
from morrow.engine.io.store import ignore_full_disk
from morrow.engine.plan.changelogs import list_changelog_ids
from morrow.engine.plan.manifests import is_living, is_same_commit
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.time_travel import Travel, resolve_travel
from morrow.writers.commit.commit_lock import hold_commit_lock
from morrow.writers.history.iceberg_metadata import publish_quietly
from morrow.writers.history.load_history import Record
from morrow.writers.history.tags import drop_lost_changelog, remove_success
from morrow.writers.history.tombstones import finish_removals, make_tombstone_path, retire_file


def rollback_table(metadata: TableMetadata, to: Travel | Snapshot) -> Snapshot:
    """Make `to`, or the snapshot that it selects, the newest one.

    First the snapshot becomes the newest (for the steps see `rewind_table`), then files are removed. Another call
    completes a killed run; any maintenance removes its files.

    Returns: the snapshot, which is the newest now.

    Raises:
        InvalidArgument: `to` selects nothing.
        SnapshotNotFound, SnapshotExpired, TagNotFound: `to` does not exist; nothing was changed.
        StorageError: it was done in part; call again.
    """
    if Owned.SNAPSHOTS in metadata.owner.owns:
        goal = _find_goal(metadata, to)
        Record.forget(metadata, goal.id)
        metadata.owner.roll_back(metadata.branch, goal)
        publish_quietly(metadata)
        return goal
    finish_removals(metadata)
    with hold_commit_lock(metadata):
        goal = drop_lost_changelog(metadata, _find_goal(metadata, to))
        before = metadata.living_snapshot_ids() if is_living(metadata, goal) else ()
        stay = [snapshot_id for snapshot_id in before if snapshot_id < goal.id]
        later = [tag.name for tag in metadata.tags() if tag.snapshot.id > goal.id]
        rewind_table(metadata, goal, stay=stay, tags=later)
        finish_removals(metadata)  # before ids are used again: retired snapshots still follow the existing ones
        if not metadata.store.exists(f"{metadata.paths.snapshot_dir}/{LATEST}"):
            with ignore_full_disk():
                write_hint(metadata, LATEST, goal.id)
    publish_quietly(metadata)
    return goal


def _find_goal(metadata: TableMetadata, to: Travel | Snapshot) -> Snapshot:
    """Return the selected snapshot if it is alive or kept by a tag (an expiring snapshot's file may still exist)."""
    goal = to if isinstance(to, Snapshot) else resolve_travel(metadata, to)
    if goal is None or to == Travel():
        raise InvalidArgument("say what to roll back to: a snapshot id, the name of a tag, or a time")
    if not is_living(metadata, goal) and not any(is_same_commit(tag.snapshot, goal) for tag in metadata.tags()):
        raise SnapshotExpired(
            f"{metadata.where}: snapshot {goal.id} has expired; roll back to a later one, or to a tag"
        )
    return goal


def rewind_table(metadata: TableMetadata, goal: Snapshot, *, stay: Collection[int], tags: Iterable[str]) -> None:
    """Make `goal` the newest snapshot, under the commit lock.

    Files that only other snapshots need stay until `finish_removals` removes them.

    Args:
        stay: ids of the snapshots that precede the goal; empty if the goal does not exist.
        tags: names of the tags to remove.

    Raises `StorageError`: it was done in part; call again. `CommitConflict`: another snapshot took the id of the goal.
    """
    Record.forget(metadata, goal.id)
    for name in tags:
        remove_success(metadata, name)
        retire_file(metadata, metadata.paths.tag(name))
    _rewind_snapshots(metadata, goal, stay)
    retire_changelogs(metadata, goal.id + 1)
    with ignore_full_disk():  # readers list the folder if the hint is missing
        write_hint(metadata, LATEST, goal.id)


def _rewind_snapshots(metadata: TableMetadata, goal: Snapshot, stay: Collection[int]) -> None:
    ids, earliest = metadata.snapshot_ids(), metadata.earliest_snapshot_id()
    there = is_living(metadata, goal)
    only = None if there or stay else earliest
    metadata.store.delete_many([f"{metadata.paths.snapshot_dir}/{LATEST}"])
    _retire_snapshots(metadata, [i for i in ids if i not in stay and i not in (goal.id, only)])
    if not there:
        _put(metadata, goal, replacing=goal.id in ids)
    begin = min((*stay, goal.id))
    if begin != earliest:
        write_hint(metadata, EARLIEST, begin)
    if only is not None and only != goal.id:
        _retire_snapshots(metadata, [only])
    while strays := _find_strays(metadata, goal.id):
        _retire_snapshots(metadata, strays)


def _retire_snapshots(metadata: TableMetadata, ids: Iterable[int]) -> None:
    """Retire snapshots, the newest first."""
    for snapshot_id in sorted(ids, reverse=True):
        retire_file(metadata, metadata.paths.snapshot(snapshot_id))


def _put(metadata: TableMetadata, goal: Snapshot, *, replacing: bool) -> None:
    """Write the goal; if another snapshot has its id, retire that one first."""
    path, data = metadata.paths.snapshot(goal.id), format_snapshot(goal)
    if replacing:
        metadata.store.write(make_tombstone_path(path), metadata.store.read(path))
        metadata.store.write(path, data)
    elif not metadata.store.create(path, data) and metadata.store.read(path) != data:
        raise CommitConflict(f"{metadata.where}: another committed snapshot {goal.id} meanwhile; roll back again")


def _find_strays(metadata: TableMetadata, newest: int) -> list[int]:
    """Return the ids of snapshots after `newest` that are not consecutive to it."""
    later = [snapshot_id for snapshot_id in metadata.snapshot_ids() if snapshot_id > newest]
    return [snapshot_id for place, snapshot_id in enumerate(later, newest + 1) if snapshot_id != place]


def retire_changelogs(metadata: TableMetadata, first: int) -> None:
    """Retire the changelogs from an id on, the newest first. If none is left, remove the hints: ids are reused."""
    folder = f"{metadata.paths.branch_root}/changelog"
    ids = list_changelog_ids(metadata)
    later = [changelog_id for changelog_id in ids if changelog_id >= first]
    if not later:
        return
    hints = [LATEST] if later != ids else [LATEST, EARLIEST]
    metadata.store.delete_many([f"{folder}/{hint}" for hint in hints])
    for changelog_id in reversed(later):
        retire_file(metadata, f"{folder}/{CHANGELOG_PREFIX}{changelog_id}")


def write_hint(metadata: TableMetadata, name: str, snapshot_id: int) -> None:
    """Write LATEST or EARLIEST."""
    metadata.store.write(f"{metadata.paths.snapshot_dir}/{name}", str(snapshot_id).encode())
