"""Turns frames into encoded blocks: cut to size, encoded by several threads, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

import polars as pl

MOST_BLOCK_ROWS = 1 << 18
LEAST_BLOCK_ROWS = 1000
"""The least rows of a block: Java checks the size of a file every thousand rows."""
MOST_BLOCK_BYTES = 32 << 20
"""The most bytes of rows in memory that make one block."""
MOST_THREADS = 4
"""The most encoding threads: each holds a block, and memory stays bounded on machines of any size."""

T = TypeVar("T")


def pieces(frames: Iterable[pl.DataFrame], block_bytes: int) -> Iterator[pl.DataFrame]:
    """Yields the same rows in frames that make a block each; small ones wait for more."""
    waiting: list[pl.DataFrame] = []
    rows = 0
    waiting_bytes: float = 0
    for frame in frames:
        if not frame.height:
            continue
        waiting.append(frame)
        rows += frame.height
        waiting_bytes += frame.estimated_size()
        if rows < MOST_BLOCK_ROWS and waiting_bytes < block_bytes:
            continue
        joined = pl.concat(waiting) if len(waiting) > 1 else frame
        fitting = int(rows * block_bytes / max(waiting_bytes, 1)) // LEAST_BLOCK_ROWS * LEAST_BLOCK_ROWS
        size = min(max(fitting, LEAST_BLOCK_ROWS), MOST_BLOCK_ROWS)
        whole = rows // size * size
        yield from (joined[start : start + size] for start in range(0, whole, size))
        rest = joined[whole:]
        waiting, rows = [rest] if rest.height else [], rest.height
        waiting_bytes = rest.estimated_size()
    if waiting:
        yield pl.concat(waiting) if len(waiting) > 1 else waiting[0]


def in_threads(encode: Callable[[pl.DataFrame], T], pieces: Iterator[pl.DataFrame]) -> Generator[T]:
    """Yields encoded pieces in their order, several at a time; a single one without any thread."""
    start = list(islice(pieces, 2))
    if len(start) < 2:
        yield from map(encode, start)
        return
    threads = min(pl.thread_pool_size(), MOST_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[T]] = deque()
        try:
            for piece in chain(start, pieces):
                ahead.append(pool.submit(encode, piece))
                if len(ahead) > threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
