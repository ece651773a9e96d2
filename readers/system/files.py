"""``$files`` and ``$file_key_ranges``: the live data files of a snapshot.

Scans of the table see the same files, except for level 0, which is always listed here. They are ordered by partition
and bucket, within a bucket as in the manifests. (Java has no order of its own; it iterates over a hash map.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import polars as pl

from morrow.engine.format.binary_row import arities
from morrow.engine.format.types import ArrayType, VarCharType
from morrow.engine.plan.data_files import ENDING, file_paths
from morrow.engine.plan.entries import live_entries
from morrow.readers.casts.java_text import joined_texts, stored_texts
from morrow.readers.system.base import MetadataTable, TableState, columns_of, frame_of
from morrow.readers.system.partition_text import partition_rows
from morrow.readers.system.partitions import real_buckets
from morrow.readers.system.value_stats import STATS_COLUMNS, value_stats_texts

COLUMNS = columns_of(
    partition="STRING",
    bucket="INT NOT NULL",
    file_path="STRING NOT NULL",
    file_format="STRING NOT NULL",
    schema_id="BIGINT NOT NULL",
    level="INT NOT NULL",
    record_count="BIGINT NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    min_key="STRING",
    max_key="STRING",
    null_value_counts="STRING NOT NULL",
    min_value_stats="STRING NOT NULL",
    max_value_stats="STRING NOT NULL",
    min_sequence_number="BIGINT",
    max_sequence_number="BIGINT",
    creation_time="TIMESTAMP(3)",
    deleteRowCount="BIGINT",
    file_source="STRING",
    first_row_id="BIGINT",
    write_cols=ArrayType(element=VarCharType()),
)
KEY_RANGE_COLUMNS = columns_of(
    **{field.name: field.type for field in COLUMNS[:10]},
    first_row_id="BIGINT",
)

SOURCES = {0: "APPEND", 1: "COMPACT"}

AS_STORED: Mapping[str, str] = {
    "bucket": "_BUCKET",
    "schema_id": "_SCHEMA_ID",
    "level": "_LEVEL",
    "record_count": "_ROW_COUNT",
    "file_size_in_bytes": "_FILE_SIZE",
    "min_sequence_number": "_MIN_SEQUENCE_NUMBER",
    "max_sequence_number": "_MAX_SEQUENCE_NUMBER",
    "creation_time": "_CREATION_TIME",
    "deleteRowCount": "_DELETE_ROW_COUNT",
    "first_row_id": "_FIRST_ROW_ID",
    "write_cols": "_WRITE_COLS",
}

Derive: TypeAlias = Callable[[TableState, pl.DataFrame], pl.Series]


def _files(state: TableState, wanted: Collection[str]) -> pl.DataFrame:
    if state.snapshot is None:
        return frame_of(COLUMNS, [])
    metadata = state.metadata
    files = live_entries(metadata, state.snapshot, state.schema).frame.filter(real_buckets(state))
    partition = partition_rows(files["_PARTITION"], state.schema, where=metadata.where)
    files = files.with_columns(partition.alias("partition")).sort("partition", "_BUCKET", maintain_order=True)
    derived = [make(state, files).alias(name) for name, make in _DERIVED.items() if name in wanted]
    stats = value_stats_texts(metadata, state.schema, files, [name for name in STATS_COLUMNS if name in wanted])
    stored = {name: column for name, column in AS_STORED.items() if name in wanted}
    return files.select("partition", *derived, *stats, **stored)


def _paths(state: TableState, files: pl.DataFrame) -> pl.Series:
    """Returns the path of each file; external paths as they are stored, whether they may be read or not."""
    if not files.height:
        return pl.Series([], dtype=pl.String)
    metadata = state.metadata
    inside = files.with_columns(pl.lit(None, dtype=pl.String).alias("_EXTERNAL_PATH"))
    base = metadata.store.url(metadata.root).removesuffix(metadata.root)
    return files["_EXTERNAL_PATH"].fill_null(base + file_paths(metadata, state.schema, state.options, inside))


def _formats(_state: TableState, files: pl.DataFrame) -> pl.Series:
    return files["_FILE_NAME"].str.extract(ENDING).fill_null("")


def _sources(_state: TableState, files: pl.DataFrame) -> pl.Series:
    return files["_FILE_SOURCE"].replace_strict(SOURCES, default=None, return_dtype=pl.String)


def _keys(stored: str) -> Derive:
    """Formats ``[1, a]`` of the key in this column, in the types of the file's schema; null for files without keys."""

    def texts(state: TableState, files: pl.DataFrame) -> pl.Series:
        metadata = state.metadata
        keyed = files.select("_SCHEMA_ID", stored).with_row_index("row")
        keyed = keyed.filter(pl.Series(arities(keyed[stored], where=metadata.where) > 0))
        parts = [pl.DataFrame(schema={"row": pl.UInt32, "text": pl.String})]
        for (schema_id,), part in keyed.group_by("_SCHEMA_ID", maintain_order=True):
            schema = metadata.schema(int(str(schema_id)))
            types = [schema.by_name[name].type for name in schema.trimmed_primary_keys or schema.by_name]
            columns = stored_texts(part[stored], types, range(len(types)), where=metadata.where)
            text = joined_texts([("", column) for column in columns], "[]", part.height)
            parts.append(part.select("row", text.alias("text")))
        rows = pl.DataFrame({"row": pl.int_range(files.height, dtype=pl.UInt32, eager=True)})
        return rows.join(pl.concat(parts), on="row", how="left", maintain_order="left")["text"]

    return texts


_DERIVED: Mapping[str, Derive] = {
    "file_path": _paths,
    "file_format": _formats,
    "min_key": _keys("_MIN_KEY"),
    "max_key": _keys("_MAX_KEY"),
    "file_source": _sources,
}

FILES = MetadataTable(
    "files", "the live data files of a snapshot, with their statistics", COLUMNS, _files, travels=True
)
FILE_KEY_RANGES = MetadataTable(
    "file_key_ranges", "the live data files of a snapshot and their keys", KEY_RANGE_COLUMNS, _files, travels=True
)
