"""Old snapshots are removed, with the files that only they need.

    1. which ones: as many as the retention allows, none that a consumer has not read, at most a number at a time
    2. the hint EARLIEST is moved behind them: for readers, writers and whoever makes tags they are gone now
    3. tags and branches are looked at, for files that they need
    4. from old to new, some at a time: they become changelogs, if those live longer; files go; snapshot files go last

Whoever is killed leaves snapshot files before EARLIEST, and the next expiry completes it. Two at once do the same work
twice: what is gone already is fine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from morrow.engine.errors import InvalidArgument, NotFound, SnapshotExpired
from morrow.engine.format.snapshot import Snapshot, snapshot_json
from morrow.engine.options.expiring import ExpireOptions, Retention, parse_expire_options
from morrow.engine.plan.changelogs import changelog_path, write_changelog_hints
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.references import Line, Root, RootKind, lines
from morrow.writers.commit.turns import turn
from morrow.writers.expiry.unneeded import MOST_TRIES, remove_expired
from morrow.writers.rollback.retired import finish_retired

AT_ONCE = 200
"""Snapshots whose changes are in memory together."""

EARLIEST = "EARLIEST"
NANOS_PER_MILLI = 1_000_000


def expire_snapshots(
    metadata: TableMetadata,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_millis: int | None = None,
    max_deletes: int | None = None,
) -> int:
    """Remove old snapshots of a branch. What is not given is as the options of the table say.

    Args:
        retain_max: how many stay at most, whatever their age.
        retain_min: how many stay at least; not more than `retain_max` unless both are given.
        older_than_millis: those committed before go (epoch milliseconds).
        max_deletes: how many are removed at most.

    Returns: how many snapshots were removed, those included that an interrupted expiry had left.

    Raises:
        InvalidArgument: numbers that contradict each other.
        CorruptFile, FileMissing: metadata of what stays cannot be read. StorageError: a file could not be removed.
            In each case snapshots that were not completed are left for the next call.
    """
    finish_retired(metadata)
    options = parse_expire_options(metadata.latest_schema().options, where=metadata.where)
    retention = retained(options.snapshots, retain_max, retain_min, metadata.where)
    young = older_than_millis if older_than_millis is not None else now_millis() - retention.millis
    limit = at_most(max_deletes, options.limit, metadata.where)
    removed = 0
    for tries in range(1, MOST_TRIES + 1):
        try:
            for count in _expire(metadata, options, retention, young, limit):
                removed += count
            break
        except NotFound:
            # Another expiry came by, or a tag was deleted: what is there now is looked at anew.
            if tries == MOST_TRIES:
                raise
    return removed


def retained(default: Retention, most: int | None, least: int | None, where: str) -> Retention:
    """The retention with these numbers in place of the default's. Raises `InvalidArgument` for contradictory ones."""
    given = Retention(
        most=default.most if most is None else most,
        least=default.least if least is None else least,
        time=default.time,
    )
    if most is not None and least is None:
        given = replace(given, least=min(given.least, most))
    if least is not None and most is None:
        given = replace(given, most=max(given.most, least))
    given.check(where)
    return given


def at_most(given: int | None, default: int, where: str) -> int:
    """How many are removed at most. Raises `InvalidArgument` for a number below 0."""
    limit = default if given is None else given
    if limit < 0:
        raise InvalidArgument(f"{where}: at most {limit} cannot be removed; give 0 or more")
    return limit


def now_millis() -> int:
    return time.time_ns() // NANOS_PER_MILLI


def _expire(
    metadata: TableMetadata, options: ExpireOptions, retention: Retention, young: int, limit: int
) -> Iterator[int]:
    """Remove the snapshots that are due; yields how many were removed at a time."""
    ids, earliest = metadata.snapshot_ids(), metadata.earliest_snapshot_id()
    if not ids or earliest is None:
        return
    pinned = None if options.consumers_keep_changelogs_only else Consumers(metadata).least()
    due = due_until(metadata.each_snapshot, retention, young, limit, earliest, ids[-1], pinned)
    end = next(snapshot_id for snapshot_id in ids if snapshot_id >= due)
    _announce(metadata, earliest, end)
    gone = [snapshot_id for snapshot_id in ids if snapshot_id < end]
    if not gone:
        return
    there = lines(metadata)
    following = Root(metadata, RootKind.SNAPSHOT, metadata.snapshot(end))
    for start in range(0, len(gone), AT_ONCE):
        batch = gone[start : start + AT_ONCE]
        yield _remove(metadata, options, batch, following if batch[-1] == gone[-1] else None, there)


def due_until(
    read: Callable[[Sequence[int]], Iterable[Snapshot | None]],
    retention: Retention,
    young: int,
    limit: int,
    earliest: int,
    latest: int,
    pinned: int | None,
) -> int:
    """The first id, from `earliest` on, that stays.

    Args:
        read: gives the snapshots with these ids, None for one that is gone.
        young: what was committed at this time or later stays, unless it is more than `retention.most`.
        latest: the newest snapshot, from which is counted.
        pinned: the first snapshot that a consumer has not read.
    """
    end = min(latest - retention.least + 1, earliest + limit, latest if pinned is None else pinned)
    old = max(latest - retention.most + 1, earliest)
    ids = range(old, end)
    for snapshot_id, snapshot in zip(ids, read(ids)):
        if snapshot is not None and snapshot.time_millis >= young:
            return snapshot_id
    return max(end, earliest)


def _announce(metadata: TableMetadata, earliest: int, end: int) -> None:
    """Say that the table begins at `end` now."""
    hint = f"{metadata.paths.snapshot_dir}/{EARLIEST}"
    with turn(metadata):  # a rollback to a snapshot before `end` comes before or after this
        if metadata.earliest_snapshot_id() != earliest or not metadata.store.exists(metadata.paths.snapshot(end)):
            raise SnapshotExpired(f"{metadata.where}: another expiry or a rollback came by meanwhile; try again")
        if not metadata.store.exists(hint) or metadata.store.read(hint).strip() != str(end).encode():
            metadata.store.write(hint, str(end).encode())


def _remove(
    metadata: TableMetadata, options: ExpireOptions, ids: Sequence[int], following: Root | None, there: Sequence[Line]
) -> int:
    """Remove these snapshots, from old to new; returns how many of them were still there."""
    found = [snapshot for snapshot in metadata.each_snapshot(ids) if snapshot is not None]
    if not found:
        return 0
    if options.decoupled:
        there = _with_changelogs(metadata, found, there)
    remove_expired(metadata, [Root(metadata, RootKind.SNAPSHOT, snapshot) for snapshot in found], following, there)
    metadata.store.delete_many([metadata.paths.snapshot(snapshot.id) for snapshot in found])
    return len(found)


def _with_changelogs(metadata: TableMetadata, snapshots: Sequence[Snapshot], there: Sequence[Line]) -> list[Line]:
    """Make changelogs of snapshots: the lines with them."""
    ids = [snapshot.id for snapshot in snapshots]
    for snapshot in snapshots:
        metadata.store.create(changelog_path(metadata, snapshot.id), snapshot_json(snapshot))
    write_changelog_hints(metadata, latest=ids[-1])
    return [
        replace(line, changelog_ids=tuple(sorted({*line.changelog_ids, *ids})))
        if line.metadata.branch == metadata.branch
        else line
        for line in there
    ]
