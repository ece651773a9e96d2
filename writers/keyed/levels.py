"""The files of one bucket as levels of sorted runs.

A sorted run is a tuple of files in key order whose key ranges do not overlap. Level 0 holds a run per file, the newest
first; every level above it is one run. Levels are values: an update makes new ones.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.data_file_meta import DataFileMeta

SortedRun: TypeAlias = tuple[DataFileMeta, ...]
Section: TypeAlias = tuple[SortedRun, ...]
"""Runs that overlap, in no particular order."""

KeyOrder: TypeAlias = Callable[[bytes], Any]
"""Converts a stored key to a value that compares as the key; see `morrow.writers.keyed.keys.key_order_of`."""


def run_size(run: Iterable[DataFileMeta]) -> int:
    """Returns the bytes of a run's files."""
    return sum(file.file_size for file in run)


@dataclass(frozen=True)
class LevelRun:
    """A sorted run and the level it is at."""

    level: int
    files: SortedRun

    @property
    def size(self) -> int:
        return run_size(self.files)


@dataclass(frozen=True)
class Levels:
    """All files of a bucket. `count` is the number of levels, which restored files may raise above the option's."""

    count: int
    level_zero: SortedRun
    runs: tuple[SortedRun, ...]
    order: KeyOrder

    @classmethod
    def of(cls, files: Iterable[DataFileMeta], count: int, order: KeyOrder, *, where: str) -> Levels:
        """Sorts files into levels.

        Raises:
            InvalidArgument: fewer than two levels.
            Unsupported: files of one level overlap.
        """
        files = tuple(files)
        count = max(count, max((file.level for file in files), default=-1) + 1)
        if count < 2:
            raise InvalidArgument(f"{where}: 'num-levels' is {count}; a merge tree has at least 2 levels")
        by_level: dict[int, list[DataFileMeta]] = defaultdict(list)
        for file in files:
            by_level[file.level].append(file)
        runs = tuple(_sorted_run(by_level[level], order, level, where) for level in range(1, count))
        return cls(count, tuple(sorted(by_level[0], key=_newest_first)), runs, order)

    @property
    def max_level(self) -> int:
        return self.count - 1

    @cached_property
    def level_runs(self) -> tuple[LevelRun, ...]:
        """Every non-empty run, the newest first."""
        zero = [LevelRun(0, (file,)) for file in self.level_zero]
        return (*zero, *(LevelRun(level, run) for level, run in enumerate(self.runs, 1) if run))

    @property
    def highest(self) -> int:
        """The highest level that holds files, -1 when there are none."""
        return max((run.level for run in self.level_runs), default=-1)

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files, those of the newest run first."""
        return tuple(file for run in self.level_runs for file in run.files)

    def updated(self, before: Iterable[DataFileMeta], after: Iterable[DataFileMeta], *, where: str) -> Levels:
        """Returns the levels after a flush or compaction that replaced `before` by `after`."""
        gone = {(file.file_name, file.level) for file in before}
        kept = [file for file in self.files if (file.file_name, file.level) not in gone]
        return Levels.of((*kept, *after), self.count, self.order, where=where)


def _newest_first(file: DataFileMeta) -> tuple[int, int, int, str]:
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time, file.file_name


def _sorted_run(files: Sequence[DataFileMeta], order: KeyOrder, level: int, where: str) -> SortedRun:
    ordered = sorted(files, key=lambda file: order(file.min_key))
    for before, after in pairwise(ordered):
        if not order(after.min_key) > order(before.max_key):
            raise Unsupported(
                f"the overlap of {before.file_name} and {after.file_name}, both of level {level},",
                where=where,
                hint="two compactions that did not check each other leave it; read the table, and write it anew",
            )
    return tuple(ordered)


def sections_of(files: Iterable[DataFileMeta], order: KeyOrder) -> list[Section]:
    """Splits files into the smallest sets whose key ranges overlap, in key order, each in the fewest sorted runs."""
    sections: list[list[DataFileMeta]] = []
    reach: Any = None
    for file in sorted(files, key=lambda file: (order(file.min_key), order(file.max_key))):
        if not sections or order(file.min_key) > reach:
            sections.append([])
            reach = order(file.max_key)
        sections[-1].append(file)
        reach = max(reach, order(file.max_key))
    return [_runs_of(section, order) for section in sections]


def _runs_of(files: Sequence[DataFileMeta], order: KeyOrder) -> Section:
    """Assigns each file to the run that ends first, if it ends before the file begins."""
    runs: list[list[DataFileMeta]] = []
    ends: list[tuple[Any, int]] = []
    for file in files:
        if ends and order(file.min_key) > ends[0][0]:
            number = ends[0][1]
            runs[number].append(file)
            heapq.heapreplace(ends, (order(file.max_key), number))
        else:
            heapq.heappush(ends, (order(file.max_key), len(runs)))
            runs.append([file])
    return tuple(tuple(run) for run in runs)


def files_of(sections: Iterable[Section]) -> tuple[DataFileMeta, ...]:
    """Returns the files of sections, in their order."""
    return tuple(file for section in sections for run in section for file in run)
