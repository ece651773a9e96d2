"""32-bit Murmur3 over many byte strings of different lengths at once, as Paimon hashes rows.

The loops run over the words of the longest string, never over strings. uint32 arithmetic wraps as in Java.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

SEED = 42
WORD_WIDTH = 4

Ints: TypeAlias = npt.NDArray[np.int64]
UInts: TypeAlias = npt.NDArray[np.uint32]


def iterate_waves(sizes: Ints) -> Iterator[tuple[int, Ints]]:
    """Walk ragged lists in parallel: yield (0, lists with an element 0), (1, lists with an element 1) and so on.

    The work is proportional to the sum of all sizes, since lists that have ended are not visited again.
    """
    active = np.flatnonzero(sizes > 0)
    wave = 0
    while len(active):
        yield wave, active
        wave += 1
        active = active[sizes[active] > wave]


def hash_words(words: UInts, begin: Ints, count: Ints) -> npt.NDArray[np.int32]:
    """Return the hash of each string ``words[begin[i]:begin[i] + count[i]]`` of 4-byte little-endian words."""
    hashes = np.full(len(begin), SEED, np.uint32)
    for at, active in iterate_waves(count):
        hashes[active] = _mix_word(hashes[active], words[begin[active] + at])
    return _finish_hashes(hashes ^ (count * WORD_WIDTH).astype(np.uint32)).view(np.int32)


def hash_bytes(data: npt.NDArray[np.uint8], begin: Ints, size: Ints) -> npt.NDArray[np.int32]:
    """Return the hash of each string ``data[begin[i]:begin[i] + size[i]]``.

    Whole words are hashed first, then each remaining byte as a signed word.
    """
    hashes = np.full(len(begin), SEED, np.uint32)
    for at, active in iterate_waves(size // WORD_WIDTH):
        first = begin[active] + WORD_WIDTH * at
        word = sum(data[first + i].astype(np.uint32) << np.uint32(8 * i) for i in range(WORD_WIDTH))
        hashes[active] = _mix_word(hashes[active], np.asarray(word, np.uint32))
    for at, active in iterate_waves(size % WORD_WIDTH):
        left = data[begin[active] + size[active] // WORD_WIDTH * WORD_WIDTH + at]
        hashes[active] = _mix_word(hashes[active], left.view(np.int8).astype(np.int32).view(np.uint32))
    return _finish_hashes(hashes ^ size.astype(np.uint32)).view(np.int32)


def hash_name(data: bytes) -> int:
    """Return the standard Murmur3 hash of one string, with seed 0, unsigned: the remaining bytes are one word."""
    words = np.frombuffer(data[: len(data) // WORD_WIDTH * WORD_WIDTH], "<u4")
    mixed = np.zeros(1, np.uint32)
    for at in range(len(words)):
        mixed = _mix_word(mixed, words[at : at + 1])
    left = np.array([int.from_bytes(data[len(words) * WORD_WIDTH :], "little")], np.uint32)
    return int(_finish_hashes(mixed ^ _scramble_word(left) ^ np.uint32(len(data)))[0])


def _mix_word(hashes: UInts, words: UInts) -> UInts:
    """Mix one word into each hash."""
    mixed: UInts = _rotate_words(hashes ^ _scramble_word(words), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return mixed


def _scramble_word(words: UInts) -> UInts:
    scrambled: UInts = _rotate_words(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return scrambled


def _finish_hashes(hashes: UInts) -> UInts:
    """Apply the final mix, after which every bit of a hash depends on every bit of its string."""
    hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    mixed: UInts = hashes ^ hashes >> np.uint32(16)
    return mixed


def _rotate_words(words: UInts, bits: int) -> UInts:
    rotated: UInts = words << np.uint32(bits) | words >> np.uint32(32 - bits)
    return rotated
