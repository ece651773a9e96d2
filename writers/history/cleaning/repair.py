"""Repair of a table's hints from the existing files: LATEST and EARLIEST of snapshots and changelogs.

LATEST is set to the newest file. EARLIEST stays when its file exists, even if older ones exist too: expiry announces
with it that those are being removed, and the next `expire_snapshots` removes them. Otherwise it is set to the oldest
file. Hints of an empty folder are removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.errors import FileMissing
from morrow.engine.format.paths import EARLIEST, LATEST, MAIN_BRANCH, file_id, numbered
from morrow.engine.plan.metadata import TableMetadata

FOLDERS = ("snapshot", "changelog")


@dataclass(frozen=True)
class RepairedHint:
    """A hint that was changed: `folder` is snapshot or changelog, `name` is LATEST or EARLIEST.

    `before` is its former text (None: there was no file), `after` the id that it has now (None: removed).
    """

    branch: str
    folder: str
    name: str
    before: str | None
    after: int | None


def repair(metadata: TableMetadata) -> list[RepairedHint]:
    """Rewrites wrong hints of the branch; on the main branch, those of all branches.

    Do not call it during expiry of snapshots: an EARLIEST that expiry sets at the same moment may be lost.

    Returns: the changed hints.

    Raises:
        StorageError: a hint could not be written.
    """
    found = [metadata]
    if metadata.branch == MAIN_BRANCH:
        found += [metadata.on_branch(name) for name in metadata.branch_names()]
    return [changed for one in found for folder in FOLDERS for changed in _repaired(one, folder)]


def _repaired(metadata: TableMetadata, folder: str) -> list[RepairedHint]:
    place = f"{metadata.paths.branch_root}/{folder}"
    listed = {status.name for status in metadata.store.list(place) if not status.is_dir}
    ids = {number for name in listed if (number := numbered(name, f"{folder}-")) is not None}
    # Read as late as possible: writers and expiry write hints too.
    texts = {name: _text(metadata, f"{place}/{name}") if name in listed else None for name in (EARLIEST, LATEST)}
    announced = file_id((texts[EARLIEST] or "").strip())
    wanted = {EARLIEST: announced if announced in ids else min(ids, default=None), LATEST: max(ids, default=None)}
    changed = [
        RepairedHint(metadata.branch, folder, name, texts[name], right)
        for name, right in wanted.items()
        if texts[name] != (None if right is None else str(right))
    ]
    for hint in changed:
        if hint.after is None:
            metadata.store.delete(f"{place}/{hint.name}")
        else:
            metadata.store.write(f"{place}/{hint.name}", str(hint.after).encode())
    return changed


def _text(metadata: TableMetadata, path: str) -> str | None:
    try:
        return metadata.store.read(path).decode(errors="replace")
    except FileMissing:
        return None
