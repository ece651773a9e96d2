"""Slices of a column are joined to one column again, without a copy."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal, assert_series_equal

from morrow.engine.format.arrow_buffers import IPC_ERRORS, deserialize_frame, join_slices, serialize_frame
from morrow.engine.library_versions import CASTS_VIEWS

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
    """Return the addresses of the values."""
    array = column.to_arrow(compat_level=pl.CompatLevel.newest())
    assert isinstance(array, pa.Array)
    values = array.buffers()[1]
    return range(values.address, values.address + values.size)


@pytest.mark.parametrize("column", COLUMNS, ids=[str(column.dtype) for column in COLUMNS])
@pytest.mark.parametrize("cuts", [[0, COUNT], [0, 13, 2501, COUNT], [7, 100, 2001]])
def test_slices_that_follow_each_other(column: pl.Series, cuts: list[int]) -> None:
    column = column.alias("^x$")
    whole = join_slices([column[start:end] for start, end in pairwise(cuts)])
    if column.dtype in (pl.String, pl.Binary) and not CASTS_VIEWS:
        return  # they are copied, and may lie apart
    assert whole is not None
    assert_series_equal(whole, column[cuts[0] : cuts[-1]], check_exact=True)
    assert memory(whole)[0] in memory(column)


@pytest.mark.parametrize("column", COLUMNS, ids=[str(column.dtype) for column in COLUMNS])
def test_others_are_left_to_the_caller(column: pl.Series) -> None:
    copied = pl.concat([column[10:], column[:1]], rechunk=True)
    for parts in ([column[:10], column[11:]], [column[10:], column[:10]], [column[:10], copied]):
        assert join_slices(parts) is None
    assert join_slices([pl.concat([column[:10], column[20:]], rechunk=False)]) is None


@pytest.mark.skipif(not CASTS_VIEWS, reason="text is copied")
def test_the_values_outlive_the_column() -> None:
    column = pl.Series([f"a text of some length {i}" for i in range(COUNT)])
    whole = join_slices([column[:100], column[100:]])
    del column
    assert whole is not None
    assert whole[-1] == f"a text of some length {COUNT - 1}"


@pytest.mark.parametrize("column", [pl.Series([[1], [2]]), pl.Series([None, None])])
def test_nested_columns_and_nulls_are_not_put_together(column: pl.Series) -> None:
    assert join_slices([column[:1], column[1:]]) is None


# Frames that are stored as bytes are read without a copy.


def test_frames_of_all_kinds_come_back() -> None:
    frame = pl.DataFrame(
        {
            "^n.*$": [1, None, 3],
            "text": ["ä", None, "more than twelve bytes"],
            "raw": [b"", b"\0", None],
            "cost": pl.Series([Decimal("1.20"), None, Decimal("-3.00")], dtype=pl.Decimal(20, 2)),
            "at": pl.Series([dt.datetime(1950, 1, 1), None, dt.datetime(2300, 1, 1)], dtype=pl.Datetime("us")),
            "zoned": pl.Series([0, 1, None]).cast(pl.Datetime("ms", "UTC")),
            "time": [dt.time(1, 2, 3), None, dt.time(0)],
            "list": [[{"a": 1, "b": "x"}], None, []],
            "array": pl.Series([[1.0, 2.0], None, [float("nan"), -0.0]], dtype=pl.Array(pl.Float32, 2)),
            "bit": [True, None, False],
        }
    )
    for each in (frame, frame[:0], frame[1:], pl.concat([frame, frame]), pl.DataFrame()):
        assert_frame_equal(deserialize_frame(memoryview(serialize_frame(each))), each)


@pytest.mark.parametrize("data", [b"", b"ARROW1\0\0", serialize_frame(pl.DataFrame({"a": [1]}))[:-20]])
def test_other_bytes_fail_as_they_are_expected_to(data: bytes) -> None:
    with pytest.raises(IPC_ERRORS):
        deserialize_frame(data)
