"""Snapshot lists that print as tables, also in notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.telling import one_line


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


def html_table(headers: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a plain HTML table; every cell is escaped."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in headers)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
