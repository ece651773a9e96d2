"""A stream of a table's changes that follows new snapshots."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, get_args

from morrow.changes import FIRST_SNAPSHOT, Changes, checked_id, start_of
from morrow.engine.errors import InvalidArgument, SnapshotExpired, SnapshotNotFound
from morrow.engine.plan import changes as planned
from morrow.engine.plan.change_ranges import snapshot_or_changelog
from morrow.engine.plan.consumers import Consumers

if TYPE_CHECKING:
    from types import TracebackType

    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.plan.changes import ChangesRequest
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.engine.plan.time_travel import Time

Start = Literal["full", "latest"]
STARTS = get_args(Start)


class ChangeStream:
    """Follows a table snapshot by snapshot; see `Table.stream`. An iterator and, with a consumer, a context.

    `next_snapshot` is the snapshot that is read next, what `commit` records.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        request: ChangesRequest,
        *,
        from_snapshot: int | None,
        from_timestamp: Time | None,
        start: Start,
        consumer_id: str | None,
        wait: float | None,
        poll: float,
    ) -> None:
        if start not in STARTS:
            raise InvalidArgument(f"start must be one of {', '.join(STARTS)}, not {start!r}")
        self._metadata = metadata
        self._request = request
        self._consumer_id = consumer_id
        self._consumers = Consumers(metadata)
        self._wait = wait
        self._poll = poll
        self._full: Snapshot | None = None
        self.next_snapshot = FIRST_SNAPSHOT
        recorded = None if consumer_id is None else self._consumers.next_snapshot(consumer_id)
        if recorded is not None:
            self.next_snapshot = recorded
        elif from_snapshot is not None:
            self.next_snapshot = max(checked_id(from_snapshot), FIRST_SNAPSHOT)
        elif from_timestamp is not None:
            mode = planned.mode_of(metadata, request, planned.ChangesMode.AUTO, tags=False)
            changelogs = planned.in_changelogs(metadata, request, mode)
            self.next_snapshot = start_of(metadata, None, from_timestamp, changelogs=changelogs) + 1
        else:
            self._begin(start)

    def _begin(self, start: Start) -> None:
        newest = self._metadata.latest_snapshot()
        if newest is not None:
            self._full = newest if start == "full" else None
            self.next_snapshot = newest.id + 1

    def __iter__(self) -> ChangeStream:
        return self

    def __next__(self) -> Changes:
        if self._full is not None:
            newest, self._full = self._full, None
            rows = planned.full_rows(self._metadata, self._request, newest)
            return Changes(self._metadata, self._request, [rows], newest, is_full=True)
        deadline = None if self._wait is None else time.monotonic() + self._wait
        while True:
            snapshot = self._snapshot()
            if snapshot is not None:
                self.next_snapshot = snapshot.id + 1
                part = planned.followed(self._metadata, self._request, snapshot)
                if part is not None:
                    return Changes(self._metadata, self._request, [part], snapshot)
                continue
            if deadline is not None and time.monotonic() >= deadline:
                raise StopIteration
            time.sleep(self._poll)

    def _snapshot(self) -> Snapshot | None:
        """The next snapshot, None when it is not there yet.

        Raises:
            SnapshotExpired: it has expired.
        """
        try:
            return snapshot_or_changelog(self._metadata, self.next_snapshot)
        except SnapshotExpired as error:
            hint = "read the whole table anew, or keep snapshots for longer; a consumer_id keeps those not read yet"
            raise SnapshotExpired(f"{error}; {hint}") from error
        except SnapshotNotFound:
            return None

    def commit(self) -> None:
        """Record that all changes handed out so far have been processed.

        Raises:
            InvalidArgument: the stream has no consumer id. StorageError: it cannot be written.
        """
        if self._consumer_id is None:
            raise InvalidArgument("this stream has no consumer whose progress could be recorded: give a consumer_id")
        if self._full is None:
            self._consumers.record(self._consumer_id, self.next_snapshot)

    def __enter__(self) -> ChangeStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._consumer_id is not None:
            self.commit()
