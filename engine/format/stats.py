"""Decoder of the column statistics of data files in manifest entries, for any number of entries at once.

A manifest entry carries (the record SimpleStats, once for keys and once for values):

    _MIN_VALUES, _MAX_VALUES   BinaryRow, arity first: one field for each column that has statistics
    _NULL_COUNTS               list of int64, one for each of those columns; an item may be null
    _VALUE_STATS_COLS          the names of those columns; null: all columns of the schema the file was written with
                               (or of _WRITE_COLS, for files that hold some columns only)

Rows of no fields mean that nothing was collected, or that statistics were dropped when the entry became a DELETE.
Values that the metadata mode of a column does not collect are null: min and max with `counts`, all with `none`. With
`truncate(n)` min and max are bounds, not values of the file: a minimum may be shorter than the true one, a maximum may
have its last character incremented, and it is null where that overflows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import arities, decode_columns
from morrow.engine.format.types import DataType

UNKNOWN = DataType()
"""The type of a column that is in the statistics but not in the schema: it keeps its slot and is never decoded."""


class ColumnStats(msgspec.Struct, frozen=True):
    """The statistics of one column, a value for each manifest entry; null means "not known for this entry".

    `minimum`, `maximum`: bounds in the natural dtype of the column, or None when known for no entry.
    `null_count`: Int64, or None when known for no entry.
    """

    minimum: pl.Series | None
    maximum: pl.Series | None
    null_count: pl.Series | None


class _Layout(msgspec.Struct, frozen=True):
    """The entries (by index) whose statistics cover the same columns."""

    columns: tuple[str, ...]
    entries: pl.Series


def column_stats(
    min_rows: pl.Series,
    max_rows: pl.Series,
    null_counts: pl.Series,
    stats_cols: pl.Series | None,
    types_by_name: Mapping[str, DataType],
    wanted: Sequence[str],
    *,
    where: str,
) -> dict[str, ColumnStats]:
    """Decodes the statistics of the `wanted` columns.

    Args:
        min_rows, max_rows: Binary, one stored row for each entry; a null entry has no statistics.
        null_counts: List(Int64).
        stats_cols: List(String), the columns covered by each entry; None, or null for an entry: all of `types_by_name`.
            Pass ``_VALUE_STATS_COLS``, and ``_WRITE_COLS`` where that is null.
        types_by_name: the columns of the one schema that all these files were written with, in its order.
        wanted: names out of `types_by_name`.
        where: names the manifest in errors.

    Returns:
        For each wanted column Series as long as `min_rows`. Bounds that Polars cannot represent, and NaN, are null.

    Raises:
        CorruptFile: a row does not have one item for each column. Unsupported: a list of counts does not.
    """
    rows = pl.DataFrame({"min": min_rows, "max": max_rows, "nulls": null_counts}).with_row_index("entry")
    found: dict[str, list[pl.DataFrame]] = {name: [] for name in wanted}
    for layout in _layouts(stats_cols, tuple(types_by_name), len(rows)):
        for name, part in _decode_layout(layout, rows[layout.entries], types_by_name, wanted, where):
            found[name].append(part)
    return {name: _assemble(parts, len(rows)) for name, parts in found.items()}


def _layouts(stats_cols: pl.Series | None, every: tuple[str, ...], count: int) -> Iterator[_Layout]:
    """Groups the entries by the columns that they cover: a handful of groups, however many entries."""
    if stats_cols is None or stats_cols.null_count() == count:
        yield _Layout(every, pl.int_range(count, eager=True))
        return
    groups = pl.DataFrame({"columns": stats_cols}).with_row_index("entry").group_by("columns", maintain_order=True)
    for columns, entries in groups.agg("entry").iter_rows():
        yield _Layout(every if columns is None else tuple(columns), pl.Series(entries))


def _decode_layout(
    layout: _Layout, rows: pl.DataFrame, types_by_name: Mapping[str, DataType], wanted: Sequence[str], where: str
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yields the part of each wanted column that these entries cover: entry, minimum, maximum, null count."""
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
    empty = pl.Series(arities(rows, where=where)) == 0
    if empty.any():
        rows = rows.zip_with(~empty, pl.Series([None], dtype=pl.Binary).new_from_index(0, len(rows)))
    bounds = decode_columns(rows, types, where=where, columns=indexes, unrepresentable="null")
    return [bound.fill_nan(None) if bound.dtype.is_float() else bound for bound in bounds]


def _assemble(parts: Sequence[pl.DataFrame], count: int) -> ColumnStats:
    """Puts the parts back in the order of the entries; entries in no part are null."""
    if not parts:
        return ColumnStats(None, None, None)
    stats = pl.concat(parts, how="vertical")
    if len(stats) < count or len(parts) > 1:
        entries = pl.DataFrame({"entry": pl.int_range(count, dtype=pl.UInt32, eager=True)})
        stats = entries.join(stats, on="entry", how="left", maintain_order="left")
    counts = stats["nulls"]
    counts = counts.set(counts < 0, None)
    return ColumnStats(_known(stats["min"]), _known(stats["max"]), _known(counts))


def _known(values: pl.Series) -> pl.Series | None:
    return None if values.null_count() == len(values) else values
