"""Which files of one bucket of a keyed table a compaction rewrites: the strategy's pick, and what goes beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from morrow.engine.options.writing import WriteOptions
from morrow.writers.keyed.levels import Levels
from morrow.writers.keyed.strategy import CompactUnit, Strategy

DEAD_SHARE = 2
"""A file is rewritten when more than one in this many of its rows are dead."""


class DeadRows(Protocol):
    """The deletion vectors of a bucket, as far as picks ask for them."""

    def __contains__(self, data_file: object) -> bool: ...

    def dead_rows(self, data_file: str) -> int: ...


@dataclass(frozen=True)
class Picks:
    """Chooses the files of compactions. `vectors` is null in tables without deletion vectors."""

    write: WriteOptions
    strategy: Strategy
    vectors: DeadRows | None

    def ordinary(self, levels: Levels) -> CompactUnit | None:
        """Returns what the strategy picks, or else files most of whose rows are dead; None for nothing to do."""
        unit = self.strategy.pick(levels.count, levels.level_runs)
        return self._mostly_dead(levels) if unit is None or unit.changes_nothing else unit

    def full(self, levels: Levels) -> CompactUnit | None:
        """Returns everything, for the highest level; if it is there already, the files whose rewriting drops rows."""
        runs, top = levels.level_runs, levels.max_level
        if not runs:
            return None
        if len(runs) > 1 or runs[0].level != top:
            return CompactUnit.of(top, runs)
        vectors = self.vectors
        dead = tuple(file for file in runs[0].files if vectors is not None and file.file_name in vectors)
        files = runs[0].files if self.write.force_rewrite_all else dead
        return CompactUnit(top, files, each_alone=True) if files else None

    def _mostly_dead(self, levels: Levels) -> CompactUnit | None:
        """Returns files of one level that have fewer live rows than dead ones."""
        vectors = self.vectors
        if vectors is None:
            return None
        for run in levels.level_runs:
            files = tuple(f for f in run.files if vectors.dead_rows(f.file_name) * DEAD_SHARE > f.row_count)
            if files and run.level > 0:
                return CompactUnit(run.level, files, each_alone=True)
        return None
