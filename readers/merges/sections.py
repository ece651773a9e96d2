"""Inputs and output of a section's merge: the rows that share a key, and the merged rows.

Masks separate the rows. Rows whose key has one version are read by a masked scan as usual. The other rows are read
separately, key range by key range, and folded. Both masks and merged rows depend on immutable files only and are
cached. If a commit has changed a section, only keys with rows in added or removed files are merged again.

If a section is read whole, its keys are read first, to decide which rows must be merged, and then all values at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec
import numpy as np
import polars as pl

from morrow.engine.format.arrow_buffers import make_series
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.polars_threads import open_threads
from morrow.engine.polars_versions import register_source
from morrow.readers.casts.dtypes import estimate_width
from morrow.readers.masks import Mask
from morrow.readers.masks.incremental import Changed, find_changed, read_file_keys
from morrow.readers.masks.live_rows import read_first, split_rows
from morrow.readers.masks.packed_keys import find_cuts, slice_frames
from morrow.readers.masks.section_cache import make_uniform_mask, to_mask
from morrow.readers.masks.section_keys import SectionKeys, order_by_age
from morrow.readers.merges.merge_cache import Merged, concat_merged, open_cache, to_merged
from morrow.readers.merges.section_merge import SectionMerge
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
    """The cached values of a section."""

    MERGED = "merged rows are cached"
    EARLIER = "merged rows of an earlier state are cached"
    MASKS = "masks are cached"


def find_known(plan: ScanPlan, section: Section, store: FileStore) -> Known | None:
    """Return what is cached of a section, or of an earlier version of it, and serves a read best."""
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
    """Return the deciding columns of the changed rows with the columns `fields`, which are cached like them."""
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
