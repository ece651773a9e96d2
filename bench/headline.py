"""The first screen of RESULTS.md: the ratios that matter most, as a table and as bars around the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

PLOT = "headline.svg"

Cells = Mapping[str, str]
"""A row of RESULTS.md: head of the column -> text of the cell."""

CHOSEN = (
    ("Merge-on-read, deduplicate: full read", "key BIGINT, again", "full read of a merged table, again"),
    ("Merge-on-read, deduplicate: count and sum", "key BIGINT, again", "count and sum of a merged table, again"),
    ("Other readers, merge-on-read, deduplicate", "full read to Arrow, first", "full read of a merged table, first"),
    ("Deletion vectors", "full read, 10 % deleted, first", "full read with deletion vectors, first"),
    ("After a commit", "deduplicate: count and sum, commits of 10,000 rows", "count and sum after each commit"),
    ("Lookups, other readers", "one key", "one row by its key"),
    ("Questions", "SQL, b BETWEEN 1000 AND 5000", "rows by a range of a value in SQL"),
    ("Questions", "SQL, groups with count and sum", "count and sum by group in SQL"),
    ("Writing", "upsert of 2,000,000 rows into an empty table", "upsert of 2,000,000 rows"),
    ("Spark: the scan of Parquet is the limit", "deduplicate: full read, again", "full read on Spark, again"),
    ("Spark: Java Paimon", "deduplicate: full read, first", "full read on Spark, first"),
)
"""Section, row name (with several baselines, all are shown), and title in the headline."""


@dataclass(frozen=True)
class Headline:
    """A chosen row; `times` is Morrow's time as a multiple of the baseline's."""

    what: str
    morrow: str
    baseline: str
    its_time: str
    times: float


def headlines(sections: Mapping[str, Sequence[Cells]]) -> list[Headline]:
    """Return the chosen rows that were measured, in the order of `CHOSEN`."""
    return [
        Headline(name, cells["Morrow"], cells["baseline"], cells["its time"], _times(cells["ratio"]))
        for section, what, name in CHOSEN
        for cells in sections.get(section, ())
        if cells["what"] == what and cells.get("ratio")
    ]


def _times(ratio: str) -> float:
    number, _, faster = ratio.partition("x")
    return 1 / float(number) if faster else float(number)


def table(found: Sequence[Headline]) -> list[str]:
    """Return the lines of the table, and the plot."""
    lines = ["| what | Morrow | baseline | its time | Morrow / baseline |", "| --- | --: | --- | --: | --: |"]
    lines += [
        f"| {each.what} | {each.morrow} | {each.baseline} | {each.its_time} | {shown(each.times)} |" for each in found
    ]
    return [*lines, "", f"![Morrow / baseline](plots/{PLOT})"]


def shown(times: float) -> str:
    return f"{times:.2f}" if times >= 0.1 else f"{times:.3f}"


LEFT, WIDE, LINE, BAR, TOP = 520, 330, 22, 13, 30
FASTER, SLOWER = "#15803d", "#c2410c"


def plot(found: Sequence[Headline]) -> str:
    """Draw a bar from the baseline (1) to each ratio, on a logarithmic axis; bars to the left are faster."""
    logs = [math.log10(each.times) for each in found]
    low, high = min([*logs, -1.0]), max([*logs, 1.0])

    def x(log: float) -> float:
        return LEFT + (log - low) / (high - low) * WIDE

    body = list(_axis(x(0), len(found)))
    for index, (each, log) in enumerate(zip(found, logs, strict=True)):
        y = TOP + index * LINE
        start, end = sorted((x(0), x(log)))
        colour = FASTER if log <= 0 else SLOWER
        label = escape(f"{each.what} | {each.baseline}")
        body.append(f'<text x="{LEFT - 40}" y="{y + BAR - 2}" text-anchor="end">{label}</text>')
        body.append(
            f'<rect x="{start:.1f}" y="{y}" width="{max(1.0, end - start):.1f}" height="{BAR}" fill="{colour}"/>'
        )
        side, anchor = (start - 4, "end") if log <= 0 else (end + 4, "start")
        body.append(f'<text x="{side:.1f}" y="{y + BAR - 2}" text-anchor="{anchor}">{shown(each.times)}</text>')
    size = f'width="{LEFT + WIDE + 60}" height="{TOP + len(found) * LINE + 8}"'
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(body) + "\n</svg>\n"


def _axis(at: float, count: int) -> Iterator[str]:
    yield f'<line x1="{at:.1f}" y1="{TOP - 8}" x2="{at:.1f}" y2="{TOP + count * LINE}" stroke="#64748b"/>'
    yield f'<text x="{at:.1f}" y="{TOP - 14}" text-anchor="middle">the baseline; to the left Morrow is faster</text>'
