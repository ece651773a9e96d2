"""Statistics of columns in manifest entries, and of a table in the file that ANALYZE commits.

A manifest entry has (in the record SimpleStats, once for keys and once for values):

    _MIN_VALUES, _MAX_VALUES   BinaryRow, arity first: one field for each column that has statistics
    _NULL_COUNTS               list of int64, one for each of those columns; an item may be null
    _VALUE_STATS_COLS          the names of those columns; null: all columns of the schema the file was written with
                               (or of _WRITE_COLS, for files that hold some columns only)

Rows without fields mean that statistics were not collected, or were dropped when the entry became a DELETE.
Values that the metadata mode of a column does not collect are null: min and max with `counts`, all with `none`. With
`truncate(n)` min and max are bounds, not values of the file: a minimum may be shorter than the true minimum, a maximum
may have its last character incremented, or is null if this overflows.

The file of the statistics of a table, ``statistics/stat-<uuid>-<n>``, is JSON:

snapshotId, schemaId                     the state that was analysed
mergedRecordCount, mergedRecordSize      its rows, and about how many bytes they take in data files
colStats                                 by name: colId, and what is known of distinctCount, min, max, nullCount,
                                         avgLen, maxLen; bounds are text
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import decode_columns, read_arities
from morrow.engine.format.metadata_json import format_json
from morrow.engine.format.types import DataType

UNKNOWN = DataType()
"""The type of a column that is in the statistics but not in the schema. Its slot is counted but never decoded."""


class ColumnStats(msgspec.Struct, frozen=True):
    """The statistics of one column, a value for each manifest entry; null means "not known for this entry".

    `minimum`, `maximum`: bounds in the natural dtype of the column, or None if unknown for all entries.
    `null_count`: Int64, or None if unknown for all entries.
    """

    minimum: pl.Series | None
    maximum: pl.Series | None
    null_count: pl.Series | None


class _Layout(msgspec.Struct, frozen=True):
    """The entries (by index) whose statistics cover the same columns."""

    columns: tuple[str, ...]
    entries: pl.Series


def decode_column_stats(
    min_rows: pl.Series,
    max_rows: pl.Series,
    null_counts: pl.Series,
    stats_cols: pl.Series | None,
    types_by_name: Mapping[str, DataType],
    wanted: Sequence[str],
    *,
    where: str,
) -> dict[str, ColumnStats]:
    """Decode the statistics of the `wanted` columns.

    Args:
        min_rows, max_rows: Binary, one stored row for each entry; null for an entry without statistics.
        null_counts: List(Int64).
        stats_cols: List(String), the columns covered by each entry; None, or null for an entry: all of `types_by_name`.
            Pass ``_VALUE_STATS_COLS``, or ``_WRITE_COLS`` if it is null.
        types_by_name: the columns, in order, of the schema with which all these files were written.
        wanted: names from `types_by_name`.
        where: names the manifest in errors.

    Returns:
        For each wanted column Series as long as `min_rows`. Bounds that Polars cannot represent, and NaN, are null.

    Raises:
        CorruptFile: a row does not have one item for each column.
        Unsupported: a list of counts does not have one item for each column.
    """
    rows = pl.DataFrame({"min": min_rows, "max": max_rows, "nulls": null_counts}).with_row_index("entry")
    found: dict[str, list[pl.DataFrame]] = {name: [] for name in wanted}
    for layout in _group_layouts(stats_cols, tuple(types_by_name), len(rows)):
        for name, part in _decode_layout(layout, rows[layout.entries], types_by_name, wanted, where):
            found[name].append(part)
    return {name: _combine_parts(parts, len(rows)) for name, parts in found.items()}


def _group_layouts(stats_cols: pl.Series | None, every: tuple[str, ...], count: int) -> Iterator[_Layout]:
    """Group the entries by the columns that they cover: only a few groups, even for many entries."""
    if stats_cols is None or stats_cols.null_count() == count:
        yield _Layout(every, pl.int_range(count, eager=True))
        return
    groups = pl.DataFrame({"columns": stats_cols}).with_row_index("entry").group_by("columns", maintain_order=True)
    for columns, entries in groups.agg("entry").iter_rows():
        yield _Layout(every if columns is None else tuple(columns), pl.Series(entries))


def _decode_layout(
    layout: _Layout, rows: pl.DataFrame, types_by_name: Mapping[str, DataType], wanted: Sequence[str], where: str
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield for each wanted column the part in these entries: entry, minimum, maximum, null count."""
    known = [name for name in wanted if name in layout.columns and name in types_by_name]
    if not known:
        return
    types = [types_by_name.get(name, UNKNOWN) for name in layout.columns]
    indexes = [layout.columns.index(name) for name in known]
    minima = _decode_bounds(rows["min"], types, indexes, where)
    maxima = _decode_bounds(rows["max"], types, indexes, where)
    sizes = rows["nulls"].list.len()
    if ((sizes != len(types)) & (sizes != 0)).any():
        raise Unsupported(f"statistics whose null counts are not for the file's {len(types)} columns", where=where)
    for name, index, minimum, maximum in zip(known, indexes, minima, maxima, strict=True):
        counts = rows["nulls"].list.get(index, null_on_oob=True)
        yield name, pl.DataFrame({"entry": rows["entry"], "min": minimum, "max": maximum, "nulls": counts})


def _decode_bounds(rows: pl.Series, types: Sequence[DataType], indexes: Sequence[int], where: str) -> list[pl.Series]:
    empty = pl.Series(read_arities(rows, where=where)) == 0
    if empty.any():
        rows = rows.zip_with(~empty, pl.Series([None], dtype=pl.Binary).new_from_index(0, len(rows)))
    bounds = decode_columns(rows, types, where=where, columns=indexes, unrepresentable="null")
    return [bound.fill_nan(None) if bound.dtype.is_float() else bound for bound in bounds]


def _combine_parts(parts: Sequence[pl.DataFrame], count: int) -> ColumnStats:
    """Combine the parts in the order of the entries; entries without a part are null."""
    if not parts:
        return ColumnStats(None, None, None)
    stats = pl.concat(parts, how="vertical")
    if len(stats) < count or len(parts) > 1:
        entries = pl.DataFrame({"entry": pl.int_range(count, dtype=pl.UInt32, eager=True)})
        stats = entries.join(stats, on="entry", how="left", maintain_order="left")
    counts = stats["nulls"]
    counts = counts.set(counts < 0, None)
    return ColumnStats(_drop_unknown(stats["min"]), _drop_unknown(stats["max"]), _drop_unknown(counts))


def _drop_unknown(values: pl.Series) -> pl.Series | None:
    return None if values.null_count() == len(values) else values


@dataclass(frozen=True)
class ColumnFacts:
    """Statistics of a column. `minimum` and `maximum` are text, or None without values or an order.

    `distinct_count` is an estimate. Lengths are characters of text, and bytes of binary and fixed-size values.
    """

    id: int
    distinct_count: int
    minimum: str | None
    maximum: str | None
    null_count: int
    average_length: int
    greatest_length: int


@dataclass(frozen=True)
class TableStatistics:
    """Statistics of one snapshot of a table."""

    snapshot_id: int
    schema_id: int
    record_count: int
    record_size: int
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)


def encode_statistics(statistics: TableStatistics) -> bytes:
    """Encode the file as Java does, without unknown members."""
    columns = {
        name: {
            "colId": facts.id,
            "distinctCount": facts.distinct_count,
            "min": facts.minimum,
            "max": facts.maximum,
            "nullCount": facts.null_count,
            "avgLen": facts.average_length,
            "maxLen": facts.greatest_length,
        }
        for name, facts in statistics.columns.items()
    }
    node = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.record_count,
        "mergedRecordSize": statistics.record_size,
        "colStats": {name: {k: v for k, v in facts.items() if v is not None} for name, facts in columns.items()},
    }
    return format_json(node)
