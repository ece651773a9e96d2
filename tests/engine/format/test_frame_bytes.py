"""Frames as bytes, read back without a copy."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from morrow.engine.format.frame_bytes import FAILURES, frame_bytes, frame_of


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
        assert_frame_equal(frame_of(memoryview(frame_bytes(each))), each)


@pytest.mark.parametrize("data", [b"", b"ARROW1\0\0", frame_bytes(pl.DataFrame({"a": [1]}))[:-20]])
def test_other_bytes_fail_as_they_are_expected_to(data: bytes) -> None:
    with pytest.raises(FAILURES):
        frame_of(data)
