"""Sorted files cut at the same keys."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.types import (
    DataField,
    DataType,
    DecimalType,
    IntType,
    TimestampType,
    VarBinaryType,
    VarCharType,
)
from morrow.readers.casts.dtypes import polars_dtype
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


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (VarCharType(), ["", "a", "a\0", "é"]),
        (VarBinaryType(), [b"", b"\0", b"a", b"\xff"]),
        (
            DecimalType(precision=38, scale=1),
            [Decimal(each) for each in ("-0.1", "0.0", "0.1", "12345678901234567890.5")],
        ),
        (TimestampType(precision=6), [dt.datetime(1969, 12, 31), dt.datetime(1970, 1, 1), dt.datetime(2000, 1, 1, 1)]),
    ],
)
def test_keys_of_many_types_are_cut(type_: DataType, values: list[Any]) -> None:
    key = DataField(0, "k", type_)
    frames = [pl.DataFrame({"k": pl.Series(run, dtype=polars_dtype(type_))}) for run in (values, values[1:2])]
    parts = pieces(frames, cuts(frames, key))
    assert len(parts) == 2
    assert [pl.concat(each)["k"].to_list() for each in zip(*parts, strict=True)] == [values, values[1:2]]
    assert not {*parts[0][0]["k"], *parts[0][1]["k"]} & {*parts[1][0]["k"], *parts[1][1]["k"]}


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
