"""Expiry of snapshots and changelogs, with the files that only they need.

    1. choose snapshots: all beyond the retention that every consumer has read, up to the limit
    2. set the hint EARLIEST to the first snapshot after them: readers, writers and creators of tags no longer use them
    3. read which files the tags and branches need
    4. from old to new, in batches: turn them into changelogs if these live longer; remove files, snapshot files last

If the disk is too full for the hint, the snapshots are retired instead, as in a rollback, or moved if changelogs
outlive snapshots.

A killed expiry leaves snapshot files before EARLIEST, and the next expiry completes it. Two concurrent expiries do the
same work twice: files that are already gone are not an error.

Changelogs outlive their snapshots, but expire later. As in Java, the newest changelog stays unless all are removed,
since readers use it to find where the snapshots begin.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, Self

from morrow.engine.errors import InvalidArgument, NotFound, SnapshotExpired, StorageError
from morrow.engine.format.paths import EARLIEST
from morrow.engine.format.snapshot import Snapshot, format_snapshot
from morrow.engine.io.store import ignore_full_disk, is_full
from morrow.engine.options.retention import UNLIMITED, ExpireOptions, Retention, parse_expire_options
from morrow.engine.plan.changelogs import (
    build_changelog_path,
    list_changelog_ids,
    list_living_changelog_ids,
    read_changelogs,
    remove_changelog_hints,
    write_changelog_hints,
)
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.roots import Line, Root, RootKind, list_lines
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.engine.units import MILLIS_PER_SECOND, NANOS_PER_MILLI, format_count
from morrow.writers.commit.commit_lock import hold_commit_lock
from morrow.writers.history.tombstones import finish_removals, retire_file
from morrow.writers.history.unreferenced_files import MAX_TRIES, remove_expired, remove_expired_changelogs

MAX_SNAPSHOTS_AT_ONCE = 200
"""Maximum snapshots whose changes are in memory at once."""

log = get_logger(__name__)


class Expired(int):
    """The number of removed snapshots or changelogs, with the number of remaining ones and the reason they stay."""

    left: int
    kept_by: str

    def __new__(cls, removed: int, left: int, kept_by: str) -> Self:
        """Make the result of an expiry.

        Args:
            left: how many there are now.
            kept_by: why the oldest of these stays: an argument, an option, or a consumer.
        """
        made = super().__new__(cls, removed)
        made.left, made.kept_by = left, kept_by
        return made

    def __str__(self) -> str:
        return int.__repr__(self)

    def __repr__(self) -> str:
        return f"{int(self)} removed, {self.left} left" + (f" ({self.kept_by})" if self.kept_by else "")


def expire_snapshots(
    metadata: TableMetadata,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_millis: int | None = None,
    max_deletes: int | None = None,
    dry_run: bool = False,
) -> Expired:
    """Remove old snapshots of a branch. Omitted limits are taken from the options of the table.

    Args:
        retain_max: how many stay at most, whatever their age.
        retain_min: how many stay at least; not more than `retain_max` unless both are given.
        older_than_millis: snapshots committed before this moment are removed (epoch milliseconds).
        max_deletes: how many are removed at most; None: all that are due.
        dry_run: remove nothing.

    Returns: how many snapshots were removed (with `dry_run`: would be), including the remains of an interrupted expiry.

    Raises:
        InvalidArgument: numbers that contradict each other.
        CorruptFile, FileMissing: metadata of remaining roots cannot be read. StorageError: a file could not be removed.
            In each case the next call continues.
    """
    if not dry_run:
        finish_removals(metadata)
    options = parse_expire_options(metadata.newest_options(), where=metadata.where)
    retention = override_retention(options.snapshots, retain_max, retain_min, metadata.where)
    young = older_than_millis if older_than_millis is not None else read_clock_millis() - retention.millis
    limit = parse_limit(max_deletes, metadata.where)
    removed, due = 0, None
    for tries in range(1, MAX_TRIES + 1):
        try:
            due = _find_due(metadata, options, retention, young, limit)
            if due is None:
                break
            if dry_run:
                return Expired(len(due.gone), due.left, due.kept_by)
            for count in _expire(metadata, options, due):
                removed += count
            break
        except NotFound:
            # Another expiry ran meanwhile, or a tag was deleted: read the current roots again.
            if tries == MAX_TRIES:
                raise
    if removed:
        log.info("%s: expired %s", metadata.where, format_count(removed, "snapshot"))
    return Expired(removed, 0, "") if due is None else Expired(removed, due.left, due.kept_by)


def override_retention(default: Retention, most: int | None, least: int | None, where: str) -> Retention:
    """Return `default` with these limits if given. Raises `InvalidArgument` if they contradict each other."""
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


def parse_limit(given: int | None, where: str) -> int:
    """Return how many to remove at most, `UNLIMITED` if none is given. Raises `InvalidArgument` for a negative one."""
    limit = UNLIMITED if given is None else given
    if limit < 0:
        raise InvalidArgument(f"{where}: at most {limit} cannot be removed; give 0 or more")
    return limit


def read_clock_millis() -> int:
    return time.time_ns() // NANOS_PER_MILLI


class _Due(NamedTuple):
    """The due snapshots `gone`, all before `end`. `earliest` is the first snapshot of the table before the expiry.

    `left` snapshots stay, the first of them for the reason `kept_by`.
    """

    earliest: int
    end: int
    gone: list[int]
    left: int
    kept_by: str


def _find_due(
    metadata: TableMetadata, options: ExpireOptions, retention: Retention, young: int, limit: int
) -> _Due | None:
    """Return the due snapshots, None for a table without snapshots."""
    ids, earliest = metadata.snapshot_ids(), metadata.earliest_snapshot_id()
    if not ids or earliest is None:
        return None
    pinned = None if options.consumers_keep_changelogs_only else Consumers(metadata).slowest()
    due, kept_by = find_first_retained(metadata.each_snapshot, retention, young, limit, earliest, ids[-1], pinned)
    end = next((snapshot_id for snapshot_id in ids if snapshot_id >= due), None)
    if end is None:  # EARLIEST was read after the ids
        raise _make_overtaken_error(metadata)
    gone = [snapshot_id for snapshot_id in ids if snapshot_id < end]
    return _Due(earliest, end, gone, len(ids) - len(gone), kept_by)


def _expire(metadata: TableMetadata, options: ExpireOptions, due: _Due) -> Iterator[int]:
    """Remove the due snapshots; yield the number removed in each batch."""
    earliest, end, gone = due.earliest, due.end, due.gone
    try:
        _set_earliest_hint(metadata, earliest, end)
    except StorageError as error:
        if not is_full(error):
            raise
        if gone:
            instead = _move_instead if options.decoupled else _retire_instead
            yield instead(metadata, earliest, end, gone)
        return
    if not gone:
        return
    there = list_lines(metadata)
    following = Root(metadata, RootKind.SNAPSHOT, metadata.snapshot(end))
    for start in range(0, len(gone), MAX_SNAPSHOTS_AT_ONCE):
        batch = gone[start : start + MAX_SNAPSHOTS_AT_ONCE]
        yield _remove(metadata, options, batch, following if batch[-1] == gone[-1] else None, there)


def find_first_retained(
    read: Callable[[Sequence[int]], Iterable[Snapshot | None]],
    retention: Retention,
    young: int,
    limit: int,
    earliest: int,
    latest: int,
    pinned: tuple[str, int] | None,
) -> tuple[int, str]:
    """Return the first id from `earliest` on that stays, and the reason.

    Args:
        read: returns the snapshots with these ids, None for each that is gone.
        young: snapshots committed at this time or later stay, unless there are more than `retention.most`.
        latest: the newest snapshot, from which the others are counted.
        pinned: the slowest consumer and the oldest snapshot that it needs.
    """
    ends = [(latest - retention.least + 1, f"retain_min keeps {retention.least}")]
    if pinned is not None:
        ends.append((pinned[1], f"consumer {pinned[0]!r} needs {pinned[1]}"))
    ends.append((earliest + limit, f"max_deletes is {limit}"))
    end, kept_by = min(ends, key=itemgetter(0))
    old = max(latest - retention.most + 1, earliest)
    ids = range(old, end)
    for snapshot_id, snapshot in zip(ids, read(ids)):
        if snapshot is not None and snapshot.time_millis >= young:
            return (
                snapshot_id,
                f"{snapshot_id} is of {_format_moment(snapshot.time_millis)}, not older than {_format_moment(young)}",
            )
    return max(end, earliest), kept_by


def _format_moment(millis: int) -> str:
    try:
        return f"{dt.datetime.fromtimestamp(millis / MILLIS_PER_SECOND, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):  # out of the calendar's range
        return f"{millis} ms"


def _set_earliest_hint(metadata: TableMetadata, earliest: int, end: int) -> None:
    """Set EARLIEST to `end`, to announce that the table begins there."""
    hint = f"{metadata.paths.snapshot_dir}/{EARLIEST}"
    with hold_commit_lock(metadata):  # so that a rollback to a snapshot before `end` comes before or after this
        _check_announced(metadata, earliest, end)
        if not metadata.store.exists(hint) or metadata.store.read(hint).strip() != str(end).encode():
            metadata.store.write(hint, str(end).encode())


def _check_announced(metadata: TableMetadata, earliest: int, end: int) -> None:
    if metadata.earliest_snapshot_id() != earliest or not metadata.store.exists(metadata.paths.snapshot(end)):
        raise _make_overtaken_error(metadata)


def _make_overtaken_error(metadata: TableMetadata) -> SnapshotExpired:
    return SnapshotExpired(f"{metadata.where}: another expiry or a rollback came by meanwhile; try again")


def _retire_instead(metadata: TableMetadata, earliest: int, end: int, ids: Sequence[int]) -> int:
    """Remove these snapshots by renames, for when the disk is too full to write a hint.

    As in a rollback, each is gone at once for all readers, from old to new, and the next maintenance completes a killed
    run. The hint is written when there is room.
    """
    with hold_commit_lock(metadata):
        _check_announced(metadata, earliest, end)
        found = sum(retire_file(metadata, metadata.paths.snapshot(snapshot_id)) for snapshot_id in ids)
    finish_removals(metadata)
    with ignore_full_disk():
        _set_earliest_hint(metadata, end, end)
    return found


def _move_instead(metadata: TableMetadata, earliest: int, end: int, ids: Sequence[int]) -> int:
    """Make changelogs of these snapshots by moving their files, for when the disk is too full for hints or copies.

    A killed run leaves orphan files for `remove_orphan_files`. Hints are written when there is room.
    """
    with hold_commit_lock(metadata):
        _check_announced(metadata, earliest, end)
        found = [snapshot for snapshot in metadata.each_snapshot(ids) if snapshot is not None]
        for snapshot in found:
            metadata.store.move(metadata.paths.snapshot(snapshot.id), build_changelog_path(metadata, snapshot.id))
    following = Root(metadata, RootKind.SNAPSHOT, metadata.snapshot(end))
    roots = [Root(metadata, RootKind.SNAPSHOT, snapshot) for snapshot in found]
    remove_expired(metadata, roots, following, list_lines(metadata))
    with ignore_full_disk():
        write_changelog_hints(metadata, latest=ids[-1])
        _set_earliest_hint(metadata, end, end)
    return len(found)


def _remove(
    metadata: TableMetadata, options: ExpireOptions, ids: Sequence[int], following: Root | None, there: Sequence[Line]
) -> int:
    """Remove these snapshots, from old to new; return how many of them still existed."""
    found = [snapshot for snapshot in metadata.each_snapshot(ids) if snapshot is not None]
    if not found:
        return 0
    if options.decoupled:
        there = _add_changelogs(metadata, found, there)
    remove_expired(metadata, [Root(metadata, RootKind.SNAPSHOT, snapshot) for snapshot in found], following, there)
    metadata.store.delete_many([metadata.paths.snapshot(snapshot.id) for snapshot in found])
    return len(found)


def _add_changelogs(metadata: TableMetadata, snapshots: Sequence[Snapshot], there: Sequence[Line]) -> list[Line]:
    """Make changelogs of snapshots; return the lines, including the new changelogs."""
    ids = [snapshot.id for snapshot in snapshots]
    for snapshot in snapshots:
        metadata.store.create(build_changelog_path(metadata, snapshot.id), format_snapshot(snapshot))
    write_changelog_hints(metadata, latest=ids[-1])
    return [
        replace(line, changelog_ids=tuple(sorted({*line.changelog_ids, *ids})))
        if line.metadata.branch == metadata.branch
        else line
        for line in there
    ]


NEWEST_STAYS = "the newest changelog stays"


def expire_changelogs(
    metadata: TableMetadata,
    *,
    retain_max: int | None = None,
    retain_min: int | None = None,
    older_than_millis: int | None = None,
    max_deletes: int | None = None,
) -> Expired:
    """Remove old changelogs of a branch. Omitted limits are taken from the options of the table.

    The arguments are those of `expire_snapshots`: changelogs are counted together with the snapshots after them.

    Returns: how many changelogs were removed, how many are left, and why.

    Raises: as `expire_snapshots`.
    """
    finish_removals(metadata)
    options = parse_expire_options(metadata.newest_options(), where=metadata.where)
    retention = override_retention(options.changelogs, retain_max, retain_min, metadata.where)
    young = older_than_millis if older_than_millis is not None else read_clock_millis() - retention.millis
    limit = parse_limit(max_deletes, metadata.where)
    left, kept_by = 0, ""

    def due(ids: Sequence[int], latest: int) -> list[int]:
        nonlocal left, kept_by
        pinned = Consumers(metadata).slowest()
        found, why = find_first_retained(
            lambda some: read_changelogs(metadata, some), retention, young, limit, ids[0], latest, pinned
        )
        gone = [changelog_id for changelog_id in ids[:-1] if changelog_id < found]
        left, kept_by = len(ids) - len(gone), NEWEST_STAYS if found > ids[-1] else why
        return gone

    return Expired(_expire_changelogs(metadata, due), left, kept_by)


def expire_all_changelogs(metadata: TableMetadata) -> int:
    """Remove all changelogs of a branch, whatever their age and their consumers; return how many there were.

    Raises: as `expire_changelogs`.
    """
    finish_removals(metadata)
    return _expire_changelogs(metadata, lambda ids, _: list(ids))


def _expire_changelogs(metadata: TableMetadata, choose: Callable[[Sequence[int], int], list[int]]) -> int:
    """Remove the changelogs that `choose` picks from the live ones, given the newest snapshot's id, and the remains of
    an interrupted run."""
    removed = 0
    for tries in range(1, MAX_TRIES + 1):
        try:
            for count in _remove_changelogs(metadata, choose):
                removed += count
            break
        except NotFound:
            if tries == MAX_TRIES:
                raise
    return removed


def _remove_changelogs(metadata: TableMetadata, choose: Callable[[Sequence[int], int], list[int]]) -> Iterator[int]:
    latest, living = metadata.latest_snapshot(), list_living_changelog_ids(metadata)
    if latest is None or not living:
        return
    chosen = choose(living, latest.id)
    stay = living[len(chosen) :]
    gone = [changelog_id for changelog_id in list_changelog_ids(metadata) if not stay or changelog_id < stay[0]]
    if not stay:
        # No hint announces that all go, so they are renamed: the next maintenance completes a killed run.
        yield sum(retire_file(metadata, build_changelog_path(metadata, changelog_id)) for changelog_id in gone)
        finish_removals(metadata)
        remove_changelog_hints(metadata)
        return
    try:
        if chosen:
            write_changelog_hints(metadata, earliest=stay[0])
    except StorageError as error:
        if not is_full(error):
            raise
        yield _retire_changelogs_instead(metadata, gone, stay[0])
        return
    there = list_lines(metadata)
    for start in range(0, len(gone), MAX_SNAPSHOTS_AT_ONCE):
        found = [
            one for one in read_changelogs(metadata, gone[start : start + MAX_SNAPSHOTS_AT_ONCE]) if one is not None
        ]
        if found:
            remove_expired_changelogs(metadata, [Root(metadata, RootKind.CHANGELOG, one) for one in found], there)
            metadata.store.delete_many([build_changelog_path(metadata, one.id) for one in found])
            yield len(found)


def _retire_changelogs_instead(metadata: TableMetadata, gone: Sequence[int], first: int) -> int:
    """Remove these changelogs by renames, for when the disk is too full to write a hint."""
    found = sum(retire_file(metadata, build_changelog_path(metadata, changelog_id)) for changelog_id in gone)
    finish_removals(metadata)
    with ignore_full_disk():
        write_changelog_hints(metadata, earliest=first)
    return found
