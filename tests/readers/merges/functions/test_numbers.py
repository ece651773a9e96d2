"""sum, product, count, max and min of integers, FLOAT and DOUBLE, and of what else has an order."""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import (
    BigIntType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    TimestampType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from tests.support.aggregates import folded, function, stepped

INTEGERS: list[tuple[DataType, int]] = [
    (TinyIntType(), 8),
    (SmallIntType(), 16),
    (IntType(), 32),
    (BigIntType(), 64),
]
PAIRS = [(None, None), (None, 2), (7, None), (7, 2)]


@pytest.mark.parametrize(
    ("name", "step", "expected"),
    [
        ("sum", "agg", [None, 2, 7, 9]),
        ("sum", "agg_reversed", [None, 2, 7, 9]),
        ("sum", "retract", [None, -2, 7, 5]),
        ("product", "agg", [None, 2, 7, 14]),
        ("product", "retract", [None, None, 7, 3]),
        ("max", "agg", [None, 2, 7, 7]),
        ("min", "agg", [None, 2, 7, 2]),
        ("count", "agg", [0, 1, 7, 8]),
        ("count", "retract", [0, -1, 7, 6]),
    ],
)
def test_one_step(name: str, step: str, expected: list[Any]) -> None:
    assert stepped(step, name, IntType(), PAIRS) == expected


@pytest.mark.parametrize(("dtype", "bits"), INTEGERS)
def test_integers_wrap_at_their_own_width(dtype: DataType, bits: int) -> None:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert stepped("agg", "sum", dtype, [(high, 1), (low, low)]) == [low, 0]
    assert stepped("retract", "sum", dtype, [(low, 1), (None, low)]) == [high, low]
    assert stepped("agg", "product", dtype, [(high, 2), (low, -1)]) == [-2, low]
    assert stepped("retract", "product", dtype, [(low, -1)]) == [low]


@given(st.integers(-128, 127), st.integers(-128, 127).filter(bool))
def test_integer_division_truncates(product: int, factor: int) -> None:
    quotient = int(abs(product) / abs(factor)) * (1 if (product < 0) == (factor < 0) else -1)
    assert stepped("retract", "product", SmallIntType(), [(product, factor)]) == [quotient]


def test_a_zero_cannot_be_divided_out_of_an_integer_product() -> None:
    with pytest.raises(Unsupported, match=r"retracted factor 0; Java fails as well: set 'ignore-retract'.* out$"):
        stepped("retract", "product", BigIntType(), [(6, 2), (6, 0)])
    assert stepped("retract", "product", BigIntType(), [(None, 0), (0, 6)]) == [None, 0]


def test_floats_divide_by_zero() -> None:
    pairs = [(1.0, 0.0), (1.0, -0.0), (0.0, 0.0), (7.0, 2.0)]
    assert repr(stepped("retract", "product", DoubleType(), pairs)) == "[inf, -inf, nan, 3.5]"


def test_float_is_computed_in_32_bits() -> None:
    def single(x: float) -> float:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])

    assert folded("sum", FloatType(), ("agg", 0.1), ("agg", 0.2)) == single(single(0.1) + single(0.2))
    assert folded("sum", DoubleType(), ("agg", 0.1), ("agg", 0.2)) == 0.1 + 0.2


def test_taking_zero_from_nothing_leaves_negative_zero() -> None:
    assert repr(folded("sum", DoubleType(), ("retract", 0.0))) == "-0.0"


@pytest.mark.parametrize("dtype", [FloatType(), DoubleType()])
def test_max_and_min_have_nan_last_and_tell_the_zeros_apart(dtype: DataType) -> None:
    pairs = [(math.nan, 1.0), (1.0, math.nan), (-0.0, 0.0), (0.0, -0.0), (-math.inf, math.inf)]
    assert repr(stepped("agg", "max", dtype, pairs)) == "[nan, nan, 0.0, 0.0, inf]"
    assert repr(stepped("agg", "min", dtype, pairs)) == "[1.0, 1.0, -0.0, -0.0, -inf]"


@pytest.mark.parametrize(
    ("dtype", "less", "greater"),
    [
        (VarCharType(), "a", "aa"),
        (VarCharType(), "\ue000", "\U00010000"),  # by UTF-8 bytes; UTF-16 has it the other way round
        (VarBinaryType(), b"\x7f\xff", b"\x80"),
        (DateType(), dt.date(1969, 12, 31), dt.date(1970, 1, 1)),
        (TimestampType(), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
    ],
)
def test_max_and_min_of_other_types(dtype: DataType, less: Any, greater: Any) -> None:
    pairs = [(less, greater), (greater, less), (less, None), (less, less)]
    assert stepped("agg", "max", dtype, pairs) == [greater, greater, less, less]
    assert stepped("agg", "min", dtype, pairs) == [less, less, less, less]


def test_max_and_min_cannot_be_retracted() -> None:
    for name in ("max", "min"):
        assert function(name, IntType()).retract({}, None) is None  # type: ignore[arg-type]  # neither is looked at


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
def test_folds_are_those_of_python(values: list[int]) -> None:
    def fold(name: str) -> Any:
        return folded(name, BigIntType(), *(("agg", value) for value in values))

    def wrapped(exact: int) -> int:
        return (exact + 2**63) % 2**64 - 2**63

    assert (fold("max"), fold("min"), fold("count")) == (max(values), min(values), len(values))
    assert (fold("sum"), fold("product")) == (wrapped(sum(values)), wrapped(math.prod(values)))
