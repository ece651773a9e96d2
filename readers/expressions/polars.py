"""Filters on Polars frames: predicates as expressions that scans push down, then residuals on the rows that remain.

Polars orders floats as the predicate tree does: NaN equals itself and is greatest, -0.0 equals 0.0.

A residual may fail on a row (``CAST(txt AS INT) > 5``), and users write conditions that exclude such rows. So residuals
are tested last: on live rows for which the predicate is true, and each residual on the rows that the preceding ones
kept.

Polars would evaluate such a condition like any filter: on minima and maxima of row groups, on rows that another filter
drops, on a row of nulls. A barrier (`stop_filters`) between the scan and the residual lets projections through but not
filters; the predicate is below it and reaches the files.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.types import DataField, to_polars_schema
from morrow.engine.names import col, cols
from morrow.engine.plan.filter import Filter, Residual
from morrow.engine.plan.predicate import (
    And,
    Leaf,
    Op,
    Or,
    Predicate,
    find_columns,
    find_successor,
    iterate_leaves,
    join_in_pairs,
    shorten_text,
    split_conjuncts,
)
from morrow.readers.casts.dtypes import to_arrow_table, to_frame
from morrow.readers.expressions import sql

RAISED_BY_FUNCTIONS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors that a user's Python function within a Polars expression may raise."""

Mask = npt.NDArray[np.bool_]


def make_residual_step(
    residuals: Sequence[Residual], fields: Sequence[DataField]
) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
    """Return a step that keeps the rows for which all residuals are true; columns chosen later pass through it.

    `fields` are all columns of the frame that conditions may read, in Morrow's dtypes; the frame may have others.

    Raises `InvalidArgument`: an engine refuses a condition, or, while rows are read, cannot compute it for a row.
    """
    if not residuals:
        return lambda frame: frame
    for residual in residuals:
        if residual.kind == "sql":
            sql.check(residual, [field for field in fields if field.name in residual.columns])
    read = frozenset[str]().union(*(residual.columns for residual in residuals))
    # A condition without columns is still tested on every row: any column gives the row count.
    known = tuple(field for field in fields if field.name in read) or tuple(fields[:1])

    def mask(rows: pl.Series) -> pl.Series:
        return pl.Series(rows.name, _mask_rows(residuals, _Rows(known, frame=rows.struct.unnest())), dtype=pl.Boolean)

    operands = pl.struct(cols(field.name for field in known) if known else pl.all())
    condition = operands.map_batches(mask, return_dtype=pl.Boolean, is_elementwise=True)
    return lambda frame: stop_filters(frame).filter(condition)


def filter_batch_by_residuals(
    residuals: Sequence[Residual], fields: Sequence[DataField], rows: pa.RecordBatch
) -> pa.RecordBatch:
    """Return the rows of a batch with the columns `fields` for which all residuals are true.

    Raises as `make_residual_step`.
    """
    if not residuals:
        return rows
    table = pa.Table.from_batches([rows])
    return rows.filter(pa.array(_mask_rows(residuals, _Rows(tuple(fields), table=table))))


class _Rows:
    """Rows as a frame in Morrow's dtypes and as an Arrow table; each is made from the other on demand."""

    def __init__(
        self, fields: Sequence[DataField], *, frame: pl.DataFrame | None = None, table: pa.Table | None = None
    ) -> None:
        self._fields = fields
        self._frame = frame
        self._table = table

    @property
    def height(self) -> int:
        if self._frame is not None:
            return self._frame.height
        assert self._table is not None
        return int(self._table.num_rows)

    def frame(self, names: Collection[str]) -> pl.DataFrame:
        fields = [field for field in self._fields if field.name in names]
        if self._frame is None:
            assert self._table is not None
            return to_frame(self._table, fields)
        return self._frame.select(cols(field.name for field in fields))

    def table(self, names: Collection[str]) -> pa.Table:
        fields = [field for field in self._fields if field.name in names]
        if self._table is None:
            assert self._frame is not None
            return to_arrow_table(self._frame, fields)
        return self._table.select([field.name for field in fields])

    def filter(self, mask: Mask) -> _Rows:
        frame = None if self._frame is None else self._frame.filter(pl.Series(mask))
        table = None if self._table is None else self._table.filter(pa.array(mask))
        return _Rows(self._fields, frame=frame, table=table)


def _mask_rows(residuals: Sequence[Residual], rows: _Rows) -> Mask:
    mask = np.ones(rows.height, dtype=np.bool_)
    for residual in residuals:
        if not mask.any():
            break
        left = rows if mask.all() else rows.filter(mask)
        mask[mask] = _MASKS[residual.kind](residual, left)
    return mask


def _mask_by_sql(residual: Residual, rows: _Rows) -> Mask:
    return sql.evaluate_residual(residual, rows.table(residual.columns), rows.height)


def _mask_by_arrow(residual: Residual, rows: _Rows) -> Mask:
    import pyarrow.dataset as ds

    table = rows.table(residual.columns)
    source = table if table.num_columns else pa.table({"rows": pa.nulls(rows.height, pa.bool_())})
    keep: Any = residual.expression
    try:
        mask = ds.dataset(source).to_table(columns={"keep": keep}).column("keep").cast(pa.bool_())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        raise InvalidArgument(f"filter: Arrow cannot evaluate {shorten_text(residual.text)!r}: {error}") from error
    return np.asarray(mask.fill_null(False), dtype=np.bool_)


def _mask_by_polars(residual: Residual, rows: _Rows) -> Mask:
    frame = rows.frame(residual.columns)
    expression: Any = residual.expression
    try:
        mask = frame.select(expression.fill_null(False).alias("keep"))["keep"].to_numpy()
    # Polars' panics are no `Exception`. Files are decoded already, so any failure here is the condition's.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, *RAISED_BY_FUNCTIONS) as error:
        problem = str(error).strip().partition("\n")[0]
        raise InvalidArgument(f"filter: Polars cannot evaluate {shorten_text(residual.text)!r}: {problem}") from error
    return np.broadcast_to(mask, rows.height) if len(mask) == 1 else mask


_MASKS: dict[str, Callable[[Residual, _Rows], Mask]] = {
    "sql": _mask_by_sql,
    "arrow": _mask_by_arrow,
    "polars": _mask_by_polars,
}

MAX_PUSHED_CONDITIONS = 64
"""Maximum number of comparisons pushed into a scan."""
MAX_CONDITIONS_AT_ONCE = 32
"""Maximum number of conditions of a long AND or OR computed at once."""

Dtypes: TypeAlias = Sequence[DataField] | Mapping[str, pl.DataType]
"""The columns' types: table fields, or the Polars dtypes of the frame in which the expression is used."""


def compile(predicate: Predicate, fields: Dtypes) -> pl.Expr:
    """Return a boolean expression, true exactly for the rows that `predicate` keeps (false or null for the others).

    Comparisons are plain ``col op lit`` with the literal in the column's dtype, the form that `scan_parquet` prunes by.

    Raises `ColumnNotFound`: the predicate names a column that `fields` lacks.
    """
    return _compile_predicate(predicate, to_dtypes(fields))


def to_dtypes(fields: Dtypes) -> Mapping[str, pl.DataType]:
    """Return Polars dtypes by column name."""
    return fields if isinstance(fields, Mapping) else to_polars_schema(fields)


def _compile_predicate(predicate: Predicate, dtypes: Mapping[str, pl.DataType]) -> pl.Expr:
    if isinstance(predicate, Leaf):
        if predicate.column not in dtypes:
            raise ColumnNotFound(
                f"filter: column {predicate.column!r} is not among the columns read: {', '.join(dtypes)}"
            )
        return _LEAVES[predicate.op](col(predicate.column), predicate.literals, dtypes[predicate.column])
    children = [_compile_predicate(child, dtypes) for child in predicate.children]
    if not children:
        return pl.lit(isinstance(predicate, And))
    return join_in_pairs(operator.and_ if isinstance(predicate, And) else operator.or_, children)


def filter_by_predicate(predicate: Predicate, fields: Dtypes, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows of a frame for which the predicate is true; it is pushed into the scan unless too long."""
    pushed, rest = _divide_conditions(predicate)
    if pushed:
        frame = frame.filter(compile(And(pushed), fields))
    if not rest:
        return frame
    dtypes, last = to_dtypes(fields), And(rest)

    def mask(rows: pl.Series) -> pl.Series:
        return _evaluate(last, dtypes, rows.struct.unnest()).alias(rows.name)

    operands = pl.struct(cols(sorted(find_columns(last))))
    return stop_filters(frame).filter(operands.map_batches(mask, return_dtype=pl.Boolean, is_elementwise=True))


def _evaluate(predicate: Predicate, dtypes: Mapping[str, pl.DataType], rows: pl.DataFrame) -> pl.Series:
    """Evaluate a predicate on rows, a few conditions at a time."""
    if isinstance(predicate, Leaf) or sum(1 for _ in iterate_leaves(predicate)) <= MAX_PUSHED_CONDITIONS:
        return rows.select(_compile_predicate(predicate, dtypes).fill_null(False)).to_series()
    join, combine = (And, operator.and_) if isinstance(predicate, And) else (Or, operator.or_)
    children = predicate.children
    if len(children) > MAX_CONDITIONS_AT_ONCE:
        children = tuple(
            join(children[i : i + MAX_CONDITIONS_AT_ONCE]) for i in range(0, len(children), MAX_CONDITIONS_AT_ONCE)
        )
    return reduce(combine, (_evaluate(child, dtypes, rows) for child in children))


def _divide_conditions(predicate: Predicate) -> tuple[tuple[Predicate, ...], tuple[Predicate, ...]]:
    """Split conditions into a part for the scan and the excess: Polars takes minutes and gigabytes for thousands."""
    parts = split_conjuncts(predicate)
    sizes = accumulate(sum(1 for _ in iterate_leaves(part)) for part in parts)
    few = sum(1 for size in sizes if size <= MAX_PUSHED_CONDITIONS)
    return parts[:few], parts[few:]


def filter_rows(filter: Filter, fields: Sequence[DataField], frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows of a frame with the columns `fields` for which the filter is true.

    Raises as `make_residual_step`.
    """
    return filter_by_residuals(filter.residuals, fields, filter_by_predicate(filter.predicate, fields, frame))


def filter_by_residuals(
    residuals: Sequence[Residual], fields: Sequence[DataField], frame: pl.LazyFrame
) -> pl.LazyFrame:
    """Return the rows of a frame with the columns `fields` for which all residuals are true.

    Raises as `make_residual_step`.
    """
    if not residuals:
        return frame
    # Imports of residuals (pyarrow.dataset among them) are slow, and few filters have any.

    return make_residual_step(residuals, fields)(frame)


Build = Callable[[pl.Expr, tuple[Any, ...], pl.DataType], pl.Expr]


def _make_comparison(compare: Callable[[Any, Any], Any]) -> Build:
    def build(column: pl.Expr, literals: tuple[Any, ...], dtype: pl.DataType) -> pl.Expr:
        result: pl.Expr = compare(column, pl.lit(literals[0], dtype=dtype))
        return result

    return build


def _is_in(column: pl.Expr, literals: tuple[Any, ...], dtype: pl.DataType) -> pl.Expr:
    return column.is_in(pl.Series(list(literals), dtype=dtype).implode())


def _is_in_bounds(column: pl.Expr, literals: tuple[Any, ...], dtype: pl.DataType) -> pl.Expr:
    """Return `_is_in` after comparisons with the least and the greatest value, by which Polars prunes row groups."""
    if not literals or any(isinstance(each, (bool, float)) for each in literals):  # Python does not order NaN
        return _is_in(column, literals, dtype)
    low, high = pl.lit(min(literals), dtype=dtype), pl.lit(max(literals), dtype=dtype)
    return (column >= low) & (column <= high) & _is_in(column, literals, dtype)


def _starts_with(column: pl.Expr, literals: tuple[Any, ...], dtype: pl.DataType) -> pl.Expr:
    """Return the comparisons with the least text that begins so and the least beyond, by which Polars prunes."""
    prefix = literals[0]
    if not prefix:
        return column.is_not_null()
    beyond = find_successor(prefix)
    least = column >= pl.lit(prefix, dtype=dtype)
    return least if beyond is None else least & (column < pl.lit(beyond, dtype=dtype))


_LEAVES: dict[Op, Build] = {
    Op.EQ: _make_comparison(operator.eq),
    Op.NE: _make_comparison(operator.ne),
    Op.LT: _make_comparison(operator.lt),
    Op.LE: _make_comparison(operator.le),
    Op.GT: _make_comparison(operator.gt),
    Op.GE: _make_comparison(operator.ge),
    Op.IN: _is_in_bounds,
    Op.NOT_IN: lambda column, literals, dtype: ~_is_in(column, literals, dtype),
    Op.IS_NULL: lambda column, _literals, _dtype: column.is_null(),
    Op.IS_NOT_NULL: lambda column, _literals, _dtype: column.is_not_null(),
    Op.STARTS_WITH: _starts_with,
    Op.NOT_STARTS_WITH: lambda column, literals, _dtype: ~column.str.starts_with(literals[0]),
}


def stop_filters(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the frame with a barrier: projections are pushed below it, filters are not."""
    return frame.map_batches(
        _return_unchanged, predicate_pushdown=False, projection_pushdown=True, slice_pushdown=False, streamable=True
    )


def _return_unchanged(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
