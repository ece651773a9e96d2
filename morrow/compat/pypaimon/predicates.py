"""pypaimon's predicates, and their conversion to Morrow's filters."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.names import col

Literals = Sequence[Any]
NEVER = pl.lit(False)
NO_COLUMNS: Mapping[str, pl.Expr] = {}

COMPARISONS: dict[str, Callable[[pl.Expr, Any], pl.Expr]] = {
    "equal": operator.eq,
    "notEqual": operator.ne,
    "lessThan": operator.lt,
    "lessOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterOrEqual": operator.ge,
    "startsWith": lambda column, text: column.str.starts_with(text),
    "endsWith": lambda column, text: column.str.ends_with(text),
    "contains": lambda column, text: column.str.contains(text, literal=True),
    "like": lambda column, pattern: column.str.contains(like_to_regex(pattern)),
}
"""Methods of one literal."""
OTHERS: dict[str, Callable[[pl.Expr, Literals], pl.Expr]] = {
    "isNull": lambda column, _: column.is_null(),
    "isNotNull": lambda column, _: column.is_not_null(),
    "in": lambda column, values: _is_in(column, values),
    "notIn": lambda column, values: NEVER if None in values else ~_is_in(column, values) & column.is_not_null(),
    "between": lambda column, bounds: (column >= bounds[0]) & (column <= bounds[1]),
    "notBetween": lambda column, bounds: (column < bounds[0]) | (column > bounds[1]),
}
"""Methods of any other number of literals."""


def _is_in(column: pl.Expr, values: Literals) -> pl.Expr:
    known = [value for value in values if value is not None]
    return column.is_in(known) if known else NEVER


def like_to_regex(pattern: str) -> str:
    """Return the regular expression of a LIKE pattern, in which a backslash escapes ``%``, ``_`` and itself.

    Raises:
        InvalidArgument: a backslash before anything else.
    """
    parts = re.findall(r"\\[%_\\]|[^\\]", pattern, re.DOTALL)
    if "".join(parts) != pattern:
        raise InvalidArgument(f"the pattern {pattern!r} has a backslash before no %, _ or backslash; double it")
    wild = {"%": ".*", "_": "."}
    return f"(?s)^{''.join(wild.get(part) or re.escape(part[-1]) for part in parts)}$"


@dataclass(frozen=True)
class Predicate:
    """A condition on a column, or conditions combined by ``and`` or ``or``.

    `literals` are the values of a leaf, or the combined predicates.
    """

    method: str
    index: int | None
    field: str | None
    literals: Literals | None = None

    def to_polars(self, columns: Mapping[str, pl.Expr] = NO_COLUMNS) -> pl.Expr:
        """Return the condition as a Polars expression, which Morrow's scans accept.

        Args:
            columns: expressions of names that are not columns.

        Raises:
            InvalidArgument: a method that pypaimon does not have.
        """
        literals = self.literals or ()
        if self.method in ("and", "or"):
            combine: Callable[[pl.Expr, pl.Expr], pl.Expr] = operator.and_ if self.method == "and" else operator.or_
            parts: list[pl.Expr] = [each.to_polars(columns) for each in literals]
            return reduce(combine, parts)
        name = self.field or ""
        column = columns.get(name, col(name))
        if self.method in COMPARISONS:
            value = literals[0]
            return NEVER if value is None else COMPARISONS[self.method](column, value)
        if self.method in OTHERS:
            return OTHERS[self.method](column, literals)
        known = ", ".join(sorted([*COMPARISONS, *OTHERS]))
        raise InvalidArgument(f"a predicate has no method {self.method!r}; choose one of {known}, and, or")

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate("and", None, None, [self, other])

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate("or", None, None, [self, other])


class PredicateBuilder:
    """A builder of conditions on the columns of a table."""

    def __init__(self, row_field: Sequence[Any]) -> None:
        self.field_names = [column.name for column in row_field]

    def _leaf(self, method: str, field: str, *literals: Any) -> Predicate:
        if field not in self.field_names:
            raise InvalidArgument(f"The field {field} is not in field list {self.field_names}.")
        return Predicate(method, self.field_names.index(field), field, list(literals) or None)

    def equal(self, field: str, literal: Any) -> Predicate:
        return self._leaf("equal", field, literal)

    def not_equal(self, field: str, literal: Any) -> Predicate:
        return self._leaf("notEqual", field, literal)

    def less_than(self, field: str, literal: Any) -> Predicate:
        return self._leaf("lessThan", field, literal)

    def less_or_equal(self, field: str, literal: Any) -> Predicate:
        return self._leaf("lessOrEqual", field, literal)

    def greater_than(self, field: str, literal: Any) -> Predicate:
        return self._leaf("greaterThan", field, literal)

    def greater_or_equal(self, field: str, literal: Any) -> Predicate:
        return self._leaf("greaterOrEqual", field, literal)

    def is_null(self, field: str) -> Predicate:
        return self._leaf("isNull", field)

    def is_not_null(self, field: str) -> Predicate:
        return self._leaf("isNotNull", field)

    def startswith(self, field: str, pattern_literal: str) -> Predicate:
        return self._leaf("startsWith", field, pattern_literal)

    def endswith(self, field: str, pattern_literal: str) -> Predicate:
        return self._leaf("endsWith", field, pattern_literal)

    def contains(self, field: str, pattern_literal: str) -> Predicate:
        return self._leaf("contains", field, pattern_literal)

    def like(self, field: str, pattern_literal: str) -> Predicate:
        return self._leaf("like", field, pattern_literal)

    def is_in(self, field: str, literals: Literals) -> Predicate:
        return self._leaf("in", field, *literals)

    def is_not_in(self, field: str, literals: Literals) -> Predicate:
        return self._leaf("notIn", field, *literals)

    def between(self, field: str, included_lower_bound: Any, included_upper_bound: Any) -> Predicate:
        return self._leaf("between", field, included_lower_bound, included_upper_bound)

    def not_between(self, field: str, included_lower_bound: Any, included_upper_bound: Any) -> Predicate:
        return self._leaf("notBetween", field, included_lower_bound, included_upper_bound)

    @staticmethod
    def and_predicates(predicates: Sequence[Predicate]) -> Predicate | None:
        """Combine predicates by AND; None if there is none."""
        return _combine("and", predicates)

    @staticmethod
    def or_predicates(predicates: Sequence[Predicate]) -> Predicate | None:
        """Combine predicates by OR; None if there is none."""
        return _combine("or", predicates)


def _combine(method: str, predicates: Sequence[Predicate]) -> Predicate | None:
    if len(predicates) > 1:
        return Predicate(method, None, None, list(predicates))
    return predicates[0] if predicates else None
