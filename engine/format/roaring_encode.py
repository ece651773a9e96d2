"""Encoding of roaring bitmaps in the portable format; `roaring` shows its bytes and decodes them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from morrow.engine.format.position_blocks import (
    BATCH,
    BLOCK_BYTES,
    I64,
    U8,
    U64,
    Blocks,
    Bools,
    Buffer,
    set_positions,
)
from morrow.engine.format.roaring import (
    ARRAY_MAX_CARDINALITY,
    COOKIE_NO_RUNS,
    COOKIE_RUNS,
    COUNT_WIDTH,
    KEY_WIDTH,
    MAX_KEYS_32,
    MIN_CONTAINERS_FOR_OFFSETS,
)


def write32(blocks: Blocks) -> list[Buffer]:
    """Encodes a 32-bit bitmap, as buffers to be written one after the other.

    A container is a run container where that is smaller, as in Java's `runOptimize`: equal sets have equal bytes.
    """
    runs = _run_counts(blocks)
    is_run = runs > 0
    is_array = ~is_run & (blocks.counts <= ARRAY_MAX_CARDINALITY)
    sizes = np.where(is_run, 2 + 4 * runs, np.where(is_array, 2 * blocks.counts, BLOCK_BYTES))
    parts = _write_header(blocks, is_run, sizes)
    kinds = is_run * 2 + is_array
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), kinds.size] if kinds.size else []
    for first, stop in pairwise(edges):
        _WRITERS[int(kinds[first])](parts, blocks.bits[first:stop], runs[first:stop])
    return parts


def write64(blocks: Blocks) -> list[Buffer]:
    """Encodes a 64-bit bitmap, as buffers to be written one after the other."""
    uppers = blocks.keys >> 16
    edges = [*np.flatnonzero(np.diff(uppers, prepend=-1)).tolist(), uppers.size]
    parts: list[Buffer] = [(len(edges) - 1).to_bytes(COUNT_WIDTH, "little")]
    for first, stop in pairwise(edges):
        part = Blocks(blocks.keys[first:stop] % MAX_KEYS_32, blocks.bits[first:stop], blocks.counts[first:stop])
        parts += [int(uppers[first]).to_bytes(KEY_WIDTH, "little"), *write32(part)]
    return parts


def _write_header(blocks: Blocks, is_run: Bools, sizes: I64) -> list[Buffer]:
    size = blocks.keys.size
    if is_run.any():
        head = (COOKIE_RUNS | (size - 1) << 16).to_bytes(4, "little") + np.packbits(is_run, bitorder="little").tobytes()
    else:
        head = COOKIE_NO_RUNS.to_bytes(4, "little") + size.to_bytes(4, "little")
    head += np.stack([blocks.keys, blocks.counts - 1], axis=1).astype("<u2").tobytes()
    if not is_run.any() or size >= MIN_CONTAINERS_FOR_OFFSETS:
        begin = len(head) + 4 * size
        head += (begin + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
    return [head]


def _write_bitmaps(parts: list[Buffer], bits: U8, _runs: I64) -> None:
    parts.append(bits.reshape(-1).data)


def _write_arrays(parts: list[Buffer], bits: U8, _runs: I64) -> None:
    batches = (bits[first : first + BATCH].reshape(-1) for first in range(0, len(bits), BATCH))
    parts.extend(set_positions(batch).astype("<u2").tobytes() for batch in batches)


def _write_runs(parts: list[Buffer], bits: U8, runs: I64) -> None:
    for first in range(0, len(bits), BATCH):
        words = bits[first : first + BATCH].view(np.uint64)
        starts = set_positions(_run_starts(words).view(np.uint8).reshape(-1))
        lasts = set_positions(_run_lasts(words).view(np.uint8).reshape(-1))
        pairs = np.stack([starts, lasts - starts], axis=1).astype("<u2")
        stops = np.cumsum(runs[first : first + BATCH])
        for count, run_pairs in zip(runs[first : first + BATCH].tolist(), np.split(pairs, stops[:-1]), strict=True):
            parts.append(count.to_bytes(2, "little") + run_pairs.tobytes())


_WRITERS = {0: _write_bitmaps, 1: _write_arrays, 2: _write_runs}


def _run_starts(words: U64) -> U64:
    """Returns the set bits whose lower neighbour in the row is not set."""
    carried: U64 = words << np.uint64(1)
    carried[:, 1:] |= words[:, :-1] >> np.uint64(63)
    np.bitwise_not(carried, out=carried)
    np.bitwise_and(carried, words, out=carried)
    return carried


def _run_lasts(words: U64) -> U64:
    """Returns the set bits whose upper neighbour in the row is not set."""
    carried: U64 = words >> np.uint64(1)
    carried[:, :-1] |= words[:, 1:] << np.uint64(63)
    np.bitwise_not(carried, out=carried)
    np.bitwise_and(carried, words, out=carried)
    return carried


def _run_counts(blocks: Blocks) -> I64:
    """Counts the runs of each block where a run container is the smallest, 0 elsewhere.

    Counting runs takes several passes over the bits; the first quarter of a block already rules out most blocks.
    """
    limit = (np.minimum(2 * blocks.counts, BLOCK_BYTES) - 3) // 4  # most runs with 2 + 4 * runs < the other size
    runs = np.zeros(blocks.keys.size, np.int64)
    words = blocks.bits.view(np.uint64)
    for first in range(0, runs.size, BATCH):
        batch = slice(first, first + BATCH)
        quarter = words[batch, : words.shape[1] // 4]
        maybe = np.flatnonzero(np.bitwise_count(_run_starts(quarter)).sum(axis=1, dtype=np.int64) <= limit[batch])
        whole = np.bitwise_count(_run_starts(words[batch][maybe])).sum(axis=1, dtype=np.int64)
        runs[first + maybe] = np.where(whole <= limit[batch][maybe], whole, 0)
    return runs
