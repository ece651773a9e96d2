"""sum and product of DECIMAL: where they round, where they become null, where they fail."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DecimalType
from morrow.readers.merges.functions import VALUE
from tests.support.aggregates import folded, function, stepped

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
    # 9 sums of 10**18 - 1 fit a long, 10 do not.
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
