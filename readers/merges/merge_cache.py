"""Merged rows of the keys of sections, cached in memory and in the cache folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from morrow.engine.names import FINGERPRINT, cols
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import Section
from morrow.readers.masks.incremental import FileKeys, Fingerprints, Positions, compute_fingerprints, find_positions
from morrow.readers.masks.section_cache import SMALL_FRAME_BYTES, Entry, SectionValues, make_uniform_mask
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
