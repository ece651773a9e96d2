"""Sets of rows: results of comparisons with a file index, and roaring bitmaps in indexes.

A result is unknown, empty, or the rows that may match. Sets of rows are stored as roaring bitmaps: one set of many
rows, or very many sets of a few rows each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile
from morrow.engine.format.file_index.data_output import Cursor, Ragged, concat_rows, gather, to_fixed_width
from morrow.engine.format.file_index.keys import Key, Keys
from morrow.engine.format.roaring_bitmaps import (
    ARRAY_MAX_CARDINALITY,
    BLOCK_BITS,
    BLOCK_BYTES,
    COOKIE_NO_RUNS,
    COOKIE_RUNS,
    MIN_CONTAINERS_FOR_OFFSETS,
    build_blocks,
    count_ones,
    read_bitmap32,
    read_bitmap32_prefix,
    unpack,
    write_bitmap32,
)

Packed = npt.NDArray[np.uint8]
"""Row `i` is bit ``i & 7`` of byte ``i >> 3``; the bits after the last row are 0."""


@dataclass(frozen=True, eq=False)
class IndexResult:
    """`ALL`, `NONE`, or a set of rows; combine with ``&`` and ``|``.

    Attributes:
        packed: the rows of the data file that may match, including deleted rows; None if the index cannot decide.
        row_count: rows of the data file; 0 for `ALL` and `NONE`, which hold for any file.
    """

    packed: Packed | None
    row_count: int = 0

    @property
    def is_all(self) -> bool:
        """Whether the index cannot decide, so every row must be read."""
        return self.packed is None

    @property
    def is_none(self) -> bool:
        """Whether rows cannot match, so the file need not be opened."""
        return self.packed is not None and not self.row_count

    def mask(self, row_count: int) -> npt.NDArray[np.bool_]:
        """Return a boolean per row, true if the row may match.

        Raises `CorruptFile`: the index was built over another number of rows.
        """
        if self.packed is None or not self.row_count:
            return np.full(row_count, self.is_all)
        if self.row_count != row_count:
            raise _make_count_error(self.row_count, row_count)
        return unpack(self.packed, row_count)

    def positions(self) -> npt.NDArray[np.int64] | None:
        """Return the rows that may match, ascending; None for `ALL`."""
        return None if self.packed is None else np.flatnonzero(self.mask(self.row_count))

    def __and__(self, other: IndexResult) -> IndexResult:
        if self.packed is None or other.is_none:
            return other
        if other.packed is None or self.is_none:
            return self
        if self.row_count != other.row_count:
            raise _make_count_error(self.row_count, other.row_count)
        return make_result(self.packed & other.packed, self.row_count)

    def __or__(self, other: IndexResult) -> IndexResult:
        if self.packed is None or other.is_none:
            return self
        if other.packed is None or self.is_none:
            return other
        if self.row_count != other.row_count:
            raise _make_count_error(self.row_count, other.row_count)
        return make_result(self.packed | other.packed, self.row_count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexResult):
            return NotImplemented
        if self.packed is None or other.packed is None:
            return self.is_all and other.is_all
        return self.row_count == other.row_count and np.array_equal(self.packed, other.packed)

    def __hash__(self) -> int:
        return hash((self.row_count, None if self.packed is None else self.packed.tobytes()))

    def __repr__(self) -> str:
        if self.packed is None or self.is_none:
            return "ALL" if self.is_all else "NONE"
        return f"{int(count_ones(self.packed).sum())} of {self.row_count} rows"


ALL = IndexResult(None)
NONE = IndexResult(np.zeros(0, np.uint8))


def make_result(packed: Packed, row_count: int) -> IndexResult:
    """Return the result for these rows; `NONE` if the set is empty."""
    return IndexResult(packed, row_count) if packed.any() else NONE


def _make_count_error(one: int, other: int) -> CorruptFile:
    return CorruptFile("file index", f"one index is about {one} rows, the other (or the data file) about {other}")


class RowSets(Protocol):
    """An index that returns sets of rows. All sets are packed to `row_count` bits and exclude null rows."""

    @property
    def row_count(self) -> int: ...

    def present(self) -> Packed:
        """Return the rows that are not null."""

    def equal(self, key: Key) -> Packed:
        """Return the rows with this key."""

    def below(self, key: Key) -> Packed | None:
        """Return the rows with a smaller key; None if the index is not ordered."""


def make_empty_set(row_count: int) -> Packed:
    return np.zeros((row_count + 7) // 8, np.uint8)


def invert_rows(packed: Packed, row_count: int) -> Packed:
    """Return the rows that are not in `packed`; the bits after the last row stay 0."""
    out = ~packed
    if row_count % 8:
        out[-1] &= (1 << row_count % 8) - 1
    return out


def read_rows(cursor: Cursor, row_count: int) -> Packed:
    """Read a roaring bitmap of rows that fills `cursor`.

    Raises `CorruptFile`: not a roaring bitmap, or a row is beyond the end of the file.
    """
    blocks = read_bitmap32(np.frombuffer(cursor.data, np.uint8), where=cursor.where, max_end=row_count)
    if blocks.end > row_count:
        raise cursor.corrupt(f"row {blocks.end - 1} of {row_count} rows")
    return blocks.packed(row_count)


def take_rows(cursor: Cursor, row_count: int) -> Packed:
    """Read a roaring bitmap of rows that begins at the cursor, and move the cursor past it. See `read_rows`."""
    data = np.frombuffer(cursor.data[cursor.at :], np.uint8)
    blocks, size = read_bitmap32_prefix(data, where=cursor.where, max_end=row_count)
    cursor.take(size)
    if blocks.end > row_count:
        raise cursor.corrupt(f"row {blocks.end - 1} of {row_count} rows")
    return blocks.packed(row_count)


def evaluate(index: RowSets, op: str, literals: Sequence[Keys]) -> IndexResult:
    """Evaluate an operator; return `ALL` if it needs an order that the index lacks, or is not supported."""
    answer = _OPERATORS.get(op)
    packed = answer(index, literals) if answer else None
    return ALL if packed is None else make_result(packed, index.row_count)


def _match_listed(index: RowSets, literals: Sequence[Keys]) -> Packed:
    found = (index.equal(key) for keys in literals for key in keys)
    return reduce(np.bitwise_or, found, make_empty_set(index.row_count))


def _match_unlisted(index: RowSets, literals: Sequence[Keys]) -> Packed:
    # Java's bitmap index includes null rows here; SQL does not, and this reads fewer rows.
    return index.present() & ~_match_listed(index, literals)


def _match_less(index: RowSets, literals: Sequence[Keys]) -> Packed | None:
    return index.below(literals[0][0])


def _match_less_or_equal(index: RowSets, literals: Sequence[Keys]) -> Packed | None:
    greatest = literals[0][-1]
    below = index.below(greatest)
    return None if below is None else below | index.equal(greatest)


def _match_greater(index: RowSets, literals: Sequence[Keys]) -> Packed | None:
    others = _match_less_or_equal(index, literals)
    return None if others is None else index.present() & ~others


def _match_greater_or_equal(index: RowSets, literals: Sequence[Keys]) -> Packed | None:
    others = _match_less(index, literals)
    return None if others is None else index.present() & ~others


_OPERATORS: Mapping[str, Callable[[RowSets, Sequence[Keys]], Packed | None]] = {
    "=": _match_listed,
    "IN": _match_listed,
    "!=": _match_unlisted,
    "NOT IN": _match_unlisted,
    "<": _match_less,
    "<=": _match_less_or_equal,
    ">": _match_greater,
    ">=": _match_greater_or_equal,
    "IS NULL": lambda index, _: invert_rows(index.present(), index.row_count),
    "IS NOT NULL": lambda index, _: index.present(),
}

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
U8 = npt.NDArray[np.uint8]


def write_rows(rows: Ints, row_count: int) -> bytes:
    """Return a set of rows as a roaring bitmap."""
    blocks = -(-row_count // BLOCK_BITS)
    mask = np.zeros(blocks * BLOCK_BITS, np.bool_)
    mask[rows] = True
    bits = np.packbits(mask, bitorder="little").reshape(blocks, BLOCK_BYTES)
    return write_bitmap32(build_blocks(np.arange(blocks), bits))


def write_slices(rows: Ints, numbers: Ints, slices: int, row_count: int) -> Iterable[bytes]:
    """Yield for each bit, lowest first, a roaring bitmap of the `rows` whose number has the bit set."""
    for bit in range(slices):
        yield write_rows(rows[(numbers >> bit & 1).astype(np.bool_)], row_count)


def write_many(sets: Ints, rows: Ints, count: int) -> Ragged:
    """Return a roaring bitmap of each of `count` sets.

    Args:
        sets: the set of each row, ascending; sets are not empty.
        rows: the rows, ascending within a set.

    Returns:
        The bitmaps in the order of the sets, with the same bytes as from `write_bitmap32`.
    """
    if not count:
        return Ragged(np.zeros(0, np.uint8), np.zeros(0, np.int64))
    low = rows % BLOCK_BITS
    first = _find_changes(sets, rows // BLOCK_BITS)  # first row of each container
    edges = np.append(first, len(rows))
    cardinality = np.diff(edges)
    starts = np.flatnonzero(_is_run_start(low, first))  # first row of each run
    runs = np.diff(np.searchsorted(starts, edges))
    plain = np.where(cardinality > ARRAY_MAX_CARDINALITY, BLOCK_BYTES, 2 * cardinality)
    is_run = 2 + 4 * runs < plain
    bodies = _encode_bodies(low, edges, starts, runs, is_run)
    owner = sets[first]
    heads = _encode_heads(owner, rows[first] // BLOCK_BITS, cardinality, is_run, bodies.sizes, count)
    per_set = np.bincount(owner, bodies.sizes, count).astype(np.int64)
    return concat_rows([heads, Ragged(bodies.data, per_set)])


def _find_changes(*columns: Ints) -> Ints:
    """Return the indexes at which a new combination of values begins."""
    changed = np.zeros(len(columns[0]), np.bool_)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def _is_run_start(low: Ints, first: Ints) -> Bools:
    starts = np.ones(len(low), np.bool_)
    starts[1:] = low[1:] != low[:-1] + 1
    starts[first] = True
    return starts


def _encode_bodies(low: Ints, edges: Ints, starts: Ints, runs: Ints, is_run: Bools) -> Ragged:
    """Return the containers of all sets, one after the other."""
    cardinality = np.diff(edges)
    is_bitmap = ~is_run & (cardinality > ARRAY_MAX_CARDINALITY)
    arrays = gather(_encode_u16(low), 2 * edges[:-1], np.where(is_run | is_bitmap, 0, 2 * cardinality))
    lasts = np.append(starts[1:], len(low)) - 1
    pairs = _encode_u16(np.stack([low[starts], low[lasts] - low[starts]], axis=1).reshape(-1))
    run_ends = np.cumsum(runs)
    counts = gather(_encode_u16(runs), 2 * np.arange(len(runs)), np.where(is_run, 2, 0))
    bodies = gather(pairs, 4 * (run_ends - runs), np.where(is_run, 4 * runs, 0))
    bitmaps = np.empty((int(is_bitmap.sum()), BLOCK_BYTES), np.uint8)
    for at, container in enumerate(np.flatnonzero(is_bitmap).tolist()):  # each has thousands of rows
        mask = np.zeros(BLOCK_BITS, np.bool_)
        mask[low[edges[container] : edges[container + 1]]] = True
        bitmaps[at] = np.packbits(mask, bitorder="little")
    return concat_rows([arrays, counts, bodies, Ragged(bitmaps.reshape(-1), np.where(is_bitmap, BLOCK_BYTES, 0))])


def _encode_heads(owner: Ints, keys: Ints, cardinality: Ints, is_run: Bools, sizes: Ints, count: int) -> Ragged:
    """Return the header of each bitmap: cookie, run flags, keys and cardinalities, offsets."""
    containers = np.bincount(owner, minlength=count)
    has_runs = np.bincount(owner, is_run, count) > 0
    has_offsets = ~has_runs | (containers >= MIN_CONTAINERS_FOR_OFFSETS)
    cookies = np.where(has_runs, COOKIE_RUNS | (containers - 1) << 16, COOKIE_NO_RUNS)
    table = _encode_u16(np.stack([keys, cardinality - 1], axis=1).reshape(-1))
    flag_sizes = np.where(has_runs, (containers + 7) // 8, 0)
    head_sizes = 4 + np.where(has_runs, flag_sizes, 4) + 4 * containers + np.where(has_offsets, 4 * containers, 0)
    ends = np.cumsum(sizes)
    begin = np.cumsum(containers) - containers  # first container of each set
    offsets = head_sizes[owner] + (ends - sizes) - (ends - sizes)[begin][owner]
    return concat_rows(
        [
            _encode_u32(cookies),
            gather(_encode_u32(containers).data, 4 * np.arange(count), np.where(has_runs, 0, 4)),
            _encode_run_flags(owner, is_run, flag_sizes, begin),
            Ragged(table, 4 * containers),
            gather(_encode_u32(offsets).data, 4 * begin, np.where(has_offsets, 4 * containers, 0)),
        ]
    )


def _encode_run_flags(owner: Ints, is_run: Bools, sizes: Ints, begin: Ints) -> Ragged:
    """Return a bit for each container of a set, true for run containers; sets without run containers have size 0."""
    flags = np.zeros(int(sizes.sum()), np.uint8)
    chosen = np.flatnonzero(is_run)
    within = chosen - begin[owner[chosen]]
    at = (np.cumsum(sizes) - sizes)[owner[chosen]] + (within >> 3)
    np.bitwise_or.at(flags, at, np.left_shift(1, within & 7).astype(np.uint8))
    return Ragged(flags, sizes)


def _encode_u16(values: Ints) -> U8:
    return to_fixed_width(values, "<u2").data


def _encode_u32(values: Ints) -> Ragged:
    return to_fixed_width(values, "<u4")
