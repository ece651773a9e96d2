"""Comparisons of a subject with a baseline. Both take turns in one process, so noise of the machine hits both.

    round 1: baseline, subject      round 2: baseline, subject      ...      ratio = median / median

The first turn of each warms the file cache and is discarded. The names, the ratio and its bound go into `extra_info` of
pytest-benchmark, from which `bench.report` writes RESULTS.md. A missed bound is reported but does not fail the test,
since the machine may be busy.
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
"""Default number of turns of a comparison."""

QUICK = "MORROW_BENCH_QUICK"
"""The environment variable that selects a quick run, with up to `QUICK_ROUNDS` turns."""
QUICK_ROUNDS = 3

Clock = Callable[[], float]
"""A function that performs some work and returns its seconds."""


@dataclass(frozen=True)
class Bound:
    """The bound of the ratio subject / baseline (or baseline / subject, if `faster`)."""

    limit: float
    faster: bool = False

    def __str__(self) -> str:
        return f">= {self.limit:g}x faster" if self.faster else f"<= {self.limit:g}x"


@dataclass(frozen=True)
class Limit:
    """An absolute bound. Measured values are seconds if `unit` is "ms", else in `unit`. None: no bound."""

    limit: float | None
    unit: str

    def __str__(self) -> str:
        return "" if self.limit is None else f"<= {self.limit:g} {self.unit}"


@dataclass
class Measured:
    """One row of RESULTS.md. `curve` is set if the row is a point of a curve (see `bench.report`)."""

    section: str
    what: str
    baseline: str = ""
    subject: list[float] = field(default_factory=list)
    """Seconds of each round, or MB."""
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
        """Whether the bound is met, None without a bound."""
        if isinstance(self.bound, Limit):
            asked = self.bound.limit
            return None if asked is None else self.value is not None and self.value <= asked
        if self.bound is None or self.ratio is None:
            return None
        return self.ratio >= self.bound.limit if self.bound.faster else self.ratio <= self.bound.limit

    def info(self) -> dict[str, Any]:
        """Return the row as JSON values."""
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
    """One of several baselines of a subject; its row goes into its own section."""

    section: str
    name: str
    clock: Clock
    bound: Bound | None = None


def most_rounds(rounds: int) -> int:
    """Return the number of rounds to measure: `rounds`, or fewer in a quick run."""
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
    """Measure `subject` in turns with the baseline (its name and its clock).

    `before` runs before each turn of the subject and is not measured; it drops caches for a first read.
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
    """Compare a subject with several baselines in the same turns; record one row for each in its section.

    The rows go into `extra_info` under "rows". Call `put` again after adding rows.
    """
    subjects, bases = _turns(benchmark, subject, [each.clock for each in baselines], before, rounds, warmup)
    rows = [Measured(each.section, what, each.name, subjects, base, each.bound) for each, base in zip(baselines, bases)]
    put(benchmark, rows)
    return rows


def put(benchmark: BenchmarkFixture, rows: Sequence[Measured]) -> None:
    """Record the rows of a benchmark, replacing earlier ones."""
    benchmark.extra_info["rows"] = [row.info() for row in rows]


def _turns(
    benchmark: BenchmarkFixture,
    subject: Callable[[], object],
    clocks: Sequence[Clock],
    before: Callable[[], object] | None,
    rounds: int,
    warmup: int,
) -> tuple[list[float], list[list[float]]]:
    """Return the seconds of the subject and of every clock, without the warm-up turn."""
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
    """Record the values that `clock` measures: seconds, or in the unit of `bound`."""
    values: list[float] = []
    benchmark.pedantic(lambda: values.append(clock()), rounds=most_rounds(rounds), iterations=1)
    measured = Measured(section, what, subject=values, bound=bound, note=note)
    benchmark.extra_info.update(measured.info())
    return measured
