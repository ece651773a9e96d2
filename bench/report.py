"""RESULTS.md and its plots, from the results of pytest-benchmark.

Every benchmark of `bench.compare` has one or more rows in `extra_info` (see `Measured.info`). Benchmarks without rows
are listed with their medians, so plain pytest-benchmark tests work, too.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import headline
from bench.plots import Row, amount, plot, plot_curve

LIBRARIES = ("polars", "duckdb", "pyarrow", "numpy")
READING = (
    "Subject and baseline take turns in one process. A number is the median of all turns, a ratio that of two medians.",
    "*First* is a read with Morrow's caches dropped before every turn (the files are in the system's cache for both);",
    "*again* is one with masks and metadata cached. The ratio is Morrow / baseline; *x faster* is baseline / Morrow.",
)
MARK = {True: "met", False: "**not met**", None: ""}

HEADING = "## "
"""The first characters of a section heading in RESULTS.md."""
BOUNDS_MET = "bounds are met."
AT_A_GLANCE = "\nAt a glance:\n"
NOT_MET = "\nNot met:\n"


@dataclass(frozen=True)
class Report:
    """The data of RESULTS.md; `rows` are in the order in which they were measured."""

    command: str
    rows: tuple[Row, ...]

    @classmethod
    def read(cls, path: Path, command: str) -> Report:
        benchmarks = json.loads(path.read_text())["benchmarks"]
        return cls(command, tuple(row for benchmark in benchmarks for row in _rows(benchmark)))

    @property
    def sections(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row["section"], []).append(row)
        return found


def _rows(benchmark: dict[str, Any]) -> list[Row]:
    info: Row = benchmark["extra_info"]
    if "rows" in info:
        return list(info["rows"])
    return [info if "section" in info else _row(benchmark)]


def _row(benchmark: dict[str, Any]) -> Row:
    info, stats = benchmark["extra_info"], benchmark["stats"]
    plain = {"unit": "ms", "baseline": "", "baseline_value": None, "ratio": None, "bound": "", "met": None}
    rest = {"faster": False, "note": ", ".join(f"{key} {value}" for key, value in info.items()), "load": None}
    return {
        **plain,
        **rest,
        "section": benchmark["group"] or _title(benchmark["fullname"]),
        "what": _title(benchmark["name"]),
        "value": stats["median"] * 1000,
        "spread": [stats["min"] * 1000, stats["max"] * 1000],
        "rounds": stats["rounds"],
    }


def _title(name: str) -> str:
    """Convert a test id to a title: `bench/test_dv_codec.py::test_decode[200M]` is "decode 200M" in "dv codec"."""
    name = re.sub(r".*?test_(\w+)\.py::.*", r"\1", name)
    return re.sub(r"[\[\]_]+", " ", name.removeprefix("test_")).strip()


def markdown(report: Report) -> str:
    """Return the text of RESULTS.md."""
    texts = ["\n".join(_section(section, rows)) for section, rows in report.sections.items()]
    head = [
        "# What was measured",
        "",
        f"Written by `{report.command}`. 0 of 0 {BOUNDS_MET}",
        "",
        *READING,
        "",
        *_machine(report.rows),
    ]
    return "\n".join([_standing("\n".join(head), texts), *(f"{text}\n" for text in texts)])


def _standing(head: str, texts: Sequence[str]) -> str:
    """Return the head of the report: the headline ratios, and for each section the bounds that it does not meet."""
    outcomes = {title: _outcomes(rows) for title, rows in map(_parsed, texts)}
    missed = [line for title, each in outcomes.items() for line in _summarize_missed(title, each)]
    every = [each for section in outcomes.values() for each in section]
    kept = head.partition(NOT_MET)[0].partition(AT_A_GLANCE)[0].rstrip("\n")
    chosen = headline.headlines(dict(map(_parsed, texts)))
    glance = [AT_A_GLANCE, *headline.table(chosen)] if chosen else []
    counted = re.sub(
        rf"\d+ of \d+ {BOUNDS_MET}", f"{sum(each.met for each in every)} of {len(every)} {BOUNDS_MET}", kept
    )
    return "\n".join([counted, *glance, *([NOT_MET, *missed] if missed else []), ""])


@dataclass(frozen=True)
class _Outcome:
    """A row that has a bound; `result` is its ratio or its time."""

    what: str
    result: str
    bound: str
    met: bool

    @property
    def excess(self) -> float:
        """The result as a multiple of the bound, or the bound as one of the result, if the bound is a minimum."""
        result, bound = (_parse_amount(text) for text in (self.result, self.bound))
        return bound / result if self.bound.startswith(">=") else result / bound


UNITS = {"s": 1000.0, "GB": 1000.0}
"""How many of the smaller unit, milliseconds or MB, the larger one is."""


def _parse_amount(text: str) -> float:
    """Return the first number in a cell, in milliseconds or MB if it has a unit."""
    found = re.search(r"([\d.,]+) ?(\w*)", text)
    assert found, text
    return float(found[1].replace(",", "")) * UNITS.get(found[2], 1.0)


def _outcomes(rows: Sequence[dict[str, str]]) -> list[_Outcome]:
    """Return the outcomes of the rows that have a bound.

    They are read from the table, since sections are measured in several runs.
    """
    return [
        _Outcome(row["what"], row.get("ratio") or row["Morrow"], row["bound"], row[""] == MARK[True])
        for row in rows
        if row.get("")
    ]


def _summarize_missed(title: str, outcomes: Sequence[_Outcome]) -> list[str]:
    """Return one line on the bounds that a section does not meet, with the row that is farthest from its bound."""
    missed = [each for each in outcomes if not each.met]
    if not missed:
        return []
    worst = max(missed, key=lambda each: each.excess)
    share = f"{len(missed)} of {len(outcomes)}"
    return [f"- {title}: {share}; the farthest is {worst.what}: {worst.result}, bound {worst.bound}"]


def _parsed(text: str) -> tuple[str, list[dict[str, str]]]:
    """Return the title of a section and the rows of its table as dicts by column head."""
    title = text.partition("\n")[0].removeprefix(HEADING)
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return title, [dict(zip(table[0], cells, strict=True)) for cells in table[2:]]


def _section(section: str, rows: Sequence[Row]) -> list[str]:
    lines = [f"{HEADING}{section}", "", *_table(rows)]
    if _is_curve(rows):
        lines += ["", growth(rows)]
    if _is_drawn(rows):
        lines += ["", f"![{section}](plots/{slug(section)}.svg)"]
    return lines


def _machine(rows: Iterable[Row]) -> list[str]:
    loads = [row["load"] for row in rows if row["load"] is not None]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    lines = [
        f"- machine: {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}",
        f"- versions: Python {platform.python_version()}, {versions}",
    ]
    if loads:
        lines.append(f"- load while measuring (1 minute): {min(loads):.1f} to {max(loads):.1f}")
    return lines


def _table(rows: Sequence[Row]) -> list[str]:
    compared = any(row["baseline_value"] is not None for row in rows)
    heads = ("what", "Morrow", "min-max", *(("baseline", "its time", "ratio") if compared else ()), "bound", "")
    lines = [_line(heads), _line(["---" if head in ("what", "baseline", "") else "--:" for head in heads])]
    for row in rows:
        measured = (row["what"], amount(row["value"], row["unit"]), _range(row))
        against = (row["baseline"], amount(row["baseline_value"], row["unit"]), _ratio(row)) if compared else ()
        lines.append(_line((*measured, *against, row["bound"], MARK[row["met"]])))
    notes = [f"- {row['what']}: {row['note']}" for row in rows if row["note"]]
    return [*lines, "", *notes] if notes else lines


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _range(row: Row) -> str:
    low, high = row["spread"]
    return f"{low:.3g}-{high:.3g}" if high < 1000 else f"{low:.0f}-{high:.0f}"


def _ratio(row: Row) -> str:
    if row["ratio"] is None:
        return ""
    return f"{row['ratio']:.1f}x faster" if row["faster"] else f"{row['ratio']:.2f}"


def _is_drawn(rows: Sequence[Row]) -> bool:
    return _is_curve(rows) or any(row["baseline_value"] is not None for row in rows)


def _is_curve(rows: Sequence[Row]) -> bool:
    """Return whether rows are points of a curve: benchmarks put `at`, `axis` and `each` (a step of 1) in "curve"."""
    return len(rows) > 1 and all("curve" in row for row in rows)


def growth(rows: Sequence[Row]) -> str:
    """Describe a curve: its ends, its fitted exponent, and the steps steeper than linear."""
    low, high = rows[0], rows[-1]
    low_at, high_at = (row["curve"]["at"] for row in (low, high))
    ends = f"From {low_at:g} to {high_at:g} {low['curve']['axis']}: Morrow {_change(low, high, 'value')}"
    if any(row["baseline_value"] is None for row in rows):
        return f"{ends}. {_slopes('Morrow', rows, 'value')}"
    apart = [row["value"] - row["baseline_value"] for row in (low, high)]
    step = (apart[1] - apart[0]) / (high_at - low_at)
    return (
        f"{ends}, {low['baseline']} {_change(low, high, 'baseline_value')}. The difference goes from "
        f"{amount(apart[0], low['unit'])} to {amount(apart[1], low['unit'])}: on average "
        f"{amount(step, low['unit'])} for each {low['curve']['each']}. "
        f"{_slopes('Morrow', rows, 'value')} {_slopes(low['baseline'], rows, 'baseline_value')}"
    )


STEEP = 1.15
"""The exponent between two points above which a step is reported as steeper than linear."""


def _slopes(name: str, rows: Sequence[Row], which: str) -> str:
    """Return the exponent of time over size, fitted to all points, and the steps that are steeper than linear."""
    x = [math.log(row["curve"]["at"]) for row in rows]
    y = [math.log(row[which]) for row in rows]
    fitted = statistics.linear_regression(x, y).slope
    steps = zip(rows, rows[1:], pairwise(x), pairwise(y))
    steep = [
        f"{before['curve']['at']:,} to {after['curve']['at']:,} ({(y2 - y1) / (x2 - x1):.2f})"
        for before, after, (x1, x2), (y1, y2) in steps
        if (y2 - y1) / (x2 - x1) > STEEP
    ]
    where = f"steeper than linear from {', '.join(steep)}" if steep else "nowhere steeper than linear"
    return f"{name} grows with the exponent {fitted:.2f}, {where}."


def _change(low: Row, high: Row, which: str) -> str:
    ends = [amount(row[which], row["unit"]) for row in (low, high)]
    return f"{' to '.join(ends)} ({high[which] / low[which]:.1f} times)"


def slug(section: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", section.lower()).strip("-")


def write(report: Report, folder: Path) -> None:
    """Write RESULTS.md and plots/ in `folder`, and remove plots of removed sections."""
    (folder / "RESULTS.md").write_text(markdown(report))
    for old in (folder / "plots").glob("*.svg"):
        old.unlink()
    _plots(report, folder)


def update(report: Report, folder: Path) -> None:
    """Replace sections of RESULTS.md with the sections of `report` that have the same names; append new ones.

    Also rewrite the text before the first section, which summarizes the bounds of all sections.
    """
    path = folder / "RESULTS.md"
    head, *parts = path.read_text().split(f"\n{HEADING}")
    texts = {part.partition("\n")[0]: f"{HEADING}{part}".rstrip("\n") for part in parts}
    for section, rows in report.sections.items():
        how = f"Measured by `{report.command}`, with these rows only; {_machine(rows)[-1].removeprefix('- ')}."
        texts[section] = "\n".join([*_section(section, rows), "", how])
    path.write_text("\n".join([_standing(head, list(texts.values())), *(f"{text}\n" for text in texts.values())]))
    _plots(report, folder)


def _plots(report: Report, folder: Path) -> None:
    plots = folder / "plots"
    plots.mkdir(exist_ok=True)
    _, *parts = (folder / "RESULTS.md").read_text().split(f"\n{HEADING}")
    if chosen := headline.headlines(dict(map(_parsed, parts))):
        (plots / headline.PLOT).write_text(headline.plot(chosen))
    for section, rows in report.sections.items():
        if _is_drawn(rows):
            drawn = plot_curve(section, rows) if _is_curve(rows) else plot(section, rows)
            (plots / f"{slug(section)}.svg").write_text(drawn)
