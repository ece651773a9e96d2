"""Conversions of manifest entries between values and the frames that encoders take and decoders return.

A commit handles its files one by one (`morrow.engine.format.data_file_meta`); everything that reads or merges
manifests keeps them in frames. The conversions are meant for as many entries as one commit has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import polars as pl

from morrow.engine.format.data_file_meta import (
    EMPTY_STATS,
    DataFileMeta,
    DeletionRange,
    EntryKind,
    IndexEntry,
    IndexFileMeta,
    ManifestEntry,
    SimpleStats,
)
from morrow.engine.format.manifest_columns import (
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    INDEX_COLUMNS,
    INDEX_MANIFEST_VERSION,
    MANIFEST_VERSION,
)

_FILE_MEMBERS = tuple((column, column.lower().removeprefix("_")) for column in FILE_COLUMNS)
"""Columns of an entry's file, and the members of `DataFileMeta` that they hold."""
_TIME = "_CREATION_TIME"


def entries_frame(entries: Sequence[ManifestEntry]) -> pl.DataFrame:
    """Returns a frame of one row per entry, with the columns of `decode_manifest`."""
    if not entries:
        return no_entries()
    # By rows: most commits have few files, and making a Series takes as long as making the whole of a small frame.
    return pl.DataFrame([_row(entry) for entry in entries], schema={**ENTRY_COLUMNS, **FILE_COLUMNS})


@cache
def no_entries() -> pl.DataFrame:
    """Returns a frame of no entry, with the columns of `decode_manifest`."""
    return pl.DataFrame(schema={**ENTRY_COLUMNS, **FILE_COLUMNS})


def _row(entry: ManifestEntry) -> dict[str, Any]:
    file = entry.file
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        **{column: getattr(file, member) for column, member in _FILE_MEMBERS},
        "_KEY_STATS": _stats(file.key_stats),
        "_VALUE_STATS": _stats(file.value_stats),
    }


def _stats(stats: SimpleStats) -> dict[str, Any]:
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": stats.null_counts}


def entries_of(frame: pl.DataFrame) -> list[ManifestEntry]:
    """Returns the rows of a frame such as `decode_manifest` returns."""
    partitions, buckets, totals = (frame[name].to_list() for name in ("_PARTITION", "_BUCKET", "_TOTAL_BUCKETS"))
    kinds = map(EntryKind, frame["_KIND"].to_list())
    files = data_files_of(frame)
    return [ManifestEntry(*row) for row in zip(kinds, partitions, buckets, totals, files, strict=True)]


def data_files_of(frame: pl.DataFrame) -> list[DataFileMeta]:
    """Returns the file of each entry."""
    times = frame[_TIME].cast(pl.Int64)
    columns = [(times if column == _TIME else frame[column]).to_list() for column, _ in _FILE_MEMBERS]
    members = [member for _, member in _FILE_MEMBERS]
    return [_file(dict(zip(members, row, strict=True))) for row in zip(*columns, strict=True)]


def index_frame(entries: Sequence[IndexEntry]) -> pl.DataFrame:
    """Returns a frame of one row per index file, with the columns of `decode_index_manifest`."""
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
        "_DELETIONS_VECTORS_RANGES": [_range_members(file.deletion_ranges) for file in files],
        "_EXTERNAL_PATH": [file.external_path for file in files],
        "_GLOBAL_INDEX": [None] * len(files),
    }
    return pl.DataFrame([pl.Series(name, columns[name], dtype=dtype) for name, dtype in INDEX_COLUMNS.items()])


def index_entries_of(frame: pl.DataFrame) -> list[IndexEntry]:
    """Returns the rows of a frame such as `decode_index_manifest` returns, without the members of global indexes."""
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
                deletion_ranges=_ranges(ranges),
                external_path=external,
            ),
        )
        for kind, partition, bucket, index_type, name, size, rows, external, ranges in zip(
            frame["_KIND"].to_list(), *columns, strict=True
        )
    ]


def without_value_stats(file: DataFileMeta) -> DataFileMeta:
    """Returns the file without value statistics, which entries that delete a file do not need."""
    return msgspec.structs.replace(file, value_stats=EMPTY_STATS, value_stats_cols=())


def _file(members: dict[str, Any]) -> DataFileMeta:
    for name in ("key_stats", "value_stats"):
        stats = members[name]
        counts = stats["_NULL_COUNTS"] or ()
        members[name] = SimpleStats(stats["_MIN_VALUES"], stats["_MAX_VALUES"], tuple(counts))
    members["extra_files"] = tuple(members["extra_files"])
    for name in ("value_stats_cols", "write_cols"):
        members[name] = None if members[name] is None else tuple(members[name])
    return DataFileMeta(**members)


def _range_members(ranges: Sequence[DeletionRange] | None) -> list[dict[str, Any]] | None:
    if ranges is None:
        return None
    return [{"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges]


def _ranges(ranges: Sequence[Mapping[str, Any]] | None) -> tuple[DeletionRange, ...] | None:
    if ranges is None:
        return None
    return tuple(DeletionRange(r["f0"], r["f1"], r["f2"], r["_CARDINALITY"]) for r in ranges)
