"""The tree of Polars expressions: its JSON form as Python values, at any depth, and chains of operators in it.

``a & b & c & ...`` nests to the left, two levels of JSON per operation, and Python's parser gives up after about a
thousand.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Collection, Iterator
from typing import Any

import polars as pl

from morrow.engine.plan.filter.terms import in_pairs

AND, OR = ("And", "LogicalAnd"), ("Or", "LogicalOr")
PYTHON, SELECTOR = "AnonymousFunction", '"Selector"'
"""The names of a Python function in the JSON form, and of a selection of columns by other means than names."""

_TOKEN = re.compile(r'[\s,:]*([{}\[\]]|"(?:[^"\\]|\\.)*+"|[^\s,:{}\[\]"]++)', re.DOTALL)


def parsed(text: str) -> Any:
    """Parses well-formed JSON text."""
    try:
        return json.loads(text)
    except RecursionError:
        return _without_recursion(text)


def _without_recursion(text: str) -> Any:
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
"""The exceptions that Polars raises; its panics are no `Exception`."""


def calls_python(expression: pl.Expr) -> bool:
    form = serialized(expression)
    return form is None or PYTHON in form


def nodes(expression: pl.Expr) -> Iterator[pl.Expr]:
    left = [expression]
    while left:
        node = left.pop()
        yield node
        left += node.meta.pop()


def row_by_row(node: pl.Expr) -> bool:
    """Returns whether every node is evaluated row by row: Polars answers for the outermost operation only."""
    meta = node.meta
    try:
        return meta.is_literal() or (meta.is_row_separable() and (meta.is_length_preserving() or not meta.root_names()))
    except pl.exceptions.ColumnNotFoundError:  # it does not answer for Python functions, whose JSON form tells
        flags = json.loads(meta.serialize(format="json")).get(PYTHON, {}).get("options", {}).get("flags", "")
        return "ROW_SEPARABLE" in flags and "LENGTH_PRESERVING" in flags


def serialized(expression: pl.Expr) -> str | None:
    """Returns the JSON form, None for expressions without one."""
    try:
        return expression.meta.serialize(format="json")
    except (*POLARS_ERRORS, ValueError, TypeError):
        return None


def operands(expression: pl.Expr, node: Any, operators: Collection[str]) -> Iterator[tuple[pl.Expr, Any]]:
    """Yields the operands of a chain of ANDs or of ORs, however long, with their forms.

    ``a & b & c`` nests to the left.
    """
    left = [(expression, node)]
    while left:
        expression, node = left.pop()
        content = connective(node, operators)
        if content is None:
            yield expression, node
        else:
            right_operand, left_operand = expression.meta.pop()
            left += [(right_operand, content["right"]), (left_operand, content["left"])]


def chain(node: Any, operators: Collection[str]) -> Iterator[Any]:
    """Yields the forms of the operands alone."""
    left = [node]
    while left:
        node = left.pop()
        content = connective(node, operators)
        if content is None:
            yield node
        else:
            left += [content["right"], content["left"]]


def connective(node: Any, operators: Collection[str]) -> Any:
    kind, content = opened(node)
    return content if kind == "BinaryExpr" and content["op"] in operators else None


def balanced(expression: pl.Expr, node: Any) -> pl.Expr:
    """Returns the same expression with balanced chains: for a chain of 2,000 operations Polars takes a minute."""
    try:
        return _evenly(expression, node)
    except RecursionError:
        return expression


def _evenly(expression: pl.Expr, node: Any) -> pl.Expr:
    for operators, join in ((AND, operator.and_), (OR, operator.or_)):
        if connective(node, operators) is not None:
            return in_pairs(join, [_evenly(*one) for one in operands(expression, node, operators)])
    return expression


def opened(node: Any) -> tuple[str, Any]:
    """Splits ``{"BinaryExpr": {...}}`` and ``"IsNull"`` into (name, content)."""
    if isinstance(node, dict) and len(node) == 1:
        return next(iter(node.items()))
    return (node, {}) if isinstance(node, str) else ("", {})
