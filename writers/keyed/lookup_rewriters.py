"""Compactions that also write changelogs and deletion vectors, for the keys that leave level 0.

Keys are merged, and files are moved or rewritten, as by the corresponding rewriters of Java, so that both write the
same files from the same history. Changelog files and data files are written in parallel: one merge feeds both, with a
few frames in memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from queue import Full, Queue
from types import TracebackType

import numpy as np
import polars as pl

from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.merge.spec import Rule
from morrow.engine.names import FILE, POSITION, cols
from morrow.readers.execution.changelog import Comparison
from morrow.readers.merges.version_masks import RETRACTS
from morrow.writers.files.bucket_reader import StoredFiles
from morrow.writers.files.data_files import Placement, delete_files, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.keyed.compaction import LookupStrategy
from morrow.writers.keyed.key_lookup import (
    MergeResult,
    drop_superseded,
    look_up_keys,
    merge_first_rows,
    merge_fully,
    merge_with_lookup,
)
from morrow.writers.keyed.levels import Levels, Section, list_files
from morrow.writers.keyed.rewriter import (
    ALL_LEVELS,
    CompactResult,
    Rewriter,
    merge_versions,
    read_versions_by_range,
)
from morrow.writers.target import WriteTarget


class Upgrade(Enum):
    """How a file moves to a higher level: unchanged, unchanged with its keys looked up, or rewritten."""

    MOVED = "moved"
    REPORTED = "moved, and its changes are reported"
    REWRITTEN = "rewritten, and its changes are reported"


class ChangelogRewriter(Rewriter):
    """Base of rewriters that may report changes of keys in changelog files, in deletion vectors, or in both."""

    produces_changelog = True

    # --- defined by subclasses ---

    @abstractmethod
    def tells(self, output_level: int, sections: Sequence[Section]) -> bool:
        """Return whether changes of keys are reported when these files are compacted."""

    @abstractmethod
    def upgrade_of(self, output_level: int, file: DataFileMeta) -> Upgrade:
        """Return how one file moves to a level."""

    @abstractmethod
    def compared_from(self, output_level: int) -> int:
        """Return the first level whose rows newer rows are compared with; in levels below, only newest rows count."""

    @abstractmethod
    def merged(self, rows: pl.DataFrame, output_level: int) -> MergeResult:
        """Merge the rows of some keys, all of them within the compaction, and report their changes."""

    # --- common to all ---

    @property
    def tree(self) -> Levels:
        """The levels of the bucket, with all of its files."""
        assert self.levels is not None
        return self.levels

    def rewrite(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        if not self.tells(output_level, sections):
            return self.merely_merged(output_level, drop_deletes, sections)
        return self._write_with_changes(output_level, drop_deletes, sections)

    def merely_merged(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        """Compact files without reporting changes of keys."""
        return super().rewrite(output_level, drop_deletes, sections)

    def upgrade(self, output_level: int, file: DataFileMeta) -> CompactResult:
        how = self.upgrade_of(output_level, file)
        if how is Upgrade.MOVED:
            return super().upgrade(output_level, file)
        sections = [((file,),)]
        if how is Upgrade.REWRITTEN:
            return self._write_with_changes(output_level, self.vectors is not None, sections)
        return self._move_with_changes(output_level, file, sections)

    def _write_with_changes(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        before = list_files(sections)
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

    def _move_with_changes(self, output_level: int, file: DataFileMeta, sections: Sequence[Section]) -> CompactResult:
        with self._changelog(output_level) as changelog:
            for merged in self._merges(output_level, sections):
                changelog.add(merged.changes)
        return CompactResult((file,), (file.upgraded(output_level),), changelog.files)

    def _merges(self, output_level: int, sections: Sequence[Section]) -> Iterator[MergeResult]:
        spec = self.target.merge
        # Rows of ignored retractions alone are changes, too.
        newest = 0 if spec is None or spec.ignore_delete else self.compared_from(output_level)
        for rows in read_versions_by_range(
            self.target, self.place, sections, vectors=self.vectors, merged_below=newest
        ):
            yield self.merged(rows, output_level)

    def _changelog(self, level: int) -> SideOutput:
        def write(frames: Iterator[pl.DataFrame]) -> list[DataFileMeta]:
            return write_files(self.target, self.place, frames, level=level, source=FileSource.APPEND, changelog=True)

        return SideOutput(write)


class LookupRewriter(ChangelogRewriter):
    """Rewriter that merges the rows of level 0 with the old rows of their keys, in any of the levels above.

    So the row of a key in the lowest level above 0 is always complete. Rows that are superseded beyond the compaction
    are marked as dead if the table has deletion vectors.
    """

    def __init__(self, target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None = None) -> None:
        super().__init__(target, place, vectors)
        self.strategy = LookupStrategy.of(target)
        self.produces_changelog = self.strategy.changelog
        self.comparison = _find_comparison(target)
        names = (*(field.name for field in target.schema.fields), SEQUENCE_NUMBER, VALUE_KIND)
        self.columns = names if self.strategy.reads_values(target) else ()

    def tells(self, output_level: int, sections: Sequence[Section]) -> bool:
        return output_level != 0 and any(file.level == 0 for file in list_files(sections))

    def upgrade_of(self, output_level: int, file: DataFileMeta) -> Upgrade:
        spec, write = self.target.merge, self.target.write
        assert spec is not None
        if file.level != 0:
            return Upgrade.MOVED
        if write.format_of(0) != write.format_of(output_level):
            return Upgrade.REWRITTEN
        if self.vectors is not None and file.delete_row_count != 0:  # retractions must stay in level 0
            return Upgrade.REWRITTEN
        if output_level == self.tree.max_level:
            return Upgrade.REPORTED
        # With deduplicate, the newest version of a key replaces the others; other engines merge it with the rows above.
        # Concurrent writers may have assigned the same sequence numbers: then it may not be the newest.
        numbers = (above.max_sequence_number for run in self.tree.runs for above in run)
        stands_alone = spec.rule is Rule.NEWEST and not spec.sequence
        newest = file.min_sequence_number > max(numbers, default=-1)
        return Upgrade.REPORTED if stands_alone and newest else Upgrade.REWRITTEN

    def compared_from(self, output_level: int) -> int:  # noqa: ARG002
        return 1 if self.produces_changelog else ALL_LEVELS

    def merged(self, rows: pl.DataFrame, output_level: int) -> MergeResult:
        return merge_with_lookup(
            self.target,
            rows,
            lambda keys: self.found(keys, output_level),
            with_changelog=self.produces_changelog,
            comparison=self.comparison,
        )

    def found(self, keys: pl.DataFrame, output_level: int) -> pl.DataFrame:
        """Return the newest rows of keys above a level; with deletion vectors, mark them as dead."""
        files = [file for run in self.tree.runs[output_level:] for file in run]
        found = look_up_keys(self.target, self.place, keys, files, self.vectors, self.columns)
        if self.vectors is not None:
            numbers, positions = found[FILE].to_numpy(), found[POSITION].to_numpy()
            for number in np.unique(numbers).tolist():
                self.vectors.mark(files[number].file_name, positions[numbers == number])
        return found

    def merely_merged(self, output_level: int, drop_deletes: bool, sections: Sequence[Section]) -> CompactResult:
        assert self.target.merge is not None
        if not self.target.merge.folds:  # the newest version is in the lowest level anyway
            return super().merely_merged(output_level, drop_deletes, sections)
        before = list_files(sections)
        ranges = read_versions_by_range(self.target, self.place, sections, vectors=self.vectors)
        merges = (merge_versions(self.target, drop_superseded(self.target, rows)) for rows in ranges)
        kept = (rows.filter(~RETRACTS) if drop_deletes else rows for rows in merges)
        after = write_files(self.target, self.place, kept, level=output_level, source=FileSource.COMPACT)
        self.replaced(before)
        return CompactResult(before, tuple(after))

    def _move_with_changes(self, output_level: int, file: DataFileMeta, sections: Sequence[Section]) -> CompactResult:
        if self.produces_changelog:
            return super()._move_with_changes(output_level, file, sections)
        if self.vectors is not None:
            # Only the keys are needed.
            stored = StoredFiles(self.target, self.place, (file,), self.vectors)
            names = self.target.schema.trimmed_primary_keys
            (keys,) = stored.collect([stored.lazy(file).select(cols(names))])
            self.found(keys, output_level)
        return CompactResult((file,), (file.upgraded(output_level),))


class FirstRowRewriter(LookupRewriter):
    """Rewriter that drops keys that exist already; the changelog has the new ones."""

    def merged(self, rows: pl.DataFrame, output_level: int) -> MergeResult:
        merged = merge_first_rows(self.target, rows, lambda keys: self.found(keys, output_level))
        return merged if self.produces_changelog else merged._replace(changes=merged.changes[:0])


class FullCompactionRewriter(ChangelogRewriter):
    """Rewriter that compares keys with the result of the last full compaction, in the bottom level."""

    def __init__(self, target: WriteTarget, place: Placement, vectors: DeletionMaintainer | None = None) -> None:
        super().__init__(target, place, vectors)
        self.comparison = _find_comparison(target)

    def tells(self, output_level: int, sections: Sequence[Section]) -> bool:  # noqa: ARG002
        return output_level == self.tree.max_level

    def upgrade_of(self, output_level: int, file: DataFileMeta) -> Upgrade:  # noqa: ARG002
        return Upgrade.REPORTED if output_level == self.tree.max_level else Upgrade.MOVED

    def compared_from(self, output_level: int) -> int:
        return output_level

    def merged(self, rows: pl.DataFrame, output_level: int) -> MergeResult:
        return merge_fully(self.target, rows, output_level, comparison=self.comparison)


def _find_comparison(target: WriteTarget) -> Comparison | None:
    """Return the comparison for a changelog that leaves out updates without changes; None if all updates are reported.

    It is configured by ``changelog-producer.row-deduplicate`` and its ignored fields.
    """
    if not target.write.changelog_row_deduplicate:
        return None
    ignored = target.write.changelog_ignored_fields
    return Comparison(tuple(field for field in target.schema.fields if field.name not in ignored))


MAX_WAITING_FRAMES = 4
"""Maximum frames that wait for the writing thread."""
POLL_SECONDS = 0.1
"""Seconds between checks, while waiting, whether the writing has failed."""

Write = Callable[[Iterator[pl.DataFrame]], list[DataFileMeta]]


class _AbandonedError(Exception):
    """Signal to stop writing because the surrounding operation has failed."""


class SideOutput:
    """Writer of frames in a separate thread, which the first frame starts.

    A context manager that waits for the files on exit, and removes them if the block raises. If the writing fails,
    `add` or the exit raises its error.
    """

    def __init__(self, write: Write) -> None:
        self.files: tuple[DataFileMeta, ...] = ()
        self._write = write
        self._waiting: Queue[pl.DataFrame | None] = Queue(MAX_WAITING_FRAMES)
        self._abandoned = False
        self._pool: ThreadPoolExecutor | None = None
        self._written: Future[list[DataFileMeta]] | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Queue a frame to be written after the previous ones."""
        if not frame.height:
            return
        if self._written is None:
            self._pool = ThreadPoolExecutor(1)
            self._written = self._pool.submit(self._write, self._frames())
        self._put(self._written, frame)

    def _put(self, written: Future[list[DataFileMeta]], frame: pl.DataFrame | None) -> None:
        while not written.done():
            try:
                self._waiting.put(frame, timeout=POLL_SECONDS)
            except Full:
                continue
            return
        written.result()

    def _frames(self) -> Iterator[pl.DataFrame]:
        while (frame := self._waiting.get()) is not None:
            yield frame
        if self._abandoned:
            raise _AbandonedError

    def __enter__(self) -> SideOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None or self._written is None:
            return
        with self._pool:
            if error is None:
                self._put(self._written, None)
                self.files = tuple(self._written.result())
                return
            self._abandoned = True
            if not self._written.done():
                self._put_quietly(self._written)

    def _put_quietly(self, written: Future[list[DataFileMeta]]) -> None:
        """End the writing and ignore its errors, which are not the first failure."""
        while not written.done():
            try:
                self._waiting.put(None, timeout=POLL_SECONDS)
            except Full:
                continue
            written.exception()
            return
