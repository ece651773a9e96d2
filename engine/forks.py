"""Refuses queries in forked processes: the threads of Polars stay in the parent, and a child waits for them forever.

Processes that are forked before the first query, as Spark's workers are, run queries like any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

from morrow.engine.errors import Unsupported

T = TypeVar("T")

_first: int | None = None
"""The process that ran the first query: this one, or one that this one was forked from."""


def check_process() -> None:
    """Notes that this process runs queries.

    Raises:
        Unsupported: it was forked from one that has run some.
    """
    global _first
    process = os.getpid()
    if _first is None:
        _first = process
    elif _first != process:
        raise Unsupported(
            "a query in a process that was forked from one which has run queries",
            hint="start processes by multiprocessing's 'spawn' or 'forkserver', or fork before the first query",
        )


def in_one_process(values: Iterator[T]) -> Iterator[T]:
    """Yield the values; raises `Unsupported` in a fork of the process that computes them, as `check_process`."""
    while True:
        check_process()
        try:
            value = next(values)
        except StopIteration:
            return
        yield value
