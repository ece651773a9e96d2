"""Encoder of the ``bloom-filter`` index; `bloom_filter` describes the bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format import types as t
from morrow.engine.format.file_index.keys_encode import ColumnKeys, bits_of, spans
from morrow.engine.format.file_index.parameters import ratio, whole
from morrow.engine.format.file_index.ragged import Ragged
from morrow.engine.format.murmur import waves

U64 = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

DEFAULT_ITEMS, MOST_ITEMS = 1_000_000, 2**31 - 1
DEFAULT_FPP = 0.1
"""False positive probability."""
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_STRIPE, _WORD, _HALF = 32, 8, 4


def encode(keys: ColumnKeys, options: Mapping[str, str]) -> bytes:
    """Returns the index of a column; its size depends on ``items`` and ``fpp`` alone.

    Raises:
        InvalidArgument: a parameter out of range.
    """
    items = whole(options, "items", DEFAULT_ITEMS, least=1, most=MOST_ITEMS)
    exact = -items * math.log(ratio(options, "fpp", DEFAULT_FPP)) / (math.log(2) * math.log(2))
    size = min(int(exact), MOST_ITEMS - 8)
    size += 8 - size % 8
    functions = max(1, math.floor(size / items * math.log(2) + 0.5))
    hashes = hashes_of(keys.keys, keys.data_type)
    low, high = hashes.astype(np.uint32), (hashes >> np.uint64(32)).astype(np.uint32)
    mask = np.zeros(size, np.bool_)
    for number in range(1, functions + 1):
        combined = (low + np.uint32(number) * high).view(np.int32)
        mask[np.where(combined < 0, ~combined, combined) % size] = True
    return functions.to_bytes(4, "big") + np.packbits(mask, bitorder="little").tobytes()


def hashes_of(keys: pl.Series, data_type: t.DataType) -> U64:
    """Returns the 64-bit hash of each key."""
    return xxh64(spans(keys)) if keys.dtype == pl.Binary else mix64(bits_of(keys.to_numpy(), data_type))


def mix64(keys: Ints) -> U64:
    """Returns Thomas Wang's 64-bit integer hash; see `bloom_filter.mix64`. numpy's integers wrap as Java's do."""
    keys = ~keys + (keys << 21)
    keys = (keys ^ keys >> 24) * 265
    keys = (keys ^ keys >> 14) * 21
    keys = keys ^ keys >> 28
    hashes: U64 = (keys + (keys << 31)).view(np.uint64)
    return hashes


def xxh64(strings: Ragged) -> U64:
    """Returns XXH64 with seed 0 of each string; loops run over the words of the longest string, never over strings."""
    padded = np.concatenate([strings.data, np.zeros(_WORD, np.uint8)])
    words = np.ndarray(padded.size - _WORD + 1, "<u8", padded, strides=(1,))  # the word that begins at each byte
    at, sizes = strings.starts, strings.sizes
    hashes = _stripes(words, at, sizes) + sizes.astype(np.uint64)
    at = at + sizes // _STRIPE * _STRIPE
    for wave, active in waves(sizes % _STRIPE // _WORD):
        word = words[at[active] + _WORD * wave]
        hashes[active] = _rotate(hashes[active] ^ _round(np.zeros_like(word), word), 27) * _P1 + _P4
    at = at + sizes % _STRIPE // _WORD * _WORD
    half = np.flatnonzero(sizes % _WORD >= _HALF)
    low = words[at[half]] & np.uint64(0xFFFFFFFF)
    hashes[half] = _rotate(hashes[half] ^ low * _P1, 23) * _P2 + _P3
    at = at + sizes % _WORD // _HALF * _HALF
    for wave, active in waves(sizes % _HALF):
        byte = padded[at[active] + wave].astype(np.uint64)
        hashes[active] = _rotate(hashes[active] ^ byte * _P5, 11) * _P1
    hashes = (hashes ^ hashes >> np.uint64(33)) * _P2
    hashes = (hashes ^ hashes >> np.uint64(29)) * _P3
    return hashes ^ hashes >> np.uint64(32)


def _stripes(words: U64, at: Ints, sizes: Ints) -> U64:
    """Returns the hash state of each string after its leading stripes of four words."""
    seeds = np.array([_P1, _P2, 0, 0], np.uint64)
    seeds += np.array([_P2, 0, 0, 0], np.uint64)
    seeds -= np.array([0, 0, 0, _P1], np.uint64)
    lanes = np.repeat(seeds[:, None], len(sizes), axis=1)
    for wave, active in waves(sizes // _STRIPE):
        for lane in range(4):
            lanes[lane, active] = _round(lanes[lane, active], words[at[active] + _STRIPE * wave + _WORD * lane])
    hashes = np.full(len(sizes), _P5)
    long = np.flatnonzero(sizes >= _STRIPE)
    value = sum((_rotate(lanes[i, long], by) for i, by in enumerate((1, 7, 12, 18))), np.zeros(len(long), np.uint64))
    for lane in lanes[:, long]:
        value = (value ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    hashes[long] = value
    return hashes


def _round(lane: U64, word: U64) -> U64:
    return _rotate(lane + word * _P2, 31) * _P1


def _rotate(value: U64, by: int) -> U64:
    rotated: U64 = value << np.uint64(by) | value >> np.uint64(64 - by)
    return rotated
