"""Decodes several files at once and yields their chunks in order, holding only a few."""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from queue import Full, Queue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

WORKERS = 2
"""Files decoded at once."""

DEPTH = 2
"""Decoded chunks of a file that may be queued."""

PATIENCE_SECONDS = 0.02
"""How long a decoder with chunks left waits for room before it checks whether anybody still wants them."""


EXIT_SECONDS = 10.0
"""How long the end of the interpreter waits for a decoder to finish its chunk."""


class _Lane(Generic[T]):
    """The chunks of one file on their way from its decoder to the consumer."""

    def __init__(self, decode: Callable[[], Iterator[T]], stopped: threading.Event) -> None:
        self._decode = decode
        self._stopped = stopped
        self._waiting: Queue[T | Future[None]] = Queue(DEPTH)

    def fill(self) -> None:
        """Queues the chunks, and after them how the decoder ended."""
        end: Future[None] = Future()
        try:
            for chunk in self._decode():
                if not self._put(chunk):
                    return
            end.set_result(None)
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            end.set_exception(error)
        self._put(end)

    def _put(self, what: T | Future[None]) -> bool:
        """Waits for room in the queue; returns False if nobody wants more."""
        while not self._stopped.is_set():
            try:
                self._waiting.put(what, timeout=PATIENCE_SECONDS)
            except Full:
                continue
            return True
        return False

    def drain(self) -> Iterator[T]:
        """Yields the chunks; raises the decoder's error."""
        while not isinstance(chunk := self._waiting.get(), Future):
            yield chunk
        chunk.result()


class _Worker(threading.Thread):
    """Fills one lane after the other.

    A daemon: a program that ends while somebody holds a stream that is not read to its end would wait for it forever.
    """

    def __init__(self, lanes: deque[_Lane[Any]], stopped: threading.Event) -> None:
        super().__init__(name="morrow-read-ahead", daemon=True)
        self._lanes = lanes
        self.stopped = stopped

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                lane = self._lanes.popleft()
            except IndexError:
                return
            lane.fill()


_workers: WeakSet[_Worker] = WeakSet()


@atexit.register
def _stop() -> None:
    """Ends all workers before the interpreter is taken down under them."""
    running = list(_workers)
    for worker in running:
        worker.stopped.set()
    for worker in running:
        worker.join(EXIT_SECONDS)


def read_ahead(decoders: Sequence[Callable[[], Iterator[T]]]) -> Iterator[T]:
    """Yields the chunks of all decoders, one decoder after the other; the next ones work ahead meanwhile.

    Raises: the error of a decoder, when its turn comes.
    """
    stopped = threading.Event()
    lanes = [_Lane(decode, stopped) for decode in decoders]
    waiting = deque(lanes)
    try:
        for _ in range(min(WORKERS, len(lanes))):
            worker = _Worker(waiting, stopped)
            _workers.add(worker)
            worker.start()
        for lane in lanes:
            yield from lane.drain()
    finally:
        # The workers are not waited for: an abandoned generator may be collected in one of them.
        stopped.set()
