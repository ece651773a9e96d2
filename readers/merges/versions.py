"""The versions of every key among some rows, in rounds from the oldest on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.readers.masks.hashed_keys import SharedKeys, shared_keys
from morrow.readers.masks.ordering import DENSE, comparable, is_number, key_order, order_of_shared
from morrow.readers.masks.sorted_runs import LongRun, long_run
from morrow.readers.merges.rounds import Rounds, by_falling, heights_of

MOST_COUNTED = 255
"""Runs, at most, whose keys a table of bytes can count."""


class Versions(msgspec.Struct, frozen=True):
    """The versions of keys among some rows, which are numbered from 0.

    `single[row]`: no other row has its key. `rounds` have the numbers of all other rows.
    """

    single: npt.NDArray[np.bool_]
    rounds: Rounds

    def among(self, kept: npt.NDArray[np.bool_]) -> Versions:
        """Returns these versions where only the rows `kept` are left, all of the rounds among them."""
        left = np.flatnonzero(kept)
        numbers = np.empty(len(kept), np.uint32)
        numbers[left] = np.arange(len(left), dtype=np.uint32)
        return Versions(self.single.take(left), Rounds(numbers.take(self.rounds.rows), self.rounds.heights))


def versions_of(
    keys: pl.DataFrame,
    age: pl.DataFrame,
    descending: Sequence[bool],
    runs: Sequence[int] | None = None,
    levels: npt.NDArray[np.integer] | None = None,
) -> Versions:
    """Finds the versions of every key.

    Args:
        keys: key columns, rows of older files first.
        age: columns that order versions before the row's position does (may be empty).
        descending: sort order of each column of `age`; nulls are the oldest in either.
        runs: heights of the files that the rows come from, one after another, if no file holds a key twice.
        levels: the level of each row, where of a key's rows above level 0 only that in the lowest level counts. Rows
            that do not count are neither `single` nor in the rounds.
    """
    keys = comparable(keys)
    if not is_number(keys) or age.width:
        shared = shared_keys(keys, runs)
        if shared is not None:
            return _of_shared(shared, age, descending, runs, levels)
    elif levels is None and runs is not None:
        known = long_run(keys.to_series().to_numpy(), runs)
        found = _counted(keys.to_series().to_numpy(), runs) if known is None else _of_long_run(known)
        if found is not None:
            return found
    order, starts = key_order(keys, age, descending)
    return _of_ordered(np.zeros(keys.height, bool), order, starts, levels)


def versions_at(places: npt.NDArray[np.integer], keys: int) -> Versions:
    """Finds the versions of keys that are numbered: the number of each row's key, below `keys`; older rows first."""
    counts = np.bincount(places, minlength=keys)
    single = counts.take(places) == 1
    rows = np.flatnonzero(~single)
    # Small numbers are sorted by counting them.
    by_key = places.take(rows).astype(np.min_scalar_type(max(keys, 1)))
    return Versions(single, Rounds.of_sorted(rows.take(np.argsort(by_key, kind="stable")), counts[counts > 1]))


def _of_shared(
    shared: SharedKeys,
    age: pl.DataFrame,
    descending: Sequence[bool],
    runs: Sequence[int] | None,
    levels: npt.NDArray[np.integer] | None,
) -> Versions:
    """Returns the versions where the rows that share keys are known."""
    single = ~shared.shared
    if levels is None and runs is not None and not age.width:
        found = _counted(shared.ids, shared.heights(runs))
        if found is not None:
            return Versions(single, Rounds(shared.rows[found.rounds.rows].astype(np.uint32), found.rounds.heights))
    return _of_ordered(single, *order_of_shared(shared, age, descending), levels)


def _of_ordered(
    single: npt.NDArray[np.bool_],
    order: npt.NDArray[np.integer],
    starts: npt.NDArray[np.integer],
    levels: npt.NDArray[np.integer] | None,
) -> Versions:
    """Returns the versions from rows in the order of key and age, besides those that are `single` anyway."""
    if levels is not None:
        order, starts = _without_superseded(order, starts, levels)
    counts = np.diff(np.append(starts, len(order)))
    alone = counts == 1
    single[order[starts[alone]]] = True
    return Versions(single, Rounds.of_sorted(order[np.repeat(~alone, counts)], counts[~alone]))


def _without_superseded(
    order: npt.NDArray[np.integer], starts: npt.NDArray[np.integer], levels: npt.NDArray[np.integer]
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Returns the rows of keys without those above level 0 that are not in the lowest level."""
    if not len(order):
        return order, starts
    by_key = levels[order]
    above = np.where(by_key > 0, by_key, np.iinfo(by_key.dtype).max)
    lowest = np.repeat(np.minimum.reduceat(above, starts), np.diff(np.append(starts, len(order))))
    counts = (by_key <= 0) | (by_key == lowest)
    heights = np.add.reduceat(counts, starts, dtype=np.int64)
    return order[counts], np.cumsum(heights) - heights


def _of_long_run(known: LongRun) -> Versions:
    """Returns the versions where short runs update a long one: the long run's row is the oldest of its key."""
    older = known.found >= 0
    short = known.counts
    most = int(short.max(initial=0)) + 1
    counts = (short + older).astype(np.min_scalar_type(most))
    # Keys of as many versions keep their order: what is gathered for them lies side by side.
    by_count = [np.flatnonzero(counts == number) for number in range(most, 0, -1)]
    several = np.concatenate(by_count[:-1] or [by_count[0][:0]])
    reaching = list(accumulate(map(len, by_count[:-1])))[::-1]
    heights = tuple(height for height in (*reaching[:1], *reaching) if height)
    single = np.zeros(known.length + len(known.order), bool)
    single[: known.length] = True
    single[known.found.take(np.flatnonzero(older))] = False
    single[known.order.take(known.starts.take(by_count[-1]))] = True
    has_older = older.take(several)
    starts = known.starts.take(several)
    before = starts - has_older
    oldest = np.where(has_older, known.found.take(several), known.order.take(starts))
    newer = [known.order.take(before[:height] + number) for number, height in enumerate(heights) if number]
    return Versions(single, Rounds(np.concatenate([oldest, *newer]).astype(np.uint32), heights))


def _counted(values: npt.NDArray[np.integer], runs: Sequence[int]) -> Versions | None:
    """Returns the versions of integer keys that lie close, in the order of their runs; else None.

    Nothing is sorted: a table of one byte per possible key counts the runs that hold it, a second table holds the index
    of the key among those with several versions, and the runs are added to their rounds one after another.
    """
    if not len(values) or len(runs) > MOST_COUNTED:
        return None
    least, greatest = int(values.min()), int(values.max())
    if greatest - least >= DENSE * len(values):
        return None
    bounds = list(pairwise(np.cumsum([0, *runs])))
    # Differences of narrow integers do not fit into their own width.
    slots = [values[start:end].astype(np.int64, copy=False) - least for start, end in bounds]
    holders = np.zeros(greatest - least + 1, np.uint8)
    for run in slots:
        holders[run] += 1  # a run holds a key once, so no addition is lost
    single = [holders[run] == 1 for run in slots]
    several = np.flatnonzero(holders > 1)
    counts = holders[several]
    heights = heights_of(counts)
    place = np.empty(len(holders), np.int32)
    place[several[by_falling(counts)]] = np.arange(len(several), dtype=np.int32)
    first = np.cumsum([0, *heights])
    rows = np.empty(first[-1], np.uint32)
    reached = np.zeros(len(several), np.uint8)
    for (start, _), run, alone in zip(bounds, slots, single):
        shared = np.flatnonzero(~alone)
        keys_held = place[run[shared]]
        number = reached[keys_held]
        rows[first[number] + keys_held] = shared + start
        reached[keys_held] = number + 1
    return Versions(np.concatenate(single), Rounds(rows, heights))
