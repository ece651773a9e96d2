"""Sets of row positions as bits in blocks of 65,536 rows, of which empty ones are absent.

What a roaring bitmap calls containers (`roaring`, `roaring_encode`) are blocks here, all of one kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Buffer: TypeAlias = "bytes | memoryview"

BLOCK_BITS = 1 << 16
BLOCK_BYTES = BLOCK_BITS // 8
BATCH = 256
"""Blocks handled at once where temporary arrays are larger than the blocks: 2 MiB of bits stay in the cache."""
DENSE_PER_BLOCK = BLOCK_BYTES // 8
"""From this many positions per block on, scattering bytes and packing them beats setting single bits (measured)."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """The present containers as bits.

    Attributes:
        keys: int64, ascending: the block holds positions ``key * 65536 .. key * 65536 + 65535``.
        bits: uint8 of shape (number of blocks, 8192): position ``i`` of a block is bit ``i & 7`` of byte ``i >> 3``.
        counts: int64: bits set in each block, never 0.
        positions: int64, ascending: the positions of all bits, if they are few and known.
    """

    keys: I64
    bits: U8
    counts: I64
    positions: I64 | None = None

    def __post_init__(self) -> None:
        for array in (self.keys, self.bits, self.counts):
            array.setflags(write=False)

    @property
    def end(self) -> int:
        """The greatest position plus one; 0 when there is none."""
        if not self.keys.size:
            return 0
        if self.positions is not None:
            return int(self.positions[-1]) + 1
        last = int(np.flatnonzero(self.bits[-1])[-1])
        return int(self.keys[-1]) * BLOCK_BITS + last * 8 + int(self.bits[-1, last]).bit_length()

    def mask(self, length: int, *, value: bool) -> Bools:
        """Returns a boolean for each of the positions 0 .. length - 1: `value` where the bit is set."""
        if self.positions is None:
            packed = self.packed(length)
            return unpack(packed if value else ~packed, length)
        found = np.full(length, not value)
        found[self.positions] = value
        return found

    def packed(self, length: int) -> U8:
        """Returns the bits of positions 0 .. length - 1, as `packbits(bitorder="little")` does; may share memory."""
        size = (length + 7) // 8
        in_place = self.bits.reshape(-1)
        if in_place.size >= size and (size == 0 or int(self.keys[-1]) == self.keys.size - 1):
            return in_place[:size]
        out = np.zeros((-(-length // BLOCK_BITS), BLOCK_BYTES), np.uint8)
        out[self.keys] = self.bits
        return out.reshape(-1)[:size]


def bit_counts(bits: U8) -> I64:
    """Counts the bits set in each row of a uint8 matrix whose row length is a multiple of 8."""
    counts: I64 = np.bitwise_count(bits.view(np.uint64)).sum(axis=1, dtype=np.int64)
    return counts


def blocks_of(keys: I64, bits: U8) -> Blocks:
    """Returns blocks with their counts; empty ones are left out."""
    counts = bit_counts(bits)
    if counts.all():
        return Blocks(keys, bits, counts)
    present = counts > 0
    return Blocks(keys[present], bits[present], counts[present])


def unpack(packed: U8, count: int) -> Bools:
    """Returns a boolean per bit, lowest first: a view of numpy's unpacked bytes, which are 0 and 1 as booleans are."""
    return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)


def set_positions(bits: U8) -> I64:
    """Returns the ascending numbers of the set bits of a flat array, in time proportional to the non-zero bytes."""
    touched = np.flatnonzero(bits != 0)
    if touched.size * 2 > bits.size:
        return np.flatnonzero(unpack(bits, bits.size * 8))
    hits = np.flatnonzero(np.unpackbits(bits[touched], bitorder="little").view(np.bool_))
    positions: I64 = (touched[hits >> 3] << 3) | (hits & 7)
    return positions


def put_positions(bits: U8, positions: I64) -> None:
    """Sets these bits of a flat array whose length is a multiple of a block's."""
    if positions.size > bits.size // BLOCK_BYTES * DENSE_PER_BLOCK:
        mask = np.zeros(bits.size * 8, np.bool_)
        mask[positions] = True
        bits |= np.packbits(mask, bitorder="little")
    else:
        np.bitwise_or.at(bits, positions >> 3, np.left_shift(np.uint8(1), (positions & 7).astype(np.uint8)))


def stretches(mask: Bools) -> Iterator[tuple[int, int]]:
    """Yields the (start, stop) of every maximal run of true values."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def concatenate(parts: list[Blocks]) -> Blocks:
    """Concatenates blocks, whose keys must ascend across the parts."""
    return Blocks(
        np.concatenate([np.empty(0, np.int64), *(part.keys for part in parts)]),
        np.concatenate([np.empty((0, BLOCK_BYTES), np.uint8), *(part.bits for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)]),
    )
