"""Rollback: an earlier snapshot becomes the newest, and all later states are removed.

As in Java later snapshots, changelogs and tags are removed, and a tag whose snapshot has expired becomes a snapshot
again. Schemas stay: the newest one is not rolled back, nor are consumers. In addition files that nothing needs any more
are removed (Java leaves them to the orphan files cleaning).
"""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument, SnapshotExpired
from morrow.engine.format.paths import LATEST
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.system_errors import if_there_is_room
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned
from morrow.engine.plan.time_travel import Travel, resolve
from morrow.writers.commit.commit_lock import commit_locked
from morrow.writers.history.rollback.rewinding import rewind, write_hint
from morrow.writers.history.tags.creation import is_alive, same_state, without_lost_changelog
from morrow.writers.history.tombstones import finish_removals


def rollback(metadata: TableMetadata, to: Travel | Snapshot) -> Snapshot:
    """Makes `to`, or the snapshot that it selects, the newest one.

    First it becomes the newest (for the steps see `rewinding`), then files are removed. Another call completes a killed
    run; any maintenance removes its files.

    Returns: the snapshot, which is the newest now.

    Raises:
        InvalidArgument: `to` selects nothing.
        SnapshotNotFound, SnapshotExpired, TagNotFound: it does not exist; nothing was changed.
        StorageError: it was done in part; call again.
    """
    if Owned.SNAPSHOTS in metadata.owner.owns:
        goal = _goal(metadata, to)
        metadata.owner.roll_back(metadata.branch, goal)
        return goal
    finish_removals(metadata)
    with commit_locked(metadata):
        goal = without_lost_changelog(metadata, _goal(metadata, to))
        before = metadata.living_snapshot_ids() if is_alive(metadata, goal) else ()
        stay = [snapshot_id for snapshot_id in before if snapshot_id < goal.id]
        later = [tag.name for tag in metadata.tags() if tag.snapshot.id > goal.id]
        rewind(metadata, goal, stay=stay, tags=later)
        finish_removals(metadata)  # before ids are used again: retired snapshots still follow the existing ones
        if not metadata.store.exists(f"{metadata.paths.snapshot_dir}/{LATEST}"):
            with if_there_is_room():
                write_hint(metadata, LATEST, goal.id)
    return goal


def _goal(metadata: TableMetadata, to: Travel | Snapshot) -> Snapshot:
    """Returns a snapshot that is alive, or kept by a tag: the file of one that is expiring may still exist."""
    goal = to if isinstance(to, Snapshot) else resolve(metadata, to)
    if goal is None or to == Travel():
        raise InvalidArgument("say what to roll back to: a snapshot id, the name of a tag, or a time")
    if not is_alive(metadata, goal) and not any(same_state(tag.snapshot, goal) for tag in metadata.tags()):
        raise SnapshotExpired(
            f"{metadata.where}: snapshot {goal.id} has expired; roll back to a later one, or to a tag"
        )
    return goal
