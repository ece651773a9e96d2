"""The assignment of deletion vectors to live files, by a join of a snapshot's index manifest with its entries."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import polars as pl

from morrow.engine.errors import UNCHECKED_COMMITS, CorruptFile, Unsupported
from morrow.engine.format.manifest_entries import DELETION_VECTORS_INDEX
from morrow.engine.format.paths import check_segments
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import ENTRY, INDEX_FILE, VECTOR
from morrow.engine.options import TableOptions
from morrow.engine.options.declarations import Options
from morrow.engine.options.declared.merging import DELETION_VECTORS_ENABLED, DELETION_VECTORS_MODIFIABLE
from morrow.engine.plan.data_files import build_file_paths, resolve_external_path
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import DeletionRef
from morrow.engine.polars_threads import filter_rows

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

    Raises:
        Unsupported: the snapshot was made before vectors were enabled, and needs a merge.
    """
    then = Options(metadata.schema(snapshot.schema_id).options, metadata.where)
    if not then.get(DELETION_VECTORS_ENABLED) and not has_single_runs(live.filter(visible)):
        raise _make_mode_error(metadata, snapshot, "enabled", "rows that wait for a compaction would be missing")


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
            raise CorruptFile(where, f"a deletion vector of {stray}, which is no file of its bucket and never was one")


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
