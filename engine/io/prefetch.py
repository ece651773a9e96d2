"""Concurrent requests to a remote store, which answers slowly but serves many requests at once.

A local disk answers faster than a thread starts, so it is read file by file without threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from morrow.engine.io.store import FileStore

MAX_CONCURRENT_READS = 32
"""The number of small files read at once."""
MAX_READ_AHEAD = 512
"""Maximum number of files read ahead; initially fewer, since some callers need only the first file."""

T = TypeVar("T")
K = TypeVar("K")


def read_each(store: FileStore, read: Callable[[K], T], names: Sequence[K]) -> Iterator[T]:
    """Yield `read(name)` for each name in order, and read ahead of the caller."""
    if store.is_local or len(names) < 2:
        yield from map(read, names)
        return
    start, ahead = 0, MAX_CONCURRENT_READS
    with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
        while start < len(names):
            yield from pool.map(read, names[start : start + ahead])
            start, ahead = start + ahead, min(2 * ahead, MAX_READ_AHEAD)


def call_both(store: FileStore, one: Callable[[], T], other: Callable[[], K]) -> tuple[T, K]:
    """Call both functions concurrently and return their results; if both fail, raise the error of `one`."""
    if store.is_local:
        return one(), other()
    with ThreadPoolExecutor(1) as pool:
        ahead = pool.submit(other)
        return one(), ahead.result()


def start_request(store: FileStore, ask: Callable[[], T]) -> Callable[[], T]:
    """Start a request to a remote store; return a function that waits for the answer and raises the errors of `ask`.

    For a local disk, the request is made immediately, and errors are raised immediately.
    """
    if store.is_local:
        answer = ask()
        return lambda: answer
    with_thread = ThreadPoolExecutor(1)
    asked = with_thread.submit(ask)
    with_thread.shutdown(wait=False)
    return asked.result
