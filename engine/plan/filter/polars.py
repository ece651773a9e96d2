"""Translation of Polars expressions to predicates, from the JSON form of their tree.

Polars casts the two sides of a comparison to a common type. A part becomes a predicate only if that rounds neither side
(a float64 literal on an integer column, or microseconds on a nanosecond column, would be rounded). Anything unknown to
this module stays a Polars expression.

``a & b & c & ...`` nests to the left, two levels of JSON per operation, and Python's parser fails after about a
thousand. So the form is parsed at any depth. A name that Polars interprets as a pattern can only be written as a
selector, which is replaced by the column.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from morrow.engine import library_versions
from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.plan.filter.literals import (
    BINARY_TYPES,
    EPOCH,
    FLOAT_TYPES,
    INTEGER_BITS,
    STRING_TYPES,
    TIMESTAMP_TYPES,
    build_comparison,
    build_is_not_null,
    build_is_null,
    build_membership,
)
from morrow.engine.plan.predicate import (
    ALWAYS,
    EXACT_FLOAT_INTEGERS,
    MIRRORED,
    NEGATED,
    NEVER,
    Columns,
    Leaf,
    Op,
    Part,
    Predicate,
    Residual,
    Value,
    combine_all,
    combine_any,
    join_in_pairs,
    limit_depth,
    shorten_text,
)
from morrow.engine.units import NANOS_PER_MICRO


def split_polars(expression: pl.Expr, columns: Columns) -> list[Part]:
    """Return the conjuncts; those without a predicate are combined as one residual.

    Raises `InvalidArgument`, `ColumnNotFound`: see `parse_filter`.
    """
    expression = replace_selectors(expression, columns.fields)
    for name in expression.meta.root_names():
        columns.exact(name)
    form = serialize_expression(expression)
    if form is None:
        return [_build_residual([expression], columns)]
    conjuncts = list(split_operands(expression, parse_form(form), AND))
    conditions = [_translate_condition(node, columns) for _, node in conjuncts]
    rest = [rebuild_balanced(part, node) for (part, node), known in zip(conjuncts, conditions) if known is None]
    parts: list[Part] = [condition for condition in conditions if condition is not None]
    return [*parts, _build_residual(rest, columns)] if rest else parts


def _translate_condition(node: Any, columns: Columns) -> Predicate | None:
    try:
        return limit_depth(_translate_rows(node, True, columns))
    except RecursionError:
        return None


def _build_residual(operands: list[pl.Expr], columns: Columns) -> Residual:
    _check(operands, columns)
    expression = join_in_pairs(operator.and_, operands)
    form = serialize_expression(expression)
    selects = form is None or SELECTOR in form
    reads = (f.name for f in columns.fields) if selects else expression.meta.root_names()
    identity = None if form is None or PYTHON in form else form.encode("utf-8", "surrogatepass")
    return Residual("polars", str(expression), frozenset(reads), expression, identity)


def _check(operands: Sequence[pl.Expr], columns: Columns) -> None:
    """Check that every operand is one boolean per row and does not depend on other rows."""
    empty = pl.LazyFrame(schema=t.to_polars_schema(columns.fields))
    for one in operands:
        if one.meta.has_multiple_outputs():
            raise InvalidArgument(
                f"filter: {_format_expression(one)} is several columns; join them with pl.all_horizontal"
            )
    try:
        chosen = empty.select(one.alias(str(i)) for i, one in enumerate(operands))
        # Python functions are not run on empty frames, which they may not expect.
        dtypes = (chosen.collect_schema() if any(map(has_python_calls, operands)) else chosen.collect().schema).dtypes()
        alone = [dtype != pl.Boolean or is_row_by_row(one, empty) for one, dtype in zip(operands, dtypes, strict=True)]
    except POLARS_ERRORS as error:
        shown = _format_expression(join_in_pairs(operator.and_, operands))
        problem = shorten_text(str(error).strip().partition("\n")[0])
        raise InvalidArgument(
            f"filter: Polars cannot plan {shown} on this table: {problem}; apply it after the read"
        ) from error
    for one, dtype, by_row in zip(operands, dtypes, alone, strict=True):
        if dtype != pl.Boolean:
            raise InvalidArgument(f"filter: {_format_expression(one)} is {dtype}, not a boolean")
        if not by_row:
            raise InvalidArgument(
                f"filter: {_format_expression(one)} looks at more than one row (aggregate, window, order); apply "
                "it after the read"
            )


def _format_expression(expression: pl.Expr) -> str:
    return shorten_text(str(expression))


def _translate_rows(node: Any, want: bool, columns: Columns) -> Predicate | None:
    """Return the rows for which the node is `want`, neither null nor the opposite; None without an exact predicate."""
    kind, content = split_node(node)
    rule = _RULES.get(kind)
    return rule(content, want, columns) if rule else None


def _translate_column(name: Any, want: bool, columns: Columns) -> Predicate | None:
    column = columns.exact(name)
    return Leaf(name, Op.EQ, (want,)) if isinstance(column.type, t.BooleanType) else None


def _translate_constant(literal: Any, want: bool, _columns: Columns) -> Predicate | None:
    _, content = split_node(literal)
    name, value = split_node(content)
    return (ALWAYS if value is want else NEVER) if name == "Boolean" else None


_COMPARISONS = {"Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtEq": Op.LE, "Gt": Op.GT, "GtEq": Op.GE}
_NULL_SAFE = {"EqValidity": True, "NotEqValidity": False}


def _translate_binary(content: Any, want: bool, columns: Columns) -> Predicate | None:
    name, left, right = content["op"], content["left"], content["right"]
    for operators in (AND, OR):
        if name in operators:
            return _translate_chain(operators is AND, split_chain({"BinaryExpr": content}, operators), want, columns)
    if name in _NULL_SAFE:
        column = _find_column(left, columns)
        equal = _NULL_SAFE[name] is want
        same = _translate_comparison(left, Op.EQ if equal else Op.NE, right, columns)
        return same if equal or column is None else combine_any([same, build_is_null(column)])
    if name not in _COMPARISONS:
        return None
    op = _COMPARISONS[name] if want else NEGATED[_COMPARISONS[name]]
    if _find_column(left, columns) is None:
        left, right, op = right, left, MIRRORED[op]
    return _translate_comparison(left, op, right, columns)


def _translate_chain(is_and: bool, nodes: Iterable[Any], want: bool, columns: Columns) -> Predicate | None:
    parts = (_translate_rows(node, want, columns) for node in nodes)
    return combine_all(parts) if is_and is want else combine_any(parts)


def _translate_comparison(left: Any, op: Op, right: Any, columns: Columns) -> Predicate | None:
    column, (kind, literal) = _find_column(left, columns), split_node(right)
    if column is None or kind != "Literal":
        return None
    value = read_literal(literal, column)
    return None if value is None else build_comparison(column, op, value)


def _find_column(node: Any, columns: Columns) -> t.DataField | None:
    kind, name = split_node(node)
    return columns.exact(name) if kind == "Column" else None


def _translate_function(content: Any, want: bool, columns: Columns) -> Predicate | None:
    family, function = split_node(content["function"])
    name, options = split_node(function)
    rule = _FUNCTIONS.get((family, name))
    return rule(content["input"], options, want, columns) if rule else None


def _translate_null_test(inputs: list[Any], want: bool, columns: Columns) -> Predicate | None:
    column = _find_column(inputs[0], columns)
    if column is None:
        return None
    return build_is_null(column) if want else build_is_not_null(column)


def _translate_nan_test(inputs: list[Any], want: bool, columns: Columns) -> Predicate | None:
    column = _find_column(inputs[0], columns)
    if column is None or not isinstance(column.type, FLOAT_TYPES):
        return None
    return Leaf(column.name, Op.EQ if want else Op.LT, (math.nan,))


_CLOSED_LEFT, _CLOSED_RIGHT = ("Both", "Left"), ("Both", "Right")


def _translate_between(inputs: list[Any], options: Any, want: bool, columns: Columns) -> Predicate | None:
    operand, low, high = inputs
    above = Op.GE if options["closed"] in _CLOSED_LEFT else Op.GT
    below = Op.LE if options["closed"] in _CLOSED_RIGHT else Op.LT
    bounds = ((above, low), (below, high))
    parts = [_translate_comparison(operand, op if want else NEGATED[op], bound, columns) for op, bound in bounds]
    return combine_all(parts) if want else combine_any(parts)


def _translate_is_in(inputs: list[Any], options: Any, want: bool, columns: Columns) -> Predicate | None:
    """Translate is_in: with ``nulls_equal`` a null in the list matches null and is_in is never null."""
    column, (kind, literal) = _find_column(inputs[0], columns), split_node(inputs[1])
    if column is None or kind != "Literal":
        return None
    name, content = split_node(split_node(literal)[1])
    if name != "List" or isinstance(column.type, FLOAT_TYPES):
        return None
    series = pl.read_ipc_stream(bytes(content)).to_series()
    if series.dtype == pl.List:
        series = series.explode(empty_as_null=False)
    values = [read_literal(_to_literal(series.dtype, value), column) for value in series.drop_nulls().to_list()]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    found = build_membership(column, known, negated=not want)
    null_is_found = series.null_count() > 0
    return (
        combine_any([found, build_is_null(column)]) if options.get("nulls_equal") and null_is_found is want else found
    )


def _to_literal(dtype: pl.DataType, value: Any) -> Any:
    """Return a list member in the JSON form of a single literal; None for types not compared in lists."""
    if dtype.is_signed_integer() or dtype in (pl.String, pl.Boolean):
        return {"Scalar": {str(dtype): value}}
    if dtype == pl.Date and value is not None:
        return {"Scalar": {"Date": (value - EPOCH.date()).days}}
    return {"Scalar": {"Binary": list(value)}} if dtype == pl.Binary and value is not None else None


def _translate_prefix(inputs: list[Any], _options: Any, want: bool, columns: Columns) -> Predicate | None:
    column, (kind, literal) = _find_column(inputs[0], columns), split_node(inputs[1])
    if column is None or kind != "Literal" or not isinstance(column.type, STRING_TYPES):
        return None
    value = read_literal(literal, column)
    return None if value is None else Leaf(column.name, Op.STARTS_WITH if want else Op.NOT_STARTS_WITH, (value,))


_FUNCTIONS: dict[tuple[str, str], Callable[[list[Any], Any, bool, Columns], Predicate | None]] = {
    ("Boolean", "Not"): lambda inputs, _options, want, columns: _translate_rows(inputs[0], not want, columns),
    ("Boolean", "IsNull"): lambda inputs, _options, want, columns: _translate_null_test(inputs, want, columns),
    ("Boolean", "IsNotNull"): lambda inputs, _options, want, columns: _translate_null_test(inputs, not want, columns),
    ("Boolean", "IsNan"): lambda inputs, _options, want, columns: _translate_nan_test(inputs, want, columns),
    ("Boolean", "IsNotNan"): lambda inputs, _options, want, columns: _translate_nan_test(inputs, not want, columns),
    ("Boolean", "AllHorizontal"): lambda inputs, _options, want, columns: _translate_chain(True, inputs, want, columns),
    ("Boolean", "AnyHorizontal"): lambda inputs, _options, want, columns: _translate_chain(
        False, inputs, want, columns
    ),
    ("Boolean", "IsBetween"): _translate_between,
    ("Boolean", "IsIn"): _translate_is_in,
    ("StringExpr", "StartsWith"): _translate_prefix,
}

_RULES: dict[str, Callable[[Any, bool, Columns], Predicate | None]] = {
    "BinaryExpr": _translate_binary,
    "Column": _translate_column,
    "Literal": _translate_constant,
    "Function": _translate_function,
}

AND, OR = ("And", "LogicalAnd"), ("Or", "LogicalOr")
PYTHON, SELECTOR = "AnonymousFunction", '"Selector"'
"""The names in the JSON form of a Python function, and of a selection of columns other than by name."""

_TOKEN = re.compile(r'[\s,:]*([{}\[\]]|"(?:[^"\\]|\\.)*+"|[^\s,:{}\[\]"]++)', re.DOTALL)


def parse_form(text: str) -> Any:
    """Parse well-formed JSON text."""
    try:
        return json.loads(text)
    except RecursionError:
        return _parse_without_recursion(text)


def _parse_without_recursion(text: str) -> Any:
    done: list[Any] = []
    open_: list[list[Any]] = [done]
    for match in _TOKEN.finditer(text):
        token = match[1]
        if token in "{[":
            open_.append([])
        elif token in "}]":
            items = open_.pop()
            open_[-1].append(items if token == "]" else dict(zip(items[::2], items[1::2], strict=True)))
        else:
            open_[-1].append(json.loads(token))
    return done[0]


POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""The exceptions that Polars raises; its panics are not an `Exception`."""


def has_python_calls(expression: pl.Expr) -> bool:
    form = serialize_expression(expression)
    return form is None or PYTHON in form


def iterate_nodes(expression: pl.Expr) -> Iterator[pl.Expr]:
    left = [expression]
    while left:
        node = left.pop()
        yield node
        left += node.meta.pop()


def is_row_by_row(expression: pl.Expr, columns: pl.LazyFrame) -> bool:
    """Return whether the rows of these columns are evaluated one by one."""
    by_plan = library_versions.is_row_by_row(expression, columns)
    # Polars reports it only for the outermost operation.
    return all(map(_is_node_row_by_row, iterate_nodes(expression))) if by_plan is None else by_plan


def _is_node_row_by_row(node: pl.Expr) -> bool:
    meta = node.meta
    try:
        return meta.is_literal() or (meta.is_row_separable() and (meta.is_length_preserving() or not meta.root_names()))
    except pl.exceptions.ColumnNotFoundError:  # not reported for Python functions; see their JSON form
        flags = json.loads(meta.serialize(format="json")).get(PYTHON, {}).get("options", {}).get("flags", "")
        return "ROW_SEPARABLE" in flags and "LENGTH_PRESERVING" in flags


def serialize_expression(expression: pl.Expr) -> str | None:
    """Return the JSON form, None for an expression without one."""
    try:
        return expression.meta.serialize(format="json")
    except (*POLARS_ERRORS, ValueError, TypeError):
        return None


def split_operands(expression: pl.Expr, node: Any, operators: Collection[str]) -> Iterator[tuple[pl.Expr, Any]]:
    """Yield the operands of a chain of ANDs or of ORs, however long, with their forms.

    ``a & b & c`` nests to the left.
    """
    left = [(expression, node)]
    while left:
        expression, node = left.pop()
        content = find_connective(node, operators)
        if content is None:
            yield expression, node
        else:
            right_operand, left_operand = expression.meta.pop()
            left += [(right_operand, content["right"]), (left_operand, content["left"])]


def split_chain(node: Any, operators: Collection[str]) -> Iterator[Any]:
    """Yield the operands of nested `operators` in order, each as its JSON form."""
    left = [node]
    while left:
        node = left.pop()
        content = find_connective(node, operators)
        if content is None:
            yield node
        else:
            left += [content["right"], content["left"]]


def find_connective(node: Any, operators: Collection[str]) -> Any:
    kind, content = split_node(node)
    return content if kind == "BinaryExpr" and content["op"] in operators else None


def rebuild_balanced(expression: pl.Expr, node: Any) -> pl.Expr:
    """Return the same expression with balanced chains: Polars takes a minute for a chain of 2,000 operations."""
    try:
        return _rebuild_evenly(expression, node)
    except RecursionError:
        return expression


def _rebuild_evenly(expression: pl.Expr, node: Any) -> pl.Expr:
    for operators, join in ((AND, operator.and_), (OR, operator.or_)):
        if find_connective(node, operators) is not None:
            return join_in_pairs(join, [_rebuild_evenly(*one) for one in split_operands(expression, node, operators)])
    return expression


def split_node(node: Any) -> tuple[str, Any]:
    """Split ``{"BinaryExpr": {...}}`` and ``"IsNull"`` into (name, content)."""
    if isinstance(node, dict) and len(node) == 1:
        return next(iter(node.items()))
    return (node, {}) if isinstance(node, str) else ("", {})


def replace_selectors(expression: pl.Expr, fields: Sequence[t.DataField]) -> pl.Expr:
    """Return the expression with each selector of a single column replaced by the column's name.

    Unchanged are selectors of no or several columns, and expressions without a JSON form (Python functions, NaN).
    """
    try:
        form = expression.meta.serialize(format="json")
        if '"Selector"' not in form:
            return expression
        return _deserialize_expression(
            _replace_selectors_in(json.loads(form), pl.DataFrame(schema=t.to_polars_schema(fields)))
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, RecursionError):
        return expression


def _replace_selectors_in(node: Any, empty: pl.DataFrame) -> Any:
    if isinstance(node, dict):
        if node.keys() == {"Selector"}:
            names = empty.select(_deserialize_expression(node)).columns
            return {"Column": names[0]} if len(names) == 1 else node
        return {key: _replace_selectors_in(value, empty) for key, value in node.items()}
    return [_replace_selectors_in(value, empty) for value in node] if isinstance(node, list) else node


def _deserialize_expression(form: Any) -> pl.Expr:
    return pl.Expr.deserialize(io.BytesIO(json.dumps(form).encode()), format="json")


MICROS = {"Milliseconds": 1000, "Microseconds": 1}

UNIT_OF_COLUMN = {"s": "Milliseconds", "ms": "Milliseconds", "us": "Microseconds", "ns": "Nanoseconds"}
"""The unit of literals by the unit of the column. Polars lacks seconds."""


def read_literal(literal: Any, column: t.DataField) -> Value | None:
    """Return the literal if Polars compares it with the column without rounding either; also None for null."""
    origin, content = split_node(literal)
    name, value = split_node(content)
    if value is None or origin not in ("Dyn", "Scalar"):
        return None
    read = next((read for kinds, read in _READERS if isinstance(column.type, kinds)), None)
    return read(origin, name, value, column) if read else None


def _read_integer(_origin: str, name: str, value: Any, _column: t.DataField) -> Value | None:
    return int(value) if name in ("Int", "Int8", "Int16", "Int32", "Int64") else None


def _read_float(origin: str, name: str, value: Any, column: t.DataField) -> Value | None:
    """Read a float: a plain Python float adopts the column's type, a typed literal keeps its own."""
    if name == "Int" and abs(value) <= EXACT_FLOAT_INTEGERS:
        return float(value)
    if name not in ("Float", "Float32", "Float64") or not math.isfinite(value):
        return None
    if name == "Float32" or (origin == "Dyn" and isinstance(column.type, t.FloatType)):
        rounded = float(np.float32(value))
        return rounded if math.isfinite(rounded) else None
    return float(value)


def _read_decimal(_origin: str, name: str, value: Any, _column: t.DataField) -> Value | None:
    if name != "Decimal":
        return None
    unscaled, _precision, scale = value
    return Decimal(f"{unscaled}E-{scale}")


def _read_timestamp(_origin: str, name: str, value: Any, column: t.DataField) -> Value | None:
    """Read a timestamp: Polars compares in the coarser unit, so only a literal exact in the column's unit passes."""
    assert isinstance(column.type, (t.TimestampType, t.LocalZonedTimestampType))
    if name != "Datetime":
        return None
    number, unit, zone = value
    zoned = isinstance(column.type, t.LocalZonedTimestampType)
    if unit not in MICROS or (zone is not None) is not zoned or (zoned and zone != {"inner": "UTC"}):
        return None
    of_column = UNIT_OF_COLUMN[t.to_arrow_time_unit(column.type.precision)]
    micros = number * MICROS[unit]
    if of_column not in MICROS or MICROS[unit] > MICROS[of_column] or micros % MICROS[of_column]:
        return None
    moment = EPOCH + dt.timedelta(microseconds=micros)
    return moment.replace(tzinfo=dt.UTC) if zoned else moment


def _read_time(_origin: str, name: str, value: Any, _column: t.DataField) -> Value | None:
    if name != "Time" or value % NANOS_PER_MICRO:
        return None
    return (EPOCH + dt.timedelta(microseconds=value // NANOS_PER_MICRO)).time()


def _read_date(_origin: str, name: str, value: Any, _column: t.DataField) -> Value | None:
    return EPOCH.date() + dt.timedelta(days=value) if name == "Date" else None


_READERS: tuple[tuple[type | tuple[type, ...], Callable[[str, str, Any, t.DataField], Value | None]], ...] = (
    (tuple(INTEGER_BITS), _read_integer),
    (FLOAT_TYPES, _read_float),
    (t.DecimalType, _read_decimal),
    (TIMESTAMP_TYPES, _read_timestamp),
    (t.TimeType, _read_time),
    (t.DateType, _read_date),
    (STRING_TYPES, lambda _origin, name, value, _column: value if name in ("Str", "String") else None),
    (BINARY_TYPES, lambda _origin, name, value, _column: bytes(value) if name == "Binary" else None),
    (t.BooleanType, lambda _origin, name, value, _column: value if name == "Boolean" else None),
)
