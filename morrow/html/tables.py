"""Tables and lists of facts as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from morrow.engine.wording import plural
from morrow.html.elements import Safe, element, joined

MOST_ROWS = 200
"""Rows that a table shows; the others are counted."""


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[str] = ()) -> Safe:
    """Returns an HTML table; every cell is escaped. Columns named in `numbers` are aligned to the right."""
    right = [each in set(numbers) for each in headers]
    rows = list(rows)
    head = element("tr", *(element("th", name, class_="n" if n else None) for name, n in zip(headers, right)))
    body = [_row(row, right) for row in rows[:MOST_ROWS]]
    found = element("table", element("thead", head), element("tbody", *body))
    more = len(rows) - MOST_ROWS
    return joined(found, element("p", f"... and {plural(more, 'more row')}")) if more > 0 else found


def _row(row: Sequence[object], right: Sequence[bool]) -> Safe:
    cells = zip(row, right, strict=True)
    return element("tr", *(element("td", "" if v is None else v, class_="n" if n else None) for v, n in cells))


def facts(pairs: Iterable[tuple[str, object]]) -> Safe:
    """Returns a table without a header: a name and a value a row; values that are None are left out."""
    rows = (element("tr", element("th", name), element("td", value)) for name, value in pairs if value is not None)
    return element("table", element("tbody", *rows))


def titled(title: object, *content: object) -> Safe:
    """Returns a bold line, and what follows it."""
    return joined(element("p", element("b", title)), *content)
