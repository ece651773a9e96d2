"""Sorted runs divided at the same keys."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from morrow.writers.keyed.rewriter import iterate_key_ranges


def batches(keys: list[int], size: int) -> Iterator[pl.DataFrame]:
    frame = pl.DataFrame({"k": keys, "place": range(len(keys))}, schema={"k": pl.Int64, "place": pl.Int64})
    yield from (frame[start : start + size] for start in range(0, len(keys), size))


def test_a_range_ends_where_a_run_may_go_on() -> None:
    first, second = [1, 2, 3, 4, 5, 6], [2, 4, 9]
    ranges = iterate_key_ranges([batches(first, 3), batches(second, 3)], ["k"], [1, 1])
    assert [[part["k"].to_list() for part in parts] for parts in ranges] == [
        [[1, 2], [2]],  # the first run is read up to 3, which may continue
        [[3, 4, 5], [4]],
        [[6]],
        [[9]],
    ]


@given(st.lists(st.lists(st.integers(0, 9), max_size=12).map(sorted), max_size=4), st.integers(1, 5), st.integers(1, 4))
def test_ranges_have_every_row_once_and_all_of_a_key_together(runs: list[list[int]], size: int, ahead: int) -> None:
    ranges = [
        pl.concat(parts)
        for parts in iterate_key_ranges([batches(run, size) for run in runs], ["k"], [ahead] * len(runs))
    ]
    assert sorted(k for frame in ranges for k in frame["k"]) == sorted(k for run in runs for k in run)
    reached = -1
    for frame in ranges:
        assert int(frame["k"].min()) > reached  # type: ignore[arg-type]  # of a non-empty Int64 column
        reached = int(frame["k"].max())  # type: ignore[arg-type]  # the same


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=12), st.integers(1, 4))
def test_composite_keys_are_cut_in_their_order(keys: list[tuple[int, str]], size: int) -> None:
    frame = pl.DataFrame(sorted(keys), schema={"n": pl.Int64, "s": pl.String}, orient="row")
    cut = [frame[start : start + size] for start in range(0, frame.height, size)]
    ranges = [pl.concat(parts).rows() for parts in iterate_key_ranges([iter(cut), iter(cut)], ["n", "s"], [1, 1])]
    assert sorted(row for part in ranges for row in part) == sorted(keys * 2)
    for before, after in pairwise(ranges):
        assert max(before) < min(after)
