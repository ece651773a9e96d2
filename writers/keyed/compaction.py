"""Compacts the runs of one bucket that the strategy picks, section by section, rewriting as few rows as possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.writers.files import delete_files
from morrow.writers.keyed.keys import key_order_of, trimmed_key
from morrow.writers.keyed.levels import Levels, Section, sections_of
from morrow.writers.keyed.picks import Picks
from morrow.writers.keyed.rewriter import CompactResult, Rewriter
from morrow.writers.keyed.strategy import CompactUnit, Strategy
from morrow.writers.target import WriteTarget


class Compactor:
    """The levels of a bucket, and the compactions that change them."""

    def __init__(
        self, target: WriteTarget, files: Iterable[DataFileMeta], rewriter: Rewriter, strategy: Strategy
    ) -> None:
        self._target = target
        self._write = target.write
        self._rewriter = rewriter
        self._picks = Picks(self._write, strategy, rewriter.vectors)
        self._order = key_order_of(trimmed_key(target), where=target.where)
        self.levels = Levels.of(files, self._write.levels, self._order, where=target.where)

    @property
    def sorted_runs(self) -> int:
        return len(self.levels.level_runs)

    def add(self, files: Iterable[DataFileMeta]) -> None:
        """Adds flushed files."""
        self.levels = self.levels.updated((), files, where=self._target.where)

    def compact(self, full: bool) -> CompactResult | None:
        """Runs one compaction, of everything or of the strategy's pick; returns None when there is nothing to do."""
        unit = self._picks.full(self.levels) if full else self._picks.ordinary(self.levels)
        if unit is None:
            return None
        self._rewriter.levels = self.levels
        result = CompactResult()
        try:
            for step in self._each_alone(unit) if unit.each_alone else self._run(unit):
                result += step
        except BaseException:
            delete_files(self._target, self._rewriter.place, result.written)
            raise
        self.levels = self.levels.updated(result.before, result.after, where=self._target.where)
        return result

    def _drops_deletes(self, output_level: int) -> bool:
        """Returns whether no older run is left, or its superseded rows are already marked as dead."""
        bottom = output_level >= self.levels.highest or self._rewriter.vectors is not None
        return output_level != 0 and bottom

    # --- rewrites ---

    def _each_alone(self, unit: CompactUnit) -> Iterator[CompactResult]:
        for file in unit.files:
            yield self._rewriter.rewrite(unit.output_level, self._drops_deletes(unit.output_level), [((file,),)])

    def _run(self, unit: CompactUnit) -> Iterator[CompactResult]:
        """Rewrites overlapping and small files, and moves large ones up unchanged.

        Neighbours in the order of keys are rewritten together, without gaps.
        """
        waiting: list[Section] = []
        large = self._write.target_file_size // 10 * 7
        for section in sections_of(unit.files, self._order):
            if len(section) > 1:
                waiting.append(section)
                continue
            for file in section[0]:
                if file.file_size < large:
                    waiting.append(((file,),))
                    continue
                yield self._rewritten(unit, waiting)
                yield self._upgraded(unit, file)
                waiting = []
        yield self._rewritten(unit, waiting)

    def _rewritten(self, unit: CompactUnit, sections: list[Section]) -> CompactResult:
        if not sections:
            return CompactResult()
        if len(sections) == 1 and len(sections[0]) == 1:
            (file,) = sections[0][0]  # a section of one run has one file
            return self._upgraded(unit, file)
        return self._rewriter.rewrite(unit.output_level, self._drops_deletes(unit.output_level), sections)

    def _upgraded(self, unit: CompactUnit, file: DataFileMeta) -> CompactResult:
        """Moves a file up; one with retractions cannot move to the highest level unchanged."""
        may_retract = file.delete_row_count is None or file.delete_row_count > 0
        if (unit.output_level == self.levels.max_level and may_retract) or self._write.force_rewrite_all:
            drops = self._drops_deletes(unit.output_level)
            return self._rewriter.rewrite(unit.output_level, drops, [((file,),)])
        if file.level == unit.output_level:
            return CompactResult()
        return self._rewriter.upgrade(unit.output_level, file)
