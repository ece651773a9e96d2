"""Deletion vectors: the dead row positions of a data file. `deletion_index` reads and writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile, InvalidArgument
from morrow.engine.format.position_blocks import (
    BATCH,
    BLOCK_BITS,
    BLOCK_BYTES,
    DENSE_PER_BLOCK,
    Blocks,
    bit_counts,
    blocks_of,
    put_positions,
    set_positions,
)

MAX_POSITIONS_64 = 2**40
"""Without a row count to check against, a position beyond this is taken for damage: no data file has 10^12 rows."""

Positions = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Packed = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class DeletionVector:
    """A set of dead row positions, held as bits in blocks of 65,536 rows; blocks without dead rows are absent.

    Attributes:
        blocks: the bits; read-only.
        where: file and offset of the vector, for messages.
    """

    blocks: Blocks
    where: str = "deletion vector"

    @classmethod
    def from_positions(cls, positions: npt.ArrayLike) -> DeletionVector:
        """Makes a vector from dead positions: any integer array, in any order, repeated or not.

        Raises:
            InvalidArgument: a position is negative or not an integer.
        """
        array = np.asarray(positions)
        if array.size == 0:
            return EMPTY
        if array.dtype.kind not in "iu" or int(array.min()) < 0 or int(array.max()) >= MAX_POSITIONS_64:
            raise InvalidArgument(f"dead positions must be integers from 0 to {MAX_POSITIONS_64 - 1}")
        flat = array.astype(np.int64, copy=False).reshape(-1)
        blocks_spanned = int(flat.max() >> 16) + 1
        if flat.size > blocks_spanned * DENSE_PER_BLOCK:
            mask = np.zeros(blocks_spanned * BLOCK_BITS, np.bool_)
            mask[flat] = True
            return cls.from_mask(mask)
        keys, block = _block_numbers(flat >> 16)
        bits = np.zeros((keys.size, BLOCK_BYTES), np.uint8)
        put_positions(bits.reshape(-1), block * BLOCK_BITS + (flat & (BLOCK_BITS - 1)))
        return cls(Blocks(keys, bits, bit_counts(bits)))

    @classmethod
    def from_mask(cls, dead: Mask) -> DeletionVector:
        """Makes a vector from a boolean per row, true where the row is dead.

        Raises:
            InvalidArgument: not a one-dimensional boolean array.
        """
        if dead.dtype != np.bool_ or dead.ndim != 1:
            raise InvalidArgument(f"a mask is a one-dimensional boolean array, not {dead.dtype} of shape {dead.shape}")
        return cls.from_packed(np.packbits(dead, bitorder="little"))

    @classmethod
    def from_packed(cls, dead: Packed) -> DeletionVector:
        """Makes a vector from packed bits: position `i` is bit ``i & 7`` of byte ``i >> 3``."""
        count = -(-dead.size // BLOCK_BYTES)
        bits = (
            np.zeros((count, BLOCK_BYTES), np.uint8)
            if dead.size % BLOCK_BYTES
            else dead.reshape(count, BLOCK_BYTES).copy()
        )
        bits.reshape(-1)[: dead.size] = dead
        return cls(blocks_of(np.arange(count, dtype=np.int64), bits))

    @property
    def cardinality(self) -> int:
        """The number of dead rows."""
        return int(self.blocks.counts.sum())

    def packed(self, row_count: int) -> Packed:
        """Returns the dead bits of rows 0 .. row_count - 1, eight a byte, lowest bit first; read-only where shared."""
        self.check_rows(row_count)
        return self.blocks.packed(row_count)

    def dead(self, row_count: int) -> Mask:
        """Returns a boolean per row of the file, true where it is dead.

        Raises:
            CorruptFile: a dead position is not below `row_count`: the vector belongs to another file.
        """
        self.check_rows(row_count)
        return self.blocks.mask(row_count, value=True)

    def live(self, row_count: int) -> Mask:
        """Returns a boolean per row of the file, true where it is not dead. See `dead` for the error."""
        self.check_rows(row_count)
        return self.blocks.mask(row_count, value=False)

    def positions(self) -> Positions:
        """Returns the dead positions, ascending, as uint64."""
        out = np.empty(self.cardinality, np.uint64)
        done = 0
        for first in range(0, self.blocks.keys.size, BATCH):
            hits = set_positions(self.blocks.bits[first : first + BATCH].reshape(-1))
            keys = self.blocks.keys[first : first + BATCH]
            hits += ((keys - np.arange(keys.size)) * BLOCK_BITS)[hits >> 16]
            out[done : done + hits.size] = hits
            done += hits.size
        return out

    def union(self, other: DeletionVector) -> DeletionVector:
        """Returns the vector of the rows dead in either; both must be of the same data file."""
        keys = np.union1d(self.blocks.keys, other.blocks.keys)
        bits = np.zeros((keys.size, BLOCK_BYTES), np.uint8)
        bits[np.searchsorted(keys, self.blocks.keys)] = self.blocks.bits
        bits[np.searchsorted(keys, other.blocks.keys)] |= other.blocks.bits
        return DeletionVector(Blocks(keys, bits, bit_counts(bits)))

    def check_rows(self, row_count: int) -> None:
        if row_count < 0:
            raise InvalidArgument(f"a file has no {row_count} rows")
        if self.blocks.end > row_count:
            raise CorruptFile(
                self.where, f"row {self.blocks.end - 1} is marked deleted in a data file of {row_count} rows"
            )

    def __len__(self) -> int:
        return self.cardinality

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeletionVector):
            return NotImplemented
        return np.array_equal(self.blocks.keys, other.blocks.keys) and np.array_equal(
            self.blocks.bits, other.blocks.bits
        )

    def __hash__(self) -> int:
        return hash((self.blocks.keys.tobytes(), self.blocks.counts.tobytes()))


EMPTY = DeletionVector(Blocks(np.empty(0, np.int64), np.empty((0, BLOCK_BYTES), np.uint8), np.empty(0, np.int64)))
"""The vector without dead rows."""


def _block_numbers(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the distinct keys, ascending, and the index of each input key among them; linear where keys are dense."""
    top = int(keys.max()) + 1
    if top > keys.size:
        return np.unique(keys, return_inverse=True)
    present = np.zeros(top, np.bool_)
    present[keys] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[keys]
