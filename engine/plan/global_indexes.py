"""Global indexes of tables with row ids: the row ids that may match a filter.

An index covers ranges of row ids. Ids outside of the ranges always may match, so a read returns the same rows with and
without an index. (Java and pypaimon leave out rows that no index covers, unless ``scalar-index.search-mode`` says
otherwise.) An index is also not trusted for rows whose column was written after the snapshot that it was built from.

A condition on an indexed column is compared with the first and last key of each index file, of each block of the file,
and with each key of the blocks that are left. Conditions that most rows meet, such as ``!=``, are not looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import CorruptFile, UnsafePath, Unsupported
from morrow.engine.format.file_formats import is_dedicated_file
from morrow.engine.format.file_index.data_output import Ragged
from morrow.engine.format.manifest_entries import ColumnStats
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.sorted_indexes import (
    BITMAP,
    SORTED_INDEXES,
    BitmapFile,
    Block,
    BTreeFile,
    KeyBounds,
    decode_keys,
    encode_keys,
    is_indexable,
    open_index_file,
)
from morrow.engine.format.types import DataField, DataType, has_same_values
from morrow.engine.options import TableOptions
from morrow.engine.options.declared.features import GLOBAL_INDEX_COLUMN_UPDATE_ACTION
from morrow.engine.plan.data_files import resolve_external_path
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import And, Leaf, Op, Predicate, Value, find_columns
from morrow.engine.plan.pruning import StatsFrame, mask_by_stats
from morrow.engine.plan.scan_plan import DataFile, PruneStep, ScanPlan, Section, SectionKind
from morrow.engine.plan.sections import find_schema_ids, mask_holders
from morrow.engine.polars_threads import open_threads
from morrow.engine.structs import replace
from morrow.engine.units import format_count

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Ranges: TypeAlias = Ints
"""Ranges of row ids, ascending and disjoint: an array of n x 2, the first id and the id after the last one."""

MAX_ROW_ID = 2**63 - 1
MAX_SEARCHED_BYTES = 32 << 20
"""Maximum bytes of an index that one condition reads. Beyond it, the condition is not looked up.

A condition that reads more matches many rows, and the index saves little. The row ids take 8 times as much memory.
"""
INDEX_THREADS = 4
SOURCE_MAGIC, SOURCE_VERSION = 0x44454958, 1
LOOKED_UP = frozenset({Op.EQ, Op.IN, Op.LT, Op.LE, Op.GT, Op.GE, Op.STARTS_WITH, Op.IS_NULL, Op.IS_NOT_NULL})
EVERYTHING: Ranges = np.array([[0, MAX_ROW_ID]], np.int64)
NOTHING: Ranges = np.zeros((0, 2), np.int64)


class IndexPart(msgspec.Struct, frozen=True):
    """An index file of rows [`first`, `stop`); several files may cover the same rows.

    `scanned` is the id of the snapshot that it was built from, None if unknown.
    """

    index_type: str
    field_id: int
    path: str
    size: int
    first: int
    stop: int
    meta: bytes | None
    scanned: int | None


def serialize_source(snapshot_id: int) -> bytes:
    """Return the metadata about the snapshot that an index is built from."""
    return SOURCE_MAGIC.to_bytes(4) + SOURCE_VERSION.to_bytes(4) + snapshot_id.to_bytes(8)


def _parse_source(data: bytes | None) -> int | None:
    head = SOURCE_MAGIC.to_bytes(4) + SOURCE_VERSION.to_bytes(4)
    return int.from_bytes(data[8:]) if data and data[:8] == head and len(data) == len(head) + 8 else None


def list_index_parts(
    metadata: TableMetadata, options: TableOptions, snapshot: Snapshot, types: Sequence[str] = SORTED_INDEXES
) -> dict[bytes, list[IndexPart]]:
    """Return the files of indexes of these types on one column, by partition.

    Files outside of the folders that the table may use are left out. So are bitmap indexes of Paimon 1.4: they lack
    metadata, since they have the format of data file indexes. Raises as `read_index_entries`.
    """
    entries = read_index_entries(metadata, snapshot)
    found: dict[bytes, list[IndexPart]] = {}
    if entries is None:
        return found
    rows = pl.col("_GLOBAL_INDEX").struct
    several = rows.field("_EXTRA_FIELD_IDS").list.len().fill_null(0) > 0
    old = (pl.col("_INDEX_TYPE") == BITMAP) & rows.field("_INDEX_META").is_null()
    own = entries.filter(pl.col("_GLOBAL_INDEX").is_not_null(), pl.col("_INDEX_TYPE").is_in(types), ~several, ~old)
    for entry in own.iter_rows(named=True):
        about, name, outside = entry["_GLOBAL_INDEX"], entry["_FILE_NAME"], entry["_EXTERNAL_PATH"]
        try:
            path = metadata.paths.index(name) if outside is None else resolve_external_path(metadata, options, outside)
        except (UnsafePath, Unsupported):
            continue
        first, last = about["_ROW_RANGE_START"], about["_ROW_RANGE_END"]
        if not 0 <= first <= last:
            raise CorruptFile(path, f"the index is about the row ids {first} to {last}")
        part = IndexPart(
            index_type=entry["_INDEX_TYPE"],
            field_id=about["_INDEX_FIELD_ID"],
            path=path,
            size=entry["_FILE_SIZE"],
            first=first,
            stop=last + 1,
            meta=about["_INDEX_META"],
            scanned=_parse_source(about["_SOURCE_META"]),
        )
        found.setdefault(entry["_PARTITION"], []).append(part)
    return found


class IndexSearch(msgspec.Struct, frozen=True):
    """The row ids that may match, by partition; other partitions have no index. `used` are the indexes, for explain."""

    ranges: Mapping[bytes, Ranges]
    used: tuple[str, ...]

    def mask_files(self, frame: pl.DataFrame) -> pl.Series:
        """Mask entries that may hold a matching row; files without row ids always may."""
        keep = np.ones(frame.height, np.bool_)
        first = frame["_FIRST_ROW_ID"].fill_null(-1).to_numpy()
        stop = first + frame["_ROW_COUNT"].to_numpy()
        for partition, ranges in self.ranges.items():
            same = frame.select(pl.col("_PARTITION") == pl.lit(partition, pl.Binary)).to_series()
            own = same.to_numpy() & (first >= 0)
            keep[own] = _find_overlaps(ranges, first[own], stop[own])
        return pl.Series(keep)

    def narrow_plan(self, plan: ScanPlan, by: str = "global index") -> ScanPlan:
        """Return the plan with only the ranges of rows that may match; a section becomes one for each range.

        `by`: the index or search, for explain.
        """
        sections = tuple(part for section in plan.sections for part in _divide_section(section, self))
        before, after = (sum(map(_count_read_rows, each)) for each in (plan.sections, sections))
        step = PruneStep(f"rows by {by} ({format_count(len(sections), 'range')})", after, before)
        return replace(plan, sections=sections, steps=(*plan.steps, step))


def search_indexes(
    metadata: TableMetadata,
    schema: TableSchema,
    options: TableOptions,
    snapshot: Snapshot,
    predicate: Predicate,
    frame: pl.DataFrame,
) -> IndexSearch | None:
    """Look up a filter in the indexes of a snapshot; return None if no index decides anything.

    `frame`: the live entries of the matching partitions.

    Raises `CorruptFile`, `FileMissing`, `Unsupported`, `StorageError`: an index file cannot be read.
    """
    columns = find_columns(predicate)
    if not options.global_index_enabled or schema.primary_keys or not any(name in schema.by_name for name in columns):
        return None
    partitions = set(frame["_PARTITION"].unique().to_list())
    parts = {
        partition: own
        for partition, own in list_index_parts(metadata, options, snapshot).items()
        if partition in partitions
    }
    fields = [schema.by_name[name] for name in sorted(columns) if name in schema.by_name]
    wanted = {field.id for field in fields if _is_searchable(metadata, schema, field, frame)}
    used: dict[str, None] = {}
    ranges: dict[bytes, Ranges] = {}
    for partition, own in parts.items():
        files = frame.filter(pl.col("_PARTITION") == pl.lit(partition, pl.Binary))
        search = _Search(metadata, schema, options, [part for part in own if part.field_id in wanted], files, {})
        found = search.evaluate(predicate)
        if found is not None:
            ranges[partition] = found
        used |= search.used
    return IndexSearch(ranges, tuple(used)) if ranges else None


def _is_searchable(metadata: TableMetadata, schema: TableSchema, field: DataField, frame: pl.DataFrame) -> bool:
    """Return whether the column always had keys of its current type, since the oldest file was written."""
    return is_indexable(field.type) and _has_kept_type(metadata, schema, field, frame)


def _has_kept_type(metadata: TableMetadata, schema: TableSchema, field: DataField, frame: pl.DataFrame) -> bool:
    """Return whether the column had values of its current type in all schemas since the oldest of these files."""
    first = min(find_schema_ids(frame), default=schema.id)
    ids = [number for number in metadata.schema_ids() if first <= number] if first != schema.id else []
    types = (old.type for number in ids for old in metadata.schema(number).fields if old.id == field.id)
    return all(has_same_values(old, field.type) for old in types)


class _Search(msgspec.Struct, frozen=True):
    """A search in the indexes of one partition."""

    metadata: TableMetadata
    schema: TableSchema
    options: TableOptions
    parts: Sequence[IndexPart]
    files: pl.DataFrame
    used: dict[str, None]

    def evaluate(self, predicate: Predicate) -> Ranges | None:
        """Return the row ids that may match; None for all."""
        if isinstance(predicate, Leaf):
            return self._look_up(predicate)
        found = [self.evaluate(child) for child in predicate.children]
        known = [ranges for ranges in found if ranges is not None]
        if isinstance(predicate, And):
            return combine_ranges(known, len(known)) if known else None
        return combine_ranges(known, 1) if len(known) == len(found) else None

    def _look_up(self, leaf: Leaf) -> Ranges | None:
        field = self.schema.by_name.get(leaf.column)
        if field is None or leaf.op not in LOOKED_UP:
            return None
        best: Ranges = NOTHING
        chosen: list[IndexPart] = []
        for kind in SORTED_INDEXES:
            parts = [part for part in self.parts if part.field_id == field.id and part.index_type == kind]
            covered = self._find_covered(field, parts)
            if _count_ids(covered) > _count_ids(best):
                best, chosen = covered, parts
        if not len(best):
            return None
        rows = _find_rows(self.metadata, chosen, leaf, field.type)
        if rows is None:
            return None
        self.used[f"{chosen[0].index_type} of {field.name}"] = None
        return combine_ranges([to_ranges(rows), invert_ranges(best)], 1)

    def _find_covered(self, field: DataField, parts: Sequence[IndexPart]) -> Ranges:
        """Return the row ids for which these index files can be trusted."""
        if not parts:
            return NOTHING
        found = []
        for scanned in {part.scanned for part in parts}:
            about = np.array([[part.first, part.stop] for part in parts if part.scanned == scanned], np.int64)
            fresh = _find_trusted(self.metadata, self.options, field.id, self.files, scanned)
            found.append(combine_ranges([combine_ranges([about], 1), fresh], 2))
        return combine_ranges(found, 1)


def _find_trusted(
    metadata: TableMetadata, options: TableOptions, field_id: int, files: pl.DataFrame, scanned: int | None
) -> Ranges:
    """Return the row ids for which an index built from this snapshot can be trusted; None for an unknown snapshot."""
    if scanned is not None:
        return find_fresh_ranges(metadata, field_id, files, scanned)
    return NOTHING if options.given.get(GLOBAL_INDEX_COLUMN_UPDATE_ACTION) == "ignore" else EVERYTHING


class IndexShare(msgspec.Struct, frozen=True):
    """An index file, and the row ids that a search takes from it."""

    part: IndexPart
    ranges: Ranges

    @property
    def is_whole(self) -> bool:
        """Whether these are all row ids of the file."""
        return bool(np.array_equal(self.ranges, [[self.part.first, self.part.stop]]))


def share_rows(
    metadata: TableMetadata,
    schema: TableSchema,
    options: TableOptions,
    snapshot: Snapshot,
    field: DataField,
    types: Sequence[str],
) -> dict[bytes, list[IndexShare]]:
    """Divide the row ids of live files among the index files of a column, by partition.

    Each row id is in one file at most, whose snapshot has its newest value. Other row ids, and rows without an id, must
    be read. Raises as `list_index_parts` and `read_live_entries`.
    """
    if not options.global_index_enabled or not options.row_tracking or schema.primary_keys:
        return {}
    parts = list_index_parts(metadata, options, snapshot, types)
    parts = {partition: [part for part in own if part.field_id == field.id] for partition, own in parts.items()}
    if not any(parts.values()):
        return {}
    files = read_live_entries(metadata, snapshot, schema).frame
    if not _has_kept_type(metadata, schema, field, files):
        return {}
    found: dict[bytes, list[IndexShare]] = {}
    for partition, own in parts.items():
        held = files.filter(pl.col("_PARTITION") == pl.lit(partition, pl.Binary))
        left = list_row_ids(held)
        for part in sorted(own, key=lambda part: -(part.scanned or 0)):
            trusted = _find_trusted(metadata, options, field.id, held, part.scanned)
            ranges = combine_ranges([np.array([[part.first, part.stop]], np.int64), trusted, left], 3)
            left = combine_ranges([left, invert_ranges(ranges)], 2)
            if len(ranges):
                found.setdefault(partition, []).append(IndexShare(part, ranges))
    return found


def list_row_ids(files: pl.DataFrame) -> Ranges:
    """Return the row ids of the entries of data files, without files of blobs or vectors."""
    own = files.filter(pl.Series([not is_dedicated_file(name) for name in files["_FILE_NAME"]], dtype=pl.Boolean))
    own = own.filter(pl.col("_FIRST_ROW_ID").is_not_null(), pl.col("_ROW_COUNT") > 0)
    first = own["_FIRST_ROW_ID"].to_numpy()
    return combine_ranges([np.stack([first, first + own["_ROW_COUNT"].to_numpy()], axis=1)], 1)


def find_fresh_ranges(metadata: TableMetadata, field_id: int, files: pl.DataFrame, scanned: int) -> Ranges:
    """Return the row ids whose column was not written after this snapshot; `files` are the live entries."""
    held = files.filter(mask_holders(metadata, field_id, files))
    held = held.filter(pl.col("_FIRST_ROW_ID").is_not_null(), pl.col("_MAX_SEQUENCE_NUMBER") > scanned)
    first = held["_FIRST_ROW_ID"].to_numpy()
    return invert_ranges(combine_ranges([np.stack([first, first + held["_ROW_COUNT"].to_numpy()], axis=1)], 1))


def _find_rows(metadata: TableMetadata, parts: Sequence[IndexPart], leaf: Leaf, kind: DataType) -> Ints | None:
    """Return the row ids that may match; None if too much of the index would be read."""

    def find(part: IndexPart) -> Ints | None:
        return _find_part_rows(metadata, part, leaf, kind)

    if leaf.op is Op.IS_NOT_NULL:
        nulls = _find_rows(metadata, parts, Leaf(leaf.column, Op.IS_NULL), kind)
        assert nulls is not None
        about = combine_ranges([np.array([[part.first, part.stop] for part in parts], np.int64)], 1)
        rows = np.concatenate([np.arange(first, stop) for first, stop in about.tolist()])
        return np.setdiff1d(rows, nulls, assume_unique=False)
    with open_threads(INDEX_THREADS) as pool:
        found = list(pool.map(find, parts))
    known = [rows for rows in found if rows is not None]
    return np.concatenate(known) if len(known) == len(found) else None


def _find_part_rows(metadata: TableMetadata, part: IndexPart, leaf: Leaf, kind: DataType) -> Ints | None:
    bounds = KeyBounds.parse(part.meta, part.path)
    if leaf.op is Op.IS_NULL:
        if not bounds.has_nulls:
            return np.zeros(0, np.int64)
        file = open_index_file(part.index_type, metadata.store, part.path, part.size, part.stop - part.first)
        return file.read_nulls() + part.first
    if bounds.first is None or bounds.last is None:
        return np.zeros(0, np.int64)
    low, high = (decode_keys(_to_ragged([key]), kind, part.path) for key in (bounds.first, bounds.last))
    if not _mask_keys(leaf, low, high)[0]:
        return np.zeros(0, np.int64)
    file = open_index_file(part.index_type, metadata.store, part.path, part.size, part.stop - part.first)
    if isinstance(file, BTreeFile):
        blocks = _choose_blocks(file, leaf, low, kind)
    else:
        blocks = _choose_dictionaries(file, leaf, kind)
    if sum(block.size for block in blocks) > MAX_SEARCHED_BYTES:
        return None
    rows: list[Ints] = []
    budget = MAX_SEARCHED_BYTES
    for entries in file.read_entries(blocks):
        keys = decode_keys(entries.keys, kind, part.path)
        matching = _mask_keys(leaf, keys, keys)
        budget -= sum(place.size for place, chosen in zip(entries.places, matching.tolist()) if chosen)
        if budget < 0:
            return None
        if matching.any():
            rows.append(file.read_rows(entries, matching))
    return np.concatenate([np.zeros(0, np.int64), *rows]) + part.first


def _choose_blocks(file: BTreeFile, leaf: Leaf, low: pl.Series, kind: DataType) -> list[Block]:
    """Return the blocks of a btree file that may have matching keys, by the last keys of the blocks."""
    last = decode_keys(file.last_keys, kind, file.path)
    first = pl.concat([low, last[:-1]])
    return [block for block, keep in zip(file.blocks, _mask_keys(leaf, first, last).tolist()) if keep]


def _choose_dictionaries(file: BitmapFile, leaf: Leaf, kind: DataType) -> list[Block]:
    """Return the blocks of a bitmap file that may have matching keys; they are in the order of the keys' bytes."""
    dtype = decode_keys(_to_ragged([]), kind, file.path).dtype
    if leaf.op not in (Op.EQ, Op.IN) or dtype.is_float() or not leaf.literals:
        return file.blocks
    if any(isinstance(value, np.datetime64) for value in leaf.literals):
        return file.blocks
    return file.find_blocks(encode_keys(pl.Series(leaf.literals, dtype=dtype), kind))


def _mask_keys(leaf: Leaf, low: pl.Series, high: pl.Series) -> Mask:
    """Return whether keys from `low` to `high` may match, for each pair."""
    if low.dtype.is_float() and leaf.op in (Op.GT, Op.GE):
        return _mask_greater(leaf.literals[0], high)
    counts = pl.repeat(1, len(low), dtype=pl.Int64, eager=True)
    known = ColumnStats(minimum=low, maximum=high, null_count=pl.repeat(0, len(low), dtype=pl.Int64, eager=True))
    return mask_by_stats(leaf, StatsFrame(counts, {leaf.column: known}))


def _mask_greater(value: Value, high: pl.Series) -> Mask:
    """Return whether the greatest key may be above the value: unlike the bounds of files, keys may be NaN."""
    return ((high >= pl.Series([value], dtype=high.dtype)) | high.is_nan()).to_numpy()


def _to_ragged(keys: Sequence[bytes]) -> Ragged:
    return Ragged(np.frombuffer(b"".join(keys), np.uint8), np.array([len(key) for key in keys], np.int64))


# --- ranges ---


def combine_ranges(parts: Sequence[Ranges], least: int) -> Ranges:
    """Return the ids that are in at least this number of parts; ranges of one part may overlap only for a union (1)."""
    edges = np.concatenate([NOTHING, *parts])
    places, of = np.unique(edges.reshape(-1), return_inverse=True)
    depth = np.zeros(len(places), np.int64)
    np.add.at(depth, of.reshape(-1), np.tile([1, -1], len(edges)))
    inside = np.cumsum(depth) >= least
    changes = np.flatnonzero(np.diff(inside, prepend=False))
    return places[changes].reshape(-1, 2)


def invert_ranges(ranges: Ranges) -> Ranges:
    edges = np.concatenate([[0], ranges.reshape(-1), [MAX_ROW_ID]]).reshape(-1, 2)
    return edges[edges[:, 0] < edges[:, 1]]


def divide_ranges(ranges: Ranges, most: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges, in pieces of at most this number of ids."""
    for first, stop in ranges.tolist():
        yield from ((low, min(low + most, stop)) for low in range(first, stop, most))


def to_ranges(rows: Ints) -> Ranges:
    """Return row ids, in any order, as ranges."""
    rows = np.unique(rows)
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    return np.stack([rows[starts], np.append(rows[starts[1:] - 1], rows[-1:]) + 1], axis=1) if len(rows) else NOTHING


def _count_ids(ranges: Ranges) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def mask_ids(ids: Ints, ranges: Ranges) -> Mask:
    """Return whether each row id is in a range."""
    return _find_overlaps(ranges, ids, ids + 1)


def _find_overlaps(ranges: Ranges, first: Ints, stop: Ints) -> Mask:
    """Return whether each of these spans of ids meets a range."""
    if not len(ranges):
        return np.zeros(len(first), np.bool_)
    following = np.searchsorted(ranges[:, 1], first, side="right")
    starts = np.append(ranges[:, 0], MAX_ROW_ID)[following]
    return (following < len(ranges)) & (starts < stop)


MIN_SKIPPED_ROWS = 1 << 16
"""Rows without a match that are skipped within a file; fewer are read, since row groups are larger."""
MIN_SKIPPED_BYTES = 32 << 20
"""Bytes of rows without a match that are skipped within a file, if they are fewer rows than `MIN_SKIPPED_ROWS`.

Rows with vectors are large: a row group has about this size.
"""
MAX_READ_RANGES = 64
"""The limit of ranges that one file is read in."""


def divide_rows(ranges: Ranges, first: int, stop: int, size: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the ranges of positions to read of a file of `size` bytes whose row ids are [`first`, `stop`)."""
    least = min(MIN_SKIPPED_ROWS, max(MIN_SKIPPED_BYTES * (stop - first) // max(size, 1), 1))
    own = combine_ranges([ranges, np.array([[first, stop]], np.int64)], 2) - first
    if not len(own):
        return
    starts, ends = own[:, 0].copy(), own[:, 1].copy()
    starts[0] = 0 if starts[0] < least else starts[0]
    ends[-1] = stop - first if stop - first - ends[-1] < least else ends[-1]
    gaps = starts[1:] - ends[:-1]
    cuts = np.flatnonzero(gaps >= least)
    if len(cuts) >= MAX_READ_RANGES:
        cuts = np.sort(cuts[np.argsort(-gaps[cuts], kind="stable")[: MAX_READ_RANGES - 1]])
    yield from zip(starts[np.append(0, cuts + 1)].tolist(), ends[np.append(cuts, len(ends) - 1)].tolist())


def _divide_section(section: Section, search: IndexSearch) -> Iterator[Section]:
    ranges = search.ranges.get(section.partition_row)
    if ranges is None or section.kind is SectionKind.MERGE:
        yield section
        return
    stitched = section.kind is SectionKind.STITCH
    files = [section.files[section.marked_file]] if stitched else list(section.files)
    whole: list[DataFile] = []
    for file in files:
        first = file.first_row_id
        low, high = section.read_rows if stitched else (file.deletion and file.deletion.rows) or (0, file.row_count)
        size = section.size if stitched else file.size
        spans = [] if first is None else list(divide_rows(ranges, first + low, first + high, size))
        if first is None or spans == [(0, high - low)]:
            whole.append(file)
            continue
        if whole:
            yield msgspec.structs.replace(section, files=tuple(whole))
            whole = []
        alone = section if stitched else msgspec.structs.replace(section, files=(file,))
        yield from (alone.with_rows(low + start, low + stop) for start, stop in spans)
    if whole:
        yield section if stitched else msgspec.structs.replace(section, files=tuple(whole))


def _count_read_rows(section: Section) -> int:
    if section.kind is SectionKind.RAW:
        return section.row_count if len(section.files) > 1 else section.read_rows[1] - section.read_rows[0]
    first, last = section.read_rows
    return last - first
