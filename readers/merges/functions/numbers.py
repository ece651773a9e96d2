"""sum, product, count, max and min, with Java's results to the bit.

* Integers wrap at their own width. Division, which retracts a factor, truncates towards zero.
* FLOAT is computed in 32 bits, DOUBLE in 64, one step at a time.
* max and min order FLOAT and DOUBLE as ``Double.compare`` does: -0.0 before 0.0, NaN last.
* DECIMAL: see `decimals`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from morrow.engine.format.types import DataType, DecimalType, DoubleType, FloatType
from morrow.engine.merge.spec import AggregateCall
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.merges.functions.base import VALUE, Aggregator, Make, NoResult, State, always, unless_null
from morrow.readers.merges.functions.decimals import DecimalProduct, DecimalSum

APPROXIMATE = (FloatType, DoubleType)


class Sum(Aggregator):
    """The sum; a retraction without a previous value leaves its negative."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: unless_null(state[VALUE], new, state[VALUE] + new)}

    def retract(self, state: State, new: pl.Expr) -> State:
        return {VALUE: unless_null(state[VALUE], -new, state[VALUE] - new)}


class Product(Aggregator):
    """The product of FLOAT or DOUBLE; a retraction divides, and without a previous value leaves null."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: unless_null(state[VALUE], new, state[VALUE] * new)}

    def retract(self, state: State, new: pl.Expr) -> State:
        return {VALUE: pl.when(new.is_null()).then(state[VALUE]).otherwise(self.quotient(state[VALUE], new))}

    def quotient(self, product: pl.Expr, factor: pl.Expr) -> pl.Expr:
        return product / factor


class IntegerProduct(Product):
    """The product of integers."""

    def __init__(self, dtype: DataType) -> None:
        self.dtype = polars_dtype(dtype)

    def quotient(self, product: pl.Expr, factor: pl.Expr) -> pl.Expr:
        return pl.struct(product.alias("product"), factor.alias("factor")).map_batches(
            lambda pairs: _truncated(pairs.struct.unnest()), return_dtype=self.dtype, is_elementwise=True
        )


def _truncated(pairs: pl.DataFrame) -> pl.Series:
    """Returns the integer quotient ``product / factor``, towards zero; the lowest value by -1 wraps to itself.

    Raises:
        NoResult: a factor is zero.
    """
    product, factor = pl.col("product"), pl.col("factor")
    if pairs.select((product.is_not_null() & (factor == 0)).any()).item():
        raise NoResult(
            "an integer product cannot be divided by the retracted factor 0; Java fails as well: "
            "set 'ignore-retract' for the column to leave retractions out"
        )
    floor = product // factor
    falls_short = (floor * factor != product) & ((product < 0) != (factor < 0))
    return pairs.select(floor + falls_short.cast(pairs["product"].dtype)).to_series()


class Count(Aggregator):
    """The number of non-null values. Paimon 0.7 and 0.8 had it for INT and BIGINT; a first value is not inspected."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: state[VALUE].fill_null(0) + new.is_not_null().cast(pl.Int8)}

    def retract(self, state: State, new: pl.Expr) -> State:
        return {VALUE: state[VALUE].fill_null(0) - new.is_not_null().cast(pl.Int8)}


Less = Callable[[pl.Expr, pl.Expr], pl.Expr]


def less(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Compares values: bytes unsigned, text by its UTF-8 bytes. Polars' own order is Java's."""
    return left < right


def less_approximate(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Compares FLOAT and DOUBLE in Java's total order: Polars has NaN last too, but treats the zeros as equal."""
    return (left < right) | ((left == right) & (1 / left < 1 / right))


class Max(Aggregator):
    """The greatest value; the accumulator if equal."""

    def __init__(self, less: Less) -> None:
        self.less = less

    def agg(self, state: State, new: pl.Expr) -> State:
        greater = pl.when(self.less(state[VALUE], new)).then(new).otherwise(state[VALUE])
        return {VALUE: unless_null(state[VALUE], new, greater)}


class Min(Max):
    """The least value; the new one if equal."""

    def agg(self, state: State, new: pl.Expr) -> State:
        least = pl.when(self.less(state[VALUE], new)).then(state[VALUE]).otherwise(new)
        return {VALUE: unless_null(state[VALUE], new, least)}


def _sum(_call: AggregateCall, dtype: DataType) -> Aggregator:
    return DecimalSum(dtype) if isinstance(dtype, DecimalType) else Sum()


def _product(_call: AggregateCall, dtype: DataType) -> Aggregator:
    if isinstance(dtype, DecimalType):
        return DecimalProduct(dtype)
    return Product() if isinstance(dtype, APPROXIMATE) else IntegerProduct(dtype)


def _ordered(function: type[Max]) -> Make:
    return lambda _call, dtype: function(less_approximate if isinstance(dtype, APPROXIMATE) else less)


AGGREGATORS: Mapping[str, Make] = {
    "sum": _sum,
    "product": _product,
    "count": always(Count),
    "max": _ordered(Max),
    "min": _ordered(Min),
}
