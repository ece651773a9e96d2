"""Plans of streams and of batch reads.

An offset of a stream records what has been read, and the start of its batch:
{"snapshot": 7, "since": 4, "full": false} has the changes of the snapshots 5, 6 and 7;
{"snapshot": 4, "since": 4, "full": true} has all rows of snapshot 4, as insertions;
{"snapshot": 4, "begin": "full"} is the start of a new query, before any read.
The end of a batch also has the member ``at``: the commit time of its snapshot, in epoch milliseconds. By this time
a different snapshot with the same number is recognised, after the table was rolled back or recreated.
`AHEAD` marks the offset of a query that starts with a snapshot which does not exist yet. In any other offset a
snapshot above the newest one has been read and then removed.
A batch is planned from its end only. Spark keeps ends in the checkpoint, but requests the start of the query again
when it repeats the first batch, and by then the start may have moved. For the same reason the first batch is run
even if there is nothing to read: from then on the checkpoint holds the start of the query.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import InvalidArgument, SnapshotExpired, SnapshotNotFound, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.options.declared import scans
from morrow.engine.options.table_options import StreamOptions as StoredOptions
from morrow.engine.options.table_options import parse_stream_options
from morrow.engine.plan import incremental as planned
from morrow.engine.plan.changelogs import find_snapshot_or_changelog
from morrow.engine.plan.consumers import Consumers, ReadCommit
from morrow.engine.plan.incremental import ROWKIND_FIELD, Changes, Difference
from morrow.engine.plan.predicate import And, Predicate
from morrow.engine.plan.scan_plan import DataFile
from morrow.engine.structs import replace
from morrow.scans.changes import leave_out_unreadable, make_request, resolve_start
from morrow.scans.table_scan import Scan
from morrow.spark.source.messages import Piece
from morrow.spark.source.options import NO_END, Limit, Options, StreamOptions
from morrow.spark.source.partitions import divide_plan, make_change_pieces
from morrow.spark.source.schemas import check_schema, open_metadata, scan_of, to_nullable_schema
from morrow.spark.source.settings import CHANGES, FULL
from morrow.writers.target import with_dynamic_options

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from morrow.engine.format.snapshot import Snapshot

Offset = dict[str, Any]

NOTHING = 0
"""The offset before the first snapshot."""
AHEAD = "ahead"
AT = "at"


class StreamPlanner:
    """A planner of a stream of one table. Raises as `find_schema`."""

    def __init__(self, options: Options) -> None:
        asked = options.stream()
        self._metadata = with_dynamic_options(open_metadata(options.place()), asked.table)
        self._request = make_request(self._metadata, asked.columns, asked.filter, raw=asked.raw)
        _ = self._request.followed_mode  # raises for a table that cannot be followed
        said = parse_stream_options(self._request.options.given, begins=not asked.begins)
        _refuse_ends(said, self._metadata.where)
        self._begins_anew = said.begins_anew and asked.consumer_id is None
        self._asked = _complete_options(asked, said)
        self._consumers = Consumers(self._metadata)
        self._recorded: int | None = None
        self._last: int | None = None
        self._ended_at: float | None = None
        self._planned: dict[int, Changes | None] = {}

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> StreamPlanner:
        options = Options(given)
        planner = cls(options)
        try:
            check_schema(schema, planner.fields)
        except InvalidArgument as error:
            if options.is_stream:
                raise
            # `find_schema` could not know that this is a stream, and returned the columns of the snapshot.
            raise InvalidArgument(f"{error}; if you gave none, add .option('scan.mode', 'from-snapshot')") from error
        return planner

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows."""
        return (ROWKIND_FIELD, *self._columns) if self._asked.kinds else self._columns

    # --- offsets ---

    def initial(self) -> Offset:
        """Return the offset at which a new query begins."""
        asked = self._asked
        recorded = None
        if asked.consumer_id is not None and not self._begins_anew:
            recorded = self._consumers.progress(asked.consumer_id)
        if recorded is not None:
            at = {} if recorded.read is None else {AT: recorded.read.time_millis}
            return {"snapshot": recorded.next_snapshot - 1, "begin": "changes", **at}
        if asked.start == FULL:
            return self._all_rows(asked.starting_snapshot)
        if asked.starting_snapshot is not None:
            return {"snapshot": asked.starting_snapshot - 1, "begin": "changes"}
        if asked.starting_timestamp is not None:
            return {"snapshot": resolve_start(self._metadata, None, asked.starting_timestamp), "begin": "changes"}
        # Paimon's source of Spark begins with the changes of the newest snapshot, its source of Flink after them.
        return {"snapshot": max(self._newest() - 1, NOTHING), "begin": "changes"}

    def _all_rows(self, snapshot: int | None) -> Offset:
        """Return the offset that starts with all rows of a snapshot, by default the newest."""
        newest = self._newest() if snapshot is None else self._metadata.snapshot(snapshot).id
        return {"snapshot": newest, "begin": "changes" if newest == NOTHING else FULL}

    def read_limit(self) -> Limit | None:
        """Return the default limit of a batch."""
        asked = self._asked
        if asked.limit is not None:
            return asked.limit
        # Spark does not support limits of snapshots, nor a minimum of rows: `latest` applies both, provided that
        # some limit is set.
        return None if asked.most_snapshots is None and asked.least_rows is None else NO_END

    def refuse_limits(self) -> None:
        """Raise `Unsupported` if the options set a limit."""
        if self.read_limit() is not None:
            raise Unsupported("limits of what a batch of a stream takes, before Spark 4.2", hint="leave them out")

    def latest(self, start: Offset, limit: Limit | None) -> Offset:
        """Return the end of the batch after `start`, or `start` itself if there is nothing new, or not enough yet.

        Records that `start` was reached: after the last batch of a query, no later call would do so.
        """
        since = int(start["snapshot"])
        if start.get("begin") == FULL:
            return self._ends({"snapshot": since, "since": since, "full": True})
        newest = self._newest() if self._last is None else self._last
        is_ahead = newest < since and AT not in start and ("begin" in start or start.get(AHEAD, False))
        if newest < since and not is_ahead:
            raise self._make_reset_error(f"the newest snapshot is {newest}, and the stream has read {since}")
        if newest >= since:
            self._check_same(since, start.get(AT))
        if "begin" not in start:
            self.processed(start)
        if "begin" not in start and (newest <= since or self._waits(since, newest, limit)):
            return start
        end = since if newest <= since else self._end(since, newest, limit)
        ahead = {AHEAD: True} if is_ahead else {}
        return self._ends({"snapshot": end, "since": since, "full": False, **ahead})

    def newest(self) -> Offset:
        """Return the offset of the newest snapshot, for Spark's progress reports."""
        return {"snapshot": self._newest()}

    def stop_at_newest(self) -> None:
        """Make the stream end at the current newest snapshot."""
        self._last = self._newest()

    def processed(self, end: Offset) -> None:
        """Record the progress of the consumer, if there is one: expiry keeps the snapshots from that point on.

        Raises `StorageError`: the record cannot be written.
        """
        following = int(end["snapshot"]) + 1
        if self._asked.consumer_id is not None and following != self._recorded:
            read = self._commit_of(following - 1)
            self._consumers.record(self._asked.consumer_id, following, None if read is None else ReadCommit.of(read))
            self._recorded = following

    def _ends(self, end: Offset) -> Offset:
        if end["full"] or int(end["snapshot"]) > int(end["since"]):  # no wait follows a batch without rows
            self._ended_at = time.monotonic()
        at = self._find_commit_time(int(end["snapshot"]))
        return end if at is None else {**end, AT: at}

    def _find_commit_time(self, snapshot: int) -> int | None:
        """Return the commit time of a snapshot in epoch milliseconds; None if it does not exist."""
        commit = self._commit_of(snapshot)
        return None if commit is None else commit.time_millis

    def _commit_of(self, snapshot: int) -> Snapshot | None:
        try:
            return None if snapshot == NOTHING else find_snapshot_or_changelog(self._metadata, snapshot)
        except SnapshotNotFound:
            return None

    def _check_same(self, read: int, at: int | None) -> None:
        """Raise `SnapshotNotFound` if the snapshot with a number is not the one that was read."""
        now = None if at is None else self._find_commit_time(read)
        if now not in (None, at):
            raise self._make_reset_error(f"snapshot {read} is another than the one that the stream has read")

    def _make_reset_error(self, what: str) -> SnapshotNotFound:
        hint = "the table was rolled back, or created again; begin again with another checkpoint"
        return SnapshotNotFound(f"{self._metadata.where}: {what}: {hint}")

    def _waits(self, since: int, newest: int, limit: Limit | None) -> bool:
        """Return whether there are too few rows for a batch, and the last batch is recent enough to wait."""
        least = self._asked.least_rows
        if least is None or limit is None or self._last is not None or self._ended_at is None:
            return False
        if time.monotonic() - self._ended_at >= least.within_seconds:
            return False
        counted = Limit("rows", least.rows)
        return sum(self._size(snapshot, counted) for snapshot in range(since + 1, newest + 1)) < least.rows

    def _end(self, since: int, newest: int, limit: Limit | None) -> int:
        """Return the last snapshot of a batch: the first always fits, others as long as they are within the limit."""
        if limit is None:
            return newest
        if self._asked.most_snapshots is not None:
            newest = min(newest, since + self._asked.most_snapshots)
        size = 0
        for snapshot in range(since + 1, newest + 1) if limit != NO_END else ():
            size += self._size(snapshot, limit)
            if size > limit.most:
                return max(snapshot - 1, since + 1)
        return newest

    def _size(self, snapshot: int, limit: Limit) -> int:
        return sum(map(limit.size, _list_files(self._changes(snapshot))))

    def _newest(self) -> int:
        newest = self._metadata.latest_snapshot()
        return NOTHING if newest is None else newest.id

    # --- batches ---

    def partitions(self, start: Offset, end: Offset) -> list[Piece]:
        """Return the partitions of the batch that ends at `end`.

        Raises:
            SnapshotExpired: changes have been removed before they were read.
        """
        if start == end:
            return []
        if "since" not in end:  # from a Spark that does not pass the query's progress; see UnlimitedStreamReader
            end = end | {"since": start["snapshot"], "full": start.get("begin") == FULL}
        since, last = int(end["since"]), int(end["snapshot"])
        parts: Sequence[Changes | None]
        if end["full"]:
            parts = [planned.plan_full_rows(self._metadata, self._request, self._metadata.snapshot(last))]
        else:
            parts = [self._changes(snapshot) for snapshot in range(since + 1, last + 1)]
            self._planned = {}
        store = self._metadata.store
        read = [leave_out_unreadable(part, store, self._request) for part in parts if part is not None]
        return make_change_pieces(read, self._columns, self._metadata.store, with_kinds=self._asked.kinds)

    @property
    def _columns(self) -> tuple[DataField, ...]:
        return tuple(self._request.schema.by_name[name] for name in self._request.columns)

    def _changes(self, snapshot_id: int) -> Changes | None:
        if snapshot_id not in self._planned:
            snapshot = self._snapshot(snapshot_id)
            self._planned[snapshot_id] = planned.plan_stream_changes(self._metadata, self._request, snapshot)
        return self._planned[snapshot_id]

    def _snapshot(self, snapshot_id: int) -> Snapshot:
        try:
            return find_snapshot_or_changelog(self._metadata, snapshot_id)
        except SnapshotNotFound as error:
            hint = (
                "begin again with another checkpoint, or keep snapshots for longer than the stream stands still "
                "(snapshot.time-retained, or a consumer)"
            )
            raise SnapshotExpired(f"{error}; the stream has not read its changes yet: {hint}") from None


def _refuse_ends(said: StoredOptions, where: str) -> None:
    """Refuse stored stream options that Spark queries do not support."""
    for option, value in (
        (scans.SCAN_BOUNDED_WATERMARK, said.bound),
        (scans.STREAMING_READ_SNAPSHOT_DELAY, said.delay),
    ):
        if value is not None:
            hint = "reset the option, or read by Table.stream"
            raise Unsupported(f"a stream of Spark over a table with the option {option}", where=where, hint=hint)


def _complete_options(asked: StreamOptions, said: StoredOptions) -> StreamOptions:
    """Return the options of a query, completed by the options stored with the table."""
    completed = replace(asked, consumer_id=asked.consumer_id or said.consumer_id)
    if asked.begins:
        return completed
    start = FULL if said.start == FULL else CHANGES
    return replace(completed, start=start, starting_snapshot=said.snapshot, starting_timestamp=said.timestamp)


def _list_files(part: Changes | None) -> Iterator[DataFile]:
    if part is None:
        return
    plans = (part.before, part.after) if isinstance(part, Difference) else (part.plan,)
    for plan in plans:
        yield from plan.files


def find_schema(given: Mapping[str, str]) -> StructType:
    """Return the schema of a read with these options. Without stream options, it is the schema of a batch.

    Raises:
        TableNotFound, SnapshotNotFound, TagNotFound, BranchNotFound: no such table or state.
        ColumnNotFound, InvalidArgument: an option is wrong. Unsupported: a type that Spark does not have.
    """
    options = Options(given)
    return to_nullable_schema(StreamPlanner(options).fields if options.is_stream else scan_of(options).fields)


@dataclass
class BatchPlanner:
    """The plan of a single read, to which Spark adds filters."""

    scan: Scan
    pushed: list[Predicate] = field(default_factory=list)

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> BatchPlanner:
        """Plan a read by options. Raises as `find_schema`, and `InvalidArgument` for another schema than the
        table's.
        """
        scan = scan_of(Options(given))
        check_schema(schema, scan.fields)
        return cls(scan)

    def push(self, filters: Iterable[Filter]) -> list[Filter]:
        """Accept the filters that can be translated exactly; return the others for Spark to test."""
        from morrow.spark.expressions import translate_filter

        fields = {field.name: field for field in self.scan.fields}
        left = []
        for one in filters:
            predicate = translate_filter(one, fields)
            if predicate is None:
                left.append(one)
            else:
                self.pushed.append(predicate)
        return left

    def partitions(self) -> list[Piece]:
        """Return the plan's sections, grouped into partitions."""
        scan = self.scan.narrowed(filter=And(tuple(self.pushed))) if self.pushed else self.scan
        return divide_plan(scan.plan, scan.store)
