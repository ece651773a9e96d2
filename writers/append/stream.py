"""A bridge that feeds frames, one at a time, to a writer that consumes an iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

import polars as pl

Result = TypeVar("Result")

FRAMES_AHEAD = 2
PATIENCE = 0.05
"""Seconds between checks whether the other side is still alive."""


class _Abandoned(Exception):
    """Ends the writer's iteration without a result."""


class FrameStream(Generic[Result]):
    """Runs ``write(frames)`` in a thread of its own and feeds it.

    At most a few frames wait: `put` blocks until the writer has taken others. Errors of the writer are raised by the
    next call.
    """

    def __init__(self, write: Callable[[Iterator[pl.DataFrame]], Result]) -> None:
        self._write = write
        self._frames: Queue[pl.DataFrame | None] = Queue(FRAMES_AHEAD)
        self._abandoned = Event()
        self._result: list[Result] = []
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="morrow-append", daemon=True)
        self._thread.start()

    def put(self, frame: pl.DataFrame | None) -> None:
        """Hands over the next rows."""
        while self._thread.is_alive():
            with suppress(Full):
                self._frames.put(frame, timeout=PATIENCE)
                return
        self._raise()

    def finish(self) -> Result:
        """Returns the writer's result for all rows."""
        with suppress(_Abandoned):
            self.put(None)
        self._thread.join()
        self._raise()
        return self._result[0]

    def abandon(self) -> None:
        """Makes the writer fail, and waits for it."""
        self._abandoned.set()
        self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._result.append(self._write(self._taken()))
        except BaseException as error:  # noqa: BLE001  # raised again in the thread that feeds
            self._error = error

    def _taken(self) -> Iterator[pl.DataFrame]:
        while True:
            if self._abandoned.is_set():
                raise _Abandoned
            with suppress(Empty):
                frame = self._frames.get(timeout=PATIENCE)
                if frame is None:
                    return
                yield frame
