"""A measurement is a ratio: subject and baseline take turns in one process, so noise of the machine hits both.

    round 1: baseline, subject      round 2: baseline, subject      ...      ratio = median / median

The first turn of each warms the file cache and is thrown away. What was compared, the ratio and the bound it must keep
go into `extra_info` of pytest-benchmark, whence `bench.report` makes RESULTS.md. A bound that is not kept is
reported, it fails no test: this suite measures, and the machine may be busy.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

ROUNDS = 7
"""Turns of a comparison, unless it asks for others."""

QUICK = "MORROW_BENCH_QUICK"
"""The variable of a quick run, which has `QUICK_ROUNDS` turns at most."""
QUICK_ROUNDS = 3

Clock = Callable[[], float]
"""Does something and returns how many seconds that took."""


@dataclass(frozen=True)
class Bound:
    """What the ratio subject / baseline (or baseline / subject, when `faster`) has to keep."""

    limit: float
    faster: bool = False

    def __str__(self) -> str:
        return f">= {self.limit:g}x faster" if self.faster else f"<= {self.limit:g}x"


@dataclass(frozen=True)
class Limit:
    """An absolute bound; measured are seconds where `unit` is "ms", else what it says. None asks for nothing."""

    limit: float | None
    unit: str

    def __str__(self) -> str:
        return "" if self.limit is None else f"<= {self.limit:g} {self.unit}"


@dataclass
class Measured:
    """One row of RESULTS.md; `curve` where it is a point of one (see `bench.report`)."""

    section: str
    what: str
    baseline: str = ""
    subject: list[float] = field(default_factory=list)
    """Seconds a round, or MB."""
    base: list[float] = field(default_factory=list)
    bound: Bound | Limit | None = None
    note: str = ""
    curve: dict[str, Any] | None = None

    @property
    def unit(self) -> str:
        return self.bound.unit if isinstance(self.bound, Limit) else "ms"

    def _display(self, values: Sequence[float]) -> float | None:
        if not values:
            return None
        middle = statistics.median(values)
        return middle * 1000 if self.unit == "ms" else middle

    @property
    def value(self) -> float | None:
        return self._display(self.subject)

    @property
    def ratio(self) -> float | None:
        if not self.base:
            return None
        ratio = statistics.median(self.subject) / statistics.median(self.base)
        return 1 / ratio if isinstance(self.bound, Bound) and self.bound.faster else ratio

    @property
    def met(self) -> bool | None:
        """None where nothing is demanded."""
        if isinstance(self.bound, Limit):
            asked = self.bound.limit
            return None if asked is None else self.value is not None and self.value <= asked
        if self.bound is None or self.ratio is None:
            return None
        return self.ratio >= self.bound.limit if self.bound.faster else self.ratio <= self.bound.limit

    def info(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "section": self.section,
            "what": self.what,
            "unit": self.unit,
            "value": self.value,
            "spread": [self._display([edge]) for edge in (min(self.subject), max(self.subject))],
            "baseline": self.baseline,
            "baseline_value": self._display(self.base),
            "ratio": self.ratio,
            "faster": isinstance(self.bound, Bound) and self.bound.faster,
            "bound": str(self.bound) if self.bound else "",
            "met": self.met,
            "note": self.note,
            "rounds": len(self.subject),
            "load": os.getloadavg()[0],
            **({"curve": self.curve} if self.curve else {}),
        }


@dataclass(frozen=True)
class Baseline:
    """One of several that a subject takes turns with; its row goes into a section of its own."""

    section: str
    name: str
    clock: Clock
    bound: Bound | None = None


def most_rounds(rounds: int) -> int:
    """Return how many of so many rounds are measured: all of them, but in a quick run."""
    return min(rounds, QUICK_ROUNDS) if QUICK in os.environ else rounds


def timed(action: Callable[[], object]) -> Clock:
    """Return a clock around `action`; its result is dropped after the clock has stopped."""

    def run() -> float:
        began = time.perf_counter()
        kept = action()
        took = time.perf_counter() - began
        del kept
        return took

    return run


def compare(
    benchmark: BenchmarkFixture,
    section: str,
    what: str,
    subject: Callable[[], object],
    *,
    baseline: tuple[str, Clock] | None = None,
    bound: Bound | Limit | None = None,
    before: Callable[[], object] | None = None,
    rounds: int = ROUNDS,
    warmup: bool = True,
    note: str = "",
) -> Measured:
    """Measure `subject` and, in turn with it, the baseline (its name and its clock).

    `before` runs ahead of each turn of the subject and is not measured: it drops caches for a first read.
    """
    clocks = [baseline[1]] if baseline else []
    subjects, bases = _turns(benchmark, subject, clocks, before, rounds, int(warmup))
    name, base = (baseline[0], bases[0]) if baseline else ("", [])
    measured = Measured(section, what, name, subjects, base, bound, note)
    benchmark.extra_info.update(measured.info())
    return measured


def compare_each(
    benchmark: BenchmarkFixture,
    what: str,
    subject: Callable[[], object],
    baselines: Sequence[Baseline],
    *,
    before: Callable[[], object] | None = None,
    rounds: int = ROUNDS,
    warmup: int = 1,
) -> list[Measured]:
    """As `compare` with several baselines, all in the same turns: one row for each, in its section.

    The rows go into `extra_info` under "rows"; whoever adds to them calls `put` again.
    """
    subjects, bases = _turns(benchmark, subject, [each.clock for each in baselines], before, rounds, warmup)
    rows = [Measured(each.section, what, each.name, subjects, base, each.bound) for each, base in zip(baselines, bases)]
    put(benchmark, rows)
    return rows


def put(benchmark: BenchmarkFixture, rows: Sequence[Measured]) -> None:
    """Record these rows as those of a benchmark."""
    benchmark.extra_info["rows"] = [row.info() for row in rows]


def _turns(
    benchmark: BenchmarkFixture,
    subject: Callable[[], object],
    clocks: Sequence[Clock],
    before: Callable[[], object] | None,
    rounds: int,
    warmup: int,
) -> tuple[list[float], list[list[float]]]:
    """Seconds of the subject and of every clock; those of warming up are thrown away."""
    bases: list[list[float]] = [[] for _ in clocks]

    def turn() -> None:
        for clock, seconds in zip(clocks, bases):
            seconds.append(clock())
        if before:
            before()

    rounds = most_rounds(rounds)
    benchmark.pedantic(subject, setup=turn, rounds=rounds, iterations=1, warmup_rounds=warmup)
    stats = benchmark.stats
    assert stats is not None
    return list(stats.stats.data), [seconds[-rounds:] for seconds in bases]


def record(
    benchmark: BenchmarkFixture,
    section: str,
    what: str,
    clock: Clock,
    *,
    bound: Limit | None,
    rounds: int = 5,
    note: str = "",
) -> Measured:
    """Record what `clock` measures itself: seconds, or the unit of `bound`."""
    values: list[float] = []
    benchmark.pedantic(lambda: values.append(clock()), rounds=most_rounds(rounds), iterations=1)
    measured = Measured(section, what, subject=values, bound=bound, note=note)
    benchmark.extra_info.update(measured.info())
    return measured
