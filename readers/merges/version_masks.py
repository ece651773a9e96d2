"""Masks of the rows that share a key with others; they depend on immutable files only and are cached."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.readers.masks import MASK_CACHE, Mask, compute_live_masks
from morrow.readers.masks.bitmasks import MaskBuilder
from morrow.readers.masks.incremental import (
    Changed,
    find_changed,
    find_in_caches,
    find_nearest,
    is_worth_keeping,
    patch_masks,
    remember,
)
from morrow.readers.masks.key_ranges import KeyRange
from morrow.readers.masks.live_rows import Unpacked, find_places, mask_bytes, process_in_parts
from morrow.readers.masks.ordering import find_unshared, is_number, to_comparable
from morrow.readers.masks.section_cache import find_bucket_entry, find_files_entry, is_kept
from morrow.readers.masks.section_keys import SectionKeys, order_by_age
from morrow.readers.merges.versions import Versions, find_numbered_versions, find_versions

VERSIONS = "versions"
"""The name of these masks in cache keys."""

SHARED_KEYS: ByteCache[int] = ByteCache(1 << 20)
"""The number of keys with several versions, by the file set of a section."""
NUMBER_BYTES = 64

Rows: TypeAlias = npt.NDArray[np.bool_]


def is_folded(plan: ScanPlan, section: Section) -> bool:
    """Return whether versions of a key are combined in this section."""
    return section.kind is SectionKind.MERGE and plan.merge is not None and plan.merge.folds


def scan_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...]:
    """Return one mask per file of the live rows that are read as stored: all live rows, or all except merged rows."""
    if is_folded(plan, section):
        return compute_version_masks(plan, section, store).single
    return compute_live_masks(plan, section, store)


class VersionMasks(msgspec.Struct, frozen=True):
    """One mask per file, in the order of the section's files.

    `single` marks rows that are the only version of their key, unless they are retractions that are dropped. `shared`
    marks rows whose key has other versions; here None means that the file lacks such rows.
    """

    single: tuple[Mask, ...]
    shared: tuple[Mask, ...]


def compute_version_masks(plan: ScanPlan, section: Section, store: FileStore) -> VersionMasks:
    """Separate the rows of a section by the number of versions of their keys; only keys are read.

    Raises:
        CorruptFile: a file's row count differs from its manifest entry.
    """
    found = find_known_version_masks(plan, section, store)
    return found or keep_masks(plan, section, store, *_make_masks(SectionKeys.of(plan, section, store)))


def count_shared_keys(plan: ScanPlan, section: Section, store: FileStore) -> int | None:
    """Return the number of keys with several versions; None if it was not counted when the masks were made."""
    return SHARED_KEYS.get(_cache_key(plan, section, store))


def find_known_version_masks(plan: ScanPlan, section: Section, store: FileStore) -> VersionMasks | None:
    """Return the masks if they are cached or can be derived from cached masks of most of the section's files."""
    return _find_cached(plan, section, store) or _refresh_masks(plan, section, store)


def _refresh_masks(plan: ScanPlan, section: Section, store: FileStore) -> VersionMasks | None:
    near = find_nearest(
        _place(plan, store),
        section,
        lambda: find_bucket_entry(plan, section, store, VERSIONS),
        lambda base: _find_cached(plan, base, store),
    )
    if near is None:
        return None
    base, known = near
    found = find_changed(plan, section, base, store)
    return None if found is None else _patch_version_masks(found, known, ChangedVersions.of(found))


def derive_masks(found: Changed, versions: ChangedVersions) -> VersionMasks:
    """Return the masks of a changed section from the versions of its changed keys."""
    plan, section, store = found.keys.plan, found.keys.section, found.keys.store
    before = _find_cached(plan, section, store)
    if before is not None:
        return before
    known = _find_cached(plan, found.base, store)
    return (
        compute_version_masks(plan, section, store) if known is None else _patch_version_masks(found, known, versions)
    )


class ChangedVersions(msgspec.Struct, frozen=True):
    """The versions of the keys that have changed, among the rows of `Changed`, file by file.

    `single` and `shared` have the same meaning for each row as in `VersionMasks`.
    """

    versions: Versions
    single: Rows
    shared: Rows

    @classmethod
    def of(cls, found: Changed) -> ChangedVersions:
        keys = found.keys
        levels = keys.levels(range(len(keys.files)), found.heights)
        if found.placed is not None and levels is None:
            versions = find_numbered_versions(np.concatenate(found.placed), len(found.wanted))
            return cls(versions, versions.single, ~versions.single)
        rows, by_key = keys.keyed(found.deciding, lambda: found.frames)
        versions = find_versions(by_key, rows.select(cols(keys.age)), keys.descending, found.heights, levels)
        return cls(versions, *split_by_versions(keys, rows, versions))


def _patch_version_masks(found: Changed, known: VersionMasks, changes: ChangedVersions) -> VersionMasks:
    single, shared = (np.split(each, np.cumsum(found.heights)[:-1]) for each in (changes.single, changes.shared))
    masks = VersionMasks(
        patch_masks(found, known.single, single, blank=True), patch_masks(found, known.shared, shared, blank=False)
    )
    _keep(found.keys.plan, found.keys.section, found.keys.store, masks)
    return masks


def keep_masks(
    plan: ScanPlan, section: Section, store: FileStore, single: Sequence[Mask], shared: Sequence[Mask], keys: int
) -> VersionMasks:
    """Cache masks, given for the files oldest first, and the number of keys with several versions."""
    by_file = {file: number for number, file in enumerate(order_by_age(section))}
    places = [by_file[i] for i in range(len(section.files))]
    masks = VersionMasks(tuple(single[i] for i in places), tuple(shared[i] for i in places))
    _keep(plan, section, store, masks)
    SHARED_KEYS.put(_cache_key(plan, section, store), keys, NUMBER_BYTES)
    return masks


def _keep(plan: ScanPlan, section: Section, store: FileStore, masks: VersionMasks) -> None:
    both = (*masks.single, *masks.shared)
    place = _place(plan, store)
    MASK_CACHE.put((place, section), both, mask_bytes(both), of=section.newest_file)
    worth = is_kept(section, store) and is_worth_keeping(place, section)
    remember(place, section, find_bucket_entry(plan, section, store, VERSIONS) if worth else None)
    if worth and (entry := find_files_entry(plan, section, section.files, store, VERSIONS)) is not None:
        entry.keep_masks(both)


def _find_cached(plan: ScanPlan, section: Section, store: FileStore) -> VersionMasks | None:
    """Return the masks of a section from memory, or from the cache folder."""

    def kept() -> tuple[Mask, ...] | None:
        entry = find_files_entry(plan, section, section.files, store, VERSIONS)
        return None if entry is None else entry.masks([file.row_count for file in (*section.files, *section.files)])

    masks = find_in_caches(_place(plan, store), section, MASK_CACHE, kept, mask_bytes)
    files = len(section.files)
    return None if masks is None else VersionMasks(masks[:files], masks[files:])


def _place(plan: ScanPlan, store: FileStore) -> Hashable:
    assert plan.merge is not None
    rules = plan.merge.key, plan.merge.looks_up, plan.merge.keeps_retractions
    return VERSIONS, store.url(plan.table), store.checks_pages, *rules, plan.schema.layout


def _cache_key(plan: ScanPlan, section: Section, store: FileStore) -> Hashable:
    return _place(plan, store), section


def _make_masks(keys: SectionKeys) -> tuple[list[Mask], list[Mask], int]:
    single = MaskBuilder(keys, blank=keys.section.cut is None, absent=True)
    shared = MaskBuilder(keys, blank=False, absent=False)
    found: list[int] = []

    def mark(part: KeyRange) -> None:
        frames = keys.read(part, keys.packing)
        parts = (
            process_in_parts(keys, frames, lambda some, unpacked: _split_range(keys, part, some, unpacked))
            if part.whole
            else None
        )
        parts = parts or [_split_range(keys, part, frames, lambda: keys.read(part, None))]
        found.extend(each.keys for each in parts)
        for place, number in enumerate(part.files):
            rows = find_places(part, frames[place])
            single.put(number, rows, np.concatenate([each.single[place] for each in parts]))
            shared.put(number, rows, np.concatenate([each.shared[place] for each in parts]))
        single.done(part)
        shared.done(part)

    keys.each_range(mark)
    return single.masks(), shared.masks(), sum(found)


class _RangeMasks(msgspec.Struct, frozen=True):
    """Masks of some rows of each file, and the number of their keys with several versions."""

    single: list[Rows]
    shared: list[Rows]
    keys: int


def _split_range(keys: SectionKeys, part: KeyRange, frames: Sequence[pl.DataFrame], unpacked: Unpacked) -> _RangeMasks:
    rows, by_key = keys.keyed(frames, unpacked)
    heights = [frame.height for frame in frames]
    ends = np.cumsum(heights)[:-1]
    levels = keys.levels(part.files, heights)
    by_key = to_comparable(by_key)
    counted = levels is None and is_number(by_key)
    known = find_unshared(np.split(by_key.to_series().to_numpy(), ends)[::-1]) if counted else None
    if known is not None:
        single = np.concatenate(known[0][::-1])
        shared, several = ~single, known[1]
        single = _drop_retractions(keys, rows, single)
    else:
        versions = find_versions(by_key, pl.DataFrame(), (), heights, levels)
        several = versions.rounds.keys
        single, shared = split_by_versions(keys, rows, versions)
    return _RangeMasks(np.split(single, ends), np.split(shared, ends), several)


def _drop_retractions(keys: SectionKeys, rows: pl.DataFrame, single: Rows) -> Rows:
    if VALUE_KIND not in rows.columns or keys.spec.keeps_retractions:
        return single
    kept: Rows = single & ((rows[VALUE_KIND].to_numpy() & RETRACT_BIT) == 0)
    return kept


def split_by_versions(keys: SectionKeys, rows: pl.DataFrame, versions: Versions) -> tuple[Rows, Rows]:
    """Return the live rows whose keys have one version, and the rows whose keys have several."""
    shared = np.zeros(rows.height, bool)
    shared[versions.rounds.rows] = True
    return _drop_retractions(keys, rows, versions.single), shared
