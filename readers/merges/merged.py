"""Merged rows of the keys of a section, and the cache of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from morrow.engine.io.cache import ByteCache
from morrow.engine.names import FINGERPRINT
from morrow.readers.masks.bits import uniform
from morrow.readers.masks.file_keys import FileKeys, Fingerprints, Positions, positions

MOST_BLOCKS = 6
"""Blocks of merged rows that are kept apart."""
MOST_DEAD = 4
"""A block is copied where one in so many of its rows is dead."""


@dataclass(frozen=True)
class Block:
    """Merged rows, and the fingerprints of their keys."""

    rows: pl.DataFrame
    fingerprints: Fingerprints

    @cached_property
    def _keys(self) -> FileKeys:
        return FileKeys(pl.DataFrame(), self.fingerprints)

    def found(self, wanted: Fingerprints) -> Positions:
        """Returns the rows whose keys have one of the fingerprints `wanted`, which ascend."""
        return positions([self._keys], wanted)[0].rows

    @property
    def size(self) -> int:
        """Memory in bytes, with the order of the fingerprints."""
        return int(self.rows.estimated_size()) + 3 * self.fingerprints.nbytes


@dataclass(frozen=True)
class Merged:
    """Merged rows as blocks that states of a section share, and which rows of each are live; None: all."""

    blocks: tuple[Block, ...]
    live: tuple[pl.Series | None, ...]
    since: int = 0
    """Keys that have changed since rows like these were put into the cache folder."""

    @classmethod
    def of(cls, rows: pl.DataFrame, fingerprints: Fingerprints) -> Merged:
        """Returns these rows, given with the fingerprints of their keys."""
        return cls((Block(rows, fingerprints),), (None,))

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The rows that are live."""
        return pl.concat([b.rows if mask is None else b.rows.filter(mask) for b, mask in zip(self.blocks, self.live)])

    @property
    def fingerprints(self) -> Fingerprints:
        """The fingerprints of their keys."""
        parts = [
            block.fingerprints if mask is None else block.fingerprints[mask.to_numpy()]
            for block, mask in zip(self.blocks, self.live)
        ]
        return np.concatenate(parts)

    @property
    def size(self) -> int:
        """Memory in bytes; blocks are counted whoever else has them."""
        copied = len(self.blocks) > 1 or self.live[0] is not None
        return sum(block.size for block in self.blocks) + (int(self.rows.estimated_size()) if copied else 0)

    def changed(self, wanted: Fingerprints, new: Sequence[Merged]) -> Merged:
        """Returns these rows without those of the fingerprints `wanted`, and the new ones."""
        live = tuple(_without(mask, block, wanted) for block, mask in zip(self.blocks, self.live))
        blocks = (*self.blocks, *(block for each in new for block in each.blocks))
        both = (*live, *(mask for each in new for mask in each.live))
        return Merged(*_compacted(blocks, both), self.since + len(wanted))

    @property
    def framed(self) -> pl.DataFrame:
        """The rows with their fingerprints beside."""
        return self.rows.with_columns(pl.Series(FINGERPRINT, self.fingerprints))

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, schema: pl.Schema) -> Merged | None:
        """Returns what was `framed`; None where it has other columns than `schema`."""
        if FINGERPRINT not in frame.columns or frame.drop(FINGERPRINT).schema != schema:
            return None
        return cls.of(frame.drop(FINGERPRINT), frame[FINGERPRINT].to_numpy())


def _compacted(
    blocks: tuple[Block, ...], live: tuple[pl.Series | None, ...]
) -> tuple[tuple[Block, ...], tuple[pl.Series | None, ...]]:
    """Returns the same rows: those of worn blocks copied, those of many blocks, but for the largest, in one."""
    dead = [0 if mask is None else len(mask) - int(mask.sum()) for mask in live]
    worn = [count * MOST_DEAD > block.rows.height for count, block in zip(dead, blocks)]
    if len(blocks) <= MOST_BLOCKS and not any(worn):
        return blocks, live
    largest = max(range(len(blocks)), key=lambda number: blocks[number].rows.height)
    kept = () if worn[largest] else (blocks[largest],)
    rest = [number for number in range(len(blocks)) if worn[largest] or number != largest]
    copied = Merged(tuple(blocks[number] for number in rest), tuple(live[number] for number in rest))
    return (*kept, Block(copied.rows, copied.fingerprints)), (*(live[largest] for _ in kept), None)


def _without(mask: pl.Series | None, block: Block, wanted: Fingerprints) -> pl.Series | None:
    dead = block.found(wanted)
    if not len(dead):
        return mask
    whole = uniform(True, block.rows.height) if mask is None else mask.clone()
    return whole.scatter(pl.Series(dead), False)  # copies the bits, which the earlier state keeps


MERGED_CACHE: ByteCache[Merged] = ByteCache(256 << 20)
"""Merged rows by the file set of a section, of those read recently; `capacity` may be set, in bytes."""
