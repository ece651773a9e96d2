"""Predicates as Polars expressions that scans push down, and residuals as lazy filters.

Polars orders floats as the predicate tree does: NaN equals itself and is greatest, -0.0 equals 0.0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from morrow.engine.errors import ColumnNotFound
from morrow.engine.format.types import DataField, DataType
from morrow.engine.plan.filter import Filter, Residual
from morrow.engine.plan.predicate import ALWAYS, And, Leaf, Op, Predicate

Dtypes: TypeAlias = Sequence[DataField] | Mapping[str, pl.DataType]
"""The columns' types: table fields, or the Polars dtypes they have where the expression is used."""


def compile(predicate: Predicate, fields: Dtypes) -> pl.Expr:
    """A boolean expression, true exactly for the rows that `predicate` keeps (false or null for the others).

    Comparisons are plain ``col op lit`` with the literal in the column's dtype, the form that `scan_parquet` prunes by.

    Raises:
        ColumnNotFound: the predicate names a column that `fields` lacks.
    """
    return _compiled(predicate, dtypes_of(fields))


def dtypes_of(fields: Dtypes) -> Mapping[str, pl.DataType]:
    """Polars dtypes by column name."""
    return fields if isinstance(fields, Mapping) else {field.name: dtype_of(field.type) for field in fields}


@lru_cache(maxsize=512)
def dtype_of(kind: DataType) -> pl.DataType:
    """The dtype in which Polars holds the Arrow type of a table column."""
    return pl.Series(pa.array([], kind.arrow())).dtype


def _compiled(predicate: Predicate, dtypes: Mapping[str, pl.DataType]) -> pl.Expr:
    if isinstance(predicate, Leaf):
        if predicate.column not in dtypes:
            raise ColumnNotFound(
                f"filter: column {predicate.column!r} is not among the columns read: {', '.join(dtypes)}"
            )
        return _LEAVES[predicate.op](pl.col(predicate.column), predicate.literals, dtypes[predicate.column])
    children = [_compiled(child, dtypes) for child in predicate.children]
    if isinstance(predicate, And):
        return _balanced(operator.and_, children) if children else pl.lit(True)
    return _balanced(operator.or_, children) if children else pl.lit(False)


def _balanced(join: Callable[[Any, Any], Any], parts: list[pl.Expr]) -> pl.Expr:
    """Joined in pairs: a thousand conditions nest ten deep, not a thousand."""
    while len(parts) > 1:
        pairs = [join(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


def residual(residual: Residual, fields: Sequence[DataField]) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
    """A step that keeps the rows for which the residual is true; projections and other filters still pass through it.

    SQL and Arrow conditions run batch by batch in their own engine, over the columns they read.

    Raises:
        InvalidArgument: the engine refuses the condition; when rows are read also: it cannot compute it for a row.
    """
    # pyarrow's expressions bring pyarrow.dataset along, which not every scan needs.
    from morrow.readers.expressions import arrow

    schema = pa.schema([field.arrow().with_nullable(True) for field in fields if field.name in residual.columns])
    keep = _kept_if_null(residual, schema)
    if residual.kind == "polars":
        expression: Any = residual.expression
        return lambda frame: frame.filter(expression)
    if not residual.columns:
        return lambda frame: frame if keep else frame.filter(pl.lit(False))

    def mask(rows: pl.Series) -> pl.Series:
        table = rows.struct.unnest().to_arrow(compat_level=pl.CompatLevel.oldest()).select(schema.names).cast(schema)
        return pl.Series(rows.name, arrow.residual_mask(table, residual), dtype=pl.Boolean)

    condition = pl.struct(schema.names).map_batches(mask, return_dtype=pl.Boolean, is_elementwise=True)
    return lambda frame: frame.filter(condition)


def matching(filter: Filter, fields: Sequence[DataField], frame: pl.LazyFrame) -> pl.LazyFrame:
    """The rows of a frame with the columns `fields` for which the filter is true. Raises as `residual`."""
    if filter.predicate != ALWAYS:
        frame = frame.filter(compile(filter.predicate, fields))
    for part in filter.residuals:
        frame = residual(part, fields)(frame)
    return frame


def _kept_if_null(residual: Residual, schema: pa.Schema) -> bool:
    """The answer for a row of nulls: that of a constant condition, and a trial before anything is read."""
    row = (
        pa.table([pa.nulls(1, field.type) for field in schema], schema=schema) if len(schema) else _ROW_WITHOUT_COLUMNS
    )
    from morrow.readers.expressions import arrow

    return bool(arrow.residual_mask(row, residual)[0].as_py())


_ROW_WITHOUT_COLUMNS = pa.table({"row": pa.nulls(1)}).select([])


Build = Callable[[pl.Expr, tuple[Any, ...], pl.DataType], pl.Expr]


def _compared(compare: Callable[[Any, Any], Any]) -> Build:
    def build(column: pl.Expr, literals: tuple[Any, ...], dtype: pl.DataType) -> pl.Expr:
        result: pl.Expr = compare(column, pl.lit(literals[0], dtype=dtype))
        return result

    return build


def _is_in(column: pl.Expr, literals: tuple[Any, ...], dtype: pl.DataType) -> pl.Expr:
    return column.is_in(pl.Series(list(literals), dtype=dtype).implode())


_LEAVES: dict[Op, Build] = {
    Op.EQ: _compared(operator.eq),
    Op.NE: _compared(operator.ne),
    Op.LT: _compared(operator.lt),
    Op.LE: _compared(operator.le),
    Op.GT: _compared(operator.gt),
    Op.GE: _compared(operator.ge),
    Op.IN: _is_in,
    Op.NOT_IN: lambda column, literals, dtype: ~_is_in(column, literals, dtype),
    Op.IS_NULL: lambda column, _literals, _dtype: column.is_null(),
    Op.IS_NOT_NULL: lambda column, _literals, _dtype: column.is_not_null(),
    Op.STARTS_WITH: lambda column, literals, _dtype: column.str.starts_with(literals[0]),
    Op.NOT_STARTS_WITH: lambda column, literals, _dtype: ~column.str.starts_with(literals[0]),
}
