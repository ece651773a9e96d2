"""Decoding of roaring bitmaps in the portable format to bits, 65,536 positions at a time, never one by one.

`roaring_encode` is the way back.

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

Both are decoded to `Blocks`: the keys of the containers that are present and their bits. A bitmap container *is* its
bits, so dense vectors are copied at memory speed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from morrow.engine.errors import CorruptFile
from morrow.engine.format.position_blocks import (
    BATCH,
    BLOCK_BITS,
    BLOCK_BYTES,
    I64,
    U8,
    Blocks,
    Bools,
    bit_counts,
    concatenate,
    put_positions,
    stretches,
    unpack,
)

COOKIE_NO_RUNS = 12346
COOKIE_RUNS = 12347
MIN_CONTAINERS_FOR_OFFSETS = 4
"""Below this, a bitmap with run containers carries no offsets."""
ARRAY_MAX_CARDINALITY = 4096
MAX_KEYS_32 = 1 << 16
KEY_WIDTH, COUNT_WIDTH = 4, 8
FEW_POSITIONS = 1 << 18
"""Up to so many positions of array containers are read all at once; temporary arrays are larger than the blocks."""


@dataclass
class _Reader:
    """A payload and a position in it; every read is checked against its end."""

    data: U8
    where: str
    at: int = 0

    def corrupt(self, problem: str) -> CorruptFile:
        return CorruptFile(self.where, f"roaring bitmap: {problem} (at byte {self.at})")

    def take(self, size: int, what: str) -> U8:
        if size > self.data.size - self.at:
            raise self.corrupt(f"{what} needs {size} bytes, {self.data.size - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def integer(self, width: int, what: str) -> int:
        return int.from_bytes(self.take(width, what).tobytes(), "little")

    def u16s(self, count: int, what: str) -> I64:
        return self.take(2 * count, what).view("<u2").astype(np.int64)


def read32(data: U8, *, where: str, max_end: int) -> Blocks:
    """Decodes a 32-bit bitmap that fills `data`.

    Args:
        max_end: number of positions that may exist; a container beyond it is refused before anything is allocated.

    Raises:
        CorruptFile: the bytes are not a roaring bitmap, or contradict their own cardinalities.
    """
    blocks, size = read32_prefix(data, where=where, max_end=max_end)
    if size != data.size:
        raise CorruptFile(where, f"roaring bitmap: {data.size - size} bytes follow its end")
    return blocks


def read32_prefix(data: U8, *, where: str, max_end: int) -> tuple[Blocks, int]:
    """Decodes the 32-bit bitmap at the beginning of `data`; returns it and its size in bytes. See `read32`."""
    reader = _Reader(data, where)
    return _read_containers(reader, max_end), reader.at


def read64(data: U8, *, where: str, max_end: int) -> Blocks:
    """Decodes a 64-bit bitmap that fills `data`; see `read32`."""
    reader = _Reader(data, where)
    count = reader.integer(COUNT_WIDTH, "the number of bitmaps")
    parts: list[Blocks] = []
    last = -1
    while count:  # no list of this length is allocated: with a false count the bytes end first
        upper = reader.integer(KEY_WIDTH, "the key of a bitmap")
        base = upper * BLOCK_BITS * MAX_KEYS_32
        if upper <= last or base >= max_end:
            raise reader.corrupt(f"key {upper} is not above {last}, or not below {max_end} positions")
        part = _read_containers(reader, max_end - base)
        positions = None if part.positions is None else part.positions + base
        parts.append(Blocks(part.keys + upper * MAX_KEYS_32, part.bits, part.counts, positions))
        last, count = upper, count - 1
    if reader.at != data.size:
        raise reader.corrupt(f"{data.size - reader.at} bytes follow its end")
    return parts[0] if len(parts) == 1 else concatenate(parts)


def _read_containers(reader: _Reader, max_end: int) -> Blocks:
    start = reader.at
    keys, counts, is_run = _read_header(reader)
    if keys.size and ((np.diff(keys) <= 0).any() or int(keys[-1]) * BLOCK_BITS >= max_end):
        raise reader.corrupt(f"the container keys do not ascend, or reach beyond {max_end} positions")
    offsets = None
    if not is_run.any() or keys.size >= MIN_CONTAINERS_FOR_OFFSETS:
        offsets = start + reader.take(4 * keys.size, "the container offsets").view("<u4").astype(np.int64)
    if offsets is not None and _is_sparse(counts, is_run):
        return _read_arrays(reader, keys, counts, offsets)
    is_bitmap = ~is_run & (counts > ARRAY_MAX_CARDINALITY)
    sizes = np.where(is_bitmap, BLOCK_BYTES, 2 * counts)
    _measure_runs(reader, is_run, sizes, offsets)
    ends = reader.at + np.cumsum(sizes)
    if offsets is not None:
        _check_offsets(reader, offsets, ends - sizes)
    reader.take(int(sizes.sum()), "the containers")
    bits = np.empty((keys.size, BLOCK_BYTES), np.uint8)
    for fill, chosen in ((_fill_bitmaps, is_bitmap), (_fill_runs, is_run), (_fill_arrays, ~is_bitmap & ~is_run)):
        for first, stop in stretches(chosen):
            fill(reader, bits[first:stop], counts[first:stop], int(ends[first] - sizes[first]))
    if (bit_counts(bits) != counts).any():
        raise reader.corrupt("a container does not hold as many positions as its header says")
    return Blocks(keys, bits, counts)


def _is_sparse(counts: I64, is_run: Bools) -> bool:
    """Returns whether there are array containers only, with few positions in all."""
    return (
        counts.size > 0
        and int(counts.max()) <= ARRAY_MAX_CARDINALITY
        and int(counts.sum()) <= FEW_POSITIONS
        and not is_run.any()
    )


def _read_arrays(reader: _Reader, keys: I64, counts: I64, offsets: I64) -> Blocks:
    """Reads array containers all at once, a third of the time that the general way takes for few positions."""
    sizes = 2 * counts
    _check_offsets(reader, offsets, reader.at + np.cumsum(sizes) - sizes)
    positions = reader.u16s(int(counts.sum()), "the containers")
    positions += np.repeat(np.arange(keys.size) * BLOCK_BITS, counts)
    if (positions[1:] <= positions[:-1]).any():
        raise reader.corrupt("a container does not hold as many positions as its header says, in ascending order")
    bits = np.zeros((keys.size, BLOCK_BYTES), np.uint8)
    put_positions(bits.reshape(-1), positions)
    return Blocks(keys, bits, counts, positions + np.repeat((keys - np.arange(keys.size)) * BLOCK_BITS, counts))


def _check_offsets(reader: _Reader, offsets: I64, found: I64) -> None:
    if (offsets != found).any():
        raise reader.corrupt("the container offsets contradict the container sizes")


def _read_header(reader: _Reader) -> tuple[I64, I64, Bools]:
    cookie = reader.integer(4, "the cookie")
    if cookie == COOKIE_NO_RUNS:
        size = reader.integer(4, "the number of containers")
        if size > MAX_KEYS_32:
            raise reader.corrupt(f"{size} containers, at most {MAX_KEYS_32} can exist")
        is_run = np.zeros(size, np.bool_)
    elif cookie & 0xFFFF == COOKIE_RUNS:
        size = (cookie >> 16) + 1
        is_run = unpack(reader.take((size + 7) // 8, "the run container flags"), size)
    else:
        raise reader.corrupt(f"the cookie is {cookie}, not {COOKIE_NO_RUNS} or {COOKIE_RUNS}")
    header = reader.u16s(2 * size, "the container keys")
    return header[::2], header[1::2] + 1, is_run


def _measure_runs(reader: _Reader, is_run: Bools, sizes: I64, offsets: I64 | None) -> None:
    """Puts the sizes of the run containers, which begin with their number of runs, into `sizes`."""
    runs = np.flatnonzero(is_run)
    if offsets is not None:
        at = offsets[runs]
        if (at + 2 > reader.data.size).any():
            raise reader.corrupt("a container offset points beyond the end")
        sizes[runs] = 2 + 4 * (reader.data[at].astype(np.int64) | reader.data[at + 1].astype(np.int64) << 8)
        return
    for index in runs.tolist():  # at most three containers
        at_one = reader.at + int(sizes[:index].sum())
        sizes[index] = 2 + 4 * int.from_bytes(reader.data[at_one : at_one + 2].tobytes(), "little")


def _fill_bitmaps(reader: _Reader, bits: U8, counts: I64, at: int) -> None:
    bits[:] = reader.data[at : at + counts.size * BLOCK_BYTES].reshape(bits.shape)


def _fill_arrays(reader: _Reader, bits: U8, counts: I64, at: int) -> None:
    bits[:] = 0
    for first in range(0, counts.size, BATCH):
        batch = counts[first : first + BATCH]
        stop = at + 2 * int(batch.sum())
        low = reader.data[at:stop].view("<u2").astype(np.int64)
        put_positions(
            bits[first : first + BATCH].reshape(-1), low + np.repeat(np.arange(batch.size) * BLOCK_BITS, batch)
        )
        at = stop


def _fill_runs(reader: _Reader, bits: U8, counts: I64, at: int) -> None:
    firsts, lasts = [], []
    for index in range(counts.size):
        stop = at + 2 + 4 * int.from_bytes(reader.data[at : at + 2].tobytes(), "little")
        pairs = reader.data[at + 2 : stop].view("<u2").astype(np.int64)
        first, last = pairs[::2], pairs[::2] + pairs[1::2]
        if (first[1:] <= last[:-1]).any() or (last >= BLOCK_BITS).any():
            raise reader.corrupt("the runs of a container overlap or leave it")
        firsts.append(first + index * BLOCK_BITS)
        lasts.append(last + index * BLOCK_BITS)
        at = stop
    _put_runs(bits.reshape(-1), np.concatenate(firsts), np.concatenate(lasts))


def _put_runs(bits: U8, first: I64, last: I64) -> None:
    """Overwrites all bits with these runs, ascending and apart, both ends included."""
    from_byte, to_byte = first >> 3, last >> 3
    head = np.left_shift(0xFF, first & 7) & 0xFF
    tail = np.right_shift(0xFF, 7 - (last & 7))
    # Bytes wholly inside a run: +1 after its first byte, -1 at its last one, summed up; runs never overlap.
    steps = np.zeros(bits.size + 1, np.int8)
    long = to_byte > from_byte
    np.add.at(steps, from_byte[long] + 1, 1)
    np.add.at(steps, to_byte[long], -1)
    np.cumsum(steps[:-1], dtype=np.int8, out=bits.view(np.int8))
    bits *= 0xFF
    np.bitwise_or.at(bits, from_byte, np.where(long, head, head & tail).astype(np.uint8))
    np.bitwise_or.at(bits, to_byte[long], tail[long].astype(np.uint8))
