"""Rows of one bucket on their way into data files: in memory, on local disk, or straight on to the files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import BoundedSemaphore

import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta, FileSource
from morrow.writers.append.stream import FrameStream
from morrow.writers.files import Placement, write_files
from morrow.writers.target import WriteTarget

STREAM_BYTES = 32 << 20
"""Buffered rows from which on a bucket writes its files while rows still come."""
MOST_STREAMS = 4
"""Buckets of this process that do so at once: each holds blocks of a file and an encoder."""
_STREAMS = BoundedSemaphore(MOST_STREAMS)


class RowBuffer:
    """Takes the rows of a bucket in their order.

    Few rows wait in memory. Many go straight into files as long as few buckets do so; of other buckets `spill` puts
    them into temporary files. Not safe for use by several threads at once.
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

    @property
    def waiting_bytes(self) -> int:
        """Memory held by rows."""
        return self._waiting_bytes

    def begin(self, first_sequence: int) -> None:
        """The sequence number of the next row that comes after a `flush`."""
        self._first_sequence = first_sequence

    def put(self, rows: pl.DataFrame) -> None:
        """Take rows.

        Raises:
            StorageError, InvalidArgument, Unsupported: they, or earlier ones, could not be written.
        """
        if not rows.height:
            return
        if self._stream is not None:
            self._stream.put(rows)
            return
        self._waiting.append(rows)
        self._waiting_bytes += int(rows.estimated_size())
        if self._waiting_bytes >= STREAM_BYTES and not self._spilled and _STREAMS.acquire(blocking=False):
            self._stream = FrameStream(self._write)
            self._hand_over(self._stream)

    def spill(self) -> None:
        """Put the rows in memory into a temporary file."""
        if not self._waiting:
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="morrow-append-")
        path = Path(self._folder.name) / f"{next(self._numbers)}.arrow"
        pl.concat(self._waiting).write_ipc(path, compression="lz4")
        self._spilled.append(path)
        self._forget()

    def flush(self) -> list[DataFileMeta]:
        """Data files of all rows since the last flush, durable; none when there were none.

        Raises: as `put`; the rows are lost then, and no file of them stays.
        """
        try:
            if self._stream is not None:
                return self._stream.finish()
            return self._write(self._kept()) if self._waiting or self._spilled else []
        finally:
            self._reset()

    def close(self) -> None:
        """Drop all rows; files that were begun are removed."""
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
        self._waiting, self._waiting_bytes = [], 0

    def _reset(self) -> None:
        self._forget()
        for path in self._spilled:
            path.unlink(missing_ok=True)
        self._spilled.clear()
        if self._stream is not None:
            self._stream = None
            _STREAMS.release()
