"""One long sorted run and short ones that update it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.readers.masks.sorted_runs import long_run


def test_keys_of_short_runs_are_found_in_the_long_one() -> None:
    #                 the long run         two updates
    keys = np.array([2, 4, 6, 8, 10, 12, 4, 5, 4])
    known = long_run(keys, [6, 2, 1])
    assert known is not None
    assert known.order.tolist() == [6, 8, 7]  # key 4 twice, the older first; then key 5
    assert known.starts.tolist() == [0, 2]
    assert known.counts.tolist() == [2, 1]
    assert known.found.tolist() == [1, -1]
    assert np.flatnonzero(known.newest).tolist() == [0, 2, 3, 4, 5, 7, 8]


def test_runs_that_ascend_one_after_another_are_one_long_run() -> None:
    known = long_run(np.array([1, 2, 3, 4, 9, 3]), [3, 2, 1])
    assert known is not None
    assert (known.length, known.found.tolist()) == (5, [2])


@pytest.mark.parametrize(
    ("keys", "runs"),
    [
        ([1, 2, 3, 4], [2, 2]),  # nothing is left beside the long run
        ([1, 2, 1, 2], [2, 2]),  # not long enough
        ([3, 1, 2, 1], [3, 1]),  # not sorted, which only a damaged file is
        ([], []),
    ],
)
def test_other_runs_have_no_long_one(keys: list[int], runs: list[int]) -> None:
    assert long_run(np.array(keys, np.int64), runs) is None


@given(st.sets(st.integers(-50, 50), min_size=8), st.lists(st.sets(st.integers(-60, 60), max_size=2), max_size=3))
def test_the_newest_row_of_each_key_is_that_of_a_dict(base: set[int], updates: list[set[int]]) -> None:
    runs = [sorted(base), *map(sorted, updates)]
    keys = [key for run in runs for key in run]
    known = long_run(np.array(keys), [len(run) for run in runs])
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
    known = long_run(np.array([*run, *wanted], dtype), [len(run), len(wanted)])
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
        run[number] += step // 2  # the order stays
    wanted = {int(key) for key in random.choice(np.array(run, dtype), 700, replace=False)}
    wanted |= {key + step // 2 for key in run[::9]} | {first + 1, run[-1] + 1, run[-1] + 5 * step} - {run[1]}
    if first > np.iinfo(dtype).min:
        wanted |= {first - 1, first - 5 * step}
    keys = sorted(key for key in wanted if np.iinfo(dtype).min <= key <= np.iinfo(dtype).max)
    known = long_run(np.array([*run, *keys], dtype), [len(run), len(keys)])
    place = {key: number for number, key in enumerate(run)}
    assert known is not None
    assert known.found.tolist() == [place.get(key, -1) for key in keys]
