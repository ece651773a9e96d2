"""Automatic tags: creation at the end of a period or of a batch, and expiry.

A snapshot gets the tag of the last period that ended, with the delay added, before the snapshot's time (its commit time
or watermark, as local time of a zone). The tags show which period was tagged last, so any later committer continues
from there. Source: Java's TagAutoCreation and TagBatchCreation. As in Java, tags expire by the local time since their
creation.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from morrow.engine.errors import MorrowError, TagNotFound
from morrow.engine.format.snapshot import Snapshot, Tag
from morrow.engine.options.declarations import TagCreation
from morrow.engine.options.retention import BY_PERIOD, TagOptions, parse_tag_options
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import NO_WATERMARK, to_millis
from morrow.engine.redaction import get_logger
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.history.tag_periods import DASHED_DAY, MICRO, TagPeriod, WallTime, to_wall_time
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
)
from morrow.writers.target import WriteTarget

BATCH_PREFIX = "batch-write-"
BATCH_DAYS = TagPeriod(dt.timedelta(days=1) // MICRO, DASHED_DAY)

log = get_logger(__name__)

AfterCommit: TypeAlias = Callable[[Snapshot], object]


def find_tag_actions(target: WriteTarget, *, clock: Clock = read_utc_clock) -> list[AfterCommit]:
    """Return a writer's tag maintenance after commits, by the table's options; each action takes the last snapshot.

    The actions raise `StorageError`, and `CorruptFile` for damaged tags; the commit itself is durable by then.

    Raises `InvalidArgument`, `Unsupported`: the options about tags are wrong.
    """
    options = parse_tag_options(target.schema.options, where=target.where)
    actions: list[AfterCommit] = []
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

    `now`: the current time; None to read the clock.

    Raises `InvalidArgument`, `Unsupported`: the options about tags are wrong. `StorageError`: call again.
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

    Raises `CorruptFile`: a tag file is damaged; nothing was deleted. `StorageError`: as `delete_tag`.
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
