"""Handling of Polars threads: eager steps on small frames, and a check against forked processes.

A table of a few files is planned in some dozen steps on small frames. Waiting for a thread of Polars takes longer than
such a step, and on a busy machine a hundred times as long. So these functions start no query.

The threads of Polars stay in the parent of a forked process, and a query in the child would wait for them forever. So
queries in a fork are refused. Processes that are forked before the first query, as Spark's workers are, can run
queries.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import reduce
from typing import Any, TypeVar

import polars as pl

from morrow.engine.errors import Unsupported

MAX_SMALL_ROWS = 1 << 8
"""The limit of metadata rows that Python handles while Polars would still be starting a query."""


def deduplicate_values(column: pl.Series) -> pl.Series:
    """Return each value of a column once, in any order."""
    return column[:1] if column.n_unique() == 1 else column.unique()


def filter_rows(frame: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """Return the rows for which a mask without nulls is true: the same frame if these are all rows."""
    return frame if mask.all() else frame.filter(mask)


def select_columns(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return the existing columns of a frame among these names, in their order; no query runs."""
    there = frozenset(frame.columns)
    return frame[[name for name in names if name in there]]


def concat_frames(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of one or more frames of the same schema, one after another, without copying values."""
    return reduce(pl.DataFrame.vstack, frames)


class _CallingThread(Executor):
    """An executor that runs each call at once, in the thread that submits it."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*args, **options))
        except Exception as error:  # noqa: BLE001 - the future raises it
            done.set_exception(error)
        return done


_source = threading.local()


def is_in_source() -> bool:
    """Return whether this thread runs a Python source for Polars 1, see `run_as_source`."""
    return getattr(_source, "running", False)


def run_as_source(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield the frames of a Python source for Polars 1, computed without other threads.

    Polars 1 calls sources in its own threads. If one waits there for another thread that runs a query, and that query
    for a thread of Polars, both wait forever.
    """
    while True:
        before, _source.running = is_in_source(), True
        try:
            frame = next(frames, None)
        finally:
            _source.running = before
        if frame is None:
            return
        yield frame


def open_threads(threads: int) -> Executor:
    """Return an executor for calls that run queries: of other threads, or of the calling thread if `is_in_source`."""
    return _CallingThread() if is_in_source() else ThreadPoolExecutor(threads)


T = TypeVar("T")

_first: int | None = None
"""The process that ran the first query: this one, or one that it was forked from."""


def check_process() -> None:
    """Note that this process runs queries. Raises `Unsupported`: it was forked from a process that has run queries."""
    global _first
    process = os.getpid()
    if _first is None:
        _first = process
    elif _first != process:
        raise Unsupported(
            "a query in a process that was forked from one which has run queries",
            hint="start processes by multiprocessing's 'spawn' or 'forkserver', or fork before the first query",
        )


def refuse_in_fork(values: Iterator[T]) -> Iterator[T]:
    """Yield the values; raise `Unsupported` in a fork of the process that computes them, as `check_process`."""
    while True:
        check_process()
        try:
            value = next(values)
        except StopIteration:
            return
        yield value
