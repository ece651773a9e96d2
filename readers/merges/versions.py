"""Which rows share a key, and in which order: the versions of every key, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.readers.masks.ordering import DENSE, key_order

MOST_COUNTED = 255
"""Runs whose keys a table of bytes can count."""


@dataclass(frozen=True)
class Versions:
    """The versions of keys among some rows, which are numbered from 0.

    `single[row]`: no other row has its key. `order` holds the numbers of all other rows, those of a key together,
    the oldest version first; `counts` how many there are of each key, in the order of the keys.
    """

    single: npt.NDArray[np.bool_]
    order: npt.NDArray[np.integer]
    counts: npt.NDArray[np.integer]

    @property
    def starts(self) -> npt.NDArray[np.integer]:
        """Where the versions of each key start in `order`."""
        starts: npt.NDArray[np.integer] = np.cumsum(self.counts) - self.counts
        return starts


def versions_of(
    keys: pl.DataFrame, age: pl.DataFrame, descending: Sequence[bool], runs: Sequence[int] | None = None
) -> Versions:
    """Find the versions of every key.

    Args:
        keys: key columns, rows of older files first.
        age: columns that decide before the row's place does (may be empty).
        descending: sort order of each column of `age`; nulls are the oldest in either.
        runs: heights of the files that the rows come from, one after another, if no file holds a key twice.
    """
    counted = None if runs is None or keys.width > 1 else _counted(keys.to_series(), runs)
    if counted is None:
        order, starts = key_order(keys, age, descending)
        counts = np.diff(np.append(starts, len(order)))
        alone = counts == 1
        single = np.zeros(keys.height, bool)
        single[order[starts[alone]]] = True
        return Versions(single, order[np.repeat(~alone, counts)], counts[~alone])
    single, shared = counted
    order, starts = key_order(keys[shared], age[shared] if age.width else age, descending)
    return Versions(single, shared[order], np.diff(np.append(starts, len(order))))


def _counted(keys: pl.Series, runs: Sequence[int]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.integer]] | None:
    """Rows whose key is theirs alone and the numbers of the others, for integer keys that lie close; else None.

    A table of one byte per possible key counts the runs that hold it, so that only shared keys have to be sorted.
    """
    if not keys.dtype.is_integer() or not len(keys) or len(runs) > MOST_COUNTED:
        return None
    values = keys.to_numpy()
    least, greatest = int(values.min()), int(values.max())
    if greatest - least >= DENSE * len(values):
        return None
    slots = values.astype(np.int64, copy=False) - least
    holders = np.zeros(greatest - least + 1, np.uint8)
    for start, end in pairwise(np.cumsum([0, *runs])):
        holders[slots[start:end]] += 1  # a run holds a key once, so no addition is lost
    single = holders[slots] == 1
    return single, np.flatnonzero(~single)
