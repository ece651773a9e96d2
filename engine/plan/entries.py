"""The live file entries of a snapshot: manifest lists, manifests and entries, resolved as columns.

Everything stays in Polars frames: reading, checking, resolving ADD against DELETE and pruning by partition are
expressions over whole manifests.

A commit appends its manifests to the list of the previous snapshot. So the live entries of a list's first manifests are
cached, and only the manifests after them are read and resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import UNCHECKED_COMMITS, CorruptFile, Unsupported
from morrow.engine.format.binary_row import decode_columns, read_arities
from morrow.engine.format.manifest_entries import ADD, DELETE, EMPTY_ROW, STATISTICS, ColumnStats, make_empty_frame
from morrow.engine.format.paths import check_segments
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import EXTRA, INDEX, ROW
from morrow.engine.plan.manifests import MIN_THREADED_BYTES, list_manifests, read_manifest_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata, estimate_frame_bytes
from morrow.engine.plan.predicate import ALWAYS, Predicate
from morrow.engine.plan.pruning import StatsFrame, mask_by_stats
from morrow.engine.polars_threads import MAX_SMALL_ROWS, deduplicate_values, select_columns

IDENTITY = ("_PARTITION", "_BUCKET", "_LEVEL", "_FILE_NAME")
"""Columns that identify the file of an entry, together with extra files and embedded index."""

RESOLVED = (*IDENTITY, "_EXTRA_FILES", "_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH", "_KIND", "_ROW_COUNT")
"""Columns that determine which files are live."""

MAX_CACHED_ENTRIES = 500_000
"""The limit of entries of a cached snapshot. Larger ones would evict each other."""

MIN_OUTLINE_BYTES = 4 << 20
"""The size of manifests from which their statistics are decoded only on request. A later request decodes them again."""

MAX_DECODED_ENTRIES = 100_000
"""The number of entries decoded at a time: columns that were not requested are held only for these."""


class Decoded(msgspec.Struct, frozen=True):
    """Entries of manifests that belong to matching partitions, in their order.

    `rows` counts the rows of the files that all entries of the manifests add, minus the rows of files that they delete.
    """

    frame: pl.DataFrame
    rows: int


Elsewhere: TypeAlias = Callable[[pl.DataFrame], Decoded | None]
"""Decodes manifests of a list in another process; returns None if this process has to decode them."""


class LiveEntries(msgspec.Struct, frozen=True):
    """The live files of a snapshot: `frame` has one row per file. The counts are for explain.

    The columns are as in `decode_manifest`, or the requested ones.
    """

    frame: pl.DataFrame
    manifests: int
    manifests_read: int
    files: int


def read_live_entries(
    metadata: TableMetadata,
    snapshot: Snapshot,
    schema: TableSchema,
    partition_predicate: Predicate = ALWAYS,
    columns: Collection[str] | None = None,
    elsewhere: Elsewhere | None = None,
) -> LiveEntries:
    """Return the files of `snapshot` whose partition may satisfy `partition_predicate`.

    The frame has at least these columns of entries; without `columns`, all of them. If the entries come from
    `elsewhere`, the frame has the columns that were chosen there.

    Raises:
        CorruptFile: metadata that contradicts itself (sizes, counts). Unsupported: files added or deleted twice.
        FileMissing: a manifest is gone (the snapshot expired while it was read).
    """
    listed = list_manifests(metadata, snapshot)
    kept = listed
    if partition_predicate != ALWAYS:
        overlapping = mask_manifests(listed, schema, partition_predicate, metadata.where)
        kept = listed if overlapping.all() else listed.filter(overlapping)
    if not kept.height:
        return LiveEntries(make_empty_frame(), listed.height, 0, 0)

    def entries_of(manifests: pl.DataFrame) -> pl.DataFrame:
        decoded = None if elsewhere is None else elsewhere(manifests)
        if decoded is None:
            decoded = _decode_here(metadata, manifests, schema, partition_predicate, columns)
        if manifests is listed:
            _check_total(decoded.rows, metadata.where, snapshot)
        return decoded.frame

    entries = entries_of(kept)
    if _count_deletes(entries):
        live = resolve_entries(entries)
        if not _is_balanced(entries, live) and kept is not listed:
            # Statistics omit NaN values of entries, so the manifest that adds a file may be left out although the one
            # that deletes it is read.
            kept = listed
            entries = entries_of(kept)
            live = resolve_entries(entries)
        _check_balanced(entries, live, metadata.where, snapshot)
        entries = live
    check_segments(entries["_FILE_NAME"], metadata.where)
    _check_unique(entries, metadata.where, snapshot)
    _check_partitions(entries, schema, metadata.where)
    if columns is not None and partition_predicate == ALWAYS:
        cache_entries(metadata, kept, entries)
    return LiveEntries(entries, listed.height, kept.height, entries.height)


def list_partitions(metadata: TableMetadata, snapshot: Snapshot | None, schema: TableSchema) -> frozenset[bytes]:
    """Return the partitions that have files, in stored form. Raises as `read_live_entries`."""
    if snapshot is None:
        return frozenset()
    live = read_live_entries(metadata, snapshot, schema, columns=("_PARTITION",))
    return frozenset(live.frame["_PARTITION"].unique().to_list())


def count_rows(entries: pl.DataFrame) -> int:
    """Return the rows of the files that entries add, minus the rows of files that they delete."""
    rows = entries["_ROW_COUNT"]
    return int(rows.sum()) - 2 * int(rows.filter(entries["_KIND"] == DELETE).sum())


def _check_total(found: int, where: str, snapshot: Snapshot) -> None:
    """Check the rows of all files, minus the rows of removed files, against the snapshot's count, if it has one.

    Writers carry that count from snapshot to snapshot. It is the only metadata that reveals a lost entry.
    """
    expected = snapshot.total_record_count
    if expected is not None and found != expected:
        raise Unsupported(
            f"snapshot {snapshot.id}, whose manifests name files with {found} rows where it says {expected},",
            where=where,
            hint=UNCHECKED_COMMITS,
        )


def _decode_here(
    metadata: TableMetadata,
    manifests: pl.DataFrame,
    schema: TableSchema,
    partition_predicate: Predicate,
    columns: Collection[str] | None,
) -> Decoded:
    """Return the entries of manifests; for manifests that were read together before, only the live entries."""
    rechunk = manifests["_FILE_SIZE"].sum() < MIN_THREADED_BYTES
    known, count = (
        find_cached_entries(metadata, manifests, _select_narrow(columns)) if columns is not None else (None, 0)
    )
    parts = [] if known is None else [known]
    if count < manifests.height:
        parts += _decode_entries(metadata, manifests[count:], columns)
    entries = parts[0] if len(parts) == 1 else pl.concat(parts, rechunk=rechunk)
    return Decoded(filter_partitions(entries, schema, partition_predicate, metadata.where), count_rows(entries))


def filter_partitions(entries: pl.DataFrame, schema: TableSchema, predicate: Predicate, where: str) -> pl.DataFrame:
    """Return the entries of matching partitions."""
    return entries if predicate == ALWAYS else entries.filter(mask_partitions(entries, schema, predicate, where))


def _decode_entries(
    metadata: TableMetadata, manifests: pl.DataFrame, columns: Collection[str] | None
) -> list[pl.DataFrame]:
    """Return the entries of manifests, with the requested columns and the columns that determine which are live."""
    if columns is None:
        return read_manifest_entries(metadata, manifests)
    # Statistics are most of the metadata, and nested: do not concatenate them; drop them if there are very many.
    narrow = _select_narrow(columns)
    outlines = int(manifests["_FILE_SIZE"].sum()) >= MIN_OUTLINE_BYTES and {*STATISTICS}.isdisjoint(columns)
    if count_listed_entries(manifests) <= MAX_CACHED_ENTRIES:
        return [select_columns(each, narrow) for each in read_manifest_entries(metadata, manifests, outlines=outlines)]
    return [
        each.select(narrow)
        for piece in split_manifests(manifests)
        for each in read_manifest_entries(metadata, piece, caches=False, outlines=outlines)
    ]


def count_listed_entries(manifests: pl.DataFrame) -> int:
    """Return the number of entries of these manifests according to the manifest list."""
    return int(manifests["_NUM_ADDED_FILES"].sum()) + int(manifests["_NUM_DELETED_FILES"].sum())


def split_manifests(manifests: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the manifests in order, in groups with about `MAX_DECODED_ENTRIES` entries."""
    named = (manifests["_NUM_ADDED_FILES"] + manifests["_NUM_DELETED_FILES"]).cum_sum()
    numbered = manifests.with_columns((named // MAX_DECODED_ENTRIES).alias(ROW))
    yield from numbered.partition_by(ROW, include_key=False, maintain_order=True)


def _select_narrow(columns: Collection[str]) -> list[str]:
    return sorted({*RESOLVED, *columns})


def _count_deletes(entries: pl.DataFrame) -> int:
    return int((entries["_KIND"] == DELETE).sum())


def _is_balanced(entries: pl.DataFrame, live: pl.DataFrame) -> bool:
    """Return whether every DELETE removes one file that was added."""
    return live.height == entries.height - 2 * _count_deletes(entries)


def _check_balanced(entries: pl.DataFrame, live: pl.DataFrame, where: str, snapshot: Snapshot) -> None:
    if not _is_balanced(entries, live):
        deletes = _count_deletes(entries)
        raise Unsupported(
            f"snapshot {snapshot.id}, whose manifests add {entries.height - deletes} files and delete {deletes}, which "
            f"leaves {live.height}: a file is deleted that is not there, or added twice, which",
            where=where,
            hint=UNCHECKED_COMMITS,
        )


def _check_partitions(entries: pl.DataFrame, schema: TableSchema, where: str) -> None:
    """Check that each partition has a value for each partition key, also in tables without partition keys."""
    stored = deduplicate_values(entries["_PARTITION"])
    if not schema.partition_keys and stored.len() == 1 and stored[0] == EMPTY_ROW:
        return
    found = read_arities(stored, where=where)
    if (found != len(schema.partition_keys)).any():
        raise CorruptFile(where, f"the partition of a file does not have {len(schema.partition_keys)} values")


def _check_unique(entries: pl.DataFrame, where: str, snapshot: Snapshot) -> None:
    names = entries["_FILE_NAME"]
    if names.n_unique() == entries.height:  # usual, since names are random; and fast to check
        return
    twice = entries.select("_PARTITION", "_BUCKET", "_FILE_NAME").is_duplicated()
    if twice.any():
        raise Unsupported(
            f"snapshot {snapshot.id}, whose manifests add the file {names.filter(twice)[0]} twice, which",
            where=where,
            hint=UNCHECKED_COMMITS,
        )


def resolve_entries(entries: pl.DataFrame) -> pl.DataFrame:
    """Return the last entry of each file if it is an ADD."""
    return entries[_find_last_of_few(entries) if entries.height <= MAX_SMALL_ROWS else _find_last(entries)]


def _find_last_of_few(entries: pl.DataFrame) -> npt.NDArray[np.intp]:
    """Return the rows of `resolve_entries` without the overhead of a query, for few entries."""
    names = *IDENTITY, "_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH"
    extra = (None if each is None else tuple(each) for each in entries["_EXTRA_FILES"].to_list())
    last = dict(zip(zip(*(entries[name].to_list() for name in names), extra), range(entries.height)))
    rows: npt.NDArray[np.intp] = np.sort(np.fromiter(last.values(), np.intp, len(last)))
    return rows.compress(entries["_KIND"].to_numpy()[rows] == ADD)


def _find_last(entries: pl.DataFrame) -> pl.Series:
    """Return the rows of `resolve_entries`."""
    identity = [
        *map(pl.col, IDENTITY),
        pl.col("_EXTRA_FILES").list.join("\0").alias(EXTRA),
        pl.col("_EMBEDDED_FILE_INDEX").alias(INDEX),
        pl.col("_EXTERNAL_PATH"),
    ]
    last = (
        entries.lazy()
        .select(*identity, "_KIND", pl.row_index(ROW))
        .unique([e.meta.output_name() for e in identity], keep="last", maintain_order=True)
        .filter(pl.col("_KIND") == ADD)
        .select(ROW)
        .collect()
    )
    return last[ROW]


def mask_manifests(listed: pl.DataFrame, schema: TableSchema, predicate: Predicate, where: str) -> pl.Series:
    """Return which manifests may hold a file of a matching partition, by their partition statistics."""
    if not listed.height:
        return pl.Series([], dtype=pl.Boolean)
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
    return pl.Series(mask_by_stats(predicate, StatsFrame(counts, columns)))


def mask_partitions(entries: pl.DataFrame, schema: TableSchema, predicate: Predicate, where: str) -> pl.Series:
    """Return which entries belong to a matching partition: exact, since all rows of a partition share its values."""
    partitions = entries["_PARTITION"].unique(maintain_order=True)
    types = [schema.by_name[name].type for name in schema.partition_keys]
    values = decode_columns(partitions, types, where=where)
    columns = {
        name: ColumnStats(value, value, value.is_null().cast(pl.Int64))
        for name, value in zip(schema.partition_keys, values)
    }
    ones = pl.repeat(1, len(partitions), dtype=pl.Int64, eager=True)
    kept = partitions.filter(pl.Series(mask_by_stats(predicate, StatsFrame(ones, columns))))
    return entries["_PARTITION"].is_in(kept.implode())


MAX_KNOWN_ENTRIES = 1 << 12
"""The limit of entries in manifests whose live entries are cached. With more entries, other work takes longer."""
IDENTITY_COLUMNS = "_FILE_NAME", "_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES"
"""Columns of manifest lists that identify cached manifests. If a list differs, its manifests are read normally."""
Manifest: TypeAlias = tuple[object, ...]
MAX_NEW_MANIFESTS = 4
"""The limit of uncached manifests at the end of a list."""


def find_cached_entries(
    metadata: TableMetadata, manifests: pl.DataFrame, columns: Sequence[str]
) -> tuple[pl.DataFrame | None, int]:
    """Return the cached live entries of the longest known beginning of the list, and its number of manifests."""
    if manifests["_NUM_ADDED_FILES"].sum() > MAX_KNOWN_ENTRIES:
        return None, 0
    names = _identify_manifests(manifests)
    for count in range(len(names), max(len(names) - MAX_NEW_MANIFESTS, 0), -1):
        found = METADATA_CACHE.get(_make_cache_key(metadata, names[:count], columns))
        if isinstance(found, pl.DataFrame):
            return found, count
    return None, 0


def cache_entries(metadata: TableMetadata, manifests: pl.DataFrame, live: pl.DataFrame) -> None:
    """Cache the live entries of all these manifests, which have been checked."""
    if manifests["_NUM_ADDED_FILES"].sum() > MAX_KNOWN_ENTRIES:
        return
    key = _make_cache_key(metadata, _identify_manifests(manifests), live.columns)
    last = manifests["_FILE_NAME"][-1] if manifests.height else None
    METADATA_CACHE.put(key, live, estimate_frame_bytes(live) + 128 * manifests.height, of=last)


def _identify_manifests(manifests: pl.DataFrame) -> tuple[Manifest, ...]:
    return tuple(zip(*(manifests[name].to_list() for name in IDENTITY_COLUMNS)))


def _make_cache_key(metadata: TableMetadata, names: tuple[Manifest, ...], columns: Sequence[str]) -> Hashable:
    return "live entries", metadata.store.url(metadata.root), names, tuple(columns)
