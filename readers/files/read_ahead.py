"""Decodes several files at once and yields their chunks in order, holding only a few."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

T = TypeVar("T")

WORKERS = 2
"""Files decoded at once."""

DEPTH = 2
"""Decoded chunks of a file that may be queued."""

PATIENCE_SECONDS = 0.02
"""How long each side waits before it checks whether the other still runs."""


class _Lane(Generic[T]):
    """The chunks of one file on their way from its decoder to the consumer."""

    def __init__(self, decode: Callable[[], Iterator[T]], stopped: threading.Event) -> None:
        self._decode = decode
        self._stopped = stopped
        self._waiting: Queue[T] = Queue(DEPTH)
        self.work: Future[None] | None = None

    def fill(self) -> None:
        for chunk in self._decode():
            while not self._stopped.is_set():
                try:
                    self._waiting.put(chunk, timeout=PATIENCE_SECONDS)
                    break
                except Full:
                    continue
            if self._stopped.is_set():
                return

    def drain(self) -> Iterator[T]:
        """Yields the chunks; raises the decoder's error."""
        assert self.work is not None
        while True:
            try:
                yield self._waiting.get(timeout=PATIENCE_SECONDS)
            except Empty:
                if self.work.done() and self._waiting.empty():
                    self.work.result()
                    return


def read_ahead(decoders: Sequence[Callable[[], Iterator[T]]]) -> Iterator[T]:
    """Yields the chunks of all decoders, one decoder after the other; the next ones work ahead meanwhile.

    Raises: the error of a decoder, when its turn comes.
    """
    stopped = threading.Event()
    lanes = [_Lane(decode, stopped) for decode in decoders]
    pool = ThreadPoolExecutor(WORKERS)
    try:
        for lane in lanes:
            lane.work = pool.submit(lane.fill)
        for lane in lanes:
            yield from lane.drain()
    finally:
        stopped.set()
        # Not waited for: an abandoned generator may be collected in one of the pool's own threads.
        pool.shutdown(wait=False, cancel_futures=True)
