"""Statistics of columns, measured on rows: what ANALYZE commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.table_statistics import ColumnFacts
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import col
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.values import replace
from morrow.readers.casts.java_text import texts_of
from morrow.readers.execution import execute

EXACT_ROWS = 1 << 20
"""Stored rows up to which distinct values are counted one by one."""

TEXTS = (t.CharType, t.VarCharType)
BYTES = (t.BinaryType, t.VarBinaryType)
TIMESTAMPS = (t.TimestampType, t.LocalZonedTimestampType)
NANO_DIGITS = 9
LONG_DECIMAL = 18
"""Digits beyond which a DECIMAL takes 16 bytes."""

SIZES: Mapping[type[t.DataType], int] = {
    t.BooleanType: 1,
    t.TinyIntType: 1,
    t.SmallIntType: 2,
    t.IntType: 4,
    t.BigIntType: 8,
    t.FloatType: 4,
    t.DoubleType: 8,
    t.DateType: 4,
    t.TimestampType: 8,
    t.LocalZonedTimestampType: 8,
}
"""Bytes of a value, as Spark counts them."""
NO_VALUES = {True: 20, False: 100}
"""The length that Spark takes texts, and bytes, for where there are none."""


def check_measured(fields: Sequence[DataField], where: str) -> None:
    """Raises `Unsupported` for a column that ANALYZE has no statistics of."""
    for field in fields:
        if not isinstance(field.type, (*SIZES, *TEXTS, *BYTES, t.DecimalType)):
            raise Unsupported(f"ANALYZE of the column {field.name!r} of type {field.type}", where=where)


def has_length(field: DataField) -> bool:
    """Returns whether values differ in length; such values have no bounds."""
    return isinstance(field.type, (*TEXTS, *BYTES))


def measured(plan: ScanPlan, store: FileStore, fields: Sequence[DataField]) -> tuple[int, dict[str, ColumnFacts]]:
    """Measures columns of the rows of a plan: the number of rows, and statistics by name.

    Raises:
        CorruptFile, FileMissing, SnapshotExpired, Unsupported: as reading does.
    """
    if not fields:
        return execute.count(plan, store), {}
    plan = replace(plan, columns=tuple(field.name for field in fields))
    exact = sum(part.stored_rows for part in plan.parts) <= EXACT_ROWS
    asked = [each for i, field in enumerate(fields) for each in _asked(field, i, exact)]
    with execute.reading_plan(plan, store):
        found = execute.lazy(plan, store).select(pl.len().alias("rows"), *asked).collect(engine="streaming")
    rows = int(found["rows"].item())
    return rows, {field.name: facts_of(field, i, rows, found) for i, field in enumerate(fields)}


def _asked(field: DataField, i: int, exact: bool) -> list[pl.Expr]:
    column = col(field.name)
    there = column.drop_nulls()
    countable = exact or isinstance(field.type, (t.BooleanType, t.DecimalType, *BYTES))
    asked = [
        column.count().alias(f"count{i}"),
        (there.n_unique() if countable else there.approx_n_unique()).alias(f"distinct{i}"),
    ]
    if has_length(field):
        length = column.str.len_chars() if isinstance(field.type, TEXTS) else column.bin.size()
        return [*asked, length.mean().ceil().alias(f"average{i}"), length.max().alias(f"longest{i}")]
    least, greatest = column.min(), column.max()
    if isinstance(field.type, (t.FloatType, t.DoubleType)):  # NaN is the greatest value
        least, greatest = column.fill_nan(None).min().fill_null(least), column.nan_max()
    return [*asked, least.alias(f"min{i}"), greatest.alias(f"max{i}")]


def facts_of(field: DataField, i: int, rows: int, found: pl.DataFrame) -> ColumnFacts:
    """Returns the statistics of a column from one row of measurements.

    These are ``count{i}``, ``distinct{i}``, and ``average{i}`` and ``longest{i}``, or ``min{i}`` and ``max{i}``.
    """
    count = int(found[f"count{i}"].item())
    distinct = min(int(found[f"distinct{i}"].item()), count)
    if has_length(field):
        none = NO_VALUES[isinstance(field.type, TEXTS)]
        average, longest = found[f"average{i}"].item(), found[f"longest{i}"].item()
        lengths = (none, none) if average is None else (int(average), int(longest))
        return ColumnFacts(field.id, distinct, None, None, rows - count, *lengths)
    size = _size(field.type)
    bounds = _text(found[f"min{i}"], field.type), _text(found[f"max{i}"], field.type)
    return ColumnFacts(field.id, distinct, *bounds, rows - count, size, size)


def _size(kind: t.DataType) -> int:
    if isinstance(kind, t.DecimalType):
        return 16 if kind.precision > LONG_DECIMAL else 8
    return SIZES[type(kind)]


def _text(values: pl.Series, kind: t.DataType) -> str | None:
    """Returns the only value as Java writes it into statistics; instants are in UTC."""
    if values.null_count():
        return None
    if not isinstance(kind, TIMESTAMPS):
        return str(texts_of(values, kind).item())
    text = str(values.dt.to_string("%Y-%m-%d %H:%M:%S%.9f").item())
    return text[: len(text) - NANO_DIGITS + kind.precision] if kind.precision else text[: -NANO_DIGITS - 1]
