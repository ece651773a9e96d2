"""sum, product, count, max and min of numbers, and of all other types with an order."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import (
    ArrayType,
    BigIntType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    TimestampType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from morrow.readers.merges.functions.base import VALUE
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
        (VarCharType(), "\ue000", "\U00010000"),  # by UTF-8 bytes; the order in UTF-16 is the opposite
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
        assert function(name, IntType()).retract({}, None) is None  # type: ignore[arg-type]  # both are ignored


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
def test_folds_are_those_of_python(values: list[int]) -> None:
    def fold(name: str) -> Any:
        return folded(name, BigIntType(), *(("agg", value) for value in values))

    def wrapped(exact: int) -> int:
        return (exact + 2**63) % 2**64 - 2**63

    assert (fold("max"), fold("min"), fold("count")) == (max(values), min(values), len(values))
    assert (fold("sum"), fold("product")) == (wrapped(sum(values)), wrapped(math.prod(values)))


# sum and product of DECIMAL: rounding, results that become null, and errors.

D = Decimal
MONEY = DecimalType(precision=4, scale=2)
NINES_38 = 10**38 - 1
WIDE = Context(prec=400, rounding=ROUND_HALF_UP)


def decimal(precision: int, scale: int) -> DecimalType:
    return DecimalType(precision=precision, scale=scale)


def test_sums() -> None:
    pairs = [(None, None), (None, D("1.50")), (D("1.50"), None), (D("1.50"), D("-0.25"))]
    assert stepped("agg", "sum", MONEY, pairs) == [None, D("1.50"), D("1.50"), D("1.25")]
    assert stepped("retract", "sum", MONEY, pairs) == [None, D("-1.50"), D("1.50"), D("1.75")]


def test_a_small_sum_may_leave_its_precision_and_come_back() -> None:
    steps = [("agg", D("99.99")), ("agg", D("99.99")), ("retract", D("99.98"))]
    assert folded("sum", MONEY, *steps, ("retract", D("0.01"))) == D("99.99")
    with pytest.raises(Unsupported, match=r"^the sum 100\.00 does not fit a column of type DECIMAL\(4, 2\); .*type$"):
        folded("sum", MONEY, *steps)


def test_a_small_sum_is_null_beyond_a_long() -> None:
    column = decimal(18, 0)
    # Nine times 10**18 - 1 fits a long, ten times does not.
    most = [("agg", D(10**18 - 1))] * 9
    assert folded("sum", column, *most, *[("retract", D(10**18 - 1))] * 8) == D(10**18 - 1)
    assert folded("sum", column, *most, ("agg", D(10**18 - 1))) is None
    assert folded("sum", column, *most, ("agg", D(10**18 - 1)), ("agg", D(5))) == D(5)


@pytest.mark.parametrize("precision", [19, 37, 38])
def test_a_wide_sum_is_null_beyond_its_precision(precision: int) -> None:
    nines, minus_nines = D(10**precision - 1), D(1 - 10**precision)
    pairs = [(nines, D(1)), (nines, nines), (minus_nines, minus_nines), (nines, minus_nines), (nines, D(0))]
    assert stepped("agg", "sum", decimal(precision, 0), pairs) == [None, None, None, D(0), nines]
    pairs = [(minus_nines, D(1)), (minus_nines, nines), (nines, nines)]
    assert stepped("retract", "sum", decimal(precision, 0), pairs) == [None, None, D(0)]


def test_products_round_half_away_from_zero() -> None:
    pairs = [(D("1.25"), D("0.10")), (D("-1.25"), D("0.10")), (D("0.04"), D("0.10")), (D("1.24"), D("0.10"))]
    for precision in (4, 19, 20):
        products = stepped("agg", "product", decimal(precision, 2), pairs)
        assert products == [D("0.13"), D("-0.13"), D("0.00"), D("0.12")]


def test_a_product_is_null_beyond_its_precision_and_begins_anew() -> None:
    assert folded("product", MONEY, ("agg", D("99.99")), ("agg", D("2.00"))) is None
    assert folded("product", MONEY, ("agg", D("99.99")), ("agg", D("2.00")), ("agg", D("3.00"))) == D("3.00")
    assert stepped("agg", "product", decimal(38, 0), [(D(NINES_38), D(NINES_38)), (D(NINES_38), D(-1))]) == [
        None,
        D(-NINES_38),
    ]


def test_quotients() -> None:
    pairs = [
        (None, D("2.00")),
        (D("1.00"), None),
        (D("1.00"), D("8.00")),
        (D("-1.00"), D("8.00")),
        (D("9.99"), D("0.01")),
    ]
    expected = [None, D("1.00"), D("0.13"), D("-0.13"), None]
    assert stepped("retract", "product", decimal(3, 2), pairs) == expected


@pytest.mark.parametrize(("product", "factor"), [("1.00", "3.00"), ("1.00", "0.00"), ("0.00", "0.00")])
def test_a_quotient_that_is_no_finite_decimal_fails(product: str, factor: str) -> None:
    with pytest.raises(
        Unsupported, match=f"the product {product} .* has no finite decimal quotient .* {factor}; .* out$"
    ):
        stepped("retract", "product", MONEY, [(D(product), D(factor))])


def test_rows_that_are_not_chosen_may_be_null() -> None:
    compiled = function("product", MONEY)
    frame = pl.DataFrame({"acc": [D("1.00")], "new": [None]}, schema={"acc": pl.Decimal(4, 2), "new": pl.Decimal(4, 2)})
    after = compiled.retract({VALUE: pl.col("acc")}, pl.col("new"))
    assert after is not None and frame.select(after[VALUE]).item() == D("1.00")


@given(st.data(), st.integers(1, 38))
def test_products_are_those_of_python(data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, precision))
    nines = 10**precision - 1
    unscaled = st.integers(-nines, nines) | st.integers(max(-nines, -1000), min(nines, 1000))
    left, right = (D(data.draw(unscaled)).scaleb(-scale, WIDE) for _ in range(2))
    product = WIDE.multiply(left, right).quantize(D(1).scaleb(-scale), context=WIDE)
    fits = abs(int(product.scaleb(scale, WIDE))) <= nines
    assert stepped("agg", "product", decimal(precision, scale), [(left, right)]) == [product if fits else None]


# bool_and and bool_or ignore nulls.

PAIRS_BOOLEANS = [(a, b) for a in (None, False, True) for b in (None, False, True)]


def test_bool_and() -> None:
    expected = [None, False, True, False, False, False, True, False, True]
    assert stepped("agg", "bool_and", BooleanType(), PAIRS_BOOLEANS) == expected


def test_bool_or() -> None:
    expected = [None, False, True, False, False, True, True, True, True]
    assert stepped("agg", "bool_or", BooleanType(), PAIRS_BOOLEANS) == expected


def test_neither_can_be_retracted() -> None:
    for name in ("bool_and", "bool_or"):
        assert function(name, BooleanType()).retract({}, None) is None  # type: ignore[arg-type]  # both are ignored


@given(st.lists(st.booleans(), min_size=1))
def test_folds_are_all_and_any(values: list[bool]) -> None:
    steps = [("agg", value) for value in values]
    assert folded("bool_and", BooleanType(), *steps) is all(values)
    assert folded("bool_or", BooleanType(), *steps) is any(values)


# First and last values, with and without nulls: which value stays, also after retractions and older records.

TEXT = VarCharType()
# Accumulator and new value: all combinations of nulls.
PAIRS_PICKS = [(None, None), (None, "new"), ("acc", None), ("acc", "new")]


@pytest.mark.parametrize(
    ("name", "step", "expected"),
    [
        ("last_value", "agg", [None, "new", None, "new"]),
        ("last_value", "agg_reversed", [None, None, "acc", "acc"]),
        ("last_value", "retract", [None, None, None, None]),
        ("last_non_null_value", "agg", [None, "new", "acc", "new"]),
        ("last_non_null_value", "agg_reversed", [None, "new", "acc", "acc"]),
        ("last_non_null_value", "retract", [None, None, "acc", None]),
        ("primary-key", "agg", [None, "new", None, "new"]),
        ("primary-key", "retract", [None, "new", None, "new"]),
        # These functions start without an accumulator here, so the new value is their first.
        ("first_value", "agg", [None, "new", None, "new"]),
        ("first_value", "agg_reversed", [None, None, "acc", "acc"]),
        ("first_non_null_value", "agg", [None, "new", "acc", "new"]),
        ("first_non_null_value", "agg_reversed", [None, "new", "acc", "acc"]),
    ],
)
def test_one_step_picks(name: str, step: str, expected: list[Any]) -> None:
    value = stepped(step, name, TEXT, PAIRS_PICKS)
    assert (
        value if len(value) == len(PAIRS_PICKS) else value * len(PAIRS_PICKS)
    ) == expected  # a null literal is one row


def test_first_value_keeps_a_null() -> None:
    assert folded("first_value", TEXT, ("agg", None), ("agg", "a"), ("agg", "b")) is None
    assert folded("first_non_null_value", TEXT, ("agg", None), ("agg", "a"), ("agg", "b")) == "a"


def test_an_older_record_is_a_better_first_value() -> None:
    assert folded("first_value", TEXT, ("agg", "b"), ("agg_reversed", "a"), ("agg", "c")) == "a"


def test_an_older_null_replaces_the_first_value_as_in_java() -> None:
    for name in ("first_value", "first_non_null_value"):
        assert folded(name, TEXT, ("agg", "b"), ("agg_reversed", None)) is None


def test_a_reversed_step_that_finds_nothing_taken_takes_the_accumulator() -> None:
    # The swapped step sees only the null accumulator, which first_value mistakes for the first value.
    assert folded("first_value", TEXT, ("agg_reversed", "a"), ("agg", "b")) is None
    assert folded("first_non_null_value", TEXT, ("agg_reversed", "a"), ("agg", "b")) == "b"


def test_all_of_them_pick_and_so_take_columns_of_every_type() -> None:
    for name in ("last_value", "last_non_null_value", "first_value", "first_non_null_value", "primary-key"):
        assert function(name, ArrayType(element=IntType())).picks


def test_first_values_cannot_be_retracted() -> None:
    for name in ("first_value", "first_non_null_value"):
        compiled = function(name, TEXT)
        assert compiled.retract({}, None) is None  # type: ignore[arg-type]  # both are ignored


@given(st.lists(st.none() | st.integers(-5, 5), min_size=1))
def test_folds_pick_what_their_names_say(values: list[int | None]) -> None:
    def fold(name: str) -> Any:
        return folded(name, IntType(), *(("agg", value) for value in values))

    present = [value for value in values if value is not None]
    first, last = (present[0], present[-1]) if present else (None, None)
    assert (fold("first_value"), fold("last_value")) == (values[0], values[-1])
    assert (fold("first_non_null_value"), fold("last_non_null_value")) == (first, last)


# listagg: appended texts, and texts that distinct leaves out.


def test_nulls_and_empty_texts_are_left_out() -> None:
    pairs = [
        (None, None),
        (None, "b"),
        ("a", None),
        ("a", "b"),
        ("a", ""),
        ("", "b"),
        (None, ""),
        ("", None),
        ("a", " "),
    ]
    expected = [None, "b", "a", "a,b", "a", "b", "", "", "a, "]
    assert stepped("agg", "listagg", TEXT, pairs) == expected
    assert stepped("agg", "listagg", TEXT, pairs, distinct=True) == expected


def test_the_delimiter_may_be_any_text() -> None:
    assert stepped("agg", "listagg", TEXT, [("a", "b")], delimiter=" - ") == ["a - b"]
    assert stepped("agg", "listagg", TEXT, [("a", "b")], delimiter="") == ["ab"]


@pytest.mark.parametrize(
    ("acc", "new", "expected"),
    [
        ("a", "a", "a"),
        ("a,b", "b,c", "a,b,c"),
        ("a", "c,b,c,a", "a,c,b"),  # tokens keep their own order, each once
        ("a", "b,,c,", "a,b,c"),  # empty tokens are dropped
        ("a,a,,", "b", "a,a,,,b"),  # the accumulator stays as it is
        ("a", ",", "a"),
        ("aa", "a", "aa,a"),  # only whole tokens are equal
        ("é", "𐀀,é", "é,𐀀"),
    ],
)
def test_distinct_appends_new_tokens(acc: str, new: str, expected: str) -> None:
    assert stepped("agg", "listagg", TEXT, [(acc, new)], distinct=True) == [expected]


def test_distinct_with_an_empty_delimiter_splits_at_blanks() -> None:
    assert stepped("agg", "listagg", TEXT, [("a b", "b c")], distinct=True, delimiter="") == ["a bc"]


def test_the_delimiter_is_no_pattern() -> None:
    assert stepped("agg", "listagg", TEXT, [("a.b", "b.c")], distinct=True, delimiter=".") == ["a.b.c"]


def test_a_first_value_is_not_looked_into() -> None:
    assert folded("listagg", TEXT, ("agg", "a,a,,b"), distinct=True) == "a,a,,b"


def test_an_older_text_goes_before() -> None:
    assert folded("listagg", TEXT, ("agg", "b"), ("agg_reversed", "a")) == "a,b"


def test_it_cannot_be_retracted() -> None:
    assert function("listagg", TEXT).retract({}, None) is None  # type: ignore[arg-type]  # both are ignored


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", "ab", ""])).map(";".join), min_size=1, max_size=5))
def test_distinct_is_a_set_in_order(texts: list[str]) -> None:
    expected, *rest = [text for text in texts if text] or [""]
    for token in ";".join(rest).split(";"):
        expected += f";{token}" if token and token not in expected.split(";") else ""
    assert folded("listagg", TEXT, *(("agg", text) for text in texts), distinct=True, delimiter=";") == expected
