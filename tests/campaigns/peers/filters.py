"""Conversion of pypaimon's predicates, as `hook` sends them, to Polars expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import polars as pl

Tree = tuple[str, "str | None", Sequence[Any]]

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
}
OTHERS: dict[str, Callable[[pl.Expr, Sequence[Any]], pl.Expr]] = {
    "isNull": lambda column, _: column.is_null(),
    "isNotNull": lambda column, _: column.is_not_null(),
    "in": lambda column, values: column.is_in(values),
    "notIn": lambda column, values: pl.lit(False) if None in values else ~column.is_in(values),
    "between": lambda column, bounds: (column >= bounds[0]) & (column <= bounds[1]),
    "notBetween": lambda column, bounds: (column < bounds[0]) | (column > bounds[1]),
}


def to_polars(tree: Tree) -> pl.Expr:
    """Build the expression; raise `KeyError` for a method without an equivalent."""
    method, name, literals = tree
    if name is None:
        return reduce(operator.and_ if method == "and" else operator.or_, map(to_polars, literals))
    if method in COMPARISONS:
        return COMPARISONS[method](pl.col(name), literals[0])
    return OTHERS[method](pl.col(name), literals)
