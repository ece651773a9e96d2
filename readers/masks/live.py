"""The live masks of a section's files, from deletion vectors or from the merge of its keys."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import polars as pl

from morrow.engine.format.arrow_buffers import series_of
from morrow.engine.io.cache import ByteCache
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.masks.bits import uniform
from morrow.readers.masks.file_keys import KEY_CACHE
from morrow.readers.masks.folder import is_kept, of_bucket, of_files
from morrow.readers.masks.refresh import (
    CHANGES,
    KNOWN_SECTIONS,
    changed,
    forget_kept,
    in_cache,
    is_worth_keeping,
    nearest,
    patched,
    remember,
)
from morrow.readers.masks.superseded import live_rows, superseded_masks

Mask: TypeAlias = pl.Series | None
"""Boolean Series, one value per row of the file, true = live; None = every row is live."""

REQUESTS = 16
"""Deletion vectors read at once from a store far away."""

MERGE = "merge"
"""What masks of MERGE sections are called in keys of caches."""

MASK_CACHE: ByteCache[tuple[pl.Series | None, ...]] = ByteCache(256 << 20)
"""Masks by the file set of a section, one bit per row; `capacity` may be set, in bytes.

Files are immutable, so a mask is never stale.
"""


def live_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...]:
    """Returns one mask per file of `section`, in the order of its files.

    Retractions of RAW sections are not in the masks: the scan filters them by ``_VALUE_KIND``.

    Raises:
        CorruptFile: a deletion vector or data file contradicts its metadata.
    """
    if section.kind is SectionKind.MERGE:
        found = known_merged(plan, section, store)
        return _kept(plan, section, store, superseded_masks(plan, section, store)) if found is None else found
    deleted = [file for file in section.files if file.deletion is not None]
    if store.is_local or len(deleted) < 2:
        return tuple(_deletion_mask(file, store) for file in section.files)
    with ThreadPoolExecutor(REQUESTS) as pool:
        masks = dict(zip((file.path for file in deleted), pool.map(lambda file: _deletion_mask(file, store), deleted)))
    return tuple(masks.get(file.path) for file in section.files)


def known_merged(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...] | None:
    """Returns the masks of a MERGE section where they are cached, or follow from cached ones of most of its files."""
    return cached_merged(plan, section, store) or _refreshed(plan, section, store)


def cached_merged(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...] | None:
    """Returns the masks of a section from memory, or from the cache folder."""

    def kept() -> tuple[Mask, ...] | None:
        entry = of_files(plan, section, section.files, store, MERGE)
        return None if entry is None else entry.masks([file.row_count for file in section.files])

    return in_cache(_place(plan, store), section, MASK_CACHE, kept, mask_bytes)


def keep_merged(plan: ScanPlan, section: Section, store: FileStore, masks: Sequence[Mask]) -> None:
    """Caches the masks of a MERGE section that a read computed, one for each file."""
    _kept(plan, section, store, tuple(masks))


def _kept(plan: ScanPlan, section: Section, store: FileStore, masks: tuple[Mask, ...]) -> tuple[Mask, ...]:
    place = _place(plan, store)
    MASK_CACHE.put((place, section), *_sized(masks))
    worth = is_kept(section, store) and is_worth_keeping(place, section)
    remember(place, section, of_bucket(plan, section, store, MERGE) if worth else None)
    if worth and (entry := of_files(plan, section, section.files, store, MERGE)) is not None:
        entry.keep_masks(masks)
    return masks


def _refreshed(plan: ScanPlan, section: Section, store: FileStore) -> tuple[Mask, ...] | None:
    near = nearest(
        _place(plan, store),
        section,
        lambda: of_bucket(plan, section, store, MERGE),
        lambda base: cached_merged(plan, base, store),
    )
    if near is None:
        return None
    base, known = near
    found = changed(plan, section, base, store)
    if found is None:
        return None
    live = found.newest() or live_rows(found.keys, found.deciding, lambda: found.frames)
    return _kept(plan, section, store, patched(found, known, live, blank=True))


def _place(plan: ScanPlan, store: FileStore) -> Hashable:
    assert plan.merge is not None
    # Masks from keys whose checksums were not checked must not serve reads that require the check.
    return MERGE, store.url(plan.table), store.checks_pages, plan.merge, plan.schema.layout


def _sized(masks: tuple[Mask, ...]) -> tuple[tuple[Mask, ...], int]:
    return masks, mask_bytes(masks)


def _deletion_mask(file: DataFile, store: FileStore) -> Mask:
    if file.deletion is None:
        return None
    key: Hashable = ("deletion", store.url(file.deletion.path), file.deletion.offset, file.row_count)
    return MASK_CACHE.get_or_make(key, lambda: _sized((read_deletion(file, store),)))[0]


def read_deletion(file: DataFile, store: FileStore) -> pl.Series:
    """Reads the live rows of a file that has a deletion vector.

    Raises:
        CorruptFile: the vector is damaged, or its number of rows or of dead rows is wrong.
        FileMissing, StorageError.
    """
    from morrow.engine.format.deletion_index import entry_span, read_entry

    reference = file.deletion
    assert reference is not None
    data = store.read_range(reference.path, reference.offset, entry_span(reference.length))
    vector = read_entry(
        data,
        reference.offset,
        reference.length,
        where=reference.path,
        row_count=file.row_count,
        expected_cardinality=reference.cardinality,
        base=reference.offset,
    )
    return series_of(vector.live(file.row_count))


def long_mask(files: Sequence[DataFile], masks: Sequence[Mask]) -> Mask:
    """Returns one mask of all rows of the files, one file after another."""
    if all(mask is None for mask in masks):
        return None
    pieces = [uniform(True, f.row_count) if m is None else m for f, m in zip(files, masks)]
    return pl.concat([piece.rename("") for piece in pieces])


def clear_mask_cache() -> None:
    """Drops all masks, and the keys they are refreshed from; the next read computes them anew."""
    MASK_CACHE.clear()
    KEY_CACHE.clear()
    KNOWN_SECTIONS.clear()
    CHANGES.clear()
    forget_kept()


def mask_bytes(masks: tuple[pl.Series | None, ...]) -> int:
    """Returns the memory of these masks: one bit a row."""
    return sum(64 + len(mask) // 8 for mask in masks if mask is not None) + 64
