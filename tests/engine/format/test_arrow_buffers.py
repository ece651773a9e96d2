"""Slices of a column are one column again, without a copy."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_series_equal

from morrow.engine.format.arrow_buffers import adjoined

COUNT = 3000
COLUMNS = [
    pl.Series([None if i % 3 == 0 else i for i in range(COUNT)], dtype=pl.Int32),
    pl.Series([None if i % 7 == 0 else "v" * (i % 40) for i in range(COUNT)]),
    pl.Series([i % 2 == 0 if i % 5 else None for i in range(COUNT)]),
    pl.Series([b"x" * (i % 30) for i in range(COUNT)]),
    pl.Series([Decimal(i) for i in range(COUNT)], dtype=pl.Decimal(20, 3)),
    pl.Series([float("nan"), -0.0] * (COUNT // 2)),
    pl.Series([dt.time(1, 2, 3)] * COUNT),
    pl.Series(range(COUNT)).cast(pl.Datetime("ns", "UTC")),
]


def memory(column: pl.Series) -> range:
    """The addresses of the values."""
    array = column.to_arrow(compat_level=pl.CompatLevel.newest())
    assert isinstance(array, pa.Array)
    values = array.buffers()[1]
    return range(values.address, values.address + values.size)


@pytest.mark.parametrize("column", COLUMNS, ids=[str(column.dtype) for column in COLUMNS])
@pytest.mark.parametrize("cuts", [[0, COUNT], [0, 13, 2501, COUNT], [7, 100, 2001]])
def test_slices_that_follow_each_other(column: pl.Series, cuts: list[int]) -> None:
    column = column.alias("^x$")
    whole = adjoined([column[start:end] for start, end in pairwise(cuts)])
    assert whole is not None
    assert_series_equal(whole, column[cuts[0] : cuts[-1]], check_exact=True)
    assert memory(whole)[0] in memory(column)


@pytest.mark.parametrize("column", COLUMNS, ids=[str(column.dtype) for column in COLUMNS])
def test_others_are_left_to_the_caller(column: pl.Series) -> None:
    copied = pl.concat([column[10:], column[:1]], rechunk=True)
    for parts in ([column[:10], column[11:]], [column[10:], column[:10]], [column[:10], copied]):
        assert adjoined(parts) is None
    assert adjoined([pl.concat([column[:10], column[20:]], rechunk=False)]) is None


def test_the_values_outlive_the_column() -> None:
    column = pl.Series([f"a text of some length {i}" for i in range(COUNT)])
    whole = adjoined([column[:100], column[100:]])
    del column
    assert whole is not None
    assert whole[-1] == f"a text of some length {COUNT - 1}"


@pytest.mark.parametrize("column", [pl.Series([[1], [2]]), pl.Series([None, None])])
def test_nested_columns_and_nulls_are_not_put_together(column: pl.Series) -> None:
    assert adjoined([column[:1], column[1:]]) is None
