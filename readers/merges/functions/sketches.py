"""Aggregate functions hll_sketch and theta_sketch: unions of Apache DataSketches with the bytes of Paimon's Java.

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

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.plugins import require_extra
from morrow.readers.merges.functions.base import Aggregator, Make, make_corrupt_value
from morrow.readers.merges.functions.bitmaps import make_union

THETA_LG_K = 12
"""The size of Java's default theta union: it keeps at most 4096 hashes."""
THETA_LONGS_MASK = 0x3F
THETA_HEAD_BYTES = 24
THETA_FAMILY, UPDATE, COMPACT = 2, 2, 3
THETA_COMPACT_FLAGS = 0x1A
"""Read-only, compact, ordered."""
THETA_P = slice(12, 16)
NO_SAMPLING = np.float32(1).tobytes()
"""p, the sampling probability of a sketch: the C++ library leaves it 0, Java writes 1 in each result."""
THETA_EMPTY = bytes.fromhex("01030300001e0000")
"""The image without hashes: Java writes no hash of the seed."""
THETA_FLAGS, THETA_IS_EMPTY, THETA_SINGLE_ITEM = 5, 0x04, 0x20


@contextmanager
def _translate_errors(function: str) -> Iterator[None]:
    """Turn errors of the library about bytes into a `CorruptValue`."""
    try:
        yield
    except (ValueError, IndexError, RuntimeError, MemoryError) as error:  # BadImage, and translated C++ exceptions
        raise make_corrupt_value(function, f"it is no sketch: {error}") from error


def merge_hll(first: bytes, second: bytes, *, function: str) -> bytes:
    """Return the union at lg k of `second`, or less, as a compact HLL_4 image.

    Raises:
        CorruptValue: the bytes are not an HLL sketch.
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

    Raises:
        CorruptValue: the bytes are not a theta sketch, or the sketch was made with another seed.
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
