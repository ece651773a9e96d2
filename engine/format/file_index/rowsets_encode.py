"""Sets of rows as roaring bitmaps: one set of many rows, or very many sets of a few rows each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from morrow.engine.format.file_index.ragged import Ragged, fixed, gather, side_by_side
from morrow.engine.format.position_blocks import BLOCK_BITS, BLOCK_BYTES, blocks_of
from morrow.engine.format.roaring import (
    ARRAY_MAX_CARDINALITY,
    COOKIE_NO_RUNS,
    COOKIE_RUNS,
    MIN_CONTAINERS_FOR_OFFSETS,
    write32,
)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
U8 = npt.NDArray[np.uint8]


def write_rows(rows: Ints, row_count: int) -> bytes:
    """Returns a set of rows as a roaring bitmap."""
    blocks = -(-row_count // BLOCK_BITS)
    mask = np.zeros(blocks * BLOCK_BITS, np.bool_)
    mask[rows] = True
    bits = np.packbits(mask, bitorder="little").reshape(blocks, BLOCK_BYTES)
    return write32(blocks_of(np.arange(blocks), bits))


def write_slices(rows: Ints, numbers: Ints, slices: int, row_count: int) -> Iterable[bytes]:
    """Yields for each bit, lowest first, a roaring bitmap of the `rows` in whose number it is set."""
    for bit in range(slices):
        yield write_rows(rows[(numbers >> bit & 1).astype(np.bool_)], row_count)


def write_many(sets: Ints, rows: Ints, count: int) -> Ragged:
    """Returns a roaring bitmap of each of `count` sets.

    Args:
        sets: the set of each row, ascending, none of them empty.
        rows: the rows, ascending within a set.

    Returns:
        The bitmaps in the order of the sets, byte for byte as `roaring.write32` writes each of them.
    """
    if not count:
        return Ragged(np.zeros(0, np.uint8), np.zeros(0, np.int64))
    low = rows % BLOCK_BITS
    first = _changes(sets, rows // BLOCK_BITS)  # of each container
    edges = np.append(first, len(rows))
    cardinality = np.diff(edges)
    starts = np.flatnonzero(_starts_run(low, first))  # of each run
    runs = np.diff(np.searchsorted(starts, edges))
    plain = np.where(cardinality > ARRAY_MAX_CARDINALITY, BLOCK_BYTES, 2 * cardinality)
    is_run = 2 + 4 * runs < plain
    bodies = _bodies(low, edges, starts, runs, is_run)
    owner = sets[first]
    heads = _heads(owner, rows[first] // BLOCK_BITS, cardinality, is_run, bodies.sizes, count)
    per_set = np.bincount(owner, bodies.sizes, count).astype(np.int64)
    return side_by_side([heads, Ragged(bodies.data, per_set)])


def _changes(*columns: Ints) -> Ints:
    """Returns the indexes where a new combination of values begins."""
    changed = np.zeros(len(columns[0]), np.bool_)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def _starts_run(low: Ints, first: Ints) -> Bools:
    starts = np.ones(len(low), np.bool_)
    starts[1:] = low[1:] != low[:-1] + 1
    starts[first] = True
    return starts


def _bodies(low: Ints, edges: Ints, starts: Ints, runs: Ints, is_run: Bools) -> Ragged:
    """Returns the containers of all sets, one after the other."""
    cardinality = np.diff(edges)
    is_bitmap = ~is_run & (cardinality > ARRAY_MAX_CARDINALITY)
    arrays = gather(_u16(low), 2 * edges[:-1], np.where(is_run | is_bitmap, 0, 2 * cardinality))
    lasts = np.append(starts[1:], len(low)) - 1
    pairs = _u16(np.stack([low[starts], low[lasts] - low[starts]], axis=1).reshape(-1))
    run_ends = np.cumsum(runs)
    counts = gather(_u16(runs), 2 * np.arange(len(runs)), np.where(is_run, 2, 0))
    bodies = gather(pairs, 4 * (run_ends - runs), np.where(is_run, 4 * runs, 0))
    bitmaps = np.empty((int(is_bitmap.sum()), BLOCK_BYTES), np.uint8)
    for at, container in enumerate(np.flatnonzero(is_bitmap).tolist()):  # each holds thousands of rows
        mask = np.zeros(BLOCK_BITS, np.bool_)
        mask[low[edges[container] : edges[container + 1]]] = True
        bitmaps[at] = np.packbits(mask, bitorder="little")
    return side_by_side([arrays, counts, bodies, Ragged(bitmaps.reshape(-1), np.where(is_bitmap, BLOCK_BYTES, 0))])


def _heads(owner: Ints, keys: Ints, cardinality: Ints, is_run: Bools, sizes: Ints, count: int) -> Ragged:
    """Returns the header of each bitmap: cookie, run flags, keys and cardinalities, offsets."""
    containers = np.bincount(owner, minlength=count)
    has_runs = np.bincount(owner, is_run, count) > 0
    has_offsets = ~has_runs | (containers >= MIN_CONTAINERS_FOR_OFFSETS)
    cookies = np.where(has_runs, COOKIE_RUNS | (containers - 1) << 16, COOKIE_NO_RUNS)
    table = _u16(np.stack([keys, cardinality - 1], axis=1).reshape(-1))
    flag_sizes = np.where(has_runs, (containers + 7) // 8, 0)
    head_sizes = 4 + np.where(has_runs, flag_sizes, 4) + 4 * containers + np.where(has_offsets, 4 * containers, 0)
    ends = np.cumsum(sizes)
    begin = np.cumsum(containers) - containers  # of each set's containers
    offsets = head_sizes[owner] + (ends - sizes) - (ends - sizes)[begin][owner]
    return side_by_side(
        [
            _u32(cookies),
            gather(_u32(containers).data, 4 * np.arange(count), np.where(has_runs, 0, 4)),
            _run_flags(owner, is_run, flag_sizes, begin),
            Ragged(table, 4 * containers),
            gather(_u32(offsets).data, 4 * begin, np.where(has_offsets, 4 * containers, 0)),
        ]
    )


def _run_flags(owner: Ints, is_run: Bools, sizes: Ints, begin: Ints) -> Ragged:
    """Returns a bit for each container of a set, set for run containers; sets without any have size 0."""
    flags = np.zeros(int(sizes.sum()), np.uint8)
    chosen = np.flatnonzero(is_run)
    within = chosen - begin[owner[chosen]]
    at = (np.cumsum(sizes) - sizes)[owner[chosen]] + (within >> 3)
    np.bitwise_or.at(flags, at, np.left_shift(1, within & 7).astype(np.uint8))
    return Ragged(flags, sizes)


def _u16(values: Ints) -> U8:
    return fixed(values, "<u2").data


def _u32(values: Ints) -> Ragged:
    return fixed(values, "<u4")
