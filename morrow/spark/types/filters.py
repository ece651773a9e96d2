"""Spark's filters as predicates: Morrow tests those that can be translated exactly, Spark the others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from morrow.engine.format import types as t
from morrow.engine.format.types import DataField, DataType
from morrow.engine.plan.filter.literals import comparison, is_null, membership, not_null
from morrow.engine.plan.predicate import NEVER, Leaf, Op, Or, Predicate

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

MICROSECONDS = 6
"""The precision of Spark's timestamps. Finer ones are truncated for Spark, where comparisons may then differ."""

NUMBERS = (int, float, Decimal)
TEXTS = (t.CharType, t.VarCharType)

VALUES: Mapping[type[DataType], tuple[type, ...]] = {
    t.BooleanType: (bool,),
    t.TinyIntType: NUMBERS,
    t.SmallIntType: NUMBERS,
    t.IntType: NUMBERS,
    t.BigIntType: NUMBERS,
    t.FloatType: NUMBERS,
    t.DoubleType: NUMBERS,
    t.DecimalType: NUMBERS,
    t.CharType: (str,),
    t.VarCharType: (str,),
    t.DateType: (dt.date,),
    t.TimestampType: (dt.datetime,),
}
"""Python types of literals by column type. Filters on other types (instants, whose zone Spark omits) stay Spark's."""


Build = Callable[[DataField, Any], Predicate | None]


def translated(filter: Filter, fields: Mapping[str, DataField]) -> Predicate | None:
    """Translates a filter to the predicate that keeps the same rows; None when there is none."""
    plain: Any = filter
    name, negated = type(plain).__name__, False
    if name == "Not":
        plain, negated = plain.child, True
        name = type(plain).__name__
    path: tuple[str, ...] = getattr(plain, "attribute", ())
    return predicate(name, path, getattr(plain, "value", None), fields, negated=negated)


def predicate(
    name: str, path: tuple[str, ...], value: object, fields: Mapping[str, DataField], *, negated: bool = False
) -> Predicate | None:
    """Returns as `translated`, for a filter by the name of its class; by name, for Spark 4.0 has no such classes."""
    build = (_NEGATED if negated else _PLAIN).get(name)
    if build is None or len(path) != 1 or path[0] not in fields:
        return None
    return build(fields[path[0]], value)


def _is_comparable(field: DataField, value: object) -> bool:
    kinds = VALUES.get(type(field.type), ())
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return False
    if isinstance(field.type, t.DateType):
        return not isinstance(value, dt.datetime)
    if isinstance(field.type, t.TimestampType):
        return field.type.precision <= MICROSECONDS and isinstance(value, dt.datetime) and value.tzinfo is None
    return True


def _compared(op: Op) -> Build:
    return lambda field, value: comparison(field, op, value) if _is_comparable(field, value) else None


def _in(field: DataField, values: tuple[Any, ...]) -> Predicate | None:
    known = [value for value in values if value is not None]  # nothing equals null
    return membership(field, known) if all(_is_comparable(field, value) for value in known) else None


def _not_in(field: DataField, values: tuple[Any, ...]) -> Predicate | None:
    if any(value is None for value in values):
        return NEVER  # whether null is among them is unknown
    return membership(field, values, negated=True) if all(_is_comparable(field, v) for v in values) else None


def _same(field: DataField, value: object) -> Predicate | None:
    if value is None:
        return is_null(field)
    return _compared(Op.EQ)(field, value)


def _not_same(field: DataField, value: object) -> Predicate | None:
    if value is None:
        return not_null(field)
    other = _compared(Op.NE)(field, value)
    return None if other is None else Or((other, is_null(field)))


def _starts(op: Op) -> Build:
    def build(field: DataField, value: object) -> Predicate | None:
        if not isinstance(field.type, TEXTS) or not isinstance(value, str):
            return None
        return Leaf(field.name, op, (value,))

    return build


_PLAIN: Mapping[str, Build] = {
    "EqualTo": _compared(Op.EQ),
    "EqualNullSafe": _same,
    "GreaterThan": _compared(Op.GT),
    "GreaterThanOrEqual": _compared(Op.GE),
    "LessThan": _compared(Op.LT),
    "LessThanOrEqual": _compared(Op.LE),
    "In": _in,
    "IsNull": lambda field, _: is_null(field),
    "IsNotNull": lambda field, _: not_null(field),
    "StringStartsWith": _starts(Op.STARTS_WITH),
}
_NEGATED: Mapping[str, Build] = {
    "EqualTo": _compared(Op.NE),
    "EqualNullSafe": _not_same,
    "GreaterThan": _compared(Op.LE),
    "GreaterThanOrEqual": _compared(Op.LT),
    "LessThan": _compared(Op.GE),
    "LessThanOrEqual": _compared(Op.GT),
    "In": _not_in,
    "IsNull": lambda field, _: not_null(field),
    "IsNotNull": lambda field, _: is_null(field),
    "StringStartsWith": _starts(Op.NOT_STARTS_WITH),
}
