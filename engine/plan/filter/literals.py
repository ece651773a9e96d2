"""Exact rewriting of comparisons with any literal to literals in the column's own type.

A column type is a grid of values on a line: integers, multiples of 10^-scale, milliseconds, float32. A literal lies on
that grid, between two of its points, or beyond its ends. For example, ``x > 10.5`` on an INT column is ``x > 10``, ``x
= 10.5`` is never true, and ``x < 1e9`` is true for every non-null SMALLINT. Nothing is rounded.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from morrow.engine.format import types as t
from morrow.engine.plan.predicate import NEVER, Leaf, Op, Predicate, Value

INTEGER_BITS: dict[type[t.DataType], int] = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}
STRING_TYPES = (t.CharType, t.VarCharType)
BINARY_TYPES = (t.BinaryType, t.VarBinaryType)
TIMESTAMP_TYPES = (t.TimestampType, t.LocalZonedTimestampType)
FLOAT_TYPES = (t.FloatType, t.DoubleType)

MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
EPOCH = dt.datetime(1970, 1, 1)
NANOS_RANGE = (
    EPOCH - dt.timedelta(microseconds=2**63 // 1000),
    EPOCH + dt.timedelta(microseconds=(2**63 - 1) // 1000),
)
"""The range of microseconds that fit int64 nanoseconds: the years 1677 to 2262."""


@dataclass(frozen=True)
class Snap:
    """A literal's position on a column's grid: `below` is the greatest value not above it, None if all are above."""

    below: Value | None
    exact: bool = False
    above_all: bool = False
    """Whether the literal is greater than every value of the type (and `below` is the greatest)."""


def build_comparison(column: t.DataField, op: Op, value: Value) -> Predicate | None:
    """Return ``column op value`` as a predicate with the same truth for every value of the column, null included.

    `op` is one of ``= != < <= > >=``. Floats are ordered as in Polars and DuckDB: NaN equals itself and is greatest.
    Returns None if the column's and the literal's types are not comparable without a cast of the column.
    """
    snap = snap_literal(column.type, value)
    if snap is None:
        return None
    if isinstance(column.type, t.BooleanType):
        return _compare_boolean(column.name, op, bool(value))
    if snap.exact and snap.below is not None:
        return Leaf(column.name, op, (snap.below,))
    return _compare_between_points(column.name, op, snap)


def build_membership(column: t.DataField, values: Iterable[Value], *, negated: bool = False) -> Predicate | None:
    """Return ``column [NOT] IN (values)`` as a predicate; None as in `build_comparison`. Values may not be null."""
    snaps = [snap_literal(column.type, value) for value in values]
    if any(snap is None for snap in snaps):
        return None
    kept = tuple(dict.fromkeys(s.below for s in snaps if s is not None and s.exact and s.below is not None))
    if not kept:
        return build_is_not_null(column) if negated else NEVER
    if len(kept) == 1:
        return build_comparison(column, Op.NE if negated else Op.EQ, kept[0])
    return Leaf(column.name, Op.NOT_IN if negated else Op.IN, kept)


def build_is_null(column: t.DataField) -> Predicate:
    return Leaf(column.name, Op.IS_NULL)


def build_is_not_null(column: t.DataField) -> Predicate:
    return Leaf(column.name, Op.IS_NOT_NULL)


def snap_literal(kind: t.DataType, value: Value) -> Snap | None:
    """Return the position of `value` on the grid of a type, None if the two are not comparable."""
    snap = _SNAPS.get(type(kind))
    return snap(kind, value) if snap else None


def _compare_between_points(name: str, op: Op, snap: Snap) -> Predicate:
    everything = Leaf(name, Op.IS_NOT_NULL)
    if op in (Op.EQ, Op.NE):
        return NEVER if op is Op.EQ else everything
    if op in (Op.GT, Op.GE):
        if snap.above_all:
            return NEVER
        return everything if snap.below is None else Leaf(name, Op.GT, (snap.below,))
    if snap.above_all:
        return everything
    return NEVER if snap.below is None else Leaf(name, Op.LE, (snap.below,))


def _compare_boolean(name: str, op: Op, value: bool) -> Predicate:
    """Compare booleans: false < true, so every comparison selects one of the two, both, or neither."""
    ordered: dict[Op, Callable[[bool], bool]] = {
        Op.EQ: lambda x: x == value,
        Op.NE: lambda x: x != value,
        Op.LT: lambda x: x < value,
        Op.LE: lambda x: x <= value,
        Op.GT: lambda x: x > value,
        Op.GE: lambda x: x >= value,
    }
    matching = [x for x in (False, True) if ordered[op](x)]
    if len(matching) == 1:
        return Leaf(name, Op.EQ, (matching[0],))
    return Leaf(name, Op.IS_NOT_NULL) if matching else NEVER


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _snap_to_grid(value: Any, lowest: int, highest: int, step: Fraction, build: Callable[[int], Value]) -> Snap:
    """Snap a real number to the multiples ``lowest*step .. highest*step``."""
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        beyond = not value < 0 if value == value else True
        return Snap(build(highest), above_all=True) if beyond else Snap(None)
    steps = Fraction(value) / step
    index = math.floor(steps)
    if index < lowest:
        return Snap(None)
    if index > highest or (index == highest and steps != index):
        return Snap(build(highest), above_all=True)
    return Snap(build(index), exact=steps == index)


def _snap_integer(kind: t.DataType, value: Value) -> Snap | None:
    if not _is_real(value):
        return None
    half = 1 << (INTEGER_BITS[type(kind)] - 1)
    if isinstance(value, int) and -half <= value < half:
        return Snap(value, exact=True)
    return _snap_to_grid(value, -half, half - 1, Fraction(1), int)


def _snap_decimal(kind: t.DataType, value: Value) -> Snap | None:
    assert isinstance(kind, t.DecimalType)
    if not _is_real(value):
        return None
    scale, limit = kind.scale, 10**kind.precision - 1
    exact = Context(prec=kind.precision + 1, rounding=ROUND_FLOOR)
    return _snap_to_grid(
        value, -limit, limit, Fraction(1, 10**scale), lambda i: Decimal(i).scaleb(-scale, context=exact)
    )


def _snap_float(kind: t.DataType, value: Value) -> Snap | None:
    """Snap to the grid of IEEE numbers: -inf, the finite ones, +inf, NaN."""
    if not _is_real(value):
        return None
    assert isinstance(value, (int, float, Decimal))
    if value != value or value in (math.inf, -math.inf):
        return Snap(float(value), exact=True)
    if value == 0:
        return Snap(0.0, exact=True)
    dtype: Any = np.float32 if isinstance(kind, t.FloatType) else np.float64
    wanted = Fraction(value)
    largest = float(np.finfo(dtype).max)
    if abs(wanted) > Fraction(largest):
        return Snap(largest if wanted > 0 else -math.inf)
    near = float(dtype(float(value)))
    near = math.copysign(largest, near) if math.isinf(near) else near
    if Fraction(near) > wanted:
        near = float(np.nextafter(dtype(near), dtype(-math.inf)))
    return Snap(near + 0.0, exact=Fraction(near) == wanted)


def _snap_date(kind: t.DataType, value: Value) -> Snap | None:  # noqa: ARG001 - same signature as the others
    if isinstance(value, dt.datetime):
        return Snap(value.date(), exact=value.time() == dt.time()) if value.tzinfo is None else None
    return Snap(value, exact=True) if isinstance(value, dt.date) else None


def _snap_time(kind: t.DataType, value: Value) -> Snap | None:  # noqa: ARG001 - Paimon keeps milliseconds in any TIME(p)
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        return None
    fraction = value.microsecond % MICROS_PER_UNIT["ms"]
    return Snap(value.replace(microsecond=value.microsecond - fraction), exact=fraction == 0)


def _snap_timestamp(kind: t.DataType, value: Value) -> Snap | None:
    """Snap timestamps: TIMESTAMP accepts naive values, TIMESTAMP_LTZ aware; a DATE is its midnight (UTC for LTZ)."""
    assert isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType))
    zoned = isinstance(kind, t.LocalZonedTimestampType)
    if not isinstance(value, dt.date):
        return None
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    if moment.tzinfo is not None:
        if not zoned:
            return None
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)

    def build(naive: dt.datetime) -> Value:
        return naive.replace(tzinfo=dt.UTC) if zoned else naive

    unit = t.to_arrow_time_unit(kind.precision)
    if unit == "ns":
        lowest, highest = NANOS_RANGE
        if moment < lowest:
            return Snap(None)
        return Snap(build(highest), above_all=True) if moment > highest else Snap(build(moment), exact=True)
    fraction = (moment - EPOCH) // dt.timedelta(microseconds=1) % MICROS_PER_UNIT[unit]
    return Snap(build(moment - dt.timedelta(microseconds=fraction)), exact=fraction == 0)


def _snap_only(kind: type) -> Callable[[t.DataType, Value], Snap | None]:
    """Return the snap function of types that compare only with literals of a single Python type."""
    return lambda _type, value: Snap(value, exact=True) if type(value) is kind else None


_SNAPS: dict[type[t.DataType], Callable[[t.DataType, Value], Snap | None]] = {
    **dict.fromkeys(INTEGER_BITS, _snap_integer),
    **dict.fromkeys(FLOAT_TYPES, _snap_float),
    **dict.fromkeys(TIMESTAMP_TYPES, _snap_timestamp),
    **dict.fromkeys(STRING_TYPES, _snap_only(str)),
    **dict.fromkeys(BINARY_TYPES, _snap_only(bytes)),
    t.BooleanType: _snap_only(bool),
    t.DecimalType: _snap_decimal,
    t.DateType: _snap_date,
    t.TimeType: _snap_time,
}
