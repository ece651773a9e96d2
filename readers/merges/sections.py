"""The input and output of a section's merge: which rows share a key, those rows, and the merged rows.

Masks separate the rows: those whose key has one version are read by a masked scan as usual, the others are read
separately, key range by key range, and folded. Both masks and merged rows depend on immutable files only and are
cached.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.io.store import FileStore
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.casts.widths import width_of
from morrow.readers.masks.section_keys import SectionKeys
from morrow.readers.merges.kept import keep, known, nearest_known, told_all
from morrow.readers.merges.refolding import refolded
from morrow.readers.merges.section_merge import SectionMerge
from morrow.readers.merges.version_masks import known_masks, shared_keys, version_masks

CACHED_ROWS = 1 << 22
"""Sections of so many stored rows are merged at once, and merged rows cached."""
MOST_CACHED_ROWS, CACHED_BYTES = 1 << 24, 96 << 20
"""So are larger ones, up to so many stored rows whose merged rows take so much memory; others range by range, at each
read."""
KEY_BYTES = 24
"""Memory beside the columns of a merged row, for its key."""


def merged_frame(plan: ScanPlan, section: Section, names: Sequence[str], store: FileStore) -> pl.LazyFrame:
    """Returns rows of the keys with several versions, columns `names`; the filter's part on the key is applied.

    They are merged now and cached where they are few; else they are merged while the frame is collected, in memory
    bounded by the size of a key range.
    """
    merge = SectionMerge(plan, section, tuple(names), store)
    if _is_cached(merge):
        found = known(merge, section) or keep(merge, refolded(merge) or told_all(merge, merge.complete()))
        return found.rows.lazy()
    return pl.io.plugins.register_io_source(merge.streamed, schema=merge.schema, is_pure=True)


def _is_cached(merge: SectionMerge) -> bool:
    rows = merge.section.row_count
    if rows <= CACHED_ROWS or rows > MOST_CACHED_ROWS or merge.plan.limit is not None or merge.section.cut is not None:
        return rows <= CACHED_ROWS
    shared = version_masks(merge.plan, merge.section, merge.store).shared
    keys = sum(int(mask.sum()) for mask in shared if mask is not None) // 2
    return (
        keys * (KEY_BYTES + sum(width_of(merge.plan.schema.by_name[name].type) for name in merge.names)) <= CACHED_BYTES
    )


def is_known(plan: ScanPlan, section: Section, store: FileStore) -> bool:
    """Returns whether merged rows or masks of the section, or of an earlier state of it, are cached."""
    merge = SectionMerge(plan, section, plan.read_columns, store)
    if known(merge, section) is not None or nearest_known(merge) is not None:
        return True
    return known_masks(plan, section, store) is not None


def merged_count(plan: ScanPlan, section: Section, store: FileStore) -> int:
    """Counts the rows of `merged_frame`; reads keys, ages and kinds only, and the columns that kinds depend on."""
    counted = section.cut is None and plan.filter.predicate == ALWAYS
    if counted and not SectionKeys.of(plan, section, store).with_kind:
        version_masks(plan, section, store)
        keys = shared_keys(plan, section, store)
        if keys is not None:
            return keys  # without retractions every key has a row
    merge = SectionMerge(plan, section, (), store)
    return sum(rows.height for rows in merge.complete())
