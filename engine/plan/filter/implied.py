"""Predicates that follow from SQL conditions which are not predicates themselves.

``abs(i) = 100`` is true only for rows with ``i IN (-100, 100)``, ``year(day) = 2024`` only for days of that year. The
condition stays as it is written and is tested on rows; the predicate that follows from it prunes files and row groups,
and drops most rows before. It may keep more rows, never fewer.

A condition on rows that such a predicate drops is not computed: ``i + 1 = 5`` no longer fails on the greatest integer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from morrow.engine.format.types import DataField, DateType, TimestampType
from morrow.engine.plan.filter.literals import INTEGER_BITS, STRING_TYPES, build_comparison, build_membership
from morrow.engine.plan.filter.sql_parsing import COMPARISONS, NULL, Constant, Node, convert_constant, read_constant
from morrow.engine.plan.predicate import ALWAYS, MIRRORED, NEVER, Leaf, Op, Predicate, combine_all, combine_any

if TYPE_CHECKING:
    from morrow.engine.plan.filter.sql import Translator

MAX_LISTED = 100
"""Maximum values of IN with a computed left side; of more, nothing is derived."""
MIN_YEAR, MAX_YEAR = 1, 9998
"""The years whose days, and the first day after them, are dates of Python."""
DAYS = (DateType, TimestampType)
"""Types whose values are in days without a time zone."""


def derive_predicate(node: Node, translator: Translator) -> Predicate:
    """Return a predicate that is true for all rows for which the condition is true; `ALWAYS` if none is known."""
    exact = translator.rows(node, True)
    if exact is not None:
        return exact
    if node.args.get("negate"):
        return ALWAYS
    rule = _RULES.get(type(node))
    return (rule(node, translator) if rule else None) or ALWAYS


def _derive_connective(node: Node, translator: Translator) -> Predicate | None:
    children = [derive_predicate(child, translator) for child in node.flatten()]
    return combine_all(children) if isinstance(node, exp.And) else combine_any(children)


def _derive_comparison(node: Node, translator: Translator) -> Predicate | None:
    op = COMPARISONS[type(node)]
    if op is Op.NE:
        return None
    return _invert(node.this, op, node.expression, translator) or _invert(
        node.expression, MIRRORED[op], node.this, translator
    )


def _derive_between(node: Node, translator: Translator) -> Predicate | None:
    if node.args.get("symmetric"):
        return None
    low = _invert(node.this, Op.GE, node.args["low"], translator) or ALWAYS
    return combine_all([low, _invert(node.this, Op.LE, node.args["high"], translator) or ALWAYS])


def _derive_membership(node: Node, translator: Translator) -> Predicate | None:
    items = node.expressions
    if node.args.get("query") is not None or not 0 < len(items) <= MAX_LISTED:
        return None
    return combine_any(_invert(node.this, Op.EQ, item, translator) or ALWAYS for item in items)


def _derive_like(node: Node, translator: Translator) -> Predicate | None:
    column, literal = translator.find_column(node.this), read_constant(node.expression)
    if column is None or not isinstance(column.type, STRING_TYPES) or literal is None:
        return None
    pattern = literal.value
    if not isinstance(pattern, str):
        return None
    prefix = pattern[: min((at for at in map(pattern.find, "%_") if at >= 0), default=len(pattern))]
    return Leaf(column.name, Op.STARTS_WITH, (prefix,)) if prefix else None


_RULES: Mapping[type, Callable[[Node, Translator], Predicate | None]] = {
    exp.And: _derive_connective,
    exp.Or: _derive_connective,
    exp.Paren: lambda node, translator: derive_predicate(node.this, translator),
    exp.Between: _derive_between,
    exp.In: _derive_membership,
    exp.Like: _derive_like,
    **dict.fromkeys(COMPARISONS, _derive_comparison),
}


# Functions of one column, undone


def _invert(left: Node, op: Op, right: Node, translator: Translator) -> Predicate | None:
    """Return what follows for the column within `left` from ``left op right``, if `right` is a literal."""
    left, literal = left.unnest(), read_constant(right)
    inverse = _INVERSES.get(type(left))
    if inverse is None or literal is None:
        return None
    return NEVER if literal is NULL else inverse(left, op, literal, translator)


def _compare_shifted(left: Node, op: Op, literal: Constant, translator: Translator) -> Predicate | None:
    """Undo ``i + 1``, ``1 + i``, ``i - 1`` and ``1 - i``, where DuckDB calculates with integers."""
    value = literal.value
    for inner, other in ((left.this, left.expression), (left.expression, left.this)):
        column, shift = _find_integer_column(inner, translator), read_constant(other)
        if column is None or shift is None or not (_is_integer(shift.value) and _is_integer(value)):
            continue
        assert isinstance(value, int)
        assert isinstance(shift.value, int)
        if isinstance(left, exp.Add):
            return build_comparison(column, op, value - shift.value)
        if inner is left.this:
            return build_comparison(column, op, value + shift.value)
        return build_comparison(column, MIRRORED[op], shift.value - value)
    return None


def _compare_negated(left: Node, op: Op, literal: Constant, translator: Translator) -> Predicate | None:
    column, value = _find_integer_column(left.this, translator), literal.value
    if column is None or not _is_integer(value):
        return None
    assert isinstance(value, int)
    return build_comparison(column, MIRRORED[op], -value)


def _compare_absolute(left: Node, op: Op, literal: Constant, translator: Translator) -> Predicate | None:
    column, value = _find_integer_column(left.this, translator), literal.value
    if column is None or not _is_integer(value) or op in (Op.GT, Op.GE):
        return None
    assert isinstance(value, int)
    if value < 0:
        return NEVER
    if op is Op.EQ:
        return build_membership(column, (-value, value))
    return combine_all([build_comparison(column, MIRRORED[op], -value), build_comparison(column, op, value)])


def _find_integer_column(node: Node, translator: Translator) -> DataField | None:
    column = translator.find_column(node)
    return column if column is not None and type(column.type) in INTEGER_BITS else None


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _compare_year(left: Node, op: Op, literal: Constant, translator: Translator) -> Predicate | None:
    """Undo ``year(day)`` and ``extract(year FROM day)``."""
    operand, year = left.this, literal.value
    if isinstance(left, exp.Extract):
        if left.this.name.upper() != "YEAR":
            return None
        operand = left.expression
    if not isinstance(year, int) or isinstance(year, bool) or not MIN_YEAR <= year <= MAX_YEAR:
        return None
    return _compare_span(operand, op, dt.date(year, 1, 1), dt.date(year + 1, 1, 1), translator)


def _compare_truncated(left: Node, op: Op, literal: Constant, translator: Translator) -> Predicate | None:
    """Undo ``date_trunc('month', day)`` and ``CAST(time AS DATE)``."""
    if isinstance(left, exp.Cast):
        unit = "DAY" if left.args["to"].this.name == "DATE" and not isinstance(left, exp.TryCast) else ""
    else:
        unit = left.args["unit"].name.upper()
    if unit not in _SPANS:
        return None
    kind = DateType() if unit == "DAY" else TimestampType(precision=6)
    given = convert_constant(literal, DataField(0, left.this.name, kind))
    if not isinstance(given, dt.date) or not MIN_YEAR <= given.year < MAX_YEAR:
        return None
    first, after = _SPANS[unit](given.date() if isinstance(given, dt.datetime) else given)
    moment = given.replace(tzinfo=None) if isinstance(given, dt.datetime) else dt.datetime.combine(given, dt.time())
    if op is Op.LT and moment != dt.datetime.combine(first, dt.time()):
        op = Op.LE  # a literal within its unit is above the beginning of the unit
    return _compare_span(left.this, op, first, after, translator)


_SPANS: Mapping[str, Callable[[dt.date], tuple[dt.date, dt.date]]] = {
    "YEAR": lambda day: (day.replace(month=1, day=1), dt.date(day.year + 1, 1, 1)),
    "MONTH": lambda day: (day.replace(day=1), (day.replace(day=28) + dt.timedelta(days=4)).replace(day=1)),
    "DAY": lambda day: (day, day + dt.timedelta(days=1)),
}
"""Units of time -> the first day of a day's unit, and the first day after it."""


def _compare_span(node: Node, op: Op, first: dt.date, after: dt.date, translator: Translator) -> Predicate | None:
    """Compare the unit of a day with the unit of the days from `first` to before `after`."""
    column = translator.find_column(node)
    if column is None or not isinstance(column.type, DAYS):
        return None
    since, before = build_comparison(column, Op.GE, first), build_comparison(column, Op.LT, after)
    if op is Op.EQ:
        return combine_all([since, before])
    if op is Op.LE:
        return before
    if op is Op.GE:
        return since
    return build_comparison(column, Op.LT, first) if op is Op.LT else build_comparison(column, Op.GE, after)


_INVERSES: Mapping[type, Callable[[Node, Op, Constant, Translator], Predicate | None]] = {
    exp.Add: _compare_shifted,
    exp.Sub: _compare_shifted,
    exp.Neg: _compare_negated,
    exp.Abs: _compare_absolute,
    exp.Year: _compare_year,
    exp.Extract: _compare_year,
    exp.TimestampTrunc: _compare_truncated,
    exp.DateTrunc: _compare_truncated,
    exp.Cast: _compare_truncated,
}
