"""Changes of a table between snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import ROWKIND, refuse_unreadable
from morrow.engine.plan import changes as planned
from morrow.engine.plan.change_ranges import id_at, oldest_change, snapshot_or_changelog, snapshots_between
from morrow.engine.plan.changes import ROWKIND_FIELD, ChangesMode, ChangesRequest
from morrow.engine.plan.filter import FilterLike, parse_filter
from morrow.engine.plan.time_travel import Time, Travel, resolve, to_millis
from morrow.engine.telling import shown
from morrow.scans.rows import Rows
from morrow.scans.scan_arguments import checked_columns, checked_rows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.format.types import DataField
    from morrow.engine.plan.metadata import TableMetadata

Mode = Literal["auto", "delta", "changelog", "diff", "raw"]
FIRST_SNAPSHOT = 1


class Changes(Rows):
    """Changed rows, led by the column ``rowkind``: +I, -U, +U or -D.

    Rows are in the order of their snapshots, within a snapshot bucket by bucket. `snapshot` is the last snapshot
    included (None for a table without snapshots); `is_full`: these are all rows of it, as insertions.
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
        self._parts = tuple(parts)
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
        """Whether there is no file to read, and so no change."""
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
        """Returns all changes as a Polars DataFrame."""
        from morrow.readers.execution import changes

        return changes.to_polars(self._parts, self._fields, self._metadata.store)

    def to_arrow(self) -> pa.Table:
        """Returns all changes as an Arrow table with exactly `schema`."""
        from morrow.readers.execution import changes

        return changes.to_arrow(self._parts, self._fields, self._metadata.store)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields changes as record batches, in bounded memory (mode ``diff`` holds all its changes)."""
        from morrow.readers.execution import changes, execute

        rows = checked_rows(batch_rows) or execute.BATCH_ROWS
        return changes.to_batches(self._parts, self._fields, self._metadata.store, rows)

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Returns `to_batches` as an Arrow record batch reader."""
        from morrow.readers.execution import changes, execute

        rows = checked_rows(batch_rows) or execute.BATCH_ROWS
        return changes.batch_reader(self._parts, self._fields, self._metadata.store, rows)

    def count(self) -> int:
        """Returns the number of changes."""
        return sum(batch.num_rows for batch in self.to_batches())

    def __repr__(self) -> str:
        what = "all rows" if self.is_full else "changes"
        return shown(f"Changes({self._metadata.where!r}, {what} of snapshot {self.snapshot_id})")


def make_request(
    metadata: TableMetadata, columns: Sequence[str] | None, filter: FilterLike | None, *, raw: bool = False
) -> ChangesRequest:
    """Checks columns and filter against the newest schema, in which changes are read; `raw` as in `ChangesRequest`.

    Raises:
        ColumnNotFound, InvalidArgument: the call is wrong, or a column has the name of the row kind.
    """
    schema = metadata.latest_schema()
    refuse_unreadable(schema, metadata.where)
    names = tuple(schema.by_name) if columns is None else checked_columns(columns)
    if ROWKIND in names:
        raise InvalidArgument(
            f"{metadata.where}: the column {ROWKIND!r} has the name of the column with the row kinds; "
            "leave it out by columns=[...]"
        )
    for name in names:
        schema.column(name)
    if not names:
        raise InvalidArgument("changes of no columns: name at least one")
    return ChangesRequest(schema, metadata.options(schema), names, parse_filter(filter, schema.fields), raw)


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
    """Plans the changes between two snapshots; see `Table.changes`."""
    request = make_request(metadata, columns, filter)
    try:
        asked = ChangesMode(mode)
    except ValueError:
        known = ", ".join(ChangesMode)
        raise InvalidArgument(f"mode must be one of {known}, not {mode!r}") from None
    _only_one(from_snapshot=from_snapshot, from_timestamp=from_timestamp)
    _only_one(to_snapshot=to_snapshot, to_timestamp=to_timestamp)
    tags = isinstance(from_snapshot, str) or isinstance(to_snapshot, str)
    resolved = planned.mode_of(request, asked, tags=tags)
    changelogs = resolved is not ChangesMode.DIFF and planned.in_changelogs(request, resolved)
    end = _end(metadata, to_snapshot, to_timestamp, changelogs=changelogs)
    if end is None:
        return Changes(metadata, request, (), None)
    start = start_of(metadata, from_snapshot, from_timestamp, changelogs=changelogs)
    if start == end.id:
        return Changes(metadata, request, (), end)
    if resolved is ChangesMode.DIFF:
        before = resolve(metadata, Travel(tag=from_snapshot) if isinstance(from_snapshot, str) else Travel(start))
        assert before is not None
        return Changes(metadata, request, [planned.difference(metadata, request, before, end)], end)
    between = snapshots_between(metadata, start, end.id, changelogs=changelogs)
    parts = [planned.changes_of(metadata, request, snapshot, resolved) for snapshot in between]
    return Changes(metadata, request, [part for part in parts if part is not None], end)


def _only_one(**given: object) -> None:
    if sum(value is not None for value in given.values()) > 1:
        raise InvalidArgument(f"give only one of {' and '.join(given)}")


def start_of(
    metadata: TableMetadata, snapshot: int | str | None, timestamp: Time | None, *, changelogs: bool = False
) -> int:
    """Returns the id of the snapshot after which changes begin. Without snapshot and timestamp it is one before the
    oldest; `changelogs` includes changelogs that have outlived their snapshots.
    """
    if isinstance(snapshot, str):
        return metadata.tag(snapshot).snapshot.id
    if snapshot is not None:
        return checked_id(snapshot)
    found = None if timestamp is None else id_at(metadata, to_millis(timestamp), changelogs=changelogs)
    if found is not None:
        return found
    return (oldest_change(metadata, changelogs=changelogs) or FIRST_SNAPSHOT) - 1


def _end(
    metadata: TableMetadata, snapshot: int | str | None, timestamp: Time | None, *, changelogs: bool
) -> Snapshot | None:
    """Returns the last snapshot of the changes: the newest by default; None when none is old enough."""
    if isinstance(snapshot, str):
        return metadata.tag(snapshot).snapshot
    if snapshot is None and timestamp is None:
        return metadata.latest_snapshot()
    if snapshot is not None and not changelogs:
        return resolve(metadata, Travel(snapshot=checked_id(snapshot)))
    found = checked_id(snapshot) if snapshot is not None else None
    if timestamp is not None:
        found = id_at(metadata, to_millis(timestamp), changelogs=changelogs)
    return None if found is None else snapshot_or_changelog(metadata, found)


def checked_id(snapshot: int) -> int:
    if isinstance(snapshot, bool) or not isinstance(snapshot, int) or snapshot < 0:
        raise InvalidArgument(f"a snapshot must be its id or the name of a tag, not {snapshot!r}")
    return snapshot
