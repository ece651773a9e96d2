"""sum and product of DECIMAL, as Java computes them: on unscaled integers, with its limits.

* A sum of at most 18 digits is kept in a long that Java never checks against the precision: DECIMAL(4, 2) holds 199.98,
  and returns to its range with later retractions. Beyond a long the sum is null.
* A wider sum, and every product, is null as soon as it has more digits than the precision. The next record then starts
  anew.
* Products and quotients round half up (away from zero) to the scale. A quotient must be a finite decimal, however long.

An accumulator may thus exceed its type. Arrow cannot represent that without loss, so `finish` refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation

import polars as pl

from morrow.engine.format.types import MAX_DECIMAL_PRECISION, DecimalType
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.casts.numeric import WIDE, fit
from morrow.readers.merges.functions.base import VALUE, Aggregator, NoResult, State, unless_null

COMPACT_DIGITS = 18
"""Up to this precision Java keeps the unscaled value in a long."""
LONG_MAX = 2**63 - 1
FACTOR_DIGITS = 19
"""Products of unscaled values of up to this precision fit 128 bits."""

EXACT = Context(prec=400, Emax=10**6, Emin=-(10**6), traps=[Inexact, DivisionByZero, InvalidOperation])
"""Any finite quotient of two DECIMALs has fewer than 400 digits."""


def _integer(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.Int128)


def _within(unscaled: pl.Expr, low: int, high: int) -> pl.Expr:
    return pl.when(unscaled.is_between(_integer(low), _integer(high))).then(unscaled)


def _nines(dtype: DecimalType) -> int:
    """Returns the greatest unscaled value."""
    return int(10**dtype.precision) - 1


class _OfDecimal(Aggregator):
    def __init__(self, dtype: DecimalType) -> None:
        self.dtype = dtype
        self.column = polars_dtype(dtype)

    def fitting(self, unscaled: pl.Expr) -> pl.Expr:
        """Returns unscaled Int128 values as values of the column, null where there are too many digits."""
        return _within(unscaled, -_nines(self.dtype), _nines(self.dtype)).reinterpret(dtype=self.column)


class DecimalSum(_OfDecimal):
    """The sum; a retraction without a previous value leaves its negative."""

    def agg(self, state: State, new: pl.Expr) -> State:
        total = state[VALUE].to_physical() + new.to_physical()
        return {VALUE: unless_null(state[VALUE], new, self._sum(total))}

    def retract(self, state: State, new: pl.Expr) -> State:
        rest = self._sum(state[VALUE].to_physical() - new.to_physical())
        negative = self.fitting(_integer(0) - new.to_physical())
        return {VALUE: pl.when(state[VALUE].is_null()).then(negative).otherwise(unless_null(state[VALUE], new, rest))}

    def _sum(self, unscaled: pl.Expr) -> pl.Expr:
        # Sums of two 38-digit numbers may wrap around 128 bits, but never back into 38 digits.
        if self.dtype.precision > COMPACT_DIGITS:
            return self.fitting(unscaled)
        return (
            _within(unscaled, -LONG_MAX - 1, LONG_MAX)
            .reinterpret(dtype=pl.Decimal(MAX_DECIMAL_PRECISION, self.dtype.scale))
            .map_batches(self._narrow, return_dtype=self.column, is_elementwise=True)
        )

    def _narrow(self, wide: pl.Series) -> pl.Series:
        """Declares the column's dtype for values that may exceed it."""
        array = wide.to_arrow(compat_level=pl.CompatLevel.oldest())
        return pl.Series(wide.name, pl.from_arrow(array.view(self.dtype.arrow())))

    def finish(self, value: pl.Expr) -> pl.Expr:
        """Returns the sum itself.

        Raises:
            NoResult: it has more digits than the column's type.
        """
        if self.dtype.precision > COMPACT_DIGITS:
            return value
        return value.map_batches(self._checked, return_dtype=self.column, is_elementwise=True)

    def _checked(self, sums: pl.Series) -> pl.Series:
        nines = _nines(self.dtype)
        unscaled = sums.to_physical().rename("unscaled").to_frame()
        beyond = unscaled.filter(~pl.col("unscaled").is_between(_integer(-nines), _integer(nines)))
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
        multiply = self._narrow_product if self.dtype.precision <= FACTOR_DIGITS else self._wide_product
        return {VALUE: unless_null(state[VALUE], new, multiply(state[VALUE], new))}

    def retract(self, state: State, new: pl.Expr) -> State:
        quotient = self._pairwise(state[VALUE], new, self._divided)
        return {VALUE: pl.when(new.is_null()).then(state[VALUE]).otherwise(quotient)}

    def _narrow_product(self, left: pl.Expr, right: pl.Expr) -> pl.Expr:
        unit = 10**self.dtype.scale
        exact = left.to_physical() * right.to_physical()
        rounded = (exact.abs() + _integer(unit // 2)) // _integer(unit)
        return self.fitting(pl.when(exact < 0).then(_integer(0) - rounded).otherwise(rounded))

    def _wide_product(self, left: pl.Expr, right: pl.Expr) -> pl.Expr:
        return self._pairwise(left, right, WIDE.multiply)

    def _pairwise(self, left: pl.Expr, right: pl.Expr, exact: Callable[[Decimal, Decimal], Decimal]) -> pl.Expr:
        """Computes `exact` of every pair in Python, rounded and fitted: no engine has integers of this width."""

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

    def _divided(self, product: Decimal, factor: Decimal) -> Decimal:
        try:
            return EXACT.divide(product, factor)
        except (Inexact, DivisionByZero, InvalidOperation) as error:
            raise NoResult(
                f"the product {product} of type {self.dtype} has no finite decimal quotient by the retracted factor "
                f"{factor}; Java fails as well: set 'ignore-retract' for the column to leave retractions out"
            ) from error
