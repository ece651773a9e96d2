"""The live file entries of a snapshot: manifest lists to manifests to entries, resolved as columns.

Everything stays in Polars frames: reading, checking, resolving ADD against DELETE and pruning by partition are
expressions over whole manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.manifest import (
    ADD,
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
)
from morrow.engine.format.paths import check_segments
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.stats import ColumnStats
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.predicate import ALWAYS, Predicate
from morrow.engine.plan.stats_pruning import StatsFrame, keep_mask

MANIFEST_READERS = 4
"""Manifests read at once: decoding is native code that releases the interpreter lock."""

WORTH_THREADS = 1 << 20
"""Bytes of manifests below which starting threads costs more than it saves (on a local disk)."""

IDENTITY = ("_PARTITION", "_BUCKET", "_LEVEL", "_FILE_NAME")
"""With extra files and embedded index, what makes two entries speak of the same file."""


@dataclass(frozen=True)
class LiveEntries:
    """`frame`: one row per live file, columns of `decode_manifest`; the counts are for explain."""

    frame: pl.DataFrame
    manifests: int
    manifests_read: int
    files: int


def live_entries(
    metadata: TableMetadata,
    snapshot: Snapshot,
    schema: TableSchema,
    partition_predicate: Predicate = ALWAYS,
) -> LiveEntries:
    """Files of `snapshot` whose partition may satisfy `partition_predicate`.

    Raises:
        CorruptFile: metadata that contradicts itself (sizes, counts, duplicate files).
        FileMissing: a manifest is gone (the snapshot expired while it was read).
    """
    listed = manifests_of(metadata, snapshot)
    kept = listed.filter(_partitions_overlap(listed, schema, partition_predicate, metadata.where))
    frames = _manifests(metadata, kept)
    if not frames:
        return LiveEntries(_no_entries(), listed.height, 0, 0)
    entries = pl.concat(frames)
    if partition_predicate != ALWAYS:
        entries = entries.filter(_partition_matches(entries, schema, partition_predicate, metadata.where))
    if kept["_NUM_DELETED_FILES"].sum():
        entries = _resolved(entries)
    check_segments(entries["_FILE_NAME"], metadata.where)
    twice = entries.select("_PARTITION", "_BUCKET", "_FILE_NAME").is_duplicated()
    if twice.any():
        name = entries["_FILE_NAME"].filter(twice)[0]
        raise CorruptFile(metadata.where, f"the manifests of snapshot {snapshot.id} hold the file {name} twice")
    return LiveEntries(entries, listed.height, kept.height, entries.height)


def manifests_of(metadata: TableMetadata, snapshot: Snapshot) -> pl.DataFrame:
    """The manifests of a snapshot, base list before delta list: the order in which entries count."""
    lists = (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
    )
    return pl.concat([_manifest_list(metadata, name, size) for name, size in lists])


def index_entries(metadata: TableMetadata, snapshot: Snapshot) -> pl.DataFrame | None:
    """The index files of a snapshot, columns of `decode_index_manifest`; None when it has none."""
    if snapshot.index_manifest is None:
        return None
    path = metadata.paths.manifest(snapshot.index_manifest)
    frame = _cached(metadata, path, None, lambda data: decode_index_manifest(data, path))
    return frame.filter(pl.col("_KIND") == ADD)


def _manifest_list(metadata: TableMetadata, name: str, size: int | None) -> pl.DataFrame:
    path = metadata.paths.manifest(name)
    return _cached(metadata, path, size, lambda data: decode_manifest_list(data, path))


def _manifests(metadata: TableMetadata, kept: pl.DataFrame) -> list[pl.DataFrame]:
    rows = list(kept.iter_rows(named=True))
    if metadata.store.is_local and kept["_FILE_SIZE"].sum() < WORTH_THREADS:
        return [_manifest(metadata, row) for row in rows]
    with ThreadPoolExecutor(MANIFEST_READERS) as pool:
        return list(pool.map(lambda row: _manifest(metadata, row), rows))


def _manifest(metadata: TableMetadata, row: Mapping[str, object]) -> pl.DataFrame:
    path = metadata.paths.manifest(str(row["_FILE_NAME"]))

    def decode(data: bytes) -> pl.DataFrame:
        frame = decode_manifest(data, path)
        added = frame.filter(pl.col("_KIND") == ADD).height
        if (added, frame.height - added) != (row["_NUM_ADDED_FILES"], row["_NUM_DELETED_FILES"]):
            raise CorruptFile(path, "the counts of added and deleted files differ from those in the manifest list")
        return frame

    return _cached(metadata, path, int(str(row["_FILE_SIZE"])), decode)


def _cached(
    metadata: TableMetadata, path: str, size: int | None, decode: Callable[[bytes], pl.DataFrame]
) -> pl.DataFrame:
    def make() -> tuple[pl.DataFrame, int]:
        data = metadata.store.read(path)
        if size is not None and len(data) != size:
            raise CorruptFile(path, f"{len(data)} bytes long where its metadata says {size}")
        frame = decode(data)
        return frame, int(frame.estimated_size()) + len(path)

    frame = METADATA_CACHE.get_or_make((metadata.store.url(path), size), make)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _resolved(entries: pl.DataFrame) -> pl.DataFrame:
    """The last word on each file: kept when that is ADD."""
    identity = [
        *map(pl.col, IDENTITY),
        pl.col("_EXTRA_FILES").list.join("\0").alias("__extra"),
        pl.col("_EMBEDDED_FILE_INDEX").alias("__index"),
        pl.col("_EXTERNAL_PATH"),
    ]
    last = (
        entries.lazy()
        .select(*identity, "_KIND", pl.row_index("__row"))
        .unique([e.meta.output_name() for e in identity], keep="last", maintain_order=True)
        .filter(pl.col("_KIND") == ADD)
        .select("__row")
        .collect()
    )
    return entries[last["__row"]]


def _partitions_overlap(listed: pl.DataFrame, schema: TableSchema, predicate: Predicate, where: str) -> pl.Series:
    """Which manifests may hold a file of a matching partition, by their partition statistics."""
    if predicate == ALWAYS or not listed.height:
        return pl.repeat(True, listed.height, eager=True)
    types = [schema.by_name[name].type for name in schema.partition_keys]
    stats = listed["_PARTITION_STATS"].struct
    minima = decode_columns(stats.field("_MIN_VALUES"), types, where=where)
    maxima = decode_columns(stats.field("_MAX_VALUES"), types, where=where)
    nulls = stats.field("_NULL_COUNTS")
    columns = {
        # Null counts of a manifest count files, not rows; with unknown row counts only bounds can prune.
        name: ColumnStats(minima[i], maxima[i], nulls.list.get(i, null_on_oob=True).cast(pl.Int64))
        for i, name in enumerate(schema.partition_keys)
    }
    counts = (listed["_NUM_ADDED_FILES"] + listed["_NUM_DELETED_FILES"]).rename("files")
    return pl.Series(keep_mask(predicate, StatsFrame(counts, columns)))


def _partition_matches(entries: pl.DataFrame, schema: TableSchema, predicate: Predicate, where: str) -> pl.Series:
    """Which entries are of a matching partition: exact, since every row of a partition has its value."""
    partitions = entries["_PARTITION"].unique(maintain_order=True)
    types = [schema.by_name[name].type for name in schema.partition_keys]
    values = decode_columns(partitions, types, where=where)
    columns = {
        name: ColumnStats(value, value, value.is_null().cast(pl.Int64))
        for name, value in zip(schema.partition_keys, values)
    }
    ones = pl.repeat(1, len(partitions), dtype=pl.Int64, eager=True)
    kept = partitions.filter(pl.Series(keep_mask(predicate, StatsFrame(ones, columns))))
    return entries["_PARTITION"].is_in(kept.implode())


def _no_entries() -> pl.DataFrame:
    return pl.DataFrame(schema={**ENTRY_COLUMNS, **FILE_COLUMNS})
