"""Snapshot lists that print as tables, also in notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.telling import one_line

if TYPE_CHECKING:
    import polars as pl


class SnapshotList(list[Snapshot]):
    """Snapshots, oldest first, which print as a table (HTML in notebooks)."""

    HEADERS = ("id", "time", "kind", "schema", "records", "added")

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(s.id),
                s.time.isoformat(sep=" ", timespec="milliseconds"),
                s.commit_kind,
                str(s.schema_id),
                str(s.total_record_count),
                str(s.delta_record_count),
            )
            for s in self
        ]

    def __repr__(self) -> str:
        rows = [self.HEADERS, *(tuple(map(one_line, row)) for row in self._rows())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.HEADERS))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return html_table(self.HEADERS, self._rows())


def history_frame(snapshots: Iterable[Snapshot]) -> pl.DataFrame:
    """Returns what snapshots tell of themselves as a frame, newest first; null where the writer recorded nothing."""
    import polars as pl

    counts = ("stored_rows", "stored_rows_change", "changelog_rows")
    whole = ("snapshot_id", "schema_id", *counts, "watermark")
    rows = [
        {
            "snapshot_id": s.id,
            "time": s.time,
            "kind": s.commit_kind,
            "operation": s.operation,
            "stored_rows": s.total_record_count,
            "stored_rows_change": s.delta_record_count,
            "changelog_rows": s.changelog_record_count,
            "schema_id": s.schema_id,
            "watermark": s.watermark,
            "commit_user": s.commit_user,
        }
        for s in sorted(snapshots, key=lambda s: s.id, reverse=True)
    ]
    texts = ("kind", "operation", "commit_user")
    order = ("snapshot_id", "time", "kind", "operation", *counts, "schema_id", "watermark", "commit_user")
    types = {**dict.fromkeys(whole, pl.Int64()), **dict.fromkeys(texts, pl.String()), "time": pl.Datetime("ms", "UTC")}
    return pl.DataFrame(rows, schema={name: types[name] for name in order})


def html_table(headers: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a plain HTML table; every cell is escaped."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in headers)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
