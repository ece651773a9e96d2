"""Polars expressions as predicates, read from the JSON form of their tree.

Polars brings the two sides of a comparison to a common type; a part becomes a predicate only where that rounds
neither side (a float64 literal on an integer column, or microseconds on a nanosecond column, would). What this module
does not know stays a Polars expression.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import (
    BooleanType,
    DataField,
    DateType,
    DecimalType,
    FloatType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    arrow_time_unit,
)
from morrow.engine.plan.filter.literals import (
    BINARY_TYPES,
    EPOCH,
    FLOAT_TYPES,
    INTEGER_BITS,
    STRING_TYPES,
    TIMESTAMP_TYPES,
    comparison,
    is_null,
    membership,
    not_null,
)
from morrow.engine.plan.filter.terms import Columns, Part, Residual, all_true, any_true
from morrow.engine.plan.predicate import ALWAYS, NEGATED, NEVER, Leaf, Op, Predicate, Value

EXACT_FLOAT_INTEGERS = 2**24
NANOS_PER_MICRO = 1000
MICROS = {"Milliseconds": 1000, "Microseconds": 1}
UNIT_OF_COLUMN = {"s": "Milliseconds", "ms": "Milliseconds", "us": "Microseconds", "ns": "Nanoseconds"}
"""Polars has no seconds."""


def split_polars(expression: pl.Expr, columns: Columns) -> list[Part]:
    """The conditions that must all be true; if one is no predicate, the whole expression follows as a residual.

    Raises:
        InvalidArgument, ColumnNotFound: see `parse_filter`.
    """
    names = _columns_read(expression, columns)
    tree = _tree(expression)
    reads = (
        frozenset(names) if tree is not None and not _has_selector(tree) else frozenset(f.name for f in columns.fields)
    )
    conditions = [_rows(node, True, columns) for node in _conjuncts(tree)] if tree is not None else [None]
    known: list[Part] = [condition for condition in conditions if condition is not None]
    if len(known) == len(conditions):
        return known
    return [*known, Residual("polars", str(expression), reads, expression)]


def _columns_read(expression: pl.Expr, columns: Columns) -> set[str]:
    """Names of the columns it reads, once it is sure to be one boolean per row that needs no other row."""
    names = {columns.exact(name).name for name in expression.meta.root_names()}
    empty = pl.DataFrame(pa.schema([field.arrow() for field in columns.fields]).empty_table()).lazy()
    try:
        if expression.meta.has_multiple_outputs():
            raise InvalidArgument(f"filter: {expression} is several columns; join them with pl.all_horizontal")
        dtype = empty.select(expression.alias("keep")).collect().schema["keep"]
        alone = all(map(_row_by_row, _nodes(expression)))
    except pl.exceptions.PolarsError as error:
        problem = str(error).splitlines()[0]
        raise InvalidArgument(
            f"filter: Polars cannot plan {expression} on this table: {problem}; apply it after the read"
        ) from error
    if dtype != pl.Boolean:
        raise InvalidArgument(f"filter: {expression} is {dtype}, not a boolean")
    if not alone:
        raise InvalidArgument(
            f"filter: {expression} looks at more than one row (aggregate, window, order); apply it after the read"
        )
    return names


def _nodes(expression: pl.Expr) -> Iterator[pl.Expr]:
    yield expression
    for inner in expression.meta.pop():
        yield from _nodes(inner)


def _row_by_row(node: pl.Expr) -> bool:
    """Polars answers for the outermost operation only, so every node is asked."""
    meta = node.meta
    return meta.is_literal() or (meta.is_row_separable() and (meta.is_length_preserving() or not meta.root_names()))


def _tree(expression: pl.Expr) -> Any:
    """The JSON form, None for expressions that have none (Python functions)."""
    try:
        return json.loads(expression.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError, TypeError):
        return None


def _has_selector(node: Any) -> bool:
    if isinstance(node, dict):
        return "Selector" in node or any(map(_has_selector, node.values()))
    return isinstance(node, list) and any(map(_has_selector, node))


def _opened(node: Any) -> tuple[str, Any]:
    """``{"BinaryExpr": {...}}`` and ``"IsNull"`` as (name, content)."""
    if isinstance(node, dict) and len(node) == 1:
        return next(iter(node.items()))
    return (node, {}) if isinstance(node, str) else ("", {})


def _conjuncts(node: Any) -> Iterator[Any]:
    kind, content = _opened(node)
    if kind == "BinaryExpr" and content["op"] in ("And", "LogicalAnd"):
        yield from _conjuncts(content["left"])
        yield from _conjuncts(content["right"])
    else:
        yield node


def _rows(node: Any, want: bool, columns: Columns) -> Predicate | None:
    """The rows for which the node is `want`: not null, not the other. None when no predicate says it exactly."""
    kind, content = _opened(node)
    rule = _RULES.get(kind)
    return rule(content, want, columns) if rule else None


def _bare_column(name: Any, want: bool, columns: Columns) -> Predicate | None:
    column = columns.exact(name)
    return Leaf(name, Op.EQ, (want,)) if isinstance(column.type, BooleanType) else None


def _constant(literal: Any, want: bool, _columns: Columns) -> Predicate | None:
    _, content = _opened(literal)
    name, value = _opened(content)
    return (ALWAYS if value is want else NEVER) if name == "Boolean" else None


_COMPARISONS = {"Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtEq": Op.LE, "Gt": Op.GT, "GtEq": Op.GE}
_NULL_SAFE = {"EqValidity": True, "NotEqValidity": False}
_MIRRORED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}


def _binary(content: Any, want: bool, columns: Columns) -> Predicate | None:
    name, left, right = content["op"], content["left"], content["right"]
    if name in ("And", "LogicalAnd", "Or", "LogicalOr"):
        return _joined(name.endswith("And"), [left, right], want, columns)
    if name in _NULL_SAFE:
        column = _column(left, columns)
        equal = _NULL_SAFE[name] is want
        same = _compared(left, Op.EQ if equal else Op.NE, right, columns)
        return same if equal or column is None else any_true([same, is_null(column)])
    if name not in _COMPARISONS:
        return None
    op = _COMPARISONS[name] if want else NEGATED[_COMPARISONS[name]]
    if _column(left, columns) is None:
        left, right, op = right, left, _MIRRORED[op]
    return _compared(left, op, right, columns)


def _joined(is_and: bool, nodes: list[Any], want: bool, columns: Columns) -> Predicate | None:
    parts = [_rows(node, want, columns) for node in nodes]
    return all_true(parts) if is_and is want else any_true(parts)


def _compared(left: Any, op: Op, right: Any, columns: Columns) -> Predicate | None:
    column, (kind, literal) = _column(left, columns), _opened(right)
    if column is None or kind != "Literal":
        return None
    value = _value(literal, column)
    return None if value is None else comparison(column, op, value)


def _column(node: Any, columns: Columns) -> DataField | None:
    kind, name = _opened(node)
    return columns.exact(name) if kind == "Column" else None


def _function(content: Any, want: bool, columns: Columns) -> Predicate | None:
    family, function = _opened(content["function"])
    name, options = _opened(function)
    rule = _FUNCTIONS.get((family, name))
    return rule(content["input"], options, want, columns) if rule else None


def _null_test(inputs: list[Any], want: bool, columns: Columns) -> Predicate | None:
    column = _column(inputs[0], columns)
    if column is None:
        return None
    return is_null(column) if want else not_null(column)


def _nan_test(inputs: list[Any], want: bool, columns: Columns) -> Predicate | None:
    column = _column(inputs[0], columns)
    if column is None or not isinstance(column.type, FLOAT_TYPES):
        return None
    return Leaf(column.name, Op.EQ if want else Op.LT, (math.nan,))


_CLOSED_LEFT, _CLOSED_RIGHT = ("Both", "Left"), ("Both", "Right")


def _between(inputs: list[Any], options: Any, want: bool, columns: Columns) -> Predicate | None:
    operand, low, high = inputs
    above = Op.GE if options["closed"] in _CLOSED_LEFT else Op.GT
    below = Op.LE if options["closed"] in _CLOSED_RIGHT else Op.LT
    bounds = ((above, low), (below, high))
    parts = [_compared(operand, op if want else NEGATED[op], bound, columns) for op, bound in bounds]
    return all_true(parts) if want else any_true(parts)


def _is_in(inputs: list[Any], options: Any, want: bool, columns: Columns) -> Predicate | None:
    column, (kind, literal) = _column(inputs[0], columns), _opened(inputs[1])
    if column is None or kind != "Literal" or options.get("nulls_equal"):
        return None
    name, content = _opened(_opened(literal)[1])
    if name != "List" or isinstance(column.type, FLOAT_TYPES):
        return None
    series = pl.read_ipc_stream(bytes(content)).to_series()
    if series.dtype == pl.List:
        series = series.explode()
    values = [_value(_as_literal(series.dtype, value), column) for value in series.to_list()]
    known = [value for value in values if value is not None]
    return membership(column, known, negated=not want) if known and len(known) == len(values) else None


def _as_literal(dtype: pl.DataType, value: Any) -> Any:
    """A member of a list as the JSON form has single literals; None for types not compared in lists."""
    if dtype.is_signed_integer() or dtype in (pl.String, pl.Boolean):
        return {"Scalar": {str(dtype): value}}
    if dtype == pl.Date and value is not None:
        return {"Scalar": {"Date": (value - EPOCH.date()).days}}
    return {"Scalar": {"Binary": list(value)}} if dtype == pl.Binary and value is not None else None


def _starts_with(inputs: list[Any], _options: Any, want: bool, columns: Columns) -> Predicate | None:
    column, (kind, literal) = _column(inputs[0], columns), _opened(inputs[1])
    if column is None or kind != "Literal" or not isinstance(column.type, STRING_TYPES):
        return None
    value = _value(literal, column)
    return None if value is None else Leaf(column.name, Op.STARTS_WITH if want else Op.NOT_STARTS_WITH, (value,))


_FUNCTIONS: dict[tuple[str, str], Callable[[list[Any], Any, bool, Columns], Predicate | None]] = {
    ("Boolean", "Not"): lambda inputs, _options, want, columns: _rows(inputs[0], not want, columns),
    ("Boolean", "IsNull"): lambda inputs, _options, want, columns: _null_test(inputs, want, columns),
    ("Boolean", "IsNotNull"): lambda inputs, _options, want, columns: _null_test(inputs, not want, columns),
    ("Boolean", "IsNan"): lambda inputs, _options, want, columns: _nan_test(inputs, want, columns),
    ("Boolean", "IsNotNan"): lambda inputs, _options, want, columns: _nan_test(inputs, not want, columns),
    ("Boolean", "AllHorizontal"): lambda inputs, _options, want, columns: _joined(True, inputs, want, columns),
    ("Boolean", "AnyHorizontal"): lambda inputs, _options, want, columns: _joined(False, inputs, want, columns),
    ("Boolean", "IsBetween"): _between,
    ("Boolean", "IsIn"): _is_in,
    ("StringExpr", "StartsWith"): _starts_with,
}

_RULES: dict[str, Callable[[Any, bool, Columns], Predicate | None]] = {
    "BinaryExpr": _binary,
    "Column": _bare_column,
    "Literal": _constant,
    "Function": _function,
}


def _value(literal: Any, column: DataField) -> Value | None:
    """The literal, if Polars compares it with the column without rounding either; None for null as well."""
    origin, content = _opened(literal)
    name, value = _opened(content)
    if value is None or origin not in ("Dyn", "Scalar"):
        return None
    read = next((read for kinds, read in _READERS if isinstance(column.type, kinds)), None)
    return read(origin, name, value, column) if read else None


def _read_integer(_origin: str, name: str, value: Any, _column: DataField) -> Value | None:
    return int(value) if name in ("Int", "Int8", "Int16", "Int32", "Int64") else None


def _read_float(origin: str, name: str, value: Any, column: DataField) -> Value | None:
    """A plain Python float takes the column's type, a typed literal keeps its own."""
    if name == "Int" and abs(value) <= EXACT_FLOAT_INTEGERS:
        return float(value)
    if name not in ("Float", "Float32", "Float64") or not math.isfinite(value):
        return None
    if name == "Float32" or (origin == "Dyn" and isinstance(column.type, FloatType)):
        rounded = float(np.float32(value))
        return rounded if math.isfinite(rounded) else None
    return float(value)


def _read_decimal(_origin: str, name: str, value: Any, _column: DataField) -> Value | None:
    if name != "Decimal":
        return None
    unscaled, _precision, scale = value
    return Decimal(f"{unscaled}E-{scale}")


def _read_timestamp(_origin: str, name: str, value: Any, column: DataField) -> Value | None:
    """Polars compares two units in the coarser one, so only a literal that is exact in the column's passes."""
    assert isinstance(column.type, (TimestampType, LocalZonedTimestampType))
    if name != "Datetime":
        return None
    number, unit, zone = value
    zoned = isinstance(column.type, LocalZonedTimestampType)
    if unit not in MICROS or (zone is not None) is not zoned or (zoned and zone != {"inner": "UTC"}):
        return None
    of_column = UNIT_OF_COLUMN[arrow_time_unit(column.type.precision)]
    micros = number * MICROS[unit]
    if of_column not in MICROS or MICROS[unit] > MICROS[of_column] or micros % MICROS[of_column]:
        return None
    moment = EPOCH + dt.timedelta(microseconds=micros)
    return moment.replace(tzinfo=dt.UTC) if zoned else moment


def _read_time(_origin: str, name: str, value: Any, _column: DataField) -> Value | None:
    if name != "Time" or value % NANOS_PER_MICRO:
        return None
    return (EPOCH + dt.timedelta(microseconds=value // NANOS_PER_MICRO)).time()


def _read_date(_origin: str, name: str, value: Any, _column: DataField) -> Value | None:
    return EPOCH.date() + dt.timedelta(days=value) if name == "Date" else None


_READERS: tuple[tuple[type | tuple[type, ...], Callable[[str, str, Any, DataField], Value | None]], ...] = (
    (tuple(INTEGER_BITS), _read_integer),
    (FLOAT_TYPES, _read_float),
    (DecimalType, _read_decimal),
    (TIMESTAMP_TYPES, _read_timestamp),
    (TimeType, _read_time),
    (DateType, _read_date),
    (STRING_TYPES, lambda _origin, name, value, _column: value if name in ("Str", "String") else None),
    (BINARY_TYPES, lambda _origin, name, value, _column: bytes(value) if name == "Binary" else None),
    (BooleanType, lambda _origin, name, value, _column: value if name == "Boolean" else None),
)
