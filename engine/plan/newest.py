"""The newest schema and snapshot of a table, found by few requests that wait for one another.

In a store far away the search begins where the last one of this process ended: what was the newest is read again,
together with what would follow it. So nothing that is kept is ever believed, and one round of requests suffices as long
as nobody has committed. LATEST is only a hint, too: where snapshots follow it, they are read, as ids have no gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from morrow.engine.errors import FileMissing, MorrowError
from morrow.engine.format.paths import LATEST
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.ahead import ahead, together
from morrow.engine.io.cache import ByteCache
from morrow.engine.plan.owner import Owned

if TYPE_CHECKING:
    from morrow.engine.plan.metadata import TableMetadata

_BEGINNINGS: ByteCache[Snapshot | int] = ByteCache(1 << 24)
_UNDER_WAY: ByteCache[Callable[[], object]] = ByteCache(1 << 20)
"""What waits for that which was begun at first, by table."""
_SIZE = 2048
"""Bytes that a snapshot takes there, about."""
STEPS = (4, 16, 64)
"""Snapshots that are read at once above one that is not the newest; the folder is listed when all of them exist."""


def forget() -> None:
    """Drops where searches begin."""
    _BEGINNINGS.clear()
    _UNDER_WAY.clear()


Beforehand: TypeAlias = "Callable[[TableMetadata, Snapshot], object]"
"""Called with what probably is the newest snapshot, while that is asked for; its errors count for nothing."""
AtFirst: TypeAlias = "Callable[[TableMetadata], object]"
"""Called, likewise, where nothing tells which snapshot that may be; whoever opens a table does not wait for it."""


def look(
    metadata: TableMetadata, beforehand: Beforehand | None = None, at_first: AtFirst | None = None
) -> tuple[TableSchema, Snapshot | None]:
    """Returns the newest schema, and far away the newest snapshot, too, where it was found at the same time.

    Raises: as `TableMetadata.latest_schema`. An error about the snapshot is left to those who need it.
    """
    if metadata.store.is_local or Owned.SNAPSHOTS in metadata.owner.owns:
        return metadata.latest_schema(), None
    looking = ahead(metadata.store, metadata.latest_snapshot)
    done = _begun(metadata, beforehand, at_first)
    schema, found = metadata.latest_schema(), None
    with suppress(MorrowError):
        found = looking()
    if beforehand is not None:
        done()
    return schema, found


def newest_state(
    metadata: TableMetadata, beforehand: Beforehand | None = None, at_first: AtFirst | None = None
) -> tuple[TableSchema, Snapshot | None]:
    """Returns the newest schema and snapshot; far away, they are asked for at once."""
    if metadata.store.is_local:
        return metadata.latest_schema(), metadata.latest_snapshot()
    looking = ahead(metadata.store, metadata.latest_snapshot)
    done = _begun(metadata, beforehand, at_first)
    schema, newest = metadata.latest_schema(), looking()
    done()
    return schema, newest


def _begun(metadata: TableMetadata, beforehand: Beforehand | None, at_first: AtFirst | None) -> Callable[[], None]:
    """Begins to do what can be done before the newest snapshot is certain; returns what waits for it."""
    key = _snapshots(metadata)
    known = _BEGINNINGS.get(key)
    if not isinstance(known, Snapshot):
        if at_first is None or Owned.SNAPSHOTS in metadata.owner.owns:
            return lambda: None
        reading = ahead(metadata.store, partial(at_first, metadata))
        _UNDER_WAY.put(key, reading, _SIZE)
        return partial(_wait, reading)
    if beforehand is None:
        return lambda: None
    begun = _UNDER_WAY.get(key)

    def read() -> None:
        if begun is not None:
            _wait(begun)
        beforehand(metadata, known)

    return partial(_wait, ahead(metadata.store, read))


def _wait(doing: Callable[[], object]) -> None:
    with suppress(MorrowError):
        doing()


def newest_schema_of(metadata: TableMetadata) -> TableSchema | None:
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


def newest_snapshot_of(metadata: TableMetadata) -> Snapshot | None:
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


def remember(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Has the next search begin at this snapshot."""
    if not metadata.store.is_local:
        _BEGINNINGS.put(_snapshots(metadata), snapshot, _SIZE)


def _snapshots(metadata: TableMetadata) -> tuple[str, str]:
    return "snapshot", metadata.store.url(metadata.paths.snapshot_dir)


def _from(metadata: TableMetadata, known: Snapshot) -> Snapshot | None:
    """Returns the newest snapshot when `known` is one still, with few after it; None when others have to tell."""
    there, following = together(
        metadata.store, partial(metadata.snapshot_or_none, known.id), partial(metadata.snapshot_or_none, known.id + 1)
    )
    if there != known:  # rolled back, expired, or of another table of that name
        return None
    return known if following is None else _above(metadata, following)


def _above(metadata: TableMetadata, known: Snapshot) -> Snapshot | None:
    """Returns the newest snapshot from one that exists upwards, None when there are many."""
    for count in STEPS:
        for found in metadata.each_snapshot(range(known.id + 1, known.id + 1 + count)):
            if found is None:
                return known
            known = found
    return None


def _by_hint(metadata: TableMetadata, hint: int | None) -> Snapshot | None:
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
