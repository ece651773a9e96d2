"""The newest state of a table, and work that is begun while stores far away are asked for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from morrow.engine.errors import MorrowError
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.ahead import ahead
from morrow.engine.io.cache import ByteCache
from morrow.engine.plan import newest
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned

_UNDER_WAY: ByteCache[Callable[[], object]] = ByteCache(1 << 20)
"""What waits for that which was begun at first, by table."""
_SIZE = 2048
"""Bytes that one takes there, about."""

Beforehand: TypeAlias = Callable[[TableMetadata, Snapshot], object]
"""Called with what probably is the newest snapshot, while that is asked for; its errors count for nothing."""
AtFirst: TypeAlias = Callable[[TableMetadata], object]
"""Called, likewise, where nothing tells which snapshot that may be; whoever opens a table does not wait for it."""


def forget() -> None:
    """Drops where searches begin, and what was begun."""
    newest.forget()
    _UNDER_WAY.clear()


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
    schema, found = metadata.latest_schema(), looking()
    done()
    return schema, found


def _begun(metadata: TableMetadata, beforehand: Beforehand | None, at_first: AtFirst | None) -> Callable[[], None]:
    """Begins to do what can be done before the newest snapshot is certain; returns what waits for it."""
    key = metadata.store.url(metadata.paths.snapshot_dir)
    known = newest.last_seen(metadata)
    if known is None:
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
