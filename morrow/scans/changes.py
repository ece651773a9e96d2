"""Changes of a table between snapshots, and streams that follow new snapshots."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from morrow.engine.errors import InvalidArgument, SnapshotExpired, SnapshotNotFound, Unsupported
from morrow.engine.format.schema import ROWKIND, refuse_unreadable
from morrow.engine.options.table_options import FULL, LATEST, parse_stream_options
from morrow.engine.plan import incremental as planned
from morrow.engine.plan.changelogs import (
    find_id_at,
    find_oldest_change,
    find_snapshot_or_changelog,
    list_snapshots_between,
)
from morrow.engine.plan.consumers import Consumers, ReadCommit
from morrow.engine.plan.filter import FilterLike, parse_filter
from morrow.engine.plan.incremental import ROWKIND_FIELD, ChangesMode, ChangesRequest
from morrow.engine.plan.time_travel import Time, Travel, resolve_travel, to_millis
from morrow.engine.polars_threads import check_process
from morrow.engine.redaction import clean_text
from morrow.engine.structs import replace
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.scans.arguments import check_batch_rows, check_columns
from morrow.scans.result import Rows

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    import polars as pl
    import pyarrow as pa

    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.format.types import DataField
    from morrow.engine.io.store import FileStore
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.engine.plan.scan_plan import ScanPlan

Mode = Literal["auto", "delta", "changelog", "diff", "raw"]
FIRST_SNAPSHOT = 1


class Changes(Rows):
    """Changed rows with the leading column ``rowkind``: +I, -U, +U or -D.

    Rows are ordered by snapshot, then by bucket. `snapshot` is the last snapshot included (None for a table without
    snapshots). If `is_full`, the changes are all rows of that snapshot as insertions.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        request: ChangesRequest,
        parts: Sequence[planned.Changes],
        snapshot: Snapshot | None,
        *,
        is_full: bool = False,
    ) -> None:
        self._metadata = metadata
        self._request = request
        self._parts = tuple(leave_out_unreadable(part, metadata.store, request) for part in parts)
        self.snapshot = snapshot
        self.is_full = is_full

    @property
    def snapshot_id(self) -> int | None:
        """The id of `snapshot`."""
        return None if self.snapshot is None else self.snapshot.id

    @property
    def compares(self) -> bool:
        """Whether two snapshots are compared."""
        return any(isinstance(part, planned.Difference) for part in self._parts)

    @property
    def is_empty(self) -> bool:
        """Whether the changes are empty because there is no file to read."""
        return not self._parts

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, ``rowkind`` first, in their Paimon types."""
        return (ROWKIND_FIELD, *self._fields)

    @property
    def title(self) -> str:
        """The table's path."""
        return self._metadata.where

    @property
    def _fields(self) -> tuple[DataField, ...]:
        return tuple(self._request.schema.by_name[name] for name in self._request.columns)

    def to_polars(self) -> pl.DataFrame:
        """Return all changes as a Polars DataFrame."""
        from morrow.readers.execution import changelog

        return changelog.to_polars(self._parts, self._fields, self._metadata.store)

    def to_arrow(self) -> pa.Table:
        """Return all changes as an Arrow table with exactly `schema`."""
        from morrow.readers.execution import changelog

        return changelog.to_arrow(self._parts, self._fields, self._metadata.store)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield changes as record batches, in bounded memory (mode ``diff`` holds all its changes)."""
        from morrow.readers.execution import changelog, execute

        rows = check_batch_rows(batch_rows) or execute.DEFAULT_BATCH_ROWS
        return changelog.to_batches(self._parts, self._fields, self._metadata.store, rows)

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Return `to_batches` as an Arrow record batch reader."""
        from morrow.readers.execution import changelog, execute

        rows = check_batch_rows(batch_rows) or execute.DEFAULT_BATCH_ROWS
        return changelog.open_batch_reader(self._parts, self._fields, self._metadata.store, rows)

    def count(self) -> int:
        """Return the number of changes."""
        return sum(batch.num_rows for batch in self.to_batches())

    def __repr__(self) -> str:
        what = "all rows" if self.is_full else "changes"
        return clean_text(f"Changes({self._metadata.where!r}, {what} of snapshot {self.snapshot_id})")


def leave_out_unreadable(part: planned.Changes, store: FileStore, request: ChangesRequest) -> planned.Changes:
    """Return the changes without the files that options allow to be unreadable. Raises as planning does."""
    if not request.options.skips_files:
        return part
    from morrow.readers.execution import verification

    def kept(plan: ScanPlan) -> ScanPlan:
        return verification.leave_out_unreadable(plan, store, request.options)

    if isinstance(part, planned.Difference):
        return replace(part, before=kept(part.before), after=kept(part.after))
    return replace(part, plan=kept(part.plan))


def make_request(
    metadata: TableMetadata, columns: Sequence[str] | None, filter: FilterLike | None, *, raw: bool = False
) -> ChangesRequest:
    """Check columns and filter against the newest schema, in which changes are read; `raw` as in `ChangesRequest`.

    Raises:
        ColumnNotFound, InvalidArgument: the call is wrong, or a column has the name of the row kind.
    """
    schema = metadata.latest_schema()
    refuse_unreadable(schema, metadata.where)
    options = metadata.options(schema)
    if options.chain is not None and metadata.branch not in options.chain:
        hint = f"read the changes of its branch {options.chain[1]!r}"
        raise Unsupported("changes of a whole chain table", where=metadata.where, hint=hint)
    names = tuple(schema.by_name) if columns is None else check_columns(columns)
    if ROWKIND in names:
        raise InvalidArgument(
            f"{metadata.where}: the column {ROWKIND!r} has the name of the column with the row kinds; "
            "leave it out by columns=[...]"
        )
    for name in names:
        schema.column(name)
    if not names:
        raise InvalidArgument("changes of no columns: name at least one")
    return ChangesRequest(schema, options, names, parse_filter(filter, schema.fields), raw)


def make_changes(
    metadata: TableMetadata,
    from_snapshot: int | str | None,
    to_snapshot: int | str | None,
    *,
    mode: Mode,
    columns: Sequence[str] | None,
    filter: FilterLike | None,
    from_timestamp: Time | None,
    to_timestamp: Time | None,
) -> Changes:
    """Plan the changes between two snapshots; see `Table.changes`."""
    request = make_request(metadata, columns, filter)
    try:
        asked = ChangesMode(mode)
    except ValueError:
        known = ", ".join(ChangesMode)
        raise InvalidArgument(f"mode must be one of {known}, not {mode!r}") from None
    _check_single(from_snapshot=from_snapshot, from_timestamp=from_timestamp)
    _check_single(to_snapshot=to_snapshot, to_timestamp=to_timestamp)
    tags = isinstance(from_snapshot, str) or isinstance(to_snapshot, str)
    resolved = planned.resolve_mode(request, asked, tags=tags)
    changelogs = resolved is not ChangesMode.DIFF and planned.is_in_changelogs(request, resolved)
    end = _resolve_end(metadata, to_snapshot, to_timestamp, changelogs=changelogs)
    if end is None:
        return Changes(metadata, request, (), None)
    start = resolve_start(metadata, from_snapshot, from_timestamp, changelogs=changelogs)
    if start == end.id:
        return Changes(metadata, request, (), end)
    if resolved is ChangesMode.DIFF:
        travel = Travel(tag=from_snapshot) if isinstance(from_snapshot, str) else Travel(start)
        before = resolve_travel(metadata, travel) if start >= FIRST_SNAPSHOT else None
        return Changes(metadata, request, [planned.plan_difference(metadata, request, before, end)], end)
    between = list_snapshots_between(metadata, start, end.id, changelogs=changelogs)
    parts = [planned.plan_changes(metadata, request, snapshot, resolved) for snapshot in between]
    return Changes(metadata, request, [part for part in parts if part is not None], end)


def _check_single(**given: object) -> None:
    if sum(value is not None for value in given.values()) > 1:
        raise InvalidArgument(f"give only one of {' and '.join(given)}")


def resolve_start(
    metadata: TableMetadata, snapshot: int | str | None, timestamp: Time | None, *, changelogs: bool = False
) -> int:
    """Return the id of the snapshot after which changes begin. Without snapshot and timestamp, return the id before the
    oldest snapshot. `changelogs` includes changelogs that have outlived their snapshots.
    """
    if isinstance(snapshot, str):
        return metadata.tag(snapshot).snapshot.id
    if snapshot is not None:
        return check_snapshot_id(snapshot)
    found = None if timestamp is None else find_id_at(metadata, to_millis(timestamp), changelogs=changelogs)
    if found is not None:
        return found
    return (find_oldest_change(metadata, changelogs=changelogs) or FIRST_SNAPSHOT) - 1


def _resolve_end(
    metadata: TableMetadata, snapshot: int | str | None, timestamp: Time | None, *, changelogs: bool
) -> Snapshot | None:
    """Return the last snapshot of the changes: the newest by default, None if no snapshot is old enough."""
    if isinstance(snapshot, str):
        return metadata.tag(snapshot).snapshot
    if snapshot is None and timestamp is None:
        return metadata.latest_snapshot()
    if snapshot is not None and not changelogs:
        return resolve_travel(metadata, Travel(snapshot=check_snapshot_id(snapshot)))
    found = check_snapshot_id(snapshot) if snapshot is not None else None
    if timestamp is not None:
        found = find_id_at(metadata, to_millis(timestamp), changelogs=changelogs)
    return None if found is None else find_snapshot_or_changelog(metadata, found)


def check_snapshot_id(snapshot: int) -> int:
    if isinstance(snapshot, bool) or not isinstance(snapshot, int) or snapshot < 0:
        raise InvalidArgument(f"a snapshot must be its id or the name of a tag, not {snapshot!r}")
    return snapshot


Start = Literal["full", "latest"]
STARTS = get_args(Start)
StreamMode = Literal["auto", "raw"]
STREAM_MODES = get_args(StreamMode)
POLL_SECONDS = 1.0


def is_raw(mode: StreamMode) -> bool:
    """Return whether `mode` asks for rows as written. Raises `InvalidArgument` for unknown modes."""
    if mode not in STREAM_MODES:
        raise InvalidArgument(f"mode must be one of {', '.join(STREAM_MODES)}, not {mode!r}")
    return mode == "raw"


def _to_seconds(interval: timedelta | None) -> float:
    return POLL_SECONDS if interval is None else interval.total_seconds()


class ChangeStream:
    """An iterator over the changes of a table, snapshot by snapshot; see `Table.stream`.

    With a consumer it is also a context manager, which commits unless its block raises. `next_snapshot` is the id of
    the snapshot to read next, which `commit` records.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        request: ChangesRequest,
        *,
        from_snapshot: int | None,
        from_timestamp: Time | None,
        start: Start | None,
        consumer_id: str | None,
        wait: float | None,
        poll: float | None,
    ) -> None:
        if start is not None and start not in STARTS:
            raise InvalidArgument(f"start must be one of {', '.join(STARTS)}, not {start!r}")
        _ = request.followed_mode  # raises now if the table cannot be followed
        begins = (from_snapshot, from_timestamp, start) == (None, None, None)
        said = parse_stream_options(request.options.given, begins=begins)
        self._metadata = metadata
        self._request = request
        self._consumer_id = said.consumer_id if consumer_id is None else consumer_id
        self._consumers = Consumers(metadata)
        self._wait = wait
        self._poll = _to_seconds(said.interval) if poll is None else poll
        self._bound, self._delay = said.bound, said.delay
        self._full: Snapshot | None = None
        self._before: ReadCommit | None = None  # the commit before `next_snapshot`, if it is known
        self._is_over = False
        self.next_snapshot = FIRST_SNAPSHOT
        recorded = None
        if self._consumer_id is not None and not (said.begins_anew and consumer_id is None):
            recorded = self._consumers.progress(self._consumer_id)
        if recorded is not None:
            self.next_snapshot, self._before = recorded.next_snapshot, recorded.read
        elif begins:
            self._begin(said.start, said.snapshot, said.timestamp)
        else:
            here = from_snapshot is not None or from_timestamp is not None
            self._begin(LATEST if here else start or FULL, from_snapshot, from_timestamp)

    def _begin(self, start: str, snapshot: int | None, timestamp: Time | None) -> None:
        if snapshot is not None:
            self.next_snapshot = max(check_snapshot_id(snapshot), FIRST_SNAPSHOT)
            if start == FULL:
                self._full = self._metadata.snapshot(self.next_snapshot)
                self.next_snapshot += 1
        elif timestamp is not None:
            changelogs = planned.is_in_changelogs(self._request, self._request.followed_mode)
            self.next_snapshot = resolve_start(self._metadata, None, timestamp, changelogs=changelogs) + 1
        elif (newest := self._metadata.latest_snapshot()) is not None:
            self._full = newest if start == FULL else None
            self._before, self.next_snapshot = ReadCommit.of(newest), newest.id + 1

    def __iter__(self) -> ChangeStream:
        return self

    def __next__(self) -> Changes:
        check_process()
        if self._full is not None:
            newest, self._full = self._full, None
            self._is_over = self._is_past_bound(newest)
            rows = planned.plan_full_rows(self._metadata, self._request, newest)
            return Changes(self._metadata, self._request, [rows], newest, is_full=True)
        deadline = None if self._wait is None else time.monotonic() + self._wait
        while True:
            snapshot = None if self._is_over else self._snapshot()
            self._is_over = self._is_over or (snapshot is not None and self._is_past_bound(snapshot))
            if self._is_over:
                raise StopIteration
            if snapshot is not None and not self._is_too_young(snapshot):
                part = planned.plan_stream_changes(self._metadata, self._request, snapshot)
                self._before, self.next_snapshot = ReadCommit.of(snapshot), snapshot.id + 1
                if part is not None:
                    return Changes(self._metadata, self._request, [part], snapshot)
                continue
            if deadline is not None and time.monotonic() >= deadline:
                raise StopIteration
            time.sleep(self._poll)

    def _is_past_bound(self, snapshot: Snapshot) -> bool:
        return self._bound is not None and snapshot.watermark is not None and snapshot.watermark > self._bound

    def _is_too_young(self, snapshot: Snapshot) -> bool:
        return self._delay is not None and snapshot.time_millis > MILLIS_PER_SECOND * (
            time.time() - self._delay.total_seconds()
        )

    def _snapshot(self) -> Snapshot | None:
        """Return the next snapshot, None if it does not exist yet.

        Raises:
            SnapshotExpired: the next snapshot has expired, or a rollback removed snapshots that the stream has read.
        """
        try:
            found = find_snapshot_or_changelog(self._metadata, self.next_snapshot)
        except SnapshotExpired as error:
            hint = "read the whole table again, or keep snapshots for longer; a consumer_id keeps those not read yet"
            raise SnapshotExpired(f"{error}; {hint}") from error
        except SnapshotNotFound:
            found = None
        self._check_line(found)
        return found

    def _check_line(self, following: Snapshot | None) -> None:
        """Refuse to continue if the snapshot before the next one is not the one that was read.

        Ids are reused after a rollback. The stream would skip new snapshots with reused ids, or wait for ever.
        """
        id_ = self.next_snapshot - 1
        if id_ < FIRST_SNAPSHOT:
            return
        try:
            now = find_snapshot_or_changelog(self._metadata, id_)
        except SnapshotNotFound:
            now = None
        if now is not None:
            if self._before is None or ReadCommit.of(now) == self._before:
                self._before = ReadCommit.of(now)
                return
        elif following is not None:
            return  # it has expired, as the oldest do first
        newest = self._metadata.latest_snapshot()
        if now is None and (self._before is None if newest is None else newest.id >= id_):
            return  # nothing was committed yet, or a commit happened between these checks
        there = "it has no snapshots" if newest is None else f"its newest snapshot is {newest.id}"
        raise SnapshotExpired(
            f"{self._metadata.where}: the snapshot {id_} up to which the stream has read is not there any more, and "
            f"{there}: the table was rolled back, or created again; read the whole table, and begin another stream"
            + self._without_consumer()
        )

    def _without_consumer(self) -> str:
        name = self._consumer_id
        return "" if name is None else f" after `table.consumers.delete({name!r})`"

    def commit(self) -> None:
        """Record that all changes returned so far have been processed.

        Raises:
            InvalidArgument: the stream has no consumer id. StorageError: the record cannot be written.
        """
        if self._consumer_id is None:
            raise InvalidArgument("this stream has no consumer whose progress could be recorded: give a consumer_id")
        if self._full is None:
            self._consumers.record(self._consumer_id, self.next_snapshot, self._before)

    def __enter__(self) -> ChangeStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._consumer_id is not None:
            self.commit()
