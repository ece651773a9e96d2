"""Plans of streams: which changes a micro-batch reads.

An offset says what has been read, and how its batch got there:

    {"snapshot": 7, "since": 4, "full": false}    the changes of the snapshots 5, 6 and 7
    {"snapshot": 4, "since": 4, "full": true}     all rows of snapshot 4, as insertions
    {"snapshot": 4, "begin": "full"}              where a new query begins: nothing has been read

A batch is planned from its end alone. Spark keeps ends in the checkpoint, but asks anew where the query begins when
the very first batch is repeated, and by then that may be somewhere else. For the same reason the first batch is run
even when there is nothing to read: from then on the checkpoint knows where the query began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

from morrow.changes import make_request, start_of
from morrow.engine.errors import SnapshotExpired, SnapshotNotFound, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.plan import changes as planned
from morrow.engine.plan.change_ranges import snapshot_or_changelog
from morrow.engine.plan.changes import ROWKIND_FIELD, Changes, Difference
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.scan_plan import DataFile
from morrow.spark.source.options import Options
from morrow.spark.source.pieces import change_pieces
from morrow.spark.source.plain import Piece
from morrow.spark.source.schemas import check_schema, metadata_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from morrow.engine.format.snapshot import Snapshot

Offset = dict[str, Any]

NOTHING = 0
"""The offset before the first snapshot."""

LIMITS: Mapping[str, Callable[[int], ReadLimit]] = {"files": ReadMaxFiles, "bytes": ReadMaxBytes, "rows": ReadMaxRows}
UNBOUNDED = 2**63 - 1


class StreamPlanner:
    """Follows one table. Raises as `schemas.schema_of`."""

    def __init__(self, options: Options) -> None:
        self._asked = options.stream()
        self._metadata = metadata_of(options.place())
        self._request = make_request(self._metadata, self._asked.columns, self._asked.filter)
        self._consumers = Consumers(self._metadata)
        self._last: int | None = None
        self._planned: dict[int, Changes | None] = {}

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> StreamPlanner:
        planner = cls(Options(given))
        check_schema(schema, planner.fields)
        return planner

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows."""
        return (ROWKIND_FIELD, *self._columns) if self._asked.kinds else self._columns

    # --- offsets ---

    def initial(self) -> Offset:
        """Where a new query begins."""
        asked = self._asked
        recorded = None if asked.consumer_id is None else self._consumers.next_snapshot(asked.consumer_id)
        if recorded is not None:
            return {"snapshot": recorded - 1, "begin": "changes"}
        if asked.starting_snapshot is not None:
            return {"snapshot": asked.starting_snapshot - 1, "begin": "changes"}
        if asked.starting_timestamp is not None:
            return {"snapshot": start_of(self._metadata, None, asked.starting_timestamp), "begin": "changes"}
        newest = self._newest()
        full = asked.start == "full" and newest != NOTHING
        return {"snapshot": newest, "begin": "full" if full else "changes"}

    def read_limit(self) -> ReadLimit:
        """What one batch takes, unless Spark says otherwise."""
        if self._asked.limit is not None:
            what, size = self._asked.limit
            return LIMITS[what](size)
        # Spark has no limit of snapshots; it is `latest` that counts them, as long as there is a limit at all.
        return ReadAllAvailable() if self._asked.most_snapshots is None else ReadMaxFiles(UNBOUNDED)

    def latest(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the batch after `start` ends; `start` itself when there is nothing new."""
        since = int(start["snapshot"])
        if start.get("begin") == "full":
            return {"snapshot": since, "since": since, "full": True}
        newest = self._newest() if self._last is None else self._last
        end = since if newest <= since else self._end(since, newest, limit)
        if end == since and "begin" not in start:
            return start
        return {"snapshot": end, "since": since, "full": False}

    def newest(self) -> Offset | None:
        """The newest snapshot, for Spark's report of progress."""
        return {"snapshot": self._newest()}

    def stop_at_newest(self) -> None:
        """Read what is there now, and no more."""
        self._last = self._newest()

    def processed(self, end: Offset) -> None:
        """Record what the consumer, if there is one, has read: expiry leaves alone the snapshots from there on.

        Raises:
            StorageError: it cannot be written.
        """
        if self._asked.consumer_id is not None:
            self._consumers.record(self._asked.consumer_id, int(end["snapshot"]) + 1)

    def _end(self, since: int, newest: int, limit: ReadLimit) -> int:
        """The last snapshot of a batch: the first one in any case, others as long as they stay within the limit."""
        if isinstance(limit, ReadAllAvailable):
            return newest
        if self._asked.most_snapshots is not None:
            newest = min(newest, since + self._asked.most_snapshots)
        most, size_of = _measure(limit)
        size = 0
        for snapshot in range(since + 1, newest + 1):
            size += sum(map(size_of, _files(self._changes(snapshot))))
            if size > most:
                return max(snapshot - 1, since + 1)
        return newest

    def _newest(self) -> int:
        newest = self._metadata.latest_snapshot()
        return NOTHING if newest is None else newest.id

    # --- batches ---

    def partitions(self, start: Offset, end: Offset) -> list[Piece]:
        """What the batch that ends at `end` reads.

        Raises:
            SnapshotExpired: changes that were not read yet are gone.
        """
        if start == end or "since" not in end:
            return []
        since, last = int(end["since"]), int(end["snapshot"])
        parts: Sequence[Changes | None]
        if end["full"]:
            parts = [planned.full_rows(self._metadata, self._request, self._metadata.snapshot(last))]
        else:
            parts = [self._changes(snapshot) for snapshot in range(since + 1, last + 1)]
            self._planned = {}
        read = [part for part in parts if part is not None]
        return change_pieces(read, self._columns, self._metadata.store, with_kinds=self._asked.kinds)

    @property
    def _columns(self) -> tuple[DataField, ...]:
        return tuple(self._request.schema.by_name[name] for name in self._request.columns)

    def _changes(self, snapshot_id: int) -> Changes | None:
        if snapshot_id not in self._planned:
            snapshot = self._snapshot(snapshot_id)
            self._planned[snapshot_id] = planned.followed(self._metadata, self._request, snapshot)
        return self._planned[snapshot_id]

    def _snapshot(self, snapshot_id: int) -> Snapshot:
        try:
            return snapshot_or_changelog(self._metadata, snapshot_id)
        except SnapshotNotFound as error:
            hint = (
                "begin anew with another checkpoint, or keep snapshots for longer than the stream stands still "
                "(snapshot.time-retained, or a consumer)"
            )
            raise SnapshotExpired(f"{error}; the stream has not read its changes yet: {hint}") from error


def _measure(limit: ReadLimit) -> tuple[int, Callable[[DataFile], int]]:
    """How much a limit allows, and what a file counts."""
    if isinstance(limit, ReadMaxFiles):
        return limit.max_files, lambda _: 1
    if isinstance(limit, ReadMaxBytes):
        return limit.max_bytes, lambda file: file.size
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows, lambda file: file.row_count
    raise Unsupported(f"the limit {type(limit).__name__} of a stream")


def _files(part: Changes | None) -> Iterator[DataFile]:
    if part is None:
        return
    plans = (part.before, part.after) if isinstance(part, Difference) else (part.plan,)
    for plan in plans:
        yield from plan.files
