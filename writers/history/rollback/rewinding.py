"""Rewinds a table to another snapshot, and retires later states so that the table is readable at every moment.

    1. retire later tags: none may be left that has no place among the snapshots
    2. delete the hint LATEST: the folder decides what is newest, for Java as well
    3. retire the snapshots that go, the newest first: each time an older state is the newest
    4. write the goal if it does not exist (a tag keeps it, or a branch has it)
    5. set EARLIEST if the table begins elsewhere now
    6. retire a snapshot that was kept because there would have been none at all
    7. retire later changelogs
    8. set the hint LATEST

Between 4 and 6 the newest snapshot is one whose id may be far from that of the goal. A killed run leaves a table at its
old state, at one in between, or at the goal; another call completes it.

Committers of this machine wait meanwhile: the caller holds the `commit_lock`. One of another machine may add a snapshot
after one that has just been retired: it follows no existing snapshot, and is retired too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from morrow.engine.errors import CommitConflict
from morrow.engine.format.paths import CHANGELOG_PREFIX, EARLIEST, LATEST
from morrow.engine.format.snapshot import Snapshot, snapshot_json
from morrow.engine.io.system_errors import if_there_is_room
from morrow.engine.plan.changelogs import changelog_ids
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history.tags.creation import is_alive
from morrow.writers.history.tags.success import remove_success
from morrow.writers.history.tombstones import retire, tombstone_path


def rewind(metadata: TableMetadata, goal: Snapshot, *, stay: Collection[int], tags: Iterable[str]) -> None:
    """Makes `goal` the newest snapshot, under the commit lock.

    Files that only other states need stay until `finish_removals` removes them.

    Args:
        stay: ids of the snapshots that lead to the goal; none when the goal does not exist, since none leads to it.
        tags: names of the tags that go.

    Raises:
        StorageError: it was done in part; call again. CommitConflict: another snapshot took the id of the goal.
    """
    for name in tags:
        remove_success(metadata, name)
        retire(metadata, metadata.paths.tag(name))
    _rewind_snapshots(metadata, goal, stay)
    retire_changelogs(metadata, goal.id + 1)
    with if_there_is_room():  # without the hint, which is deleted, readers list the folder
        write_hint(metadata, LATEST, goal.id)


def _rewind_snapshots(metadata: TableMetadata, goal: Snapshot, stay: Collection[int]) -> None:
    ids, earliest = metadata.snapshot_ids(), metadata.earliest_snapshot_id()
    there = is_alive(metadata, goal)
    only = None if there or stay else earliest
    metadata.store.delete_many([f"{metadata.paths.snapshot_dir}/{LATEST}"])
    _retire(metadata, [i for i in ids if i not in stay and i not in (goal.id, only)])
    if not there:
        _put(metadata, goal, replacing=goal.id in ids)
    begin = min((*stay, goal.id))
    if begin != earliest:
        write_hint(metadata, EARLIEST, begin)
    if only is not None and only != goal.id:
        _retire(metadata, [only])
    while strays := _strays(metadata, goal.id):
        _retire(metadata, strays)


def _retire(metadata: TableMetadata, ids: Iterable[int]) -> None:
    """Retires snapshots, the newest first."""
    for snapshot_id in sorted(ids, reverse=True):
        retire(metadata, metadata.paths.snapshot(snapshot_id))


def _put(metadata: TableMetadata, goal: Snapshot, *, replacing: bool) -> None:
    """Writes the goal where there is no snapshot, or in place of another state with its id, which is retired."""
    path, data = metadata.paths.snapshot(goal.id), snapshot_json(goal)
    if replacing:
        metadata.store.write(tombstone_path(path), metadata.store.read(path))
        metadata.store.write(path, data)
    elif not metadata.store.create(path, data) and metadata.store.read(path) != data:
        raise CommitConflict(f"{metadata.where}: another committed snapshot {goal.id} meanwhile; roll back again")


def _strays(metadata: TableMetadata, newest: int) -> list[int]:
    """Returns the ids of snapshots after `newest` that are not consecutive to it."""
    later = [snapshot_id for snapshot_id in metadata.snapshot_ids() if snapshot_id > newest]
    return [snapshot_id for place, snapshot_id in enumerate(later, newest + 1) if snapshot_id != place]


def retire_changelogs(metadata: TableMetadata, first: int) -> None:
    """Retires the changelogs from an id on, the newest first. If none is left, removes the hints: ids are reused."""
    folder = f"{metadata.paths.branch_root}/changelog"
    ids = changelog_ids(metadata)
    later = [changelog_id for changelog_id in ids if changelog_id >= first]
    if not later:
        return
    hints = [LATEST] if later != ids else [LATEST, EARLIEST]
    metadata.store.delete_many([f"{folder}/{hint}" for hint in hints])
    for changelog_id in reversed(later):
        retire(metadata, f"{folder}/{CHANGELOG_PREFIX}{changelog_id}")


def write_hint(metadata: TableMetadata, name: str, snapshot_id: int) -> None:
    """Writes LATEST or EARLIEST."""
    metadata.store.write(f"{metadata.paths.snapshot_dir}/{name}", str(snapshot_id).encode())
