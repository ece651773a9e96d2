"""Charts of a table's live files: snapshots over time, merge trees, sizes of partitions and ages of files.

The timeline has a bar for the size of each snapshot's new files, with tags above and branches below. A merge tree has a
row for each sorted run, with the newest on top. Files are boxes from their first to their last key.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl

from morrow.engine.format.binary_row import read_arities
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import VECTOR
from morrow.engine.plan.data_files import attach_vectors, decode_partition_values
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.units import format_count, format_size
from morrow.html import (
    FULL_WIDTH,
    Safe,
    build_box,
    build_drawing,
    build_element,
    build_label,
    build_legend,
    format_percent,
    join_markup,
)
from morrow.writers.keyed.levels import make_key_order

TIMELINE_PIXELS = 110
BRANCH_PIXELS = 26
MAX_BARS = 120
MAX_TAGS = 12
MAX_BRANCHES = 6
MAX_LABEL_CHARACTERS = 16
"""Maximum characters of a name in a chart."""


@dataclass(frozen=True)
class Bar:
    """Consecutive snapshots drawn as one bar."""

    snapshots: tuple[Snapshot, ...]

    @property
    def change(self) -> int:
        return sum(each.delta_record_count or 0 for each in self.snapshots)

    @property
    def told(self) -> str:
        first, last = self.snapshots[0], self.snapshots[-1]
        kinds = ", ".join(sorted({each.operation or each.commit_kind for each in self.snapshots}))
        when = last.time.isoformat(sep=" ", timespec="seconds")
        ids = f"snapshot {first.id}" if first is last else f"snapshots {first.id} to {last.id}"
        return f"{ids}: {kinds}, {self.change:+,} stored rows, {when}"


def build_timeline(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> Safe:
    """Build the section, with up to `MAX_BARS` bars. A bar may cover several snapshots."""
    if not snapshots:
        return build_element("p", "Nothing was committed.")
    step = -(-len(snapshots) // MAX_BARS)
    bars = [Bar(tuple(snapshots[i : i + step])) for i in range(0, len(snapshots), step)]
    wide = FULL_WIDTH / len(bars)
    at = {each.id: (number + 0.5) * wide for number, bar in enumerate(bars) for each in bar.snapshots}
    tags, branches = metadata.tags(), metadata.branch_names() if metadata.branch == "main" else []
    shapes = [
        *_build_snapshot_bars(bars, wide),
        *_build_tag_marks([(tag.name, tag.snapshot.id) for tag in tags[-MAX_TAGS:]], at),
    ]
    lines = [_build_branch_line(metadata, name, number, at) for number, name in enumerate(branches[:MAX_BRANCHES])]
    height = TIMELINE_PIXELS + 8 + BRANCH_PIXELS * len(lines)
    told = (
        f"{format_count(len(snapshots), 'snapshot')}, {format_count(len(tags), 'tag')}, "
        f"{format_count(len(branches), 'branch')}"
    )
    more = [
        build_element("p", f"+ {format_count(left, what)} not drawn", class_="note")
        for left, what in ((len(tags) - MAX_TAGS, "tag"), (len(branches) - MAX_BRANCHES, "branch"))
        if left > 0
    ]
    if step > 1:
        more.append(build_element("p", f"Each bar is {format_count(step, 'snapshot')}.", class_="note"))
    colours = build_legend(
        ("append", "rows written"), ("compact", "compacted"), ("fall", "fewer rows stored than before")
    )
    return join_markup(build_element("p", told), colours, build_drawing(height, *shapes, *lines, label=told), *more)


def _build_snapshot_bars(bars: Sequence[Bar], wide: float) -> list[Safe]:
    most = max(max(abs(bar.change) for bar in bars), 1)
    width = min(wide * 0.85, 6.5)
    shapes = []
    for number, bar in enumerate(bars):
        high = max(abs(bar.change) / most * (TIMELINE_PIXELS - 50), 3)
        kind = "compact" if bar.snapshots[-1].commit_kind == "COMPACT" else "fall" if bar.change < 0 else "append"
        x = (number + 0.5) * wide - width / 2
        shapes.append(build_box(x, TIMELINE_PIXELS - 16 - high, width, high, kind, bar.told))
    every = -(-len(bars) // 12)
    ids = [(number, bar.snapshots[0].id) for number, bar in enumerate(bars) if number % every == 0]
    return [
        *shapes,
        *(build_label((number + 0.5) * wide, TIMELINE_PIXELS - 2, each, "dim", "middle") for number, each in ids),
    ]


def _build_tag_marks(tags: Sequence[tuple[str, int]], at: dict[int, float]) -> list[Safe]:
    shapes = []
    for number, (name, snapshot) in enumerate(tags):
        x, y = at.get(snapshot, 0.5), 12 + 11 * (number % 3)
        anchor = "end" if x > FULL_WIDTH / 2 else "start"
        line = build_element(
            "line", x1=format_percent(x), x2=format_percent(x), y1=y, y2=TIMELINE_PIXELS - 16, class_="tag"
        )
        shapes += [line, build_label(x, y, _shorten_label(name), "tag", anchor, dx=-3 if anchor == "end" else 3)]
    return shapes


def _build_branch_line(metadata: TableMetadata, name: str, number: int, at: dict[int, float]) -> Safe:
    ids = metadata.at_branch(name).living_snapshot_ids()
    y = TIMELINE_PIXELS + 8 + BRANCH_PIXELS * number + 14
    known = [at[each] for each in ids if each in at]
    start = known[0] if known else 0.5
    end = min(start + len(ids) + 1, FULL_WIDTH)
    line = build_element("line", x1=format_percent(start), x2=format_percent(end), y1=y, y2=y, class_="branch")
    span = f"snapshots {ids[0]} to {ids[-1]}" if ids else "no snapshot"
    anchor = "end" if start > FULL_WIDTH / 2 else "start"
    return join_markup(
        line, build_label(end if anchor == "end" else start, y - 5, f"{_shorten_label(name)}: {span}", anchor=anchor)
    )


def _shorten_label(name: str) -> str:
    return name if len(name) <= MAX_LABEL_CHARACTERS else f"{name[: MAX_LABEL_CHARACTERS - 1]}…"


RUN_PIXELS = 22
MAX_BUCKETS = 8
MAX_RUNS = 10
MAX_BOXES = 320
"""Maximum boxes in all charts of buckets together."""
MIN_FILE_WIDTH = 0.4
"""Minimum width of a file in percent, so that the pointer can hit it."""


@dataclass(frozen=True)
class Run:
    """A row of the chart: files of one level that do not overlap, or a summary of several runs (`runs` > 1)."""

    level: int
    files: tuple[PlacedFile, ...]
    runs: int = 1


def build_trees(files: LiveFiles, where: str) -> Safe:
    """Build the section: the largest buckets as charts, the others as a summary."""
    if not files.frame.height:
        return build_element("p", "There is no file.")
    sizes = files.frame.group_by("partition", "bucket").agg(pl.col("size").sum()).sort("size", descending=True)
    drawn = [
        (
            partition,
            bucket,
            _group_runs(place_files(files, _filter_bucket(files.frame, partition, bucket), where), files.keyed),
        )
        for partition, bucket, _ in sizes.head(MAX_BUCKETS).sort("partition", "bucket").iter_rows()
    ]
    rows = sum(min(len(runs), MAX_RUNS + 1) for _, _, runs in drawn)
    most = max(MAX_BOXES // max(rows, 1), 2)
    parts = [_build_tree(partition, bucket, runs, most) for partition, bucket, runs in drawn]
    left = sizes.slice(MAX_BUCKETS)
    if left.height:
        note = f"+ {format_count(left.height, 'smaller bucket')} of {format_size(sum_column(left, 'size'))} not drawn"
        parts.append(build_element("p", note, class_="note"))
    levels = ("level0", "level 0"), ("level1", "1 and 2"), ("level3", "3 and 4"), ("level5", "5 and above")
    told = (
        "Boxes reach from the first to the last key of a file." if files.keyed else "Boxes are as wide as files large."
    )
    colours = build_legend(*(levels if files.keyed else ()), ("dead", "dead rows"))
    return join_markup(build_element("p", told, class_="note"), colours, *parts)


def _filter_bucket(frame: pl.DataFrame, partition: str, bucket: int) -> pl.DataFrame:
    return frame.filter((pl.col("partition") == partition) & (pl.col("bucket") == bucket))


def _group_runs(files: Sequence[PlacedFile], keyed: bool) -> list[Run]:
    """Group files into runs, the newest first. Files of append tables are one row."""
    if not keyed:
        return [Run(0, tuple(files))]
    newest = sorted((each for each in files if each.level == 0), key=lambda each: -each.sequence)
    runs = [Run(0, (each,)) for each in newest]
    above = sorted((each for each in files if each.level), key=lambda each: (each.level, each.start))
    return [*runs, *(Run(level, tuple(group)) for level, group in groupby(above, key=lambda each: each.level))]


def _build_tree(partition: str, bucket: int, runs: Sequence[Run], most: int) -> Safe:
    files = [each for run in runs for each in run.files]
    size, dead = sum(each.size for each in files), sum(each.dead for each in files)
    names = f"{partition}, bucket {bucket}" if partition else f"bucket {bucket}"
    told = [format_count(len(files), "file"), format_count(len(runs), "sorted run"), format_size(size)]
    told += [format_count(dead, "dead row")] if dead else []
    rows = [_build_run_row(run, most) for run in _select_runs(runs)]
    picture = build_element("div", *rows, role="group", aria_label=f"{names}: {', '.join(told)}")
    return join_markup(build_element("h3", names, build_element("small", ", ".join(told))), picture)


def _select_runs(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs to draw: the newest and the oldest, with the runs between them as one row."""
    if len(runs) <= MAX_RUNS:
        yield from runs
        return
    half = MAX_RUNS // 2
    yield from runs[:half]
    between = runs[half:-half]
    yield Run(between[0].level, tuple(each for run in between for each in run.files), len(between))
    yield from runs[-half:]


def _build_run_row(run: Run, most: int) -> Safe:
    size = format_size(sum(each.size for each in run.files))
    name = f"level {run.level}" if run.runs == 1 else f"{run.runs} more runs"
    groups = [run.files] if run.runs > 1 else list(_group_files(run.files, most))
    boxes = build_drawing(
        RUN_PIXELS, *(shape for group in groups for shape in _build_boxes(group, run.level)), label=f"{name}, {size}"
    )
    return build_element(
        "div", build_element("span", name), build_element("span", size, class_="dim n"), boxes, class_="run"
    )


def _build_boxes(group: Sequence[PlacedFile], level: int) -> Iterator[Safe]:
    start, end = min(each.start for each in group), max(each.end for each in group)
    width = max((end - start) * FULL_WIDTH, MIN_FILE_WIDTH)
    x = min(start * FULL_WIDTH, FULL_WIDTH - width)
    rows, dead = sum(each.rows for each in group), sum(each.dead for each in group)
    yield build_box(x, 0, width, RUN_PIXELS, f"level{min(level, 6)}", _describe_files(group, rows, dead))
    if dead and rows:
        yield build_box(
            x, RUN_PIXELS - 4, width * dead / rows, 4, "dead", f"{format_count(dead, 'dead row')} of {rows:,}"
        )


def _group_files(files: Sequence[PlacedFile], most: int) -> Iterator[Sequence[PlacedFile]]:
    step = -(-len(files) // most)
    return (files[i : i + step] for i in range(0, len(files), step))


def _describe_files(group: Sequence[PlacedFile], rows: int, dead: int) -> str:
    size = format_size(sum(each.size for each in group))
    keys = f", keys {group[0].keys}" if len(group) == 1 and group[0].keys else ""
    return (
        f"{format_count(len(group), 'file')}, {format_count(rows, 'row')}, {format_count(dead, 'dead row')}, "
        f"{size}{keys}"
    )


BAR_PIXELS = 18
MAX_PARTITIONS = 15
AGES = (
    ("under a minute", dt.timedelta(minutes=1)),
    ("under an hour", dt.timedelta(hours=1)),
    ("under a day", dt.timedelta(days=1)),
    ("under a week", dt.timedelta(weeks=1)),
    ("under a month", dt.timedelta(days=30)),
    ("under a year", dt.timedelta(days=365)),
    ("older", dt.timedelta.max),
)


def build_bars(rows: Sequence[tuple[str, float, str]], label: str) -> Safe:
    """Build a bar chart of rows (name, value, text next to the bar)."""
    most = max((value for _, value, _ in rows), default=0) or 1
    lines = (
        build_element(
            "div",
            build_element("span", name, class_="name", title=name),
            build_drawing(
                BAR_PIXELS,
                build_box(0, 0, value / most * FULL_WIDTH, BAR_PIXELS, "append", f"{name}: {told}"),
                label=f"{name}: {told}",
            ),
            build_element("span", told, class_="dim"),
            class_="share",
        )
        for name, value, told in rows
    )
    return build_element("div", *lines, role="group", aria_label=label)


def build_partition_chart(frame: pl.DataFrame, keys: Sequence[str]) -> Safe:
    """Build a chart of partitions by size: the largest ones. The others are summed in a note, as their bar would dwarf
    all."""
    if not keys:
        return build_element("p", "The table has no partitions.")
    sizes = frame.group_by("partition").agg(pl.len().alias("files"), pl.col("size", "rows").sum())
    sizes = sizes.sort("size", "partition", descending=[True, False])
    rows = [
        (str(name), float(size), f"{format_size(size)}, {format_count(files, 'file')}")
        for name, files, size, _ in sizes.head(MAX_PARTITIONS).iter_rows()
    ]
    named, left = format_count(sizes.height, "partition"), sizes.slice(MAX_PARTITIONS)
    if left.height:
        size, files = sum_column(left, "size"), sum_column(left, "files")
        others = f"{left.height:,} others: {format_size(size)}, {format_count(files, 'file')}"
        return join_markup(build_bars(rows, named), build_element("p", others, class_="note"))
    return build_bars(rows, named)


def build_age_chart(frame: pl.DataFrame, now: dt.datetime | None = None) -> Safe:
    """Build a chart of files by age. `now` is local time, as creation times are."""
    now = now or dt.datetime.now()
    known = frame.filter(pl.col("created").is_not_null())
    rows, before = [], dt.timedelta.min
    age = (pl.lit(now) - pl.col("created")).dt.total_milliseconds()
    for name, limit in AGES:
        low, high = before.total_seconds() * 1000, limit.total_seconds() * 1000
        part = known.filter((age >= low) & (age < high))
        before = limit
        if part.height:
            size = sum_column(part, "size")
            rows.append((name, float(part.height), f"{format_count(part.height, 'file')}, {format_size(size)}"))
    return build_bars(rows, "files by age") if rows else build_element("p", "No file tells when it was made.")


COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "partition": pl.String,
    "bucket": pl.Int32,
    "name": pl.String,
    "level": pl.Int32,
    "rows": pl.Int64,
    "dead": pl.Int64,
    "size": pl.Int64,
    "created": pl.Datetime("ms"),
    "sequence": pl.Int64,
    "low": pl.Binary,
    "high": pl.Binary,
    "schema": pl.Int64,
}


@dataclass(frozen=True)
class LiveFiles:
    """The files of a snapshot with the columns `COLUMNS`. If `keyed`, their keys place them in a merge tree."""

    schema: TableSchema
    frame: pl.DataFrame
    keyed: bool


def sum_column(frame: pl.DataFrame, name: str) -> int:
    """Return the sum of an integer column."""
    return int(frame[name].sum())


def read_live_files(metadata: TableMetadata, snapshot: Snapshot | None) -> LiveFiles:
    """Read the live files of the snapshot. Raises as `read_live_entries`."""
    newest = metadata.latest_schema()
    if snapshot is None:
        return LiveFiles(newest, pl.DataFrame(schema=COLUMNS), False)
    schema = metadata.schema(snapshot.schema_id)
    live = read_live_entries(metadata, snapshot, schema).frame
    frame, vectors = attach_vectors(metadata, metadata.options(newest), snapshot, live)
    dead = pl.Series([0], dtype=pl.Int64).new_from_index(0, frame.height)
    if vectors is not None:
        marked = pl.Series([*vectors.ranges["_CARDINALITY"].to_list(), 0], dtype=pl.Int64)
        numbers = frame[VECTOR].to_numpy()
        dead = marked.gather(pl.Series(numbers).replace(-1, len(marked) - 1)).fill_null(0)
    texts = [
        ", ".join(f"{name}={value!s}" for name, value in zip(schema.partition_keys, values, strict=True))
        for values in decode_partition_values(schema, frame, where=metadata.where)
    ]
    found = pl.DataFrame(
        {
            "partition": pl.Series(texts, dtype=pl.String),
            "bucket": frame["_BUCKET"],
            "name": frame["_FILE_NAME"],
            "level": frame["_LEVEL"],
            "rows": frame["_ROW_COUNT"],
            "dead": dead,
            "size": frame["_FILE_SIZE"],
            "created": frame["_CREATION_TIME"],
            "sequence": frame["_MAX_SEQUENCE_NUMBER"],
            "low": frame["_MIN_KEY"],
            "high": frame["_MAX_KEY"],
            "schema": frame["_SCHEMA_ID"],
        }
    )
    keyed = bool(schema.primary_keys) and not (pl.Series(read_arities(found["low"], where=metadata.where)) == 0).any()
    return LiveFiles(schema, found, keyed)


@dataclass(frozen=True)
class PlacedFile:
    """A file of a bucket. `start` and `end` are positions from 0 to 1 in the order of keys (or commits)."""

    level: int
    rows: int
    dead: int
    size: int
    sequence: int
    start: float
    end: float
    keys: str


def place_files(files: LiveFiles, bucket: pl.DataFrame, where: str) -> list[PlacedFile]:
    """Return the files of one bucket with positions by rank among all bounding keys of the bucket."""
    rows = bucket.to_dicts()
    return _place_by_keys(files, rows, where) if files.keyed else _place_by_size(rows)


def _place_by_size(rows: Sequence[dict[str, Any]]) -> list[PlacedFile]:
    whole, passed, found = sum(row["size"] for row in rows) or 1, 0, []
    for row in sorted(rows, key=lambda row: row["sequence"]):
        start, passed = passed, passed + row["size"]
        found.append(_make_placed_file(row, start / whole, passed / whole, ""))
    return found


def _place_by_keys(files: LiveFiles, rows: Sequence[dict[str, Any]], where: str) -> list[PlacedFile]:
    fields = [files.schema.by_name[name] for name in files.schema.trimmed_primary_keys]
    keys = {row[name] for row in rows for name in ("low", "high")}
    order = make_key_order(fields, where=where, keys=keys)
    bounds = sorted({*map(order, keys)})
    last = max(len(bounds) - 1, 1)

    def place(key: bytes) -> float:
        return bisect_left(bounds, order(key)) / last

    return [
        _make_placed_file(
            row,
            place(row["low"]),
            place(row["high"]),
            f"{_format_key(order(row['low']))} to {_format_key(order(row['high']))}",
        )
        for row in rows
    ]


def _make_placed_file(row: dict[str, Any], start: float, end: float, keys: str) -> PlacedFile:
    return PlacedFile(row["level"], row["rows"], row["dead"], row["size"], row["sequence"], start, end, keys)


def _format_key(values: Sequence[Any]) -> str:
    texts = (value.decode(errors="replace") if isinstance(value, bytes) else _format_value(value) for value in values)
    return ", ".join(text if len(text) <= 40 else f"{text[:40]}..." for text in texts)


def _format_value(value: Any) -> str:
    return str(value[0]) if isinstance(value, tuple) else str(value)
