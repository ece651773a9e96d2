"""The bytes of an HLL sketch (Apache DataSketches), checked before they reach the C++ library, which trusts them.

Little-endian; bytes that are not listed are ignored::

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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

VERSION, FAMILY = 1, 7
LG_K = range(4, 22)
FLAGS, COMPACT, OUT_OF_ORDER = 5, 8, 16
LIST, SET, HLL = 0, 1, 2
HEAD_BYTES = 8
INTS = {LIST: 2, SET: 3, HLL: 10}
BITS = {0: 4, 1: 6, 2: 8}
LIST_CAPACITY = 8
SET_LEAST_LG_K = 8
SLOT_BITS, MAX_VALUE = 26, 63
EXCEPTION = 15

U32 = npt.NDArray[np.uint32]


class BadImage(ValueError):
    """The bytes contradict the layout or themselves."""


def is_hll_array(image: bytes) -> bool:
    """Returns whether the sketch has left the modes in which it keeps coupons."""
    return len(image) >= HEAD_BYTES and image[7] & 3 == HLL


def check(image: bytes) -> None:
    """Raises `BadImage` for bytes that are no sketch."""
    if len(image) < HEAD_BYTES:
        raise BadImage(f"{len(image)} bytes are too few")
    mode = image[7] & 3
    if mode not in INTS or (image[0], image[1], image[2]) != (INTS[mode], VERSION, FAMILY):
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
        return bool(self.data[FLAGS] & COMPACT)

    def u32(self, at: int) -> int:
        return int.from_bytes(self.data[at : at + 4], "little")

    def u32s(self, at: int, count: int) -> U32:
        if at + 4 * count > len(self.data):
            raise BadImage(f"{count} coupons at byte {at} of {len(self.data)}")
        return np.frombuffer(self.data, "<u4", count, at)

    def coupons(self, at: int, count: int) -> U32:
        """Returns so many coupons from a list, or from a hash table with a free place."""
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
    if image.lg_k < SET_LEAST_LG_K or 4 * count > 3 << (image.lg_k - 3):
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
