"""Shares of a whole as bars: partitions by size, files by age."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import polars as pl

from morrow.engine.wording import plural, size_text
from morrow.html.elements import WHOLE, Safe, box, drawing, element
from morrow.inspection.files import total

ROW = 18
MOST_PARTITIONS = 15
AGES = (
    ("under a minute", dt.timedelta(minutes=1)),
    ("under an hour", dt.timedelta(hours=1)),
    ("under a day", dt.timedelta(days=1)),
    ("under a week", dt.timedelta(weeks=1)),
    ("under a month", dt.timedelta(days=30)),
    ("under a year", dt.timedelta(days=365)),
    ("older", dt.timedelta.max),
)


def bars(rows: Sequence[tuple[str, float, str]], label: str) -> Safe:
    """Returns a bar for each name, value and text beside it."""
    most = max((value for _, value, _ in rows), default=0) or 1
    lines = (
        element(
            "div",
            element("span", name, class_="name", title=name),
            drawing(ROW, box(0, 0, value / most * WHOLE, ROW, "append", f"{name}: {told}"), label=f"{name}: {told}"),
            element("span", told, class_="dim"),
            class_="share",
        )
        for name, value, told in rows
    )
    return element("div", *lines, role="group", aria_label=label)


def partitions(frame: pl.DataFrame, keys: Sequence[str]) -> Safe:
    """Returns the partitions by size: the largest, and the others together."""
    if not keys:
        return element("p", "The table has no partitions.")
    sizes = frame.group_by("partition").agg(pl.len().alias("files"), pl.col("size", "rows").sum())
    sizes = sizes.sort("size", "partition", descending=[True, False])
    rows = [
        (str(name), float(size), f"{size_text(size)}, {plural(files, 'file')}")
        for name, files, size, _ in sizes.head(MOST_PARTITIONS).iter_rows()
    ]
    left = sizes.slice(MOST_PARTITIONS)
    if left.height:
        size, files = total(left, "size"), total(left, "files")
        rows.append((f"{left.height:,} others", float(size), f"{size_text(size)}, {plural(files, 'file')}"))
    return bars(rows, plural(sizes.height, "partition"))


def ages(frame: pl.DataFrame, now: dt.datetime | None = None) -> Safe:
    """Returns the files by age; `now` is of the local clock, as creation times are stored."""
    now = now or dt.datetime.now()
    known = frame.filter(pl.col("created").is_not_null())
    rows, before = [], dt.timedelta.min
    age = (pl.lit(now) - pl.col("created")).dt.total_milliseconds()
    for name, limit in AGES:
        low, high = before.total_seconds() * 1000, limit.total_seconds() * 1000
        part = known.filter((age >= low) & (age < high))
        before = limit
        if part.height:
            size = total(part, "size")
            rows.append((name, float(part.height), f"{plural(part.height, 'file')}, {size_text(size)}"))
    return bars(rows, "files by age") if rows else element("p", "No file tells when it was made.")
