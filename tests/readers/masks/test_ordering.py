"""The newest version of a key is found by Java's order of values, and is the last row in case of ties."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.readers.masks import ordering
from morrow.readers.masks.ordering import (
    find_long_run,
    find_newest_of_each_key,
    find_shared_keys,
    find_unseen,
    find_unshared,
    to_comparable,
    to_sortable,
)
from morrow.readers.merges.version_masks import find_versions

NAN, INF = math.nan, math.inf
FLOATS = (-INF, -1.5, -5e-324, 0.0, 5e-324, 1.5, INF, NAN)
"""Floats in ascending order."""


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_floats_sort_as_in_java(dtype: type[pl.DataType]) -> None:
    values = (-INF, -1.5, 0.0, 1.5, INF, NAN)
    shuffled = pl.Series("x", values, dtype)[[5, 2, 0, 3, 1, 4]]

    order = to_sortable(shuffled).arg_sort()

    assert [str(v) for v in shuffled[order]] == [str(v) for v in values]


def test_all_nans_are_one_value_both_zeros_are_and_nulls_stay_nulls() -> None:
    other_nan = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    found = to_sortable(pl.Series("x", [NAN, other_nan, None, 0.0, -0.0]))
    assert found[0] == found[1]
    assert found[2] is None
    assert found[3] == found[4]


@pytest.mark.parametrize("values", [["a", None], [b"\xff", b"\x00"], [True, None], [1, -1]])
def test_what_is_not_a_float_is_left_alone(values: list[Any]) -> None:
    series = pl.Series("x", values)
    assert to_sortable(series) is series


def test_the_last_row_of_a_key_is_its_newest() -> None:
    keys = pl.DataFrame({"id": [1, 2, 3, 2, 3, 3]})
    assert rows_of(find_newest_of_each_key(keys, pl.DataFrame(), [])) == [0, 3, 5]


def test_text_keys_compare_by_bytes_and_several_columns_make_one_key() -> None:
    keys = pl.DataFrame({"a": ["x", "x", "é", "x"], "b": [1, 2, 1, 1]})
    assert rows_of(find_newest_of_each_key(keys, pl.DataFrame(), [])) == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "descending", "newest"),
    [
        ([10, 30, 20], False, 1),
        ([10, 30, 20], True, 0),
        ([None, 30, None], False, 1),
        ([None, 30, None], True, 1),  # nulls are oldest, also in descending order
        ([20, 20, 10], False, 1),  # for equal values, the later row is newer
        ([20, 10, 10], True, 2),
        ([NAN, INF, -INF], False, 0),
        ([0.0, -0.0, -0.0], False, 2),
    ],
)
def test_a_sequence_column_decides_before_the_position_does(values: list[Any], descending: bool, newest: int) -> None:
    keys, order = pl.DataFrame({"id": [7, 7, 7]}), pl.DataFrame({"ts": values})
    assert rows_of(find_newest_of_each_key(keys, order, [descending])) == [newest]


@pytest.mark.parametrize(
    ("dtype", "least", "greatest"),
    [
        (pl.Int8, -128, 127),
        (pl.Int16, -(2**15), 2**15 - 1),
        (pl.Int64, -(2**63), 2**63 - 1),
        (pl.UInt64, 0, 2**64 - 1),
    ],
)
def test_keys_at_the_ends_of_their_type(dtype: type[pl.DataType], least: int, greatest: int) -> None:
    keys = pl.DataFrame({"id": pl.Series([least, greatest, least, greatest - 1], dtype=dtype)})
    assert rows_of(find_newest_of_each_key(keys, pl.DataFrame(), [])) == [1, 2, 3]


def test_no_rows() -> None:
    assert (
        rows_of(find_newest_of_each_key(pl.DataFrame({"id": pl.Series([], dtype=pl.Int64)}), pl.DataFrame(), [])) == []
    )
    assert (
        rows_of(find_newest_of_each_key(pl.DataFrame({"id": pl.Series([], dtype=pl.String)}), pl.DataFrame(), [])) == []
    )


def compare(a: Sequence[Any], b: Sequence[Any], descending: Sequence[bool]) -> int:
    """Compare column by column with nulls first and floats in the order of FLOATS; negative if `a` is older."""
    for x, y, down in zip(a, b, descending, strict=True):
        if x is None or y is None:
            if x is not y:
                return -1 if x is None else 1
            continue
        if isinstance(x, float):
            x, y = rank(x), rank(y)
        if x != y:
            return (-1 if x < y else 1) * (-1 if down else 1)
    return 0


def rows_of(newest: npt.NDArray[np.bool_]) -> list[int]:
    return [int(row) for row in np.flatnonzero(newest)]


def rank(value: float) -> int:
    return [repr(v) for v in FLOATS].index(repr(value))


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 3), st.sampled_from(["", "a", "b"]), st.sampled_from([None, *FLOATS]), st.integers(0, 2)
        ),
        min_size=1,
        max_size=30,
    ),
    descending=st.tuples(st.booleans(), st.booleans()),
)
def test_as_the_slow_way_finds_it(
    rows: list[tuple[int, str, float | None, int]], descending: tuple[bool, bool]
) -> None:
    newest: dict[tuple[int, str], int] = {}
    for number, (k, t, *order) in enumerate(rows):
        held = newest.get((k, t))
        if held is None or compare(rows[held][2:], order, descending) <= 0:
            newest[k, t] = number

    frame = pl.DataFrame(rows, schema=["k", "t", "x", "n"], orient="row", schema_overrides={"x": pl.Float64})
    found = find_newest_of_each_key(frame.select("k", "t"), frame.select("x", "n"), descending)

    assert rows_of(found) == sorted(newest.values())


# --- runs of distinct integer keys, without sorting ---


def test_a_key_counts_in_the_first_run_that_holds_it() -> None:
    newest_first = [np.array([2, 3]), np.array([], np.int64), np.array([1, 2, 4]), np.array([1, 3, 5])]
    found = find_unseen(newest_first)
    assert found is not None
    assert [run.tolist() for run in found] == [[True, True], [], [True, False, True], [False, False, True]]


def test_sparse_keys_are_left_to_sorting() -> None:
    assert find_unseen([np.array([0, 10**12]), np.array([5])]) is None
    assert find_unseen([np.array([-(2**63)]), np.array([2**63 - 1])]) is None


def test_narrow_keys_whose_differences_do_not_fit_their_type() -> None:
    found = find_unseen([np.array([45], np.int8), np.arange(-100, 101, dtype=np.int8)])
    assert found is not None
    assert np.flatnonzero(~found[1]).tolist() == [145]


@given(
    runs=st.lists(st.sets(st.integers(-128, 127), max_size=200), min_size=1, max_size=4),
    dtype=st.sampled_from([np.int8, np.int16, np.int64]),
)
def test_unseen_and_sorted_agree(runs: list[set[int]], dtype: type[np.integer[Any]]) -> None:
    newest_first = [np.array(sorted(run), dtype) for run in runs]
    found = find_unseen(newest_first)
    if found is not None:
        seen: set[int] = set()
        for run, alive in zip(newest_first, found, strict=True):
            assert run[alive].tolist() == [k for k in run.tolist() if k not in seen]
            seen |= set(run.tolist())


def test_a_key_is_alone_where_no_other_run_holds_it() -> None:
    found = find_unshared([np.array([2, 3]), np.array([], np.int64), np.array([1, 2, 4]), np.array([1, 3, 5])])
    assert found is not None
    assert [run.tolist() for run in found[0]] == [[False, False], [], [False, False, True], [False, False, True]]
    assert found[1] == 3
    assert find_unshared([np.array([0, 10**12]), np.array([5])]) is None


@given(
    runs=st.lists(st.sets(st.integers(-128, 127), max_size=200), min_size=1, max_size=5),
    dtype=st.sampled_from([np.int8, np.int16, np.int64]),
)
def test_alone_and_counted_agree(runs: list[set[int]], dtype: type[np.integer[Any]]) -> None:
    found = find_unshared([np.array(sorted(run), dtype) for run in runs])
    if found is not None:
        holders = Counter(key for run in runs for key in run)
        assert [run.tolist() for run in found[0]] == [[holders[key] == 1 for key in sorted(run)] for run in runs]
        assert found[1] == sum(count > 1 for count in holders.values())


# Rows that share a key are found for every key type, even if hashes collide.

LONG_TEXT = "x" * (1 << 20)
NANOS = pl.Datetime("ns")
KEYS: dict[str, tuple[Any, list[Any]]] = {
    "text": (pl.String, ["", "\0", "a", "a\0", "a\0\0", "ä", "🙂", "user-1", "user-10", LONG_TEXT, LONG_TEXT + "\0"]),
    "bytes": (pl.Binary, [b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff" * 9]),
    "decimal": (pl.Decimal(38, 2), [Decimal(v) for v in ("0", "-0.01", "0.01", "9" * 36 + ".99", "-" + "9" * 36)]),
    "timestamp": (pl.Datetime("us"), [datetime(1, 1, 1), datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59)]),
    "nanos": (NANOS, [datetime(1677, 9, 22), datetime(1970, 1, 1), datetime(2262, 4, 11)]),
    "date": (pl.Date, [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "time": (pl.Time, [time(0), time(23, 59, 59, 999_999)]),
    "float": (pl.Float64, [float("nan"), -0.0, 0.0, 1.5, float("-inf"), 5e-324]),
    "bool": (pl.Boolean, [False, True]),
    "bigint": (pl.Int64, [-(2**63), -1, 0, 2**63 - 1]),
    "int": (pl.Int32, [-(2**31), 0, 2**31 - 1]),
}


def same(value: Any) -> Any:
    """Normalize a value for key comparison: -0.0 becomes 0.0, and NaN equals itself."""
    return ("NaN" if value != value else value + 0.0) if isinstance(value, float) else value


@st.composite
def runs_of_keys(draw: st.DrawFn) -> tuple[pl.DataFrame, list[int]]:
    """Draw files of distinct sorted keys; often the first has most of the rows."""
    names = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=5))
    key = st.tuples(*(st.sampled_from(range(len(KEYS[name][1]))) for name in names))
    first = draw(st.lists(key, min_size=0, max_size=40))
    others = draw(st.lists(st.lists(key, max_size=6), max_size=4))
    rows: list[tuple[Any, ...]] = []
    heights = []
    for run in (first, *others):
        values = [tuple(KEYS[name][1][i] for name, i in zip(names, each)) for each in sorted(set(run))]
        unique = list({tuple(map(same, each)): each for each in values}.values())
        rows += unique
        heights.append(len(unique))
    columns = [
        pl.Series(f"k{i}", [row[i] for row in rows], dtype=KEYS[name][0], strict=False) for i, name in enumerate(names)
    ]
    return pl.DataFrame(columns), heights


@given(runs_of_keys(), st.booleans())
def test_as_a_dictionary_finds_them(keys: tuple[pl.DataFrame, list[int]], with_runs: bool) -> None:
    frame, heights = keys
    runs = heights if with_runs else None
    values = [tuple(map(same, row)) for row in frame.rows()]
    last = {value: number for number, value in enumerate(values)}

    newest = find_newest_of_each_key(frame, pl.DataFrame(), (), runs)
    versions = find_versions(frame, pl.DataFrame(), (), runs)

    assert np.flatnonzero(newest).tolist() == sorted(last.values())
    assert versions.single.tolist() == [values.count(value) == 1 for value in values]
    rows, rounds, start = versions.rounds.rows.tolist(), [], 0
    for height in versions.rounds.heights:
        rounds.append(rows[start : start + height])
        start += height
    found = (
        {values[row]: [held[i] for held in rounds if i < len(held)] for i, row in enumerate(rounds[0])} if rows else {}
    )
    several = {v: [i for i, value in enumerate(values) if value == v] for v in last if values.count(v) > 1}
    assert found == several


@given(runs_of_keys(), st.lists(st.sampled_from([None, 0, 1, 2]), min_size=80, max_size=80), st.booleans())
def test_ages_come_before_positions(
    keys: tuple[pl.DataFrame, list[int]], ages: list[int | None], descending: bool
) -> None:
    frame, runs = keys
    age = pl.DataFrame({"age": pl.Series(ages[: frame.height], dtype=pl.Int64)})
    last: dict[Any, tuple[Any, int]] = {}
    for number, row in enumerate(frame.rows()):
        held = ages[number]
        rank = (-1_000 if held is None else -held if descending else held, number)
        value = tuple(map(same, row))
        last[value] = max(last.get(value, rank), rank)

    newest = find_newest_of_each_key(frame, age, [descending], runs)

    assert np.flatnonzero(newest).tolist() == sorted(number for _, number in last.values())


@pytest.mark.parametrize("bits", [1, 3])
@given(st.lists(st.integers(0, 12), max_size=40), st.integers(0, 40))
def test_hashes_that_meet_in_a_slot_are_told_apart(bits: int, values: list[int], long: int) -> None:
    long = min(long, len(values))
    hashes = np.array([*dict.fromkeys(values[:long]), *values[long:]], np.uint64)
    long = len(dict.fromkeys(values[:long]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "SLOTS_PER_ROW", 0)
        patch.setattr(ordering, "MIN_TABLE_BITS", bits)
        newest = ordering._find_newest(hashes, long)
    last = {value: number for number, value in enumerate(hashes.tolist())}
    assert newest.tolist() == [-1 if last[v] == i else last[v] for i, v in enumerate(hashes.tolist())]


def test_a_hash_never_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pl.DataFrame({"k": ["a", "b", "a", "c"]})
    monkeypatch.setattr(ordering, "hash_keys", lambda frame: np.zeros(frame.height, np.uint64))

    assert find_shared_keys(keys, [2, 2]) is None
    assert find_newest_of_each_key(keys, pl.DataFrame(), (), [2, 2]).tolist() == [False, True, True, True]
    assert find_versions(keys, pl.DataFrame(), (), [2, 2]).single.tolist() == [False, True, False, True]


def test_files_that_follow_one_another_are_one_run() -> None:
    keys = pl.DataFrame({"k": ["a", "a", "a", "b"], "n": [1, 2, 3, 0]})
    assert ordering._count_long_rows(to_comparable(keys), [2, 2, 0]) == 4
    assert ordering._count_long_rows(to_comparable(keys[::-1]), [2, 2]) == 0
    assert ordering._count_long_rows(to_comparable(keys), [3, 1]) == 4
    assert (
        ordering._count_long_rows(to_comparable(pl.DataFrame({"k": [1.0, 2.0], "n": [1, 2]})), [2]) == 2
    )  # floats as numbers


# One long sorted run, and short runs that update it.


def test_keys_of_short_runs_are_found_in_the_long_one() -> None:
    #                 the long run         two updates
    keys = np.array([2, 4, 6, 8, 10, 12, 4, 5, 4])
    known = find_long_run(keys, [6, 2, 1])
    assert known is not None
    assert known.order.tolist() == [6, 8, 7]  # key 4 twice, the older first; then key 5
    assert known.starts.tolist() == [0, 2]
    assert known.counts.tolist() == [2, 1]
    assert known.found.tolist() == [1, -1]
    assert np.flatnonzero(known.newest).tolist() == [0, 2, 3, 4, 5, 7, 8]


def test_runs_that_ascend_one_after_another_are_one_long_run() -> None:
    known = find_long_run(np.array([1, 2, 3, 4, 9, 3]), [3, 2, 1])
    assert known is not None
    assert (known.length, known.found.tolist()) == (5, [2])


@pytest.mark.parametrize(
    ("keys", "runs"),
    [
        ([1, 2, 3, 4], [2, 2]),  # nothing remains besides the long run
        ([1, 2, 1, 2], [2, 2]),  # not long enough
        ([3, 1, 2, 1], [3, 1]),  # not sorted, which happens only in damaged files
        ([], []),
    ],
)
def test_other_runs_have_no_long_one(keys: list[int], runs: list[int]) -> None:
    assert find_long_run(np.array(keys, np.int64), runs) is None


@given(st.sets(st.integers(-50, 50), min_size=8), st.lists(st.sets(st.integers(-60, 60), max_size=2), max_size=3))
def test_the_newest_row_of_each_key_is_that_of_a_dict(base: set[int], updates: list[set[int]]) -> None:
    runs = [sorted(base), *map(sorted, updates)]
    keys = [key for run in runs for key in run]
    known = find_long_run(np.array(keys), [len(run) for run in runs])
    newest = {key: row for row, key in enumerate(keys)}
    if known is not None:
        assert np.flatnonzero(known.newest).tolist() == sorted(newest.values())


@pytest.mark.parametrize("step", [1, 3, 10**6])
@pytest.mark.parametrize(
    ("dtype", "first"), [(np.int8, -128), (np.int64, -(2**63)), (np.uint64, 2**63 - 2), (np.uint64, 0)]
)
def test_places_are_the_same_however_close_keys_lie(dtype: type[np.integer[Any]], first: int, step: int) -> None:
    count = 40 if dtype is np.int8 else 50
    run = [first + number * (step if dtype is not np.int8 or step == 1 else 5) for number in range(count)]
    wanted = [run[0], run[0] + 1, run[3], run[-2] + 1, run[-1], run[-1] + 1]
    wanted = sorted({*wanted, *run[10:20]})
    known = find_long_run(np.array([*run, *wanted], dtype), [len(run), len(wanted)])
    assert known is not None
    assert known.found.tolist() == [run.index(key) if key in run else -1 for key in wanted]


@pytest.mark.parametrize("step", [1, 2, 7, 2**40])
@pytest.mark.parametrize(("dtype", "first"), [(np.int32, -(2**31)), (np.int64, -(2**62)), (np.uint64, 2**63 - 9)])
@pytest.mark.parametrize("uneven", [0, 20, 1_500])
def test_places_in_runs_of_numbers_that_are_counted_up(
    dtype: type[np.integer[Any]], first: int, step: int, uneven: int
) -> None:
    step = 2 if dtype is np.int32 and step == 2**40 else step
    random = np.random.default_rng(0)
    run = [first + number * step for number in range(3_000)]
    for number in random.choice(2_900, uneven, replace=False):
        run[number] += step // 2  # the order is kept
    wanted = {int(key) for key in random.choice(np.array(run, dtype), 700, replace=False)}
    wanted |= {key + step // 2 for key in run[::9]} | {first + 1, run[-1] + 1, run[-1] + 5 * step} - {run[1]}
    if first > np.iinfo(dtype).min:
        wanted |= {first - 1, first - 5 * step}
    keys = sorted(key for key in wanted if np.iinfo(dtype).min <= key <= np.iinfo(dtype).max)
    known = find_long_run(np.array([*run, *keys], dtype), [len(run), len(keys)])
    place = {key: number for number, key in enumerate(run)}
    assert known is not None
    assert known.found.tolist() == [place.get(key, -1) for key in keys]
