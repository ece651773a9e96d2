"""The portable roaring format: the layouts that are read, the one that is written, and damaged files."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from pyroaring import BitMap

from morrow.engine.errors import CorruptFile
from morrow.engine.format.roaring_bitmaps import (
    Blocks,
    count_bits,
    read_bitmap32,
    read_bitmap32_prefix,
    set_positions,
    write_bitmap32,
)


def read(data: bytes, max_end: int = 2**32) -> list[int]:
    blocks = read_bitmap32(np.frombuffer(data, np.uint8), where="index-0", max_end=max_end)
    return [
        int(key) * 65536 + low
        for key, bits in zip(blocks.keys, blocks.bits, strict=True)
        for low in set_positions(bits)
    ]


def arrays(*containers: tuple[int, list[int]], offset_error: int = 0) -> bytes:
    """Build a bitmap of array containers with these keys and low positions."""
    head = struct.pack("<II", 12346, len(containers))
    head += b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in containers)
    bodies = [struct.pack(f"<{len(low)}H", *low) for _, low in containers]
    at = len(head) + 4 * len(containers) + offset_error
    offsets = [at + sum(map(len, bodies[:i])) for i in range(len(bodies))]
    return head + struct.pack(f"<{len(offsets)}I", *offsets) + b"".join(bodies)


def runs(*pairs: tuple[int, int], cardinality: int) -> bytes:
    """Build one run container from pairs of first position and length - 1."""
    body = struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", *pair) for pair in pairs)
    return struct.pack("<HHBHH", 12347, 0, 1, 0, cardinality - 1) + body


def test_array_containers() -> None:
    assert read(arrays((0, [1, 5]), (3, [7]))) == [1, 5, 3 * 65536 + 7]


def test_run_containers() -> None:
    assert read(runs((3, 0), (5, 20), cardinality=22)) == [3, *range(5, 26)]
    assert read(runs((0, 65535), cardinality=65536)) == list(range(65536))


def test_bitmap_containers() -> None:
    every_other = BitMap(range(0, 20_000, 2))

    assert read(every_other.serialize()) == list(every_other)


def test_a_bitmap_with_something_behind_it() -> None:
    data = np.frombuffer(arrays((0, [9])) + b"more", np.uint8)

    blocks, size = read_bitmap32_prefix(data, where="index-0", max_end=10)

    assert (blocks.end, size) == (10, data.size - 4)
    with pytest.raises(CorruptFile, match="4 bytes follow its end"):
        read_bitmap32(data, where="index-0", max_end=10)


def test_blocks_between_which_no_position_is_set() -> None:
    bits = np.zeros((2, 8192), np.uint8)
    bits[:, 1] = 0b100
    blocks = Blocks(np.array([0, 2]), bits, count_bits(bits))

    assert read(write_bitmap32(blocks)) == [10, 2 * 65536 + 10]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "out of bounds"),
        (struct.pack("<II", 7, 0), "could not deserialize"),
        (struct.pack("<II", 12346, 65537), "could not deserialize"),
        (struct.pack("<II", 12346, 3), "could not deserialize"),
        (arrays((1, [1]), (1, [2])), "keys not strictly increasing"),
        (arrays((2, [1]), (1, [2])), "keys not strictly increasing"),
        (arrays((0, [1]), offset_error=2), "header contradicts its containers"),
        (arrays((0, [1, 1])), "array elements not strictly increasing"),
        (arrays((0, [1, 2]))[:-1], "could not deserialize"),
        (runs((3, 0), (3, 5), cardinality=7), "run start less than last end"),
        (runs((65530, 10), cardinality=11), "start . length too large"),
        (runs((3, 4), cardinality=6), "header contradicts its containers"),
        (runs((3, 4), cardinality=5)[:9], "could not deserialize"),
    ],
)
def test_contradictions(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptFile, match=f"index-0: roaring bitmap: .*{problem}"):
        read(data)


def test_containers_beyond_the_rows_of_the_file() -> None:
    with pytest.raises(CorruptFile, match="is beyond 1000 positions"):
        read(arrays((1, [0])), max_end=1000)


# Blocks of row positions as bit sets.


def test_absent_blocks_between_others() -> None:
    bits = np.zeros((2, 8192), np.uint8)
    bits[:, 1] = 0b100
    blocks = Blocks(np.array([0, 2]), bits, count_bits(bits))

    assert set_positions(blocks.packed(200_000)).tolist() == [10, 2 * 65536 + 10]
    assert blocks.end == 2 * 65536 + 11
