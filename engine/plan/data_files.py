"""Turns live entries into the files of a plan: paths, formats, partition values, deletion vectors."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import series_of
from morrow.engine.format.binary_row import Value, decode_rows
from morrow.engine.format.file_formats import BUILT_IN, known_format
from morrow.engine.format.paths import bucket_dir, external_path, in_store
from morrow.engine.format.schema import TableSchema
from morrow.engine.frames import FEW, distinct
from morrow.engine.names import MODERN_DATES
from morrow.engine.options import TableOptions
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.partition_folders import found_folders
from morrow.engine.plan.scan_plan import DataFile, DeletionRef
from morrow.engine.plan.sections import bucket_numbers

COMPRESSION_SUFFIXES = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")
DESCRIBED = (
    *("_FILE_SIZE", "_ROW_COUNT", "_LEVEL", "_SCHEMA_ID"),
    *("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_DELETE_ROW_COUNT", "_FIRST_ROW_ID"),
    "_WRITE_COLS",
)
"""Columns of entries that files of a plan hold as they are, in the order of `DataFile`."""
PIECE = 1 << 16
"""Files that are made at once."""

NOTHING = pl.Series([None], dtype=pl.Null)

ENDING = rf"\.([A-Za-z0-9]+)(?:\.(?:{'|'.join(COMPRESSION_SUFFIXES)}))?"
_ENDING = re.compile(ENDING + r"\Z")


def data_files(
    metadata: TableMetadata,
    schema: TableSchema,
    options: TableOptions,
    frame: pl.DataFrame,
    deletions: Mapping[int, DeletionRef],
) -> list[DataFile]:
    """Returns one `DataFile` per entry, in the order of `frame`; `deletions` maps row numbers of `frame` to vectors.

    Raises:
        UnsafePath: a name with a separator, or an external path outside of the allowed roots.
        Unsupported: a file format that Morrow does not read.
    """
    if not frame.height:
        return []
    members = described(metadata, schema, options, frame)
    files: list[DataFile] = []
    # Values of all columns as Python objects would take more memory than the files that are made of them.
    for piece in members.iter_slices(PIECE):
        shared = {format: format for format in distinct(piece["format"])}
        for i, (path, format, *numbers, names, dates) in enumerate(piece.iter_rows(), len(files)):
            written, modern = None if names is None else tuple(names), tuple(dates or ())
            made = DataFile(  # type: ignore[misc]  # the columns above
                path, shared[format], *numbers, write_columns=written, deletion=deletions.get(i), modern_dates=modern
            )
            files.append(made)
    return files


def described(metadata: TableMetadata, schema: TableSchema, options: TableOptions, frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the members of each entry's `DataFile`, in their order, but for its deletion. Raises as `data_files`."""
    return pl.DataFrame(
        [
            file_paths(metadata, schema, options, frame),
            pl.Series("format", file_formats(frame, metadata.where)),
            *(frame[column] for column in DESCRIBED),
            frame[MODERN_DATES] if MODERN_DATES in frame.columns else NOTHING.new_from_index(0, frame.height),
        ]
    )


def file_paths(metadata: TableMetadata, schema: TableSchema, options: TableOptions, frame: pl.DataFrame) -> pl.Series:
    """Returns the path of each entry's data file within the store."""
    _, first, bucket_of = np.unique(bucket_numbers(frame), return_index=True, return_inverse=True)
    several = _bucket_folders(metadata, schema, options, frame[["_PARTITION", "_BUCKET"]][series_of(first)])
    folders = pl.Series([one for one, *_ in several], dtype=pl.String)
    paths = folders[series_of(bucket_of)] + "/" + frame["_FILE_NAME"]
    for number, (_, *others) in enumerate(several):
        for other in others:
            there = [status.name for status in metadata.store.list(other)]
            is_there = series_of(bucket_of == number) & frame["_FILE_NAME"].is_in(there)
            paths = paths.zip_with(~is_there, other + "/" + frame["_FILE_NAME"])
    outside = frame["_EXTERNAL_PATH"]
    if outside.null_count() == frame.height:
        return paths
    checked = [None if path is None else external(metadata, options, path) for path in outside]
    return pl.Series(checked, dtype=pl.String).fill_null(paths)


def external(metadata: TableMetadata, options: TableOptions, path: str) -> str:
    """Returns an allowed external path as a path within the table's store."""
    roots = (metadata.store.url(metadata.root), *options.external_roots, *metadata.allowed_roots)
    found = in_store(metadata.store, external_path(path, roots, where=metadata.where))
    if found is None:
        raise Unsupported(f"the file {path} in another store than the table's", where=metadata.where)
    return found


def readable_roots(metadata: TableMetadata, options: TableOptions) -> tuple[str, ...]:
    """Returns the folders that may hold data files, links followed: the table's, its external paths, the caller's."""
    external = (in_store(metadata.store, root) for root in options.external_roots if root)
    return (metadata.root, *(root for root in external if root is not None), *metadata.removable_roots)


def _bucket_folders(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, buckets: pl.DataFrame
) -> list[list[str]]:
    """Returns the folders of each row of `buckets` (columns _PARTITION, _BUCKET): nearly always one."""
    stored = buckets["_PARTITION"].to_list()
    values = dict(zip(stored, partition_values(schema, buckets, where=metadata.where)))
    names = found_folders(metadata, schema, options, values)
    return [
        [bucket_dir(metadata.root, name, bucket, options.data_directory) for name in names[one]]
        for one, bucket in zip(stored, buckets["_BUCKET"].to_list())
    ]


def partition_values(schema: TableSchema, frame: pl.DataFrame, *, where: str) -> list[tuple[Value | None, ...]]:
    """Returns the partition of each entry as Python values in the order of the partition keys."""
    if not schema.partition_keys:
        return [()] * frame.height
    types = [schema.by_name[name].type for name in schema.partition_keys]
    rows = distinct(frame["_PARTITION"]).to_list()
    known = dict(zip(rows, decode_rows(rows, types, where=where)))
    return [known[stored] for stored in frame["_PARTITION"].to_list()]


def file_formats(frame: pl.DataFrame, where: str) -> pl.Series:
    """Returns the format of each file, by its name's extension (``.json.gz`` is json).

    Raises:
        Unsupported: a format that Morrow does not read.
    """
    names = frame["_FILE_NAME"]
    if frame.height <= FEW:
        found = (_ENDING.search(name) for name in names.to_list())
        endings = pl.Series([None if each is None else each[1].lower() for each in found], dtype=pl.String)
    else:
        endings = names.str.extract(ENDING + "$").str.to_lowercase()
    if unknown := {ending for ending in distinct(endings) if ending is None or known_format(ending) is None}:
        name = next(name for name, ending in zip(names, endings) if ending in unknown)
        raise Unsupported(f"the file format of {name}", where=where, hint=f"Morrow reads {', '.join(BUILT_IN)}")
    return endings
