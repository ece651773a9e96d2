"""64-bit roaring bitmaps as Java's ``Roaring64Bitmap`` serialises them: a radix tree over containers.

::

    not empty   1 byte, 1 (an empty bitmap is the byte 0)
    keys        8 bytes, the number of containers
    node        4 kinds of inner node, each followed by its children in order, and leaves:
                  kind 1, children 2, length of the prefix 1, the prefix,
                  then kind 0: 4 key bytes; 1: 16; 2: 256; 3: 32; 4 (leaf): 6 key bytes, 8 container number
    arrays      4 bytes, how many arrays of containers there are; each
                  mark 1, length 4, and each container
                    not null 1 byte, kind 1 (0 runs, 1 bitmap, 2 array), cardinality 4, its values as in RoaringBitmap
    end         8 containers, 4 and 4 the last one's place

Little-endian, but for the keys: the upper 48 bits of a value, most significant byte first.
"""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

LEAF = 4
KEY_BYTES = 6
NODE_BODIES = {0: 4, 1: 16, 2: 256, 3: 32}
NODE4_CHILDREN = 4
RUNS, BITMAP, ARRAY = 0, 1, 2
BITMAP_BYTES = 8192
MAX_ARRAY_VALUES = 4096
NOT_TRIMMED = -2


@dataclass(frozen=True)
class Bitmap64:
    """Containers in order: keys with the lower 16 bits of their values; `slots` is their capacity."""

    containers: dict[int, set[int]]
    slots: int

    @property
    def values(self) -> frozenset[int]:
        return frozenset((key << 16) + low for key, lows in self.containers.items() for low in lows)

    def union(self, other: Bitmap64) -> Bitmap64:
        """Return the union: new keys are appended in order, and the capacity grows by half."""
        containers, slots = {key: set(lows) for key, lows in self.containers.items()}, self.slots
        for key in sorted(other.containers):
            containers.setdefault(key, set()).update(other.containers[key])
            if len(containers) > slots:
                slots = max(slots + slots // 2, len(containers))
        return Bitmap64(containers, slots)


def bitmap64(values: Iterable[int]) -> Bitmap64:
    """Build the bitmap of these unsigned values, added one by one."""
    result = Bitmap64({}, 0)
    for value in values:
        result = result.union(Bitmap64({value >> 16: {value & 0xFFFF}}, 1))
    return result


def decode(data: bytes) -> Bitmap64:
    stream = io.BytesIO(data)
    if _read(stream, "<b") == 0:
        return Bitmap64({}, 0)
    count = _read(stream, "<q")
    key_at = {place: key for key, place in _leaves(stream)}
    assert len(key_at) == count
    arrays, mark, slots = _read(stream, "<i"), _read(stream, "<b"), _read(stream, "<i")
    assert (arrays, mark) == (1, NOT_TRIMMED)
    containers = [_container(stream) for _ in range(slots)]
    return Bitmap64({key_at[place]: containers[place] for place in sorted(key_at)}, slots)


def encode(bitmap: Bitmap64) -> bytes:
    """Encode as Java does; at most four branches are supported at each byte of a key."""
    count = len(bitmap.containers)
    if not count:
        return b"\0"
    leaves = sorted((key.to_bytes(KEY_BYTES, "big"), place) for place, key in enumerate(bitmap.containers))
    containers = b"".join(_container_bytes(lows) for lows in bitmap.containers.values())
    return (
        struct.pack("<bq", 1, count)
        + _node(leaves, 0)
        + struct.pack("<ibi", 1, NOT_TRIMMED, bitmap.slots)
        + containers.ljust(len(containers) + bitmap.slots - count, b"\0")
        + struct.pack("<qii", count, 0, count - 1)
    )


def _read(stream: io.BytesIO, layout: str) -> int:
    (value,) = struct.unpack(layout, stream.read(struct.calcsize(layout)))
    return int(value)


def _leaves(stream: io.BytesIO) -> Iterator[tuple[int, int]]:
    """Yield key and container number of each leaf below the next node."""
    kind, children, prefix = _read(stream, "<b"), _read(stream, "<H"), _read(stream, "<B")
    stream.read(prefix)
    if kind == LEAF:
        key = int.from_bytes(stream.read(KEY_BYTES), "big")
        yield key, _read(stream, "<q")
        return
    stream.read(NODE_BODIES[kind])
    for _ in range(children):
        yield from _leaves(stream)


def _container(stream: io.BytesIO) -> set[int]:
    if not _read(stream, "<b"):
        return set()
    kind, cardinality = _read(stream, "<b"), _read(stream, "<i")
    if kind == RUNS:
        runs = [(_read(stream, "<H"), _read(stream, "<H")) for _ in range(_read(stream, "<H"))]
        return {value for start, more in runs for value in range(start, start + more + 1)}
    if kind == BITMAP:
        bits = np.frombuffer(stream.read(BITMAP_BYTES), np.uint8)
        return {int(i) for i in np.flatnonzero(np.unpackbits(bits, bitorder="little"))}
    assert kind == ARRAY
    return set(struct.unpack(f"<{cardinality}H", stream.read(2 * cardinality)))


def _container_bytes(lows: set[int]) -> bytes:
    """Encode a container as an array, as a bitmap above 4,096 values, or as runs if they are shorter."""
    values = sorted(lows)
    starts = [v for v in values if v - 1 not in lows]
    ends = [v for v in values if v + 1 not in lows]
    size = min(2 * len(values), BITMAP_BYTES)
    if 2 + 4 * len(starts) < size:
        runs = b"".join(struct.pack("<HH", start, end - start) for start, end in zip(starts, ends, strict=True))
        return struct.pack("<bbiH", 1, RUNS, len(values), len(starts)) + runs
    if len(values) <= MAX_ARRAY_VALUES:
        return struct.pack(f"<bbi{len(values)}H", 1, ARRAY, len(values), *values)
    bits = np.zeros(BITMAP_BYTES * 8, np.uint8)
    bits[values] = 1
    return struct.pack("<bbi", 1, BITMAP, len(values)) + np.packbits(bits, bitorder="little").tobytes()


def _node(leaves: list[tuple[bytes, int]], depth: int) -> bytes:
    """Encode the tree of leaves whose keys share their first `depth` bytes."""
    if len(leaves) == 1:
        ((key, place),) = leaves
        return struct.pack("<bHB", LEAF, 0, 0) + key + struct.pack("<q", place)
    first, last = leaves[0][0], leaves[-1][0]
    branch = next(i for i in range(depth, KEY_BYTES) if first[i] != last[i])
    children = {byte: list(group) for byte, group in itertools.groupby(leaves, lambda leaf: leaf[0][branch])}
    assert len(children) <= NODE4_CHILDREN
    prefix = first[depth:branch]
    head = struct.pack("<bHB", 0, len(children), len(prefix)) + prefix
    body = bytes(children).ljust(NODE4_CHILDREN, b"\0")[::-1]
    return head + body + b"".join(_node(group, branch + 1) for group in children.values())
