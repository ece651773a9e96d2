"""The history of a table: lists of its snapshots and schemas, its tags and its branches.

The lists print as tables, in notebooks as HTML. `read_history` returns the commits as a frame.
"""

from __future__ import annotations

import builtins
import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import (
    DURATION,
    OF_OPERATIONS,
    ROWS_DELETED,
    ROWS_INSERTED,
    ROWS_UPDATED,
    Snapshot,
    Tag,
)
from morrow.engine.options.retention import parse_time_span
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Time, find_at_time, to_millis
from morrow.engine.redaction import clean_text, escape_to_line
from morrow.engine.units import format_count, format_duration
from morrow.scans.arguments import Age, to_epoch_millis

if TYPE_CHECKING:
    import polars as pl

MAX_LINES = 40
"""Maximum rows that a list prints; the rows in the middle are only counted. `Table.history` returns all rows."""

COMMITTED_BY_COMPACTION = "COMPACT"
OPERATIONS = {"APPEND": "WRITE", "COMPACT": "COMPACT", "OVERWRITE": "OVERWRITE", "ANALYZE": "ANALYZE"}
"""The operations of snapshots whose writer did not record one, by commit kind."""
EPOCH = dt.datetime(1970, 1, 1)


def align_rows(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format rows as aligned columns below their headers. If there are many rows, show the first and the last."""
    shown_rows = [headers, *(tuple(map(escape_to_line, row)) for row in rows)]
    left = len(rows) - MAX_LINES
    half = MAX_LINES // 2
    if left > 0:
        shown_rows = [*shown_rows[: half + 1], *shown_rows[-half:]]
    widths = [max(len(row[i]) for row in shown_rows) for i in range(len(headers))]
    lines = [clean_text("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip()) for row in shown_rows]
    return "\n".join(lines if left <= 0 else [*lines[: half + 1], f"... {left:,} more ...", *lines[half + 1 :]])


class SnapshotList(list[Snapshot]):
    """Snapshots, oldest first, which print as a table (HTML in notebooks); times are in UTC."""

    HEADERS = ("id", "time (UTC)", "kind", "schema", "records", "added")
    NUMBERS = ("id", "schema", "records", "added")

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(s.id),
                s.time.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds"),
                s.commit_kind if s.operation is None else f"{s.commit_kind} ({s.operation})",
                str(s.schema_id),
                _count(s.total_record_count),
                _count(s.delta_record_count),
            )
            for s in self
        ]

    def __repr__(self) -> str:
        return align_rows(self.HEADERS, self._rows())

    def _repr_html_(self) -> str:
        from morrow.html import build_table

        return build_table(self.HEADERS, self._rows(), numbers=self.NUMBERS)


class SchemaList(list[TableSchema]):
    """Versions of a schema, oldest first, which print as a table (HTML in notebooks)."""

    HEADERS = ("id", "time (UTC)", "columns", "changed")

    def _rows(self) -> list[tuple[str, ...]]:
        before: TableSchema | None = None
        rows: list[tuple[str, ...]] = []
        for schema in self:
            rows.append(
                (str(schema.id), _format_time(schema), str(len(schema.fields)), describe_changes(before, schema))
            )
            before = schema
        return rows

    def __repr__(self) -> str:
        return align_rows(self.HEADERS, self._rows())

    def _repr_html_(self) -> str:
        from morrow.html import build_table

        return build_table(self.HEADERS, self._rows(), numbers=("id", "columns"))


def _format_time(schema: TableSchema) -> str:
    if not schema.time_millis:
        return ""
    moment = EPOCH + dt.timedelta(milliseconds=schema.time_millis)
    return moment.isoformat(sep=" ", timespec="milliseconds")


def describe_changes(before: TableSchema | None, after: TableSchema) -> str:
    """Describe the changes of a schema version, as in ``+ city STRING, - town, options``."""
    if before is None:
        return ", ".join(f"{field.name} {field.type}" for field in after.fields[:6]) + (
            f" and {format_count(len(after.fields) - 6, 'more column')}" if len(after.fields) > 6 else ""
        )
    old = {field.id: field for field in before.fields}
    new = {field.id: field for field in after.fields}
    told = [f"+ {new[i].name} {new[i].type}" for i in new if i not in old]
    told += [f"- {old[i].name}" for i in old if i not in new]
    for i in (i for i in new if i in old):
        if old[i].name != new[i].name:
            told.append(f"{old[i].name} is {new[i].name}")
        if old[i].type != new[i].type:
            told.append(f"{new[i].name} {old[i].type} is {new[i].type}")
    keys = sorted(key for key in {*before.options, *after.options} if before.options.get(key) != after.options.get(key))
    return ", ".join([*told, *(f"option {key}" for key in keys)]) or "comments"


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


RECORDED = {"rows_added": ROWS_INSERTED, "rows_updated": ROWS_UPDATED, "rows_deleted": ROWS_DELETED}
NUMBERS = (*RECORDED, "rows_written", "deletions_written", "files_added", "files_removed")
COUNTS = (*NUMBERS, "bytes_added", "stored_rows", "stored_rows_change", "changelog_rows")
MAX_DIGITS = 19


def read_history(metadata: TableMetadata, limit: int | None = None) -> pl.DataFrame:
    """Return the history of the newest snapshots, newest first; see `Table.history`."""
    import polars as pl

    ids = metadata.living_snapshot_ids()
    ids = ids if limit is None else ids[max(len(ids) - limit, 0) :]
    snapshots = [found for found in metadata.each_snapshot(ids[::-1]) if found is not None]
    keyed = bool(metadata.latest_schema().primary_keys)
    rows = [
        {
            "snapshot_id": s.id,
            "time": s.time,
            "kind": s.commit_kind,
            "operation": s.operation or OPERATIONS.get(s.commit_kind),
            **_count_changes(s, entries, keyed=keyed),
            **_read_recorded(s),
            "stored_rows": s.total_record_count,
            "stored_rows_change": s.delta_record_count,
            "changelog_rows": s.changelog_record_count,
            "duration_ms": _number(s, DURATION),
            "schema_id": s.schema_id,
            "watermark": s.watermark,
            "commit_user": s.commit_user,
            "properties": _format_properties(s),
        }
        for s, entries in zip(snapshots, _read_entries(metadata, snapshots), strict=True)
    ]
    texts = ("kind", "operation", "commit_user", "properties")
    order = (
        "snapshot_id",
        "time",
        "kind",
        "operation",
        *COUNTS,
        "duration_ms",
        "schema_id",
        "watermark",
        "commit_user",
        "properties",
    )
    types = {**dict.fromkeys(order, pl.Int64()), **dict.fromkeys(texts, pl.String()), "time": pl.Datetime("ms", "UTC")}
    return pl.DataFrame(rows, schema={name: types[name] for name in order})


def _read_entries(metadata: TableMetadata, snapshots: Iterable[Snapshot]) -> list[pl.DataFrame | None]:
    """Read the changed manifest entries of all snapshots together; None for a snapshot with a missing manifest."""
    from morrow.engine.plan.references import read_changed_entries
    from morrow.engine.plan.roots import Root, RootKind

    return read_changed_entries([Root(metadata, RootKind.SNAPSHOT, snapshot) for snapshot in snapshots])


def _count_changes(snapshot: Snapshot, entries: pl.DataFrame | None, *, keyed: bool) -> Mapping[str, int | None]:
    """Return the `COUNTS` that can be derived from the changed files."""
    import polars as pl

    from morrow.engine.format.manifest_entries import ADD
    from morrow.engine.plan.references import WRITTEN

    if entries is None:
        return {}
    is_new = pl.col("_KIND") == ADD
    added, removed = entries.filter(is_new), entries.filter(~is_new)
    own = added.filter(pl.col("_FILE_SOURCE").fill_null(WRITTEN) == WRITTEN)
    own = own if snapshot.commit_kind != COMMITTED_BY_COMPACTION else own[:0]
    gone = own["_DELETE_ROW_COUNT"]
    deletions = None if keyed and gone.null_count() else int(gone.fill_null(0).sum())
    written = None if deletions is None else int(own["_ROW_COUNT"].sum()) - deletions
    exact = _count_exact(snapshot, removed, written, keyed=keyed)
    return {
        **dict(zip(("rows_added", "rows_deleted"), exact, strict=True)),
        "rows_written": written,
        "deletions_written": deletions if keyed else None,
        "files_added": added.height,
        "files_removed": removed.height,
        "bytes_added": int(added["_FILE_SIZE"].sum()),
    }


def _read_recorded(snapshot: Snapshot) -> Mapping[str, int]:
    """Return the row counts that the operation recorded, if any. They are exact."""
    counts = {name: _number(snapshot, key) for name, key in RECORDED.items()}
    return {} if all(rows is None for rows in counts.values()) else {name: rows or 0 for name, rows in counts.items()}


def _format_properties(snapshot: Snapshot) -> str | None:
    """Return the properties that the writer gave, as JSON."""
    given = {key: value for key, value in snapshot.properties.items() if key not in OF_OPERATIONS}
    return json.dumps(given, ensure_ascii=False) if given else None


def _number(snapshot: Snapshot, key: str) -> int | None:
    text = snapshot.properties.get(key, "")
    return int(text) if text.isdecimal() and len(text) < MAX_DIGITS else None


def _count_exact(
    snapshot: Snapshot, removed: pl.DataFrame, written: int | None, *, keyed: bool
) -> tuple[int | None, int | None]:
    """Return the rows added and deleted, if files alone show them: in append tables, or if whole files changed."""
    if snapshot.commit_kind == COMMITTED_BY_COMPACTION:
        return 0, 0
    if keyed:
        return None, None
    if not removed.height:
        return written, 0 if snapshot.index_manifest is None else None
    return (0, int(removed["_ROW_COUNT"].sum())) if written == 0 and snapshot.index_manifest is None else (None, None)


Retained: TypeAlias = dt.timedelta | float | str | None
"""The time for which a tag is retained: a `timedelta`, seconds, or text such as ``1 d``."""


class Tags:
    """The tags of a table: named snapshots that expiry keeps. It is also a collection: ``"v1" in t.tags``."""

    HEADERS = ("name", "snapshot", "time", "records", "created", "retained")

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata

    # Looking

    def list(self) -> Sequence[Tag]:
        """Return all tags by the id of their snapshot; each has ``.name``, ``.snapshot`` and, if known,
        ``.create_time``.
        """
        return self._metadata.tags()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tags, sorted."""
        return tuple(self._metadata.tag_names())

    def get(self, name: str) -> Tag:
        """Return the tag of this name. Raises `TagNotFound`."""
        return self._metadata.tag(name)

    def previous(self, name: str) -> Tag | None:
        """Return the last tag whose snapshot was committed before this tag's, None if this is the first.

        Raises `TagNotFound`.
        """
        here = self.get(name).snapshot.time_millis
        earlier = [tag for tag in self.list() if tag.snapshot.time_millis < here]
        return max(earlier, key=_sort_key, default=None)

    def next(self, name: str) -> Tag | None:
        """Return the first tag whose snapshot was committed after this tag's, None if this is the last.

        Raises `TagNotFound`.
        """
        here = self.get(name).snapshot.time_millis
        later = [tag for tag in self.list() if tag.snapshot.time_millis > here]
        return min(later, key=_sort_key, default=None)

    # Making

    def create(
        self,
        name: str,
        snapshot: int | Snapshot | None = None,
        time_retained: Retained = None,
        ignore_if_exists: bool = False,
        *,
        timestamp: Time | None = None,
    ) -> Tag:
        """Tag a snapshot: name it, and keep it with all its files when it expires.

        Args:
            name: not a number, and without / and \\.
            snapshot: an id, or one of `Table.snapshots`; None for the newest. An expired snapshot can be tagged as long
                as another tag keeps it.
            time_retained: for how long the tag is retained: a timedelta, seconds, or text such as ``'1 d'``. None:
                ``tag.default-time-retained``, or for ever.
            ignore_if_exists: return the existing tag of this name, unchanged.
            timestamp: tag the newest snapshot that was committed at or before this time.

        Raises:
            InvalidArgument: the call is wrong. AlreadyExists: the tag exists.
            SnapshotNotFound, SnapshotExpired: the snapshot does not exist or has expired; no tag was created.
        """
        from morrow.writers.history.tags import create_tag

        if snapshot is not None and timestamp is not None:
            raise InvalidArgument("give only one of snapshot, timestamp")
        found = snapshot if timestamp is None else find_at_time(self._metadata, to_millis(timestamp))
        span = _parse_span(time_retained)
        return create_tag(self._metadata, name, found, time_retained=span, ignore_if_exists=ignore_if_exists)

    def create_from_timestamp(self, name: str, timestamp: Time, time_retained: Retained = None) -> Tag:
        """Tag the first snapshot committed at or after a time. It may be an expired one that another tag keeps.

        Raises as `create`; `SnapshotNotFound`: all are older.
        """
        from morrow.writers.history.tags import create_tag, find_first_since

        found = find_first_since(self._metadata, to_millis(timestamp))
        return create_tag(self._metadata, name, found, time_retained=_parse_span(time_retained))

    def create_due(self, now: dt.datetime | None = None) -> Sequence[Tag]:
        """Create the automatic tags that are due (``tag.automatic-creation`` by process time or watermark).

        Commits also create due tags. For tables with long pauses, call this from a scheduler: it commits an empty
        snapshot to carry the tag.

        Args:
            now: the current time (UTC without a zone); None for the clock.

        Returns: the tags created.
        """
        from morrow.writers.history.automatic_tags import create_due_tag

        if now is not None and not isinstance(now, dt.datetime):
            raise InvalidArgument(f"now must be a datetime, not {now!r}")
        moment = now.replace(tzinfo=dt.UTC) if now is not None and now.tzinfo is None else now
        return create_due_tag(self._metadata, now=moment)

    # Changing

    def rename(self, name: str, new_name: str) -> Tag:
        """Rename a tag.

        Raises:
            TagNotFound, AlreadyExists. InvalidArgument: an invalid tag name.
        """
        from morrow.writers.history.tags import rename_tag

        return rename_tag(self._metadata, name, new_name)

    def replace(self, name: str, snapshot: int | Snapshot | None = None, time_retained: Retained = None) -> Tag:
        """Move a tag to another snapshot (None: the newest) and set its retention time (None: for ever).

        Files that only its old snapshot needs are removed.

        Raises:
            TagNotFound, SnapshotNotFound, SnapshotExpired, InvalidArgument: nothing was changed.
        """
        from morrow.writers.history.tags import replace_tag

        return replace_tag(self._metadata, name, snapshot, time_retained=_parse_span(time_retained))

    # Deleting

    def delete(self, name: str, ignore_if_not_exists: bool = False) -> bool:
        """Delete a tag, and the files that nothing else needs. Return False if the tag did not exist.

        Raises:
            TagNotFound: no such tag, and `ignore_if_not_exists` is false.
            StorageError: the tag was deleted, but some files were not; the next maintenance removes them.
        """
        from morrow.writers.history.tags import delete_tag

        return delete_tag(self._metadata, name, ignore_if_not_exists=ignore_if_not_exists)

    def expire(self, older_than: Age | None = None) -> Sequence[str]:
        """Delete tags whose retention time is over, and return their names.

        Args:
            older_than: delete also tags that were created before this moment, or are of this age (a timedelta, or text
                such as ``7 days``). A tag without a retention time does not record its creation; the time of its file
                counts.
        """
        from morrow.writers.history.automatic_tags import expire_tags

        return expire_tags(self._metadata, older_than=_parse_time(older_than))

    # Display

    def __iter__(self) -> Iterator[Tag]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self._metadata.tag_names())

    def __contains__(self, name: object) -> bool:
        return name in self._metadata.tag_names()

    def __repr__(self) -> str:
        return "\n".join(f"{escape_to_line(tag.name)}: snapshot {tag.snapshot.id}" for tag in self.list()) or "no tags"

    def _repr_html_(self) -> str:
        from morrow.html import build_table

        return build_table(self.HEADERS, [_build_row(tag) for tag in self.list()])


def _sort_key(tag: Tag) -> tuple[int, int, str]:
    return tag.snapshot.time_millis, tag.snapshot.id, tag.name


def _build_row(tag: Tag) -> tuple[str, ...]:
    records, created, retained = tag.snapshot.total_record_count, tag.create_time, tag.time_retained
    return (
        tag.name,
        str(tag.snapshot.id),
        tag.snapshot.time.isoformat(sep=" ", timespec="milliseconds"),
        "" if records is None else str(records),
        "" if created is None else created.isoformat(sep=" ", timespec="milliseconds"),
        "" if retained is None else format_duration(retained),
    )


def _parse_span(retained: Retained) -> dt.timedelta | None:
    if retained is None or isinstance(retained, dt.timedelta):
        return retained
    if isinstance(retained, str):
        return parse_time_span(retained)
    if isinstance(retained, bool) or not isinstance(retained, (int, float)):
        raise InvalidArgument(f"time_retained is a timedelta, seconds, or text such as '1 d', not {retained!r}")
    try:
        return dt.timedelta(seconds=retained)
    except (OverflowError, ValueError) as error:
        raise InvalidArgument(f"time_retained cannot be {retained!r} seconds; leave it out to keep the tag") from error


def _parse_time(age: Age | None) -> dt.datetime | None:
    millis = to_epoch_millis(age)
    try:
        return None if millis is None else dt.datetime.fromtimestamp(0, tz=dt.UTC) + dt.timedelta(milliseconds=millis)
    except OverflowError as error:
        raise InvalidArgument(f"older_than = {age!r} is neither an age nor a time: {error}") from error


class Branches:
    """The branches of a table: separate lines of snapshots that share files with main.

    A branch is read and written through `Table.on_branch`. This object is also a collection of names:
    ``"dev" in t.branches``, ``for name in t.branches``.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata

    def list(self) -> builtins.list[str]:
        """Return the names of all branches except main, sorted."""
        return self._metadata.branch_names()

    def create(
        self,
        name: str,
        *,
        tag: str | None = None,
        snapshot: int | Snapshot | None = None,
        ignore_if_exists: bool = False,
    ) -> None:
        """Create a branch from this table's branch, without copying data.

        Args:
            tag: the branch begins with the snapshot of this tag, and has the tag too.
            snapshot: the branch begins with this snapshot: an id, or one of `Table.snapshots`. Without tag and
                snapshot it has the newest schema and no rows.
            ignore_if_exists: do nothing when the branch exists.

        Raises:
            InvalidArgument: an invalid branch name (``main``, blank, only digits), or both a tag and a snapshot.
            AlreadyExists: the branch exists.
            TagNotFound, SnapshotNotFound, SnapshotExpired: the starting point does not exist; no branch was made.
        """
        from morrow.writers.history.branches import create_branch

        create_branch(self._metadata, name, tag=tag, snapshot=snapshot, ignore_if_exists=ignore_if_exists)

    def delete(self, name: str) -> None:
        """Delete a branch, and the files that neither main nor another branch or tag needs.

        Raises:
            BranchNotFound: no such branch.
            InvalidArgument: the main branch, or one that an option of the table names (``scan.fallback-branch``).
        """
        from morrow.writers.history.branches import delete_branch

        delete_branch(self._metadata, name)

    def rename(self, name: str, new_name: str) -> None:
        """Rename a branch.

        Raises:
            BranchNotFound: no such branch. AlreadyExists: a branch has the new name.
            InvalidArgument: the main branch, one that an option of the table names, or an invalid branch name.
        """
        from morrow.writers.history.branches import rename_branch

        rename_branch(self._metadata, name, new_name)

    def fast_forward(self, name: str) -> None:
        """Fast-forward this table's branch (usually main) to the branch `name`. The branch `name` stays.

        Snapshots, tags and schemas of `name`, from its first snapshot on, replace those of this branch. Commits made
        here since `name` was created are lost. Files that are no longer needed are removed.

        Raises:
            BranchNotFound: no such branch.
            InvalidArgument: the branch has no snapshot, is the main branch, or is this table's branch.
        """
        from morrow.writers.history.branches import fast_forward_branch

        fast_forward_branch(self._metadata, name)

    def merge(self, name: str) -> Snapshot | None:
        """Merge the branch `name` into this table's branch: its rows are appended here, in one commit. The branch
        stays.

        Works for append tables if both branches only had rows appended, and none of their snapshots has expired. Data
        files are shared, not copied. Files that this branch already has are not appended again.

        Returns: the snapshot, None if this branch already has all files.

        Raises:
            BranchNotFound: no such branch. SnapshotNotFound: one of the branches has no snapshot.
            InvalidArgument: this very branch, different columns, or changes other than appended rows.
            Unsupported: a table with a primary key, or with data evolution.
            CommitConflict: other commits were faster on every attempt.
        """
        from morrow.writers.history.branches import merge_branch

        return merge_branch(self._metadata, name)

    def __call__(self) -> builtins.list[str]:
        return self.list()

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __contains__(self, name: object) -> bool:
        return name in self.list()

    def __len__(self) -> int:
        return len(self.list())

    def _repr_html_(self) -> str:
        from morrow.html import build_table

        rows = []
        for name in self.list():
            newest = self._metadata.at_branch(name).latest_snapshot()
            moment = "" if newest is None else f"{newest.time:%Y-%m-%d %H:%M:%S}"
            rows.append((name, "" if newest is None else newest.id, moment))
        return build_table(("branch", "newest snapshot", "time (UTC)"), rows, numbers=("newest snapshot",))

    def __repr__(self) -> str:
        return "\n".join(map(escape_to_line, self.list())) or "no branches"
