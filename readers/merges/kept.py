"""Merged rows of sections in caches: of this process, and in the cache folder."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import polars as pl

from morrow.engine.names import cols
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import Section
from morrow.engine.values import replace
from morrow.readers.masks.file_keys import fingerprints
from morrow.readers.masks.folder import Entry, of_bucket, of_files
from morrow.readers.masks.refresh import in_cache, nearest, remember
from morrow.readers.merges.merged import MERGED_CACHE, Merged
from morrow.readers.merges.section_merge import SectionMerge

MERGED = "merged"
"""What merged rows are called in keys of caches."""

OFTEN = 4
"""Merged rows go into the cache folder again when one in so many has changed: who reads after each of many commits pays
for each time, and other processes merge what has changed since."""


def known(merge: SectionMerge, section: Section) -> Merged | None:
    """Returns the merged rows of a section, the merge's own or another state of it, where they are in a cache."""

    def kept() -> Merged | None:
        entry = _entry(merge, section)
        frame = None if entry is None else entry.frame()
        return None if frame is None else Merged.of_frame(frame, merge.schema)

    return in_cache(_place(merge), section, MERGED_CACHE, kept, lambda merged: merged.size)


def keep(merge: SectionMerge, merged: Merged) -> Merged:
    """Caches merged rows; in the folder only where many have changed since it was last given some."""
    place, worth = _place(merge), not merged.since or merged.since * OFTEN > merged.rows.height
    if worth and (entry := _entry(merge, merge.section)) is not None:
        entry.keep_frame(merged.framed)
        merged = replace(merged, since=0)
    MERGED_CACHE.put((place, merge.section), merged, merged.size)
    remember(place, merge.section, _of_bucket(merge) if worth else None)
    return merged


def nearest_known(merge: SectionMerge) -> tuple[Section, Merged] | None:
    """Returns the state of the section from which the fewest rows differ, with its merged rows, if any."""
    return nearest(_place(merge), merge.section, lambda: _of_bucket(merge), lambda base: known(merge, base))


def told(merge: SectionMerge, rows: pl.DataFrame) -> Merged:
    """Returns merged rows, with their keys, as they are cached."""
    return Merged.of(rows.select(cols(merge.names)), fingerprints(rows.select(cols(merge.spec.key))))


def told_all(merge: SectionMerge, frames: Iterable[pl.DataFrame]) -> Merged:
    """Returns the merged rows of several frames, or of none, as they are cached."""
    parts = [told(merge, rows) for rows in frames]
    empty = told(merge, pl.DataFrame(schema={**merge.key_schema, **merge.schema}))
    return empty.changed(empty.fingerprints, parts) if parts else empty


def _place(merge: SectionMerge) -> Hashable:
    place = merge.store.url(merge.plan.table), merge.plan.schema.layout
    return MERGED, *place, merge.store.checks_pages, merge.spec, merge.names, merge.key_filter


def _entry(merge: SectionMerge, section: Section) -> Entry | None:
    if merge.key_filter != ALWAYS:
        return None
    return of_files(merge.plan, section, section.files, merge.store, MERGED, merge.names)


def _of_bucket(merge: SectionMerge) -> Entry | None:
    if merge.key_filter != ALWAYS:
        return None
    return of_bucket(merge.plan, merge.section, merge.store, MERGED, merge.names)
