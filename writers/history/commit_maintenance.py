"""Maintenance by writers after commits: tags, and expiry of partitions, consumers, snapshots and changelogs.

and marks of partitions that are done.

It runs in the thread of the commit, whatever ``snapshot.expire.execution-mode`` says: it is complete when the commit
returns. The commit is durable by then, so failures are logged, and maintenance is tried again after the next one.
Inactive consumers expire, so that they no longer pin snapshots.

A snapshot gets the tag of the last period that ended, with the delay added, before the snapshot's time (its commit time
or watermark, as local time of a zone). The tags show which period was tagged last, so any later committer continues
from there. Source: Java's TagAutoCreation and TagBatchCreation. As in Java, tags expire by the local time since their
creation.
"""

from __future__ import annotations

import datetime as dt
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TypeAlias

from morrow.engine.errors import MorrowError, TagNotFound
from morrow.engine.format.snapshot import Snapshot, Tag
from morrow.engine.io.store import start_request
from morrow.engine.options import Options
from morrow.engine.options.declarations import TagCreation, parse_names
from morrow.engine.options.declared.connectors import PARTITION_END_INPUT_TO_DONE, PARTITION_MARK_DONE_ACTION
from morrow.engine.options.declared.maintenance import CONSUMER_EXPIRATION_TIME
from morrow.engine.options.retention import BY_PERIOD, Retention, TagOptions, parse_expire_options, parse_tag_options
from morrow.engine.plan.changelogs import list_living_changelog_ids, read_changelog_or_none
from morrow.engine.plan.consumers import CONSUMER_PREFIX
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import NO_WATERMARK, to_millis
from morrow.engine.redaction import get_logger
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage, make_append_changes
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.partition_expiry import PartitionExpiry
from morrow.writers.history.tag_periods import DASHED_DAY, MICRO, TagPeriod, WallTime, to_wall_time
from morrow.writers.history.tags import SUCCESS_SUFFIX as SUCCESS_FILE
from morrow.writers.history.tags import (
    Clock,
    TagFile,
    check_tag_name,
    delete_tags,
    list_tag_files,
    put_tag,
    read_local_time,
    read_tag_options,
    read_utc_clock,
    replace_tag,
    write_success,
    write_success_at,
)
from morrow.writers.target import WriteTarget

BATCH_PREFIX = "batch-write-"
BATCH_DAYS = TagPeriod(dt.timedelta(days=1) // MICRO, DASHED_DAY)

log = get_logger(__name__)

TagAction: TypeAlias = Callable[[Snapshot], object]


def find_tag_actions(target: WriteTarget, *, clock: Clock = read_utc_clock) -> list[TagAction]:
    """Return a writer's tag maintenance after commits, by the table's options; each action takes the last snapshot.

    The actions raise `StorageError`, and `CorruptFile` for damaged tags; the commit itself is durable by then.

    Raises:
        InvalidArgument, Unsupported: the options about tags are wrong.
    """
    options = parse_tag_options(target.schema.options, where=target.where)
    actions: list[TagAction] = []
    if options.creation in BY_PERIOD:
        actions.append(PeriodTags(target.metadata, options, clock).run)
    elif options.creation is TagCreation.BATCH:
        actions.append(BatchTags(target.metadata, options, clock).after)
    if options.expires:
        actions.append(lambda _: expire_tags(target.metadata, clock=clock))
    return actions


def create_due_tag(metadata: TableMetadata, *, now: dt.datetime | None = None) -> list[Tag]:
    """Create the tags of the periods that have ended; return the tags created.

    If tags are created by process time and nothing was committed since a period ended, an empty snapshot is committed
    to carry its tag, as in Java's streaming jobs. Each missing tag to complete gets an empty snapshot too. If tags are
    created by watermark or batch, a table without commits gets no tags.

    Args:
        now: the current time; None to read the clock.

    Raises:
        InvalidArgument, Unsupported: the options about tags are wrong. StorageError: call again.
    """
    options = read_tag_options(metadata)
    newest = metadata.latest_snapshot()
    if options.creation not in BY_PERIOD or newest is None:
        return []
    clock: Clock = read_utc_clock if now is None else lambda: now
    periods = PeriodTags(metadata, options, clock)
    made = periods.run(newest)
    while options.creation is TagCreation.PROCESS_TIME and periods.ended():
        found = periods.tag(_commit_empty_snapshot(metadata), periods.now())
        if not found:  # another process has created it, or it cannot have a name
            break
        made += found
    return made


def needs_empty_snapshot(target: WriteTarget, *, clock: Clock = read_utc_clock) -> bool:
    """Return whether a stream without changes should commit an empty snapshot, so that a period can be tagged.

    Raises as `find_tag_actions`, `StorageError`, and `CorruptFile` for damaged tags.
    """
    options = parse_tag_options(target.schema.options, where=target.where)
    if target.write.write_only or options.creation not in BY_PERIOD:
        return False
    periods = PeriodTags(target.metadata, options, clock)
    return periods.ended() if options.creation is TagCreation.PROCESS_TIME else periods.is_idle()


def _commit_empty_snapshot(metadata: TableMetadata) -> Snapshot:
    snapshot = TableCommit(WriteTarget.of(metadata)).commit((), keep_empty=True)
    assert snapshot is not None  # since empty commits are kept
    return snapshot


@dataclass
class PeriodTags:
    """Creator of a table's periodic tags, which keeps state between commits."""

    metadata: TableMetadata
    options: TagOptions
    clock: Clock = read_utc_clock
    _following: int | None = None
    """The first snapshot not examined yet; None before the tags were read."""
    _due: WallTime | None = None
    """The beginning of the period to tag next; None if the table has no automatic tags yet."""

    def __post_init__(self) -> None:
        self._period = TagPeriod.of(self.options)

    def run(self, newest: Snapshot) -> list[Tag]:
        """Tag the snapshots that are due, up to the newest; return the tags created.

        Times and watermarks grow with the ids of snapshots. So if the newest snapshot is not due, nothing is read, and
        the first due snapshot is found by bisection.
        """
        try:
            return self._run(newest)
        except MorrowError:
            self._following = self._due = None  # another process may have created tags too: read them first
            raise

    def _run(self, newest: Snapshot) -> list[Tag]:
        following = self._begin()
        made: list[Tag] = []
        while following <= newest.id and self._is_due(self._time(newest)):
            snapshot = self._first_due(following, newest)
            following = snapshot.id + 1
            made += self.tag(snapshot, self._time(snapshot))
        self._following = newest.id + 1
        return made

    def tag(self, snapshot: Snapshot, time: WallTime | None) -> list[Tag]:
        """Tag a snapshot of this time if it is due; return the tag, or an empty list if it existed already."""
        if time is None or not self._is_due(time):
            return []
        begin = self._period.last_ended(time)
        if self.options.completes and self._due is not None:
            begin = self._due
        name = self._period.name(begin)
        if name is None:
            return []
        made = put_tag(
            self.metadata, self.options, name, snapshot, time_retained=self.options.time_retained, clock=self.clock
        )
        self._due = self._period.next(begin)
        if self.options.most is not None:
            self._delete_oldest(self.options.most)
        return [] if made is None else [made]

    def ended(self) -> bool:
        """Return whether a period has ended by the clock but is not tagged yet."""
        self._begin()
        return self._is_due(self.now())

    def is_idle(self) -> bool:
        """Return whether the watermark has not moved for ``snapshot.watermark-idle-timeout``."""
        newest = self.metadata.latest_snapshot() if self.options.watermark_idle is not None else None
        if newest is None or newest.watermark is None or self.options.watermark_idle is None:
            return False
        return to_millis(self.clock() - self.options.watermark_idle) >= newest.watermark

    def now(self) -> WallTime | None:
        """Return the local time in the zone of process time."""
        return to_wall_time(to_millis(self.clock()), self.options.process_zone)

    def _begin(self) -> int:
        """Return the id of the snapshot to continue with: after the newest one with an automatic tag."""
        if self._following is not None:
            return self._following
        tagged = self._automatic()
        if not tagged:
            self._following = self.metadata.earliest_snapshot_id() or 1
            return self._following
        last = tagged[-1].tag.snapshot.id
        times = [self._period.time(file.tag.name) for file in tagged if file.tag.snapshot.id == last]
        self._due = self._period.next(max(time for time in times if time is not None))
        self._following = last + 1
        return self._following

    def _is_due(self, time: WallTime | None) -> bool:
        if time is None:
            return False
        return self._due is None or time - self.options.delay // MICRO >= self._period.next(self._due)

    def _time(self, snapshot: Snapshot) -> WallTime | None:
        """Return the time that decides on a snapshot's tag; None if it is missing or out of the calendar's range."""
        if self.options.creation is TagCreation.PROCESS_TIME:
            return to_wall_time(snapshot.time_millis, self.options.process_zone)
        if snapshot.watermark is None or snapshot.watermark == NO_WATERMARK:
            return None
        return to_wall_time(snapshot.watermark, self.options.watermark_zone)

    def _first_due(self, following: int, newest: Snapshot) -> Snapshot:
        """Return the first snapshot that is due; the newest one is known to be due."""
        ids = [i for i in self.metadata.living_snapshot_ids() if following <= i < newest.id]

        def due(snapshot_id: int) -> bool:
            found = self.metadata.snapshot_or_none(snapshot_id)
            return found is not None and self._is_due(self._time(found))

        at = bisect_left(ids, True, key=due)
        found = self.metadata.snapshot_or_none(ids[at]) if at < len(ids) else None
        return found or newest

    def _automatic(self) -> list[TagFile]:
        """Return the automatic tags, sorted by the ids of their snapshots."""
        return [file for file in list_tag_files(self.metadata) if self._period.is_automatic(file.tag.name)]

    def _delete_oldest(self, most: int) -> None:
        """Delete the automatic tags of all but the newest `most` tagged snapshots; other tags do not count and stay."""
        tagged = self._automatic()
        snapshots = sorted({file.tag.snapshot.id for file in tagged})
        old = set(snapshots[: max(len(snapshots) - most, 0)])
        _delete(self.metadata, [file.tag.name for file in tagged if file.tag.snapshot.id in old])


@dataclass(frozen=True)
class BatchTags:
    """Creator of a tag after each batch: ``batch-write-<day>``, which the next batch of that day moves."""

    metadata: TableMetadata
    options: TagOptions
    clock: Clock = read_utc_clock

    def after(self, snapshot: Snapshot) -> None:
        """Tag the snapshot of a batch; commits of streams are not tagged."""
        if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            self.run(snapshot)

    def run(self, snapshot: Snapshot) -> Tag | None:
        """Tag this snapshot; return None if another process created the tag at the same time."""
        name = self._name(snapshot)
        if name is None:
            return None
        tag = self._put(name, snapshot)
        if self.options.most is not None:
            _delete(self.metadata, self._oldest(self.options.most))
        return tag

    def _put(self, name: str, snapshot: Snapshot) -> Tag | None:
        retained = self.options.time_retained
        if not self.metadata.store.exists(self.metadata.paths.tag(name)):
            return put_tag(self.metadata, self.options, name, snapshot, time_retained=retained, clock=self.clock)
        tag = replace_tag(self.metadata, name, snapshot, time_retained=retained, clock=self.clock)
        if self.options.success_file:
            write_success(self.metadata, name, to_millis(self.clock()))
        return tag

    def _name(self, snapshot: Snapshot) -> str | None:
        if self.options.batch_name is not None:
            check_tag_name(self.options.batch_name, self.metadata.where)
            return self.options.batch_name
        time = to_wall_time(snapshot.time_millis, self.options.process_zone)
        return None if time is None else f"{BATCH_PREFIX}{BATCH_DAYS.name(time)}"

    def _oldest(self, most: int) -> list[str]:
        """Return the names of the tags beyond the limit: oldest snapshots first, then oldest files. All tags of the
        table count, as in Java."""
        files = sorted(list_tag_files(self.metadata), key=lambda file: (file.tag.snapshot.id, file.modified_millis))
        return [file.tag.name for file in files[: max(len(files) - most, 0)]]


def _delete(metadata: TableMetadata, names: list[str]) -> None:
    if names:
        log.info("%s: deleting the tags %s: 'tag.num-retained-max' asks for it", metadata.where, ", ".join(names))
        delete_tags(metadata, names)


def expire_tags(
    metadata: TableMetadata, *, older_than: dt.datetime | None = None, clock: Clock = read_utc_clock
) -> list[str]:
    """Delete tags whose retention has passed; return their names.

    Args:
        older_than: also delete tags created before this time (with its zone). The age of a tag without a retention is
            that of its file.

    Raises:
        CorruptFile: a tag file is damaged; nothing was deleted. StorageError: as `delete_tag`.
    """
    now = read_local_time(clock)
    before = None if older_than is None else read_local_time(lambda: older_than)
    due = [file for file in list_tag_files(metadata) if _is_due(file.tag, file.modified_millis, now, before)]
    # A tag may have been replaced since it was read.
    names = [
        tag.name
        for file in due
        if (tag := _present(metadata, file.tag.name)) and _is_due(tag, file.modified_millis, now, before)
    ]
    return delete_tags(metadata, names) if names else []


def _is_due(tag: Tag, modified_millis: int, now: dt.datetime, before: dt.datetime | None) -> bool:
    created, retained = tag.create_time, tag.time_retained
    if created is None or retained is None:
        if before is None:
            return False
        created = dt.datetime.fromtimestamp(modified_millis / MILLIS_PER_SECOND)
    return (retained is not None and now - created > retained) or (before is not None and created < before)


def _present(metadata: TableMetadata, name: str) -> Tag | None:
    try:
        return metadata.tag(name)
    except TagNotFound:
        return None


AfterCommit: TypeAlias = Callable[[Snapshot], None]
Action: TypeAlias = Callable[[Snapshot], object]


def commit_with_maintenance(target: WriteTarget) -> TableCommit:
    """Return a `TableCommit` that runs the maintenance that the table's options ask for."""
    return TableCommit(target, AutomaticMaintenance(target))


class AutomaticMaintenance:
    """Maintenance that the options of a table ask for around commits, which keeps state between commits."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    @cached_property
    def actions(self) -> list[AfterCommit]:
        """The actions to call after each commit."""
        return find_maintenance_actions(self._target)

    def wants_snapshot(self) -> bool:
        """Return whether a tag is due that needs its own snapshot."""
        try:
            return needs_empty_snapshot(self._target)
        except MorrowError as error:
            log.warning("%s: whether a tag is due is not known: %s", self._target.where, error)
            return False

    def before_commit(self, newest: Snapshot | None) -> None:
        """Prefetch from a remote store what the actions will read."""
        if newest is None or self._target.store.is_local:
            return
        for action in self.actions:
            if isinstance(action, _Quiet) and isinstance(action.action, _Expiry):
                action.action.begin(newest)

    def after_commit(self, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
        """Run the actions in their order, then mark the partitions that a batch has written (``write-only`` or not)."""
        for action in self.actions:
            action(snapshot)
        if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            _Quiet(self._target.where, lambda _: mark_written(self._target, messages))(snapshot)


def find_maintenance_actions(target: WriteTarget) -> list[AfterCommit]:
    """Return the actions to call with the last snapshot of each commit, in order; empty for ``write-only`` tables.

    The actions log a `MorrowError` as a warning instead of raising it.
    """
    if target.write.write_only:
        return []
    return [_Quiet(target.where, action) for find in _ACTIONS for action in _find_actions(find, target)]


def _find_actions(find: Callable[[WriteTarget], Iterable[Action]], target: WriteTarget) -> list[Action]:
    """Return the actions of one kind of maintenance; wrong options of this kind do not stop the other kinds."""
    try:
        return list(find(target))
    except MorrowError as error:
        log.warning("%s: a part of the maintenance after commits is left out: %s", target.where, error)
        return []


def _find_partition_actions(target: WriteTarget) -> Iterator[Action]:
    expiry = PartitionExpiry.of(target)
    if expiry is not None:
        yield _Partitions(expiry).run


def _find_consumer_actions(target: WriteTarget) -> Iterator[Action]:
    if parse_consumer_expiration(target.schema.options, where=target.where) is not None:
        yield lambda _: expire_consumers(target.metadata)


def _find_snapshot_actions(target: WriteTarget) -> Iterator[Action]:
    options = parse_expire_options(target.schema.options, where=target.where)
    yield _Expiry(options.snapshots, _Snapshots(target.metadata, options.limit))
    if options.decoupled:
        yield _Expiry(options.changelogs, _Changelogs(target.metadata, options.limit))


_ACTIONS: tuple[Callable[[WriteTarget], Iterable[Action]], ...] = (
    find_tag_actions,
    _find_partition_actions,
    _find_consumer_actions,
    _find_snapshot_actions,
)
"""The kinds of maintenance, in the order in which they run."""


@dataclass(frozen=True)
class _Quiet:
    """An action that logs its errors."""

    where: str
    action: Action

    def __call__(self, snapshot: Snapshot) -> None:
        try:
            self.action(snapshot)
        except MorrowError as error:
            log.warning("%s: snapshot %d is committed; cleaning up after it failed: %s", self.where, snapshot.id, error)


@dataclass(frozen=True)
class _Partitions:
    expiry: PartitionExpiry

    def run(self, snapshot: Snapshot) -> None:
        if self.expiry.due(identifier=snapshot.commit_identifier):
            self.expiry.run()


@dataclass(frozen=True)
class _Snapshots:
    metadata: TableMetadata
    limit: int

    def earliest(self) -> Snapshot | None:
        earliest = self.metadata.earliest_snapshot_id()
        return None if earliest is None else self.metadata.snapshot_or_none(earliest)

    def expire(self) -> int:
        from morrow.writers.history.snapshot_expiry import expire_snapshots

        return expire_snapshots(self.metadata, max_deletes=self.limit)


@dataclass(frozen=True)
class _Changelogs:
    metadata: TableMetadata
    limit: int

    def earliest(self) -> Snapshot | None:
        ids = list_living_changelog_ids(self.metadata)
        return read_changelog_or_none(self.metadata, ids[0]) if ids else None

    def expire(self) -> int:
        from morrow.writers.history.snapshot_expiry import expire_changelogs

        return expire_changelogs(self.metadata, max_deletes=self.limit)


class _Expiry:
    """Expiry that runs when the earliest known root is due. Other processes only remove roots, so no due root is
    missed.

    While it is not due, a commit costs nothing here.
    """

    def __init__(self, retention: Retention, roots: _Snapshots | _Changelogs) -> None:
        self._retention, self._roots = retention, roots
        self._earliest: Snapshot | None = None
        self._looking: Callable[[], Snapshot | None] | None = None

    def begin(self, newest: Snapshot) -> None:
        """Look up the earliest root at the same time as the other requests of a commit to a remote store."""
        if self._earliest is None and self._looking is None and self._may_be_due(newest.id + 1):
            self._looking = start_request(self._roots.metadata.store, self._roots.earliest)

    def __call__(self, newest: Snapshot) -> None:
        looking, self._looking = self._looking or self._roots.earliest, None
        if not self._may_be_due(newest.id):
            return
        if self._earliest is None:
            self._earliest = looking()
        if self._earliest is not None and self._is_due(self._earliest, newest):
            self._roots.expire()
            self._earliest = None

    def _may_be_due(self, newest_id: int) -> bool:
        """Return whether there may be more snapshots than the minimum that is kept: their ids begin at 1."""
        return newest_id > min(self._retention.least, self._retention.most)

    def _is_due(self, earliest: Snapshot, newest: Snapshot) -> bool:
        from morrow.writers.history.snapshot_expiry import read_clock_millis

        count = newest.id - earliest.id + 1
        is_old = earliest.time_millis < read_clock_millis() - self._retention.millis
        return count > self._retention.most or (count > self._retention.least and is_old)


MARKS = {"success-file"}
"""The values of ``partition.mark-done-action`` that Morrow supports."""


def mark_written(target: WriteTarget, messages: Sequence[CommitMessage]) -> None:
    """Mark the partitions of written rows as done, if ``partition.end-input-to-done`` is set.

    Compactions mark nothing. Actions that Morrow lacks are logged. Raises as `mark_done`.
    """
    if not target.partition_fields or not target.write.given.get(PARTITION_END_INPUT_TO_DONE):
        return
    actions = list_mark_actions(target)
    written = {each.partition for each in messages if not make_append_changes([each]).is_empty}
    if written and actions - MARKS:
        names = ", ".join(sorted(actions - MARKS))
        log.warning("%s: '%s': Morrow lacks %s", target.where, PARTITION_MARK_DONE_ACTION.key, names)
    if actions & MARKS:
        mark_done(target, [target.partition_folder(partition) for partition in sorted(written)])


def list_mark_actions(target: WriteTarget) -> set[str]:
    """Return the values of ``partition.mark-done-action``."""
    return set(parse_names(target.write.given.get(PARTITION_MARK_DONE_ACTION)))


def mark_done(target: WriteTarget, folders: Iterable[str]) -> list[str]:
    """Write a file ``_SUCCESS`` into each folder (relative to the table); return the paths. Raises `StorageError`,
    and `CorruptFile` for a file that is there and damaged."""
    from morrow.writers.history.snapshot_expiry import read_clock_millis

    paths = [f"{target.metadata.root}/{folder}/{SUCCESS_FILE}" for folder in folders]
    for path in paths:
        write_success_at(target.metadata, path, read_clock_millis())
    return paths


def expire_consumers(metadata: TableMetadata, *, older_than_millis: int | None = None) -> list[str]:
    """Remove the consumers of a branch whose file was last written before a moment.

    Args:
        older_than_millis: the moment in epoch milliseconds; None: now minus ``consumer.expiration-time`` of the newest
            schema, or nothing is removed if the option is not set.

    Returns: the names of the removed consumers, sorted.

    Raises:
        InvalidArgument: the option does not parse. StorageError: a file could not be removed; all others were.
    """
    moment = older_than_millis
    if moment is None:
        kept = parse_consumer_expiration(metadata.newest_options(), where=metadata.where)
        if kept is None:
            return []
        moment = time.time_ns() // 1_000_000 - kept // timedelta(milliseconds=1)
    folder = f"{metadata.paths.branch_root}/consumer"
    old = [
        status.name
        for status in metadata.store.list(folder)
        if status.name.startswith(CONSUMER_PREFIX) and not status.is_dir and status.modified_millis < moment
    ]
    if old:
        metadata.store.delete_many([f"{folder}/{name}" for name in old])
    return sorted(name.removeprefix(CONSUMER_PREFIX) for name in old)


def parse_consumer_expiration(raw: Mapping[str, str], *, where: str) -> timedelta | None:
    """Return how long a consumer may be inactive; None: forever. Raises `InvalidArgument` if the option is invalid."""
    return Options(raw, where).get(CONSUMER_EXPIRATION_TIME)
