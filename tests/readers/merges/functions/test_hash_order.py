"""Java's hash codes, and the order in which its HashSet gives elements back. The codes were printed by Java."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

from morrow.engine.format import types as t
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.merges.functions.hash_order import can_hash, hash_codes, in_hash_order

CODES: list[tuple[t.DataType, list[Any], list[int]]] = [
    (t.VarCharType(), ["a", "abcd", "é", "hello wörld", None], [1485273170, -396302900, 2119106806, -2089953811, 0]),
    (t.DecimalType(precision=30, scale=2), [Decimal("-1.25"), Decimal("12345678901234567890.12")], [-3873, 494185783]),
    (t.IntType(), [5, -1, None], [5, -1, 0]),
    (t.BigIntType(), [5, -1, 1 << 32], [5, 0, 1]),
    (t.BooleanType(), [True, False], [1231, 1237]),
    (t.DoubleType(), [1.0, -0.0], [1072693248, -(2**31)]),
    (t.FloatType(), [1.0, -0.0], [1065353216, -(2**31)]),
    (t.DateType(), [dt.date(1970, 1, 3)], [2]),
    (t.TimeType(), [dt.time(0, 0, 1)], [1000]),
    (t.TimestampType(precision=6), [dt.datetime(1970, 1, 1, 0, 0, 1, 5)], [31 * 1000 + 5000]),
]


@pytest.mark.parametrize(("kind", "values", "codes"), CODES, ids=[str(kind) for kind, *_ in CODES])
def test_hash_codes_are_those_of_java(kind: t.DataType, values: list[Any], codes: list[int]) -> None:
    found = hash_codes(pl.Series(values, dtype=polars_dtype(kind)), kind)
    assert found.astype(np.uint32).view(np.int32).tolist() == codes


def ordered(values: list[int]) -> list[int]:
    frame = pl.DataFrame({"row": pl.repeat(0, len(values), eager=True), "element": pl.Series(values, dtype=pl.Int32)})
    return in_hash_order(frame, t.IntType())["element"].to_list()


def test_small_integers_come_out_sorted_and_elements_of_one_bucket_as_they_came() -> None:
    assert ordered([5, 3, 1]) == [1, 3, 5]
    assert ordered([17, 1, 33, 2]) == [17, 1, 33, 2]  # 17, 1 and 33 share bucket 1 of 16


def test_the_table_doubles_when_it_is_three_quarters_full() -> None:
    twelve, thirteen = [16, *range(11)], [16, *range(12)]
    assert ordered(twelve) == [16, *range(11)]  # 16 buckets: 16 is in bucket 0
    assert ordered(thirteen) == [*range(12), 16]  # 32 buckets


def test_bytes_and_nested_values_have_no_order() -> None:
    assert not can_hash(t.VarBinaryType())
    assert not can_hash(t.ArrayType(element=t.IntType()))
