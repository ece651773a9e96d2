"""Statistics of data files as their metadata keeps them, computed by whole columns.

Which columns have bounds depends on the file format, because Java takes them from the footers of Parquet and ORC files
and from the rows of Avro files. See `has_bounds`.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.binary_row_encode import encode_columns
from morrow.engine.format.data_file_meta import EMPTY_ROW, SimpleStats
from morrow.writers.files.stats_modes import StatsMode

ORDERED = (
    t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DecimalType,
    t.CharType, t.VarCharType, t.DateType, t.TimeType, t.TimestampType, t.LocalZonedTimestampType,
)  # fmt: skip
"""Types with bounds; bytes and nested types have none in any format."""

NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.VariantType, t.VectorType)
SURROGATES = range(0xD800, 0xE000)
ORC_MOST_BYTES = 1024
"""ORC keeps no bound of a text longer than that."""


@dataclass(frozen=True)
class Collected:
    """Of some rows: bounds (frames of one row, null where none) and counts of nulls of the columns of the table."""

    minima: pl.DataFrame
    maxima: pl.DataFrame
    nulls: Mapping[str, int]


def collect(frame: pl.DataFrame, fields: Sequence[t.DataField], bounded: AbstractSet[str], format_: str) -> Collected:
    """Counts of nulls of `fields`, and bounds of those among `bounded` of which the format has them."""
    names = [f.name for f in fields if f.name in bounded and has_bounds(f.type, format_)]
    minima = frame.select(pl.col(names).min()) if names else pl.DataFrame()
    maxima = frame.select(pl.col(names).max()) if names else pl.DataFrame()
    floats = [name for name in names if frame.schema[name].is_float()]
    exact = [] if format_ == "orc" else [_float_bounds(frame[name], minima[name], maxima[name]) for name in floats]
    return Collected(
        minima.with_columns(low for low, _ in exact),
        maxima.with_columns(high for _, high in exact),
        {f.name: frame[f.name].null_count() for f in fields},
    )


def combine(parts: Sequence[Collected], format_: str) -> Collected:
    """Of several groups of rows together."""
    if len(parts) == 1:
        return parts[0]
    lows = pl.concat([part.minima for part in parts])
    highs = pl.concat([part.maxima for part in parts])
    floats = [name for name, dtype in lows.schema.items() if dtype.is_float() and format_ != "orc"]
    return Collected(
        lows.min().with_columns(_lowest(lows[name]) for name in floats),
        highs.max().with_columns(_highest(highs[name]) for name in floats),
        {name: sum(part.nulls[name] for part in parts) for name in parts[0].nulls},
    )


def has_bounds(type_: t.DataType, format_: str) -> bool:
    """Whether Java finds bounds of such a column: not of INT96 in the footers of Parquet files."""
    if isinstance(type_, (t.TimestampType, t.LocalZonedTimestampType)) and format_ == "parquet":
        return type_.precision <= t.ARROW_MICROS_PRECISION
    return isinstance(type_, ORDERED)


def encoded(
    collected: Collected, fields: Sequence[t.DataField], modes: Sequence[StatsMode], format_: str, *, dense: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Statistics of `fields` as metadata stores them, and the names of the columns they cover (None: all).

    With `dense` columns of which nothing is known are left out, otherwise their values are null.
    """
    known = [(f, m) for f, m in zip(fields, modes, strict=True) if not dense or _is_known(f.type, m, format_)]
    bounds = [_bounds(collected, field, mode, format_) for field, mode in known]
    counts = [collected.nulls[field.name] if _is_known(field.type, mode, format_) else None for field, mode in known]
    kinds = [field.type for field, _ in known]
    stats = SimpleStats(
        _row([low for low, _ in bounds], kinds), _row([high for _, high in bounds], kinds), tuple(counts)
    )
    covers_all = len(known) == len(fields)
    return stats, None if covers_all or not dense else tuple(field.name for field, _ in known)


def key_row(row: pl.DataFrame, fields: Sequence[t.DataField]) -> bytes:
    """The key of a frame of one row as metadata stores it (arity first)."""
    return _row([row[field.name].to_arrow() for field in fields], [field.type for field in fields])


def _is_known(type_: t.DataType, mode: StatsMode, format_: str) -> bool:
    """Footers of Parquet files know leaves only, so nothing of nested columns."""
    return mode.counts and not (format_ == "parquet" and isinstance(type_, NESTED))


def _bounds(collected: Collected, field: t.DataField, mode: StatsMode, format_: str) -> tuple[pa.Array, pa.Array]:
    if not mode.bounds or field.name not in collected.minima.columns:
        nothing = pa.nulls(1, field.type.arrow())
        return nothing, nothing
    low, high = collected.minima[field.name], collected.maxima[field.name]
    if isinstance(field.type, (t.CharType, t.VarCharType)):
        low, high = _text_bounds(low.item(), high.item(), mode, format_)
    return low.to_arrow(), high.to_arrow()


def _text_bounds(low: str | None, high: str | None, mode: StatsMode, format_: str) -> tuple[pl.Series, pl.Series]:
    if format_ == "orc":
        low, high = _short(low), _short(high)
    if mode.length is not None:
        low, high = low and low[: mode.length], high and _upper(high, mode.length)
        low = None if high is None else low
    return pl.Series([low], dtype=pl.String), pl.Series([high], dtype=pl.String)


def _short(text: str | None) -> str | None:
    return None if text is None or len(text.encode()) > ORC_MOST_BYTES else text


def _upper(text: str, length: int) -> str | None:
    """The least text of `length` characters that is not below `text`; None if there is none."""
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        following = ord(text[end - 1]) + 1
        if following in SURROGATES:
            following = SURROGATES.stop
        if following <= sys.maxunicode:
            return text[: end - 1] + chr(following)
    return None


def _row(columns: Sequence[pa.Array], kinds: Sequence[t.DataType]) -> bytes:
    if not columns:
        return EMPTY_ROW
    return struct.pack(">i", len(kinds)) + encode_columns(columns, kinds).row(0)


# --- floats: NaN above everything, -0.0 below 0.0, as Java compares them; ORC leaves NaN out ---


def _float_bounds(column: pl.Series, low: pl.Series, high: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Polars leaves NaN out of its bounds and takes both zeros for equal; where neither matters its bounds are kept."""
    if low.item() != 0 and high.item() != 0 and not column.is_nan().any():
        return low, high
    return _lowest(column), _highest(column)


def _lowest(column: pl.Series) -> pl.Series:
    return _at_rank(column, 0)


def _highest(column: pl.Series) -> pl.Series:
    return _at_rank(column, -1)


def _at_rank(column: pl.Series, rank: int) -> pl.Series:
    """The first or last value in Java's order, as a column of one."""
    values = column.drop_nulls()
    if not len(values):
        return column.clear(1)
    bits = values.to_numpy().view("<i4" if column.dtype == pl.Float32 else "<i8")
    ordered = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
    position = int(ordered.argmax() if rank else ordered.argmin())
    return pl.Series(column.name, [values[position]], column.dtype)  # not a slice, which would keep all of them
