"""Order of the versions of keys as in Java Paimon, computed by columns.

Strings and binaries compare by unsigned bytes. Nulls (possible in sequence fields only) come first in either sort
order. Floats follow Java's ``<`` and ``>``, which treat -0.0 and 0.0 as equal. NaN is the greatest value and equal to
itself, as in Paimon after 2.0; earlier versions treat NaN as equal to every number, which is not an order.

Rows that share a key are found by hashes: for keys of any type, text of any length, any number of columns. A table
of row numbers, indexed by bits of the hash, has the newest row of each slot among the updates; all other rows are
looked up in the table. Keys are compared with keys, so that a hash never decides. Rows of a long run are looked up but
never entered, so the table grows with the updates.

Keys of one long sorted run and of short runs are the usual state of a section between two compactions. Only the short
runs are sorted. Their keys are looked up in the long run, so the work grows with the updates and not with the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.names import clear_pattern_name, col

BITS: Mapping[type[pl.DataType], tuple[npt.DTypeLike, int]] = {pl.Float64: (np.int64, 63), pl.Float32: (np.int32, 31)}
"""For each float type, the integer type of the same width and the position of the sign bit."""


def to_sortable(series: pl.Series) -> pl.Series:
    """Return the series with floats replaced by integers that sort and compare in the order above."""
    if type(series.dtype) not in BITS:
        return series
    name, series = series.name, clear_pattern_name(series)
    integer, sign_bit = BITS[type(series.dtype)]
    values = series.fill_null(0.0).to_numpy() + 0.0  # turns -0.0 into 0.0
    bits = np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(integer)
    # Negative floats order backwards by their bits: flip all but the sign.
    ordered = bits ^ ((bits >> sign_bit) & ((1 << sign_bit) - 1))
    return pl.select(pl.when(series.is_not_null()).then(pl.Series(ordered)).alias(name)).to_series()


MAX_DENSE_SPAN = 8
"""Use a table of keys, without sorting, if integer keys span less than 8 times their number."""
SEVERAL = 2
"""The value in a table of counts for a key that two or more runs hold."""
KEY_BLOCK_ROWS = 1 << 15
"""Keys looked up at a time: intermediate results then stay in the processor's cache, without new memory."""


def find_unseen(newest_first: Sequence[npt.NDArray[np.integer]]) -> list[npt.NDArray[np.bool_]] | None:
    """Return, per run of distinct integer keys, which keys no earlier run holds; None if the keys are too sparse.

    One byte per possible key records whether it was seen: no sort, and each key is visited once.
    """
    runs = [run for run in newest_first if len(run)]
    if not runs:
        return [np.empty(0, bool) for _ in newest_first]
    least, greatest = min(int(run.min()) for run in runs), max(int(run.max()) for run in runs)
    if greatest - least >= MAX_DENSE_SPAN * sum(map(len, runs)):
        return None
    fresh = np.ones(greatest - least + 1, bool)
    found = []
    for number, run in enumerate(newest_first):
        found.append(np.empty(len(run), bool))
        for rows in _split_key_blocks(run):
            slots = _find_slots(run[rows], least)
            found[-1][rows] = fresh[slots] if isinstance(slots, slice) else fresh.take(slots)
            if number + 1 < len(newest_first):
                fresh[slots] = False
    return found


def find_unshared(newest_first: Sequence[npt.NDArray[np.integer]]) -> tuple[list[npt.NDArray[np.bool_]], int] | None:
    """Return, per run of distinct integer keys, which keys no other run holds, and how many keys several runs hold.

    Returns None if the keys are too sparse. Works like `find_unseen`, with a table that counts.
    """
    runs = [run for run in newest_first if len(run)]
    if not runs:
        return [np.empty(0, bool) for _ in newest_first], 0
    least, greatest = min(int(run.min()) for run in runs), max(int(run.max()) for run in runs)
    if greatest - least >= MAX_DENSE_SPAN * sum(map(len, runs)):
        return None
    holders = np.zeros(greatest - least + 1, np.uint8)  # none, one, several
    found = []
    for run in newest_first:
        found.append(np.empty(len(run), bool))
        for rows in _split_key_blocks(run):
            slots = _find_slots(run[rows], least)
            before = holders[slots] if isinstance(slots, slice) else holders.take(slots)
            np.equal(before, 0, out=found[-1][rows])
            holders[slots] = np.minimum(before + 1, SEVERAL)
    # This is the answer for the last run; the runs before it must be looked up again.
    for run, rows_alone in zip(newest_first[:-1], found):
        for rows in _split_key_blocks(run):
            slots = _find_slots(run[rows], least)
            now = holders[slots] if isinstance(slots, slice) else holders.take(slots)
            np.equal(now, 1, out=rows_alone[rows])
    return found, int(np.count_nonzero(holders == SEVERAL))


def _split_key_blocks(run: npt.NDArray[np.integer]) -> Iterator[slice]:
    yield from (slice(start, start + KEY_BLOCK_ROWS) for start in range(0, len(run), KEY_BLOCK_ROWS))


def _find_slots(run: npt.NDArray[np.integer], least: int) -> slice | npt.NDArray[np.int64]:
    """Return the slots of distinct keys in a table that begins with the key `least`."""
    if int(run[-1]) - int(run[0]) + 1 == len(run) and (run[1:] > run[:-1]).all():
        return slice(int(run[0]) - least, int(run[-1]) - least + 1)
    # Differences of narrow integers do not fit into their own width, and packed keys not into a signed one.
    wide = run if run.dtype == np.uint64 else run.astype(np.int64, copy=False)
    return (wide - wide.dtype.type(least) if least else wide).astype(np.int64, copy=False)


def find_newest_of_each_key(
    keys: pl.DataFrame, age: pl.DataFrame, descending: Sequence[bool], runs: Sequence[int] | None = None
) -> npt.NDArray[np.bool_]:
    """Return for each row whether it is the newest version of its key.

    Args:
        keys: key columns, rows of older files first.
        age: columns that order versions before the position does (may be empty).
        descending: sort order of each column of `age`.
        runs: heights of the files that the rows come from, one after another, if no file holds a key twice.
    """
    keys = to_comparable(keys)
    by_position = not age.width
    if by_position and is_number(keys):
        numbers = keys.to_series().to_numpy()
        ends = None if runs is None else np.cumsum(runs)[:-1]
        fresh = None if ends is None else find_unseen(np.split(numbers, ends)[::-1])
        if fresh is not None:
            return np.concatenate(fresh[::-1])
        known = None if runs is None else find_long_run(numbers, runs)
        if known is not None:
            return known.newest
    elif (shared := find_shared_keys(keys, runs)) is not None:
        if by_position:
            return shared.last
        newest = ~shared.shared
        order, starts = order_of_shared(shared, age, descending)
        newest[_take_last(order, starts)] = True
        return newest
    newest = np.zeros(keys.height, bool)
    newest[_take_last(*sort_by_key(keys, age, descending))] = True
    return newest


def _take_last(order: npt.NDArray[np.integer], starts: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Return the last row of each key."""
    return order[np.append(starts[1:], len(order)) - 1] if len(order) else order


def to_comparable(keys: pl.DataFrame) -> pl.DataFrame:
    """Return key columns whose values are equal if the keys are equal; times become their numbers."""
    # Under names of their own: columns of users may be named ``^x$``.
    columns = (clear_pattern_name(column) for column in keys.iter_columns())
    return pl.DataFrame(
        (column.to_physical() if column.dtype.is_temporal() else to_sortable(column)).alias(f"k{number}")
        for number, column in enumerate(columns)
    )


def is_number(keys: pl.DataFrame) -> bool:
    """Return whether keys are integers of up to 64 bits without nulls."""
    one = keys.width == 1 and keys.dtypes[0].is_integer() and keys.dtypes[0] != pl.Int128
    return one and not keys.to_series().null_count()


def order_of_shared(
    shared: SharedKeys, age: pl.DataFrame, descending: Sequence[bool]
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Return the rows that share a key, by key and age, the oldest first, and each key's start among them."""
    rows = shared.rows
    ages = [to_sortable(column)[rows].alias(f"s{i}") for i, column in enumerate(age.iter_columns())]
    frame = pl.DataFrame([pl.Series("id", shared.ids), *ages])
    order = frame.select(
        pl.arg_sort_by(*frame.columns, descending=[False, *descending], nulls_last=False, maintain_order=True)
    ).to_series()
    ids = shared.ids[order.to_numpy()]
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])) if len(ids) else np.empty(0, np.int64)
    return rows[order.to_numpy()], starts


def sort_by_key(
    keys: pl.DataFrame, age: pl.DataFrame, descending: Sequence[bool]
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """Return row numbers by key and age, oldest first, and each key's start among them; see
    `find_newest_of_each_key`."""
    if not age.width and is_number(keys):
        return _order_of_integers(keys.to_series().to_numpy())
    keys = keys.select(to_sortable(column) for column in keys.iter_columns())
    age = age.select(to_sortable(column) for column in age.iter_columns())
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
    starts[:1] = True  # also if the first key is null
    return sort_order.to_numpy(), np.flatnonzero(starts)


def _order_of_integers(keys: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    # The files are sorted runs, which a stable merge sort only needs to merge.
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(keys), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return order, np.flatnonzero(first)


SEED = 0x6D6F72726F77
MIXER = np.uint64(0x9E3779B97F4A7C15)
SLOTS_PER_ROW = 8
"""Slots of the hash table per entered row."""
MIN_TABLE_BITS = 10
HASH_BLOCK_ROWS = 1 << 15
"""Hashes mixed at a time, so that they stay in the processor's cache."""
HASH_BITS = 64

TEMPORAL = (pl.Datetime, pl.Date, pl.Time)


class SharedKeys(msgspec.Struct, frozen=True, dict=True):
    """The rows that share a key. `newest` is, for each row, the last row with its key, or -1 for the row itself."""

    newest: npt.NDArray[np.int32]

    @cached_property
    def older(self) -> Numbers:
        """The rows that are followed by another row with their key, ascending."""
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
        """The key of each of `rows`, as consecutive numbers from 0."""
        newest = self.newest[self.rows]
        final = newest < 0
        number = np.empty(len(self.newest), np.int32)
        number[self.rows[final]] = np.arange(np.count_nonzero(final), dtype=np.int32)
        return number[np.where(final, self.rows, newest)]

    def heights(self, runs: Sequence[int]) -> list[int]:
        """Count the rows of `rows` in each run."""
        ends = np.searchsorted(self.rows, np.cumsum([0, *runs]))
        return [int(height) for height in np.diff(ends)]


def find_shared_keys(keys: pl.DataFrame, runs: Sequence[int] | None) -> SharedKeys | None:
    """Find rows of the same key.

    Args:
        keys: key columns in which equal values are equal keys (floats converted by `to_sortable`).
        runs: heights of the sorted files that the rows come from, one after another, if no file holds a key twice.

    Returns: the shared keys, or None in the rare case that two keys have the same hash.
    """
    hashes = hash_keys(keys)
    newest = _find_newest(hashes, 0 if runs is None else _count_long_rows(keys, runs))
    found = SharedKeys(newest)
    older, newer = (make_series(rows.astype(np.uint32)) for rows in (found.older, newest[found.older]))
    for column in keys.iter_columns():
        plain = clear_pattern_name(column)
        if not plain.gather(older).eq_missing(plain.gather(newer)).all():
            return None
    return found


def hash_keys(keys: pl.DataFrame) -> npt.NDArray[np.uint64]:
    """Return a number for each row, the same for equal keys."""
    first, *others = (column.hash(SEED).to_numpy() for column in keys.iter_columns())
    if not others:
        return first
    mixed = first.copy()
    for start in range(0, len(mixed), HASH_BLOCK_ROWS):
        rows = slice(start, start + HASH_BLOCK_ROWS)
        block = mixed[rows]
        for values in others:
            block *= MIXER
            block ^= block >> np.uint64(32)
            block += values[rows]
    return mixed


def _find_newest(hashes: npt.NDArray[np.uint64], long: int, shift: int = 0) -> npt.NDArray[np.int32]:
    """Return for each row the last row with its hash, or -1 for the row itself; the first `long` rows differ in keys.

    Slots are chosen by the bits of the hash from `shift` on.
    """
    count = len(hashes)
    bits = max((SLOTS_PER_ROW * (count - long)).bit_length(), MIN_TABLE_BITS)
    if shift + bits > HASH_BITS:
        return _find_newest_by_sorting(hashes)
    slots = ((hashes >> np.uint64(shift)) & np.uint64((1 << bits) - 1)).view(np.int64)
    entered = np.arange(long, count, dtype=np.int32)
    table = np.empty(1 << bits, np.int32)
    table[slots[long:]] = entered  # the last of several rows with the same slot remains
    # Most rows of a long run find nothing: a smaller table, which stays in the processor's cache, excludes them.
    taken = np.zeros(1 << bits, bool)
    taken[slots[long:]] = True
    rows = np.concatenate([np.flatnonzero(taken.take(slots[:long])), entered])
    found = table.take(slots[rows])
    same = hashes[found] == hashes[rows]
    newest = np.full(count, -1, np.int32)
    newest[rows] = np.where(same & (found != rows), found, -1)
    missed = rows[~same]
    if len(missed):
        # Their slot holds a row with another hash; this is true for all rows with their hash.
        inner = _find_newest(hashes[missed], int(np.searchsorted(missed, long)), shift + bits)
        newest[missed] = np.where(inner < 0, -1, missed[inner])
    return newest


def _find_newest_by_sorting(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Return the result of `_find_newest` by sorting the hashes."""
    order = np.argsort(hashes, kind="stable")
    ends = np.flatnonzero(np.append(hashes[order[1:]] != hashes[order[:-1]], True))
    last = np.repeat(order[ends], np.diff(ends, prepend=-1))
    newest = np.empty(len(hashes), np.int32)
    newest[order] = np.where(last == order, -1, last)
    return newest


def _count_long_rows(keys: pl.DataFrame, runs: Sequence[int]) -> int:
    """Count the rows of the first runs whose key ranges follow one another; 0 if these are not most rows."""
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
            first_column = clear_pattern_name(comparable[0])[reached : reached + height]
            if None in (*first, *end) or not first_column.is_sorted():
                break
            if last is not None and not last < first:
                break
            last = end
        reached += height
    return reached if reached >= MIN_LONG_RATIO * (keys.height - reached) else 0


MIN_LONG_RATIO = 2
"""The long run must have at least twice the rows of all other runs together."""

MAX_CLOSE_SPAN = 4
"""Use a lookup table only if the long run's keys span at most 4 times their number."""
MAX_ROWS_PER_LOOKUP = 8
"""Use a lookup table only if at least 1/8 of the long run's keys are looked up."""

SAMPLED_KEYS = 1 << 10
"""Number of wanted keys sampled to check whether a long run is even."""
MIN_KEYS_PER_MISS = 8
"""A long run is even if the positions of at least 7/8 of the sampled keys are guessed correctly."""
ROUNDING_MARGIN = 1e-6
"""Added to a position computed as a float, which may be slightly too small."""
ABSENT, UNKNOWN = -1, -2
LOOKUP_BLOCK_ROWS = 1 << 15
"""Keys looked up at a time: intermediate results then stay in the processor's cache, without new memory."""

Numbers = npt.NDArray[np.integer]


class LongRun(msgspec.Struct, frozen=True):
    """The rows of a long run, the oldest one, and of shorter runs. Rows ``0 .. length`` are the long run.

    `order` has the numbers of the other rows by key, the oldest first. `starts` has the start of each key in `order`.
    `found` has the row of the long run with the key, or -1.
    """

    length: int
    order: Numbers
    starts: Numbers
    found: Numbers

    @property
    def counts(self) -> Numbers:
        """The number of rows of `order` for each key."""
        return np.diff(np.append(self.starts, len(self.order)))

    @property
    def newest(self) -> npt.NDArray[np.bool_]:
        """Whether a row is the newest of its key."""
        alive = np.zeros(self.length + len(self.order), bool)
        alive[: self.length] = True
        alive[self.found[self.found >= 0]] = False
        alive[self.order[np.append(self.starts[1:], len(self.order)) - 1]] = True
        return alive


def find_long_run(keys: Numbers, runs: Sequence[int]) -> LongRun | None:
    """Return the long run among runs of keys, or None if no run is long.

    Each key is a number; the oldest run comes first, and no run holds a key twice.
    """
    length = _count_sorted_rows(keys, runs)
    others = keys[length:]
    if not len(others) or length < MIN_LONG_RATIO * len(others):
        return None
    sort_order = np.argsort(others, kind="stable")
    ordered = others.take(sort_order)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    distinct = ordered.take(starts)
    found = _find_rows(keys[:length], distinct)
    return LongRun(length, sort_order + length, starts, found)


def _find_rows(run: Numbers, wanted: Numbers) -> Numbers:
    """Return the position of each wanted key in an ascending run, or -1."""
    sample = wanted[:: max(len(wanted) // SAMPLED_KEYS, 1)]
    if len(run) < SAMPLED_KEYS or np.count_nonzero(_guess_places(run, sample) == UNKNOWN) * MIN_KEYS_PER_MISS > len(
        sample
    ):
        return _search_places(run, wanted)
    found = _guess_places(run, wanted)
    unknown = np.flatnonzero(found == UNKNOWN)
    found[unknown] = _search_places(run, wanted[unknown])
    return found


def _guess_places(run: Numbers, wanted: Numbers) -> Numbers:
    """Guess the position of each wanted key in a run, assuming a constant distance of the run's keys.

    Returns -1 for keys that the run does not have, and -2 if the guess is wrong. Keys that ascend by a constant step
    are thus found without a search.
    """
    per_key = (len(run) - 1) / (int(run[-1]) - int(run[0]))
    found = np.empty(len(wanted), np.int64)
    for start in range(0, len(wanted), LOOKUP_BLOCK_ROWS):
        keys = wanted[start : start + LOOKUP_BLOCK_ROWS]
        # Keys before the first wrap around and are far behind the last.
        offsets = _to_unsigned(keys) - _to_unsigned(run[:1])
        places = np.minimum(offsets * per_key + ROUNDING_MARGIN, len(run) - 2).astype(np.int64)
        below = run.take(places)
        between = (below < keys) & (keys < run.take(places + 1))
        found[start : start + LOOKUP_BLOCK_ROWS] = np.where(below == keys, places, np.where(between, ABSENT, UNKNOWN))
    return found


def _to_unsigned(keys: Numbers) -> npt.NDArray[np.uint64]:
    return (keys if keys.dtype == np.uint64 else keys.astype(np.int64, copy=False)).view(np.uint64)


def _search_places(run: Numbers, wanted: Numbers) -> Numbers:
    if not len(wanted):
        return np.empty(0, np.int64)
    span = int(run[-1]) - int(run[0]) + 1
    if span > MAX_CLOSE_SPAN * len(run) or len(wanted) * MAX_ROWS_PER_LOOKUP < len(run):
        places = np.searchsorted(run, wanted)
        places[places == len(run)] = 0
        return np.where(run[places] == wanted, places, -1)
    # Keys lie close: filling and reading a table of positions is faster than a search.
    within = np.flatnonzero((wanted >= run[0]) & (wanted <= run[-1]))
    slots = _subtract_first(wanted[within], run[0])
    found = np.full(len(wanted), -1, np.int64)
    if span == len(run):
        found[within] = slots
        return found
    table = np.full(span, -1, np.int32)
    table[_subtract_first(run, run[0])] = np.arange(len(run), dtype=np.int32)
    found[within] = table.take(slots)
    return found


def _subtract_first(keys: Numbers, first: np.integer) -> Numbers:
    """Return the distance of keys from the first key, which lies close."""
    # Differences of narrow integers do not fit into their own width, and packed keys not into a signed one.
    wide = keys if keys.dtype.kind == "u" else keys.astype(np.int64, copy=False)
    return (wide - wide.dtype.type(first)).astype(np.int64, copy=False)


def _count_sorted_rows(keys: Numbers, runs: Sequence[int]) -> int:
    """Count the rows from the first on that are in ascending order, run by run."""
    end = 0
    for height in runs:
        reached = max(end - 1, 0)
        piece = keys[reached : end + height]
        if not (piece[1:] > piece[:-1]).all():
            break
        end += height
    return end
