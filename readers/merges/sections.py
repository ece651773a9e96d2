"""The merge of a section: rows that share a key are found and folded, and the merged rows are cached.

Masks separate the rows. Rows whose key has one version are read by a masked scan as usual. The other rows are read
separately, key range by key range, and folded. Both masks and merged rows depend on immutable files only and are
cached. If a commit has changed a section, only keys with rows in added or removed files are merged again.

If a section is read whole, its keys are read first, to decide which rows must be merged, and then all values at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import msgspec
import numpy as np
import polars as pl

from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.row_kinds import INSERT, build_rowkind
from morrow.engine.format.schema import ROWKIND, VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.library_versions import register_source
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import FINGERPRINT, POSITION, cols
from morrow.engine.plan.predicate import ALWAYS, Predicate
from morrow.engine.plan.pruning import project_predicate
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.polars_threads import open_threads
from morrow.readers.casts.dtypes import estimate_width, to_polars_dtype
from morrow.readers.expressions import polars as expressions
from morrow.readers.files.file_frames import collect_frames, scan_files, select_frames, translate_file_errors
from morrow.readers.masks import Mask
from morrow.readers.masks.incremental import (
    Changed,
    FileKeys,
    Fingerprints,
    Positions,
    compute_fingerprints,
    find_changed,
    find_positions,
    read_file_keys,
)
from morrow.readers.masks.live_rows import read_first, split_rows
from morrow.readers.masks.packed_keys import find_cuts, slice_frames
from morrow.readers.masks.section_cache import SMALL_FRAME_BYTES, Entry, SectionValues, make_uniform_mask, to_mask
from morrow.readers.masks.section_keys import KeyRange, SectionKeys, order_by_age
from morrow.readers.merges.engines import find_needed_groups, fold
from morrow.readers.merges.version_masks import (
    ChangedVersions,
    Rounds,
    Rows,
    VersionMasks,
    Versions,
    compute_version_masks,
    derive_masks,
    find_known_version_masks,
    find_versions,
    is_known,
    keep_masks,
    split_by_versions,
)

MERGED_RANGE_ROWS = 1 << 19
"""Approximate rows of a key range merged at once: unlike masks, merges hold all columns of the rows."""


@dataclass(frozen=True)
class SectionMerge:
    """The merge of the columns `names` of a section."""

    plan: ScanPlan
    section: Section
    names: tuple[str, ...]
    store: FileStore

    @property
    def spec(self) -> MergeSpec:
        assert self.plan.merge is not None
        return self.plan.merge

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema({name: to_polars_dtype(self.plan.schema.by_name[name].type) for name in self.names})

    @property
    def key_filter(self) -> Predicate:
        """The filter's conditions on the key: all versions of a key satisfy them, or none."""
        return project_predicate(
            self.plan.filter.predicate, frozenset((*self.spec.key, *self.plan.schema.partition_keys))
        )

    @property
    def key_schema(self) -> pl.Schema:
        return pl.Schema({name: to_polars_dtype(self.plan.schema.by_name[name].type) for name in self.spec.key})

    def complete(self) -> Iterator[pl.DataFrame]:
        """Yield existing merged rows, a key range at a time: key, `names`, ``_SEQUENCE_NUMBER`` (if read), kind."""
        masks = compute_version_masks(self.plan, self.section, self.store)
        keys = SectionKeys.of(self.plan, self.section, self.store)
        shared = [masks.shared[i] for i in order_by_age(self.section)]
        fields = self.fields(keys)
        for part in keys.ranges_of(MERGED_RANGE_ROWS):
            yield from self.merged_once(keys, self.read(keys, part, shared, fields))

    def streamed(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        limit: int | None,
        batch_rows: int | None,  # noqa: ARG002 - Polars' own signature; a key range is a batch
    ) -> Iterator[pl.DataFrame]:
        """Yield the merged rows, a key range at a time, as Polars asks for them."""
        yield from select_frames(self.complete(), self.names if columns is None else columns, predicate, limit)

    def merged_once(self, keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield the merged rows of frames, one frame per file, the oldest first; yield nothing without frames."""
        if frames:
            yield from self.merged_runs(keys, pl.concat(frames), [frame.height for frame in frames])

    def merged_runs(self, keys: SectionKeys, rows: pl.DataFrame, heights: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Yield the merged rows of concatenated files; `heights` has the number of rows of each file."""
        if rows.is_empty():
            return
        versions = find_versions(
            rows.select(cols(self.spec.key)), rows.select(cols(keys.age)), keys.descending, heights
        )
        yield self.merged(keys, rows, versions)

    def merged(self, keys: SectionKeys, rows: pl.DataFrame, versions: Versions) -> pl.DataFrame:
        values = [self.plan.schema.by_name[name] for name in self.names if name in self._merged_names]
        merged = fold(self.spec, values, rows, versions, where=self.plan.table)
        if ROWKIND in self.names:
            merged = merged.with_columns(build_rowkind())  # of the merged row, not of its newest version
        dropping = keys.with_kind and not self.spec.keeps_retractions
        return merged.filter(pl.col(VALUE_KIND) == INSERT) if dropping else merged

    @property
    def _merged_names(self) -> frozenset[str]:
        folded = {column.name for column in self.spec.columns}
        return frozenset(name for name in self.names if name in folded)

    def values(self, keys: SectionKeys) -> list[DataField]:
        """Return the wanted columns and the inputs of their merge."""
        groups = find_needed_groups(self.spec, self._merged_names, retracts=keys.with_kind)
        deciding = (name for group in groups.values() for name in group.sequence)
        return [self.plan.schema.by_name[name] for name in dict.fromkeys((*self.names, *deciding))]

    def fields(self, keys: SectionKeys) -> tuple[DataField, ...]:
        """Return the columns to read: key columns, columns of age and kind, and values."""
        return tuple(dict.fromkeys((*keys.key_fields, *keys.other_fields, *self.values(keys))))

    def read(
        self, keys: SectionKeys, part: KeyRange, shared: Sequence[Mask], fields: Sequence[DataField]
    ) -> list[pl.DataFrame]:
        """Read the rows of the range whose keys have several versions, oldest file first."""
        key_filter = self.key_filter
        frames = []
        for number in part.files:
            mask = shared[number]
            if mask is None:
                continue
            frame = scan_files(
                *(self.plan, self.section, [keys.files[number]], fields, self.store), position=not part.whole, live=mask
            )
            if part.whole:
                frame = frame.filter(pl.lit(mask))
            else:
                frame = part.within(frame, keys.key_fields[0].name)
                frame = frame.filter(pl.lit(mask).gather(pl.col(POSITION))).drop(POSITION)
            if key_filter != ALWAYS:
                frame = frame.filter(expressions.compile(key_filter, self.plan.schema.fields))
            frames.append(frame)
        with translate_file_errors(self.plan, [self.section], tuple(fields), self.store):
            # A stream avoids holding whole files in memory before their rows are selected.
            return collect_frames(frames, stream=part.whole)


MAX_BLOCKS = 6
"""Maximum number of separate blocks of merged rows."""
MIN_ROWS_PER_DEAD_ROW = 4
"""Copy a block once 1/4 of its rows are dead."""


@dataclass(frozen=True)
class Block:
    """A block of merged rows with the fingerprints of their keys."""

    rows: pl.DataFrame
    fingerprints: Fingerprints

    @cached_property
    def _keys(self) -> FileKeys:
        return FileKeys(pl.DataFrame(), self.fingerprints)

    def found(self, wanted: Fingerprints) -> Positions:
        """Return the rows whose keys have one of the fingerprints `wanted`, which ascend."""
        return find_positions([self._keys], wanted)[0].rows

    @property
    def size(self) -> int:
        """Memory in bytes, with the order of the fingerprints."""
        return int(self.rows.estimated_size()) + 3 * self.fingerprints.nbytes + SMALL_FRAME_BYTES


@dataclass(frozen=True)
class Merged:
    """Merged rows as blocks, which versions of a section share, and the live rows of each block (None: all)."""

    blocks: tuple[Block, ...]
    live: tuple[pl.Series | None, ...]

    @classmethod
    def of(cls, rows: pl.DataFrame, fingerprints: Fingerprints) -> Merged:
        """Return merged rows of one block from rows and the fingerprints of their keys."""
        return cls((Block(rows, fingerprints),), (None,))

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The rows that are live."""
        return pl.concat([b.rows if mask is None else b.rows.filter(mask) for b, mask in zip(self.blocks, self.live)])

    @property
    def fingerprints(self) -> Fingerprints:
        """The fingerprints of the keys of `rows`."""
        parts = [
            block.fingerprints if mask is None else block.fingerprints[mask.to_numpy()]
            for block, mask in zip(self.blocks, self.live)
        ]
        return np.concatenate(parts)

    @property
    def size(self) -> int:
        """Memory in bytes, including blocks that are shared."""
        copied = len(self.blocks) > 1 or self.live[0] is not None
        return sum(block.size for block in self.blocks) + (int(self.rows.estimated_size()) if copied else 0)

    def changed(self, wanted: Fingerprints, new: Sequence[Merged]) -> Merged:
        """Replace the rows of the fingerprints `wanted` by the rows `new`."""
        live = tuple(_remove_rows(mask, block, wanted) for block, mask in zip(self.blocks, self.live))
        blocks = (*self.blocks, *(block for each in new for block in each.blocks))
        both = (*live, *(mask for each in new for mask in each.live))
        return Merged(*_compact_blocks(blocks, both))

    @property
    def framed(self) -> pl.DataFrame:
        """The rows with a column of their fingerprints."""
        return self.rows.with_columns(pl.Series(FINGERPRINT, self.fingerprints))

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, schema: pl.Schema) -> Merged | None:
        """Return the merged rows of a `framed` frame; None if it has other columns than `schema`."""
        if FINGERPRINT not in frame.columns or frame.drop(FINGERPRINT).schema != schema:
            return None
        return cls.of(frame.drop(FINGERPRINT), frame[FINGERPRINT].to_numpy())


def _compact_blocks(
    blocks: tuple[Block, ...], live: tuple[pl.Series | None, ...]
) -> tuple[tuple[Block, ...], tuple[pl.Series | None, ...]]:
    """Copy blocks with many dead rows, and join all blocks but the largest if there are too many."""
    dead = [0 if mask is None else len(mask) - int(mask.sum()) for mask in live]
    worn = [count * MIN_ROWS_PER_DEAD_ROW > block.rows.height for count, block in zip(dead, blocks)]
    if len(blocks) <= MAX_BLOCKS and not any(worn):
        return blocks, live
    largest = max(range(len(blocks)), key=lambda number: blocks[number].rows.height)
    kept = () if worn[largest] else (blocks[largest],)
    rest = [number for number in range(len(blocks)) if worn[largest] or number != largest]
    copied = Merged(tuple(blocks[number] for number in rest), tuple(live[number] for number in rest))
    return (*kept, Block(copied.rows, copied.fingerprints)), (*(live[largest] for _ in kept), None)


def _remove_rows(mask: pl.Series | None, block: Block, wanted: Fingerprints) -> pl.Series | None:
    dead = block.found(wanted)
    if not len(dead):
        return mask
    whole = make_uniform_mask(True, block.rows.height) if mask is None else mask.clone()
    return whole.scatter(pl.Series(dead), False)  # copies the bits, which the earlier version shares


ROWS_PER_SAVED_CHANGE = 16
"""Save merged rows to the cache folder again once 1/16 of the section's rows are in files added or removed.

Saving after each of many commits would be expensive; other processes merge the keys that have changed since.
"""


def open_cache(merge: SectionMerge) -> SectionValues[Merged]:
    """Return the cache of merged rows like these; with a filter on keys, they are in memory only."""

    def load(entry: Entry, _: Section) -> Merged | None:
        frame = entry.frame()
        return None if frame is None else Merged.of_frame(frame, merge.schema)

    return SectionValues(
        "merged",
        merge.plan,
        merge.store,
        parts=(merge.spec, merge.names, merge.key_filter),
        stored=(merge.names,) if merge.key_filter == ALWAYS else None,
        rows_per_save=ROWS_PER_SAVED_CHANGE,
        measure=lambda merged: merged.size,
        load=load,
        save=lambda entry, merged: entry.keep_frame(merged.framed),
    )


def to_merged(merge: SectionMerge, rows: pl.DataFrame) -> Merged:
    """Convert merged rows, including their keys, to the cached form."""
    return Merged.of(rows.select(cols(merge.names)), compute_fingerprints(rows.select(cols(merge.spec.key))))


def concat_merged(merge: SectionMerge, frames: Iterable[pl.DataFrame]) -> Merged:
    """Convert the merged rows of any number of frames to the cached form."""
    parts = [to_merged(merge, rows) for rows in frames]
    empty = to_merged(merge, pl.DataFrame(schema={**merge.key_schema, **merge.schema}))
    return empty.changed(empty.fingerprints, parts) if parts else empty


MAX_SMALL_SECTION_ROWS = 1 << 22
"""Sections up to this many stored rows are merged at once, and the merged rows are cached."""
MAX_CACHED_ROWS, MAX_CACHED_BYTES = 1 << 24, 96 << 20
"""Larger sections are merged at once and cached up to these limits of stored rows and of memory of the merged rows.

All other sections are merged range by range at each read.
"""
KEY_BYTES = 24
"""Memory per merged row for its key, in addition to its columns."""


def scan_merged(plan: ScanPlan, section: Section, names: Sequence[str], store: FileStore) -> pl.LazyFrame:
    """Return rows of the keys with several versions, columns `names`; the filter's part on the key is applied.

    If the rows are few, they are merged immediately and cached. Otherwise they are merged while the frame is collected,
    in memory bounded by the size of a key range.
    """
    merge = SectionMerge(plan, section, tuple(names), store)
    if _is_cached(merge):
        cache = open_cache(merge)
        found = cache.find(section) or cache.keep(section, refold(merge) or concat_merged(merge, merge.complete()))
        return found.rows.lazy()
    return register_source(merge.streamed, merge.schema, is_pure=True)


def _is_cached(merge: SectionMerge) -> bool:
    rows = merge.section.row_count
    if (
        rows <= MAX_SMALL_SECTION_ROWS
        or rows > MAX_CACHED_ROWS
        or merge.plan.limit is not None
        or merge.section.cut is not None
    ):
        return rows <= MAX_SMALL_SECTION_ROWS
    shared = compute_version_masks(merge.plan, merge.section, merge.store).shared
    keys = sum(int(mask.sum()) for mask in shared if mask is not None) // 2
    return (
        keys * (KEY_BYTES + sum(estimate_width(merge.plan.schema.by_name[name].type) for name in merge.names))
        <= MAX_CACHED_BYTES
    )


class Known(StrEnum):
    """The kinds of cached values of a section."""

    MERGED = "merged rows are cached"
    EARLIER = "merged rows of an earlier state are cached"
    MASKS = "masks are cached"


def find_known(plan: ScanPlan, section: Section, store: FileStore) -> Known | None:
    """Return the kind of cached value, of a section or an earlier version of it, that serves a read best."""
    merge = SectionMerge(plan, section, plan.read_columns, store)
    cache = open_cache(merge)
    if cache.find(section) is not None:
        return Known.MERGED
    if cache.find_nearest(section) is not None:
        return Known.EARLIER
    return Known.MASKS if is_known(plan, section, store) else None


def count_merged(plan: ScanPlan, section: Section, store: FileStore) -> int:
    """Count the rows of `scan_merged`; reads keys, ages and kinds only, and the columns that kinds depend on."""
    counted = section.cut is None and plan.filter.predicate == ALWAYS
    if counted and not SectionKeys.of(plan, section, store).with_kind:
        keys = compute_version_masks(plan, section, store).keys
        if keys is not None:
            return keys  # without retractions every key has a row
    merge = SectionMerge(plan, section, (), store)
    return sum(rows.height for rows in merge.complete())


PART_WORKERS = 2
"""Number of parts of a section processed at once."""

PART_ROWS = 1 << 18
"""Approximate rows of a part: intermediate results then stay in the processor's cache, without new memory."""


def fold_cached(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    """Return all rows of a section that folds, columns `plan.read_columns`, using caches of it or earlier states."""
    merge = SectionMerge(plan, section, plan.read_columns, store)
    rows = refold_rows(merge)
    if rows is not None:
        return rows
    masks = find_known_version_masks(plan, section, store)
    return fold_section(plan, section, store) if masks is None else _fold_masked(merge, masks)


def _fold_masked(merge: SectionMerge, masks: VersionMasks) -> pl.DataFrame:
    """Return the rows of a section whose masks are known, and cache the merged rows."""
    keys = SectionKeys.of(merge.plan, merge.section, merge.store)
    single, shared = ([each[i] for i in order_by_age(merge.section)] for each in (masks.single, masks.shared))
    alone, together = split_rows(
        keys, [(merge.names, single), ([field.name for field in merge.fields(keys)], _fill_masks(keys, shared))]
    )
    heights = [0 if mask is None else int(mask.sum()) for mask in shared]
    merged = merge.merged_runs(keys, together.rechunk(), heights)
    return pl.concat([alone, open_cache(merge).keep(merge.section, concat_merged(merge, merged)).rows])


def _fill_masks(keys: SectionKeys, masks: Sequence[Mask]) -> list[Mask]:
    """Replace masks that are None (no row of the file) by masks of all false, as in masks of live rows."""
    return [make_uniform_mask(False, file.row_count) if mask is None else mask for file, mask in zip(keys.files, masks)]


def fold_section(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    """Return all rows of a section that folds, columns `plan.read_columns`.

    The masks computed from the keys are cached for the next read, and the merged rows.
    """
    merge = SectionMerge(plan, section, plan.read_columns, store)
    keys = SectionKeys.of(plan, section, store)
    if keys.with_vectors:
        return _fold_masked(merge, compute_version_masks(plan, section, store))
    read = keys.read_whole(read_first(keys, [field.name for field in merge.values(keys)]))
    with open_threads(PART_WORKERS) as pool:
        deciding = list(pool.map(keys.deciding, read))
        rows = find_cuts(deciding, keys.key_fields[0], max(section.row_count // PART_ROWS, PART_WORKERS))
        parts = list(
            pool.map(lambda *part: _make_part(keys, *part), slice_frames(read, rows), slice_frames(deciding, rows))
        )
        single = [to_mask(np.concatenate(each), absent=True) for each in zip(*(part.single for part in parts))]
        shared = [to_mask(np.concatenate(each), absent=False) for each in zip(*(part.shared for part in parts))]
        inputs = [field.name for field in merge.fields(keys)]
        alone, together = split_rows(keys, [(merge.names, single), (inputs, _fill_masks(keys, shared))], read)
        together = together.rechunk()

        def merged(rounds: Rounds) -> Merged:
            versions = Versions(np.empty(0, bool), rounds)
            return to_merged(merge, merge.merged(keys, together, versions))

        first, *others = pool.map(merged, _join_rounds(parts))
    keep_masks(plan, section, store, single, shared, sum(part.rounds.keys for part in parts))
    found = open_cache(merge).keep(merge.section, first.changed(np.empty(0, np.int64), others) if others else first)
    return pl.concat([alone, found.rows])


class _Part(msgspec.Struct, frozen=True):
    """The masks of some rows of each file (see `VersionMasks`), and the rounds of rows with shared keys."""

    single: list[Rows]
    shared: list[Rows]
    rounds: Rounds


def _make_part(keys: SectionKeys, frames: Sequence[pl.DataFrame], decided: Sequence[pl.DataFrame]) -> _Part:
    heights = [frame.height for frame in frames]
    rows, by_key = keys.keyed(decided, lambda: [keys.unpacked(frame) for frame in frames])
    levels = keys.levels(range(len(frames)), heights)
    versions = find_versions(by_key, rows.select(cols(keys.age)), keys.descending, heights, levels)
    single, shared = (
        np.split(told_rows, np.cumsum(heights)[:-1]) for told_rows in split_by_versions(keys, rows, versions)
    )
    return _Part(single, shared, versions.rounds)


def _join_rounds(parts: Sequence[_Part]) -> list[Rounds]:
    """Return the rounds of neighbouring parts together, one for each worker.

    Their rows are numbered among the shared rows of all files, one file after another.
    """
    counts = np.array([[np.count_nonzero(rows) for rows in part.shared] for part in parts])
    ends = np.cumsum(counts.T).reshape(counts.T.shape).T
    rounds = [_shift_rounds(part, first) for part, first in zip(parts, ends - counts)]
    each = -(-len(rounds) // PART_WORKERS)
    return [Rounds.joined(rounds[start : start + each]) for start in range(0, len(rounds), each)]


def _shift_rounds(part: _Part, first: Sequence[int]) -> Rounds:
    """Renumber the rows of rounds among all shared rows; `first` has the number of each file's first row."""
    numbers = np.empty(sum(map(len, part.shared)), np.uint32)
    end = 0
    for rows, number in zip(part.shared, first):
        start, end = end, end + len(rows)
        left = np.flatnonzero(rows)
        numbers[start + left] = np.arange(number, number + len(left), dtype=np.uint32)
    return Rounds(numbers.take(part.rounds.rows), part.rounds.heights)


def refold(merge: SectionMerge) -> Merged | None:
    """Merge the keys that have changed since an earlier version of the section, reading the values of their rows.

    Returns None if no earlier version is known, or if too much has changed.
    """
    change = _find_changed(merge)
    if change is None:
        return None
    before, found = change
    masks = _make_masks(found, _find_shared(merge, found))
    frames = merge.read(found.keys, found.keys.everything, masks, merge.fields(found.keys))
    return before.changed(found.wanted, [to_merged(merge, rows) for rows in merge.merged_once(found.keys, frames)])


def refold_rows(merge: SectionMerge) -> pl.DataFrame | None:
    """Return all rows of the section; changed keys are merged from the rows that are read anyway.

    Returns None if no earlier version of the section is known, or if too much has changed.
    """
    change = _find_changed(merge)
    if change is None:
        return None
    before, found = change
    wanted = [merge.plan.schema.by_name[name] for name in merge.names]
    inputs = [field for field in merge.values(found.keys) if field not in wanted]
    changes = ChangedVersions.of(found)
    masks = derive_masks(found, changes)
    shared = np.split(changes.shared, np.cumsum(found.heights)[:-1])
    alone = [masks.single[i] for i in order_by_age(merge.section)]
    changing: list[Mask] = [
        make_uniform_mask(False, file.row_count) if mask is None else mask
        for file, mask in zip(found.keys.files, _make_masks(found, shared))
    ]
    single, picked = split_rows(found.keys, [(merge.names, alone), (merge.names, changing)])
    new = []
    if picked.height:
        deciding = _add_fields(merge, found, inputs).filter(make_series(changes.shared))
        values = picked.select(cols(name for name in picked.columns if name not in deciding.columns))
        rows = pl.concat([deciding, values], how="horizontal")
        new.append(to_merged(merge, merge.merged(found.keys, rows, changes.versions.among(changes.shared))))
    return pl.concat([single, open_cache(merge).keep(merge.section, before.changed(found.wanted, new)).rows])


def _find_changed(merge: SectionMerge) -> tuple[Merged, Changed] | None:
    """Return the merged rows of an earlier version of the section, and the changes since."""
    near = open_cache(merge).find_nearest(merge.section)
    if near is None:
        return None
    base, before = near
    found = find_changed(merge.plan, merge.section, base, merge.store)
    return None if found is None else (before, found)


def _find_shared(merge: SectionMerge, found: Changed) -> list[Rows]:
    """Return for each changed row whether its key has several versions."""
    masks = compute_version_masks(merge.plan, merge.section, merge.store).shared
    of_files = [masks[i] for i in order_by_age(merge.section)]
    return [
        np.zeros(len(rows), bool) if mask is None else mask.gather(rows).to_numpy()
        for mask, rows in zip(of_files, found.rows)
    ]


def _add_fields(merge: SectionMerge, found: Changed, fields: Sequence[DataField]) -> pl.DataFrame:
    """Return the changed rows with their deciding columns and the columns `fields`; both are cached."""
    if not fields:
        return found.frame
    files = read_file_keys(merge.plan, merge.section, found.keys.files, fields, (), merge.store)
    more = [[name for name in each.frame.columns if name not in found.frames[0].columns] for each in files]
    return pl.concat(
        pl.concat([frame, each.frame[rows].select(cols(names))], how="horizontal")
        for frame, each, rows, names in zip(found.frames, files, found.rows, more)
    )


def _make_masks(found: Changed, shared: Sequence[Rows]) -> list[Mask]:
    """Return a mask per file of the changed rows that are `shared`; None if there are none."""
    masks: list[Mask] = []
    for file, rows, kept in zip(found.keys.files, found.rows, shared):
        mask = make_uniform_mask(False, file.row_count) if kept.any() else None
        masks.append(None if mask is None else mask.scatter(pl.Series(rows[kept]), True))
    return masks
