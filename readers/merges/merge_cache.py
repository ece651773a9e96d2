"""Merged rows of the keys of sections, cached in memory and in the cache folder."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from morrow.engine.io.cache import ByteCache
from morrow.engine.names import FINGERPRINT, cols
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import Section
from morrow.engine.structs import replace
from morrow.readers.masks.bitmasks import make_uniform_mask
from morrow.readers.masks.incremental import (
    SMALL_FRAME_BYTES,
    FileKeys,
    Fingerprints,
    Positions,
    compute_fingerprints,
    find_in_caches,
    find_nearest,
    find_positions,
    remember,
)
from morrow.readers.masks.section_cache import Entry, find_bucket_entry, find_files_entry
from morrow.readers.merges.section_merge import SectionMerge

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
    since: int = 0
    """Number of keys that have changed since the section was last saved to the cache folder."""

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
        return Merged(*_compact_blocks(blocks, both), self.since + len(wanted))

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


MERGED_CACHE: ByteCache[Merged] = ByteCache(256 << 20)
"""Merged rows of recently read sections, by file set; `capacity` can be set, in bytes."""

MERGED = "merged"
"""The name of merged rows in cache keys."""

ROWS_PER_SAVED_CHANGE = 4
"""Save merged rows to the cache folder again once 1/4 of them have changed.

Saving after each of many commits would be expensive; other processes merge the keys that have changed since.
"""


def find_known(merge: SectionMerge, section: Section) -> Merged | None:
    """Return the cached merged rows of a section, either the merge's own section or an earlier version; else None."""

    def kept() -> Merged | None:
        entry = _find_entry(merge, section)
        frame = None if entry is None else entry.frame()
        return None if frame is None else Merged.of_frame(frame, merge.schema)

    return find_in_caches(_place(merge), section, MERGED_CACHE, kept, lambda merged: merged.size)


def keep(merge: SectionMerge, merged: Merged) -> Merged:
    """Cache merged rows in memory, and in the cache folder if many have changed since the last save."""
    place, worth = _place(merge), not merged.since or merged.since * ROWS_PER_SAVED_CHANGE > merged.rows.height
    if worth and (entry := _find_entry(merge, merge.section)) is not None:
        entry.keep_frame(merged.framed)
        merged = replace(merged, since=0)
    MERGED_CACHE.put((place, merge.section), merged, merged.size, of=merge.section.newest_file)
    remember(place, merge.section, _find_bucket_entry(merge) if worth else None)
    return merged


def find_nearest_known(merge: SectionMerge) -> tuple[Section, Merged] | None:
    """Return the cached version of the section from which the fewest rows differ, with its merged rows, if any."""
    return find_nearest(
        _place(merge), merge.section, lambda: _find_bucket_entry(merge), lambda base: find_known(merge, base)
    )


def to_merged(merge: SectionMerge, rows: pl.DataFrame) -> Merged:
    """Convert merged rows, including their keys, to the cached form."""
    return Merged.of(rows.select(cols(merge.names)), compute_fingerprints(rows.select(cols(merge.spec.key))))


def concat_merged(merge: SectionMerge, frames: Iterable[pl.DataFrame]) -> Merged:
    """Convert the merged rows of any number of frames to the cached form."""
    parts = [to_merged(merge, rows) for rows in frames]
    empty = to_merged(merge, pl.DataFrame(schema={**merge.key_schema, **merge.schema}))
    return empty.changed(empty.fingerprints, parts) if parts else empty


def _place(merge: SectionMerge) -> Hashable:
    place = merge.store.url(merge.plan.table), merge.plan.schema.layout
    return MERGED, *place, merge.store.checks_pages, merge.spec, merge.names, merge.key_filter


def _find_entry(merge: SectionMerge, section: Section) -> Entry | None:
    if merge.key_filter != ALWAYS:
        return None
    return find_files_entry(merge.plan, section, section.files, merge.store, MERGED, merge.names)


def _find_bucket_entry(merge: SectionMerge) -> Entry | None:
    if merge.key_filter != ALWAYS:
        return None
    return find_bucket_entry(merge.plan, merge.section, merge.store, MERGED, merge.names)
