"""Entries of manifests and index manifests, as values and as rows of frames, and their statistics of columns.

Readers keep manifests as frames, whose columns are defined here. A commit adds a few files and handles their entries
one by one, as values; the conversion from and to frames is meant for the entries of one commit. Names are as in the
specification, for values without the leading underscore.

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

Source: the format specification, sections Manifest List, Manifest and Global Index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import Any

import msgspec
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import make_series
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
    empty = make_series(read_arities(rows, where=where) == 0)
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


class EntryKind(IntEnum):
    """The kind of a manifest entry: the file was added or deleted."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """The origin of a data file."""

    APPEND = 0
    COMPACT = 1


class SimpleStats(msgspec.Struct, frozen=True):
    """Bounds and null counts of some columns: two BinaryRows (arity first) and a count per column (None: unknown)."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...]


EMPTY_ROW = bytes(12)
"""A BinaryRow of no fields: arity 0, then 8 bytes of header."""

EMPTY_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


class DataFileMeta(msgspec.Struct, frozen=True, kw_only=True):
    """A data file as described by its manifest entry (the record ``_FILE``).

    Keys are BinaryRows (arity first) of the trimmed primary key, `EMPTY_ROW` in append tables. Sizes are in bytes,
    times in epoch milliseconds of the local wall clock (as in Java). `delete_row_count` counts -U and -D rows.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = EMPTY_STATS
    value_stats: SimpleStats = EMPTY_STATS
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time: int
    delete_row_count: int | None = 0
    embedded_file_index: bytes | None = None
    file_source: int | None = FileSource.APPEND
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def upgraded(self, level: int) -> DataFileMeta:
        """Return the same file at another level: compaction without rewriting."""
        return msgspec.structs.replace(self, level=level)


class ManifestEntry(msgspec.Struct, frozen=True):
    """One file added to, or deleted from, one bucket; `partition` is a BinaryRow (arity first)."""

    kind: EntryKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta


class DeletionRange(msgspec.Struct, frozen=True):
    """The location of the deletion vector of `data_file` in its index file (record of ``_DELETIONS_VECTORS_RANGES``).

    `offset` is the position of the length field; `length` includes magic and bitmap.
    """

    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


class GlobalIndexMeta(msgspec.Struct, frozen=True):
    """A file of a global index: its row ids (both ends included), its columns, and the metadata from its builder."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None

    @property
    def ids(self) -> list[int]:
        """The ids of all columns of the index."""
        return [self.index_field_id, *(self.extra_field_ids or ())]


class IndexFileMeta(msgspec.Struct, frozen=True, kw_only=True):
    """An index file as described by its index manifest entry; `row_count` counts vectors (DV) or hashes (HASH)."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_ranges: tuple[DeletionRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndexMeta | None = None


class IndexEntry(msgspec.Struct, frozen=True):
    """One index file added to, or deleted from, one bucket."""

    kind: EntryKind
    partition: bytes
    bucket: int
    file: IndexFileMeta


ADD = 0
DELETE = 1

MANIFEST_LIST_VERSION = 2
MANIFEST_VERSION = 2
INDEX_MANIFEST_VERSION = 1

DELETION_VECTORS_INDEX = "DELETION_VECTORS"
HASH_INDEX = "HASH"

_STATS = pl.Struct({"_MIN_VALUES": pl.Binary, "_MAX_VALUES": pl.Binary, "_NULL_COUNTS": pl.List(pl.Int64)})

MANIFEST_LIST_COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "_VERSION": pl.Int32,
    "_FILE_NAME": pl.String,
    "_FILE_SIZE": pl.Int64,
    "_NUM_ADDED_FILES": pl.Int64,
    "_NUM_DELETED_FILES": pl.Int64,
    "_PARTITION_STATS": _STATS,
    "_SCHEMA_ID": pl.Int64,
    "_MIN_BUCKET": pl.Int32,
    "_MAX_BUCKET": pl.Int32,
    "_MIN_LEVEL": pl.Int32,
    "_MAX_LEVEL": pl.Int32,
    "_MIN_ROW_ID": pl.Int64,
    "_MAX_ROW_ID": pl.Int64,
}

FILE_COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "_FILE_NAME": pl.String,
    "_FILE_SIZE": pl.Int64,
    "_ROW_COUNT": pl.Int64,
    "_MIN_KEY": pl.Binary,
    "_MAX_KEY": pl.Binary,
    "_KEY_STATS": _STATS,
    "_VALUE_STATS": _STATS,
    "_MIN_SEQUENCE_NUMBER": pl.Int64,
    "_MAX_SEQUENCE_NUMBER": pl.Int64,
    "_SCHEMA_ID": pl.Int64,
    "_LEVEL": pl.Int32,
    "_EXTRA_FILES": pl.List(pl.String),
    "_CREATION_TIME": pl.Datetime("ms"),
    "_DELETE_ROW_COUNT": pl.Int64,
    "_EMBEDDED_FILE_INDEX": pl.Binary,
    "_FILE_SOURCE": pl.Int32,
    "_VALUE_STATS_COLS": pl.List(pl.String),
    "_EXTERNAL_PATH": pl.String,
    "_FIRST_ROW_ID": pl.Int64,
    "_WRITE_COLS": pl.List(pl.String),
}

STATISTICS = ("_KEY_STATS", "_VALUE_STATS", "_VALUE_STATS_COLS")
"""The statistics columns of files, which are most of an entry, and nearly all of it in wide tables."""

ENTRY_COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "_VERSION": pl.Int32,
    "_KIND": pl.Int32,
    "_PARTITION": pl.Binary,
    "_BUCKET": pl.Int32,
    "_TOTAL_BUCKETS": pl.Int32,
}

OUTLINE_COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    name: dtype for name, dtype in {**ENTRY_COLUMNS, **FILE_COLUMNS}.items() if name not in STATISTICS
}
"""The columns of entries without `STATISTICS`."""

INDEX_COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "_VERSION": pl.Int32,
    "_KIND": pl.Int32,
    "_PARTITION": pl.Binary,
    "_BUCKET": pl.Int32,
    "_INDEX_TYPE": pl.String,
    "_FILE_NAME": pl.String,
    "_FILE_SIZE": pl.Int64,
    "_ROW_COUNT": pl.Int64,
    "_DELETIONS_VECTORS_RANGES": pl.List(
        pl.Struct({"f0": pl.String, "f1": pl.Int32, "f2": pl.Int32, "_CARDINALITY": pl.Int64})
    ),
    "_EXTERNAL_PATH": pl.String,
    "_GLOBAL_INDEX": pl.Struct(
        {
            "_ROW_RANGE_START": pl.Int64,
            "_ROW_RANGE_END": pl.Int64,
            "_INDEX_FIELD_ID": pl.Int32,
            "_EXTRA_FIELD_IDS": pl.List(pl.Int32),
            "_INDEX_META": pl.Binary,
            "_SOURCE_META": pl.Binary,
        }
    ),
}

OPTIONAL_COLUMNS = frozenset(
    {
        *("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL", "_MIN_ROW_ID", "_MAX_ROW_ID"),
        *("_CREATION_TIME", "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_VALUE_STATS_COLS"),
        *(
            "_EXTERNAL_PATH",
            "_FIRST_ROW_ID",
            "_WRITE_COLS",
            "_DELETIONS_VECTORS_RANGES",
            "_CARDINALITY",
            "_GLOBAL_INDEX",
            "_SOURCE_META",
        ),
    }
)
"""Columns that some format versions lack, and that are then read as null. Every other column is required."""

NULLABLE_COLUMNS = OPTIONAL_COLUMNS | {"_NULL_COUNTS"}

_FILE_MEMBERS = tuple((column, column.lower().removeprefix("_")) for column in FILE_COLUMNS)
"""Columns of an entry's file -> members of `DataFileMeta`."""
_TIME = "_CREATION_TIME"


def to_entry_frame(entries: Sequence[ManifestEntry]) -> pl.DataFrame:
    """Return a frame of one row per entry, with the columns of `decode_manifest`."""
    if not entries:
        return make_empty_frame()
    # From rows: most commits have few files, and making one Series takes as long as making a whole small frame.
    return pl.DataFrame([_to_row(entry) for entry in entries], schema={**ENTRY_COLUMNS, **FILE_COLUMNS})


@cache
def make_empty_frame() -> pl.DataFrame:
    """Return an empty frame with the columns of `decode_manifest`."""
    return pl.DataFrame(schema={**ENTRY_COLUMNS, **FILE_COLUMNS})


def _to_row(entry: ManifestEntry) -> dict[str, Any]:
    file = entry.file
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        **{column: getattr(file, member) for column, member in _FILE_MEMBERS},
        "_KEY_STATS": _to_stats_members(file.key_stats),
        "_VALUE_STATS": _to_stats_members(file.value_stats),
    }


def _to_stats_members(stats: SimpleStats) -> dict[str, Any]:
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": stats.null_counts}


def to_entries(frame: pl.DataFrame) -> list[ManifestEntry]:
    """Return the entries in a frame from `decode_manifest`."""
    partitions, buckets, totals = (frame[name].to_list() for name in ("_PARTITION", "_BUCKET", "_TOTAL_BUCKETS"))
    kinds = map(EntryKind, frame["_KIND"].to_list())
    files = to_data_files(frame)
    return [ManifestEntry(*row) for row in zip(kinds, partitions, buckets, totals, files, strict=True)]


def to_data_files(frame: pl.DataFrame) -> list[DataFileMeta]:
    """Return the file of each entry."""
    times = frame[_TIME].cast(pl.Int64)
    columns = [(times if column == _TIME else frame[column]).to_list() for column, _ in _FILE_MEMBERS]
    members = [member for _, member in _FILE_MEMBERS]
    return [_to_data_file(dict(zip(members, row, strict=True))) for row in zip(*columns, strict=True)]


def index_frame(entries: Sequence[IndexEntry]) -> pl.DataFrame:
    """Return a frame of one row per index file, with the columns of `decode_index_manifest`."""
    files = [entry.file for entry in entries]
    columns: Mapping[str, list[Any]] = {
        "_VERSION": [INDEX_MANIFEST_VERSION] * len(files),
        "_KIND": [int(entry.kind) for entry in entries],
        "_PARTITION": [entry.partition for entry in entries],
        "_BUCKET": [entry.bucket for entry in entries],
        "_INDEX_TYPE": [file.index_type for file in files],
        "_FILE_NAME": [file.file_name for file in files],
        "_FILE_SIZE": [file.file_size for file in files],
        "_ROW_COUNT": [file.row_count for file in files],
        "_DELETIONS_VECTORS_RANGES": [_to_range_members(file.deletion_ranges) for file in files],
        "_EXTERNAL_PATH": [file.external_path for file in files],
        "_GLOBAL_INDEX": [_to_index_members(file.global_index) for file in files],
    }
    return pl.DataFrame([pl.Series(name, columns[name], dtype=dtype) for name, dtype in INDEX_COLUMNS.items()])


def index_entries_of(frame: pl.DataFrame) -> list[IndexEntry]:
    """Return the entries in a frame from `decode_index_manifest`."""
    names = ("_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT")
    columns = [
        frame[name].to_list() for name in (*names, "_EXTERNAL_PATH", "_DELETIONS_VECTORS_RANGES", "_GLOBAL_INDEX")
    ]
    return [
        IndexEntry(
            EntryKind(kind),
            partition,
            bucket,
            IndexFileMeta(
                index_type=index_type,
                file_name=name,
                file_size=size,
                row_count=rows,
                deletion_ranges=_to_ranges(ranges),
                external_path=external,
                global_index=_to_global_index(about),
            ),
        )
        for kind, partition, bucket, index_type, name, size, rows, external, ranges, about in zip(
            frame["_KIND"].to_list(), *columns, strict=True
        )
    ]


def drop_value_stats(file: DataFileMeta) -> DataFileMeta:
    """Return the file without value statistics, which DELETE entries do not need."""
    return msgspec.structs.replace(file, value_stats=EMPTY_STATS, value_stats_cols=())


def _to_data_file(members: dict[str, Any]) -> DataFileMeta:
    for name in ("key_stats", "value_stats"):
        stats = members[name]
        counts = stats["_NULL_COUNTS"] or ()
        members[name] = SimpleStats(stats["_MIN_VALUES"], stats["_MAX_VALUES"], tuple(counts))
    members["extra_files"] = tuple(members["extra_files"])
    for name in ("value_stats_cols", "write_cols"):
        members[name] = None if members[name] is None else tuple(members[name])
    return DataFileMeta(**members)


def _to_index_members(about: GlobalIndexMeta | None) -> dict[str, Any] | None:
    if about is None:
        return None
    extra = None if about.extra_field_ids is None else list(about.extra_field_ids)
    values = (about.row_range_start, about.row_range_end, about.index_field_id, extra)
    return dict(zip(_GLOBAL_MEMBERS, (*values, about.index_meta, about.source_meta), strict=True))


def _to_global_index(members: Mapping[str, Any] | None) -> GlobalIndexMeta | None:
    if members is None:
        return None
    first, last, field, extra, meta, source = (members[name] for name in _GLOBAL_MEMBERS)
    return GlobalIndexMeta(first, last, field, None if extra is None else tuple(extra), meta, source)


_GLOBAL_MEMBERS = (
    *("_ROW_RANGE_START", "_ROW_RANGE_END", "_INDEX_FIELD_ID", "_EXTRA_FIELD_IDS", "_INDEX_META", "_SOURCE_META"),
)


def _to_range_members(ranges: Sequence[DeletionRange] | None) -> list[dict[str, Any]] | None:
    if ranges is None:
        return None
    return [{"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges]


def _to_ranges(ranges: Sequence[Mapping[str, Any]] | None) -> tuple[DeletionRange, ...] | None:
    if ranges is None:
        return None
    return tuple(DeletionRange(r["f0"], r["f1"], r["f2"], r["_CARDINALITY"]) for r in ranges)
