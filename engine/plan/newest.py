"""The newest schema and snapshot of a table, found by few requests that wait for one another.

In a store far away the search begins where the last one of this process ended: what was the newest is read again,
together with what would follow it. So nothing that is kept is ever believed, and one round of requests suffices as long
as nobody has committed. LATEST is only a hint, too: where snapshots follow it, they are read, as ids have no gaps.
"""

from __future__ import annotations

from functools import partial

from morrow.engine.errors import FileMissing
from morrow.engine.format.paths import LATEST
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.ahead import ahead, together
from morrow.engine.io.cache import ByteCache
from morrow.engine.plan.metadata_files import MetadataFiles
from morrow.engine.plan.owner import Owned

_BEGINNINGS: ByteCache[Snapshot | int] = ByteCache(1 << 24)
_SIZE = 2048
"""Bytes that a snapshot takes there, about."""
STEPS = (4, 16, 64)
"""Snapshots that are read at once above one that is not the newest; the folder is listed when all of them exist."""


def forget() -> None:
    """Drops where searches begin."""
    _BEGINNINGS.clear()


def newest_schema_of(metadata: MetadataFiles) -> TableSchema | None:
    """Returns the schema of the greatest id; None where there is no schema."""
    if metadata.store.is_local:
        ids = metadata.schema_ids()
        return metadata.schema(ids[-1]) if ids else None
    key = ("schema", metadata.store.url(metadata.paths.schema_dir))
    known = _BEGINNINGS.get(key)
    guessed = ahead(metadata.store, partial(metadata.schema, known)) if isinstance(known, int) else None
    ids = metadata.schema_ids()
    if not ids:
        return None
    _BEGINNINGS.put(key, ids[-1], _SIZE)
    return guessed() if guessed is not None and ids[-1] == known else metadata.schema(ids[-1])


def newest_snapshot_of(metadata: MetadataFiles) -> Snapshot | None:
    """Returns the newest committed snapshot, None when nothing was committed."""
    if Owned.SNAPSHOTS in metadata.owner.owns:
        return metadata.owner.latest_snapshot(metadata.branch)
    if metadata.store.is_local:
        return _by_hint(metadata, metadata.hint(LATEST))
    key = _snapshots(metadata)
    known = _BEGINNINGS.get(key)
    found = _from(metadata, known) if isinstance(known, Snapshot) else None
    found = found or _by_hint(metadata, metadata.hint(LATEST))
    if found is not None:
        _BEGINNINGS.put(key, found, _SIZE)
    return found


def remember(metadata: MetadataFiles, snapshot: Snapshot) -> None:
    """Has the next search begin at this snapshot."""
    if not metadata.store.is_local:
        _BEGINNINGS.put(_snapshots(metadata), snapshot, _SIZE)


def last_seen(metadata: MetadataFiles) -> Snapshot | None:
    """Returns the snapshot at which the next search begins, in a store far away; it may not be the newest any more."""
    known = _BEGINNINGS.get(_snapshots(metadata))
    return known if isinstance(known, Snapshot) else None


def _snapshots(metadata: MetadataFiles) -> tuple[str, str]:
    return "snapshot", metadata.store.url(metadata.paths.snapshot_dir)


def _from(metadata: MetadataFiles, known: Snapshot) -> Snapshot | None:
    """Returns the newest snapshot when `known` is one still, with few after it; None when others have to tell."""
    there, following = together(
        metadata.store, partial(metadata.snapshot_or_none, known.id), partial(metadata.snapshot_or_none, known.id + 1)
    )
    if there != known:  # rolled back, expired, or of another table of that name
        return None
    return known if following is None else _above(metadata, following)


def _above(metadata: MetadataFiles, known: Snapshot) -> Snapshot | None:
    """Returns the newest snapshot from one that exists upwards, None when there are many."""
    for count in STEPS:
        for found in metadata.each_snapshot(range(known.id + 1, known.id + 1 + count)):
            if found is None:
                return known
            known = found
    return None


def _by_hint(metadata: MetadataFiles, hint: int | None) -> Snapshot | None:
    """Returns the newest snapshot: that of the hint if it exists and none follows; otherwise the folder decides."""
    if hint is not None:
        following = metadata.paths.snapshot(hint + 1)
        if metadata.store.is_local:
            found = None if metadata.store.exists(following) else metadata.snapshot_or_none(hint)
        else:
            found, after = together(
                metadata.store, partial(metadata.snapshot_or_none, hint), partial(metadata.snapshot_or_none, hint + 1)
            )
            found = None if found is None else found if after is None else _above(metadata, after)
        if found is not None:
            return found
    ids = metadata.snapshot_ids()
    for snapshot_id in reversed(ids):
        if (found := metadata.snapshot_or_none(snapshot_id)) is not None:
            return found
    if ids:  # a table without rows has none; these are dropped just now, or kept from us
        what_to_do = "it is listed, and not there; the table may have been dropped while it was read: open it again"
        raise FileMissing(metadata.store.url(metadata.paths.snapshot(ids[-1])), hint=what_to_do)
    return None
