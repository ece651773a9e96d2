"""From live entries to the files of a plan: paths, formats, partition values, deletion vectors."""

from __future__ import annotations

import polars as pl

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.binary_row import Value, decode_rows
from morrow.engine.format.manifest import DELETION_VECTORS_INDEX
from morrow.engine.format.partition_path import partition_path
from morrow.engine.format.paths import bucket_dir, check_segments, external_path
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options import TableOptions
from morrow.engine.plan.entries import index_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import DataFile, DeletionRef

FORMATS = ("parquet", "orc", "avro", "json", "csv", "text", "blob")
COMPRESSION_SUFFIXES = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")


def data_files(
    metadata: TableMetadata,
    schema: TableSchema,
    options: TableOptions,
    snapshot: Snapshot | None,
    frame: pl.DataFrame,
) -> list[DataFile]:
    """One `DataFile` per entry, in the order of `frame`.

    Raises:
        UnsafePath: a name with a separator, or an external path outside of the allowed roots.
        Unsupported: a file format that Morrow does not read.
    """
    if not frame.height:
        return []
    named = frame.with_columns(
        file_paths(metadata, schema, options, frame).alias("__path"),
        file_formats(frame, metadata.where).alias("__format"),
    )
    deletions = _deletions(metadata, schema, options, snapshot, named)
    columns = (
        *("__path", "__format", "_FILE_SIZE", "_ROW_COUNT", "_LEVEL", "_SCHEMA_ID"),
        *("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_DELETE_ROW_COUNT", "_FIRST_ROW_ID"),
    )
    rows = zip(*(named[column].to_list() for column in columns), strict=True)
    written = (None if names is None else tuple(names) for names in named["_WRITE_COLS"].to_list())
    described = enumerate(zip(rows, written, strict=True))
    return [DataFile(*row, write_columns=names, deletion=deletions.get(i)) for i, (row, names) in described]  # type: ignore[misc]  # a row is the columns above


def file_paths(metadata: TableMetadata, schema: TableSchema, options: TableOptions, frame: pl.DataFrame) -> pl.Series:
    """The path of each entry's data file within the store."""
    folders = bucket_folders(metadata, schema, options, frame)
    paths = (
        frame.join(folders, on=["_PARTITION", "_BUCKET"], how="left", maintain_order="left")
        .select(pl.concat_str(pl.col("__folder"), pl.lit("/"), pl.col("_FILE_NAME")))
        .to_series()
    )
    outside = frame["_EXTERNAL_PATH"]
    if outside.null_count() == frame.height:
        return paths
    checked = [None if path is None else _external(metadata, options, path) for path in outside]
    return pl.Series(checked, dtype=pl.String).fill_null(paths)


def _external(metadata: TableMetadata, options: TableOptions, path: str) -> str:
    """An external path, when it is allowed, as the path within the table's store."""
    roots = (metadata.store.url(metadata.root), *options.external_roots, *metadata.allowed_roots)
    location = external_path(path, roots, where=metadata.where)
    base = metadata.store.url("")
    if not location.startswith(base) or (metadata.store.is_local and not location.startswith("/")):
        raise Unsupported(f"the file {path} in another store than the table's", where=metadata.where)
    return location.removeprefix(base)


def bucket_folders(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, frame: pl.DataFrame
) -> pl.DataFrame:
    """The folder of each distinct partition and bucket: columns _PARTITION, _BUCKET, __folder."""
    distinct = frame.select("_PARTITION", "_BUCKET").unique(maintain_order=True)
    stored = distinct["_PARTITION"].to_list()
    values = partition_values(schema, distinct, where=metadata.where)
    names = {
        one: _partition_folder(metadata, schema, options, value) for one, value in dict(zip(stored, values)).items()
    }
    folders = [
        bucket_dir(metadata.root, names[one], bucket, options.data_directory)
        for one, bucket in zip(stored, distinct["_BUCKET"])
    ]
    return distinct.with_columns(pl.Series("__folder", folders, dtype=pl.String))


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


def file_formats(frame: pl.DataFrame, where: str) -> pl.Series:
    """The format of each file, by the ending of its name (``.json.gz`` is json).

    Raises:
        Unsupported: a format that Morrow does not read.
    """
    names = frame["_FILE_NAME"].str.replace(rf"\.({'|'.join(COMPRESSION_SUFFIXES)})$", "")
    formats = names.str.extract(r"\.([A-Za-z0-9]+)$").str.to_lowercase()
    for file_format in formats.unique():
        if file_format not in FORMATS:
            name = frame["_FILE_NAME"].filter(formats.eq_missing(file_format))[0]
            raise Unsupported(f"the file format of {name}", where=where, hint=f"Morrow reads {', '.join(FORMATS)}")
    return formats


def _deletions(
    metadata: TableMetadata,
    schema: TableSchema,
    options: TableOptions,
    snapshot: Snapshot | None,
    frame: pl.DataFrame,
) -> dict[int, DeletionRef]:
    """The deletion vector of each row of `frame` that has one, by row number."""
    vectors = _vector_files(metadata, options, snapshot, frame)
    if vectors is None:
        return {}
    vectors = vectors.with_columns(_index_paths(metadata, schema, options, vectors).alias("__index_path"))
    ranges = _vector_ranges(vectors)
    matched = (
        frame.select("_PARTITION", "_BUCKET", f0="_FILE_NAME")
        .with_row_index("__row")
        .join(ranges, on=["_PARTITION", "_BUCKET", "f0"], how="inner")
        .select("__row", "__index_path", "f1", "f2", "_CARDINALITY")
    )
    return {row: DeletionRef(path, offset, length, count) for row, path, offset, length, count in matched.iter_rows()}


def check_vectors(metadata: TableMetadata, options: TableOptions, snapshot: Snapshot, live: pl.DataFrame) -> None:
    """Hold the index manifest against all live files of the partitions read: a stray vector means lost deletes.

    Raises:
        CorruptFile: a vector without file, offset or length, two for one file, or one of a file that is not live.
    """
    vectors = _vector_files(metadata, options, snapshot, live)
    if vectors is None:
        return
    ranges = _vector_ranges(vectors.with_columns(pl.lit("").alias("__index_path")))
    where = f"{metadata.where}, index manifest {snapshot.index_manifest}"
    if any(ranges[name].null_count() for name in ("f0", "f1", "f2")):
        raise CorruptFile(where, "a deletion vector without its file, offset or length")
    if ranges.select("_PARTITION", "_BUCKET", "f0").is_duplicated().any():
        raise CorruptFile(where, "two deletion vectors for one data file")
    stray = ranges.join(
        live.select("_PARTITION", "_BUCKET", f0="_FILE_NAME"), on=["_PARTITION", "_BUCKET", "f0"], how="anti"
    )
    if stray.height:
        raise CorruptFile(where, f"a deletion vector of {stray['f0'][0]}, which is no file of the snapshot")


def _vector_files(
    metadata: TableMetadata, options: TableOptions, snapshot: Snapshot | None, frame: pl.DataFrame
) -> pl.DataFrame | None:
    """Index files with deletion vectors in the partitions and buckets of `frame`, None when there are none."""
    indexes = index_entries(metadata, snapshot) if options.deletion_vectors and snapshot else None
    if indexes is None:
        return None
    buckets = frame.select("_PARTITION", "_BUCKET").unique()
    vectors = indexes.filter(pl.col("_INDEX_TYPE") == DELETION_VECTORS_INDEX)
    vectors = vectors.join(buckets, on=["_PARTITION", "_BUCKET"], how="semi")
    return vectors if vectors.height else None


def _vector_ranges(vectors: pl.DataFrame) -> pl.DataFrame:
    """One row per deletion vector: _PARTITION, _BUCKET, __index_path, f0 file, f1 offset, f2 length, _CARDINALITY."""
    ranges = vectors.select("_PARTITION", "_BUCKET", "__index_path", "_DELETIONS_VECTORS_RANGES")
    return ranges.explode("_DELETIONS_VECTORS_RANGES").unnest("_DELETIONS_VECTORS_RANGES")


def _index_paths(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, vectors: pl.DataFrame
) -> pl.Series:
    if options.index_in_data_dir:
        check_segments(vectors["_FILE_NAME"], metadata.where)
        return file_paths(metadata, schema, options, vectors)
    return pl.Series(
        [
            metadata.paths.index(name) if path is None else _external(metadata, options, path)
            for name, path in zip(vectors["_FILE_NAME"], vectors["_EXTERNAL_PATH"])
        ],
        dtype=pl.String,
    )
