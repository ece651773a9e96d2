"""Rollback: an earlier snapshot becomes the newest, and all that came after it is removed.

As in Java later snapshots, changelogs and tags go, and a tag whose snapshot has expired becomes a snapshot again.
Schemas stay: the newest one is not rolled back, nor are consumers. In addition the files go that nothing needs any
more (Java leaves them to the cleaning of orphans).
"""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument, SnapshotExpired
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Travel, resolve
from morrow.writers.commit.turns import turn
from morrow.writers.rollback.retired import finish_retired
from morrow.writers.rollback.rewinding import rewind
from morrow.writers.tags.creation import is_alive, same_state, without_lost_changelog


def rollback(metadata: TableMetadata, to: Travel | Snapshot) -> Snapshot:
    """Make the snapshot that `to` asks for, or is, the newest one.

    First it is the newest (`rewinding` says in which steps), then files go. A run that was killed is completed by
    doing it again; its files are removed by any maintenance.

    Returns: the snapshot, which is the newest now.

    Raises:
        InvalidArgument: nothing is asked for.
        SnapshotNotFound, SnapshotExpired, TagNotFound: it is not there; nothing was changed.
        StorageError: it was done in part; call again.
    """
    finish_retired(metadata)
    with turn(metadata):
        goal = without_lost_changelog(metadata, _goal(metadata, to))
        before = metadata.living_snapshot_ids() if is_alive(metadata, goal) else ()
        stay = [snapshot_id for snapshot_id in before if snapshot_id < goal.id]
        later = [tag.name for tag in metadata.tags() if tag.snapshot.id > goal.id]
        rewind(metadata, goal, stay=stay, tags=later)
        finish_retired(metadata)  # before ids come again: what was retired follows upon what is there
    return goal


def _goal(metadata: TableMetadata, to: Travel | Snapshot) -> Snapshot:
    """A snapshot that is alive, or that a tag keeps: the file of one that is expiring may still be there."""
    goal = to if isinstance(to, Snapshot) else resolve(metadata, to)
    if goal is None or to == Travel():
        raise InvalidArgument("say what to roll back to: a snapshot id, the name of a tag, or a time")
    if not is_alive(metadata, goal) and not any(same_state(tag.snapshot, goal) for tag in metadata.tags()):
        raise SnapshotExpired(
            f"{metadata.where}: snapshot {goal.id} has expired; roll back to a later one, or to a tag"
        )
    return goal
