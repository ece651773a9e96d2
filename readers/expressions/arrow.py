"""Predicates as Arrow expressions, and residuals applied to Arrow tables and batches.

Arrow follows IEEE: NaN equals nothing and is above nothing. The predicate tree orders it as the greatest value, so
comparisons of floats name it: ``f > 1`` is ``(f > 1) or is_nan(f)``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.types import DataField
from morrow.engine.plan.filter import Filter, Residual
from morrow.engine.plan.predicate import ALWAYS, And, Leaf, Op, Predicate, Value
from morrow.readers.expressions import sql

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def compile(predicate: Predicate, fields: Sequence[DataField]) -> pc.Expression:
    """A boolean expression, true exactly for the rows that `predicate` keeps (false or null for the others).

    Raises:
        ColumnNotFound: the predicate names a column that `fields` lacks.
    """
    return _compiled(predicate, {field.name: field.type.arrow() for field in fields})


def apply_residual(rows: Rows, residual: Residual) -> Rows:
    """The rows for which the residual is true; the order and all columns stay.

    Raises:
        InvalidArgument: its engine refuses the condition, or cannot compute it for one of the rows.
    """
    return rows.filter(residual_mask(rows, residual))


def matching(filter: Filter, fields: Sequence[DataField], rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch with the columns `fields` for which the filter is true. Raises as `apply_residual`."""
    if filter.predicate != ALWAYS:
        rows = rows.filter(compile(filter.predicate, fields))
    for residual in filter.residuals:
        rows = apply_residual(rows, residual)
    return rows


def residual_mask(rows: pa.Table | pa.RecordBatch, residual: Residual) -> pa.ChunkedArray:
    """True for each row for which the residual is true, false where it is false or null."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    return _MASKS[residual.kind](residual, table.select(sorted(residual.columns)))


def _arrow_mask(residual: Residual, table: pa.Table) -> pa.ChunkedArray:
    source = table if table.num_columns else pa.table({"rows": pa.nulls(table.num_rows, pa.bool_())})
    keep: Any = residual.expression
    try:
        mask = ds.dataset(source).to_table(columns={"keep": keep}).column("keep")
        return pc.fill_null(mask.cast(pa.bool_()), False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"filter: Arrow cannot evaluate {residual.text!r}: {error}") from error


def _polars_mask(residual: Residual, table: pa.Table) -> pa.ChunkedArray:
    frame = pl.DataFrame(table) if table.num_columns else pl.select(pl.repeat(None, table.num_rows).alias("rows"))
    keep: Any = residual.expression
    try:
        mask = frame.lazy().select(keep.fill_null(False).alias("keep")).collect().get_column("keep")
    except pl.exceptions.PolarsError as error:
        raise InvalidArgument(f"filter: Polars cannot evaluate {residual.text!r}: {error}") from error
    if len(mask) == 1 != frame.height:
        mask = mask.new_from_index(0, frame.height)
    return pa.chunked_array([mask.to_arrow()])


_MASKS: dict[str, Callable[[Residual, pa.Table], pa.ChunkedArray]] = {
    "sql": sql.residual_mask,
    "arrow": _arrow_mask,
    "polars": _polars_mask,
}


def _compiled(predicate: Predicate, kinds: dict[str, pa.DataType]) -> pc.Expression:
    if isinstance(predicate, Leaf):
        if predicate.column not in kinds:
            raise ColumnNotFound(
                f"filter: column {predicate.column!r} is not among the columns read: {', '.join(kinds)}"
            )
        column, kind = pc.field(predicate.column), kinds[predicate.column]
        leaves = _FLOAT_LEAVES if pa.types.is_floating(kind) else {}
        return leaves.get(predicate.op, _LEAVES[predicate.op])(column, predicate.literals, kind)
    children = [_compiled(child, kinds) for child in predicate.children]
    join = operator.and_ if isinstance(predicate, And) else operator.or_
    while len(children) > 1:  # in pairs: a thousand conditions nest ten deep
        pairs = [join(left, right) for left, right in zip(children[::2], children[1::2], strict=False)]
        children = pairs + children[len(pairs) * 2 :]
    return children[0] if children else pc.scalar(isinstance(predicate, And))


Build = Callable[[Any, tuple[Value, ...], pa.DataType], Any]


def _compared(compare: Callable[[Any, Any], Any]) -> Build:
    return lambda column, literals, kind: compare(column, pa.scalar(literals[0], kind))


def _is_in(column: Any, literals: tuple[Value, ...], kind: pa.DataType) -> Any:
    return column.isin(pa.array(literals, kind))


def _float_is_in(column: Any, literals: tuple[Value, ...], kind: pa.DataType) -> Any:
    """The set is one of bit patterns: both zeros have to be in it, and NaN has many."""
    numbers = [value for value in literals if isinstance(value, float) and not math.isnan(value)]
    zeros = [0.0, -0.0] if 0.0 in numbers else []
    found = column.isin(pa.array([*numbers, *zeros], kind))
    return found if len(numbers) == len(literals) else found | pc.is_nan(column)


def _float_compared(compare: Callable[[Any, Any], Any], nan: Callable[[Any], Any], *, has_nan: bool) -> Build:
    """`nan` is the comparison with a literal NaN; `has_nan`: the comparison with a number is true for NaN."""

    def build(column: Any, literals: tuple[Value, ...], kind: pa.DataType) -> Any:
        (value,) = literals
        if isinstance(value, float) and math.isnan(value):
            return nan(column)
        compared = compare(column, pa.scalar(value, kind))
        return compared | pc.is_nan(column) if has_nan else compared

    return build


_LEAVES: dict[Op, Build] = {
    Op.EQ: _compared(operator.eq),
    Op.NE: _compared(operator.ne),
    Op.LT: _compared(operator.lt),
    Op.LE: _compared(operator.le),
    Op.GT: _compared(operator.gt),
    Op.GE: _compared(operator.ge),
    Op.IN: _is_in,
    Op.NOT_IN: lambda column, literals, kind: column.is_valid() & ~_is_in(column, literals, kind),
    Op.IS_NULL: lambda column, _literals, _kind: column.is_null(),
    Op.IS_NOT_NULL: lambda column, _literals, _kind: column.is_valid(),
    Op.STARTS_WITH: lambda column, literals, _kind: pc.starts_with(column, pattern=literals[0]),
    Op.NOT_STARTS_WITH: lambda column, literals, _kind: ~pc.starts_with(column, pattern=literals[0]),
}

_FLOAT_LEAVES: dict[Op, Build] = {
    Op.EQ: _float_compared(operator.eq, pc.is_nan, has_nan=False),
    Op.NE: _float_compared(operator.ne, lambda column: ~pc.is_nan(column), has_nan=False),
    Op.LT: _float_compared(operator.lt, lambda column: ~pc.is_nan(column), has_nan=False),
    Op.LE: _float_compared(operator.le, lambda column: column.is_valid(), has_nan=False),
    Op.GT: _float_compared(operator.gt, lambda _column: pc.scalar(False), has_nan=True),
    Op.GE: _float_compared(operator.ge, pc.is_nan, has_nan=True),
    Op.IN: _float_is_in,
    Op.NOT_IN: lambda column, literals, kind: column.is_valid() & ~_float_is_in(column, literals, kind),
}
