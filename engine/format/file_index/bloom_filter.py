"""The ``bloom-filter`` index, which shows whether a value may be in the file, and its encoder.

Layout: ``i32 number of hash functions`` (big-endian), then the bits; bit `i` is ``i & 7`` of byte ``i >> 3``.

A value is hashed to 64 bits. The halves give the bits to test: ``(low + i * high) mod number of bits``, `i` from 1.
Integers, and values stored as integers, are hashed with Thomas Wang's mix, text and binary with XXH64 (seed 0).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format import types as t
from morrow.engine.format.binary_row_encoder import iterate_waves
from morrow.engine.format.file_index.data_output import Cursor, Ragged
from morrow.engine.format.file_index.keys import ColumnKeys, Key, Keys, to_bits, to_ragged, to_total_order
from morrow.engine.format.file_index.parameters import read_ratio, read_whole_number
from morrow.engine.format.file_index.row_sets import ALL, NONE, IndexResult

NAME = "bloom-filter"
UNSUPPORTED = (t.BooleanType, t.DecimalType)
MAX_HASH_FUNCTIONS = 2048
"""Maximum number of hash functions. Paimon uses -log2(false positive rate), about 1,100 for the smallest double."""
_MASK32, _MASK64 = 2**32 - 1, 2**64 - 1
_FLOAT_WIDTHS: dict[type[t.DataType], int] = {t.FloatType: 32, t.DoubleType: 64}


def is_supported(data_type: t.DataType) -> bool:
    return not isinstance(data_type, UNSUPPORTED)


@dataclass(frozen=True)
class BloomFilter:
    """The bits of a filter, and the type that determines the hash function."""

    hash_functions: int
    bits: memoryview
    data_type: t.DataType

    def evaluate(self, op: str, literals: Sequence[Keys]) -> IndexResult:
        """Return `NONE` if none of the literals of ``=`` or ``IN`` is in the file, otherwise `ALL`."""
        if op not in ("=", "IN") or any(self.may_contain(key) for keys in literals for key in keys):
            return ALL
        return NONE

    def may_contain(self, key: Key) -> bool:
        """Return False only if no row of the file has this key."""
        hashed = hash_key(key, self.data_type)
        low, high = hashed & _MASK32, hashed >> 32
        size = len(self.bits) * 8
        for i in range(1, self.hash_functions + 1):
            combined = (low + i * high) & _MASK32
            position = (combined if combined < 2**31 else combined ^ _MASK32) % size  # Java flips negative numbers
            if not self.bits[position >> 3] >> (position & 7) & 1:
                return False
        return True


def read(cursor: Cursor, data_type: t.DataType) -> BloomFilter:
    """Read the index. Raises `CorruptFile`: no bits, or an impossible number of hash functions."""
    functions = cursor.i32()
    bits = cursor.rest(cursor.at).data
    if not 1 <= functions <= MAX_HASH_FUNCTIONS or not len(bits):
        raise cursor.corrupt(f"a bloom filter of {functions} hash functions and {len(bits)} bytes")
    return BloomFilter(functions, bits, data_type)


def hash_key(key: Key, data_type: t.DataType) -> int:
    """Return the 64-bit hash of a key, unsigned."""
    if isinstance(key, bytes):
        return hash_bytes(key)
    width = _FLOAT_WIDTHS.get(type(data_type))
    return hash_integer(to_total_order(key, width) if width else key)


def hash_integer(key: int) -> int:
    """Return Thomas Wang's 64-bit integer hash, with arithmetic (sign-keeping) right shifts, as Java's ``>>``."""
    key = _to_signed(~key + (key << 21))
    key ^= key >> 24
    key = _to_signed(key * 265)
    key ^= key >> 14
    key = _to_signed(key * 21)
    key ^= key >> 28
    return (key + (key << 31)) & _MASK64


def _to_signed(value: int) -> int:
    return ((value + 2**63) & _MASK64) - 2**63


_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def hash_bytes(data: bytes) -> int:
    """Return XXH64 with seed 0; only literals are hashed, so plain Python is fast enough."""
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


U64 = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

DEFAULT_ITEMS, MAX_ITEMS = 1_000_000, 2**31 - 1
DEFAULT_FPP = 0.1
"""False positive probability."""
_WORD_P1, _WORD_P2, _WORD_P3 = (
    np.uint64(0x9E3779B185EBCA87),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
)
_WORD_P4, _WORD_P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_STRIPE, _WORD, _HALF = 32, 8, 4


def encode(keys: ColumnKeys, options: Mapping[str, str]) -> bytes:
    """Return the index of a column; its size depends only on ``items`` and ``fpp``.

    Raises `InvalidArgument`: a parameter out of range.
    """
    items = read_whole_number(options, "items", DEFAULT_ITEMS, least=1, most=MAX_ITEMS)
    exact = -items * math.log(read_ratio(options, "fpp", DEFAULT_FPP)) / (math.log(2) * math.log(2))
    size = min(int(exact), MAX_ITEMS - 8)
    size += 8 - size % 8
    functions = max(1, math.floor(size / items * math.log(2) + 0.5))
    hashes = hash_keys(keys.keys, keys.data_type)
    low, high = hashes.astype(np.uint32), (hashes >> np.uint64(32)).astype(np.uint32)
    mask = np.zeros(size, np.bool_)
    for number in range(1, functions + 1):
        combined = (low + np.uint32(number) * high).view(np.int32)
        mask[np.where(combined < 0, ~combined, combined) % size] = True
    return functions.to_bytes(4, "big") + np.packbits(mask, bitorder="little").tobytes()


def hash_keys(keys: pl.Series, data_type: t.DataType) -> U64:
    """Return the 64-bit hash of each key."""
    return (
        hash_strings(to_ragged(keys)) if keys.dtype == pl.Binary else hash_integers(to_bits(keys.to_numpy(), data_type))
    )


def hash_integers(keys: Ints) -> U64:
    """Return Thomas Wang's 64-bit integer hash, like `hash_integer`. numpy integers wrap as in Java."""
    keys = ~keys + (keys << 21)
    keys = (keys ^ keys >> 24) * 265
    keys = (keys ^ keys >> 14) * 21
    keys = keys ^ keys >> 28
    hashes: U64 = (keys + (keys << 31)).view(np.uint64)
    return hashes


def hash_strings(strings: Ragged) -> U64:
    """Return XXH64 with seed 0 of each string; loops run over the words of the longest string, never over strings."""
    padded = np.concatenate([strings.data, np.zeros(_WORD, np.uint8)])
    words = np.ndarray(padded.size - _WORD + 1, "<u8", padded, strides=(1,))  # the word that begins at each byte
    at, sizes = strings.starts, strings.sizes
    hashes = _hash_stripes(words, at, sizes) + sizes.astype(np.uint64)
    at = at + sizes // _STRIPE * _STRIPE
    for wave, active in iterate_waves(sizes % _STRIPE // _WORD):
        word = words[at[active] + _WORD * wave]
        hashes[active] = (
            _rotate_words(hashes[active] ^ _round_words(np.zeros_like(word), word), 27) * _WORD_P1 + _WORD_P4
        )
    at = at + sizes % _STRIPE // _WORD * _WORD
    half = np.flatnonzero(sizes % _WORD >= _HALF)
    low = words[at[half]] & np.uint64(0xFFFFFFFF)
    hashes[half] = _rotate_words(hashes[half] ^ low * _WORD_P1, 23) * _WORD_P2 + _WORD_P3
    at = at + sizes % _WORD // _HALF * _HALF
    for wave, active in iterate_waves(sizes % _HALF):
        byte = padded[at[active] + wave].astype(np.uint64)
        hashes[active] = _rotate_words(hashes[active] ^ byte * _WORD_P5, 11) * _WORD_P1
    hashes = (hashes ^ hashes >> np.uint64(33)) * _WORD_P2
    hashes = (hashes ^ hashes >> np.uint64(29)) * _WORD_P3
    return hashes ^ hashes >> np.uint64(32)


def _hash_stripes(words: U64, at: Ints, sizes: Ints) -> U64:
    """Return the hash state of each string after its leading stripes of four words."""
    seeds = np.array([_WORD_P1, _WORD_P2, 0, 0], np.uint64)
    seeds += np.array([_WORD_P2, 0, 0, 0], np.uint64)
    seeds -= np.array([0, 0, 0, _WORD_P1], np.uint64)
    lanes = np.repeat(seeds[:, None], len(sizes), axis=1)
    for wave, active in iterate_waves(sizes // _STRIPE):
        for lane in range(4):
            lanes[lane, active] = _round_words(lanes[lane, active], words[at[active] + _STRIPE * wave + _WORD * lane])
    hashes = np.full(len(sizes), _WORD_P5)
    long = np.flatnonzero(sizes >= _STRIPE)
    value = sum(
        (_rotate_words(lanes[i, long], by) for i, by in enumerate((1, 7, 12, 18))), np.zeros(len(long), np.uint64)
    )
    for lane in lanes[:, long]:
        value = (value ^ _round_words(np.zeros_like(lane), lane)) * _WORD_P1 + _WORD_P4
    hashes[long] = value
    return hashes


def _round_words(lane: U64, word: U64) -> U64:
    return _rotate_words(lane + word * _WORD_P2, 31) * _WORD_P1


def _rotate_words(value: U64, by: int) -> U64:
    rotated: U64 = value << np.uint64(by) | value >> np.uint64(64 - by)
    return rotated
