"""Manifest lists, manifests and index manifests as columns.

Metadata of a large table is itself columnar data: 100,000 file entries are one Polars frame, resolved and pruned with
expressions, never one Python object per entry. Files may be Avro, ORC or Parquet (``manifest.format``); which one is
read off the first bytes. Entries grew fields from Paimon 0.9 (16) to 2.0 (20): read by name, default what is missing.

Source: the format specification, sections Manifest List, Manifest and Global Index.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.avro import decode_frame

ADD = 0
DELETE = 1

MANIFEST_LIST_VERSION = 2
MANIFEST_VERSION = 2
INDEX_MANIFEST_VERSION = 1

MOST_ROWS_PER_BYTE = 1 << 16
"""Run-length encoding makes many rows of few bytes, but not more than this."""

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

ENTRY_COLUMNS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "_VERSION": pl.Int32,
    "_KIND": pl.Int32,
    "_PARTITION": pl.Binary,
    "_BUCKET": pl.Int32,
    "_TOTAL_BUCKETS": pl.Int32,
}

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
}

OPTIONAL_COLUMNS = frozenset(
    {
        *("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL"),
        *("_CREATION_TIME", "_DELETE_ROW_COUNT", "_EMBEDDED_FILE_INDEX", "_FILE_SOURCE", "_VALUE_STATS_COLS"),
        *("_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS", "_DELETIONS_VECTORS_RANGES", "_CARDINALITY"),
    }
)
"""Columns that some generation of the format lacks; they read as null. Every other column is required."""

UNREADABLE = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    OSError,
    UnicodeDecodeError,
)
"""What Polars and Arrow raise for Parquet and ORC files that are damaged."""

NULLABLE_COLUMNS = OPTIONAL_COLUMNS | {"_NULL_COUNTS"}


def decode_manifest_list(data: bytes, path: str) -> pl.DataFrame:
    """One row per manifest, in the order of the list, columns `MANIFEST_LIST_COLUMNS`.

    Raises:
        CorruptFile: undecodable bytes, missing columns or nulls where the format has none.
        Unsupported: a newer version of the format.
    """
    return _conformed(_decode(data, path), MANIFEST_LIST_COLUMNS, MANIFEST_LIST_VERSION, path)


def decode_manifest(data: bytes, path: str) -> pl.DataFrame:
    """One row per entry, in file order: `ENTRY_COLUMNS` and the members of ``_FILE`` as columns of their own.

    Raises: as `decode_manifest_list`.
    """
    frame = _decode(data, path)
    if "_FILE" not in frame.columns or not isinstance(frame.schema["_FILE"], pl.Struct):
        raise CorruptFile(path, "a manifest without the column _FILE")
    try:
        frame = frame.unnest("_FILE")
    except pl.exceptions.PolarsError as error:
        raise CorruptFile(path, f"a column of _FILE is also outside of it ({error})") from error
    entries = _conformed(frame, {**ENTRY_COLUMNS, **FILE_COLUMNS}, MANIFEST_VERSION, path)
    _check_numbers(entries, path)
    return entries


def _check_numbers(entries: pl.DataFrame, path: str) -> None:
    """Refuse counts that no file can have, before anything is allocated by them."""
    rows, size = pl.col("_ROW_COUNT"), pl.col("_FILE_SIZE")
    impossible = entries.filter(
        (rows < 0)
        | (size < 0)
        | (rows > (size + 1) * MOST_ROWS_PER_BYTE)
        | ~pl.col("_DELETE_ROW_COUNT").fill_null(0).is_between(0, rows)
        | ~pl.col("_KIND").is_in([ADD, DELETE])
        | (pl.col("_MIN_SEQUENCE_NUMBER") > pl.col("_MAX_SEQUENCE_NUMBER"))
    )
    if impossible.height:
        raise CorruptFile(path, f"the entry of {impossible['_FILE_NAME'][0]} holds impossible numbers")


def decode_index_manifest(data: bytes, path: str) -> pl.DataFrame:
    """One row per index file, columns `INDEX_COLUMNS`.

    Raises: as `decode_manifest_list`.
    """
    return _conformed(_decode(data, path), INDEX_COLUMNS, INDEX_MANIFEST_VERSION, path)


def _decode(data: bytes, path: str) -> pl.DataFrame:
    if data[:4] == b"Obj\x01":
        return decode_frame(data, where=path)
    try:
        if data[:4] == b"PAR1":
            # Not by Polars: a damaged file may end the process there, Arrow is fuzzed for it.
            return _from_arrow(pq.read_table(pa.BufferReader(data), page_checksum_verification=True))
        if data[:3] == b"ORC":
            return _from_arrow(orc.ORCFile(pa.BufferReader(data)).read())
    except UNREADABLE as error:
        raise CorruptFile(path, f"not a readable manifest ({error})") from error
    raise CorruptFile(path, "neither Avro, Parquet nor ORC")


def _from_arrow(table: pa.Table) -> pl.DataFrame:
    table.validate(full=True)  # ORC has no checksums, and Polars trusts that text is UTF-8
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _conformed(
    frame: pl.DataFrame, columns: Mapping[str, pl.DataType | type[pl.DataType]], version: int, path: str
) -> pl.DataFrame:
    schema = frame.schema
    missing = [name for name in columns if name not in schema and name not in OPTIONAL_COLUMNS]
    if missing:
        raise CorruptFile(path, f"the column {missing[0]} is missing")
    newest = frame["_VERSION"].max() if frame.height else None
    if isinstance(newest, int) and newest > version:
        raise Unsupported(f"manifest version {newest}", where=path, hint="upgrade Morrow")
    try:
        frame = frame.select(_conform(schema.get(name), name, dtype) for name, dtype in columns.items())
    except pl.exceptions.PolarsError as error:
        raise CorruptFile(path, f"a column has the wrong type ({error})") from error
    for column in frame.iter_columns():
        if column.name not in NULLABLE_COLUMNS and column.null_count():
            raise CorruptFile(path, f"the column {column.name} holds a null")
    return frame


def _conform(actual: pl.DataType | None, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Expr:
    if actual is None:
        return pl.lit(None, dtype=dtype).alias(name)
    if actual == dtype:
        return pl.col(name)
    if isinstance(actual, pl.Datetime):
        return pl.col(name).dt.replace_time_zone(None).cast(dtype)
    return pl.col(name).cast(dtype, strict=True)
