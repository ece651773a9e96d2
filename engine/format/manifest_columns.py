"""The columns of manifest lists, manifests and index manifests as decoded: names, dtypes, those that may be missing.

Source: the format specification, sections Manifest List, Manifest and Global Index.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

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
"""The columns of files with statistics: most of an entry, and in wide tables nearly all of it."""

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
"""Columns that some generation of the format lacks and that are read as null. Every other column is required."""

NULLABLE_COLUMNS = OPTIONAL_COLUMNS | {"_NULL_COUNTS"}
