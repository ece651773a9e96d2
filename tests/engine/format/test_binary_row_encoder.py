"""A row that is encoded value by value has the same bytes as one that is encoded by columns."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row_encoder import encode_columns, encode_value_row, hash_words, iterate_waves
from morrow.engine.format.types import to_polars_dtype

WIDE = [Decimal(f"{sign}{digits}.5") for sign in ("", "-") for digits in (0, 12, 13, 3276, 3277, 10**18, 10**36)]
MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2024, 2, 29, 1, 2, 3, 456_789)]
VALUES: dict[t.DataType, list[object]] = {
    t.BooleanType(): [True, False],
    t.TinyIntType(): [-128, 127],
    t.SmallIntType(): [-(2**15), 1],
    t.IntType(): [-1, 2**31 - 1],
    t.BigIntType(): [-(2**63), 2**63 - 1],
    t.FloatType(): [float("nan"), -0.0, 1.5, float("-inf")],
    t.DoubleType(): [float("nan"), -0.0, 1e300],
    t.DecimalType(precision=18, scale=2): [Decimal("-0.01"), Decimal(10**15)],
    t.DecimalType(precision=38, scale=1): WIDE,
    t.VarCharType(): ["", "1234567", "12345678", "ü" * 9],
    t.VarBinaryType(): [b"", b"\xff" * 7, b"\x00" * 17],
    t.DateType(): [dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    t.TimeType(): [dt.time(0, 0, 0, 1000), dt.time(23, 59, 59, 999_000)],
    **{t.TimestampType(precision): MOMENTS for precision in (0, 3, 6, 9)},
    **{t.LocalZonedTimestampType(precision): MOMENTS for precision in (3, 6, 9)},
}


def test_rows_of_all_types() -> None:
    kinds = list(VALUES)
    for number in range(max(map(len, VALUES.values())) + 1):
        values = [given[number] if number < len(given) else None for given in VALUES.values()]
        columns = [
            pl.Series(str(kind), [value], strict=False).cast(to_polars_dtype(kind))
            for kind, value in zip(kinds, values)
        ]
        for some in (slice(None), slice(3, 4), slice(0, 0), slice(8, 9)):
            wanted = encode_columns(columns[some], kinds[some]).row(0) if columns[some] else bytes(8)
            assert encode_value_row(columns[some], kinds[some]) == struct.pack(">i", len(kinds[some])) + wanted, values


def test_nested_values_are_refused() -> None:
    nested = t.ArrayType(element=t.IntType())
    with pytest.raises(Unsupported, match="ARRAY<INT> in a partition"):
        encode_value_row([pl.Series([[1]])], [nested])
    assert encode_value_row([pl.Series([None])], [nested])[4:] == encode_columns([pl.Series([None])], [nested]).row(0)


# Murmur hashes


def test_waves_visit_every_element_once() -> None:
    sizes = np.array([2, 0, 3, 1])
    assert [(wave, lists.tolist()) for wave, lists in iterate_waves(sizes)] == [(0, [0, 2, 3]), (1, [0, 2]), (2, [2])]


def test_java_hash_codes() -> None:
    words = np.array([0, 0, 1, 0, 0, 0, 0xFFFFFFFF, 0], np.uint32)  # the BinaryRows of (true) and of (-1)
    assert hash_words(words, np.array([0, 4]), np.array([4, 4])).tolist() == [1465514398, 1133687267]
