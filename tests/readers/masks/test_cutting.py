"""Sorted files cut at the same keys."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.types import DataField, IntType
from morrow.readers.masks import cutting
from morrow.readers.masks.cutting import cuts, pieces

KEY = DataField(0, "k", IntType())


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "WORTH_CUTTING", 0)
        patch.setattr(cutting, "SAMPLED", 1)
        yield


def files(*runs: list[int]) -> list[pl.DataFrame]:
    return [pl.DataFrame({"k": run}, schema={"k": pl.Int32}) for run in runs]


def test_parts_share_no_key() -> None:
    frames = files([1, 2, 3, 4, 5, 6], [2, 4], [])
    parts = [[frame["k"].to_list() for frame in part] for part in pieces(frames, cuts(frames, KEY, 3))]
    assert parts == [[[1], [], []], [[2, 3], [2], []], [[4, 5, 6], [4], []]]


@pytest.mark.parametrize("run", [[1, 9, 0, 3], [3, 2, 1], [1, 2, 2, 1]])
def test_files_that_are_not_sorted_are_not_cut(run: list[int]) -> None:
    frames = files(run, [2, 5])
    assert cuts(frames, KEY, 3) is None
    assert pieces(frames, None) == [frames]


@given(st.lists(st.sets(st.integers(-20, 20)), min_size=1, max_size=4), st.integers(2, 9))
def test_all_rows_are_in_one_part_in_their_order(runs: list[set[int]], count: int) -> None:
    frames = files(*map(sorted, runs))
    if not any(runs):
        return
    parts = pieces(frames, cuts(frames, KEY, count))
    whole = [pl.concat(each)["k"].to_list() for each in zip(*parts, strict=True)]
    assert whole == [sorted(run) for run in runs]
    keys = [{key for frame in part for key in frame["k"]} for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))
