"""Lists of snapshots and schemas that print as tables, also in notebooks; the history as a frame."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import DURATION, ROWS_DELETED, ROWS_INSERTED, ROWS_UPDATED, Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import one_line, shown
from morrow.engine.wording import plural

if TYPE_CHECKING:
    import polars as pl

MOST_LINES = 40
"""Rows that a list prints; those in the middle are counted. `Table.history` and system tables have them all."""

COMMITTED_BY_COMPACTION = "COMPACT"
EPOCH = dt.datetime(1970, 1, 1)


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns rows under their headers, in columns; of many rows the first and the last."""
    shown_rows = [headers, *(tuple(map(one_line, row)) for row in rows)]
    left = len(rows) - MOST_LINES
    half = MOST_LINES // 2
    if left > 0:
        shown_rows = [*shown_rows[: half + 1], *shown_rows[-half:]]
    widths = [max(len(row[i]) for row in shown_rows) for i in range(len(headers))]
    lines = [shown("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip()) for row in shown_rows]
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
        return aligned(self.HEADERS, self._rows())

    def _repr_html_(self) -> str:
        from morrow.html.tables import table

        return table(self.HEADERS, self._rows(), numbers=self.NUMBERS)


class SchemaList(list[TableSchema]):
    """Versions of a schema, oldest first, which print as a table (HTML in notebooks)."""

    HEADERS = ("id", "time (UTC)", "columns", "changed")

    def _rows(self) -> list[tuple[str, ...]]:
        before: TableSchema | None = None
        rows: list[tuple[str, ...]] = []
        for schema in self:
            rows.append((str(schema.id), _moment(schema), str(len(schema.fields)), _changed(before, schema)))
            before = schema
        return rows

    def __repr__(self) -> str:
        return aligned(self.HEADERS, self._rows())

    def _repr_html_(self) -> str:
        from morrow.html.tables import table

        return table(self.HEADERS, self._rows(), numbers=("id", "columns"))


def _moment(schema: TableSchema) -> str:
    if not schema.time_millis:
        return ""
    moment = EPOCH + dt.timedelta(milliseconds=schema.time_millis)
    return moment.isoformat(sep=" ", timespec="milliseconds")


def _changed(before: TableSchema | None, after: TableSchema) -> str:
    """Returns ``+ city STRING, - town, options``: what a version changed."""
    if before is None:
        return ", ".join(f"{field.name} {field.type}" for field in after.fields[:6]) + (
            f" and {plural(len(after.fields) - 6, 'more column')}" if len(after.fields) > 6 else ""
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
MOST_DIGITS = 19


def history_frame(metadata: TableMetadata, limit: int | None = None) -> pl.DataFrame:
    """Returns what is known of the newest snapshots, newest first; see `Table.history`."""
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
            "operation": s.operation,
            **_done(s, entries, keyed=keyed),
            **_recorded(s),
            "stored_rows": s.total_record_count,
            "stored_rows_change": s.delta_record_count,
            "changelog_rows": s.changelog_record_count,
            "duration_ms": _number(s, DURATION),
            "schema_id": s.schema_id,
            "watermark": s.watermark,
            "commit_user": s.commit_user,
        }
        for s, entries in zip(snapshots, _changes(metadata, snapshots), strict=True)
    ]
    texts = ("kind", "operation", "commit_user")
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
    )
    types = {**dict.fromkeys(order, pl.Int64()), **dict.fromkeys(texts, pl.String()), "time": pl.Datetime("ms", "UTC")}
    return pl.DataFrame(rows, schema={name: types[name] for name in order})


def _changes(metadata: TableMetadata, snapshots: Iterable[Snapshot]) -> list[pl.DataFrame | None]:
    """Returns the entries of each snapshot's changes, None where a manifest is gone; all are read together."""
    from morrow.engine.plan.references import changed_entries
    from morrow.engine.plan.roots import Root, RootKind

    return changed_entries([Root(metadata, RootKind.SNAPSHOT, snapshot) for snapshot in snapshots])


def _done(snapshot: Snapshot, entries: pl.DataFrame | None, *, keyed: bool) -> Mapping[str, int | None]:
    """Returns the `COUNTS` that the changed files tell."""
    import polars as pl

    from morrow.engine.format.manifest_columns import ADD
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
    exact = _exact(snapshot, removed, written, keyed=keyed)
    return {
        **dict(zip(("rows_added", "rows_deleted"), exact, strict=True)),
        "rows_written": written,
        "deletions_written": deletions if keyed else None,
        "files_added": added.height,
        "files_removed": removed.height,
        "bytes_added": int(added["_FILE_SIZE"].sum()),
    }


def _recorded(snapshot: Snapshot) -> Mapping[str, int]:
    """Returns the rows that the operation counted, where it did: then it changed no others."""
    counts = {name: _number(snapshot, key) for name, key in RECORDED.items()}
    return {} if all(rows is None for rows in counts.values()) else {name: rows or 0 for name, rows in counts.items()}


def _number(snapshot: Snapshot, key: str) -> int | None:
    text = snapshot.properties.get(key, "")
    return int(text) if text.isdecimal() and len(text) < MOST_DIGITS else None


def _exact(
    snapshot: Snapshot, removed: pl.DataFrame, written: int | None, *, keyed: bool
) -> tuple[int | None, int | None]:
    """Returns the rows added and deleted where files alone tell: without keys, and where whole files came or went."""
    if snapshot.commit_kind == COMMITTED_BY_COMPACTION:
        return 0, 0
    if keyed:
        return None, None
    if not removed.height:
        return written, 0 if snapshot.index_manifest is None else None
    return (0, int(removed["_ROW_COUNT"].sum())) if written == 0 and snapshot.index_manifest is None else (None, None)
