"""Searches for snapshots by time or watermark: log2(n) of n snapshots are read, and their folder is not listed.

The searches are those of Java's ``SnapshotManager``, probe by probe, so that both find the same snapshot where several
share a time or watermark, or where clocks went back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from morrow.engine.errors import FileMissing
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata

NO_WATERMARK = -(2**63)
"""The watermark that Flink writes before the first one."""

Search: TypeAlias = Callable[[Sequence[int]], Snapshot | None]


def last_until(metadata: TableMetadata, millis: int) -> Snapshot | None:
    """Returns the newest living snapshot committed at or before epoch milliseconds; None when all are younger."""

    def search(ids: Sequence[int]) -> Snapshot | None:
        if not ids or _present(metadata, ids[0]).time_millis > millis:
            return None
        found, low, high = None, 0, len(ids) - 1
        while low <= high:
            middle = (low + high) // 2
            snapshot = _present(metadata, ids[middle])
            if snapshot.time_millis > millis:
                high = middle - 1
                continue
            found, low = snapshot, middle + 1
            if snapshot.time_millis == millis:
                break
        return found

    return _searched(metadata, search)


def first_reaching(metadata: TableMetadata, watermark: int) -> Snapshot | None:
    """Returns the oldest living snapshot whose watermark reaches `watermark` (epoch milliseconds); None without one.

    Snapshots inherit their watermark, so all after the first with a watermark have one; to find that first one, all
    before it are read.
    """

    def search(ids: Sequence[int]) -> Snapshot | None:
        if not ids or _present(metadata, ids[-1]).watermark == NO_WATERMARK:
            return None
        low, first = _first_marked(metadata, ids)
        if first is None or _watermark(first) >= watermark:
            return first
        found, high = None, len(ids) - 1
        while low <= high:
            middle, snapshot = _marked(metadata, ids, low, (low + high) // 2)
            if snapshot is None or _watermark(snapshot) < watermark:
                low = (low + high) // 2 + 1
                continue
            found, high = snapshot, middle - 1
            if snapshot.watermark == watermark:
                break
        return found

    return _searched(metadata, search)


def _first_marked(metadata: TableMetadata, ids: Sequence[int]) -> tuple[int, Snapshot | None]:
    """Returns the first snapshot with a watermark, and its index in `ids`."""
    for at, snapshot in enumerate(metadata.each_snapshot(ids)):
        if snapshot is None:
            raise _Vanished(ids[at])
        if snapshot.watermark is not None:
            return at, snapshot
    return len(ids), None


def _marked(metadata: TableMetadata, ids: Sequence[int], low: int, at: int) -> tuple[int, Snapshot | None]:
    """Returns the last snapshot with a watermark from `low` to `at`, and its index in `ids`."""
    for place in range(at, low - 1, -1):
        snapshot = _present(metadata, ids[place])
        if snapshot.watermark is not None:
            return place, snapshot
    return low, None


def _watermark(snapshot: Snapshot) -> int:
    assert snapshot.watermark is not None
    return snapshot.watermark


class _Vanished(Exception):  # never leaves this module
    """A snapshot that a search read does not exist; the argument is its id."""


def _present(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    found = metadata.snapshot_or_none(snapshot_id)
    if found is None:
        raise _Vanished(snapshot_id)
    return found


def _searched(metadata: TableMetadata, search: Search) -> Snapshot | None:
    """Runs `search` on the ids of the living snapshots.

    The ids are all numbers from the earliest to the newest, which take two small reads. Only if one of them is missing,
    lost or expired meanwhile, the folder is listed; and again when more has expired.
    """
    newest, earliest = metadata.latest_snapshot(), metadata.earliest_snapshot_id()
    if newest is None or earliest is None:
        return None
    ids: Sequence[int] = range(earliest, newest.id + 1)
    while True:
        try:
            return search(ids)
        except _Vanished as missing:
            before, ids = ids, metadata.living_snapshot_ids()
            if ids == before:  # listed, and yet not there
                raise FileMissing(metadata.paths.snapshot(missing.args[0])) from None
