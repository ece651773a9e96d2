"""The input and output of a section's merge: which rows share a key, those rows, and the merged rows.

Masks separate the rows: those whose key has one version are read by a masked scan as usual, the others are read
separately, key range by key range, and folded. Both masks and merged rows depend on immutable files only and are
cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import polars as pl

from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.masks.marks import as_mask
from morrow.readers.masks.section_keys import SectionKeys
from morrow.readers.merges.kept import keep, known, nearest_known, no_rows, told
from morrow.readers.merges.merged import Merged
from morrow.readers.merges.refolding import refolded, refolded_rows
from morrow.readers.merges.section_merge import SectionMerge
from morrow.readers.merges.version_masks import Rows, keep_masks, known_masks, shared_keys, told_apart, version_masks
from morrow.readers.merges.versions import versions_of

WORKERS = 2
"""Parts of a section that are merged at once."""

WIDE = 5
"""Columns from which on rows whose keys have several versions are set apart before they are gathered."""

CACHED_ROWS = 1 << 22
"""Sections of more stored rows are merged range by range at each read and not cached."""


def merged_frame(plan: ScanPlan, section: Section, names: Sequence[str], store: FileStore) -> pl.LazyFrame:
    """Returns rows of the keys with several versions, columns `names`; the filter's part on the key is applied.

    Up to `CACHED_ROWS` stored rows they are merged now and cached; more are merged while the frame is collected, in
    memory bounded by the size of a key range.
    """
    merge = SectionMerge(plan, section, tuple(names), store)
    if section.row_count <= CACHED_ROWS:
        found = known(merge, section) or keep(merge, refolded(merge) or _folded(merge))
        return found.rows.lazy()
    return pl.io.plugins.register_io_source(merge.streamed, schema=merge.schema, is_pure=True)


def folded_section(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame:
    """Returns all rows of a section that folds, columns `plan.read_columns`.

    They are read and merged in one pass; the masks computed from the keys are cached for the next read.
    """
    merge = SectionMerge(plan, section, plan.read_columns, store)
    keys = SectionKeys.of(plan, section, store)
    frames = keys.read_whole([field.name for field in merge.values(keys)])
    with ThreadPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(lambda part: _part(merge, keys, part), keys.parts(frames)))
    single = [np.concatenate(rows) for rows in zip(*(part.single for part in parts))]
    shared = [np.concatenate(rows) for rows in zip(*(part.shared for part in parts))]
    masks = [as_mask(rows, absent=True) for rows in single], [as_mask(rows, absent=False) for rows in shared]
    keep_masks(plan, section, store, *masks, sum(part.keys for part in parts))
    empty, *others = [part.merged for part in parts]
    merged = keep(merge, empty.changed(np.empty(0, np.int64), others) if others else empty).rows
    return pl.concat([*(part.unmerged for part in parts), merged])


def refolded_section(plan: ScanPlan, section: Section, store: FileStore) -> pl.DataFrame | None:
    """Returns the rows of `folded_section` where most of the merged rows are known from an earlier state.

    The columns are then read once, and keys that have changed are merged from what was read. None where merged rows are
    cached already, or where too much has changed.
    """
    return refolded_rows(SectionMerge(plan, section, plan.read_columns, store))


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


def _folded(merge: SectionMerge) -> Merged:
    parts = [told(merge, rows) for rows in merge.complete()]
    empty = no_rows(merge)
    return empty.changed(empty.fingerprints, parts) if parts else empty


@dataclass(frozen=True)
class _Part:
    """Results for some rows of each file: how their keys are distinguished (see `VersionMasks`), the live rows, and
    the number of keys of several versions."""

    single: list[Rows]
    shared: list[Rows]
    unmerged: pl.DataFrame
    merged: Merged
    keys: int


def _part(merge: SectionMerge, keys: SectionKeys, frames: Sequence[pl.DataFrame]) -> _Part:
    heights = [frame.height for frame in frames]
    decided = [keys.deciding(frame) for frame in frames]
    deciding, by_key = keys.keyed(decided, lambda: [keys.unpacked(frame) for frame in frames])
    levels = keys.levels(range(len(frames)), heights)
    versions = versions_of(by_key, deciding.select(cols(keys.age)), keys.descending, heights, levels)
    ends = np.cumsum(heights)[:-1]
    told_rows = told_apart(keys, deciding, versions)
    single, shared = (np.split(rows, ends) for rows in told_rows)
    if frames[0].width < WIDE:
        merged = merge.merged(keys, pl.concat(frames, rechunk=True), versions)
    else:
        merged = merge.merged(keys, _filtered(frames, shared).rechunk(), versions.among(told_rows[1]))
    unmerged = _filtered([frame.select(cols(merge.names)) for frame in frames], single)
    return _Part(single, shared, unmerged, told(merge, merged), versions.rounds.keys)


def _filtered(frames: Sequence[pl.DataFrame], masks: Sequence[Rows]) -> pl.DataFrame:
    return pl.concat(frame.filter(pl.Series(mask)) for frame, mask in zip(frames, masks))
