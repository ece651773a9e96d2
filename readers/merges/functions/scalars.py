"""Aggregate functions of single values: sums, products, extremes, booleans, first and last values, listagg.

Numbers have Java's results to the bit:

* Integers wrap at their own width. Division, which retracts a factor, truncates towards zero.
* FLOAT is computed in 32 bits, DOUBLE in 64, one step at a time.
* max and min order FLOAT and DOUBLE as ``Double.compare`` does: -0.0 before 0.0, NaN last.

DECIMAL is computed on unscaled integers, with Java's limits:

* A sum of at most 18 digits is stored in a long that Java never checks against the precision. A DECIMAL(4, 2) may hold
  199.98, and return to its range with later retractions. Beyond a long the sum is null.
* A wider sum, and every product, is null as soon as it has more digits than the precision. The next record then starts
  again.
* Products and quotients round half up (away from zero) to the scale. A quotient must be a finite decimal, however long.

An accumulator may thus exceed its type. Arrow cannot represent that without loss, so `finish` refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation
from typing import Any

import polars as pl

from morrow.engine.format.types import MAX_DECIMAL_PRECISION, DataType, DecimalType, DoubleType, FloatType
from morrow.engine.library_versions import to_decimals
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.names import col
from morrow.readers.casts.atomic import WIDE, fit
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.merges.functions.base import (
    VALUE,
    Aggregator,
    Make,
    NoResult,
    State,
    combine_non_null,
    ignore_arguments,
)

APPROXIMATE = (FloatType, DoubleType)


class Sum(Aggregator):
    """The sum; a retraction without a previous value leaves its negative."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: combine_non_null(state[VALUE], new, state[VALUE] + new)}

    def retract(self, state: State, new: pl.Expr) -> State:
        return {VALUE: combine_non_null(state[VALUE], -new, state[VALUE] - new)}


class Product(Aggregator):
    """The product of FLOAT or DOUBLE; a retraction divides, and without a previous value leaves null."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: combine_non_null(state[VALUE], new, state[VALUE] * new)}

    def retract(self, state: State, new: pl.Expr) -> State:
        return {VALUE: pl.when(new.is_null()).then(state[VALUE]).otherwise(self.quotient(state[VALUE], new))}

    def quotient(self, product: pl.Expr, factor: pl.Expr) -> pl.Expr:
        return product / factor


class IntegerProduct(Product):
    """The product of integers."""

    def __init__(self, dtype: DataType) -> None:
        self.dtype = to_polars_dtype(dtype)

    def quotient(self, product: pl.Expr, factor: pl.Expr) -> pl.Expr:
        return pl.struct(product.alias("product"), factor.alias("factor")).map_batches(
            lambda pairs: _divide_truncating(pairs.struct.unnest()), return_dtype=self.dtype, is_elementwise=True
        )


def _divide_truncating(pairs: pl.DataFrame) -> pl.Series:
    """Return the integer quotient ``product / factor``, towards zero; the lowest value by -1 wraps to itself.

    Raises `NoResult`: a factor is zero.
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


def is_less(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Compare values: bytes unsigned, text by its UTF-8 bytes. Polars' own order is Java's."""
    return left < right


def is_less_approximate(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Compare FLOAT and DOUBLE in Java's total order: Polars has NaN last too, but treats the zeros as equal."""
    return (left < right) | ((left == right) & (1 / left < 1 / right))


class Max(Aggregator):
    """The greatest value; the accumulator if equal."""

    def __init__(self, less: Less) -> None:
        self.less = less

    def agg(self, state: State, new: pl.Expr) -> State:
        greater = pl.when(self.less(state[VALUE], new)).then(new).otherwise(state[VALUE])
        return {VALUE: combine_non_null(state[VALUE], new, greater)}


class Min(Max):
    """The least value; the new one if equal."""

    def agg(self, state: State, new: pl.Expr) -> State:
        least = pl.when(self.less(state[VALUE], new)).then(state[VALUE]).otherwise(new)
        return {VALUE: combine_non_null(state[VALUE], new, least)}


def _sum(_call: AggregateCall, dtype: DataType) -> Aggregator:
    return DecimalSum(dtype) if isinstance(dtype, DecimalType) else Sum()


def _make_product(_call: AggregateCall, dtype: DataType) -> Aggregator:
    if isinstance(dtype, DecimalType):
        return DecimalProduct(dtype)
    return Product() if isinstance(dtype, APPROXIMATE) else IntegerProduct(dtype)


def _make_ordered(function: type[Max]) -> Make:
    return lambda _call, dtype: function(is_less_approximate if isinstance(dtype, APPROXIMATE) else is_less)


NUMBER_FUNCTIONS: Mapping[str, Make] = {
    "sum": _sum,
    "product": _make_product,
    "count": ignore_arguments(Count),
    "max": _make_ordered(Max),
    "min": _make_ordered(Min),
}

COMPACT_DIGITS = 18
"""Up to this precision Java keeps the unscaled value in a long."""
LONG_MAX = 2**63 - 1
MAX_FACTOR_DIGITS = 19
"""Products of unscaled values of up to this precision fit 128 bits."""

EXACT = Context(prec=400, Emax=10**6, Emin=-(10**6), traps=[Inexact, DivisionByZero, InvalidOperation])
"""Any finite quotient of two DECIMALs has fewer than 400 digits."""


def _to_literal(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int128)


def _keep_within(unscaled: pl.Expr, low: int, high: int) -> pl.Expr:
    return pl.when(unscaled.is_between(_to_literal(low), _to_literal(high))).then(unscaled)


def _get_greatest(dtype: DecimalType) -> int:
    """Return the greatest unscaled value."""
    return int(10**dtype.precision) - 1


class _OfDecimal(Aggregator):
    def __init__(self, dtype: DecimalType) -> None:
        self.dtype = dtype
        self.column = to_polars_dtype(dtype)

    def fitting(self, unscaled: pl.Expr) -> pl.Expr:
        """Return unscaled Int128 values as values of the column; null if they have too many digits."""
        assert isinstance(self.column, pl.Decimal)
        return to_decimals(_keep_within(unscaled, -_get_greatest(self.dtype), _get_greatest(self.dtype)), self.column)


class DecimalSum(_OfDecimal):
    """The sum; a retraction without a previous value leaves its negative."""

    def agg(self, state: State, new: pl.Expr) -> State:
        total = state[VALUE].to_physical() + new.to_physical()
        return {VALUE: combine_non_null(state[VALUE], new, self._sum(total))}

    def retract(self, state: State, new: pl.Expr) -> State:
        rest = self._sum(state[VALUE].to_physical() - new.to_physical())
        negative = self.fitting(_to_literal(0) - new.to_physical())
        return {
            VALUE: pl.when(state[VALUE].is_null()).then(negative).otherwise(combine_non_null(state[VALUE], new, rest))
        }

    def _sum(self, unscaled: pl.Expr) -> pl.Expr:
        # Sums of two 38-digit numbers may wrap around 128 bits, but never back into 38 digits.
        if self.dtype.precision > COMPACT_DIGITS:
            return self.fitting(unscaled)
        wide = to_decimals(
            _keep_within(unscaled, -LONG_MAX - 1, LONG_MAX), pl.Decimal(MAX_DECIMAL_PRECISION, self.dtype.scale)
        )
        return wide.map_batches(self._narrow, return_dtype=self.column, is_elementwise=True)

    def _narrow(self, wide: pl.Series) -> pl.Series:
        """Declare the column's dtype for values that may exceed it."""
        array = wide.to_arrow(compat_level=pl.CompatLevel.oldest())
        return pl.Series(wide.name, pl.from_arrow(array.view(self.dtype.arrow())))

    def finish(self, value: pl.Expr) -> pl.Expr:
        """Return the sum itself. Raises `NoResult`: it has more digits than the column's type."""
        if self.dtype.precision > COMPACT_DIGITS:
            return value
        return value.map_batches(self._check, return_dtype=self.column, is_elementwise=True)

    def _check(self, sums: pl.Series) -> pl.Series:
        nines = _get_greatest(self.dtype)
        unscaled = sums.to_physical().rename("unscaled").to_frame()
        beyond = unscaled.filter(~pl.col("unscaled").is_between(_to_literal(-nines), _to_literal(nines)))
        if beyond.height:
            value = Decimal(beyond.item(0, 0)).scaleb(-self.dtype.scale, WIDE)
            raise NoResult(
                f"the sum {value} does not fit a column of type {self.dtype}; Java returns it regardless, "
                "Arrow cannot: widen the column's type"
            )
        return sums


class DecimalProduct(_OfDecimal):
    """The product; a retraction divides, and without a previous value leaves null."""

    def agg(self, state: State, new: pl.Expr) -> State:
        multiply = self._narrow_product if self.dtype.precision <= MAX_FACTOR_DIGITS else self._wide_product
        return {VALUE: combine_non_null(state[VALUE], new, multiply(state[VALUE], new))}

    def retract(self, state: State, new: pl.Expr) -> State:
        quotient = self._pairwise(state[VALUE], new, self._divide)
        return {VALUE: pl.when(new.is_null()).then(state[VALUE]).otherwise(quotient)}

    def _narrow_product(self, left: pl.Expr, right: pl.Expr) -> pl.Expr:
        unit = 10**self.dtype.scale
        exact = left.to_physical() * right.to_physical()
        rounded = (exact.abs() + _to_literal(unit // 2)) // _to_literal(unit)
        return self.fitting(pl.when(exact < 0).then(_to_literal(0) - rounded).otherwise(rounded))

    def _wide_product(self, left: pl.Expr, right: pl.Expr) -> pl.Expr:
        return self._pairwise(left, right, WIDE.multiply)

    def _pairwise(self, left: pl.Expr, right: pl.Expr, exact: Callable[[Decimal, Decimal], Decimal]) -> pl.Expr:
        """Compute `exact` for every pair in Python, rounded and fitted, since no engine has integers this wide."""

        def compute(pairs: pl.Series) -> pl.Series:
            values = (column.to_list() for column in pairs.struct.unnest())
            return pl.Series([self._fit(exact, *pair) for pair in zip(*values)], dtype=self.column)

        pairs = pl.struct(left.alias("left"), right.alias("right"))
        return pairs.map_batches(compute, return_dtype=self.column, is_elementwise=True)

    def _fit(
        self, exact: Callable[[Decimal, Decimal], Decimal], left: Decimal | None, right: Decimal | None
    ) -> Decimal | None:
        if left is None or right is None:
            return None
        return fit(exact(left, right), self.dtype.precision, self.dtype.scale)

    def _divide(self, product: Decimal, factor: Decimal) -> Decimal:
        try:
            return EXACT.divide(product, factor)
        except (Inexact, DivisionByZero, InvalidOperation) as error:
            raise NoResult(
                f"the product {product} of type {self.dtype} has no finite decimal quotient by the retracted factor "
                f"{factor}; Java fails as well: set 'ignore-retract' for the column to leave retractions out"
            ) from error


class BoolAnd(Aggregator):
    """The conjunction: whether all values are true."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: combine_non_null(state[VALUE], new, state[VALUE] & new)}


class BoolOr(Aggregator):
    """The disjunction: whether any value is true."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: combine_non_null(state[VALUE], new, state[VALUE] | new)}


BOOLEAN_FUNCTIONS: Mapping[str, Make] = {"bool_and": ignore_arguments(BoolAnd), "bool_or": ignore_arguments(BoolOr)}

INITIALIZED = "initialized"
"""State of the ``first_`` functions: whether they have taken their value."""


class LastValue(Aggregator):
    """The newest value, null or not; a retraction clears it."""

    picks = True

    def agg(self, state: State, new: pl.Expr) -> State:
        return {**state, VALUE: new}

    def retract(self, state: State, new: pl.Expr) -> State:  # noqa: ARG002
        return {**state, VALUE: pl.lit(None)}


class LastNonNullValue(Aggregator):
    """The newest non-null value; a retraction of any non-null value clears it."""

    picks = True

    def agg(self, state: State, new: pl.Expr) -> State:
        return {**state, VALUE: pl.coalesce(new, state[VALUE])}

    def retract(self, state: State, new: pl.Expr) -> State:
        return {**state, VALUE: pl.when(new.is_null()).then(state[VALUE])}


class _First(Aggregator):
    """A function that takes one value and keeps it as the accumulator.

    In a reversed step, accumulator and value are swapped, so the older record's value is kept, even a null for
    ``first_non_null_value``. If no value was taken yet, a reversed step marks the accumulator itself as taken.
    """

    picks = True
    extra_state: Mapping[str, tuple[pl.DataType, Any]] = {INITIALIZED: (pl.Boolean(), False)}

    def takes(self, state: State, new: pl.Expr) -> pl.Expr:
        """Return whether this is the value to take."""
        raise NotImplementedError

    def agg(self, state: State, new: pl.Expr) -> State:
        takes = self.takes(state, new)
        return {
            VALUE: pl.when(takes).then(new).otherwise(state[VALUE]),
            INITIALIZED: state[INITIALIZED] | takes,
        }


class FirstValue(_First):
    """The value of the first record, null or not."""

    def takes(self, state: State, new: pl.Expr) -> pl.Expr:  # noqa: ARG002
        return ~state[INITIALIZED]


class FirstNonNullValue(_First):
    """The first non-null value."""

    def takes(self, state: State, new: pl.Expr) -> pl.Expr:
        return ~state[INITIALIZED] & new.is_not_null()


class PrimaryKey(LastValue):
    """Java's function of key columns: the value of the newest record, including retractions."""

    def retract(self, state: State, new: pl.Expr) -> State:
        return self.agg(state, new)


SELECTION_FUNCTIONS: Mapping[str, Make] = {
    "last_value": ignore_arguments(LastValue),
    "last_non_null_value": ignore_arguments(LastNonNullValue),
    "first_value": ignore_arguments(FirstValue),
    "first_non_null_value": ignore_arguments(FirstNonNullValue),
    "primary-key": ignore_arguments(PrimaryKey),
}

BLANK = " "
"""The separator for splitting texts if the delimiter is empty."""


class ListAgg(Aggregator):
    """The concatenation of texts. A single value stays as it is, even empty."""

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter

    def agg(self, state: State, new: pl.Expr) -> State:
        text = state[VALUE]
        joined = pl.when(new == "").then(text).when(text == "").then(new).otherwise(self.joined(text, new))
        return {VALUE: combine_non_null(text, new, joined)}

    def joined(self, text: pl.Expr, new: pl.Expr) -> pl.Expr:
        """Join two texts, which are neither null nor empty."""
        return pl.concat_str(text, pl.lit(self.delimiter), new)


class ListAggDistinct(ListAgg):
    """The concatenation of tokens (split at the delimiter, empty ones left out) that are not present yet.

    The accumulator stays as it is: a first value may repeat a token.
    """

    def joined(self, text: pl.Expr, new: pl.Expr) -> pl.Expr:
        pairs = pl.struct(text.alias("text"), new.alias("new"))
        return pairs.map_batches(self._append, return_dtype=pl.String(), is_elementwise=True)

    def _append(self, pairs: pl.Series) -> pl.Series:
        rows = pairs.struct.unnest().with_row_index("row")
        present = rows.select("row", token=self._tokens("text")).explode("token", empty_as_null=False)
        offered = (
            rows.select("row", token=self._tokens("new"))
            .explode("token", empty_as_null=False)
            .filter(pl.col("token") != "")
        )
        added = (
            offered.unique(maintain_order=True)
            .join(present, on=["row", "token"], how="anti", maintain_order="left")
            .group_by("row", maintain_order=True)
            .agg(pl.col("token").str.join(self.delimiter))
        )
        result = rows.join(added, on="row", how="left", maintain_order="left")
        more = pl.concat_str("text", pl.lit(self.delimiter), "token")
        return result.select(pl.when(pl.col("token").is_null()).then("text").otherwise(more)).to_series()

    def _tokens(self, column: str) -> pl.Expr:
        return col(column).str.split(self.delimiter or BLANK, literal=True)


def _make_listagg(call: AggregateCall, _dtype: DataType) -> Aggregator:
    return ListAggDistinct(call.delimiter) if call.distinct else ListAgg(call.delimiter)


TEXT_FUNCTIONS: Mapping[str, Make] = {"listagg": _make_listagg}
