"""Frames to encoded blocks: cut to size, encoded by several threads, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import polars as pl

MOST_BLOCK_ROWS = 1 << 18
LEAST_BLOCK_ROWS = 1000
"""Java looks at the size of a file every thousand rows."""
MOST_BLOCK_BYTES = 64 << 20
"""Rows in memory that make one block."""

T = TypeVar("T")


def pieces(frames: Iterable[pl.DataFrame], block_bytes: int) -> Iterator[pl.DataFrame]:
    """The same rows in frames that make a block each; small ones wait for more."""
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
        size = min(max(int(rows * block_bytes / max(waiting_bytes, 1)), LEAST_BLOCK_ROWS), MOST_BLOCK_ROWS)
        whole = rows // size * size
        yield from (joined[start : start + size] for start in range(0, whole, size))
        rest = joined[whole:]
        waiting, rows = [rest] if rest.height else [], rest.height
        waiting_bytes = rest.estimated_size()
    if waiting:
        yield pl.concat(waiting) if len(waiting) > 1 else waiting[0]


def in_threads(encode: Callable[[pl.DataFrame], T], pieces: Iterator[pl.DataFrame]) -> Iterator[T]:
    """Encoded pieces in their order, as many at a time as there are threads; a single one without any."""
    first = next(pieces, None)
    second = next(pieces, None)
    if first is None:
        return
    if second is None:
        yield encode(first)
        return
    threads = pl.thread_pool_size()
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[T]] = deque([pool.submit(encode, first), pool.submit(encode, second)])
        try:
            for piece in pieces:
                if len(ahead) > threads:
                    yield ahead.popleft().result()
                ahead.append(pool.submit(encode, piece))
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
