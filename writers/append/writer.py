"""Writer of one bucket of an append table, and the buffer of its rows.

Rows wait in memory or on local disk, or stream into data files: a thread encodes the frames while more arrive.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from queue import Empty, Full, Queue
from threading import BoundedSemaphore, Event, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

import polars as pl

from morrow.engine.errors import FileMissing, Unsupported
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.types import DataField, VectorType
from morrow.engine.io.store import translate_system_errors
from morrow.engine.redaction import get_logger
from morrow.writers.append.bucket_compaction import BucketCompaction, CompactionResult
from morrow.writers.buckets.routers import BucketState
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.commit.premise import is_living_version
from morrow.writers.files.blob_files import select_filed_vectors, write_with_blobs, write_with_vectors
from morrow.writers.files.data_files import (
    MIN_DESCRIBED_ROWS,
    Placement,
    PreparedRows,
    delete_files,
    write_files,
    write_prepared,
)
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.writers.append.sort_compaction import Sorter

UNAWARE = -1
"""Value of the option ``bucket`` of tables without buckets."""

log = get_logger(__name__)


class AppendWriter:
    """A `BucketWriter` of append tables.

    Tables without buckets do not order rows: sequence numbers begin with 0 in every writer, and small files are
    compacted separately. In fixed buckets numbers continue from the existing ones, and each flush may compact.

    Args:
        state: the state of the bucket when writing begins; empty when it is overwritten.
        columns: the columns of the rows, if they are not those of the table; see `write_files`.
    """

    def __init__(
        self, target: WriteTarget, place: Placement, state: BucketState, columns: tuple[DataField, ...] | None = None
    ) -> None:
        self._target, self._place, self._state = target, place, state
        self._buffer = RowBuffer(target, place, columns)
        self._new: list[DataFileMeta] = []
        self._clustering = _find_clustering(target) if columns is None else None
        self._compaction = _make_compaction(target, place, state)
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
        """Take rows of the table's columns, in their order.

        Raises `StorageError`, `InvalidArgument`, `Unsupported`: rows taken so far could not be written.
        """
        self._buffer.put(rows)

    def spill(self) -> None:
        """Free the memory of the buffer."""
        self._buffer.spill()

    def few_rows(self) -> pl.DataFrame | None:
        """Return the few rows of the next flush, see `RowBuffer.few_rows`."""
        return self._buffer.few_rows()

    def prepare(self, prepared: PreparedRows) -> None:
        """Set how few rows are flushed, see `RowBuffer.prepare`."""
        self._buffer.prepare(prepared)

    def compact(self, full: bool) -> None:
        """Write buffered rows, then compact: everything worthwhile, or one step. Do nothing in tables without
        buckets."""
        self._flush()
        if self._compaction is not None:
            self._compaction.full() if full else self._compaction.step()

    def prepare_commit(self, *, wait_compaction: bool = True) -> CommitMessage:  # noqa: ARG002  # compaction runs here
        """Return the files written and compacted since the last call."""
        self._flush()
        if self._new and self._clustering is not None:
            from morrow.writers.append.sort_compaction import sort_new_files

            self._new = sort_new_files(self._target, self._place, self._new, self._clustering)
        compacted = self._compact()
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
        """Drop buffered rows, and remove files that no message names."""
        self._buffer.close()
        delete_files(self._target, self._place, self._new)
        self._new = []
        if self._compaction is not None:
            self._compaction.close()

    def _compact(self) -> CompactionResult:
        """Compact one step; do nothing if files of the bucket are gone, since others have compacted and expired
        them."""
        compaction = self._compaction
        if compaction is None:
            return CompactionResult()
        try:
            compaction.step()
            return compaction.take()
        except FileMissing as error:
            if self._is_based_on_living():
                raise
            log.info("%s: compaction is left to a later writer: %s", self._target.where, error)
            compaction.close()
            self._compaction = None
            return CompactionResult()

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


def _find_clustering(target: WriteTarget) -> Sorter | None:
    if not target.write.clustering_columns:
        return None
    from morrow.writers.append.sort_compaction import find_clustering  # most tables do not need it

    return find_clustering(target)


def _is_numbered(target: WriteTarget) -> bool:
    """Return whether sequence numbers continue from the bucket's greatest one."""
    if target.options.bucket == UNAWARE:
        return False
    return target.write.bucket_append_ordered or not target.write.write_only


def _make_compaction(target: WriteTarget, place: Placement, state: BucketState) -> BucketCompaction | None:
    if target.options.bucket == UNAWARE or target.write.write_only or target.write.incremental_clustering:
        return None
    vectors = None
    if target.write.deletion_vectors:
        vectors = DeletionMaintainer(target, place.partition, place.bucket, state.index_files)
    return BucketCompaction(target, place, state.files, vectors)


MIN_STREAM_BYTES = 32 << 20
"""Minimum bytes of buffered rows for a bucket to write files while rows still arrive."""
MAX_STREAMS = 4
"""Maximum buckets of this process that write files while rows arrive. Each holds several blocks and an encoder."""
_STREAMS = BoundedSemaphore(MAX_STREAMS)


class RowBuffer:
    """Buffer of the rows of a bucket in their order.

    Few rows wait in memory. Many rows go directly into files in up to `MAX_STREAMS` buckets. In other buckets, `spill`
    moves them to temporary files. Not thread-safe.
    """

    def __init__(self, target: WriteTarget, place: Placement, columns: tuple[DataField, ...] | None = None) -> None:
        self._target, self._place, self._columns = target, place, columns
        self._first_sequence = 0
        self._waiting: list[pl.DataFrame] = []
        self._waiting_bytes = 0
        self._stream: FrameStream[list[DataFileMeta]] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._spilled: list[Path] = []
        self._numbers = count()
        self._prepared: PreparedRows | None = None
        self._has_blobs = bool(target.filed_blobs) and columns is None
        self._has_vectors = bool(select_filed_vectors(target, columns or target.schema.fields))

    @property
    def waiting_bytes(self) -> int:
        """Memory held by rows."""
        return self._waiting_bytes

    def begin(self, first_sequence: int) -> None:
        """Set the sequence number of the first row after a `flush`."""
        self._first_sequence = first_sequence

    def put(self, rows: pl.DataFrame) -> None:
        """Take rows.

        Raises `StorageError`, `InvalidArgument`, `Unsupported`: these or earlier rows could not be written.
        """
        if not rows.height:
            return
        self._prepared = None
        if self._stream is not None:
            self._stream.put(rows)
            return
        self._waiting.append(rows)
        self._waiting_bytes += int(rows.estimated_size())
        if self._waiting_bytes >= MIN_STREAM_BYTES and not self._spilled and _STREAMS.acquire(blocking=False):
            self._stream = FrameStream(self._write)
            self._hand_over(self._stream)

    def spill(self) -> None:
        """Move the rows in memory into a temporary file."""
        if not self._waiting:
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="morrow-append-")
        path = Path(self._folder.name) / f"{next(self._numbers)}.arrow"
        with translate_system_errors(self._folder.name, pl.exceptions.PolarsError):
            pl.concat(self._waiting).write_ipc(path, compression="lz4")
        self._spilled.append(path)
        self._forget()

    def few_rows(self) -> pl.DataFrame | None:
        """Return the rows of the next flush if they are few and in memory; None otherwise or without rows."""
        if not self._waiting or self._stream is not None or self._spilled or self._has_blobs or self._has_vectors:
            return None
        if self._columns is not None:  # files are described together in the table's columns
            return None
        if sum(rows.height for rows in self._waiting) >= MIN_DESCRIBED_ROWS:
            return None
        return pl.concat(self._waiting) if len(self._waiting) > 1 else self._waiting[0]

    def prepare(self, prepared: PreparedRows) -> None:
        """Set how `few_rows` are flushed, unless more rows arrive."""
        self._prepared = prepared

    def flush(self) -> list[DataFileMeta]:
        """Write all rows since the last flush to durable data files; return these, or an empty list without rows.

        Raises: as `put`; then the rows are lost and their files are removed.
        """
        try:
            if self._stream is not None:
                return self._stream.finish()
            if self._prepared is not None:
                return write_prepared(
                    self._target, self._place, self._prepared, FileSource.APPEND, self._first_sequence
                )
            return self._write(self._kept()) if self._waiting or self._spilled else []
        finally:
            self._reset()

    def close(self) -> None:
        """Drop all rows, and remove unfinished files."""
        if self._stream is not None:
            self._stream.abandon()
        self._reset()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _write(self, frames: Iterator[pl.DataFrame]) -> list[DataFileMeta]:
        columns = self._columns or self._target.schema.fields
        if not self._has_vectors:
            return self._write_rows(frames, columns if self._has_blobs else self._columns)
        if all(field in self._target.filed_blobs or isinstance(field.type, VectorType) for field in columns):
            hint = "unset vector.file.format, or add another column"
            raise Unsupported("a table of BLOB and VECTOR columns alone", where=self._target.where, hint=hint)
        return write_with_vectors(self._target, self._place, frames, columns, self._write_rows)

    def _write_rows(self, frames: Iterator[pl.DataFrame], columns: tuple[DataField, ...] | None) -> list[DataFileMeta]:
        if self._has_blobs and columns is not None:
            return write_with_blobs(self._target, self._place, frames, columns)
        return write_files(
            self._target,
            self._place,
            frames,
            level=0,
            source=FileSource.APPEND,
            first_sequence=self._first_sequence,
            columns=columns,
        )

    def _hand_over(self, stream: FrameStream[list[DataFileMeta]]) -> None:
        frames = self._waiting
        self._forget()
        for frame in frames:
            stream.put(frame)

    def _kept(self) -> Iterator[pl.DataFrame]:
        for path in self._spilled:
            yield pl.read_ipc(path)
            path.unlink()
        yield from self._waiting

    def _forget(self) -> None:
        self._waiting, self._waiting_bytes, self._prepared = [], 0, None

    def _reset(self) -> None:
        self._forget()
        for path in self._spilled:
            path.unlink(missing_ok=True)
        self._spilled.clear()
        if self._stream is not None:
            self._stream = None
            _STREAMS.release()


Result = TypeVar("Result")

MAX_WAITING_FRAMES = 2
POLL_SECONDS = 0.05
"""Seconds between checks whether the other side is still alive."""


class _Abandoned(Exception):
    """Signal to end the writer's iteration without a result."""


class FrameStream(Generic[Result]):
    """Thread that runs ``write(frames)`` on the frames passed to `put`.

    Only a few frames wait: `put` blocks until the writer has taken the previous ones. Errors of the writer are raised
    by the next call.
    """

    def __init__(self, write: Callable[[Iterator[pl.DataFrame]], Result]) -> None:
        self._write = write
        self._frames: Queue[pl.DataFrame | None] = Queue(MAX_WAITING_FRAMES)
        self._abandoned = Event()
        self._result: list[Result] = []
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="morrow-append", daemon=True)
        self._thread.start()

    def put(self, frame: pl.DataFrame | None) -> None:
        """Hand over the next rows."""
        while self._thread.is_alive():
            with suppress(Full):
                self._frames.put(frame, timeout=POLL_SECONDS)
                return
        self._raise()

    def finish(self) -> Result:
        """Return the writer's result for all rows."""
        with suppress(_Abandoned):
            self.put(None)
        self._thread.join()
        self._raise()
        return self._result[0]

    def abandon(self) -> None:
        """Make the writer fail, and wait for it."""
        self._abandoned.set()
        self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._result.append(self._write(self._taken()))
        except BaseException as error:  # noqa: BLE001  # raised again in the feeding thread
            self._error = error

    def _taken(self) -> Iterator[pl.DataFrame]:
        while True:
            if self._abandoned.is_set():
                raise _Abandoned
            with suppress(Empty):
                frame = self._frames.get(timeout=POLL_SECONDS)
                if frame is None:
                    return
                yield frame
