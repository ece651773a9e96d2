"""Compaction of one bucket of a keyed table: sorted runs are picked, and merged section by section.

Runs are picked by universal compaction as in Java Paimon. They are ordered newest first: the files of level 0, then the
levels above. A pick is always a prefix of this order, so the compacted runs are newer than all others, and their output
goes to a level in between. Compaction rewrites as few rows as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Protocol

from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.merge.spec import Rule
from morrow.engine.options.declarations import ChangelogProducer, LookupCompact
from morrow.engine.options.write_options import WriteOptions
from morrow.writers.files.bucket_reader import RecordExpiry
from morrow.writers.files.data_files import delete_files
from morrow.writers.keyed.levels import LevelRun, Levels, Section, make_key_order, split_sections, trim_key
from morrow.writers.keyed.rewriter import CompactResult, Rewriter
from morrow.writers.target import WriteTarget


class Compactor:
    """The levels of a bucket, and the compactions that change them."""

    def __init__(
        self, target: WriteTarget, files: Iterable[DataFileMeta], rewriter: Rewriter, strategy: Strategy
    ) -> None:
        self._target = target
        self._write = target.write
        self._rewriter = rewriter
        self._expiry = RecordExpiry.of(target)
        self._picks = FilePicker(self._write, strategy, rewriter.vectors, self._expiry)
        self._order = make_key_order(trim_key(target), where=target.where)
        self.levels = Levels.of(files, self._write.levels, self._order, where=target.where)

    @property
    def sorted_runs(self) -> int:
        return len(self.levels.level_runs)

    def add(self, files: Iterable[DataFileMeta]) -> None:
        """Add flushed files."""
        self.levels = self.levels.updated((), files, where=self._target.where)

    def compact(self, full: bool) -> CompactResult | None:
        """Run one compaction, of everything or of the strategy's pick; return None if there is nothing to do."""
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
        """Return whether no older run is left, or its superseded rows are already marked as dead.

        Retractions of a chain table count in later partitions.
        """
        if self._target.options.is_chain_table:
            return False
        bottom = output_level >= self.levels.highest or self._rewriter.vectors is not None
        return output_level != 0 and bottom

    # --- rewrites ---

    def _each_alone(self, unit: CompactUnit) -> Iterator[CompactResult]:
        for file in unit.files:
            yield self._rewriter.rewrite(unit.output_level, self._drops_deletes(unit.output_level), [((file,),)])

    def _run(self, unit: CompactUnit) -> Iterator[CompactResult]:
        """Rewrite overlapping and small files, and move large ones up unchanged.

        Files that are adjacent in key order are rewritten together.
        """
        waiting: list[Section] = []
        large = self._write.target_file_size // 10 * 7
        for section in split_sections(unit.files, self._order):
            if len(section) > 1:
                waiting.append(section)
                continue
            for file in section[0]:
                if file.file_size < large:
                    waiting.append(((file,),))
                    continue
                yield self._rewritten(unit, waiting)
                yield self._upgrade(unit, file)
                waiting = []
        yield self._rewritten(unit, waiting)

    def _rewritten(self, unit: CompactUnit, sections: list[Section]) -> CompactResult:
        if not sections:
            return CompactResult()
        if len(sections) == 1 and len(sections[0]) == 1:
            (file,) = sections[0][0]  # a section of one run has one file
            return self._upgrade(unit, file)
        return self._rewriter.rewrite(unit.output_level, self._drops_deletes(unit.output_level), sections)

    def _upgrade(self, unit: CompactUnit, file: DataFileMeta) -> CompactResult:
        """Move a file up. It is rewritten if rows have expired, or if retractions move to the highest level."""
        may_retract = file.delete_row_count is None or file.delete_row_count > 0
        expires = self._expiry is not None and self._expiry.may_hold_expired(file)
        if (unit.output_level == self.levels.max_level and may_retract) or self._write.force_rewrite_all or expires:
            drops = self._drops_deletes(unit.output_level)
            return self._rewriter.rewrite(unit.output_level, drops, [((file,),)])
        if file.level == unit.output_level:
            return CompactResult()
        return self._rewriter.upgrade(unit.output_level, file)


DEAD_ROWS_RATIO = 2
"""A file is rewritten if more than one in this many of its rows is dead."""


class DeadRows(Protocol):
    """The part of a bucket's deletion vectors that picks need."""

    def __contains__(self, data_file: object) -> bool: ...
    def dead_rows(self, data_file: str) -> int: ...


@dataclass(frozen=True)
class FilePicker:
    """Chooser of the files to compact. `vectors` is None in tables without deletion vectors."""

    write: WriteOptions
    strategy: Strategy
    vectors: DeadRows | None
    expiry: RecordExpiry | None = None

    def ordinary(self, levels: Levels) -> CompactUnit | None:
        """Return the strategy's pick, or files with mostly dead rows; None if there is nothing to do."""
        unit = self.strategy.pick(levels.count, levels.level_runs)
        return self._mostly_dead(levels) if unit is None or unit.changes_nothing else unit

    def full(self, levels: Levels) -> CompactUnit | None:
        """Return all files, to be moved to the highest level, or if all are there, the files with rows to drop."""
        runs, top = levels.level_runs, levels.max_level
        if not runs:
            return None
        if len(runs) > 1 or runs[0].level != top:
            return CompactUnit.of(top, runs)
        dead = tuple(file for file in runs[0].files if self._holds_rows_to_drop(file))
        files = runs[0].files if self.write.force_rewrite_all else dead
        return CompactUnit(top, files, each_alone=True) if files else None

    def _holds_rows_to_drop(self, file: DataFileMeta) -> bool:
        if self.vectors is not None and file.file_name in self.vectors:
            return True
        return self.expiry is not None and self.expiry.may_hold_expired(file)

    def _mostly_dead(self, levels: Levels) -> CompactUnit | None:
        """Return the files of one level that have more dead rows than live ones."""
        vectors = self.vectors
        if vectors is None:
            return None
        for run in levels.level_runs:
            files = tuple(f for f in run.files if vectors.dead_rows(f.file_name) * DEAD_ROWS_RATIO > f.row_count)
            if files and run.level > 0:
                return CompactUnit(run.level, files, each_alone=True)
        return None


Runs = Sequence[LevelRun]


@dataclass(frozen=True)
class CompactUnit:
    """Files to compact, and their output level. `each_alone`: every file is rewritten separately."""

    output_level: int
    files: tuple[DataFileMeta, ...]
    each_alone: bool = False

    @classmethod
    def of(cls, output_level: int, runs: Runs) -> CompactUnit:
        return cls(output_level, tuple(file for run in runs for file in run.files))

    @property
    def changes_nothing(self) -> bool:
        """Whether there are no files, or a single one already at the output level."""
        return not self.files or (len(self.files) == 1 and self.files[0].level == self.output_level)


class Strategy(Protocol):
    """Decides which files a writer compacts after a flush."""

    def pick(self, levels: int, runs: Runs) -> CompactUnit | None:
        """Return the files to compact now, of a tree with this number of levels."""
        ...


@dataclass(frozen=True)
class OffPeak:
    """Hours of the day (local time, `end` excluded) in which the size ratio is larger by `ratio` percent."""

    start: int
    end: int
    ratio: int

    def now(self, hour: int) -> int:
        """Return the percentage added to the size ratio at this hour."""
        if self.start <= self.end:
            return self.ratio if self.start <= hour < self.end else 0
        return self.ratio if hour < self.end or self.start <= hour else 0


@dataclass
class EarlyFull:
    """Full compactions before the sizes of runs require one."""

    interval: timedelta | None = None
    total_size: int | None = None
    incremental_size: int | None = None
    now: Callable[[], datetime] = datetime.now
    _last: datetime | None = None

    def done(self) -> None:
        """Record the start of a full compaction."""
        self._last = self.now()

    def pick(self, levels: int, runs: Runs) -> CompactUnit | None:
        """Return all runs if one of the limits is reached."""
        if len(runs) == 1 or not self._due(levels - 1, runs):
            return None
        self.done()
        return CompactUnit.of(levels - 1, runs)

    def _due(self, max_level: int, runs: Runs) -> bool:
        if self.interval is not None and (self._last is None or self.now() - self._last > self.interval):
            return True
        if self.total_size is not None and sum(run.size for run in runs) < self.total_size:
            return True
        if self.incremental_size is None:
            return False
        return sum(run.size for run in runs if run.level != max_level) > self.incremental_size


@dataclass(frozen=True)
class UniversalCompaction:
    """Strategy that checks the size amplification, then the size ratio, then the number of runs.

    Args:
        size_amplification: percent by which newer runs may exceed the oldest before all are compacted.
        size_ratio: percent by which the next run may exceed those picked and still be included.
        run_trigger: the minimum number of runs that triggers a compaction.
    """

    size_amplification: int = 200
    size_ratio: int = 1
    run_trigger: int = 5
    early: EarlyFull | None = None
    off_peak: OffPeak | None = None

    def pick(self, levels: int, runs: Runs) -> CompactUnit | None:
        early = self.early.pick(levels, runs) if self.early else None
        unit = early or self.by_amplification(levels - 1, runs) or self.by_ratio(levels - 1, runs)
        if unit is None and len(runs) > self.run_trigger:
            return self.of_ratio(levels - 1, runs, len(runs) - self.run_trigger + 1)
        return unit

    def by_amplification(self, max_level: int, runs: Runs) -> CompactUnit | None:
        """Return all runs if the runs before the oldest one have grown too large relative to it."""
        if len(runs) < self.run_trigger:
            return None
        newer = sum(run.size for run in runs[:-1])
        if newer * 100 <= self.size_amplification * runs[-1].size:
            return None
        self._full_begins()
        return CompactUnit.of(max_level, runs)

    def by_ratio(self, max_level: int, runs: Runs) -> CompactUnit | None:
        """Return the newest runs, up to the first that is much larger."""
        return None if len(runs) < self.run_trigger else self.of_ratio(max_level, runs, 1)

    def of_ratio(self, max_level: int, runs: Runs, count: int, *, force: bool = False) -> CompactUnit | None:
        """Return the first `count` runs and the next ones up to one that is much larger; with `force` even a single
        run."""
        ratio = self.size_ratio + (self.off_peak.now(datetime.now().hour) if self.off_peak else 0)
        size = sum(run.size for run in runs[:count])
        for run in runs[count:]:
            if size * (100.0 + ratio) / 100.0 < run.size:
                break
            size += run.size
            count += 1
        return self.unit(runs, max_level, count) if force or count > 1 else None

    def force_level_zero(self, levels: int, runs: Runs) -> CompactUnit | None:
        """Return all files of level 0, and the runs above that are not much larger; None if level 0 is empty."""
        count = sum(1 for _ in takewhile(lambda run: run.level == 0, runs))
        return self.of_ratio(levels - 1, runs, count, force=True) if count else None

    def unit(self, runs: Runs, max_level: int, count: int) -> CompactUnit:
        """Return the first `count` runs with the level below the next run's as output; more runs if that is level 0."""
        output = max_level if count == len(runs) else max(0, runs[count].level - 1)
        if output == 0:
            for run in runs[count:]:
                count += 1
                if run.level != 0:
                    output = run.level
                    break
        if count == len(runs):
            self._full_begins()
            output = max_level
        return CompactUnit.of(output, runs[:count])

    def _full_begins(self) -> None:
        if self.early is not None:
            self.early.done()


@dataclass
class ForceUpLevelZero:
    """Universal compaction; if it picks nothing, all of level 0 moves up, at once or every `interval` picks."""

    universal: UniversalCompaction
    interval: int | None = None
    _waited: int = 0

    def pick(self, levels: int, runs: Runs) -> CompactUnit | None:
        unit = self.universal.pick(levels, runs)
        if unit is not None:
            return unit
        if self.interval is not None:
            self._waited += 1
            if self._waited != self.interval:
                return None
            self._waited = 0
        return self.universal.force_level_zero(levels, runs)


def make_strategy(write: WriteOptions, *, lookup: bool) -> Strategy:
    """Return the strategy that a table's options ask for.

    `lookup`: whether keys are looked up when they leave level 0, so that level 0 has to be emptied.
    """
    universal = UniversalCompaction(
        write.size_amplification, write.size_ratio, write.run_trigger, _parse_early_full(write), _parse_off_peak(write)
    )
    if lookup:
        # Empties level 0 at once, or after several picks that found nothing else to do.
        gentle = write.lookup_compact is LookupCompact.GENTLE
        return ForceUpLevelZero(universal, write.lookup_compact_interval if gentle else None)
    return ForceUpLevelZero(universal) if write.force_up_level_zero else universal


def _parse_early_full(write: WriteOptions) -> EarlyFull | None:
    limits = write.optimization_interval, write.total_size_threshold, write.incremental_size_threshold
    return None if limits == (None, None, None) else EarlyFull(*limits)


def _parse_off_peak(write: WriteOptions) -> OffPeak | None:
    return None if write.off_peak_hours is None else OffPeak(*write.off_peak_hours, write.off_peak_size_ratio)


@dataclass(frozen=True)
class LookupStrategy:
    """The reasons to look up the keys of level 0 in the levels above when compaction lifts them there.

    `first_row`: a key found above is dropped. `changelog`: the old row goes into changelog files. `vectors`: its
    position is marked as dead. `forced`: the option ``force-lookup``.
    """

    first_row: bool = False
    changelog: bool = False
    vectors: bool = False
    forced: bool = False

    @classmethod
    def of(cls, target: WriteTarget) -> LookupStrategy:
        """Return the strategy of a keyed table; append tables need no lookups."""
        if target.merge is None:
            return cls()
        return cls(
            first_row=target.merge.rule is Rule.FIRST,
            changelog=target.write.changelog_producer is ChangelogProducer.LOOKUP,
            vectors=target.write.deletion_vectors,
            forced=target.write.force_lookup,
        )

    @property
    def needed(self) -> bool:
        """Whether level 0 is compacted by lookup at every write."""
        return self.first_row or self.changelog or self.vectors or self.forced

    def reads_values(self, target: WriteTarget) -> bool:
        """Return whether the values of the rows found are needed, not only their positions."""
        assert target.merge is not None
        if self.first_row:
            return False
        return not self.vectors or self.changelog or target.merge.folds or bool(target.merge.sequence)
