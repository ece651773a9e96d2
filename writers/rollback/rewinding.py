"""Another snapshot made the newest one: what came after it is given up, so that at each moment there is a table.

    1. later tags are retired: none may be left that has no place among the snapshots
    2. the hint LATEST is deleted: the folder decides what is newest, for Java as well
    3. snapshots that go are retired, the newest first: each time an older state is the newest
    4. the goal is put into its place if it is not there (a tag keeps it, or a branch has it)
    5. EARLIEST is set if the table begins elsewhere now
    6. a snapshot that was kept because there would have been none at all is retired now
    7. later changelogs are retired
    8. the hint LATEST is set

Between 4 and 6 the newest snapshot is one whose id may be far from that of the goal. Who is killed anywhere leaves a
table at its old state, at one in between, or at the goal; doing it again completes it.

Committers of this machine wait meanwhile: the caller has the `turn`. One of another machine may add a snapshot to one
that has just been retired: it follows no snapshot that is there, and is retired too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from morrow.engine.errors import CommitConflict
from morrow.engine.format.snapshot import Snapshot, snapshot_json
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.rollback.retired import retire, retired_path
from morrow.writers.tags.creation import is_alive
from morrow.writers.tags.success import remove_success

LATEST = "LATEST"
EARLIEST = "EARLIEST"
CHANGELOG_PREFIX = "changelog-"


def rewind(metadata: TableMetadata, goal: Snapshot, *, stay: Collection[int], tags: Iterable[str]) -> None:
    """Make `goal` the newest snapshot, in one's turn. What only others need is there until `finish_retired` removes it.

    Args:
        stay: ids of the snapshots that lead to the goal; none when the goal is not there, since nothing leads to it.
        tags: names of the tags that go.

    Raises:
        StorageError: it was done in part; call again. CommitConflict: another took the place of the goal.
    """
    for name in tags:
        remove_success(metadata, name)
        retire(metadata, metadata.paths.tag(name))
    _rewind_snapshots(metadata, goal, stay)
    retire_changelogs(metadata, goal.id + 1)
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
    """Retire snapshots, the newest first."""
    for snapshot_id in sorted(ids, reverse=True):
        retire(metadata, metadata.paths.snapshot(snapshot_id))


def _put(metadata: TableMetadata, goal: Snapshot, *, replacing: bool) -> None:
    """Put the goal where there is no snapshot, or in place of another state with its id, which is retired."""
    path, data = metadata.paths.snapshot(goal.id), snapshot_json(goal)
    if replacing:
        metadata.store.write(retired_path(path), metadata.store.read(path))
        metadata.store.write(path, data)
    elif not metadata.store.create(path, data) and metadata.store.read(path) != data:
        raise CommitConflict(f"{metadata.where}: another committed snapshot {goal.id} meanwhile; roll back again")


def _strays(metadata: TableMetadata, newest: int) -> list[int]:
    """Snapshots after `newest` that do not follow one upon the other."""
    later = [snapshot_id for snapshot_id in metadata.snapshot_ids() if snapshot_id > newest]
    return [snapshot_id for place, snapshot_id in enumerate(later, newest + 1) if snapshot_id != place]


def retire_changelogs(metadata: TableMetadata, first: int) -> None:
    """Retire the changelogs from an id on, the newest first. Without any the hints go too: ids will come again."""
    folder = f"{metadata.paths.branch_root}/changelog"
    names = (s.name.removeprefix(CHANGELOG_PREFIX) for s in metadata.store.list(folder) if not s.is_dir)
    ids = sorted(int(name) for name in names if name.isascii() and name.isdigit())
    later = [changelog_id for changelog_id in ids if changelog_id >= first]
    if not later:
        return
    hints = [LATEST] if later != ids else [LATEST, EARLIEST]
    metadata.store.delete_many([f"{folder}/{hint}" for hint in hints])
    for changelog_id in reversed(later):
        retire(metadata, f"{folder}/{CHANGELOG_PREFIX}{changelog_id}")


def write_hint(metadata: TableMetadata, name: str, snapshot_id: int) -> None:
    """Write LATEST or EARLIEST."""
    metadata.store.write(f"{metadata.paths.snapshot_dir}/{name}", str(snapshot_id).encode())
