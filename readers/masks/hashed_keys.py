"""Rows that share a key, found by hashes: for keys of any type, text of any length, any number of columns.

A table of row numbers, indexed by bits of the hash, remembers the newest row of each slot among the updates; all other
rows look into it. What is found there is compared, key with key, so that a hash never decides. Rows of a long run, as
most rows of a section are, are looked up and never entered: the table grows with the updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.arrow_buffers import series_of
from morrow.engine.names import col, unnamed
from morrow.readers.masks.sorted_runs import LONG, Numbers

SEED = 0x6D6F72726F77
MIXER = np.uint64(0x9E3779B97F4A7C15)
SLOTS = 8
"""Slots of the table for each row that is entered."""
LEAST_BITS = 10
BLOCK = 1 << 15
"""Hashes that are mixed at a time: as many as stay in the processor's cache."""
HASH_BITS = 64

TEMPORAL = (pl.Datetime, pl.Date, pl.Time)


class SharedKeys(msgspec.Struct, frozen=True, dict=True):
    """Which rows share a key. `newest` is, for each row, the last row with its key, or -1 where that is itself."""

    newest: npt.NDArray[np.int32]

    @cached_property
    def older(self) -> Numbers:
        """The rows after which another has their key, ascending."""
        return np.flatnonzero(self.newest >= 0)

    @cached_property
    def last(self) -> npt.NDArray[np.bool_]:
        """Whether no row after this one has its key."""
        return self.newest < 0

    @cached_property
    def shared(self) -> npt.NDArray[np.bool_]:
        """Whether another row has the row's key."""
        found = ~self.last
        found[self.newest[self.older]] = True
        return found

    @cached_property
    def rows(self) -> Numbers:
        """The rows that share a key with others, ascending."""
        return np.flatnonzero(self.shared)

    @cached_property
    def ids(self) -> npt.NDArray[np.int32]:
        """The key of each of `rows`, as numbers from 0 on without gaps."""
        newest = self.newest[self.rows]
        final = newest < 0
        number = np.empty(len(self.newest), np.int32)
        number[self.rows[final]] = np.arange(np.count_nonzero(final), dtype=np.int32)
        return number[np.where(final, self.rows, newest)]

    def heights(self, runs: Sequence[int]) -> list[int]:
        """Counts the rows of `rows` in each run."""
        ends = np.searchsorted(self.rows, np.cumsum([0, *runs]))
        return [int(height) for height in np.diff(ends)]


def shared_keys(keys: pl.DataFrame, runs: Sequence[int] | None) -> SharedKeys | None:
    """Finds rows of the same key.

    Args:
        keys: key columns in which equal values are equal keys (floats as `sortable` makes them).
        runs: heights of the sorted files that the rows come from, one after another, if no file holds a key twice.

    Returns: None in the rare case that two keys have the same hash.
    """
    hashes = hashed(keys)
    newest = _newest(hashes, 0 if runs is None else _long(keys, runs))
    found = SharedKeys(newest)
    older, newer = (series_of(rows.astype(np.uint32)) for rows in (found.older, newest[found.older]))
    for column in keys.iter_columns():
        plain = unnamed(column)
        if not plain.gather(older).eq_missing(plain.gather(newer)).all():
            return None
    return found


def hashed(keys: pl.DataFrame) -> npt.NDArray[np.uint64]:
    """Returns a number for each row, the same for equal keys."""
    first, *others = (column.hash(SEED).to_numpy() for column in keys.iter_columns())
    if not others:
        return first
    mixed = first.copy()
    for start in range(0, len(mixed), BLOCK):
        rows = slice(start, start + BLOCK)
        block = mixed[rows]
        for values in others:
            block *= MIXER
            block ^= block >> np.uint64(32)
            block += values[rows]
    return mixed


def _newest(hashes: npt.NDArray[np.uint64], long: int, shift: int = 0) -> npt.NDArray[np.int32]:
    """Returns for each row the last with its hash, -1 for itself; the first `long` rows have different keys.

    Slots are chosen by the bits of the hash from `shift` on.
    """
    count = len(hashes)
    bits = max((SLOTS * (count - long)).bit_length(), LEAST_BITS)
    if shift + bits > HASH_BITS:
        return _newest_sorted(hashes)
    slots = ((hashes >> np.uint64(shift)) & np.uint64((1 << bits) - 1)).view(np.int64)
    entered = np.arange(long, count, dtype=np.int32)
    table = np.empty(1 << bits, np.int32)
    table[slots[long:]] = entered  # of several with one slot the last remains
    # Most rows of a long run find nothing: a smaller table, which stays in the processor's cache, tells them.
    taken = np.zeros(1 << bits, bool)
    taken[slots[long:]] = True
    rows = np.concatenate([np.flatnonzero(taken.take(slots[:long])), entered])
    found = table.take(slots[rows])
    same = hashes[found] == hashes[rows]
    newest = np.full(count, -1, np.int32)
    newest[rows] = np.where(same & (found != rows), found, -1)
    missed = rows[~same]
    if len(missed):
        # Their slot has a row of another hash, and so have all rows of their own hash.
        inner = _newest(hashes[missed], int(np.searchsorted(missed, long)), shift + bits)
        newest[missed] = np.where(inner < 0, -1, missed[inner])
    return newest


def _newest_sorted(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Returns the same by sorting."""
    order = np.argsort(hashes, kind="stable")
    ends = np.flatnonzero(np.append(hashes[order[1:]] != hashes[order[:-1]], True))
    last = np.repeat(order[ends], np.diff(ends, prepend=-1))
    newest = np.empty(len(hashes), np.int32)
    newest[order] = np.where(last == order, -1, last)
    return newest


def _long(keys: pl.DataFrame, runs: Sequence[int]) -> int:
    """Counts the rows of the first runs that follow one another, and so share no key; 0 if they are not most rows."""
    comparable = [column for column in keys.iter_columns() if not column.dtype.is_float()]
    if len(comparable) < keys.width:
        return 0
    reached, last = 0, None
    for height in runs:
        if height:
            edges = keys[[reached, reached + height - 1]].select(
                col(name).to_physical() if isinstance(dtype, TEMPORAL) else col(name)
                for name, dtype in keys.schema.items()
            )
            first, end = edges.rows()
            first_column = unnamed(comparable[0])[reached : reached + height]
            if None in (*first, *end) or not first_column.is_sorted():
                break
            if last is not None and not last < first:
                break
            last = end
        reached += height
    return reached if reached >= LONG * (keys.height - reached) else 0
