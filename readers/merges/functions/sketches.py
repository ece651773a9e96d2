"""Aggregate functions that unite sets stored as bytes: roaring bitmaps (rbm32, rbm64), HLL and Theta sketches.

The unions are computed one by one, for keys with several versions only. pyroaring unites bitmaps. Equal sets have equal
bytes after `runOptimize`, as Paimon writes them.
Bytes after the last container of a 32-bit bitmap are ignored, as in Java.

Java's Roaring64Bitmap (rbm64) serializes itself, not in the portable format of 64-bit bitmaps. Little-endian; an
empty bitmap is one byte 0::

    u8   1
    u64  number of keys
    node               the root of a radix tree over the keys (the upper 48 bits of positions, big-endian, unsigned)
    u32  1             number of container arrays
    i8   -2
    u32  length of the array, then for each place
      u8  0            free, or
      u8  1, u8 layout (0 run, 1 bitmap, 2 array), u32 cardinality, the container of the portable format
    u64  number of containers
    u32  0             index of the last container array
    u32  index of the last place taken

A node, followed by its children in the order of their key bytes::

    u8 type, u16 number of children, u8 length of prefix, prefix
    0 NODE4    u8[4]    key bytes of the children, the last child's first
    1 NODE16   u8[2][8] key bytes of the children, backwards in each half
    2 NODE48   u64[32]  for each key byte the slot of its child, 255 for none, backwards in each eight
    3 NODE256  u64[4]   for each key byte one bit
    4 LEAF     u8[6] the key, u64 place of its container (no children)

The tree depends on its keys and on their insertion order, the latter in the slots of a NODE48 only. Containers are
numbered in that order too, so nothing else of the tree has to be stored to write it as Java would.

The C++ library behind `datasketches` computes the same unions; if it writes or reads less than the Java library, this
module compensates. The bytes of an HLL image are checked before they reach the library, which trusts them.

HLL, little-endian; bytes that are not listed are ignored::

    0  u8   number of 4-byte integers before the data: 2, 3 or 10 by mode
    1  u8   1, the version
    2  u8   7, the family
    3  u8   lg k
    4  u8   lg of the length of the hash table
    5  u8   flags: 8 compact (tables without free places), 16 out of order
    6  u8   LIST: number of coupons; HLL: the least value, to which those of HLL_4 are added
    7  u8   mode: 0 LIST, 1 SET, 2 HLL; from bit 2: 0 HLL_4, 1 HLL_6, 2 HLL_8

    LIST   8  u32[] coupons
    SET    8  u32 number of coupons, u32[] coupons or a hash table of them, 0 where it is free
    HLL    8  3 x f64, u32 number of least values, u32 number of exceptions,
              k values of 4, 6 or 8 bits, then the exceptions of HLL_4, as coupons

A coupon is a slot (26 bits) and, above, the value there (6 bits, not 0). 15 as a value of HLL_4 means an exception.

Theta: byte 0 has in its low 6 bits the number of 8-byte longs before the hashes, byte 2 is the family (2 update,
3 compact). Of the longs: 0 ends in the hash of the seed (u16), 1 is u32 number of hashes and f32 p, 2 is u64 theta.
An update sketch has always three and then a hash table of u64, 0 where it is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.roaring_bitmaps import ARRAY_MAX_CARDINALITY, COOKIE_NO_RUNS, COOKIE_RUNS
from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.plugins import require_extra
from morrow.readers.merges.functions.base import (
    VALUE,
    Aggregator,
    Cursor,
    Make,
    State,
    combine_non_null,
    make_corrupt_value,
)

if TYPE_CHECKING:
    from pyroaring import BitMap


def merge_bitmaps32(first: bytes, second: bytes, *, function: str) -> bytes:
    """Unite both bitmaps, as Java's `RoaringBitmap.or`, `runOptimize` and `serialize` write the result.

    Raises `CorruptValue`: the bytes are not such a bitmap. Bytes after its end are ignored, as in Java.
    """
    united = read_bitmap32(first, function=function) | read_bitmap32(second, function=function)
    united.run_optimize()
    return united.serialize()


def read_bitmap32(data: bytes, *, function: str) -> BitMap:
    """Decode a bitmap. Raises `CorruptValue`."""
    from pyroaring import BitMap

    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise make_corrupt_value(function, f"it is not a roaring bitmap: {error}") from error


EMPTY, NOT_EMPTY = b"\x00", b"\x01"
KEY_BYTES = 6
BITMAP_BYTES = 8192
NODE4, NODE16, NODE48, NODE256, LEAF = range(5)
CAPACITY = {NODE4: 4, NODE16: 16, NODE48: 48, NODE256: 256}
BODY_BYTES = {NODE4: 4, NODE16: 16, NODE48: 256, NODE256: 32}
NO_SLOT = 255
NOT_TRIMMED = (-2).to_bytes(1, "little", signed=True)

HEAD_OF_RUNS = COOKIE_RUNS.to_bytes(4, "little") + b"\x01" + bytes(2)
"""Header of a portable bitmap with a single run container, up to its cardinality."""
HEAD = COOKIE_NO_RUNS.to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(2)
"""Header of a portable bitmap with a single container without runs, up to its cardinality."""
OFFSET = (len(HEAD) + 6).to_bytes(4, "little")
"""The offset of the container: it follows `HEAD`, the cardinality, and this offset."""


class Layout(IntEnum):
    """The layout of a container."""

    RUN = 0
    BITMAP = 1
    ARRAY = 2


@dataclass
class Bitmap64:
    """The indexes of containers by key (6 bytes each), and the containers by index (None if the slot is free).

    A container is a bitmap of the low 16 bits of its positions.

    `used` is the number of slots that were ever taken; later slots are spare.
    """

    places: dict[bytes, int]
    containers: list[BitMap | None]
    used: int

    def unite(self, other: Bitmap64) -> None:
        """Add all positions of `other`; new containers take slots in the order of their keys."""
        for key in sorted(other.places):
            container = other.containers[other.places[key]]
            assert container is not None
            place = self.places.get(key)
            if place is None:
                self._append(key, container)
                continue
            mine = self.containers[place]
            assert mine is not None
            self.containers[place] = mine | container

    def _append(self, key: bytes, container: BitMap) -> None:
        """Append a container; the array grows by half, as Java's does."""
        size = len(self.containers)
        if self.used == size:
            self.containers += [None] * max(size // 2, 1)
        self.containers[self.used] = container
        self.places[key] = self.used
        self.used += 1


def merge_bitmaps64(first: bytes, second: bytes, *, function: str) -> bytes:
    """Unite both bitmaps, as Java's `Roaring64Bitmap.or`, `runOptimize` and `serialize` write the result.

    Raises `CorruptValue`: the bytes are not such a bitmap.
    """
    bitmap = read_bitmap64(first, function=function)
    bitmap.unite(read_bitmap64(second, function=function))
    return write_bitmap64(bitmap)


def read_bitmap64(data: bytes, *, function: str) -> Bitmap64:
    """Decode a bitmap; bytes after its end are ignored, as in Java. Raises `CorruptValue`."""
    cursor = Cursor(data, function)
    mark = cursor.take(1, "the first byte")
    if mark == EMPTY:
        return Bitmap64({}, [], 0)
    if mark != NOT_EMPTY:
        raise cursor.corrupt(f"the first byte is {mark[0]}, not 0 or 1 of a 64-bit roaring bitmap")
    count = cursor.integer(8, "the number of keys")
    leaves = list(_read_nodes(cursor, depth=0))
    places = dict(leaves)
    keys = list(places)
    if len(keys) != count or len(leaves) != count or sorted(keys) != keys:
        raise cursor.corrupt(f"the tree has {len(leaves)} keys, which are not the {count} ascending ones of its header")
    containers = _read_containers(cursor)
    number, _array, last = cursor.integer(8, "a count"), cursor.integer(4, "an index"), cursor.integer(4, "an index")
    taken = [place for place, container in enumerate(containers) if container is not None]
    if sorted(places.values()) != taken or number != count or not taken or not taken[-1] <= last < len(containers):
        raise cursor.corrupt(f"the {len(taken)} containers are not those of the {count} keys")
    return Bitmap64(places, containers, last + 1)


def _read_nodes(cursor: Cursor, depth: int) -> Iterator[tuple[bytes, int]]:
    """Yield the keys of a node and their container indexes; keys repeat prefixes and key bytes, which are not read."""
    kind = cursor.integer(1, "a node")
    children = cursor.integer(2, "a node")
    prefix = cursor.integer(1, "a node")
    if kind not in (*BODY_BYTES, LEAF) or depth + prefix > KEY_BYTES or (kind == LEAF) == bool(children):
        raise cursor.corrupt(f"a node of type {kind} with {children} children and a prefix of {prefix} bytes")
    cursor.take(prefix, "a prefix")
    if kind == LEAF:
        yield cursor.take(KEY_BYTES, "a key"), cursor.integer(8, "the place of a container")
        return
    cursor.take(BODY_BYTES[kind], "the key bytes of a node")
    for _ in range(children):
        yield from _read_nodes(cursor, depth + prefix + 1)


def _read_containers(cursor: Cursor) -> list[BitMap | None]:
    arrays = cursor.integer(4, "the number of container arrays")
    cursor.take(1, "the mark of a container array")
    if arrays != 1:
        raise cursor.corrupt(f"there are {arrays} container arrays, not one")
    containers: list[BitMap | None] = []
    for _ in range(cursor.integer(4, "the number of containers")):
        present = cursor.integer(1, "the mark of a container")
        if present > 1:
            raise cursor.corrupt(f"the mark of a container is {present}, not 0 or 1")
        containers.append(_read_container(cursor) if present else None)
    return containers


def _read_container(cursor: Cursor) -> BitMap:
    layout, cardinality = cursor.integer(1, "the layout of a container"), cursor.integer(4, "a cardinality")
    if layout not in tuple(Layout):
        raise cursor.corrupt(f"the layout of a container is {layout}, not 0, 1 or 2")
    if not 0 < cardinality <= 1 << 16 or (
        layout != Layout.RUN and (layout == Layout.ARRAY) != (cardinality <= ARRAY_MAX_CARDINALITY)
    ):
        raise cursor.corrupt(f"a container of layout {layout} with {cardinality} positions")
    count = (cardinality - 1).to_bytes(2, "little")
    if layout == Layout.RUN:
        runs = cursor.take(2, "the number of runs")
        body = runs + cursor.take(4 * int.from_bytes(runs, "little"), "a run container")
        container = read_bitmap32(HEAD_OF_RUNS + count + body, function=cursor.function)
    else:
        body = cursor.take(2 * cardinality if layout == Layout.ARRAY else BITMAP_BYTES, "a container")
        container = read_bitmap32(HEAD + count + OFFSET + body, function=cursor.function)
    if len(container) != cardinality:
        raise cursor.corrupt(f"a container has {len(container)} positions, its header says {cardinality}")
    return container


def write_bitmap64(bitmap: Bitmap64) -> bytes:
    """Encode the bitmap, after giving each container its smallest layout."""
    if not bitmap.places:
        return EMPTY
    count = len(bitmap.places)
    parts = [NOT_EMPTY, count.to_bytes(8, "little"), *_write_nodes(sorted(bitmap.places.items()), 0)]
    parts += [(1).to_bytes(4, "little"), NOT_TRIMMED, len(bitmap.containers).to_bytes(4, "little")]
    parts += map(_write_container, bitmap.containers)
    parts += [count.to_bytes(8, "little"), (0).to_bytes(4, "little"), (bitmap.used - 1).to_bytes(4, "little")]
    return b"".join(parts)


def _write_container(container: BitMap | None) -> bytes:
    if container is None:
        return b"\x00"
    container.run_optimize()
    data, count = container.serialize(), len(container)
    if data.startswith(HEAD_OF_RUNS):
        layout, payload = Layout.RUN, data[len(HEAD_OF_RUNS) + 2 :]
    else:
        layout = Layout.ARRAY if count <= ARRAY_MAX_CARDINALITY else Layout.BITMAP
        payload = data[len(HEAD) + 2 + len(OFFSET) :]
    return bytes((1, layout)) + count.to_bytes(4, "little") + payload


def _write_nodes(leaves: Sequence[tuple[bytes, int]], depth: int) -> Iterator[bytes]:
    """Yield the node of keys that share their first `depth` bytes, and all nodes below; `leaves` are sorted by key."""
    if len(leaves) == 1:
        [(key, place)] = leaves
        yield bytes((LEAF, 0, 0, 0)) + key + place.to_bytes(8, "little")
        return
    split = next(at for at in range(depth, KEY_BYTES) if leaves[0][0][at] != leaves[-1][0][at])
    children = {byte: list(group) for byte, group in groupby(leaves, key=lambda leaf: leaf[0][split])}
    kind = next(kind for kind, capacity in CAPACITY.items() if len(children) <= capacity)
    head = bytes((kind,)) + len(children).to_bytes(2, "little") + bytes((split - depth,))
    yield head + leaves[0][0][depth:split] + _WRITE_BODY[kind](children)
    for group in children.values():
        yield from _write_nodes(group, split + 1)


def _reverse_groups(data: bytes, group: int) -> bytes:
    """Reverse each group of `group` bytes, the digits of little-endian numbers."""
    return b"".join(data[first : first + group][::-1] for first in range(0, len(data), group))


_Children = dict[int, list[tuple[bytes, int]]]


def _write_keys4(children: _Children) -> bytes:
    return _reverse_groups(bytes(children).ljust(4, b"\x00"), 4)


def _write_keys16(children: _Children) -> bytes:
    return _reverse_groups(bytes(children).ljust(16, b"\x00"), 8)


def _write_slots48(children: _Children) -> bytes:
    """Return the slots of a NODE48.

    The children of the NODE16 that it grew from took slots by key, the others in insertion order.
    """
    came = sorted(children, key=lambda byte: min(map(itemgetter(1), children[byte])))
    order = [*sorted(came[: CAPACITY[NODE16]]), *came[CAPACITY[NODE16] :]]
    slots = bytearray([NO_SLOT]) * 256
    for slot, byte in enumerate(order):
        slots[byte] = slot
    return _reverse_groups(bytes(slots), 8)


def _write_bits256(children: _Children) -> bytes:
    mask = np.zeros(256, np.bool_)
    mask[list(children)] = True
    return np.packbits(mask, bitorder="little").tobytes()


_WRITE_BODY = {NODE4: _write_keys4, NODE16: _write_keys16, NODE48: _write_slots48, NODE256: _write_bits256}


class Union(Protocol):
    """A function that unites two values as bytes."""

    def __call__(self, first: bytes, second: bytes, *, function: str) -> bytes: ...


class BytesUnion(Aggregator):
    """The union of two values; a single value stays as it is, unparsed.

    Raises `CorruptValue` at run time if the bytes are not a value of the function.
    """

    def __init__(self, function: str, union: Union) -> None:
        self.function = function
        self.union = union

    def agg(self, state: State, new: pl.Expr) -> State:
        accumulator = state[VALUE]
        pairs = pl.struct(accumulator.alias("accumulator"), new.alias("new"))
        united = pairs.map_batches(self._unite, return_dtype=pl.Binary(), is_elementwise=True)
        return {VALUE: combine_non_null(accumulator, new, united)}

    def _unite(self, pairs: pl.Series) -> pl.Series:
        firsts, seconds = pairs.struct.field("accumulator"), pairs.struct.field("new")
        values = [
            None if first is None or second is None else self.union(first, second, function=self.function)
            for first, second in zip(firsts, seconds)
        ]
        return pl.Series(values, dtype=pl.Binary())


def make_union(union: Union) -> Callable[[AggregateCall, DataType], Aggregator]:
    """Return the factory (`Make`) of an aggregate function that unites sketches with `union`."""
    return lambda call, _kind: BytesUnion(call.function, union)


BITMAP_FUNCTIONS: Mapping[str, Make] = {"rbm32": make_union(merge_bitmaps32), "rbm64": make_union(merge_bitmaps64)}

THETA_LG_K = 12
"""The size of Java's default theta union: it keeps at most 4096 hashes."""
THETA_LONGS_MASK = 0x3F
THETA_HEAD_BYTES = 24
THETA_FAMILY, UPDATE, COMPACT = 2, 2, 3
THETA_COMPACT_FLAGS = 0x1A
"""Flags of a compact Theta sketch: read-only, compact, ordered."""
THETA_P = slice(12, 16)
NO_SAMPLING = np.float32(1).tobytes()
"""The sampling probability p of a sketch: the C++ library leaves it 0, Java writes 1 in each result."""
THETA_EMPTY = bytes.fromhex("01030300001e0000")
"""The image without hashes: Java writes no hash of the seed."""
THETA_FLAGS, THETA_IS_EMPTY, THETA_SINGLE_ITEM = 5, 0x04, 0x20


@contextmanager
def _translate_errors(function: str) -> Iterator[None]:
    """Turn errors of the library about bytes into a `CorruptValue`."""
    try:
        yield
    except (ValueError, IndexError, RuntimeError, MemoryError) as error:  # BadImage, and translated C++ exceptions
        raise make_corrupt_value(function, f"it is not a sketch: {error}") from error


def merge_hll(first: bytes, second: bytes, *, function: str) -> bytes:
    """Return the union at lg k of `second`, or less, as a compact HLL_4 image.

    Raises `CorruptValue`: the bytes are not an HLL sketch.
    """
    import datasketches as ds

    arrays = [value for value in (first, second) if is_hll_array(value)]
    if len(arrays) == 1 and arrays[0][FLAGS_AT] & OUT_OF_ORDER_FLAG:
        # Java continues the estimator that this flag turns off, the C++ library does not: so no flag here.
        united = bytearray(merge_hll(_mark_in_order(first), _mark_in_order(second), function=function))
        united[FLAGS_AT] |= OUT_OF_ORDER_FLAG
        return bytes(united)
    with _translate_errors(function):
        for value in (first, second):
            check(value)
        base, other = ds.hll_sketch.deserialize(second), ds.hll_sketch.deserialize(first)
        union = ds.hll_union(base.lg_config_k)
        union.update(base)
        if is_hll_array(first) and other.lg_config_k > base.lg_config_k:
            # Downsized separately, as in Java: when it merges a list, the C++ library omits the recount.
            smaller = ds.hll_union(base.lg_config_k)
            smaller.update(other)
            other = smaller.get_result(ds.tgt_hll_type.HLL_8)
        union.update(other)
        image: bytes = union.get_result(ds.tgt_hll_type.HLL_4).serialize_compact()
    return image


def _mark_in_order(value: bytes) -> bytes:
    if not is_hll_array(value):
        return value
    image = bytearray(value)
    image[FLAGS_AT] &= ~OUT_OF_ORDER_FLAG
    return bytes(image)


def merge_theta(first: bytes, second: bytes, *, function: str) -> bytes:
    """Return the union with 4096 nominal entries, as a compact, ordered image.

    Raises `CorruptValue`: the bytes are not a theta sketch, or the sketch was made with another seed.
    """
    import datasketches as ds

    with _translate_errors(function):
        union = ds.theta_union(THETA_LG_K)
        for value in (first, second):
            union.update(ds.compact_theta_sketch.deserialize(_compact(value)))
        result = union.get_result()
    if result.is_empty():
        return THETA_EMPTY
    image = bytearray(result.serialize())
    if image[0] & THETA_LONGS_MASK > 1:
        image[THETA_P] = NO_SAMPLING
    else:
        image[THETA_FLAGS] |= THETA_SINGLE_ITEM
    return bytes(image)


def _compact(value: bytes) -> bytes:
    """Convert an update sketch, which the library does not read, to a compact one; return others unchanged."""
    if len(value) < THETA_HEAD_BYTES or value[THETA_FAMILY] != UPDATE:
        return value
    if value[THETA_FLAGS] & THETA_IS_EMPTY:
        return THETA_EMPTY
    theta = np.frombuffer(value, "<u8", 1, THETA_HEAD_BYTES - 8)[0]
    hashes = np.frombuffer(value[: len(value) // 8 * 8], "<u8", offset=THETA_HEAD_BYTES)
    kept = np.sort(hashes[(hashes > 0) & (hashes < theta)])
    head = bytes((3, value[1], COMPACT, 0, 0, THETA_COMPACT_FLAGS)) + value[6:8]
    image: bytes = head + kept.size.to_bytes(4, "little") + NO_SAMPLING + theta.tobytes() + kept.tobytes()
    return image


def _require_library(make: Make) -> Make:
    """Refuse to make the function if its library is not installed, before any row is read."""

    def made(call: AggregateCall, dtype: DataType) -> Aggregator:
        with require_extra(f"the aggregate function {call.function}", "datasketches", "sketches"):
            import datasketches as ds

            assert ds
        return make(call, dtype)

    return made


SKETCH_FUNCTIONS: Mapping[str, Make] = {
    "hll_sketch": _require_library(make_union(merge_hll)),
    "theta_sketch": _require_library(make_union(merge_theta)),
}

HLL_VERSION, HLL_FAMILY = 1, 7
LG_K = range(4, 22)
FLAGS_AT, COMPACT_FLAG, OUT_OF_ORDER_FLAG = 5, 8, 16
LIST, SET, HLL = 0, 1, 2
HEAD_BYTES = 8
INTS = {LIST: 2, SET: 3, HLL: 10}
BITS = {0: 4, 1: 6, 2: 8}
LIST_CAPACITY = 8
MIN_SET_LG_K = 8
SLOT_BITS, MAX_VALUE = 26, 63
EXCEPTION = 15

U32 = npt.NDArray[np.uint32]


class BadImage(ValueError):
    """Error for bytes that contradict the layout or themselves."""


def is_hll_array(image: bytes) -> bool:
    """Return whether the sketch has left the modes in which it keeps coupons."""
    return len(image) >= HEAD_BYTES and image[7] & 3 == HLL


def check(image: bytes) -> None:
    """Raise `BadImage` for bytes that are not a sketch."""
    if len(image) < HEAD_BYTES:
        raise BadImage(f"{len(image)} bytes are too few")
    mode = image[7] & 3
    if mode not in INTS or (image[0], image[1], image[2]) != (INTS[mode], HLL_VERSION, HLL_FAMILY):
        raise BadImage(f"it begins with {image[:HEAD_BYTES].hex()}")
    if image[3] not in LG_K or image[7] >> 2 not in BITS or len(image) < 4 * INTS[mode]:
        raise BadImage(f"its lg k is {image[3]}, its mode {image[7]}, its length {len(image)}")
    _CHECKS[mode](_Image(image))


@dataclass(frozen=True)
class _Image:
    data: bytes

    @property
    def lg_k(self) -> int:
        return self.data[3]

    @property
    def compact(self) -> bool:
        return bool(self.data[FLAGS_AT] & COMPACT_FLAG)

    def u32(self, at: int) -> int:
        return int.from_bytes(self.data[at : at + 4], "little")

    def u32s(self, at: int, count: int) -> U32:
        if at + 4 * count > len(self.data):
            raise BadImage(f"{count} coupons at byte {at} of {len(self.data)}")
        return np.frombuffer(self.data, "<u4", count, at)

    def coupons(self, at: int, count: int) -> U32:
        """Return `count` coupons from a list, or from a hash table with a free slot."""
        if self.compact:
            found = table = self.u32s(at, count)
        else:
            table = self.u32s(at, 1 << min(self.data[4], max(LG_K)))
            found = table[table != 0]
        if found.size != count or (not self.compact and count >= table.size) or (found >> SLOT_BITS == 0).any():
            raise BadImage(f"there are {np.count_nonzero(found)} coupons, not {count}")
        return found


def _check_list(image: _Image) -> None:
    count = image.data[6]
    if count >= LIST_CAPACITY:
        raise BadImage(f"a list of {count} coupons")
    coupons = image.u32s(HEAD_BYTES, count if image.compact else LIST_CAPACITY)
    if (coupons[:count] >> SLOT_BITS == 0).any():
        raise BadImage("a coupon without value")


def _check_set(image: _Image) -> None:
    count = image.u32(8)
    if image.lg_k < MIN_SET_LG_K or 4 * count > 3 << (image.lg_k - 3):
        raise BadImage(f"a set of {count} coupons at lg k {image.lg_k}")
    image.coupons(12, count)


def _check_hll(image: _Image) -> None:
    bits = BITS[image.data[7] >> 2]
    k, begin, exceptions = 1 << image.lg_k, 4 * INTS[HLL], image.u32(36)
    size = k * bits // 8 + (bits == BITS[1])  # values of 6 bits are read two bytes at a time, hence one byte more
    if len(image.data) < begin + size or image.u32(32) > k or image.data[6] > MAX_VALUE:
        raise BadImage(f"{len(image.data)} bytes are not {k} values of {bits} bits")
    values = np.frombuffer(image.data, np.uint8, size, begin)
    if bits != BITS[0]:
        if exceptions or (bits == BITS[2] and values.max() > MAX_VALUE):
            raise BadImage(f"a value above {MAX_VALUE}")
        return
    nibbles = np.stack([values & 15, values >> 4], axis=1).reshape(-1)
    slots = np.flatnonzero(nibbles == EXCEPTION)
    if slots.size != exceptions or nibbles.max() + image.data[6] > MAX_VALUE:
        raise BadImage(f"{slots.size} values have exceptions, not {exceptions}")
    if exceptions and (np.sort(image.coupons(begin + size, exceptions) & (1 << SLOT_BITS) - 1 & k - 1) != slots).any():
        raise BadImage("the exceptions are not those of the values")


_CHECKS: Mapping[int, Callable[[_Image], None]] = {LIST: _check_list, SET: _check_set, HLL: _check_hll}
