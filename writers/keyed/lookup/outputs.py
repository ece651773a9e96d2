"""Changelog files written beside data files: one merge feeds both, with a few frames in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Full, Queue
from types import TracebackType

import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta

MOST_WAITING = 4
"""The most frames that wait for the writing thread."""
PATIENCE = 0.1
"""Seconds between checks, while waiting, whether the writing has failed."""

Write = Callable[[Iterator[pl.DataFrame]], list[DataFileMeta]]


class _AbandonedError(Exception):
    """Ends the writing because the surrounding operation has failed."""


class SideOutput:
    """Writes frames in a thread of its own, which the first frame starts.

    A context manager that waits for the files on exit, and removes them when the block raises. When the writing fails,
    `add` or the exit raises its error.
    """

    def __init__(self, write: Write) -> None:
        self.files: tuple[DataFileMeta, ...] = ()
        self._write = write
        self._waiting: Queue[pl.DataFrame | None] = Queue(MOST_WAITING)
        self._abandoned = False
        self._pool: ThreadPoolExecutor | None = None
        self._written: Future[list[DataFileMeta]] | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Queues a frame to be written after those before it."""
        if not frame.height:
            return
        if self._written is None:
            self._pool = ThreadPoolExecutor(1)
            self._written = self._pool.submit(self._write, self._frames())
        self._put(self._written, frame)

    def _put(self, written: Future[list[DataFileMeta]], frame: pl.DataFrame | None) -> None:
        while not written.done():
            try:
                self._waiting.put(frame, timeout=PATIENCE)
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
        """Ends the writing and ignores its errors, which are not the first failure."""
        while not written.done():
            try:
                self._waiting.put(None, timeout=PATIENCE)
            except Full:
                continue
            written.exception()
            return
