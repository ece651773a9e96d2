"""Deletion vectors, the deleted row positions of a data file, and the index files that hold them.

An index file of type ``DELETION_VECTORS``, integers big-endian::

    u8   version, 1
    per vector:
        i32  size of the payload
        payload
        u32  CRC32 of the payload

    payload = 5E 43 F2 D0 (1581511376)  32-bit roaring bitmap     positions below 2^31
            | D1 D3 39 64               64-bit roaring bitmap     `deletion-vectors.bitmap64`

The index manifest has the location of a vector, ``_DELETIONS_VECTORS_RANGES``: ``f0`` the data file, ``f1`` the
offset of the size field, ``f2`` the length, ``_CARDINALITY``. Note that ``f2`` is the size of the payload for 32-bit
vectors, but the size of the whole entry, including size field and CRC, for 64-bit vectors.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format.roaring_bitmaps import (
    BATCH,
    BLOCK_BITS,
    BLOCK_BYTES,
    DENSE_PER_BLOCK,
    Blocks,
    build_blocks,
    count_bits,
    put_positions,
    read_bitmap32,
    read_bitmap64,
    set_positions,
    write_bitmap32,
    write_bitmap64,
)

MAX_POSITIONS_64 = 2**40
"""Maximum position if the row count is unknown. A greater position counts as damage: no data file has 10^12 rows."""

Positions = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Packed = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class DeletionVector:
    """A set of deleted ("dead") row positions, as bits in blocks of 65,536 rows; blocks without dead rows are absent.

    Attributes:
        blocks: the bits; read-only.
        where: file and offset of the vector, for messages.
    """

    blocks: Blocks
    where: str = "deletion vector"

    @classmethod
    def from_positions(cls, positions: npt.ArrayLike) -> DeletionVector:
        """Make a vector from dead positions: any integer array, in any order, repeated or not.

        Raises `InvalidArgument`: a position is negative or not an integer.
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
        keys, block = _number_blocks(flat >> 16)
        bits = np.zeros((keys.size, BLOCK_BYTES), np.uint8)
        put_positions(bits.reshape(-1), block * BLOCK_BITS + (flat & (BLOCK_BITS - 1)))
        return cls(Blocks(keys, bits, count_bits(bits)))

    @classmethod
    def from_mask(cls, dead: Mask) -> DeletionVector:
        """Make a vector from a boolean per row, true for dead rows.

        Raises `InvalidArgument`: not a one-dimensional boolean array.
        """
        if dead.dtype != np.bool_ or dead.ndim != 1:
            raise InvalidArgument(f"a mask is a one-dimensional boolean array, not {dead.dtype} of shape {dead.shape}")
        return cls.from_packed(np.packbits(dead, bitorder="little"))

    @classmethod
    def from_packed(cls, dead: Packed) -> DeletionVector:
        """Make a vector from packed bits: position `i` is bit ``i & 7`` of byte ``i >> 3``."""
        count = -(-dead.size // BLOCK_BYTES)
        bits = (
            np.zeros((count, BLOCK_BYTES), np.uint8)
            if dead.size % BLOCK_BYTES
            else dead.reshape(count, BLOCK_BYTES).copy()
        )
        bits.reshape(-1)[: dead.size] = dead
        return cls(build_blocks(np.arange(count, dtype=np.int64), bits))

    @property
    def cardinality(self) -> int:
        """The number of dead rows."""
        return int(self.blocks.counts.sum())

    def packed(self, row_count: int) -> Packed:
        """Return the bits of rows 0 .. row_count - 1, eight per byte, lowest bit first; read-only if shared."""
        self.check_rows(row_count)
        return self.blocks.packed(row_count)

    def dead(self, row_count: int) -> Mask:
        """Return a boolean per row of the file, true for dead rows.

        Raises `CorruptFile`: a dead position is not below `row_count`, so the vector belongs to another file.
        """
        self.check_rows(row_count)
        return self.blocks.mask(row_count, value=True)

    def live(self, row_count: int) -> Mask:
        """Return a boolean per row of the file, false for dead rows. Raises as `dead`."""
        self.check_rows(row_count)
        return self.blocks.mask(row_count, value=False)

    def positions(self) -> Positions:
        """Return the dead positions, ascending, as uint64."""
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
        """Return the union of two vectors of the same data file."""
        keys = np.union1d(self.blocks.keys, other.blocks.keys)
        bits = np.zeros((keys.size, BLOCK_BYTES), np.uint8)
        bits[np.searchsorted(keys, self.blocks.keys)] = self.blocks.bits
        bits[np.searchsorted(keys, other.blocks.keys)] |= other.blocks.bits
        return DeletionVector(Blocks(keys, bits, count_bits(bits)))

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


def _number_blocks(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct keys, ascending, and the index of each input key among them; linear time for dense keys."""
    top = int(keys.max()) + 1
    if top > keys.size:
        return np.unique(keys, return_inverse=True)
    present = np.zeros(top, np.bool_)
    present[keys] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[keys]


INDEX_TYPE = "DELETION_VECTORS"
VERSION = 1
VERSION_WIDTH = 1
SIZE_WIDTH = 4
CRC_WIDTH = 4
MAGIC_WIDTH = 4
MAGIC32 = (1581511376).to_bytes(MAGIC_WIDTH, "big")
MAGIC64 = (1681511377).to_bytes(MAGIC_WIDTH, "little")
MAX_POSITIONS_32 = 2**31
MAX_PAYLOAD = 2**31 - 1 - SIZE_WIDTH - CRC_WIDTH


class DeletionVectorRange(NamedTuple):
    """The location of a data file's vector, as in the index manifest."""

    file_name: str
    offset: int
    length: int
    cardinality: int


def decode_vector(
    payload: bytes | memoryview, *, where: str, row_count: int | None = None, expected_cardinality: int | None = None
) -> DeletionVector:
    """Decode magic and bitmap.

    Args:
        where: file (and offset) for messages.
        row_count: rows of the data file, if known; limits positions and allocations.
        expected_cardinality: the cardinality in the index manifest, if it has one.

    Raises `CorruptFile`: unknown magic, not a roaring bitmap, positions beyond `row_count`, or another cardinality.
    """
    magic = bytes(payload[:MAGIC_WIDTH])
    bitmap = np.frombuffer(payload, np.uint8)[MAGIC_WIDTH:]
    if magic == MAGIC32:
        blocks = read_bitmap32(bitmap, where=where, max_end=2**32 if row_count is None else row_count)
    elif magic == MAGIC64:
        blocks = read_bitmap64(bitmap, where=where, max_end=MAX_POSITIONS_64 if row_count is None else row_count)
    else:
        raise CorruptFile(
            where, f"a deletion vector begins with {MAGIC32.hex()} or {MAGIC64.hex()}, not with {magic.hex()!r}"
        )
    vector = DeletionVector(blocks, where)
    if row_count is not None:
        vector.check_rows(row_count)
    if expected_cardinality is not None and vector.cardinality != expected_cardinality:
        raise CorruptFile(
            where, f"{vector.cardinality} rows are marked deleted, the index manifest says {expected_cardinality}"
        )
    return vector


def encode_vector(vector: DeletionVector, *, bitmap64: bool = False) -> bytes:
    """Encode magic and bitmap, as `decode_vector` takes them.

    Raises `InvalidArgument`: a position needs more than 31 bits and `bitmap64` is false, or the result exceeds 2 GiB.
    """
    return _encode_payload(vector, bitmap64)


def compute_entry_span(length: int) -> int:
    """Return the number of bytes from the offset that `read_entry` needs at most, for either kind of bitmap."""
    return SIZE_WIDTH + length + CRC_WIDTH


def read_entry(
    data: bytes | memoryview,
    offset: int,
    length: int,
    *,
    where: str,
    row_count: int | None = None,
    expected_cardinality: int | None = None,
    base: int = 0,
) -> DeletionVector:
    """Read and check one vector of an index file.

    Args:
        data: the index file, or the part of it that begins at byte `base`.
        offset, length: ``f1`` and ``f2`` of the index manifest.
        where: path of the index file.
        row_count, expected_cardinality: see `decode_vector`.

    Raises:
        CorruptFile: size field, magic, CRC or bitmap contradict each other or the index manifest.
        Unsupported: another version of the format.
    """
    view = memoryview(data)
    if base == 0:
        _check_version(view, where)
    spot = f"{where} (deletion vector at byte {offset})"
    at = offset - base
    if at < (VERSION_WIDTH if base == 0 else 0) or length < MAGIC_WIDTH or at + SIZE_WIDTH + MAGIC_WIDTH > len(view):
        raise CorruptFile(
            spot, f"the range of {length} bytes does not lie within the {len(view)} bytes from byte {base} on"
        )
    size = int.from_bytes(view[at : at + SIZE_WIDTH], "big", signed=True)
    start = at + SIZE_WIDTH
    framing = SIZE_WIDTH + CRC_WIDTH if view[start : start + MAGIC_WIDTH] == MAGIC64 else 0
    if size != length - framing:
        raise CorruptFile(spot, f"its size field says {size} bytes, the index manifest {length - framing}")
    if start + size + CRC_WIDTH > len(view):
        raise CorruptFile(
            spot, f"{size} bytes and a checksum do not lie within the {len(view)} bytes from byte {base} on"
        )
    payload = view[start : start + size]
    stored = int.from_bytes(view[start + size : start + size + CRC_WIDTH], "big")
    if zlib.crc32(payload) != stored:
        raise CorruptFile(spot, f"its CRC32 is {zlib.crc32(payload):08x}, the file says {stored:08x}")
    return decode_vector(payload, where=spot, row_count=row_count, expected_cardinality=expected_cardinality)


def write_index_file(
    vectors: Mapping[str, DeletionVector], bitmap64: bool = False
) -> tuple[bytes, tuple[DeletionVectorRange, ...]]:
    """Return an index file with the vector of each data file, and the ranges to store in the index manifest.

    `vectors`: the vectors by name of the data file; written in this order.

    Raises `InvalidArgument`: see `encode_vector`.
    """
    parts = [bytes([VERSION])]
    ranges = []
    offset = VERSION_WIDTH
    for file_name, vector in vectors.items():
        payload = _encode_payload(vector, bitmap64)
        size = len(payload)
        parts += [size.to_bytes(SIZE_WIDTH, "big"), payload, zlib.crc32(payload).to_bytes(CRC_WIDTH, "big")]
        entry = SIZE_WIDTH + size + CRC_WIDTH
        ranges.append(DeletionVectorRange(file_name, offset, entry if bitmap64 else size, vector.cardinality))
        offset += entry
    return b"".join(parts), tuple(ranges)


def _encode_payload(vector: DeletionVector, bitmap64: bool) -> bytes:
    if not bitmap64 and vector.blocks.end > MAX_POSITIONS_32:
        raise InvalidArgument(
            f"position {vector.blocks.end - 1} needs 64-bit deletion vectors; set deletion-vectors.bitmap64 = true"
        )
    payload = MAGIC64 + write_bitmap64(vector.blocks) if bitmap64 else MAGIC32 + write_bitmap32(vector.blocks)
    if len(payload) > MAX_PAYLOAD:
        raise InvalidArgument(
            f"a deletion vector of {len(payload)} bytes exceeds the 2 GiB of the format; compact the data file"
        )
    return payload


def _check_version(view: memoryview, where: str) -> None:
    if len(view) < VERSION_WIDTH:
        raise CorruptFile(where, "the deletion vector index file is empty")
    if view[0] != VERSION:
        raise Unsupported(
            f"version {view[0]} of deletion vector index files", where=where, hint="only version 1 is known"
        )
