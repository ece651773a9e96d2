"""Predicates as Arrow expressions, and filters applied to Arrow batches.

Arrow follows IEEE: comparisons with NaN are false. The predicate tree orders NaN as the greatest value, so
comparisons of floats handle NaN explicitly: ``f > 1`` is ``(f > 1) or is_nan(f)``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import ColumnNotFound
from morrow.engine.format.types import DataField
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.predicate import ALWAYS, And, Leaf, Op, Predicate, Value, join_in_pairs
from morrow.readers.expressions.polars import filter_batch_by_residuals


def compile(predicate: Predicate, fields: Sequence[DataField]) -> pc.Expression:
    """Return a boolean expression, true exactly for the rows that `predicate` keeps (false or null for the others).

    Raises `ColumnNotFound`: the predicate names a column that `fields` lacks.
    """
    return _compile_predicate(predicate, {field.name: field.type.arrow() for field in fields})


def filter_batch(filter: Filter, fields: Sequence[DataField], rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a batch with the columns `fields` for which the filter is true.

    Raises as `make_residual_step`.
    """
    if filter.predicate != ALWAYS:
        # `RecordBatch.filter` fails before pyarrow 20 if no row is left.
        found = pa.Table.from_batches([rows]).filter(compile(filter.predicate, fields)).combine_chunks().to_batches()
        rows = found[0] if found else rows.slice(0, 0)
    return filter_batch_by_residuals(filter.residuals, fields, rows)


def _compile_predicate(predicate: Predicate, kinds: dict[str, pa.DataType]) -> pc.Expression:
    if isinstance(predicate, Leaf):
        if predicate.column not in kinds:
            raise ColumnNotFound(
                f"filter: column {predicate.column!r} is not among the columns read: {', '.join(kinds)}"
            )
        column, kind = pc.field(predicate.column), kinds[predicate.column]
        leaves = _FLOAT_LEAVES if pa.types.is_floating(kind) else {}
        return leaves.get(predicate.op, _LEAVES[predicate.op])(column, predicate.literals, kind)
    children = [_compile_predicate(child, kinds) for child in predicate.children]
    if not children:
        return pc.scalar(isinstance(predicate, And))
    return join_in_pairs(operator.and_ if isinstance(predicate, And) else operator.or_, children)


Build = Callable[[Any, tuple[Value, ...], pa.DataType], Any]


def _make_comparison(compare: Callable[[Any, Any], Any]) -> Build:
    return lambda column, literals, kind: compare(column, pa.scalar(literals[0], kind))


def _is_in(column: Any, literals: tuple[Value, ...], kind: pa.DataType) -> Any:
    return column.isin(pa.array(literals, kind))


def _compile_float_in(column: Any, literals: tuple[Value, ...], kind: pa.DataType) -> Any:
    """Compile ``IN``: Arrow compares bit patterns, so both zeros must be in the set; NaN has many bit patterns."""
    numbers = [value for value in literals if isinstance(value, float) and not math.isnan(value)]
    zeros = [0.0, -0.0] if 0.0 in numbers else []
    found = column.isin(pa.array([*numbers, *zeros], kind))
    return found if len(numbers) == len(literals) else found | pc.is_nan(column)


def _make_float_comparison(compare: Callable[[Any, Any], Any], nan: Callable[[Any], Any], *, has_nan: bool) -> Build:
    """Return a comparison that handles NaN.

    `nan` is the comparison with a literal NaN. `has_nan` says whether the comparison with a number is true for NaN.
    """

    def build(column: Any, literals: tuple[Value, ...], kind: pa.DataType) -> Any:
        (value,) = literals
        if isinstance(value, float) and math.isnan(value):
            return nan(column)
        compared = compare(column, pa.scalar(value, kind))
        return compared | pc.is_nan(column) if has_nan else compared

    return build


_LEAVES: dict[Op, Build] = {
    Op.EQ: _make_comparison(operator.eq),
    Op.NE: _make_comparison(operator.ne),
    Op.LT: _make_comparison(operator.lt),
    Op.LE: _make_comparison(operator.le),
    Op.GT: _make_comparison(operator.gt),
    Op.GE: _make_comparison(operator.ge),
    Op.IN: _is_in,
    Op.NOT_IN: lambda column, literals, kind: column.is_valid() & ~_is_in(column, literals, kind),
    Op.IS_NULL: lambda column, _literals, _kind: column.is_null(),
    Op.IS_NOT_NULL: lambda column, _literals, _kind: column.is_valid(),
    Op.STARTS_WITH: lambda column, literals, _kind: pc.starts_with(column, pattern=literals[0]),
    Op.NOT_STARTS_WITH: lambda column, literals, _kind: ~pc.starts_with(column, pattern=literals[0]),
}

_FLOAT_LEAVES: dict[Op, Build] = {
    Op.EQ: _make_float_comparison(operator.eq, pc.is_nan, has_nan=False),
    Op.NE: _make_float_comparison(operator.ne, lambda column: ~pc.is_nan(column), has_nan=False),
    Op.LT: _make_float_comparison(operator.lt, lambda column: ~pc.is_nan(column), has_nan=False),
    Op.LE: _make_float_comparison(operator.le, lambda column: column.is_valid(), has_nan=False),
    Op.GT: _make_float_comparison(operator.gt, lambda _column: pc.scalar(False), has_nan=True),
    Op.GE: _make_float_comparison(operator.ge, pc.is_nan, has_nan=True),
    Op.IN: _compile_float_in,
    Op.NOT_IN: lambda column, literals, kind: column.is_valid() & ~_compile_float_in(column, literals, kind),
}
