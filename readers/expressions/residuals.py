"""Residuals of a filter, tested on live rows only.

A residual may fail on a row (``CAST(txt AS INT) > 5``), and users write conditions that exclude such rows. So residuals
are tested last: on live rows for which the predicate is true, and each residual on the rows that the preceding ones
kept.

Polars would evaluate such a condition like any filter: on minima and maxima of row groups, on rows that another filter
drops, on a row of nulls. A barrier (`stop_filters`) between the scan and the residual lets projections through but not
filters; the predicate is below it and reaches the files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import DataField
from morrow.engine.names import cols
from morrow.engine.plan.filter import Residual
from morrow.engine.plan.filter.residuals import shorten_text
from morrow.readers.casts.dtypes import to_arrow_table, to_frame
from morrow.readers.expressions import sql, stop_filters

RAISED_BY_FUNCTIONS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors that a user's Python function within a Polars expression may raise."""

Mask = npt.NDArray[np.bool_]


def make_residual_step(
    residuals: Sequence[Residual], fields: Sequence[DataField]
) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
    """Return a step that keeps the rows for which all residuals are true; columns chosen later pass through it.

    `fields` are all columns of the frame that conditions may read, in Morrow's dtypes; the frame may have others.

    Raises:
        InvalidArgument: an engine refuses a condition, or, while rows are read, cannot compute it for a row.
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
