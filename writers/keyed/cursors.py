"""Cuts several sorted runs at the same keys: a merge of any number of runs in bounded memory.

Each run is read in batches. The smallest of the last keys in memory bounds a range of keys that no later batch can add
to; the rows below it are taken from every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from morrow.engine.names import cols
from morrow.writers.keyed.keys import below


class RunCursor:
    """The rows of one sorted run from the first that was not taken yet, at least `ahead` of them."""

    def __init__(self, batches: Iterator[pl.DataFrame], key: Sequence[str], ahead: int) -> None:
        self._batches = batches
        self._key = key
        self._ahead = ahead
        self._head = pl.DataFrame()
        self.finished = False
        self._fill()

    def _fill(self) -> None:
        while not self.finished and self.rows < self._ahead:
            self.extend()

    def extend(self) -> None:
        """Reads one more batch behind the rows in memory."""
        batch = next(self._batches, None)
        if batch is None:
            self.finished = True
            return
        self._head = pl.concat([self._head, batch]) if self.rows else batch

    @property
    def rows(self) -> int:
        return self._head.height

    @property
    def last_row(self) -> pl.DataFrame:
        """The key of the last row in memory."""
        return self._head.tail(1).select(cols(self._key))

    def take(self, bound: tuple[Any, ...] | None) -> pl.DataFrame:
        """Returns and removes the rows with keys below `bound`; all rows if it is None."""
        head = self._head
        count = head.height
        if bound is not None:
            count = head.select(below(self._key, bound, head.schema).sum()).item()
        self._head = head[count:]
        self._fill()
        return head[:count]


def key_ranges_of(
    runs: Sequence[Iterator[pl.DataFrame]], key: Sequence[str], ahead: Sequence[int]
) -> Iterator[list[pl.DataFrame]]:
    """Yields the rows of sorted runs by ascending ranges of keys: those of each run in a range, in the order of `runs`.

    Args:
        runs: batches of version frames sorted by `key`; a run may hold a key several times.
        ahead: the least number of rows of each run in memory: the more, the larger are the ranges.
    """
    cursors = [RunCursor(run, key, rows) for run, rows in zip(runs, ahead, strict=True)]
    while any(cursor.rows for cursor in cursors):
        unfinished = [cursor for cursor in cursors if not cursor.finished]
        bound, least = _least_end(unfinished, key)
        parts = [cursor.take(bound) for cursor in cursors if cursor.rows]
        parts = [part for part in parts if part.height]
        if parts:
            yield parts
        elif least is not None:
            # All rows of this run in memory have one key, which may continue in the next batch.
            least.extend()


def _least_end(unfinished: Sequence[RunCursor], key: Sequence[str]) -> tuple[tuple[Any, ...] | None, RunCursor | None]:
    """Returns the smallest last key in memory, and the run that has it."""
    if not unfinished:
        return None, None
    ends = pl.concat([cursor.last_row for cursor in unfinished])
    number = int(ends.select(pl.arg_sort_by(cols(key))).item(0, 0))
    return ends.row(number), unfinished[number]
