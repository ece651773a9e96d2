"""The buffer of one append bucket: rows wait in memory or on local disk, or stream into data files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import BoundedSemaphore

import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.engine.io.system_errors import system_errors
from morrow.writers.append.stream import FrameStream
from morrow.writers.files import Placement, write_files
from morrow.writers.files.write import FEW_ROWS, Prepared, write_prepared
from morrow.writers.target import WriteTarget

STREAM_BYTES = 32 << 20
"""The size of buffered rows from which a bucket writes its files while rows still arrive."""
MOST_STREAMS = 4
"""The most buckets of this process that do so at once: each holds blocks of a file and an encoder."""
_STREAMS = BoundedSemaphore(MOST_STREAMS)


class RowBuffer:
    """Buffers the rows of a bucket in their order.

    Few rows wait in memory. Many rows go straight into files as long as few buckets do so; those of other buckets are
    put into temporary files by `spill`. Not safe for use by several threads at once.
    """

    def __init__(self, target: WriteTarget, place: Placement) -> None:
        self._target, self._place = target, place
        self._first_sequence = 0
        self._waiting: list[pl.DataFrame] = []
        self._waiting_bytes = 0
        self._stream: FrameStream[list[DataFileMeta]] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._spilled: list[Path] = []
        self._numbers = count()
        self._prepared: Prepared | None = None

    @property
    def waiting_bytes(self) -> int:
        """Memory held by rows."""
        return self._waiting_bytes

    def begin(self, first_sequence: int) -> None:
        """Sets the sequence number of the first row after a `flush`."""
        self._first_sequence = first_sequence

    def put(self, rows: pl.DataFrame) -> None:
        """Takes rows.

        Raises:
            StorageError, InvalidArgument, Unsupported: these or earlier rows could not be written.
        """
        if not rows.height:
            return
        self._prepared = None
        if self._stream is not None:
            self._stream.put(rows)
            return
        self._waiting.append(rows)
        self._waiting_bytes += int(rows.estimated_size())
        if self._waiting_bytes >= STREAM_BYTES and not self._spilled and _STREAMS.acquire(blocking=False):
            self._stream = FrameStream(self._write)
            self._hand_over(self._stream)

    def spill(self) -> None:
        """Moves the rows in memory into a temporary file."""
        if not self._waiting:
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="morrow-append-")
        path = Path(self._folder.name) / f"{next(self._numbers)}.arrow"
        with system_errors(self._folder.name, pl.exceptions.PolarsError):
            pl.concat(self._waiting).write_ipc(path, compression="lz4")
        self._spilled.append(path)
        self._forget()

    def few_rows(self) -> pl.DataFrame | None:
        """Returns the rows of the next flush if they are few and in memory; None otherwise or without rows."""
        if not self._waiting or self._stream is not None or self._spilled:
            return None
        if sum(rows.height for rows in self._waiting) >= FEW_ROWS:
            return None
        return pl.concat(self._waiting) if len(self._waiting) > 1 else self._waiting[0]

    def prepare(self, prepared: Prepared) -> None:
        """Sets how `few_rows` are flushed, unless more rows arrive."""
        self._prepared = prepared

    def flush(self) -> list[DataFileMeta]:
        """Writes all rows since the last flush to durable data files; returns none when there were no rows.

        Raises: as `put`; the rows are lost then, and none of their files stays.
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
        """Drops all rows, and removes unfinished files."""
        if self._stream is not None:
            self._stream.abandon()
        self._reset()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _write(self, frames: Iterator[pl.DataFrame]) -> list[DataFileMeta]:
        return write_files(
            self._target,
            self._place,
            frames,
            level=0,
            source=FileSource.APPEND,
            first_sequence=self._first_sequence,
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
