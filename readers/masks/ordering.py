"""Orders versions of keys as Java Paimon does, by columns.

Strings and binaries compare by unsigned bytes, nulls (possible in sequence fields only) come first whatever the sort
order. Floats follow Java's ``<`` and ``>``, to which -0.0 and 0.0 are one value. NaN is the greatest value and equal
to itself: Paimon up to 2.0 treats it as equal to every number, which is no order (later versions order it as here).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.names import col, unnamed
from morrow.readers.masks.hashed_keys import SharedKeys, shared_keys
from morrow.readers.masks.sorted_runs import long_run

BITS: Mapping[type[pl.DataType], tuple[npt.DTypeLike, int]] = {pl.Float64: (np.int64, 63), pl.Float32: (np.int32, 31)}
"""Integers as wide as the float, and where its sign bit is."""


def sortable(series: pl.Series) -> pl.Series:
    """Returns the series, floats replaced by integers that sort and compare in the order above."""
    if type(series.dtype) not in BITS:
        return series
    name, series = series.name, unnamed(series)
    integer, sign_bit = BITS[type(series.dtype)]
    values = series.fill_null(0.0).to_numpy() + 0.0  # turns -0.0 into 0.0
    bits = np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(integer)
    # Negative floats order backwards by their bits: flip all but the sign.
    ordered = bits ^ ((bits >> sign_bit) & ((1 << sign_bit) - 1))
    return pl.select(pl.when(series.is_not_null()).then(pl.Series(ordered)).alias(name)).to_series()


DENSE = 8
"""Integer keys that span less than so many times their number are distinguished by a table, unsorted."""
SEVERAL = 2
"""What a table of counts says of a key that two runs hold, or more."""
BLOCK = 1 << 15
"""Keys that are looked up at a time: what is computed of them stays in the processor's cache, and in no new memory."""


def unseen(newest_first: Sequence[npt.NDArray[np.integer]]) -> list[npt.NDArray[np.bool_]] | None:
    """Returns, per run of distinct integer keys, which keys no earlier run holds; None when the keys are too sparse.

    One byte per possible key records whether it was seen: no sort, and each key is visited once.
    """
    runs = [run for run in newest_first if len(run)]
    if not runs:
        return [np.empty(0, bool) for _ in newest_first]
    least, greatest = min(int(run.min()) for run in runs), max(int(run.max()) for run in runs)
    if greatest - least >= DENSE * sum(map(len, runs)):
        return None
    fresh = np.ones(greatest - least + 1, bool)
    found = []
    for number, run in enumerate(newest_first):
        found.append(np.empty(len(run), bool))
        for rows in _blocks(run):
            slots = _slots(run[rows], least)
            found[-1][rows] = fresh[slots] if isinstance(slots, slice) else fresh.take(slots)
            if number + 1 < len(newest_first):
                fresh[slots] = False
    return found


def alone(newest_first: Sequence[npt.NDArray[np.integer]]) -> tuple[list[npt.NDArray[np.bool_]], int] | None:
    """Returns, per run of distinct integer keys, which keys no other run holds, and how many keys several runs hold;
    None when the keys are too sparse. As `unseen`, by a table that counts."""
    runs = [run for run in newest_first if len(run)]
    if not runs:
        return [np.empty(0, bool) for _ in newest_first], 0
    least, greatest = min(int(run.min()) for run in runs), max(int(run.max()) for run in runs)
    if greatest - least >= DENSE * sum(map(len, runs)):
        return None
    holders = np.zeros(greatest - least + 1, np.uint8)  # none, one, several
    found = []
    for run in newest_first:
        found.append(np.empty(len(run), bool))
        for rows in _blocks(run):
            slots = _slots(run[rows], least)
            before = holders[slots] if isinstance(slots, slice) else holders.take(slots)
            np.equal(before, 0, out=found[-1][rows])
            holders[slots] = np.minimum(before + 1, SEVERAL)
    # Of the run that came last, that is the answer; those before it have to look once more.
    for run, rows_alone in zip(newest_first[:-1], found):
        for rows in _blocks(run):
            slots = _slots(run[rows], least)
            now = holders[slots] if isinstance(slots, slice) else holders.take(slots)
            np.equal(now, 1, out=rows_alone[rows])
    return found, int(np.count_nonzero(holders == SEVERAL))


def _blocks(run: npt.NDArray[np.integer]) -> Iterator[slice]:
    yield from (slice(start, start + BLOCK) for start in range(0, len(run), BLOCK))


def _slots(run: npt.NDArray[np.integer], least: int) -> slice | npt.NDArray[np.int64]:
    """Returns the places of distinct keys in a table that begins with the key `least`."""
    if int(run[-1]) - int(run[0]) + 1 == len(run) and (run[1:] > run[:-1]).all():
        return slice(int(run[0]) - least, int(run[-1]) - least + 1)
    # Differences of narrow integers do not fit into their own width, and packed keys not into a signed one.
    wide = run if run.dtype == np.uint64 else run.astype(np.int64, copy=False)
    return (wide - wide.dtype.type(least) if least else wide).astype(np.int64, copy=False)


def newest_of_each_key(
    keys: pl.DataFrame, age: pl.DataFrame, descending: Sequence[bool], runs: Sequence[int] | None = None
) -> npt.NDArray[np.bool_]:
    """Returns for each row whether it is the newest version of its key.

    Args:
        keys: key columns, rows of older files first.
        age: columns that order versions before the position does (may be empty).
        descending: sort order of each column of `age`.
        runs: heights of the files that the rows come from, one after another, if no file holds a key twice.
    """
    keys = comparable(keys)
    by_position = not age.width
    if by_position and is_number(keys):
        numbers = keys.to_series().to_numpy()
        ends = None if runs is None else np.cumsum(runs)[:-1]
        fresh = None if ends is None else unseen(np.split(numbers, ends)[::-1])
        if fresh is not None:
            return np.concatenate(fresh[::-1])
        known = None if runs is None else long_run(numbers, runs)
        if known is not None:
            return known.newest
    elif (shared := shared_keys(keys, runs)) is not None:
        if by_position:
            return shared.last
        newest = ~shared.shared
        order, starts = order_of_shared(shared, age, descending)
        newest[_last(order, starts)] = True
        return newest
    newest = np.zeros(keys.height, bool)
    newest[_last(*key_order(keys, age, descending))] = True
    return newest


def _last(order: npt.NDArray[np.integer], starts: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Returns the last row of each key."""
    return order[np.append(starts[1:], len(order)) - 1] if len(order) else order


def comparable(keys: pl.DataFrame) -> pl.DataFrame:
    """Returns key columns in which values are equal where keys are; a time as the number that it is."""
    # Under names of their own: columns of users may be named ``^x$``.
    columns = (unnamed(column) for column in keys.iter_columns())
    return pl.DataFrame(
        (column.to_physical() if column.dtype.is_temporal() else sortable(column)).alias(f"k{number}")
        for number, column in enumerate(columns)
    )


def is_number(keys: pl.DataFrame) -> bool:
    """Returns whether keys are integers of up to 64 bits, none of them null."""
    one = keys.width == 1 and keys.dtypes[0].is_integer() and keys.dtypes[0] != pl.Int128
    return one and not keys.to_series().null_count()


def order_of_shared(
    shared: SharedKeys, age: pl.DataFrame, descending: Sequence[bool]
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Returns the rows that share a key, by key and age, the oldest first, and each key's start among them."""
    rows = shared.rows
    ages = [sortable(column)[rows].alias(f"s{i}") for i, column in enumerate(age.iter_columns())]
    frame = pl.DataFrame([pl.Series("id", shared.ids), *ages])
    order = frame.select(
        pl.arg_sort_by(*frame.columns, descending=[False, *descending], nulls_last=False, maintain_order=True)
    ).to_series()
    ids = shared.ids[order.to_numpy()]
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])) if len(ids) else np.empty(0, np.int64)
    return rows[order.to_numpy()], starts


def key_order(
    keys: pl.DataFrame, age: pl.DataFrame, descending: Sequence[bool]
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Returns row numbers by key and age, oldest first, and each key's start among them; see
    `newest_of_each_key`."""
    if not age.width and is_number(keys):
        return _order_of_integers(keys.to_series().to_numpy())
    keys = keys.select(sortable(column) for column in keys.iter_columns())
    age = age.select(sortable(column) for column in age.iter_columns())
    names = [f"k{i}" for i in range(keys.width)]
    keys.columns = names
    frame = keys.with_columns(column.alias(f"s{i}") for i, column in enumerate(age.iter_columns()))
    sort_order = frame.select(
        pl.arg_sort_by(
            *frame.columns,
            descending=[*[False] * keys.width, *descending],
            nulls_last=False,
            maintain_order=True,
        )
    ).to_series()
    ordered = keys[sort_order]
    first = ordered.select(pl.any_horizontal(col(n).ne_missing(col(n).shift()) for n in names)).to_series()
    starts = first.to_numpy().copy()
    starts[:1] = True  # also where the first key is null
    return sort_order.to_numpy(), np.flatnonzero(starts)


def _order_of_integers(keys: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    # The files are sorted runs, which a stable merge sort only has to merge.
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(keys), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return order, np.flatnonzero(first)
