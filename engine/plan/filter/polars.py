"""Translation of Polars expressions to predicates, from the JSON form of their tree.

Polars casts the two sides of a comparison to a common type; a part becomes a predicate only if that rounds neither
side (a float64 literal on an integer column, or microseconds on a nanosecond column, would). Anything unknown to this
module stays a Polars expression.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.polars_types import polars_schema
from morrow.engine.format.types import (
    BooleanType,
    DataField,
)
from morrow.engine.plan.filter.literals import (
    EPOCH,
    FLOAT_TYPES,
    STRING_TYPES,
    comparison,
    is_null,
    membership,
    not_null,
)
from morrow.engine.plan.filter.polars_form import (
    AND,
    OR,
    POLARS_ERRORS,
    PYTHON,
    SELECTOR,
    balanced,
    calls_python,
    chain,
    nodes,
    opened,
    operands,
    parsed,
    row_by_row,
    serialized,
)
from morrow.engine.plan.filter.polars_names import with_names
from morrow.engine.plan.filter.polars_values import literal_value
from morrow.engine.plan.filter.terms import (
    MIRRORED,
    Columns,
    Part,
    Residual,
    all_true,
    any_true,
    in_pairs,
    shallow,
    shortened,
)
from morrow.engine.plan.predicate import ALWAYS, NEGATED, NEVER, Leaf, Op, Predicate


def split_polars(expression: pl.Expr, columns: Columns) -> list[Part]:
    """Returns the conjuncts; those that are no predicate are combined as one residual.

    Raises:
        InvalidArgument, ColumnNotFound: see `parse_filter`.
    """
    expression = with_names(expression, columns.fields)
    for name in expression.meta.root_names():
        columns.exact(name)
    form = serialized(expression)
    if form is None:
        return [_residual([expression], columns)]
    conjuncts = list(operands(expression, parsed(form), AND))
    conditions = [_condition(node, columns) for _, node in conjuncts]
    rest = [balanced(part, node) for (part, node), known in zip(conjuncts, conditions) if known is None]
    parts: list[Part] = [condition for condition in conditions if condition is not None]
    return [*parts, _residual(rest, columns)] if rest else parts


def _condition(node: Any, columns: Columns) -> Predicate | None:
    try:
        return shallow(_rows(node, True, columns))
    except RecursionError:
        return None


def _residual(operands: list[pl.Expr], columns: Columns) -> Residual:
    _check(operands, columns)
    expression = in_pairs(operator.and_, operands)
    form = serialized(expression)
    selects = form is None or SELECTOR in form
    reads = (f.name for f in columns.fields) if selects else expression.meta.root_names()
    identity = None if form is None or PYTHON in form else form.encode("utf-8", "surrogatepass")
    return Residual("polars", str(expression), frozenset(reads), expression, identity)


def _check(operands: Sequence[pl.Expr], columns: Columns) -> None:
    """Checks that every operand is one boolean per row and depends on no other row."""
    empty = pl.LazyFrame(schema=polars_schema(columns.fields))
    for one in operands:
        if one.meta.has_multiple_outputs():
            raise InvalidArgument(f"filter: {_shown(one)} is several columns; join them with pl.all_horizontal")
    try:
        chosen = empty.select(one.alias(str(i)) for i, one in enumerate(operands))
        # Python functions are not run on empty frames: they may not expect that.
        dtypes = (chosen.collect_schema() if any(map(calls_python, operands)) else chosen.collect().schema).dtypes()
        alone = [all(map(row_by_row, nodes(one))) for one in operands]
    except POLARS_ERRORS as error:
        shown = _shown(in_pairs(operator.and_, operands))
        problem = shortened(str(error).strip().partition("\n")[0])
        raise InvalidArgument(
            f"filter: Polars cannot plan {shown} on this table: {problem}; apply it after the read"
        ) from error
    for one, dtype, by_row in zip(operands, dtypes, alone, strict=True):
        if dtype != pl.Boolean:
            raise InvalidArgument(f"filter: {_shown(one)} is {dtype}, not a boolean")
        if not by_row:
            raise InvalidArgument(
                f"filter: {_shown(one)} looks at more than one row (aggregate, window, order); apply it after the read"
            )


def _shown(expression: pl.Expr) -> str:
    return shortened(str(expression))


def _rows(node: Any, want: bool, columns: Columns) -> Predicate | None:
    """Returns the rows where the node is `want`, neither null nor the opposite; None without an exact predicate."""
    kind, content = opened(node)
    rule = _RULES.get(kind)
    return rule(content, want, columns) if rule else None


def _bare_column(name: Any, want: bool, columns: Columns) -> Predicate | None:
    column = columns.exact(name)
    return Leaf(name, Op.EQ, (want,)) if isinstance(column.type, BooleanType) else None


def _constant(literal: Any, want: bool, _columns: Columns) -> Predicate | None:
    _, content = opened(literal)
    name, value = opened(content)
    return (ALWAYS if value is want else NEVER) if name == "Boolean" else None


_COMPARISONS = {"Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtEq": Op.LE, "Gt": Op.GT, "GtEq": Op.GE}
_NULL_SAFE = {"EqValidity": True, "NotEqValidity": False}


def _binary(content: Any, want: bool, columns: Columns) -> Predicate | None:
    name, left, right = content["op"], content["left"], content["right"]
    for operators in (AND, OR):
        if name in operators:
            return _joined(operators is AND, chain({"BinaryExpr": content}, operators), want, columns)
    if name in _NULL_SAFE:
        column = _column(left, columns)
        equal = _NULL_SAFE[name] is want
        same = _compared(left, Op.EQ if equal else Op.NE, right, columns)
        return same if equal or column is None else any_true([same, is_null(column)])
    if name not in _COMPARISONS:
        return None
    op = _COMPARISONS[name] if want else NEGATED[_COMPARISONS[name]]
    if _column(left, columns) is None:
        left, right, op = right, left, MIRRORED[op]
    return _compared(left, op, right, columns)


def _joined(is_and: bool, nodes: Iterable[Any], want: bool, columns: Columns) -> Predicate | None:
    parts = (_rows(node, want, columns) for node in nodes)
    return all_true(parts) if is_and is want else any_true(parts)


def _compared(left: Any, op: Op, right: Any, columns: Columns) -> Predicate | None:
    column, (kind, literal) = _column(left, columns), opened(right)
    if column is None or kind != "Literal":
        return None
    value = literal_value(literal, column)
    return None if value is None else comparison(column, op, value)


def _column(node: Any, columns: Columns) -> DataField | None:
    kind, name = opened(node)
    return columns.exact(name) if kind == "Column" else None


def _function(content: Any, want: bool, columns: Columns) -> Predicate | None:
    family, function = opened(content["function"])
    name, options = opened(function)
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
    """Translates is_in: with ``nulls_equal`` a null in the list matches null (is_in is never null), else nothing."""
    column, (kind, literal) = _column(inputs[0], columns), opened(inputs[1])
    if column is None or kind != "Literal":
        return None
    name, content = opened(opened(literal)[1])
    if name != "List" or isinstance(column.type, FLOAT_TYPES):
        return None
    series = pl.read_ipc_stream(bytes(content)).to_series()
    if series.dtype == pl.List:
        series = series.explode()
    values = [literal_value(_as_literal(series.dtype, value), column) for value in series.drop_nulls().to_list()]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    found = membership(column, known, negated=not want)
    null_is_found = series.null_count() > 0
    return any_true([found, is_null(column)]) if options.get("nulls_equal") and null_is_found is want else found


def _as_literal(dtype: pl.DataType, value: Any) -> Any:
    """Returns a list member in the JSON form of a single literal; None for types not compared in lists."""
    if dtype.is_signed_integer() or dtype in (pl.String, pl.Boolean):
        return {"Scalar": {str(dtype): value}}
    if dtype == pl.Date and value is not None:
        return {"Scalar": {"Date": (value - EPOCH.date()).days}}
    return {"Scalar": {"Binary": list(value)}} if dtype == pl.Binary and value is not None else None


def _starts_with(inputs: list[Any], _options: Any, want: bool, columns: Columns) -> Predicate | None:
    column, (kind, literal) = _column(inputs[0], columns), opened(inputs[1])
    if column is None or kind != "Literal" or not isinstance(column.type, STRING_TYPES):
        return None
    value = literal_value(literal, column)
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
