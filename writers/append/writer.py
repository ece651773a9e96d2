"""The writer of one bucket of an append table."""

from __future__ import annotations

import polars as pl

from morrow.engine.errors import FileMissing
from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.engine.telling import logger
from morrow.writers.append.bucket_compaction import BucketCompaction, Compacted
from morrow.writers.append.buffer import RowBuffer
from morrow.writers.buckets.restored import BucketState
from morrow.writers.commit.expired_base import is_living_version
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files import Placement, delete_files
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.files.write import Prepared
from morrow.writers.target import WriteTarget

UNAWARE = -1
"""The value of the option ``bucket`` of tables without buckets."""

log = logger(__name__)


class AppendWriter:
    """A `BucketWriter` of append tables.

    Tables without buckets do not order rows: sequence numbers begin with 0 in every writer, and small files are
    compacted apart from writing. In fixed buckets numbers continue from the existing ones, and each flush may compact.

    Args:
        state: the state of the bucket when writing begins; empty when it is overwritten.
    """

    def __init__(self, target: WriteTarget, place: Placement, state: BucketState) -> None:
        self._target, self._place, self._state = target, place, state
        self._buffer = RowBuffer(target, place)
        self._new: list[DataFileMeta] = []
        self._compaction = _compaction(target, place, state)
        self._next_sequence = state.max_sequence_number + 1 if _is_numbered(target) else 0
        self._buffer.begin(self._next_sequence)

    @property
    def buffered_bytes(self) -> int:
        """Memory held by rows that are not in files yet."""
        return self._buffer.waiting_bytes

    @property
    def partition(self) -> bytes:
        return self._place.partition

    def write(self, rows: pl.DataFrame) -> None:
        """Takes rows of the table's columns, in their order.

        Raises:
            StorageError, InvalidArgument, Unsupported: rows taken so far could not be written.
        """
        self._buffer.put(rows)

    def spill(self) -> None:
        """Frees the memory of the buffer."""
        self._buffer.spill()

    def few_rows(self) -> pl.DataFrame | None:
        """Returns the few rows of the next flush, see `RowBuffer.few_rows`."""
        return self._buffer.few_rows()

    def prepare(self, prepared: Prepared) -> None:
        """Sets how few rows are flushed, see `RowBuffer.prepare`."""
        self._buffer.prepare(prepared)

    def compact(self, full: bool) -> None:
        """Writes buffered rows and compacts: all that is worthwhile, or one step. Without buckets, does nothing."""
        self._flush()
        if self._compaction is not None:
            self._compaction.full() if full else self._compaction.step()

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:  # noqa: ARG002  # compaction runs here
        """Returns the files written and compacted since the last call."""
        self._flush()
        compacted = self._compacted()
        message = CommitMessage(
            partition=self._place.partition,
            bucket=self._place.bucket,
            total_buckets=self._state.total_buckets or self._target.options.bucket,
            new_files=tuple(self._new),
            compact_before=compacted.before,
            compact_after=compacted.after,
            compact_new_index_files=compacted.new_index_files,
            compact_deleted_index_files=compacted.replaced_index_files,
        )
        self._new = []
        return message

    def close(self) -> None:
        """Drops buffered rows, and removes the files that no message names."""
        self._buffer.close()
        delete_files(self._target, self._place, self._new)
        self._new = []
        if self._compaction is not None:
            self._compaction.close()

    def _compacted(self) -> Compacted:
        """Compacts one step; nothing where files of the bucket have gone, which others have compacted and expired."""
        compaction = self._compaction
        if compaction is None:
            return Compacted()
        try:
            compaction.step()
            return compaction.take()
        except FileMissing as error:
            if self._is_based_on_living():
                raise
            log.info("%s: compaction is left to a later writer: %s", self._target.where, error)
            compaction.close()
            self._compaction = None
            return Compacted()

    def _is_based_on_living(self) -> bool:
        base, version = self._state.snapshot_id, self._state.version
        return base is not None and version is not None and is_living_version(self._target.metadata, base, version)

    def _flush(self) -> None:
        files = self._buffer.flush()
        self._new += files
        self._next_sequence += sum(file.row_count for file in files)
        self._buffer.begin(self._next_sequence)
        if self._compaction is not None:
            self._compaction.add(files)


def _is_numbered(target: WriteTarget) -> bool:
    """Returns whether sequence numbers continue from those in the bucket."""
    if target.options.bucket == UNAWARE:
        return False
    return target.write.bucket_append_ordered or not target.write.write_only


def _compaction(target: WriteTarget, place: Placement, state: BucketState) -> BucketCompaction | None:
    if target.options.bucket == UNAWARE or target.write.write_only or target.write.incremental_clustering:
        return None
    vectors = None
    if target.write.deletion_vectors:
        vectors = DeletionMaintainer(target, place.partition, place.bucket, state.index_files)
    return BucketCompaction(target, place, state.files, vectors)
