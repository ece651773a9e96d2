"""Predicates as Spark columns, and Spark's filters as predicates; typed literals and quoted names.

Columns have the form that Spark's Parquet scan pushes into files. Spark orders floats as predicates do: NaN equals
itself and is the greatest value, -0.0 equals 0.0. Parquet's statistics leave NaN out and its dictionaries separate
the zeros, so conditions on floats are not pushed into files.
Morrow tests the Spark filters that it can translate exactly. Spark tests the others, which prune nothing.
"""

from __future__ import annotations

import base64
import datetime as dt
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from morrow.engine.errors import ColumnNotFound
from morrow.engine.format import types as t
from morrow.engine.plan.filter.literals import build_comparison, build_is_not_null, build_is_null, build_membership
from morrow.engine.plan.predicate import NEVER, And, Leaf, Op, Or, Predicate
from morrow.spark.types import to_spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.datasource import Filter

FLOATS = (t.FloatType, t.DoubleType)
PLAIN = (bool, int, float, str, bytes)
"""Python values that Spark accepts as literals without conversion."""

Where = Callable[[str], "Column"]
"""A function from the name of a column in the predicate to the column."""


def compile_predicate(predicate: Predicate, fields: Sequence[t.DataField], where: Where) -> Column:
    """Return a boolean column that is true for the rows that `predicate` keeps, and false or null for all others.

    Raises `ColumnNotFound`: the predicate names a column that `fields` lacks.
    """
    return _compile_tree(predicate, {field.name: field.type for field in fields}, where)


def make_literal(value: object, kind: t.DataType, name: str) -> Column:
    """Return a literal of the Spark type of `kind`; `value` is None or Morrow's value of that type.

    Raises `Unsupported`: a type that Spark does not have; the message names `name`.
    """
    from pyspark.sql.functions import lit

    # Dates, times and decimals are passed as text, which Spark casts without loss; instants name their zone.
    plain = value if value is None or isinstance(value, PLAIN) else _format_value(value, kind)
    return lit(plain).cast(to_spark_type(kind, name))


def format_constant(value: object, kind: t.DataType) -> str | None:
    """Format a value as text for `FileScans`: bytes in Base64, instants in UTC."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else _format_value(value, kind)


def quote_name(name: str) -> str:
    """Quote a name for Spark's SQL. The name may contain any character."""
    return "`" + name.replace("`", "``") + "`"


def _format_value(value: object, kind: t.DataType) -> str:
    if isinstance(value, np.datetime64) and isinstance(kind, t.LocalZonedTimestampType):
        return f"{value}Z"  # UTC, which NumPy's text omits
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


def _compile_tree(predicate: Predicate, kinds: Mapping[str, t.DataType], where: Where) -> Column:
    from pyspark.sql.functions import lit

    if isinstance(predicate, Leaf):
        if predicate.column not in kinds:
            raise ColumnNotFound(
                f"filter: column {predicate.column!r} is not among the columns read: {', '.join(kinds)}"
            )
        return _compile_leaf(predicate, kinds[predicate.column], where(predicate.column))
    children = [_compile_tree(child, kinds, where) for child in predicate.children]
    join = operator.and_ if isinstance(predicate, And) else operator.or_
    while len(children) > 1:  # in pairs, so that a thousand conditions nest ten deep
        pairs = [join(left, right) for left, right in zip(children[::2], children[1::2], strict=False)]
        children = pairs + children[len(pairs) * 2 :]
    return children[0] if children else lit(isinstance(predicate, And))


def _compile_leaf(leaf: Leaf, kind: t.DataType, column: Column) -> Column:
    from pyspark.sql.functions import nanvl

    # The value is the same, but not a plain file column, so that it is not pushed down.
    operand = nanvl(column, column) if isinstance(kind, FLOATS) else column
    return _LEAVES[leaf.op](operand, [make_literal(value, kind, leaf.column) for value in leaf.literals])


Build = Callable[[Any, list[Any]], "Column"]


def _compile_comparison(compare: Callable[[Any, Any], Any]) -> Build:
    return lambda column, literals: compare(column, literals[0])


_LEAVES: Mapping[Op, Build] = {
    Op.EQ: _compile_comparison(operator.eq),
    Op.NE: _compile_comparison(operator.ne),
    Op.LT: _compile_comparison(operator.lt),
    Op.LE: _compile_comparison(operator.le),
    Op.GT: _compile_comparison(operator.gt),
    Op.GE: _compile_comparison(operator.ge),
    Op.IN: lambda column, literals: column.isin(literals),
    Op.NOT_IN: lambda column, literals: ~column.isin(literals),
    Op.IS_NULL: lambda column, _: column.isNull(),
    Op.IS_NOT_NULL: lambda column, _: column.isNotNull(),
    Op.STARTS_WITH: lambda column, literals: column.startswith(literals[0]),
    Op.NOT_STARTS_WITH: lambda column, literals: ~column.startswith(literals[0]),
}

MICROSECONDS = 6
"""The precision of Spark timestamps. Spark gets truncated values of finer columns, so comparisons may differ."""

NUMBERS = (int, float, Decimal)
TEXTS = (t.CharType, t.VarCharType)
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Java's text has this character for bytes that are not UTF-8, so the literal may have been other bytes."""

VALUES: Mapping[type[t.DataType], tuple[type, ...]] = {
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
"""Python types of literals by column type. Spark evaluates filters on other types (instants: their zone is missing)."""

BuildPredicate = Callable[[t.DataField, Any], Predicate | None]


def translate_filter(filter: Filter, fields: Mapping[str, t.DataField]) -> Predicate | None:
    """Translate a filter to the predicate that keeps the same rows; None if there is none."""
    plain: Any = filter
    name, negated = type(plain).__name__, False
    if name == "Not":
        plain, negated = plain.child, True
        name = type(plain).__name__
    path: tuple[str, ...] = getattr(plain, "attribute", ())
    return build_predicate(name, path, getattr(plain, "value", None), fields, negated=negated)


def build_predicate(
    name: str, path: tuple[str, ...], value: object, fields: Mapping[str, t.DataField], *, negated: bool = False
) -> Predicate | None:
    """Translate a filter given by the name of its class, as `translate_filter`: Spark 4.0 lacks these classes."""
    build = (_NEGATED if negated else _PLAIN).get(name)
    if build is None or len(path) != 1 or path[0] not in fields:
        return None
    return build(fields[path[0]], value)


def _is_comparable(field: t.DataField, value: object) -> bool:
    kinds = VALUES.get(type(field.type), ())
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        return False
    if isinstance(value, str):
        return REPLACEMENT not in value
    if isinstance(field.type, t.DateType):
        return not isinstance(value, dt.datetime)
    if isinstance(field.type, t.TimestampType):
        return field.type.precision <= MICROSECONDS and isinstance(value, dt.datetime) and value.tzinfo is None
    return True


def _build_comparison(op: Op) -> BuildPredicate:
    return lambda field, value: build_comparison(field, op, value) if _is_comparable(field, value) else None


def _build_in(field: t.DataField, values: tuple[Any, ...]) -> Predicate | None:
    known = [value for value in values if value is not None]  # no value equals null
    return build_membership(field, known) if all(_is_comparable(field, value) for value in known) else None


def _build_not_in(field: t.DataField, values: tuple[Any, ...]) -> Predicate | None:
    if any(value is None for value in values):
        return NEVER  # comparing with null gives unknown
    return build_membership(field, values, negated=True) if all(_is_comparable(field, v) for v in values) else None


def _build_same(field: t.DataField, value: object) -> Predicate | None:
    if value is None:
        return build_is_null(field)
    return _build_comparison(Op.EQ)(field, value)


def _build_not_same(field: t.DataField, value: object) -> Predicate | None:
    if value is None:
        return build_is_not_null(field)
    other = _build_comparison(Op.NE)(field, value)
    return None if other is None else Or((other, build_is_null(field)))


def _build_text_match(op: Op) -> BuildPredicate:
    def build(field: t.DataField, value: object) -> Predicate | None:
        if not isinstance(field.type, TEXTS) or not isinstance(value, str) or not _is_comparable(field, value):
            return None
        return Leaf(field.name, op, (value,))

    return build


_PLAIN: Mapping[str, BuildPredicate] = {
    "EqualTo": _build_comparison(Op.EQ),
    "EqualNullSafe": _build_same,
    "GreaterThan": _build_comparison(Op.GT),
    "GreaterThanOrEqual": _build_comparison(Op.GE),
    "LessThan": _build_comparison(Op.LT),
    "LessThanOrEqual": _build_comparison(Op.LE),
    "In": _build_in,
    "IsNull": lambda field, _: build_is_null(field),
    "IsNotNull": lambda field, _: build_is_not_null(field),
    "StringStartsWith": _build_text_match(Op.STARTS_WITH),
}
_NEGATED: Mapping[str, BuildPredicate] = {
    "EqualTo": _build_comparison(Op.NE),
    "EqualNullSafe": _build_not_same,
    "GreaterThan": _build_comparison(Op.LE),
    "GreaterThanOrEqual": _build_comparison(Op.LT),
    "LessThan": _build_comparison(Op.GE),
    "LessThanOrEqual": _build_comparison(Op.GT),
    "In": _build_not_in,
    "IsNull": lambda field, _: build_is_not_null(field),
    "IsNotNull": lambda field, _: build_is_null(field),
    "StringStartsWith": _build_text_match(Op.NOT_STARTS_WITH),
}


class Untranslatable(Exception):
    """A value that the JVM does not pass exactly."""


def _refuse_value(_text: str) -> Any:
    raise Untranslatable


PARSERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": lambda text: text == "true",
    "integer": int,
    "float": float,
    "decimal": Decimal,
    "string": str,
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "instant": _refuse_value,
    "map": lambda given: given,
    "other": _refuse_value,
}
"""Parsers by the kind of a value in `Values.java`. Spark evaluates filters on instants, as said for `VALUES`."""


def parse_predicates(told: Iterable[Sequence[Any]], fields: Mapping[str, t.DataField]) -> list[Predicate]:
    """Return predicates for the filters that Morrow can test as Spark does."""
    found = []
    for filter in told:
        try:
            kept = _parse_predicate(filter, fields)
        except (Untranslatable, ValueError):  # a year that Python's dates cannot represent
            continue
        if kept is not None:
            found.append(kept)
    return found


def _parse_predicate(told: Sequence[Any], fields: Mapping[str, t.DataField]) -> Predicate | None:
    negated = told[0] == "Not"
    name, column, *values = told[1] if negated else told
    value: Any = None
    if values:
        value = tuple(map(parse_value, values[0])) if name == "In" else parse_value(values[0])
    field = fields.get(parse_column(column))
    if values and field is not None and isinstance(field.type, t.CharType):
        if name not in ("EqualTo", "In"):
            raise Untranslatable
        name, value = "In", list_paddings((value,) if name == "EqualTo" else value, field.type.length)
    return build_predicate(name, (parse_column(column),), value, fields, negated=negated)


def list_paddings(values: Iterable[Any], length: int) -> tuple[str, ...]:
    """Return all texts that equal one of the values in Spark, which ignores spaces at the end of CHAR."""
    texts = {str(text).rstrip(" ") for text in values if text is not None}
    return tuple(text + " " * more for text in sorted(texts) for more in range(max(length - len(text), 0) + 1))


def parse_value(told: Sequence[str]) -> Any:
    """Parse a value as sent by the JVM. Raises `Untranslatable` for kinds that it does not pass exactly."""
    return None if told[0] == "null" else PARSERS[told[0]](told[1])


def parse_partition_value(told: Sequence[str]) -> object:
    """Parse a value of a partition column: a time as a datetime, others as text, which the caller parses by type.

    A time that Python's datetimes cannot represent stays text, which the caller refuses.
    """
    if told[0] == "null":
        return None
    if told[0] in ("timestamp", "instant"):
        with suppress(ValueError):
            return dt.datetime.fromisoformat(told[1])
    return told[1]


def parse_column(told: str) -> str:
    """Return the name of a column, which Spark quotes if it contains dots. Struct members are not columns."""
    if told.startswith("`") and told.endswith("`") and len(told) > 1:
        return told[1:-1].replace("``", "`")
    return told
