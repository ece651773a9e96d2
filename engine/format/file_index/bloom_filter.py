"""The ``bloom-filter`` index, which tells whether a value may be in the file at all.

Layout: ``i32 number of hash functions`` (big-endian), then the bits; bit `i` is ``i & 7`` of byte ``i >> 3``.

A value is hashed to 64 bits. The halves give the bits to test: ``(low + i * high) mod number of bits``, `i` from 1.
Integers, and values kept as integers, are hashed by Thomas Wang's mix, text and binary by XXH64 with seed 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.format import types as t
from morrow.engine.format.file_index.cursor import Cursor
from morrow.engine.format.file_index.keys import Key, Keys, total_order
from morrow.engine.format.file_index.result import ALL, NONE, IndexResult

NAME = "bloom-filter"
UNSUPPORTED = (t.BooleanType, t.DecimalType)
MAX_HASH_FUNCTIONS = 2048
"""Paimon takes -log2(false positive rate) functions, at most 1,100 for the smallest double."""
_MASK32, _MASK64 = 2**32 - 1, 2**64 - 1
_FLOAT_WIDTHS: dict[type[t.DataType], int] = {t.FloatType: 32, t.DoubleType: 64}


def supports(data_type: t.DataType) -> bool:
    return not isinstance(data_type, UNSUPPORTED)


@dataclass(frozen=True)
class BloomFilter:
    """The bits of the filter, and how keys of the column are hashed."""

    hash_functions: int
    bits: memoryview
    data_type: t.DataType

    def evaluate(self, op: str, literals: Sequence[Keys]) -> IndexResult:
        """Returns `NONE` when no literal of ``=`` or ``IN`` is in the file, otherwise `ALL`."""
        if op not in ("=", "IN") or any(self.may_contain(key) for keys in literals for key in keys):
            return ALL
        return NONE

    def may_contain(self, key: Key) -> bool:
        """Returns False only if no row of the file has this key."""
        hashed = hash_of(key, self.data_type)
        low, high = hashed & _MASK32, hashed >> 32
        size = len(self.bits) * 8
        for i in range(1, self.hash_functions + 1):
            combined = (low + i * high) & _MASK32
            position = (combined if combined < 2**31 else combined ^ _MASK32) % size  # Java flips negative numbers
            if not self.bits[position >> 3] >> (position & 7) & 1:
                return False
        return True


def read(cursor: Cursor, data_type: t.DataType) -> BloomFilter:
    """Reads the index.

    Raises:
        CorruptFile: no bits, or an impossible number of hash functions.
    """
    functions = cursor.i32()
    bits = cursor.rest(cursor.at).data
    if not 1 <= functions <= MAX_HASH_FUNCTIONS or not len(bits):
        raise cursor.corrupt(f"a bloom filter of {functions} hash functions and {len(bits)} bytes")
    return BloomFilter(functions, bits, data_type)


def hash_of(key: Key, data_type: t.DataType) -> int:
    """Returns the 64-bit hash of a key, unsigned."""
    if isinstance(key, bytes):
        return xxh64(key)
    width = _FLOAT_WIDTHS.get(type(data_type))
    return mix64(total_order(key, width) if width else key)


def mix64(key: int) -> int:
    """Returns Thomas Wang's 64-bit integer hash, with arithmetic (sign-keeping) right shifts, as Java's ``>>``."""
    key = _signed(~key + (key << 21))
    key ^= key >> 24
    key = _signed(key * 265)
    key ^= key >> 14
    key = _signed(key * 21)
    key ^= key >> 28
    return (key + (key << 31)) & _MASK64


def _signed(value: int) -> int:
    return ((value + 2**63) & _MASK64) - 2**63


_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64(data: bytes) -> int:
    """Returns XXH64 with seed 0; only literals are hashed, so plain Python is fast enough."""
    at = 0
    if len(data) >= 32:
        lanes = [(_P1 + _P2) & _MASK64, _P2, 0, -_P1 & _MASK64]
        while at + 32 <= len(data):
            lanes = [_round(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)]
            at += 32
        value = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK64
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK64
    else:
        value = _P5
    value = (value + len(data)) & _MASK64
    while at + 8 <= len(data):
        value = (_rotate(value ^ _round(0, struct.unpack_from("<Q", data, at)[0]), 27) * _P1 + _P4) & _MASK64
        at += 8
    if at + 4 <= len(data):
        value = (_rotate(value ^ struct.unpack_from("<I", data, at)[0] * _P1 & _MASK64, 23) * _P2 + _P3) & _MASK64
        at += 4
    for byte in data[at:]:
        value = _rotate(value ^ byte * _P5 & _MASK64, 11) * _P1 & _MASK64
    value = (value ^ value >> 33) * _P2 & _MASK64
    value = (value ^ value >> 29) * _P3 & _MASK64
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK64, 31) * _P1 & _MASK64


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK64
