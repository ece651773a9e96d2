"""The snapshots of a table as a picture: a bar for what each added, tags above, branches below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.wording import plural
from morrow.html.elements import WHOLE, Safe, box, drawing, element, joined, legend, percent, word

HEIGHT = 110
LINE = 26
MOST_BARS = 120
MOST_TAGS = 12
MOST_BRANCHES = 6
LABEL = 16
"""Characters of a name in a picture."""


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


def timeline(metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> Safe:
    """Returns the section; at most `MOST_BARS` bars, each of as many snapshots as it takes."""
    if not snapshots:
        return element("p", "Nothing was committed.")
    step = -(-len(snapshots) // MOST_BARS)
    bars = [Bar(tuple(snapshots[i : i + step])) for i in range(0, len(snapshots), step)]
    wide = WHOLE / len(bars)
    at = {each.id: (number + 0.5) * wide for number, bar in enumerate(bars) for each in bar.snapshots}
    tags, branches = metadata.tags(), metadata.branch_names() if metadata.branch == "main" else []
    shapes = [*_bars(bars, wide), *_tags([(tag.name, tag.snapshot.id) for tag in tags[-MOST_TAGS:]], at)]
    lines = [_branch(metadata, name, number, at) for number, name in enumerate(branches[:MOST_BRANCHES])]
    height = HEIGHT + 8 + LINE * len(lines)
    told = f"{plural(len(snapshots), 'snapshot')}, {plural(len(tags), 'tag')}, {plural(len(branches), 'branch')}"
    more = [
        element("p", f"+ {plural(left, what)} not drawn", class_="note")
        for left, what in ((len(tags) - MOST_TAGS, "tag"), (len(branches) - MOST_BRANCHES, "branch"))
        if left > 0
    ]
    if step > 1:
        more.append(element("p", f"Each bar is {plural(step, 'snapshot')}.", class_="note"))
    colours = legend(("append", "rows written"), ("compact", "compacted"), ("fall", "fewer rows stored than before"))
    return joined(element("p", told), colours, drawing(height, *shapes, *lines, label=told), *more)


def _bars(bars: Sequence[Bar], wide: float) -> list[Safe]:
    most = max(max(abs(bar.change) for bar in bars), 1)
    width = min(wide * 0.85, 6.5)
    shapes = []
    for number, bar in enumerate(bars):
        high = max(abs(bar.change) / most * (HEIGHT - 50), 3)
        kind = "compact" if bar.snapshots[-1].commit_kind == "COMPACT" else "fall" if bar.change < 0 else "append"
        x = (number + 0.5) * wide - width / 2
        shapes.append(box(x, HEIGHT - 16 - high, width, high, kind, bar.told))
    every = -(-len(bars) // 12)
    ids = [(number, bar.snapshots[0].id) for number, bar in enumerate(bars) if number % every == 0]
    return [*shapes, *(word((number + 0.5) * wide, HEIGHT - 2, each, "dim", "middle") for number, each in ids)]


def _tags(tags: Sequence[tuple[str, int]], at: dict[int, float]) -> list[Safe]:
    shapes = []
    for number, (name, snapshot) in enumerate(tags):
        x, y = at.get(snapshot, 0.5), 12 + 11 * (number % 3)
        anchor = "end" if x > WHOLE / 2 else "start"
        line = element("line", x1=percent(x), x2=percent(x), y1=y, y2=HEIGHT - 16, class_="tag")
        shapes += [line, word(x, y, _label(name), "tag", anchor, dx=-3 if anchor == "end" else 3)]
    return shapes


def _branch(metadata: TableMetadata, name: str, number: int, at: dict[int, float]) -> Safe:
    ids = metadata.at_branch(name).living_snapshot_ids()
    y = HEIGHT + 8 + LINE * number + 14
    known = [at[each] for each in ids if each in at]
    start = known[0] if known else 0.5
    end = min(start + len(ids) + 1, WHOLE)
    line = element("line", x1=percent(start), x2=percent(end), y1=y, y2=y, class_="branch")
    span = f"snapshots {ids[0]} to {ids[-1]}" if ids else "no snapshot"
    anchor = "end" if start > WHOLE / 2 else "start"
    return joined(line, word(end if anchor == "end" else start, y - 5, f"{_label(name)}: {span}", anchor=anchor))


def _label(name: str) -> str:
    return name if len(name) <= LABEL else f"{name[: LABEL - 1]}…"
