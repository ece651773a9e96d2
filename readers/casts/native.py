"""Casts within a Polars query: a native expression where Polars gives exactly Java's result, else `arrow_cast`."""

from __future__ import annotations

import polars as pl

from morrow.engine.format import types as t
from morrow.engine.format.type_equality import same_values
from morrow.readers.casts.base import Cast, TypeChange, apply
from morrow.readers.casts.dtypes import polars_dtype, to_arrow_array, to_series
from morrow.readers.casts.rules import require_allowed

WHOLE_DIGITS: dict[type[t.DataType], int] = {t.TinyIntType: 3, t.SmallIntType: 5, t.IntType: 10, t.BigIntType: 19}
"""Integers by width; the decimal digits that each may have."""
WIDTHS = tuple(WHOLE_DIGITS)


def polars_cast(expr: pl.Expr, source: t.DataType, target: t.DataType) -> pl.Expr | None:
    """Returns the cast as a native expression; None where Polars does not give exactly Java's result.

    Native are: integers, FLOAT and DECIMAL that grow, integers to FLOAT, DOUBLE and wide enough DECIMAL, lengths that
    grow, timestamp precisions that grow (to microseconds: nanoseconds overflow), integers to BOOLEAN and STRING.
    """
    if same_values(source, target):
        return expr
    if _is_renaming(source, target):
        return expr
    return expr.cast(polars_dtype(target)) if _is_exact(source, target) else None


def _is_renaming(source: t.DataType, target: t.DataType) -> bool:
    """Returns whether both types have the same dtype in Polars and the cast changes no value."""
    if isinstance(target, t.VarCharType) and isinstance(source, t.CharType | t.VarCharType):
        return target.length >= source.length
    if isinstance(target, t.VarBinaryType) and isinstance(source, t.BinaryType | t.VarBinaryType):
        return target.length >= source.length
    return False


def _is_exact(source: t.DataType, target: t.DataType) -> bool:
    kind, goal = source.__class__, target.__class__
    if kind in WIDTHS:
        if goal in WIDTHS:
            return WIDTHS.index(goal) > WIDTHS.index(kind)
        if isinstance(target, t.DecimalType):
            return target.precision - target.scale >= WHOLE_DIGITS[kind]
        return goal in (t.FloatType, t.DoubleType, t.BooleanType) or target == t.VarCharType()
    if isinstance(source, t.DecimalType) and isinstance(target, t.DecimalType):
        grows = target.precision - target.scale >= source.precision - source.scale
        return grows and target.scale >= source.scale
    for stamp in (t.TimestampType, t.LocalZonedTimestampType):
        if isinstance(source, stamp) and isinstance(target, stamp):
            return source.precision <= target.precision <= t.ARROW_MICROS_PRECISION
    return kind is t.FloatType and goal is t.DoubleType


def cast_expression(
    expr: pl.Expr,
    source: t.DataType,
    target: t.DataType,
    *,
    where: str | None = None,
    zone: str = "UTC",
    change: TypeChange | None = None,
) -> pl.Expr:
    """Returns the cast as a lazy expression, native or through Arrow for this one column; see `arrow_cast`.

    Args:
        change: the change of the column's type, for errors of values.

    Raises:
        Unsupported: Java has no such cast. Values that cannot be cast fail when the query runs.
    """
    require_allowed(source, target, where=where)
    native = polars_cast(expr, source, target)
    if native is not None:
        return native

    def cast(series: pl.Series) -> pl.Series:
        made = apply(to_arrow_array(series, source), Cast(source, target, zone, where, change))
        return to_series(series.name, made, target)

    return expr.map_batches(cast, return_dtype=polars_dtype(target), is_elementwise=True)
