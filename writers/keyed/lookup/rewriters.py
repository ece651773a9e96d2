"""Compactions that also write changelogs and deletion vectors, for the keys that leave level 0.

They treat the rows of a key, and decide between moving and rewriting a file, as Java's rewriters of the same purpose
do, so that both write the same files from the same history.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

import numpy as np
import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.merge.spec import Rule
from morrow.engine.names import FILE, POSITION, cols
from morrow.engine.options.words import ChangelogProducer
from morrow.readers.execution.changelog import Comparison
from morrow.writers.files import Placement, delete_files, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.files.stored import StoredFiles
from morrow.writers.keyed.levels import Levels, Section, files_of
from morrow.writers.keyed.lookup.keys import looked_up
from morrow.writers.keyed.lookup.merges import (
    Merged,
    merged_first_rows,
    merged_fully,
    merged_with_lookup,
    without_superseded,
)
from morrow.writers.keyed.lookup.outputs import SideOutput
from morrow.writers.keyed.lookup.strategy import LookupStrategy
from morrow.writers.keyed.merging import RETRACTS, merge_versions
from morrow.writers.keyed.rewriter import CompactResult, Rewriter
from morrow.writers.keyed.sorted_merge import versions_by_range
from morrow.writers.target import WriteTarget


class Upgrade(Enum):
    """The way in which a file moves to a higher level: unchanged, its keys looked up or not, or rewritten."""

    MOVED = "moved"
    REPORTED = "moved, and its changes are reported"
    REWRITTEN = "rewritten, and its changes are reported"


class ChangelogRewriter(Rewriter):
    """Compactions that may report changes of keys: in changelog files, in deletion vectors, or in both."""

    produces_changelog = True

    # --- defined by subclasses ---

    @abstractmethod
    def tells(self, output_level: int, sections: Sequence[Section]) -> bool:
        """Returns whether changes of keys are reported when these files are compacted."""

    @abstractmethod
    def upgrade_of(self, output_level: int, file: DataFileMeta) -> Upgrade:
        """Returns how one file moves to a level."""

    @abstractmethod
    def merged(self, rows: pl.DataFrame, output_level: int) -> Merged:
        """Merges the rows of some keys, all of them within the compaction, and reports their changes."""

    # --- common to all ---

    @property
    def tree(self) -> Levels:
        """The levels of the bucket, with all of its files."""
        assert self.levels is not None
        return self.levels

    def rewrite(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        if not self.tells(output_level, sections):
            return self.merely_merged(output_level, drop_deletes, sections)
        return self._told(output_level, drop_deletes, sections)

    def merely_merged(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        """Compacts files without any change of keys."""
        return super().rewrite(output_level, drop_deletes, sections)

    def upgrade(self, output_level: int, file: DataFileMeta) -> CompactResult:
        how = self.upgrade_of(output_level, file)
        if how is Upgrade.MOVED:
            return super().upgrade(output_level, file)
        sections = [((file,),)]
        if how is Upgrade.REWRITTEN:
            return self._told(output_level, self.vectors is not None, sections)
        return self._moved_and_told(output_level, file, sections)

    def _told(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        before = files_of(sections)
        after: list[DataFileMeta] = []
        try:
            with self._changelog(output_level) as changelog:

                def rows() -> Iterator[pl.DataFrame]:
                    for merged in self._merges(output_level, sections):
                        changelog.add(merged.changes)
                        yield merged.rows.filter(~RETRACTS) if drop_deletes else merged.rows

                after = write_files(self.target, self.place, rows(), level=output_level, source=FileSource.COMPACT)
        except BaseException:
            delete_files(self.target, self.place, after)
            raise
        self.replaced(before)
        return CompactResult(before, tuple(after), changelog.files)

    def _moved_and_told(self, output_level: int, file: DataFileMeta, sections: Sequence[Section]) -> CompactResult:
        with self._changelog(output_level) as changelog:
            for merged in self._merges(output_level, sections):
                changelog.add(merged.changes)
        return CompactResult((file,), (file.upgraded(output_level),), changelog.files)

    def _merges(self, output_level: int, sections: Sequence[Section]) -> Iterator[Merged]:
        for rows in versions_by_range(self.target, self.place, sections, vectors=self.vectors):
            yield self.merged(rows, output_level)

    def _changelog(self, level: int) -> SideOutput:
        def write(frames: Iterator[pl.DataFrame]) -> list[DataFileMeta]:
            return write_files(self.target, self.place, frames, level=level, source=FileSource.APPEND, changelog=True)

        return SideOutput(write)


class LookupRewriter(ChangelogRewriter):
    """Merges the rows of level 0 with the old rows of their keys, in any of the levels above.

    So the row of a key in the lowest level above 0 is always complete. Rows that are superseded beyond the compaction
    are marked as dead where the table has deletion vectors.
    """

    def __init__(self, target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None = None) -> None:
        super().__init__(target, place, vectors)
        self.strategy = LookupStrategy.of(target)
        self.produces_changelog = self.strategy.changelog
        self.comparison = _comparison_of(target)
        names = (*(field.name for field in target.schema.fields), SEQUENCE_NUMBER, VALUE_KIND)
        self.columns = names if self.strategy.reads_values(target) else ()

    def tells(self, output_level: int, sections: Sequence[Section]) -> bool:
        return output_level != 0 and any(file.level == 0 for file in files_of(sections))

    def upgrade_of(self, output_level: int, file: DataFileMeta) -> Upgrade:
        spec, write = self.target.merge, self.target.write
        assert spec is not None
        if file.level != 0:
            return Upgrade.MOVED
        if write.format_of(0) != write.format_of(output_level):
            return Upgrade.REWRITTEN
        if self.vectors is not None and file.delete_row_count != 0:  # retractions must not get above level 0
            return Upgrade.REWRITTEN
        if output_level == self.tree.max_level:
            return Upgrade.REPORTED
        # With deduplicate, the newest version of a key needs no others; other engines merge it with the rows above.
        # Concurrent writers may have assigned the same sequence numbers: then it may not be the newest.
        numbers = (above.max_sequence_number for run in self.tree.runs for above in run)
        stands_alone = spec.rule is Rule.NEWEST and not spec.sequence
        newest = file.min_sequence_number > max(numbers, default=-1)
        return Upgrade.REPORTED if stands_alone and newest else Upgrade.REWRITTEN

    def merged(self, rows: pl.DataFrame, output_level: int) -> Merged:
        return merged_with_lookup(
            self.target,
            rows,
            lambda keys: self.found(keys, output_level),
            with_changelog=self.produces_changelog,
            comparison=self.comparison,
        )

    def found(self, keys: pl.DataFrame, output_level: int) -> pl.DataFrame:
        """Returns the newest rows of keys above a level; with deletion vectors, marks them as dead."""
        files = [file for run in self.tree.runs[output_level:] for file in run]
        found = looked_up(self.target, self.place, keys, files, self.vectors, self.columns)
        if self.vectors is not None:
            numbers, positions = found[FILE].to_numpy(), found[POSITION].to_numpy()
            for number in np.unique(numbers).tolist():
                self.vectors.mark(files[number].file_name, positions[numbers == number])
        return found

    def merely_merged(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        assert self.target.merge is not None
        if not self.target.merge.folds:  # of chosen versions the newest is that of the lowest level anyway
            return super().merely_merged(output_level, drop_deletes, sections)
        before = files_of(sections)
        ranges = versions_by_range(self.target, self.place, sections, vectors=self.vectors)
        merges = (merge_versions(self.target, without_superseded(self.target, rows)) for rows in ranges)
        kept = (rows.filter(~RETRACTS) if drop_deletes else rows for rows in merges)
        after = write_files(self.target, self.place, kept, level=output_level, source=FileSource.COMPACT)
        self.replaced(before)
        return CompactResult(before, tuple(after))

    def _moved_and_told(self, output_level: int, file: DataFileMeta, sections: Sequence[Section]) -> CompactResult:
        if self.produces_changelog:
            return super()._moved_and_told(output_level, file, sections)
        if self.vectors is not None:
            # Only the keys are needed.
            stored = StoredFiles(self.target, self.place, (file,), self.vectors)
            names = self.target.schema.trimmed_primary_keys
            (keys,) = stored.collect([stored.lazy(file).select(cols(names))])
            self.found(keys, output_level)
        return CompactResult((file,), (file.upgraded(output_level),))


class FirstRowRewriter(LookupRewriter):
    """Drops keys that exist already; the changelog has the new ones."""

    def merged(self, rows: pl.DataFrame, output_level: int) -> Merged:
        merged = merged_first_rows(self.target, rows, lambda keys: self.found(keys, output_level))
        return merged if self.produces_changelog else merged._replace(changes=merged.changes[:0])


class FullCompactionRewriter(ChangelogRewriter):
    """Full compactions that compare keys with the result of the last one, which is the bottom level."""

    def __init__(self, target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None = None) -> None:
        super().__init__(target, place, vectors)
        self.comparison = _comparison_of(target)

    def tells(self, output_level: int, sections: Sequence[Section]) -> bool:  # noqa: ARG002
        return output_level == self.tree.max_level

    def upgrade_of(self, output_level: int, file: DataFileMeta) -> Upgrade:  # noqa: ARG002
        return Upgrade.REPORTED if output_level == self.tree.max_level else Upgrade.MOVED

    def merged(self, rows: pl.DataFrame, output_level: int) -> Merged:
        return merged_fully(self.target, rows, output_level, comparison=self.comparison)


def _comparison_of(target: WriteTarget) -> Comparison | None:
    """Returns the comparison by which a changelog leaves out updates that change nothing; None where all are reported.

    It is ``changelog-producer.row-deduplicate`` with its ignored fields.
    """
    if not target.write.changelog_row_deduplicate:
        return None
    ignored = target.write.changelog_ignored_fields
    return Comparison(tuple(field for field in target.schema.fields if field.name not in ignored))


REWRITERS: tuple[tuple[Callable[[WriteTarget], bool], type[Rewriter]], ...] = (
    (lambda target: target.write.changelog_producer is ChangelogProducer.FULL_COMPACTION, FullCompactionRewriter),
    (lambda target: LookupStrategy.of(target).first_row, FirstRowRewriter),
    (lambda target: LookupStrategy.of(target).needed, LookupRewriter),
    (lambda _: True, Rewriter),
)
"""Conditions and rewriters: the first whose condition a table fulfils compacts its buckets."""


def rewriter_for(target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None) -> Rewriter:
    """Returns the rewriter of the files of a bucket."""
    kind = next(kind for applies, kind in REWRITERS if applies(target))
    return kind(target, place, vectors)
