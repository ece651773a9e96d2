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
    if runs is not None and keys.width == 1 and not age.width:
        found = _counted(keys.to_series(), runs)
        if found is not None:
            return found
    order, starts = key_order(keys, age, descending)
    counts = np.diff(np.append(starts, len(order)))
    alone = counts == 1
    single = np.zeros(keys.height, bool)
    single[order[starts[alone]]] = True
    return Versions(single, order[np.repeat(~alone, counts)], counts[~alone])


def _counted(keys: pl.Series, runs: Sequence[int]) -> Versions | None:
    """The versions of integer keys that lie close, in the order of their runs; else None.

    Nothing is sorted: a table of one byte per possible key counts the runs that hold it, a second table says where its
    next version goes.
    """
    if not keys.dtype.is_integer() or not len(keys) or len(runs) > MOST_COUNTED:
        return None
    values = keys.to_numpy()
    least, greatest = int(values.min()), int(values.max())
    if greatest - least >= DENSE * len(values):
        return None
    slots = values - least if values.dtype == np.int64 else values.astype(np.int64) - least
    holders = np.zeros(greatest - least + 1, np.uint8)
    bounds = list(pairwise(np.cumsum([0, *runs])))
    for start, end in bounds:
        holders[slots[start:end]] += 1  # a run holds a key once, so no addition is lost
    single = holders[slots] == 1
    several = np.flatnonzero(holders > 1)
    counts = holders[several].astype(np.int64)
    place = np.zeros(len(holders), np.int64)
    place[several] = np.cumsum(counts) - counts
    order = np.empty(int(counts.sum()), np.int64)
    for start, end in bounds:
        rows = np.flatnonzero(~single[start:end]) + start
        held = slots[rows]
        order[place[held]] = rows
        place[held] += 1
    return Versions(single, order, counts)
