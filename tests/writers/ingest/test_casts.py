"""Lossless casts of values to the type of their column, or an error that names the first misfit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.writers.ingest.casts import cast_lossless

ROW = t.RowType(fields=(t.DataField(1, "a", t.IntType(nullable=False)), t.DataField(2, "b", t.VarCharType())))


def cast(values: pa.Array, kind: t.DataType) -> list[Any]:
    made = cast_lossless(values, t.DataField(0, "x", kind), first_row=100)
    assert made.type == kind.arrow()
    return list(made.to_pylist())


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (pa.array([1, None], pa.int8()), t.BigIntType(), [1, None]),
        (pa.array([2**31 - 1]), t.IntType(), [2**31 - 1]),
        (pa.array([2**53]), t.DoubleType(), [2.0**53]),
        (pa.array([0.5, None, float("inf")]), t.FloatType(), [0.5, None, float("inf")]),
        (pa.array([12]), t.DecimalType(precision=4, scale=2), [Decimal("12.00")]),
        (pa.array([Decimal("1.50")], pa.decimal256(60, 10)), t.DecimalType(precision=2, scale=1), [Decimal("1.5")]),
        (pa.nulls(2), t.DateType(), [None, None]),
        (pa.array([{"b": "x", "a": 1}, None]), ROW, [{"a": 1, "b": "x"}, None]),
        (pa.array([{"a": 1}]), ROW, [{"a": 1, "b": None}]),
        (pa.array([[1], [2, 3], None]).slice(1), t.ArrayType(element=t.SmallIntType()), [[2, 3], None]),
        (pa.array([[1.0, 2.0], None]), t.VectorType(element=t.FloatType(), length=2), [[1.0, 2.0], None]),
        (pa.array(["x"]).dictionary_encode(), t.CharType(length=1), ["x"]),
        (pa.RunEndEncodedArray.from_arrays([2], pa.array([7])), t.IntType(), [7, 7]),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
            t.MultisetType(element=t.VarCharType()),
            [[("a", 1)]],
        ),
    ],
    ids=str,
)
def test_values_stay_what_they_are(given: pa.Array, kind: t.DataType, expected: list[Any]) -> None:
    assert cast(given, kind) == expected


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (pa.array([1, 2, 300]), t.TinyIntType(), r"'x', row 102: 300 does not fit TINYINT"),
        (pa.array([2**53 + 1]), t.DoubleType(), r"row 100: 9007199254740993 does not fit DOUBLE"),
        (pa.array([0.5, 0.1]), t.FloatType(), r"row 101: 0.1 does not fit FLOAT .*more digits"),
        (
            pa.array([1.0]),
            t.DecimalType(),
            r"DECIMAL\(10, 0\) is needed .row 100 has 1.0.: cast .* pl.col\('x'\)",
        ),
        (pa.array([Decimal("1.25")]), t.DecimalType(precision=5, scale=1), r"row 100: .*does not fit DECIMAL\(5, 1\)"),
        (pa.array([Decimal(100)]), t.DecimalType(precision=2, scale=0), r"does not fit DECIMAL\(2, 0\)"),
        (pa.array(["1"]), t.IntType(), r"string where INT is needed"),
        (pa.array([b"1"]), t.VarCharType(), r"binary where STRING is needed"),
        (pa.array([True]), t.IntType(), r"bool where INT is needed"),
        (pa.array([dt.datetime(2024, 5, 14)]), t.DateType(), r"timestamp\[us\] where DATE is needed"),
        (pa.array([1], pa.timestamp("ns")), t.TimestampType(precision=6), r"does not fit TIMESTAMP\(6\)"),
        (pa.array([2**62], pa.timestamp("s")), t.TimestampType(precision=9), r"row 100: .*does not fit TIMESTAMP\(9\)"),
        (pa.array([1], pa.timestamp("us", "UTC")), t.TimestampType(), r"TIMESTAMP has no zone"),
        (pa.array([1], pa.timestamp("us")), t.LocalZonedTimestampType(), r"an instant needs a zone"),
        (pa.array([1], pa.time64("us")), t.TimeType(), r"does not fit TIME"),
        (pa.array([{"b": "x"}]), ROW, r"the member 'a' is missing and NOT NULL"),
        (pa.array([{"a": None}], pa.struct({"a": pa.int32()})), ROW, r"a null inside, where INT NOT NULL is needed"),
        (pa.array([{"a": None}], ROW.arrow()), ROW, r"a null inside, where INT NOT NULL is needed"),
        (pa.array([[{"a": None}]], pa.list_(ROW.arrow())), t.ArrayType(element=ROW), r"a null inside"),
        (pa.array([{"a": 1, "c": 1}]), ROW, r"there is no member 'c'"),
        (pa.array([[1.0]]), t.VectorType(element=t.FloatType(), length=2), r"does not fit VECTOR"),
        (pa.array([1]), t.ArrayType(element=t.IntType()), r"int64 where ARRAY<INT> is needed .*: give lists"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(given: pa.Array, kind: t.DataType, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        cast(given, kind)
