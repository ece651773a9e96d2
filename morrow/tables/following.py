"""What changed in a table between snapshots, once or as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Time

if TYPE_CHECKING:
    from morrow.engine.plan.consumers import Consumers
    from morrow.scans.changes import Changes, Mode
    from morrow.tables.stream import ChangeStream, Start, StreamMode


class Following:
    """The methods of `Table` that read changes, and who has read which."""

    _metadata: TableMetadata

    def changes(
        self,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
        *,
        mode: Mode = "auto",
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        from_timestamp: Time | None = None,
        to_timestamp: Time | None = None,
    ) -> Changes:
        """Returns the changes between two snapshots: rows led by ``rowkind`` (+I, -U, +U, -D), in the newest columns.

        Args:
            from_snapshot: an id or a tag name, exclusive. None: from the oldest change there is.
            to_snapshot: an id or a tag name, inclusive. None: the newest.
            mode: ``delta`` reads the rows that were written (APPEND snapshots), ``changelog`` those of the changelog
                producer, ``diff`` compares the rows of both snapshots. ``auto`` is diff for tags, changelog for tables
                with a changelog producer, delta for others. ``raw`` is delta: ``auto`` refuses tables without a
                producer whose merge engine makes rows of several.
            columns, filter: as for `scan`; the filter tests each changed row by itself.
            from_timestamp, to_timestamp: the newest snapshots at or before these times.

        Raises:
            InvalidArgument, ColumnNotFound: the call is wrong.
            SnapshotNotFound, SnapshotExpired, TagNotFound: no such snapshot.
            Unsupported: what was written are no whole rows; with data evolution, columns of older rows were written.
        """
        from morrow.scans.changes import make_changes

        return make_changes(
            self._metadata,
            from_snapshot,
            to_snapshot,
            mode=mode,
            columns=columns,
            filter=filter,
            from_timestamp=from_timestamp,
            to_timestamp=to_timestamp,
        )

    def stream(
        self,
        from_snapshot: int | None = None,
        *,
        from_timestamp: Time | None = None,
        start: Start | None = None,
        consumer_id: str | None = None,
        columns: Sequence[str] | None = None,
        filter: FilterLike | None = None,
        wait: float | None = None,
        poll: float | None = None,
        mode: StreamMode = "auto",
    ) -> ChangeStream:
        """Follows the table: returns an iterator over `Changes`, one for each snapshot that changed rows.

        The columns are those that the table has when the stream begins, whatever they are called later; later ones are
        left out.

        With the option ``scan.bounded.watermark`` it ends at the first snapshot with a greater watermark; with
        ``streaming.read.snapshot.delay`` it reads a snapshot only when it is that old.

        Args:
            from_snapshot: the first snapshot whose changes are read.
            from_timestamp: changes after the newest snapshot at or before this time.
            start: where neither is given: ``full``: all rows of the newest snapshot first; ``latest``: later changes
                only. None: by the table's options (``scan.mode`` and others), ``full`` without them.
            consumer_id: the consumer under which `ChangeStream.commit`, or the end of a ``with`` block, records the
                progress. A stream of a known consumer continues from there; expiry keeps what it needs. None: the
                option ``consumer-id``, if set.
            wait: seconds to wait for a new snapshot before the iteration ends; None: for ever, 0: not at all.
            poll: seconds between looks for a new snapshot; None: ``continuous.discovery-interval``, or one second.
            mode: ``raw``: rows as they were written, also of tables without a changelog producer whose merge engine
                makes rows of several (partial-update, aggregation, first-row). ``auto`` refuses these, as Flink does.

        Raises:
            InvalidArgument, ColumnNotFound: the call is wrong.
            SnapshotExpired: while iterating, when the next snapshot has expired, or what was read was rolled back.
            Unsupported: what was written are no whole rows (see `mode`); while iterating, when a column has another
                type by then, or (data evolution) columns of older rows were written; begin another stream.
        """
        from morrow.scans.changes import make_request
        from morrow.tables.stream import ChangeStream, is_raw

        return ChangeStream(
            self._metadata,
            make_request(self._metadata, columns, filter, raw=is_raw(mode)),
            from_snapshot=from_snapshot,
            from_timestamp=from_timestamp,
            start=start,
            consumer_id=consumer_id,
            wait=wait,
            poll=poll,
        )

    @property
    def consumers(self) -> Consumers:
        """The consumers and their progress: ``t.consumers.all()``, ``t.consumers.delete(name)``."""
        from morrow.engine.plan.consumers import Consumers

        return Consumers(self._metadata)
