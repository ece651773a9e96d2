"""Live entries of a snapshot as data files with their deletion vectors.

A partition usually has one folder. In two cases the folder's name is ambiguous, and the partition may even lie in
several folders. First, Paimon 0.9 wrote legacy names whatever ``partition.legacy-name`` said. Second, Java 19 prints
some FLOAT and DOUBLE values with fewer digits than Java 8 to 18 (2.0E23, 1.9999999999999998E23), if they have more
digits than a float represents exactly. Most tables have the names of older Javas. In both cases the store is asked
which of the names exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import msgspec
import numpy as np
import polars as pl

from morrow.engine.errors import UNCHECKED_COMMITS, CorruptFile, Unsupported
from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.binary_row import Value, decode_rows
from morrow.engine.format.file_formats import BUILT_IN, find_format
from morrow.engine.format.manifest_entries import DELETION_VECTORS_INDEX, FileSource
from morrow.engine.format.paths import (
    build_bucket_dir,
    check_external_path,
    check_segments,
    partition_path,
    to_store_path,
)
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import BinaryType, DataField, DoubleType, FloatType, VarBinaryType
from morrow.engine.io.store import read_each
from morrow.engine.names import ENTRY, INDEX_FILE, MODERN_DATES, VECTOR
from morrow.engine.options import TableOptions
from morrow.engine.options.declarations import Options
from morrow.engine.options.declared.merging import (
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_MODIFIABLE,
    SEQUENCE_SNAPSHOT_ORDERING,
)
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import DataFile, DeletionRef
from morrow.engine.plan.sections import number_buckets
from morrow.engine.polars_threads import MAX_SMALL_ROWS, deduplicate_values, filter_rows

COMPRESSION_SUFFIXES = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")
DESCRIBED = (
    *("_FILE_SIZE", "_ROW_COUNT", "_LEVEL", "_SCHEMA_ID"),
    *("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_DELETE_ROW_COUNT", "_FIRST_ROW_ID"),
    "_WRITE_COLS",
)
"""Columns of entries that the files of a plan hold unchanged, in the order of `DataFile`."""
MAX_PIECE_FILES = 1 << 16
"""The number of files built at once."""

NOTHING = pl.Series([None], dtype=pl.Null)

ENDING = rf"\.([A-Za-z0-9]+)(?:\.(?:{'|'.join(COMPRESSION_SUFFIXES)}))?"
_ENDING = re.compile(ENDING + r"\Z")


def build_data_files(
    metadata: TableMetadata,
    schema: TableSchema,
    options: TableOptions,
    frame: pl.DataFrame,
    deletions: Mapping[int, DeletionRef],
) -> list[DataFile]:
    """Return one `DataFile` per entry, in the order of `frame`; `deletions` maps row numbers of `frame` to vectors.

    Raises:
        UnsafePath: a name with a separator, or an external path outside of the allowed roots.
        Unsupported: a file format that Morrow does not read.
    """
    if not frame.height:
        return []
    members = describe_data_files(metadata, schema, options, frame)
    files: list[DataFile] = []
    # Values of all columns as Python objects would take more memory than the files built from them.
    for piece in members.iter_slices(MAX_PIECE_FILES):
        shared = {format: format for format in deduplicate_values(piece["format"])}
        for i, (path, format, *numbers, names, dates) in enumerate(piece.iter_rows(), len(files)):
            written, modern = None if names is None else tuple(names), tuple(dates or ())
            made = DataFile(  # type: ignore[misc]  # the columns above
                path, shared[format], *numbers, write_columns=written, deletion=deletions.get(i), modern_dates=modern
            )
            files.append(made)
    return files


def describe_data_files(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, frame: pl.DataFrame
) -> pl.DataFrame:
    """Return the members of each entry's `DataFile` in their order, without its deletion vector.

    Raises as `build_data_files`.
    """
    return pl.DataFrame(
        [
            build_file_paths(metadata, schema, options, frame),
            pl.Series("format", parse_file_formats(frame, metadata.where)),
            *(frame[column] for column in DESCRIBED),
            frame[MODERN_DATES] if MODERN_DATES in frame.columns else NOTHING.new_from_index(0, frame.height),
        ]
    )


def build_file_paths(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, frame: pl.DataFrame
) -> pl.Series:
    """Return the path of each entry's data file within the store."""
    _, first, bucket_of = np.unique(number_buckets(frame), return_index=True, return_inverse=True)
    several = _find_bucket_folders(metadata, schema, options, frame[["_PARTITION", "_BUCKET"]][make_series(first)])
    folders = pl.Series([one for one, *_ in several], dtype=pl.String)
    paths = folders[make_series(bucket_of)] + "/" + frame["_FILE_NAME"]
    for number, (_, *others) in enumerate(several):
        for other in others:
            there = [status.name for status in metadata.store.list(other)]
            is_there = make_series(bucket_of == number) & frame["_FILE_NAME"].is_in(there)
            paths = paths.zip_with(~is_there, other + "/" + frame["_FILE_NAME"])
    outside = frame["_EXTERNAL_PATH"]
    if outside.null_count() == frame.height:
        return paths
    checked = [None if path is None else resolve_external_path(metadata, options, path) for path in outside]
    return pl.Series(checked, dtype=pl.String).fill_null(paths)


def resolve_external_path(metadata: TableMetadata, options: TableOptions, path: str) -> str:
    """Return an allowed external path as a path within the table's store."""
    roots = (metadata.store.url(metadata.root), *list_allowed_roots(metadata, options))
    found = to_store_path(metadata.store, check_external_path(path, roots, where=metadata.where))
    if found is None:
        raise Unsupported(f"the file {path} in another store than the table's", where=metadata.where)
    return found


def list_readable_roots(metadata: TableMetadata, options: TableOptions) -> tuple[str, ...]:
    """Return the folders that may hold data files, links resolved: the table's, its external paths, the caller's."""
    external = (to_store_path(metadata.store, root) for root in options.external_roots if root)
    return (metadata.root, *(root for root in external if root is not None), *metadata.removable_roots)


def list_allowed_roots(metadata: TableMetadata, options: TableOptions) -> tuple[str, ...]:
    """Return the URLs, in any store, below which files besides the table's own may lie."""
    return (*(root for root in options.external_roots if root), *metadata.allowed_roots)


def _find_bucket_folders(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, buckets: pl.DataFrame
) -> list[list[str]]:
    """Return the folders of each row of `buckets` (columns _PARTITION, _BUCKET): nearly always one."""
    stored = buckets["_PARTITION"].to_list()
    values = dict(zip(stored, decode_partition_values(schema, buckets, where=metadata.where)))
    names = find_partition_folders(metadata, schema, options, values)
    return [
        [build_bucket_dir(metadata.root, name, bucket, options.data_directory) for name in names[one]]
        for one, bucket in zip(stored, buckets["_BUCKET"].to_list())
    ]


def decode_partition_values(schema: TableSchema, frame: pl.DataFrame, *, where: str) -> list[tuple[Value | None, ...]]:
    """Return the partition of each entry as Python values in the order of the partition keys."""
    if not schema.partition_keys:
        return [()] * frame.height
    types = [schema.by_name[name].type for name in schema.partition_keys]
    rows = deduplicate_values(frame["_PARTITION"]).to_list()
    known = dict(zip(rows, decode_rows(rows, types, where=where)))
    return [known[stored] for stored in frame["_PARTITION"].to_list()]


def parse_file_formats(frame: pl.DataFrame, where: str) -> pl.Series:
    """Return the format of each file, by its name's extension (``.json.gz`` is json).

    Raises `Unsupported`: a format that Morrow does not read.
    """
    names = frame["_FILE_NAME"]
    if frame.height <= MAX_SMALL_ROWS:
        found = (_ENDING.search(name) for name in names.to_list())
        endings = pl.Series([None if each is None else each[1].lower() for each in found], dtype=pl.String)
    else:
        endings = names.str.extract(ENDING + "$").str.to_lowercase()
    if unknown := {ending for ending in deduplicate_values(endings) if ending is None or find_format(ending) is None}:
        name = next(name for name, ending in zip(names, endings) if ending in unknown)
        raise Unsupported(f"the file format of {name}", where=where, hint=f"Morrow reads {', '.join(BUILT_IN)}")
    return endings


Values: TypeAlias = Sequence[Value | None]


def find_partition_folders(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, partitions: Mapping[bytes, Values]
) -> dict[bytes, tuple[str, ...]]:
    """Return the existing folders ``k=v/...`` of each partition, nearly always one (empty for tables without keys).

    Only partitions with several possible names are looked up; in a remote store, many at once.
    """
    names = {one: _list_folder_names(schema, options, values) for one, values in partitions.items()}
    doubtful = [one for one, several in names.items() if len(several) > 1]
    found = zip(
        doubtful,
        read_each(metadata.store, partial(_filter_present, metadata, options), [names[one] for one in doubtful]),
    )
    likeliest = {one: (several[0],) for one, several in names.items()}
    return likeliest | {one: there or (names[one][-1],) for one, there in found}


def choose_partition_folder(metadata: TableMetadata, schema: TableSchema, options: TableOptions, values: Values) -> str:
    """Return the folder for new files of a partition: the existing one, otherwise the likeliest name.

    Raises `Unsupported`: the partition lies in several folders. Morrow reads them all; Java finds only one folder.
    """
    names = _list_folder_names(schema, options, values)
    there = _filter_present(metadata, options, names) if len(names) > 1 else ()
    if len(there) > 1:
        raise Unsupported(
            f"writing a partition in the folders {' and '.join(there)}",
            where=metadata.where,
            hint="versions of Java or Paimon have named it differently; write its rows to a new table",
        )
    return next(iter(there), names[0])


def _list_folder_names(schema: TableSchema, options: TableOptions, values: Values) -> list[str]:
    """Return all names that a partition may have, the likeliest first."""
    legacy = options.legacy_partition_name
    names = _list_float_names(schema, options, values, legacy)
    # The legacy names of binary values cannot be found again.
    if not legacy and not any(isinstance(schema.by_name[key].type, BYTES) for key in schema.partition_keys):
        names += _list_float_names(schema, options, values, True)
    return list(dict.fromkeys(names))


def _list_float_names(schema: TableSchema, options: TableOptions, values: Values, legacy: bool) -> list[str]:
    types = [schema.by_name[key].type for key in schema.partition_keys]
    default = options.partition_default_name
    named = partial(partition_path, values, types, schema.partition_keys, default_name=default, legacy_name=legacy)
    if not any(isinstance(type_, FLOATS) for type_ in types):
        return [named()]
    return list(dict.fromkeys((named(), named(shortest_floats=True))))


def _filter_present(metadata: TableMetadata, options: TableOptions, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if _is_present(metadata, options, name))


def _is_present(metadata: TableMetadata, options: TableOptions, name: str) -> bool:
    parts = (part for part in (metadata.root, options.data_directory, name) if part)
    return metadata.store.is_dir("/".join(parts))


FLOATS = (FloatType, DoubleType)
BYTES = (BinaryType, VarBinaryType)

ALIKE = 0.75
"""The similarity above which two file names are not alike by chance: half of a name is random."""
MAX_COMPARED_NAMES = 1000

WRITTEN = r".*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+\..+"
"""The pattern of the names that writers give to data files."""


class DeletionVectors(msgspec.Struct, frozen=True):
    """Deletion vectors of live files.

    `files`: index files with deletion vectors, columns of `decode_index_manifest`. `ranges`: one row per vector of a
    live file: __index_file (row in `files`), _PARTITION, _BUCKET, f0 data file, f1 offset, f2 length, _CARDINALITY.
    """

    files: pl.DataFrame
    ranges: pl.DataFrame


def attach_vectors(
    metadata: TableMetadata, options: TableOptions, snapshot: Snapshot, live: pl.DataFrame
) -> tuple[pl.DataFrame, DeletionVectors | None]:
    """Return all live files of the requested partitions, with the column `VECTOR` if their buckets have vectors.

    Raises:
        CorruptFile: a vector without file, offset or length, or one whose file is misnamed: lost deletes. A vector of
            a removed file is ignored: Java leaves it behind when a full compaction rewrites a single file.
        Unsupported: two vectors of one file.
    """
    indexes = read_index_entries(metadata, snapshot) if live.height else None
    if indexes is None:
        return live, None
    if not options.deletion_vectors:
        _check_unwanted(metadata, options, snapshot, indexes, live)
        return live, None
    files = filter_rows(indexes, indexes["_INDEX_TYPE"] == DELETION_VECTORS_INDEX)
    if not files.height:
        return live, None
    ranges = _locate_vectors(_read_ranges(files), live)
    if not ranges.height:
        return live, None
    _check_ranges(ranges, live["_FILE_NAME"], f"{metadata.where}, index manifest {snapshot.index_manifest}")
    ranges = filter_rows(ranges, ranges[ENTRY].is_not_null())
    vector = np.full(live.height, -1, np.int64)
    vector[ranges[ENTRY].to_numpy()] = np.arange(ranges.height)
    return live.hstack([pl.Series(VECTOR, vector)]), DeletionVectors(files, ranges)


def _check_unwanted(
    metadata: TableMetadata, options: TableOptions, snapshot: Snapshot, indexes: pl.DataFrame, live: pl.DataFrame
) -> None:
    """Check that no live file has deletion vectors in a table whose newest options disable them.

    Vectors of files that a compaction has replaced are ignored if an earlier schema enabled vectors, as in Java.

    Raises:
        Unsupported: vectors were never enabled, so the option was lost, or was set only in a session.
        Unsupported: the rows that the vectors delete would come back.
    """
    files = filter_rows(indexes, indexes["_INDEX_TYPE"] == DELETION_VECTORS_INDEX)
    if not files.height:
        return
    if not options.given.has(DELETION_VECTORS_MODIFIABLE) and not any(
        metadata.options(schema).deletion_vectors for schema in metadata.schemas()
    ):
        # Java also accepts the option from a session, and then reads the deleted rows when the option is missing.
        raise Unsupported(
            f"deletion vectors where no version of the schema has the option {DELETION_VECTORS_ENABLED}",
            where=metadata.where,
            hint=f"set {DELETION_VECTORS_ENABLED} to true by the program that wrote them",
        )
    if _locate_vectors(_read_ranges(files), live)[ENTRY].is_not_null().any():
        raise _make_mode_error(metadata, snapshot, "disabled", "rows that they mark as dead would come back")


def check_needs_no_merge(metadata: TableMetadata, snapshot: Snapshot, live: pl.DataFrame, visible: pl.Series) -> None:
    """Check that a snapshot is readable with deletion vectors; snapshots older than the option need a full compaction.

    Reads with vectors leave out level 0 and merge nothing. Rows of older snapshots would be missing or duplicated.

    Args:
        live: the live files of the snapshot.
        visible: a mask of the files on levels that are read.

    Raises `Unsupported`: the snapshot was made before vectors were enabled, and needs a merge.
    """
    then = Options(metadata.schema(snapshot.schema_id).options, metadata.where)
    if not then.get(DELETION_VECTORS_ENABLED) and not has_single_runs(live.filter(visible)):
        raise _make_mode_error(metadata, snapshot, "enabled", "rows that wait for a compaction would be missing")


def check_snapshot_numbers(metadata: TableMetadata, live: pl.DataFrame) -> None:
    """Check that the files of a table with ``sequence.snapshot-ordering`` have the numbers of their snapshots.

    Raises `Unsupported`: a file of a writer that does not know the option. Its rows have no order among the others.
    """
    if "_FILE_SOURCE" not in live.columns:
        return
    ranged = live["_MIN_SEQUENCE_NUMBER"] != live["_MAX_SEQUENCE_NUMBER"]
    source = live["_FILE_SOURCE"]
    wrong = live["_FILE_NAME"].filter(source.is_null() | (ranged & (source == FileSource.APPEND)))
    if len(wrong):
        raise Unsupported(
            f"the file {wrong[0]} without its snapshot's number, beside {SEQUENCE_SNAPSHOT_ORDERING} = true,",
            where=metadata.where,
            hint="write such tables only with versions that know the option, which must be set before the first write",
        )


def has_single_runs(placed: pl.DataFrame) -> bool:
    """Return whether the live files of every bucket form one sorted run above level 0."""
    level = pl.col("_LEVEL")
    runs = placed.group_by("_PARTITION", "_BUCKET").agg((level.min() > 0) & (level.n_unique() == 1))
    return bool(runs["_LEVEL"].all())


def _make_mode_error(metadata: TableMetadata, snapshot: Snapshot, changed: str, why: str) -> Unsupported:
    return Unsupported(
        f"a read of snapshot {snapshot.id}, of before deletion vectors were {changed},",
        where=metadata.where,
        hint=f"{why}; read a snapshot of since then, or make a branch of a tag of that time and read the branch; if it "
        f"is the newest one, set {DELETION_VECTORS_ENABLED} back, compact the table fully, and change it then",
    )


def build_deletion_refs(
    metadata: TableMetadata,
    schema: TableSchema,
    options: TableOptions,
    vectors: DeletionVectors | None,
    frame: pl.DataFrame,
) -> dict[int, DeletionRef]:
    """Return the deletion vector of each row of `frame` (column `VECTOR`) that has one, by row number."""
    if vectors is None:
        return {}
    numbers = frame[VECTOR].to_numpy()
    rows = np.flatnonzero(numbers >= 0)
    used = vectors.ranges[numbers[rows]]
    files, file_of = np.unique(used[INDEX_FILE].to_numpy(), return_inverse=True)
    paths = build_index_paths(metadata, schema, options, vectors.files[files]).to_list()
    refs = zip(file_of.tolist(), *(used[name].to_list() for name in ("f1", "f2", "_CARDINALITY")))
    return {row: DeletionRef(paths[file], *where) for row, (file, *where) in zip(rows.tolist(), refs)}


def _read_ranges(files: pl.DataFrame) -> pl.DataFrame:
    ranges = files[["_PARTITION", "_BUCKET", "_DELETIONS_VECTORS_RANGES"]].with_row_index(INDEX_FILE)
    return ranges.explode("_DELETIONS_VECTORS_RANGES", empty_as_null=False).unnest("_DELETIONS_VECTORS_RANGES")


def _locate_vectors(ranges: pl.DataFrame, live: pl.DataFrame) -> pl.DataFrame:
    """Return the vectors in the partitions and buckets of `live`; __entry is its file's row in `live`."""
    names = live[["_PARTITION", "_BUCKET", "_FILE_NAME"]].with_row_index(ENTRY)
    on = ["_PARTITION", "_BUCKET"]
    placed = ranges.join(names, left_on=[*on, "f0"], right_on=[*on, "_FILE_NAME"], how="left", maintain_order="left")
    # Other buckets, excluded by a partition filter, may have vectors too.
    return placed.join(names, on=on, how="semi", maintain_order="left") if placed[ENTRY].null_count() else placed


def _check_ranges(ranges: pl.DataFrame, live: pl.Series, where: str) -> None:
    if any(ranges[name].null_count() for name in ("f0", "f1", "f2")):
        raise CorruptFile(where, "a deletion vector without its file, offset or length")
    # File names are random: barring damage, they identify all vectors by themselves.
    if ranges["f0"].n_unique() < ranges.height and ranges[["_PARTITION", "_BUCKET", "f0"]].is_duplicated().any():
        raise Unsupported("two deletion vectors of one data file", where=where, hint=UNCHECKED_COMMITS)
    strays = ranges["f0"].filter(ranges[ENTRY].is_null())
    # A file whose name is damaged lacks its vector; in a table with many files, only files without vectors are
    # compared.
    others = live if len(live) <= MAX_COMPARED_NAMES else live.filter(~live.is_in(ranges["f0"].implode()))
    for stray in strays:
        if re.fullmatch(WRITTEN, stray) is None or any(
            _is_almost_equal(stray, name) for name in others[:MAX_COMPARED_NAMES]
        ):
            raise CorruptFile(where, f"a deletion vector of {stray}, which is not and never was a file of its bucket")


def _is_almost_equal(one: str, other: str) -> bool:
    """Return whether damage may have turned one name into the other, or moved its entry: file names are random.

    Counters in the names are disregarded: one writer's file names are alike, and the vectors of some may outlive them.
    """
    if one == other:
        return True
    stem, like = one.rpartition("-")[0], other.rpartition("-")[0]
    if stem == like:
        return False
    shared = sum(a == b for a, b in zip(stem, like))
    from difflib import SequenceMatcher

    return shared > ALIKE * len(stem) or SequenceMatcher(None, stem, like, autojunk=False).ratio() > ALIKE


def build_index_paths(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, files: pl.DataFrame
) -> pl.Series:
    """Return the path of each index file; `files` has columns of `decode_index_manifest`."""
    if options.index_in_data_dir:
        check_segments(files["_FILE_NAME"], metadata.where)
        return build_file_paths(metadata, schema, options, files)
    return pl.Series(
        [
            metadata.paths.index(name) if path is None else resolve_external_path(metadata, options, path)
            for name, path in zip(files["_FILE_NAME"], files["_EXTERNAL_PATH"])
        ],
        dtype=pl.String,
    )


def list_file_columns(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the columns of data files written with this schema, without ``_KEY_`` copies, which reads never need."""
    if not schema.primary_keys:
        return schema.fields
    return (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, *schema.fields)
