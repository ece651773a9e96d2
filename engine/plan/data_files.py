"""From live entries to the files of a plan: paths, formats, partition values, deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import Value, decode_rows
from morrow.engine.format.partition_path import partition_path
from morrow.engine.format.paths import bucket_dir, external_path
from morrow.engine.format.schema import TableSchema
from morrow.engine.options import TableOptions
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import DataFile, DeletionRef
from morrow.engine.plan.sections import bucket_numbers

FORMATS = ("parquet", "orc", "avro", "json", "csv", "text", "blob")
COMPRESSION_SUFFIXES = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")
ENDING = rf"\.([A-Za-z0-9]+)(?:\.(?:{'|'.join(COMPRESSION_SUFFIXES)}))?$"


def data_files(
    metadata: TableMetadata,
    schema: TableSchema,
    options: TableOptions,
    frame: pl.DataFrame,
    deletions: Mapping[int, DeletionRef],
) -> list[DataFile]:
    """One `DataFile` per entry, in the order of `frame`; `deletions` are those of its rows, by row number.

    Raises:
        UnsafePath: a name with a separator, or an external path outside of the allowed roots.
        Unsupported: a file format that Morrow does not read.
    """
    if not frame.height:
        return []
    paths = file_paths(metadata, schema, options, frame).to_list()
    formats = file_formats(frame, metadata.where)
    columns = (
        *("_FILE_SIZE", "_ROW_COUNT", "_LEVEL", "_SCHEMA_ID"),
        *("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_DELETE_ROW_COUNT", "_FIRST_ROW_ID"),
    )
    rows = zip(paths, formats, *(frame[column].to_list() for column in columns), strict=True)
    written = (None if names is None else tuple(names) for names in frame["_WRITE_COLS"].to_list())
    described = enumerate(zip(rows, written, strict=True))
    return [DataFile(*row, write_columns=names, deletion=deletions.get(i)) for i, (row, names) in described]  # type: ignore[misc]  # a row is the columns above


def file_paths(metadata: TableMetadata, schema: TableSchema, options: TableOptions, frame: pl.DataFrame) -> pl.Series:
    """The path of each entry's data file within the store."""
    _, first, bucket_of = np.unique(bucket_numbers(frame), return_index=True, return_inverse=True)
    folders = _bucket_folders(metadata, schema, options, frame[["_PARTITION", "_BUCKET"]][first])
    paths = folders[bucket_of] + "/" + frame["_FILE_NAME"]
    outside = frame["_EXTERNAL_PATH"]
    if outside.null_count() == frame.height:
        return paths
    checked = [None if path is None else external(metadata, options, path) for path in outside]
    return pl.Series(checked, dtype=pl.String).fill_null(paths)


def external(metadata: TableMetadata, options: TableOptions, path: str) -> str:
    """An external path, when it is allowed, as the path within the table's store."""
    roots = (metadata.store.url(metadata.root), *options.external_roots, *metadata.allowed_roots)
    location = external_path(path, roots, where=metadata.where)
    base = metadata.store.url("")
    if not location.startswith(base) or (metadata.store.is_local and not location.startswith("/")):
        raise Unsupported(f"the file {path} in another store than the table's", where=metadata.where)
    return location.removeprefix(base)


def _bucket_folders(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, buckets: pl.DataFrame
) -> pl.Series:
    """The folder of each row of `buckets` (columns _PARTITION, _BUCKET)."""
    stored = buckets["_PARTITION"].to_list()
    values = dict(zip(stored, partition_values(schema, buckets, where=metadata.where)))
    names = {one: _partition_folder(metadata, schema, options, value) for one, value in values.items()}
    folders = [
        bucket_dir(metadata.root, names[one], bucket, options.data_directory)
        for one, bucket in zip(stored, buckets["_BUCKET"].to_list())
    ]
    return pl.Series(folders, dtype=pl.String)


def _partition_folder(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, value: tuple[Value | None, ...]
) -> str:
    """``k=v/...`` of one partition, empty for unpartitioned tables."""

    def named(legacy: bool) -> str:
        types = [schema.by_name[name].type for name in schema.partition_keys]
        default = options.partition_default_name
        return partition_path(value, types, schema.partition_keys, default_name=default, legacy_name=legacy)

    if options.legacy_partition_name or not schema.partition_keys:
        return named(legacy=True)
    # Paimon 0.9 wrote legacy names whatever partition.legacy-name said: what is on disk decides.
    folder, old = named(legacy=False), named(legacy=True)
    parts = (part for part in (metadata.root, options.data_directory, folder) if part)
    return folder if folder == old or metadata.store.is_dir("/".join(parts)) else old


def partition_values(schema: TableSchema, frame: pl.DataFrame, *, where: str) -> list[tuple[Value | None, ...]]:
    """The partition of each entry as Python values in the order of the partition keys."""
    if not schema.partition_keys:
        return [()] * frame.height
    types = [schema.by_name[name].type for name in schema.partition_keys]
    distinct = frame["_PARTITION"].unique().to_list()
    known = dict(zip(distinct, decode_rows(distinct, types, where=where)))
    return [known[stored] for stored in frame["_PARTITION"].to_list()]


def file_formats(frame: pl.DataFrame, where: str) -> Sequence[str]:
    """The format of each file, by the ending of its name (``.json.gz`` is json).

    Raises:
        Unsupported: a format that Morrow does not read.
    """
    endings = frame.select(pl.col("_FILE_NAME").str.extract(ENDING).str.to_lowercase()).to_series().to_list()
    if unknown := set(endings).difference(FORMATS):
        name = next(name for name, ending in zip(frame["_FILE_NAME"], endings) if ending in unknown)
        raise Unsupported(f"the file format of {name}", where=where, hint=f"Morrow reads {', '.join(FORMATS)}")
    return endings
