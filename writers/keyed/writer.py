"""The writer of one bucket of a keyed table: buffers rows, flushes them to level 0, compacts, and makes messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import polars as pl

from morrow.engine.errors import FileMissing, InvalidArgument
from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.format.row_kinds import RETRACT_BIT, UPDATE_BEFORE
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.options.words import ChangelogProducer
from morrow.engine.values import replace
from morrow.writers.buckets.restored import BucketState
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files import Placement, delete_files, write_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer, IndexChanges
from morrow.writers.files.write import FEW_ROWS, Prepared, write_prepared
from morrow.writers.keyed.buffer import SortBuffer
from morrow.writers.keyed.compaction import Compactor
from morrow.writers.keyed.lookup import LookupStrategy, rewriter_for
from morrow.writers.keyed.rewriter import CompactResult
from morrow.writers.keyed.strategy import strategy_of
from morrow.writers.target import WriteTarget

log = logging.getLogger(__name__)

SMALL_BYTES = 1 << 20
"""The most bytes, in files and in memory, of a bucket of which several are finished at once."""


class MergeTreeWriter:
    """A `BucketWriter` of a keyed table. Once `overtaken` it stops compacting, and another writer has to continue.

    Args:
        state: the state of the bucket in the snapshot that is written upon.
        ignore_previous: start as if the bucket were empty, because the commit will replace its files.
    """

    def __init__(
        self, target: WriteTarget, place: Placement, state: BucketState, *, ignore_previous: bool = False
    ) -> None:
        self._target = target
        self._place = place
        previous = BucketState() if ignore_previous else state
        self._total_buckets = target.options.bucket if state.total_buckets is None else state.total_buckets
        self._buffer = SortBuffer(target, previous.max_sequence_number + 1)
        self._prepared: Prepared | None = None
        vectors = DeletionMaintainer(target, place.partition, place.bucket, previous.index_files)
        self._vectors = vectors if target.write.deletion_vectors else None
        self._compactor = None if target.write.write_only else self._new_compactor(previous.files)
        self._done = _Done()
        self._seen = self._looked_at()
        self._based_on = None if ignore_previous else state.version
        self._handed_over: set[str] = set()
        self.overtaken = False

    def _new_compactor(self, files: Iterable[DataFileMeta]) -> Compactor:
        target = self._target
        rewriter = rewriter_for(target, self._place, self._vectors)
        strategy = strategy_of(target.write, lookup=LookupStrategy.of(target).needed)
        return Compactor(target, files, rewriter, strategy)

    @property
    def buffered_bytes(self) -> int:
        return self._buffer.bytes

    @property
    def is_small(self) -> bool:
        """Whether the rows of the bucket, written and buffered, are so few that several buckets fit into memory."""
        files = () if self._compactor is None else self._compactor.levels.files
        held = self.buffered_bytes + sum(file.file_size for file in files)
        return held <= SMALL_BYTES and not self._buffer.is_spilled

    @property
    def partition(self) -> bytes:
        return self._place.partition

    def few_rows(self) -> pl.DataFrame | None:
        """Returns the merged rows of the next flush if they are few and in memory; None otherwise or without rows.

        Raises: as `merge_versions`.
        """
        if self._buffer.is_spilled or not 0 < self._buffer.rows < FEW_ROWS:
            return None
        merged = list(self._buffer.merged())
        return pl.concat(merged) if merged else None

    def prepare(self, prepared: Prepared) -> None:
        """Sets how `few_rows` are flushed, unless more rows arrive."""
        self._prepared = prepared

    def write(self, rows: pl.DataFrame) -> None:
        """Takes rows in their order: the table's columns and ``_VALUE_KIND``."""
        self._prepared = None
        self._buffer.add(wanted_kinds(self._target, rows))
        if self._buffer.bytes > self._target.write.write_buffer:
            self.spill()

    def spill(self) -> None:
        """Writes the buffer to temporary files, or to level 0 where spilling is not allowed."""
        if self._target.write.spillable:
            self._buffer.spill()
        else:
            self._flush()
            self._compact(full=False)

    def compact(self, full: bool) -> None:
        """Flushes, then compacts.

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
        """Flushes, compacts as the options say, and returns all changes since the last call.

        Args:
            wait_compaction: False postpones compaction, unless there are too many sorted runs.
        """
        self._flush()
        if wait_compaction or self._never_waits or self._is_crowded:
            self._compact(full=False)
        changes = self._vector_changes()
        seen, self._seen = self._seen, self._looked_at()
        based_on, self._based_on = self._based_on, None  # from now on other writers may change the bucket too
        self._handed_over |= {file.file_name for file in self._done.own}
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
            based_on=based_on,
        )

    def close(self) -> None:
        """Drops the buffer, and deletes the files that were not handed over."""
        self._buffer.clear()
        done, self._done = self._done, _Done()
        delete_files(self._target, self._place, done.own)

    def _vector_changes(self) -> IndexChanges:
        """Writes the changes of deletion vectors by compactions."""
        vectors = self._vectors
        if vectors is None or self._compactor is None or not vectors.changed:
            return IndexChanges()
        # Java Paimon keeps the vectors of files that a full compaction rewrites individually.
        live = {file.file_name for file in self._compactor.levels.files}
        for name in set(vectors) - live:
            vectors.remove(name)
        return vectors.write()

    def _looked_at(self) -> tuple[str, ...] | None:
        """Returns the files in which later compactions look keys up, None where they do not."""
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
        """Writes the buffered rows to level 0, and to the changelog if that has the input."""
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
        files = self._written()
        self._buffer.clear()
        self._done.new += files
        if self._compactor is not None:
            self._compactor.add(files)

    def _written(self) -> list[DataFileMeta]:
        """Writes the buffered rows, one of each key, to level 0."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            return write_prepared(self._target, self._place, prepared, FileSource.APPEND)
        return write_files(self._target, self._place, self._buffer.merged(), level=0, source=FileSource.APPEND)

    def _compact(self, full: bool) -> None:
        try:
            result = None if self._compactor is None else self._compactor.compact(full)
        except FileMissing as error:
            if error.path.rpartition("/")[2] not in self._handed_over:
                raise
            # The commit of this file has rewritten it with other sequence numbers.
            log.info("%s: compaction is left to a later writer: %s", self._target.where, error)
            self._compactor, self.overtaken = None, True
            return
        if result is not None:
            delete_files(self._target, self._place, self._done.add(result))


class _Done:
    """The changes since the last commit was prepared. Compacted files are identified by name and level."""

    def __init__(self) -> None:
        self.new: list[DataFileMeta] = []
        self.changelog: list[DataFileMeta] = []
        self.before: dict[str, DataFileMeta] = {}
        self.after: dict[tuple[str, int], DataFileMeta] = {}
        self.compact_changelog: list[DataFileMeta] = []

    def add(self, result: CompactResult) -> list[DataFileMeta]:
        """Adds a compaction. Returns files to delete, which were both created and replaced within this commit.

        A file that was only moved to another level is the file of the previous snapshot, and stays.
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
        """All files that were written and are in no snapshot yet."""
        written = [file for file in self.after.values() if file.file_name not in self.before]
        return [*self.new, *self.changelog, *written, *self.compact_changelog]


def wanted_kinds(target: WriteTarget, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows without those that the table ignores (``ignore-delete``, ``ignore-update-before``)."""
    if target.options.ignore_delete:
        return rows.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0)
    if target.write.ignore_update_before:
        return rows.filter(pl.col(VALUE_KIND) != UPDATE_BEFORE)
    return rows


def compact_bucket(target: WriteTarget, place: Placement, state: BucketState, *, full: bool) -> CommitMessage:
    """Compacts one bucket without writing rows to it; also of tables that are ``write-only``."""
    target = replace(target, write=replace(target.write, write_only=False))
    writer = MergeTreeWriter(target, place, state)
    try:
        writer.compact(full)
        return writer.prepare_commit()
    finally:
        writer.close()
