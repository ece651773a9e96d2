"""Which version of a key is the newest: Java's order of values, and the last row wherever they tie."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.readers.masks.ordering import alone, newest_of_each_key, sortable, unseen

NAN, INF = math.nan, math.inf
FLOATS = (-INF, -1.5, -5e-324, 0.0, 5e-324, 1.5, INF, NAN)
"""Each is greater than all before it."""


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_floats_sort_as_in_java(dtype: type[pl.DataType]) -> None:
    values = (-INF, -1.5, 0.0, 1.5, INF, NAN)
    shuffled = pl.Series("x", values, dtype)[[5, 2, 0, 3, 1, 4]]

    order = sortable(shuffled).arg_sort()

    assert [str(v) for v in shuffled[order]] == [str(v) for v in values]


def test_all_nans_are_one_value_both_zeros_are_and_nulls_stay_nulls() -> None:
    other_nan = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    found = sortable(pl.Series("x", [NAN, other_nan, None, 0.0, -0.0]))
    assert found[0] == found[1]
    assert found[2] is None
    assert found[3] == found[4]


@pytest.mark.parametrize("values", [["a", None], [b"\xff", b"\x00"], [True, None], [1, -1]])
def test_what_is_not_a_float_is_left_alone(values: list[Any]) -> None:
    series = pl.Series("x", values)
    assert sortable(series) is series


def test_the_last_row_of_a_key_is_its_newest() -> None:
    keys = pl.DataFrame({"id": [1, 2, 3, 2, 3, 3]})
    assert rows_of(newest_of_each_key(keys, pl.DataFrame(), [])) == [0, 3, 5]


def test_text_keys_compare_by_bytes_and_several_columns_make_one_key() -> None:
    keys = pl.DataFrame({"a": ["x", "x", "é", "x"], "b": [1, 2, 1, 1]})
    assert rows_of(newest_of_each_key(keys, pl.DataFrame(), [])) == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "descending", "newest"),
    [
        ([10, 30, 20], False, 1),
        ([10, 30, 20], True, 0),
        ([None, 30, None], False, 1),
        ([None, 30, None], True, 1),  # nulls are the oldest, also in descending order
        ([20, 20, 10], False, 1),  # equal values: the later row
        ([20, 10, 10], True, 2),
        ([NAN, INF, -INF], False, 0),
        ([0.0, -0.0, -0.0], False, 2),
    ],
)
def test_a_sequence_column_decides_before_the_position_does(values: list[Any], descending: bool, newest: int) -> None:
    keys, order = pl.DataFrame({"id": [7, 7, 7]}), pl.DataFrame({"ts": values})
    assert rows_of(newest_of_each_key(keys, order, [descending])) == [newest]


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
    assert rows_of(newest_of_each_key(keys, pl.DataFrame(), [])) == [1, 2, 3]


def test_no_rows() -> None:
    assert rows_of(newest_of_each_key(pl.DataFrame({"id": pl.Series([], dtype=pl.Int64)}), pl.DataFrame(), [])) == []
    assert rows_of(newest_of_each_key(pl.DataFrame({"id": pl.Series([], dtype=pl.String)}), pl.DataFrame(), [])) == []


def compare(a: Sequence[Any], b: Sequence[Any], descending: Sequence[bool]) -> int:
    """Compares one column after another, null first, floats in the order of FLOATS; negative when `a` is older."""
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
    found = newest_of_each_key(frame.select("k", "t"), frame.select("x", "n"), descending)

    assert rows_of(found) == sorted(newest.values())


# --- runs of distinct integer keys, without sorting ---


def test_a_key_counts_in_the_first_run_that_holds_it() -> None:
    newest_first = [np.array([2, 3]), np.array([], np.int64), np.array([1, 2, 4]), np.array([1, 3, 5])]
    found = unseen(newest_first)
    assert found is not None
    assert [run.tolist() for run in found] == [[True, True], [], [True, False, True], [False, False, True]]


def test_sparse_keys_are_left_to_sorting() -> None:
    assert unseen([np.array([0, 10**12]), np.array([5])]) is None
    assert unseen([np.array([-(2**63)]), np.array([2**63 - 1])]) is None


def test_narrow_keys_whose_differences_do_not_fit_their_type() -> None:
    found = unseen([np.array([45], np.int8), np.arange(-100, 101, dtype=np.int8)])
    assert found is not None
    assert np.flatnonzero(~found[1]).tolist() == [145]


@given(
    runs=st.lists(st.sets(st.integers(-128, 127), max_size=200), min_size=1, max_size=4),
    dtype=st.sampled_from([np.int8, np.int16, np.int64]),
)
def test_unseen_and_sorted_agree(runs: list[set[int]], dtype: type[np.integer[Any]]) -> None:
    newest_first = [np.array(sorted(run), dtype) for run in runs]
    found = unseen(newest_first)
    if found is not None:
        seen: set[int] = set()
        for run, alive in zip(newest_first, found, strict=True):
            assert run[alive].tolist() == [k for k in run.tolist() if k not in seen]
            seen |= set(run.tolist())


def test_a_key_is_alone_where_no_other_run_holds_it() -> None:
    found = alone([np.array([2, 3]), np.array([], np.int64), np.array([1, 2, 4]), np.array([1, 3, 5])])
    assert found is not None
    assert [run.tolist() for run in found[0]] == [[False, False], [], [False, False, True], [False, False, True]]
    assert found[1] == 3
    assert alone([np.array([0, 10**12]), np.array([5])]) is None


@given(
    runs=st.lists(st.sets(st.integers(-128, 127), max_size=200), min_size=1, max_size=5),
    dtype=st.sampled_from([np.int8, np.int16, np.int64]),
)
def test_alone_and_counted_agree(runs: list[set[int]], dtype: type[np.integer[Any]]) -> None:
    found = alone([np.array(sorted(run), dtype) for run in runs])
    if found is not None:
        holders = Counter(key for run in runs for key in run)
        assert [run.tolist() for run in found[0]] == [[holders[key] == 1 for key in sorted(run)] for run in runs]
        assert found[1] == sum(count > 1 for count in holders.values())
