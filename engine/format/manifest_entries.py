"""Entries of manifests and index manifests, as values and as rows of frames.

Readers keep manifests as frames, whose columns are defined here. A commit adds a few files and handles their entries
one by one, as values; the conversion from and to frames is meant for the entries of one commit. Names are as in the
specification, for values without the leading underscore.

Source: the format specification, sections Manifest List, Manifest and Global Index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any

import msgspec
import polars as pl


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


class IndexFileMeta(msgspec.Struct, frozen=True, kw_only=True):
    """An index file as described by its index manifest entry; `row_count` counts vectors (DV) or hashes (HASH)."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_ranges: tuple[DeletionRange, ...] | None = None
    external_path: str | None = None


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
        "_GLOBAL_INDEX": [None] * len(files),
    }
    return pl.DataFrame([pl.Series(name, columns[name], dtype=dtype) for name, dtype in INDEX_COLUMNS.items()])


def index_entries_of(frame: pl.DataFrame) -> list[IndexEntry]:
    """Return the entries in a frame from `decode_index_manifest`, without the members of global indexes."""
    names = ("_PARTITION", "_BUCKET", "_INDEX_TYPE", "_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT")
    columns = [frame[name].to_list() for name in (*names, "_EXTERNAL_PATH", "_DELETIONS_VECTORS_RANGES")]
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
            ),
        )
        for kind, partition, bucket, index_type, name, size, rows, external, ranges in zip(
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


def _to_range_members(ranges: Sequence[DeletionRange] | None) -> list[dict[str, Any]] | None:
    if ranges is None:
        return None
    return [{"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges]


def _to_ranges(ranges: Sequence[Mapping[str, Any]] | None) -> tuple[DeletionRange, ...] | None:
    if ranges is None:
        return None
    return tuple(DeletionRange(r["f0"], r["f1"], r["f2"], r["_CARDINALITY"]) for r in ranges)
