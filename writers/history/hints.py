"""Repair of a table's hints from the existing files: LATEST and EARLIEST of snapshots and changelogs.

LATEST is set to the newest file. EARLIEST stays if its file exists, even if older files exist too: these are being
removed by an expiry, or by the next `expire_snapshots`. Otherwise EARLIEST is set to the oldest file. Hints of an empty
folder are removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.errors import FileMissing, InvalidArgument, SnapshotNotFound
from morrow.engine.format.paths import EARLIEST, LATEST, MAIN_BRANCH, parse_file_id, parse_numbered
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history.rollback import write_hint

FOLDERS = ("snapshot", "changelog")


@dataclass(frozen=True)
class RepairedHint:
    """A hint that was changed: `folder` is snapshot or changelog, `name` is LATEST or EARLIEST.

    `before` is its former text (None: the file did not exist), `after` the id that it has now (None: removed).
    """

    branch: str
    folder: str
    name: str
    before: str | None
    after: int | None


def repair_hints(metadata: TableMetadata) -> list[RepairedHint]:
    """Rewrite wrong hints of the branch; on the main branch, rewrite wrong hints of all branches.

    Do not call it during expiry of snapshots: an EARLIEST that expiry sets at the same moment may be lost.

    Returns: the changed hints.

    Raises `StorageError`: a hint could not be written.
    """
    changed = []
    for one in _list_branches(metadata):
        for folder in FOLDERS:
            for hint in _find_wrong(one, folder):
                _write(one, hint)
                changed.append(hint)
    return changed


def find_wrong_hints(metadata: TableMetadata) -> list[RepairedHint]:
    """Return the changes that `repair_hints` would make."""
    return [hint for one in _list_branches(metadata) for folder in FOLDERS for hint in _find_wrong(one, folder)]


def _list_branches(metadata: TableMetadata) -> list[TableMetadata]:
    found = [metadata]
    if metadata.branch == MAIN_BRANCH:
        found += [metadata.on_branch(name) for name in metadata.branch_names()]
    return found


def repair_earliest_snapshot(metadata: TableMetadata, snapshot_id: int) -> int:
    """Set the hint EARLIEST to the oldest snapshot after a gap; return the id of the oldest snapshot before.

    A gap appears if snapshot files are lost or removed by hand. The files of the snapshots before the gap stay until
    the next expiry removes them.

    Raises:
        InvalidArgument: the id is not between the oldest and the newest snapshot, a snapshot after it is missing, or
            the one before it exists. SnapshotNotFound: the table is without snapshots.
    """
    ids = set(metadata.snapshot_ids())
    previous, latest = metadata.earliest_snapshot_id(), max(ids, default=None)
    if previous is None or latest is None:
        raise SnapshotNotFound(f"{metadata.where}: the table has no snapshot")
    if not previous <= snapshot_id <= latest:
        raise InvalidArgument(
            f"{metadata.where}: the oldest snapshot is one of {previous} to {latest}, and {snapshot_id} is not"
        )
    missing = sorted(set(range(snapshot_id, latest + 1)) - ids)
    if missing:
        raise InvalidArgument(f"{metadata.where}: snapshot {missing[0]} does not exist; begin after it")
    if snapshot_id != previous and snapshot_id - 1 in ids:
        raise InvalidArgument(
            f"{metadata.where}: snapshot {snapshot_id - 1} exists, so that {snapshot_id} does not follow a gap"
        )
    write_hint(metadata, EARLIEST, snapshot_id)
    return previous


def _find_wrong(metadata: TableMetadata, folder: str) -> list[RepairedHint]:
    place = f"{metadata.paths.branch_root}/{folder}"
    listed = {status.name for status in metadata.store.list(place) if not status.is_dir}
    ids = {number for name in listed if (number := parse_numbered(name, f"{folder}-")) is not None}
    # Read as late as possible: writers and expiry write hints too.
    texts = {name: _read_text(metadata, f"{place}/{name}") if name in listed else None for name in (EARLIEST, LATEST)}
    announced = parse_file_id((texts[EARLIEST] or "").strip())
    wanted = {EARLIEST: announced if announced in ids else min(ids, default=None), LATEST: max(ids, default=None)}
    return [
        RepairedHint(metadata.branch, folder, name, texts[name], right)
        for name, right in wanted.items()
        if texts[name] != (None if right is None else str(right))
    ]


def _write(metadata: TableMetadata, hint: RepairedHint) -> None:
    path = f"{metadata.paths.branch_root}/{hint.folder}/{hint.name}"
    if hint.after is None:
        metadata.store.delete(path)
    else:
        metadata.store.write(path, str(hint.after).encode())


def _read_text(metadata: TableMetadata, path: str) -> str | None:
    try:
        return metadata.store.read(path).decode(errors="replace")
    except FileMissing:
        return None
