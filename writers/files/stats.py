"""Statistics of data files as metadata stores them, computed on whole columns.

Which columns have bounds depends on the file format, because Java takes them from the footers of Parquet and ORC files
and from the rows of Avro files. See `has_bounds`. For each column, a file keeps nothing, the null count, or full or
truncated bounds. In order of precedence: ``fields.<column>.stats-mode``; 128 characters for system columns (and, in
thin mode, for key columns, which also serve as statistics of the key); nothing after the first n columns of
``metadata.stats-keep-first-n-columns``; the mode of the level, of the changelog or of the table.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.binary_row_encoder import encode_columns, encode_value_row
from morrow.engine.format.file_formats import FileFormat
from morrow.engine.format.manifest_entries import EMPTY_ROW, SimpleStats
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.names import KEY_PREFIX, clear_pattern_name
from morrow.engine.options import WriteOptions
from morrow.engine.options.declared.merging import STATS_MODE
from morrow.engine.plan.predicate import SURROGATES
from morrow.writers.files.encoders import FileLayout

ORDERED = (
    t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType, t.DecimalType,
    t.CharType, t.VarCharType, t.DateType, t.TimeType, t.TimestampType, t.LocalZonedTimestampType,
)  # fmt: skip
"""Types with bounds. Bytes and nested types are without bounds in all formats."""

NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.VariantType, t.VectorType)
GROUP = "group"
"""The group column in frames whose other columns are numbered."""


@dataclass(frozen=True)
class CollectedStats:
    """Statistics of several rows: bounds (frames of one row, null if unknown) and null counts per column."""

    minima: pl.DataFrame
    maxima: pl.DataFrame
    nulls: Mapping[str, int]


@dataclass(frozen=True)
class GroupStats:
    """Statistics of several groups of rows: frames with a row of bounds per group, and null counts per group."""

    count: int
    minima: pl.DataFrame
    maxima: pl.DataFrame
    nulls: Mapping[str, Sequence[int]]

    def __getitem__(self, group: int) -> CollectedStats:
        nulls = {name: counts[group] for name, counts in self.nulls.items()}
        return CollectedStats(self.minima[group : group + 1], self.maxima[group : group + 1], nulls)


def count_nulls(frame: pl.DataFrame, fields: Sequence[t.DataField]) -> dict[str, int]:
    """Return the number of nulls in each of these columns."""
    return {f.name: frame[f.name].null_count() for f in fields}


def collect(
    frame: pl.DataFrame,
    fields: Sequence[t.DataField],
    bounded: AbstractSet[str],
    format_: FileFormat,
    known: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> CollectedStats:
    """Return the null counts of `fields`, and the bounds of the columns `bounded` if the format has bounds for them.

    `known` has the least and the greatest value of text columns that need not be computed.
    """
    names = [f.name for f in fields if f.name in bounded and has_bounds(f.type, format_)]
    columns = [clear_pattern_name(frame[name]) for name in names]
    # Sequentially, since other threads describe other blocks.
    both = [_to_columns(c, *known[name]) if name in known else _find_ends(c) for name, c in zip(names, columns)]
    if format_.orders_nan:
        both = [_find_float_bounds(c, *ends) if c.dtype.is_float() else ends for c, ends in zip(columns, both)]
    return CollectedStats(
        pl.DataFrame([low.alias(name) for name, (low, _) in zip(names, both)]),
        pl.DataFrame([high.alias(name) for name, (_, high) in zip(names, both)]),
        count_nulls(frame, fields),
    )


def _find_ends(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the least and the greatest value as columns of one value, without references to other values."""
    # Zeros have two signs, so the first one may not be the least; and `arg_min` of text is slow.
    if column.dtype.is_float() or column.dtype == pl.String:
        return _to_columns(column, column.min(), column.max())
    least, greatest = column.arg_min(), column.arg_max()
    if least is None or greatest is None:
        return column.clear(1), column.clear(1)
    return column.gather([least]), column.gather([greatest])


def _to_columns(column: pl.Series, low: object, high: object) -> tuple[pl.Series, pl.Series]:
    """Return two values of a column as columns of one value."""
    return pl.Series(column.name, [low], column.dtype), pl.Series(column.name, [high], column.dtype)


def collect_each(
    frame: pl.DataFrame,
    heights: Sequence[int],
    fields: Sequence[t.DataField],
    bounded: AbstractSet[str],
    format_: FileFormat,
) -> GroupStats:
    """Return `collect` of each of the consecutive non-empty groups in `frame`, which have these heights."""
    named = {f.name for f in fields if f.name in bounded and has_bounds(f.type, format_)}
    dtypes = frame.schema
    floats = {name for name in named if dtypes[name].is_float() and format_.orders_nan}
    columns = [clear_pattern_name(frame[f.name]).alias(str(i)) for i, f in enumerate(fields)]
    values = [_to_ordered(column) if f.name in floats else column for f, column in zip(fields, columns, strict=True)]
    group = pl.Series(GROUP, np.repeat(np.arange(len(heights), dtype=np.uint32), heights)).set_sorted()
    asked = [pl.col(str(i)).null_count().alias(f"{i} nulls") for i in range(len(fields))]
    for i, field in enumerate(fields):
        if field.name in named:
            asked += [pl.col(str(i)).min().alias(f"{i} low"), pl.col(str(i)).max().alias(f"{i} high")]
    measured = pl.DataFrame([group, *values]).group_by(GROUP, maintain_order=True).agg(asked)

    def bounds(side: str) -> pl.DataFrame:
        found = [(i, f.name, measured[f"{i} {side}"]) for i, f in enumerate(fields) if f.name in named]
        exact = (_from_ordered(low, columns[i].dtype) if name in floats else low for i, name, low in found)
        return pl.DataFrame([column.alias(name) for column, (_, name, _) in zip(exact, found, strict=True)])

    nulls = {f.name: measured[f"{i} nulls"].to_list() for i, f in enumerate(fields)}
    return GroupStats(len(heights), bounds("low"), bounds("high"), nulls)


def combine(parts: Sequence[CollectedStats], format_: FileFormat) -> CollectedStats:
    """Return the statistics of several groups of rows together."""
    if len(parts) == 1:
        return parts[0]
    lows = pl.concat([part.minima for part in parts])
    highs = pl.concat([part.maxima for part in parts])
    # Column by column, since Polars' `min` of a frame reads names like ``^x$`` as patterns.
    return CollectedStats(
        pl.DataFrame([_find_extreme(column, 0, format_) for column in lows.iter_columns()]),
        pl.DataFrame([_find_extreme(column, -1, format_) for column in highs.iter_columns()]),
        {name: sum(part.nulls[name] for part in parts) for name in parts[0].nulls},
    )


def _find_extreme(column: pl.Series, rank: int, format_: FileFormat) -> pl.Series:
    """Return the first or last value, as a column of one value with the same name."""
    values = clear_pattern_name(column)
    if column.dtype.is_float() and format_.orders_nan:
        return _find_at_rank(values, rank).alias(column.name)
    return _find_ends(values)[rank].alias(column.name)


def has_bounds(type_: t.DataType, format_: FileFormat) -> bool:
    """Return whether Java has bounds of a column of this type."""
    return isinstance(type_, ORDERED) and not format_.unbounded(type_)


def encode_stats(
    collected: CollectedStats,
    fields: Sequence[t.DataField],
    modes: Sequence[StatsMode],
    format_: FileFormat,
    *,
    dense: bool,
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Return statistics of `fields` as metadata stores them, and the names of the columns they cover (None: all).

    With `dense`, columns without statistics are left out; otherwise their values are null.
    """
    nulls = {name: [count] for name, count in collected.nulls.items()}
    each, covered = encode_each_stats(
        GroupStats(1, collected.minima, collected.maxima, nulls), fields, modes, format_, dense=dense
    )
    return each[0], covered


def encode_each_stats(
    groups: GroupStats, fields: Sequence[t.DataField], modes: Sequence[StatsMode], format_: FileFormat, *, dense: bool
) -> tuple[list[SimpleStats], tuple[str, ...] | None]:
    """Return `encode_stats` of each group."""
    known = [(f, m) for f, m in zip(fields, modes, strict=True) if not dense or _is_known(f.type, m, format_)]
    bounds = [_find_bounds(groups, field, mode, format_) for field, mode in known]
    nothing: Sequence[int | None] = [None] * groups.count
    counts = [groups.nulls[field.name] if _is_known(field.type, mode, format_) else nothing for field, mode in known]
    rows = _encode_bounds(bounds, [field.type for field, _ in known], groups.count)
    stats = [SimpleStats(low, high, tuple(each[i] for each in counts)) for i, (low, high) in enumerate(rows)]
    covers_all = len(known) == len(fields)
    return stats, None if covers_all or not dense else tuple(field.name for field, _ in known)


def encode_key(row: pl.DataFrame, fields: Sequence[t.DataField]) -> bytes:
    """Return the key of a frame of one row as metadata stores it (arity first)."""
    return encode_value_row([row[field.name] for field in fields], [field.type for field in fields])


def encode_keys(rows: pl.DataFrame, fields: Sequence[t.DataField]) -> list[bytes]:
    """Return `encode_key` of each row of a frame."""
    kinds = [field.type for field in fields]
    encoded = encode_columns([rows[field.name].to_arrow() for field in fields], kinds)
    arity = struct.pack(">i", len(kinds))
    return [arity + encoded.row(i) for i in range(rows.height)]


def _is_known(type_: t.DataType, mode: StatsMode, format_: FileFormat) -> bool:
    """Return whether the format has statistics of a column."""
    return mode.counts and (format_.counts_nested or not isinstance(type_, NESTED))


def _find_bounds(
    groups: GroupStats, field: t.DataField, mode: StatsMode, format_: FileFormat
) -> tuple[pl.Series, pl.Series]:
    if not mode.bounds or field.name not in groups.minima.columns:
        nothing = pl.Series([None], dtype=pl.Null).new_from_index(0, groups.count)
        return nothing, nothing
    low, high = groups.minima[field.name], groups.maxima[field.name]
    if isinstance(field.type, (t.CharType, t.VarCharType)):
        texts = [_cut_text_bounds(*both, mode, format_) for both in zip(low, high)]
        low, high = (pl.Series([each[side] for each in texts], dtype=pl.String) for side in (0, 1))
    return low, high


def _cut_text_bounds(
    low: str | None, high: str | None, mode: StatsMode, format_: FileFormat
) -> tuple[str | None, str | None]:
    if format_.longest_bound is not None:
        low, high = (_omit_long(bound, format_.longest_bound) for bound in (low, high))
    if mode.length is not None:
        low, high = low and low[: mode.length], high and _round_up_text(high, mode.length)
        low = None if high is None else low
    return low, high


def _omit_long(text: str | None, most_bytes: int) -> str | None:
    return None if text is None or len(text.encode()) > most_bytes else text


def _round_up_text(text: str, length: int) -> str | None:
    """Return the least text of `length` characters that is not below `text`; None if it does not exist."""
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        following = ord(text[end - 1]) + 1
        if following in SURROGATES:
            following = SURROGATES.stop
        if following <= sys.maxunicode:
            return text[: end - 1] + chr(following)
    return None


def _encode_bounds(
    bounds: Sequence[tuple[pl.Series, pl.Series]], kinds: Sequence[t.DataType], count: int
) -> list[tuple[bytes, bytes]]:
    """Return both bounds of columns as rows."""
    if not bounds:
        return [(EMPTY_ROW, EMPTY_ROW)] * count
    if count == 1:
        low, high = (encode_value_row([ends[side] for ends in bounds], kinds) for side in (0, 1))
        return [(low, high)]
    columns = [(low.to_arrow(), high.to_arrow()) for low, high in bounds]
    both = encode_columns([pa.concat_arrays(ends) for ends in columns], kinds)
    arity = struct.pack(">i", len(kinds))
    return [(arity + both.row(i), arity + both.row(count + i)) for i in range(count)]


# --- floats: NaN above everything, -0.0 below 0.0, as Java compares them; ORC leaves NaN out ---


def _find_float_bounds(column: pl.Series, low: pl.Series, high: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return bounds in Java's order, unlike Polars, which ignores NaN and equates both zeros."""
    # The sum is NaN if any value is NaN, and seldom otherwise.
    if math.isnan(column.sum()):
        return _find_lowest(column), _find_highest(column)
    zeros = column.filter(column == 0) if low.item() == 0 or high.item() == 0 else column
    return (_find_lowest(zeros) if low.item() == 0 else low, _find_highest(zeros) if high.item() == 0 else high)


def _find_lowest(column: pl.Series) -> pl.Series:
    return _find_at_rank(column, 0)


def _find_highest(column: pl.Series) -> pl.Series:
    return _find_at_rank(column, -1)


def _find_at_rank(column: pl.Series, rank: int) -> pl.Series:
    """Return the first or last value in Java's order, as a column of one value."""
    values = clear_pattern_name(column).drop_nulls()
    if not len(values):
        return column.clear(1)
    ordered = _to_ordered(values).to_numpy()
    position = int(ordered.argmax() if rank else ordered.argmin())
    return pl.Series(column.name, [values[position]], column.dtype)  # a slice would keep all values in memory


def _to_ordered(values: pl.Series) -> pl.Series:
    """Convert floats to integers in Java's order, with the same name; null for null."""
    bits = values.fill_null(0.0).to_numpy().view("<i4" if values.dtype == pl.Float32 else "<i8")
    ordered = pl.Series(values.name, np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits))
    return _copy_nulls(ordered, values)


def _from_ordered(ordered: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Convert the integers of `_to_ordered` back to floats; null for null."""
    bits = ordered.fill_null(0).to_numpy()
    floats = np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits).view("<f4" if dtype == pl.Float32 else "<f8")
    return _copy_nulls(pl.Series(ordered.name, floats), ordered)


def _copy_nulls(values: pl.Series, others: pl.Series) -> pl.Series:
    """Return the values, with nulls in the same rows as `others`."""
    if not others.null_count():
        return values
    return values.zip_with(others.is_not_null(), pl.Series([None], dtype=values.dtype))


TRUNCATE = re.compile(r"truncate\((\d+)\)")
MAX_KEY_CHARACTERS = 128
"""Maximum characters of the bounds of keys."""


@dataclass(frozen=True)
class StatsMode:
    """The statistics to keep of a column. `length` is in characters (code points), None for full bounds. Without
    `bounds` only nulls are counted."""

    counts: bool = True
    bounds: bool = True
    length: int | None = None


NONE = StatsMode(counts=False, bounds=False)
COUNTS = StatsMode(bounds=False)
FULL = StatsMode()
NAMED = {"none": NONE, "counts": COUNTS, "full": FULL}


def parse_mode(text: str, where: str) -> StatsMode:
    """Parse ``none``, ``counts``, ``full`` or ``truncate(n)``. Raises `InvalidArgument`."""
    name = text.strip().lower()
    if name in NAMED:
        return NAMED[name]
    match = TRUNCATE.fullmatch(name)
    if match is None or int(match[1]) == 0:
        raise InvalidArgument(f"{where}: the statistics mode {text!r} is not none, counts, full or truncate(16)")
    return StatsMode(length=int(match[1]))


def choose_stats_modes(
    layout: FileLayout, write: WriteOptions, mode: str, *, cuts_system_columns: bool, where: str
) -> tuple[StatsMode, ...]:
    """Return the mode of each column of the file, in the order of `layout.fields`.

    Args:
        mode: the mode of columns without a rule of higher precedence.
        cuts_system_columns: whether the format truncates system columns; otherwise these are treated like others.
    """
    default, names = parse_mode(mode, where), [field.name for field in layout.fields]
    keys = {key.name for key in layout.keys} if layout.thin else set()
    modes, counted = [], 0
    for name in names:
        own = write.given.get(STATS_MODE.of(name))
        if own is not None:
            chosen = parse_mode(own, where)
        elif cuts_system_columns and (_is_system(name) or name in keys):
            modes.append(StatsMode(length=MAX_KEY_CHARACTERS))
            continue
        else:
            chosen = NONE if 0 <= write.stats_keep_first <= counted else default
        modes.append(chosen)
        counted += 1
    return tuple(modes)


def _is_system(name: str) -> bool:
    return name.startswith(KEY_PREFIX) or name in SYSTEM_COLUMNS


SYSTEM_COLUMNS: Sequence[str] = (SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID")
