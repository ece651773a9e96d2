"""Java's texts of values: keys and statistics, partitions, durations, and local times."""

from __future__ import annotations

import datetime as dt
import math
import time
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format import types as t
from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.java_floats import format_double, format_float
from morrow.engine.format.schema import TableSchema
from morrow.readers.casts.java_strings import (
    format_local_date_time,
    format_reals,
    format_stored_values,
    format_values,
    join_texts,
    to_java_sort_key,
    to_wall_clock,
)
from morrow.readers.system.files import partition_rows, partition_specs
from morrow.readers.system.registry import format_duration

STRING = t.VarCharType()


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (t.BooleanType(), pl.Series([True, None]), ["true", None]),
        (t.BigIntType(), pl.Series([-7]), ["-7"]),
        (t.DoubleType(), pl.Series([1.0, 1e10, 12345678.5, math.nan]), ["1.0", "1.0E10", "1.23456785E7", "NaN"]),
        (t.DecimalType(precision=9, scale=3), pl.Series([Decimal("-0.500")], dtype=pl.Decimal(9, 3)), ["-0.500"]),
        (STRING, pl.Series(["", "null", None]), ["", "null", None]),
        (t.VarBinaryType(), pl.Series([b"\x00\xff"]), ["00ff"]),
        (t.DateType(), pl.Series([dt.date(1970, 1, 11)]), ["10"]),
        (t.TimeType(), pl.Series([dt.time(0, 0, 1, 500_000)]), ["1500"]),
        (t.TimestampType(precision=3), pl.Series([dt.datetime(2024, 1, 31, 7)]), ["2024-01-31T07:00"]),
        (t.RowType(), pl.Series([None]), [None]),
    ],
)
def test_values_show_as_java_shows_its_objects(kind: t.DataType, values: pl.Series, texts: list[str | None]) -> None:
    assert format_values(values, kind).to_list() == texts


def test_times_have_seconds_and_3_6_or_9_digits_where_they_need_them() -> None:
    micros = [0, 1_000_000, 1_500_000, 1_000_250, -1, -62_135_596_800_000_000]
    shown = format_local_date_time(pl.Series(micros).cast(pl.Datetime("us")))
    assert shown.to_list() == [
        "1970-01-01T00:00",
        "1970-01-01T00:00:01",
        "1970-01-01T00:00:01.500",
        "1970-01-01T00:00:01.000250",
        "1969-12-31T23:59:59.999999",
        "0001-01-01T00:00",
    ]


def test_nanoseconds_reach_further_than_polars_holds_them() -> None:
    """9999-12-31T23:59:59.000000001 fits a TIMESTAMP(9), although Polars' nanoseconds end in 2262."""
    kind = t.TimestampType(precision=9)
    millis, nanos = 253_402_300_799_000, 1
    head = (1).to_bytes(4, "big") + bytes(8)
    row = head + (16 << 32 | nanos).to_bytes(8, "little") + millis.to_bytes(8, "little")
    assert format_stored_values(pl.Series([row]), [kind], [0], where="here")[0].to_list() == [
        "9999-12-31T23:59:59.000000001"
    ]


@given(st.floats(width=64))
def test_doubles_have_javas_digits(value: float) -> None:
    assert format_reals(pl.Series([value], dtype=pl.Float64), t.DoubleType()).to_list() == [format_double(value)]


@given(st.floats(width=32))
def test_floats_have_javas_digits(value: float) -> None:
    assert format_reals(pl.Series([value], dtype=pl.Float32), t.FloatType()).to_list() == [format_float(value)]


def test_joined_texts_show_null_and_keep_the_number_of_rows() -> None:
    column = pl.Series(["1", None])
    assert join_texts([("a=", column), ("b=", column)], "{}", 2).to_list() == ["{a=1, b=1}", "{a=null, b=null}"]
    assert join_texts([], "{}", 2).to_list() == ["{}", "{}"]
    assert join_texts([("a=", column[:0])], "{}", 0).to_list() == []


def test_names_are_in_the_order_of_utf_16() -> None:
    assert sorted(["\uffff", "\U0001f600", "b", "B"], key=to_java_sort_key) == ["B", "b", "\U0001f600", "\uffff"]


PARTITIONED = TableSchema(
    0,
    (t.DataField(0, "dt", t.DateType()), t.DataField(1, "region", STRING)),
    1,
    partition_keys=("dt", "region"),
)
STORED = pl.Series(
    [
        encode_row(values, [t.DateType(), STRING])
        for values in ((dt.date(2024, 1, 1), "eu"), (None, " "), (dt.date(2024, 1, 1), "eu"))
    ],
    dtype=pl.Binary,
)


def test_a_partition_is_a_row_of_texts() -> None:
    shown = partition_rows(STORED, PARTITIONED, where="here")
    assert shown.to_list() == ["{2024-01-01, eu}", "{null,  }", "{2024-01-01, eu}"]


def test_a_partition_spec_names_the_default_partition_for_null_and_blank() -> None:
    shown = partition_specs(STORED, PARTITIONED, "__NONE__", where="here")
    assert shown.to_list() == ["dt=2024-01-01/region=eu", "dt=__NONE__/region=__NONE__", "dt=2024-01-01/region=eu"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "PT0S"), (86_400, "PT24H"), (5400, "PT1H30M"), (0.5, "PT0.5S"), (-90, "PT-1M-30S"), (3601.25, "PT1H1.25S")],
)
def test_durations_are_javas(seconds: float, text: str) -> None:
    assert format_duration(dt.timedelta(seconds=seconds)) == text


def test_instants_are_on_the_wall_clock_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Berlin is an hour ahead of UTC in winter and two in summer."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        winter, summer = 1_704_067_200_123, 1_719_792_000_000
        shown = to_wall_clock([winter, None, summer]).to_list()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert shown == [dt.datetime(2024, 1, 1, 1, 0, 0, 123_000), None, dt.datetime(2024, 7, 1, 2)]
