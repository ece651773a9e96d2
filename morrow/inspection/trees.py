"""Buckets as pictures: a row for each sorted run, the newest on top, files as boxes from their first to last key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from morrow.engine.wording import plural, size_text
from morrow.html.elements import WHOLE, Safe, box, drawing, element, joined, legend
from morrow.inspection.files import LiveFiles, Placed, placed, total

ROW = 22
MOST_BUCKETS = 8
MOST_RUNS = 10
MOST_BOXES = 320
"""Boxes in all pictures of buckets together."""
LEAST_FILE = 0.4
"""Percents of the width that a file has at least, so that the pointer finds it."""


@dataclass(frozen=True)
class Run:
    """A row of the picture: files of one level that do not overlap, or several runs summed up (`runs` > 1)."""

    level: int
    files: tuple[Placed, ...]
    runs: int = 1


def trees(files: LiveFiles, where: str) -> Safe:
    """Returns the section: the largest buckets drawn, the others summed."""
    if not files.frame.height:
        return element("p", "There is no file.")
    sizes = files.frame.group_by("partition", "bucket").agg(pl.col("size").sum()).sort("size", descending=True)
    drawn = [
        (partition, bucket, _runs(placed(files, _bucket(files.frame, partition, bucket), where), files.keyed))
        for partition, bucket, _ in sizes.head(MOST_BUCKETS).sort("partition", "bucket").iter_rows()
    ]
    rows = sum(min(len(runs), MOST_RUNS + 1) for _, _, runs in drawn)
    most = max(MOST_BOXES // max(rows, 1), 2)
    parts = [_tree(partition, bucket, runs, most) for partition, bucket, runs in drawn]
    left = sizes.slice(MOST_BUCKETS)
    if left.height:
        note = f"+ {plural(left.height, 'smaller bucket')} of {size_text(total(left, 'size'))} not drawn"
        parts.append(element("p", note, class_="note"))
    levels = ("level0", "level 0"), ("level1", "1 and 2"), ("level3", "3 and 4"), ("level5", "5 and above")
    told = (
        "Boxes reach from the first to the last key of a file." if files.keyed else "Boxes are as wide as files large."
    )
    colours = legend(*(levels if files.keyed else ()), ("dead", "dead rows"))
    return joined(element("p", told, class_="note"), colours, *parts)


def _bucket(frame: pl.DataFrame, partition: str, bucket: int) -> pl.DataFrame:
    return frame.filter((pl.col("partition") == partition) & (pl.col("bucket") == bucket))


def _runs(files: Sequence[Placed], keyed: bool) -> list[Run]:
    """Returns the runs, the newest first; files of tables without a key are one row."""
    if not keyed:
        return [Run(0, tuple(files))]
    newest = sorted((each for each in files if each.level == 0), key=lambda each: -each.sequence)
    runs = [Run(0, (each,)) for each in newest]
    above = sorted((each for each in files if each.level), key=lambda each: (each.level, each.start))
    return [*runs, *(Run(level, tuple(group)) for level, group in groupby(above, key=lambda each: each.level))]


def _tree(partition: str, bucket: int, runs: Sequence[Run], most: int) -> Safe:
    files = [each for run in runs for each in run.files]
    size, dead = sum(each.size for each in files), sum(each.dead for each in files)
    names = f"{partition}, bucket {bucket}" if partition else f"bucket {bucket}"
    told = [plural(len(files), "file"), plural(len(runs), "sorted run"), size_text(size)]
    told += [plural(dead, "dead row")] if dead else []
    rows = [_row(run, most) for run in _fitting(runs)]
    picture = element("div", *rows, role="group", aria_label=f"{names}: {', '.join(told)}")
    return joined(element("h3", names, element("small", ", ".join(told))), picture)


def _fitting(runs: Sequence[Run]) -> Iterator[Run]:
    """Yields the runs that fit: the newest and the oldest, those between as one."""
    if len(runs) <= MOST_RUNS:
        yield from runs
        return
    half = MOST_RUNS // 2
    yield from runs[:half]
    between = runs[half:-half]
    yield Run(between[0].level, tuple(each for run in between for each in run.files), len(between))
    yield from runs[-half:]


def _row(run: Run, most: int) -> Safe:
    size = size_text(sum(each.size for each in run.files))
    name = f"level {run.level}" if run.runs == 1 else f"{run.runs} more runs"
    groups = [run.files] if run.runs > 1 else list(_grouped(run.files, most))
    boxes = drawing(ROW, *(shape for group in groups for shape in _boxes(group, run.level)), label=f"{name}, {size}")
    return element("div", element("span", name), element("span", size, class_="dim n"), boxes, class_="run")


def _boxes(group: Sequence[Placed], level: int) -> Iterator[Safe]:
    start, end = min(each.start for each in group), max(each.end for each in group)
    width = max((end - start) * WHOLE, LEAST_FILE)
    x = min(start * WHOLE, WHOLE - width)
    rows, dead = sum(each.rows for each in group), sum(each.dead for each in group)
    yield box(x, 0, width, ROW, f"level{min(level, 6)}", _told(group, rows, dead))
    if dead and rows:
        yield box(x, ROW - 4, width * dead / rows, 4, "dead", f"{plural(dead, 'dead row')} of {rows:,}")


def _grouped(files: Sequence[Placed], most: int) -> Iterator[Sequence[Placed]]:
    step = -(-len(files) // most)
    return (files[i : i + step] for i in range(0, len(files), step))


def _told(group: Sequence[Placed], rows: int, dead: int) -> str:
    size = size_text(sum(each.size for each in group))
    keys = f", keys {group[0].keys}" if len(group) == 1 and group[0].keys else ""
    return f"{plural(len(group), 'file')}, {plural(rows, 'row')}, {plural(dead, 'dead row')}, {size}{keys}"
