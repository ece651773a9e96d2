"""Roaring bitmaps in the portable format, as bits in blocks of 65,536 row positions.


A 32-bit bitmap (RoaringFormatSpec, little-endian throughout; `n` containers in ascending key order)::

    without run containers                   with run containers
    u32  12346                               u16  12347
    u32  n                                   u16  n - 1
                                             u8[(n + 7) / 8]  bit i set: container i is a run container
    n x (u16 key, u16 cardinality - 1)       the same
    n x  u32 offset of container             only if n >= 4
    n x  container                           the same

Container `key` holds the low 16 bits of the positions ``key * 65536 + low``:

* array  (cardinality <= 4096): u16[cardinality], ascending
* bitmap (cardinality > 4096): 8,192 bytes, bit `low & 7` of byte `low >> 3`
* run: u16 number of runs, then (u16 first, u16 length - 1) each, ascending and apart

A 64-bit bitmap is ``u64 count`` and then, in ascending key order, ``u32 key`` (the upper 32 bits) and a 32-bit bitmap.

pyroaring checks the bytes, returns positions if there are few rows, and finds the smallest containers. The containers
of many rows are copied: a bitmap container *is* the bits of a block (`bench/test_dv_codec.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile

if TYPE_CHECKING:
    from pyroaring import BitMap

COOKIE_NO_RUNS = 12346
COOKIE_RUNS = 12347
MIN_CONTAINERS_FOR_OFFSETS = 4
"""Below this number of containers, a bitmap with run containers does not have offsets."""
ARRAY_MAX_CARDINALITY = 4096
MAX_KEYS_32 = 1 << 16
KEY_WIDTH, COUNT_WIDTH = 4, 8
MAX_POSITIONS = 1 << 18
"""Maximum positions that pyroaring returns as numbers. They fill four containers, so larger bitmaps have offsets."""


def read_bitmap32(data: U8, *, where: str, max_end: int) -> Blocks:
    """Decode a 32-bit bitmap that fills `data`.

    `max_end`: limit of positions; a position beyond is refused before memory is allocated for it.

    Raises `CorruptFile`: the bytes are not a roaring bitmap, or contradict its cardinalities.
    """
    blocks, size = read_bitmap32_prefix(data, where=where, max_end=max_end)
    if size != data.size:
        raise CorruptFile(where, f"roaring bitmap: {data.size - size} bytes follow its end")
    return blocks


def read_bitmap32_prefix(data: U8, *, where: str, max_end: int) -> tuple[Blocks, int]:
    """Decode the 32-bit bitmap at the beginning of `data`; return it and its size in bytes. See `read_bitmap32`."""
    from pyroaring import BitMap

    try:
        bitmap = BitMap.deserialize(data.tobytes())
    except (ValueError, IndexError) as error:
        raise CorruptFile(where, f"roaring bitmap: {str(error)[:1].lower()}{str(error)[1:]}") from error
    canonical = np.frombuffer(bitmap.serialize(), np.uint8)
    if not np.array_equal(data[: canonical.size], canonical):
        raise CorruptFile(where, "roaring bitmap: its header contradicts its containers")
    if bitmap and bitmap.max() // BLOCK_BITS * BLOCK_BITS >= max_end:
        raise CorruptFile(where, f"roaring bitmap: position {bitmap.max()} is beyond {max_end} positions")
    return _pack_positions(bitmap) if len(bitmap) <= MAX_POSITIONS else _copy_containers(canonical), canonical.size


def read_bitmap64(data: U8, *, where: str, max_end: int) -> Blocks:
    """Decode a 64-bit bitmap that fills `data`; see `read_bitmap32`. It may have empty 32-bit bitmaps, as in Java."""
    count = int.from_bytes(data[:COUNT_WIDTH].tobytes(), "little")
    parts: list[Blocks] = []
    at, last = COUNT_WIDTH, -1
    while count and at + KEY_WIDTH <= data.size:
        upper = int.from_bytes(data[at : at + KEY_WIDTH].tobytes(), "little")
        base = upper * BLOCK_BITS * MAX_KEYS_32
        if upper <= last or base >= max_end:
            raise CorruptFile(
                where, f"roaring bitmap: key {upper} is not above {last}, or not below {max_end} positions"
            )
        part, size = read_bitmap32_prefix(data[at + KEY_WIDTH :], where=where, max_end=max_end - base)
        positions = None if part.positions is None else part.positions + base
        parts.append(Blocks(part.keys + upper * MAX_KEYS_32, part.bits, part.counts, positions))
        at, last, count = at + KEY_WIDTH + size, upper, count - 1
    if count or at != data.size:
        raise CorruptFile(where, f"roaring bitmap: {count} bitmaps are missing after byte {at} of {data.size}")
    return parts[0] if len(parts) == 1 else concat_blocks(parts)


def write_bitmap32(blocks: Blocks) -> bytes:
    """Encode a 32-bit bitmap.

    Run containers are used if they are smaller, as with Java's `runOptimize`, so equal sets have equal bytes.
    """
    from pyroaring import BitMap

    bodies = [
        bits.tobytes() if count > ARRAY_MAX_CARDINALITY else set_positions(bits).astype("<u2").tobytes()
        for bits, count in zip(blocks.bits, blocks.counts.tolist())
    ]
    sizes = np.array([len(body) for body in bodies], np.int64)
    head = np.array([COOKIE_NO_RUNS, len(bodies)], "<u4").tobytes()
    head += np.stack([blocks.keys, blocks.counts - 1], axis=1).astype("<u2").tobytes()
    offsets = len(head) + 4 * sizes.size + np.cumsum(sizes) - sizes
    bitmap = BitMap.deserialize(b"".join([head, offsets.astype("<u4").tobytes(), *bodies]))
    bitmap.run_optimize()
    return bitmap.serialize()


def write_bitmap64(blocks: Blocks) -> bytes:
    """Encode a 64-bit bitmap; see `write_bitmap32`."""
    uppers = blocks.keys >> 16
    edges = [*np.flatnonzero(np.diff(uppers, prepend=-1)).tolist(), uppers.size]
    parts = [(len(edges) - 1).to_bytes(COUNT_WIDTH, "little")]
    for first, stop in pairwise(edges):
        part = Blocks(blocks.keys[first:stop] % MAX_KEYS_32, blocks.bits[first:stop], blocks.counts[first:stop])
        parts += [int(uppers[first]).to_bytes(KEY_WIDTH, "little"), write_bitmap32(part)]
    return b"".join(parts)


def _pack_positions(bitmap: BitMap) -> Blocks:
    positions: I64 = np.asarray(bitmap.to_array()).astype(np.int64)
    starts = np.flatnonzero(np.diff(positions >> 16, prepend=-1))
    keys = positions[starts] >> 16
    counts = np.diff(starts, append=positions.size)
    bits = np.zeros((keys.size, BLOCK_BYTES), np.uint8)
    put_positions(bits.reshape(-1), positions - np.repeat((keys - np.arange(keys.size)) * BLOCK_BITS, counts))
    return Blocks(keys, bits, counts, positions)


def _copy_containers(data: U8) -> Blocks:
    """Return the bits of a bitmap with offsets, which pyroaring has checked."""
    cookie, size = data[:8].view("<u4").tolist()
    is_run, at = np.zeros(size, np.bool_), 8
    if cookie != COOKIE_NO_RUNS:
        size = (cookie >> 16) + 1
        at = 4 + (size + 7) // 8
        is_run = unpack(data[4:at], size)
    header = data[at : at + 4 * size].copy().view("<u2").astype(np.int64)
    offsets = data[at + 4 * size : at + 8 * size].copy().view("<u4").tolist()
    keys, counts = header[::2], header[1::2] + 1
    bits = np.zeros((size, BLOCK_BYTES), np.uint8)
    for block, start, count, has_runs in zip(bits, offsets, counts.tolist(), is_run.tolist()):
        if has_runs:
            runs = data[start + 2 : start + 2 + 4 * int.from_bytes(data[start : start + 2].tobytes(), "little")]
            block[:] = _pack_runs(runs.copy().view("<u2").astype(np.int64))
        elif count > ARRAY_MAX_CARDINALITY:
            block[:] = data[start : start + BLOCK_BYTES]
        else:
            put_positions(block, data[start : start + 2 * count].copy().view("<u2").astype(np.int64))
    return Blocks(keys, bits, counts)


def _pack_runs(pairs: I64) -> U8:
    steps = np.zeros(BLOCK_BITS + 1, np.int8)
    np.add.at(steps, pairs[::2], 1)
    np.add.at(steps, pairs[::2] + pairs[1::2] + 1, -1)
    return np.packbits(np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_), bitorder="little")


U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BLOCK_BITS = 1 << 16
BLOCK_BYTES = BLOCK_BITS // 8
BATCH = 256
"""Blocks processed at once if temporary arrays are larger than the blocks: 2 MiB of bits stay in the CPU cache."""
DENSE_PER_BLOCK = BLOCK_BYTES // 8
"""Positions per block from which scattering and packing bytes is faster than setting single bits (measured)."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """The present containers as bits.

    Attributes:
        keys: int64, ascending: the block holds positions ``key * 65536 .. key * 65536 + 65535``.
        bits: uint8 of shape (number of blocks, 8192): position ``i`` of a block is bit ``i & 7`` of byte ``i >> 3``.
        counts: int64: bits set in each block, never 0.
        positions: int64, ascending: the positions of all set bits, if they are few and known.
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
        """The maximum position plus one; 0 if the set is empty."""
        if not self.keys.size:
            return 0
        if self.positions is not None:
            return int(self.positions[-1]) + 1
        last = int(np.flatnonzero(self.bits[-1])[-1])
        return int(self.keys[-1]) * BLOCK_BITS + last * 8 + int(self.bits[-1, last]).bit_length()

    def mask(self, length: int, *, value: bool) -> Bools:
        """Return a boolean for each position 0 .. length - 1: `value` if the bit is set."""
        if self.positions is None:
            packed = self.packed(length)
            return unpack(packed if value else ~packed, length)
        found = np.full(length, not value)
        found[self.positions] = value
        return found

    def packed(self, length: int) -> U8:
        """Return the bits of positions 0 .. length - 1, as `packbits(bitorder="little")` does; may share memory."""
        size = (length + 7) // 8
        in_place = self.bits.reshape(-1)
        if in_place.size >= size and (size == 0 or int(self.keys[-1]) == self.keys.size - 1):
            return in_place[:size]
        out = np.zeros((-(-length // BLOCK_BITS), BLOCK_BYTES), np.uint8)
        out[self.keys] = self.bits
        return out.reshape(-1)[:size]


_BITS_OF_BYTES: U8 = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


def count_ones(words: npt.NDArray[np.unsignedinteger]) -> U8:
    """Return counts of set bits: of each word, with numpy 1 of each byte."""
    counts: U8 = np.bitwise_count(words) if hasattr(np, "bitwise_count") else _BITS_OF_BYTES[words.view(np.uint8)]
    return counts


def count_bits(bits: U8) -> I64:
    """Count the bits set in each row of a uint8 matrix whose row length is a multiple of 8."""
    counts: I64 = count_ones(bits.view(np.uint64)).sum(axis=1, dtype=np.int64)
    return counts


def build_blocks(keys: I64, bits: U8) -> Blocks:
    """Return blocks with their counts; empty blocks are left out."""
    counts = count_bits(bits)
    if counts.all():
        return Blocks(keys, bits, counts)
    present = counts > 0
    return Blocks(keys[present], bits[present], counts[present])


def unpack(packed: U8, count: int) -> Bools:
    """Return a boolean per bit, lowest first: a view of numpy's unpacked bytes, which are 0 and 1 like booleans."""
    return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)


def set_positions(bits: U8) -> I64:
    """Return the ascending positions of the set bits of a flat array, in time proportional to the non-zero bytes."""
    touched = np.flatnonzero(bits != 0)
    if touched.size * 2 > bits.size:
        return np.flatnonzero(unpack(bits, bits.size * 8))
    hits = np.flatnonzero(np.unpackbits(bits[touched], bitorder="little").view(np.bool_))
    positions: I64 = (touched[hits >> 3] << 3) | (hits & 7)
    return positions


def put_positions(bits: U8, positions: I64) -> None:
    """Set these bits of a flat array, whose length is a multiple of the block size."""
    if positions.size > bits.size // BLOCK_BYTES * DENSE_PER_BLOCK:
        mask = np.zeros(bits.size * 8, np.bool_)
        mask[positions] = True
        bits |= np.packbits(mask, bitorder="little")
    else:
        np.bitwise_or.at(bits, positions >> 3, np.left_shift(np.uint8(1), (positions & 7).astype(np.uint8)))


def concat_blocks(parts: list[Blocks]) -> Blocks:
    """Concatenate blocks, whose keys must ascend across the parts."""
    return Blocks(
        np.concatenate([np.empty(0, np.int64), *(part.keys for part in parts)]),
        np.concatenate([np.empty((0, BLOCK_BYTES), np.uint8), *(part.bits for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)]),
    )
