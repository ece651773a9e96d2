"""Writes the rows of one bucket of an append table."""

from __future__ import annotations

import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.writers.append.bucket_compaction import BucketCompaction, Compacted
from morrow.writers.append.buffer import RowBuffer
from morrow.writers.deletion_vectors import DeletionMaintainer
from morrow.writers.files import Placement, delete_files
from morrow.writers.messages import CommitMessage
from morrow.writers.restored import BucketState
from morrow.writers.target import WriteTarget

UNAWARE = -1
"""The option ``bucket`` of tables without buckets."""


class AppendWriter:
    """A `BucketWriter` of append tables.

    Tables without buckets know no order of rows: sequence numbers begin with 0 in every writer, and small files are
    compacted apart from writing. In fixed buckets numbers go on from those that are there, and each flush may compact.

    Args:
        state: what the bucket holds when writing begins; empty when it is overwritten.
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

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows of the table's columns, in their order.

        Raises:
            StorageError, InvalidArgument, Unsupported: rows taken so far could not be written.
        """
        self._buffer.put(rows)

    def spill(self) -> None:
        """Give back the memory of the buffer."""
        self._buffer.spill()

    def compact(self, full: bool) -> None:
        """Write what is buffered and compact: all that is worth it, or one step. Tables without buckets do nothing."""
        self._flush()
        if self._compaction is not None:
            self._compaction.full() if full else self._compaction.step()

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:  # noqa: ARG002  # compaction runs here
        """What was written and compacted since the last call."""
        self._flush()
        if self._compaction is not None:
            self._compaction.step()
        compacted = self._compaction.take() if self._compaction is not None else Compacted()
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
        """Drop what is buffered, and remove the files that no message names."""
        self._buffer.close()
        delete_files(self._target, self._place, self._new)
        self._new = []
        if self._compaction is not None:
            self._compaction.close()

    def _flush(self) -> None:
        files = self._buffer.flush()
        self._new += files
        self._next_sequence += sum(file.row_count for file in files)
        self._buffer.begin(self._next_sequence)
        if self._compaction is not None:
            self._compaction.add(files)


def _is_numbered(target: WriteTarget) -> bool:
    """Whether sequence numbers go on from those in the bucket."""
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
