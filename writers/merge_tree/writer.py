"""Writes one bucket of a keyed table: buffers rows, flushes them to level 0, compacts, and says what it did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.options.writing import ChangelogProducer
from morrow.readers.row_kinds import RETRACT_BIT, UPDATE_BEFORE
from morrow.writers.deletion_vectors import DeletionMaintainer, IndexChanges
from morrow.writers.files import Placement, delete_files, write_files
from morrow.writers.lookup import LookupStrategy
from morrow.writers.merge_tree.buffer import SortBuffer
from morrow.writers.merge_tree.compaction import Compactor
from morrow.writers.merge_tree.rewriter import CompactResult
from morrow.writers.merge_tree.rewriters import rewriter_for
from morrow.writers.merge_tree.strategy import strategy_of
from morrow.writers.messages import CommitMessage
from morrow.writers.restored import BucketState
from morrow.writers.target import WriteTarget


class MergeTreeWriter:
    """A `BucketWriter` of a keyed table.

    Args:
        state: what the bucket holds in the snapshot that is written upon.
        ignore_previous: start as if the bucket were empty, because the commit will replace what it holds.
    """

    def __init__(
        self, target: WriteTarget, place: Placement, state: BucketState, *, ignore_previous: bool = False
    ) -> None:
        self._target = target
        self._place = place
        previous = BucketState() if ignore_previous else state
        self._total_buckets = target.options.bucket if state.total_buckets is None else state.total_buckets
        self._buffer = SortBuffer(target, previous.max_sequence_number + 1)
        vectors = DeletionMaintainer(target, place.partition, place.bucket, previous.index_files)
        self._vectors = vectors if target.write.deletion_vectors else None
        self._compactor = None if target.write.write_only else self._new_compactor(previous.files)
        self._done = _Done()
        self._seen = self._looked_at()

    def _new_compactor(self, files: Iterable[DataFileMeta]) -> Compactor:
        target = self._target
        rewriter = rewriter_for(target, self._place, self._vectors)
        strategy = strategy_of(target.write, lookup=LookupStrategy.of(target).needed)
        return Compactor(target, files, rewriter, strategy)

    @property
    def buffered_bytes(self) -> int:
        return self._buffer.bytes

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows in their order: the table's columns and ``_VALUE_KIND``."""
        self._buffer.add(wanted_kinds(self._target, rows))
        if self._buffer.bytes > self._target.write.write_buffer:
            self.spill()

    def spill(self) -> None:
        """Write the buffer to temporary files, or to level 0 where that is not allowed."""
        if self._target.write.spillable:
            self._buffer.spill()
        else:
            self._flush()
            self._compact(full=False)

    def compact(self, full: bool) -> None:
        """Flush, then compact.

        Raises:
            InvalidArgument: a full compaction of a table that is ``write-only``.
        """
        if full and self._compactor is None:
            raise InvalidArgument(
                f"{self._target.where}: 'write-only' = 'true' leaves compaction to dedicated jobs; "
                "compact the table itself, or write without that option"
            )
        self._flush()
        self._compact(full)

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:
        """Flush, compact as the options say, and hand over all that was done since the last call.

        Args:
            wait_compaction: False leaves a compaction for later, unless too many sorted runs have gathered.
        """
        self._flush()
        if wait_compaction or self._never_waits or self._is_crowded:
            self._compact(full=False)
        changes = self._vector_changes()
        seen, self._seen = self._seen, self._looked_at()
        done, self._done = self._done, _Done()  # nothing may fail from here on: `close` would not know these files
        return CommitMessage(
            partition=self._place.partition,
            bucket=self._place.bucket,
            total_buckets=self._total_buckets,
            new_files=tuple(done.new),
            changelog_files=tuple(done.changelog),
            compact_before=tuple(done.before.values()),
            compact_after=tuple(done.after.values()),
            compact_changelog=tuple(done.compact_changelog),
            compact_new_index_files=changes.new,
            compact_deleted_index_files=changes.replaced,
            compact_seen=seen if done.before or done.after else None,
        )

    def close(self) -> None:
        """Drop the buffer, and delete the files of what was not handed over."""
        self._buffer.clear()
        done, self._done = self._done, _Done()
        delete_files(self._target, self._place, done.own)

    def _vector_changes(self) -> IndexChanges:
        """Write what compactions changed in deletion vectors."""
        vectors = self._vectors
        if vectors is None or self._compactor is None or not vectors.changed:
            return IndexChanges()
        # Java Paimon keeps the vectors of files that a full compaction rewrites one by one.
        live = {file.file_name for file in self._compactor.levels.files}
        for name in set(vectors) - live:
            vectors.remove(name)
        return vectors.write()

    def _looked_at(self) -> tuple[str, ...] | None:
        """The files in which compactions from now on look keys up, None where they do not."""
        if self._compactor is None or not LookupStrategy.of(self._target).needed:
            return None
        return tuple(file.file_name for run in self._compactor.levels.runs for file in run)

    @property
    def _never_waits(self) -> bool:
        """Whether the options ask for a compaction at every commit."""
        write = self._target.write
        return write.force_compact or (write.lookup_wait and LookupStrategy.of(self._target).needed)

    @property
    def _is_crowded(self) -> bool:
        return self._compactor is not None and self._compactor.sorted_runs > self._target.write.run_stop_trigger + 1

    def _flush(self) -> None:
        """Write what is buffered to level 0, and to the changelog if that has the input."""
        if self._buffer.is_empty:
            return
        if self._target.write.changelog_producer is ChangelogProducer.INPUT:
            self._done.changelog += write_files(
                self._target,
                self._place,
                self._buffer.versions(),
                level=0,
                source=FileSource.APPEND,
                changelog=True,
            )
        files = write_files(self._target, self._place, self._buffer.merged(), level=0, source=FileSource.APPEND)
        self._buffer.clear()
        self._done.new += files
        if self._compactor is not None:
            self._compactor.add(files)

    def _compact(self, full: bool) -> None:
        result = None if self._compactor is None else self._compactor.compact(full)
        if result is not None:
            delete_files(self._target, self._place, self._done.add(result))


class _Done:
    """What was done since the last commit was prepared. Compacted files go by name and level."""

    def __init__(self) -> None:
        self.new: list[DataFileMeta] = []
        self.changelog: list[DataFileMeta] = []
        self.before: dict[str, DataFileMeta] = {}
        self.after: dict[tuple[str, int], DataFileMeta] = {}
        self.compact_changelog: list[DataFileMeta] = []

    def add(self, result: CompactResult) -> list[DataFileMeta]:
        """Take in a compaction. Returns files that came and went within this commit, which nobody needs.

        A file that was only moved to another level is the file of the snapshot before, and stays.
        """
        stays = {file.file_name for file in result.after}
        unneeded = []
        for file in result.before:
            if self.after.pop((file.file_name, file.level), None) is None:
                self.before[file.file_name] = file
            elif file.file_name not in self.before and file.file_name not in stays:
                unneeded.append(file)
        self.after.update(((file.file_name, file.level), file) for file in result.after)
        self.compact_changelog += result.changelog
        return unneeded

    @property
    def own(self) -> list[DataFileMeta]:
        """All files that were written, of which no snapshot knows."""
        written = [file for file in self.after.values() if file.file_name not in self.before]
        return [*self.new, *self.changelog, *written, *self.compact_changelog]


def wanted_kinds(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without those that the table takes no notice of (``ignore-delete``, ``ignore-update-before``)."""
    if target.options.ignore_delete:
        return rows.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0)
    if target.write.ignore_update_before:
        return rows.filter(pl.col(VALUE_KIND) != UPDATE_BEFORE)
    return rows


def compact_bucket(target: WriteTarget, place: Placement, state: BucketState, *, full: bool) -> CommitMessage:
    """Compact one bucket without writing rows to it; also of tables that are ``write-only``."""
    target = replace(target, write=replace(target.write, write_only=False))
    writer = MergeTreeWriter(target, place, state)
    try:
        writer.compact(full)
        return writer.prepare_commit()
    finally:
        writer.close()
