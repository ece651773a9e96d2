"""Streams of a table's changes, which follow new snapshots."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, get_args

from morrow.engine.errors import InvalidArgument, SnapshotExpired, SnapshotNotFound
from morrow.engine.forks import check_process
from morrow.engine.options.streaming import FULL, LATEST, parse_stream_options
from morrow.engine.plan import changes as planned
from morrow.engine.plan.change_ranges import snapshot_or_changelog
from morrow.engine.plan.consumers import Consumers, ReadCommit
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.scans.changes import FIRST_SNAPSHOT, Changes, checked_id, start_of

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.plan.changes import ChangesRequest
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.engine.plan.time_travel import Time

Start = Literal["full", "latest"]
STARTS = get_args(Start)
StreamMode = Literal["auto", "raw"]
STREAM_MODES = get_args(StreamMode)
POLL_SECONDS = 1.0


def is_raw(mode: StreamMode) -> bool:
    """Returns whether rows as they were written are asked for. Raises `InvalidArgument` for other modes."""
    if mode not in STREAM_MODES:
        raise InvalidArgument(f"mode must be one of {', '.join(STREAM_MODES)}, not {mode!r}")
    return mode == "raw"


def _seconds(interval: timedelta | None) -> float:
    return POLL_SECONDS if interval is None else interval.total_seconds()


class ChangeStream:
    """An iterator over the changes of a table, snapshot by snapshot; see `Table.stream`.

    With a consumer it is also a context manager, which commits unless an error leaves it. `next_snapshot` is the id of
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
        _ = request.followed_mode  # what cannot be followed is said at once
        begins = (from_snapshot, from_timestamp, start) == (None, None, None)
        said = parse_stream_options(request.options.given, begins=begins)
        self._metadata = metadata
        self._request = request
        self._consumer_id = said.consumer_id if consumer_id is None else consumer_id
        self._consumers = Consumers(metadata)
        self._wait = wait
        self._poll = _seconds(said.interval) if poll is None else poll
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
            self.next_snapshot = max(checked_id(snapshot), FIRST_SNAPSHOT)
            if start == FULL:
                self._full = self._metadata.snapshot(self.next_snapshot)
                self.next_snapshot += 1
        elif timestamp is not None:
            changelogs = planned.in_changelogs(self._request, self._request.followed_mode)
            self.next_snapshot = start_of(self._metadata, None, timestamp, changelogs=changelogs) + 1
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
            rows = planned.full_rows(self._metadata, self._request, newest)
            return Changes(self._metadata, self._request, [rows], newest, is_full=True)
        deadline = None if self._wait is None else time.monotonic() + self._wait
        while True:
            snapshot = None if self._is_over else self._snapshot()
            self._is_over = self._is_over or (snapshot is not None and self._is_past_bound(snapshot))
            if self._is_over:
                raise StopIteration
            if snapshot is not None and not self._is_too_young(snapshot):
                part = planned.followed(self._metadata, self._request, snapshot)
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
        """Returns the next snapshot, None when it does not exist yet.

        Raises:
            SnapshotExpired: it has expired, or a rollback undid what the stream has read.
        """
        try:
            found = snapshot_or_changelog(self._metadata, self.next_snapshot)
        except SnapshotExpired as error:
            hint = "read the whole table anew, or keep snapshots for longer; a consumer_id keeps those not read yet"
            raise SnapshotExpired(f"{error}; {hint}") from error
        except SnapshotNotFound:
            found = None
        self._check_line(found)
        return found

    def _check_line(self, following: Snapshot | None) -> None:
        """Refuses to go on where the snapshot before the next one is not the one that was read.

        Ids begin anew after a rollback: the stream would leave out those that others have taken, or wait for ever.
        """
        id_ = self.next_snapshot - 1
        if id_ < FIRST_SNAPSHOT:
            return
        try:
            now = snapshot_or_changelog(self._metadata, id_)
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
            return  # nothing was committed yet, or somebody was faster than these looks
        there = "it has no snapshots" if newest is None else f"its newest snapshot is {newest.id}"
        raise SnapshotExpired(
            f"{self._metadata.where}: the snapshot {id_} up to which the stream has read is not there any more, and "
            f"{there}: the table was rolled back, or made anew; read the whole table, and begin another stream"
            + self._without_consumer()
        )

    def _without_consumer(self) -> str:
        name = self._consumer_id
        return "" if name is None else f" after `table.consumers.delete({name!r})`"

    def commit(self) -> None:
        """Records that all changes returned so far have been processed.

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
