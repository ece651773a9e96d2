"""Columns that Polars expressions name by selectors: the only way to write a name that Polars takes for a pattern."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from morrow.engine.format.polars_types import polars_schema
from morrow.engine.format.types import DataField


def with_names(expression: pl.Expr, fields: Sequence[DataField]) -> pl.Expr:
    """Returns the expression with each selector of a single column replaced by the column's name.

    Left unchanged: selectors of no or several columns, and expressions without a JSON form (Python functions, NaN).
    """
    try:
        form = expression.meta.serialize(format="json")
        if '"Selector"' not in form:
            return expression
        return _expression(_named(json.loads(form), pl.DataFrame(schema=polars_schema(fields))))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, RecursionError):
        return expression


def _named(node: Any, empty: pl.DataFrame) -> Any:
    if isinstance(node, dict):
        if node.keys() == {"Selector"}:
            names = empty.select(_expression(node)).columns
            return {"Column": names[0]} if len(names) == 1 else node
        return {key: _named(value, empty) for key, value in node.items()}
    return [_named(value, empty) for value in node] if isinstance(node, list) else node


def _expression(form: Any) -> pl.Expr:
    return pl.Expr.deserialize(io.BytesIO(json.dumps(form).encode()), format="json")
