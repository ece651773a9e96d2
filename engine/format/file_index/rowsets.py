"""The common part of `bitmap`, `bsi` and `range-bitmap`: sets of rows, and the operators built on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Protocol

import numpy as np

from morrow.engine.format.file_index.cursor import Cursor
from morrow.engine.format.file_index.keys import Key, Keys
from morrow.engine.format.file_index.result import ALL, IndexResult, Packed, rows
from morrow.engine.format.roaring import read32, read32_prefix


class RowSets(Protocol):
    """An index that gives sets of rows. All sets are packed to `row_count` bits and hold no null rows."""

    @property
    def row_count(self) -> int: ...

    def present(self) -> Packed:
        """Returns the rows that are not null."""

    def equal(self, key: Key) -> Packed:
        """Returns the rows with this key."""

    def below(self, key: Key) -> Packed | None:
        """Returns the rows with a smaller key; None if the index is not ordered."""


def empty(row_count: int) -> Packed:
    return np.zeros((row_count + 7) // 8, np.uint8)


def complement(packed: Packed, row_count: int) -> Packed:
    """Returns the rows that are not in `packed`; the bits after the last row stay 0."""
    out = ~packed
    if row_count % 8:
        out[-1] &= (1 << row_count % 8) - 1
    return out


def read_rows(cursor: Cursor, row_count: int) -> Packed:
    """Reads a roaring bitmap of rows that fills `cursor`.

    Raises:
        CorruptFile: not a roaring bitmap, or it has a row that the file does not have.
    """
    blocks = read32(np.frombuffer(cursor.data, np.uint8), where=cursor.where, max_end=row_count)
    if blocks.end > row_count:
        raise cursor.corrupt(f"row {blocks.end - 1} of {row_count} rows")
    return blocks.packed(row_count)


def take_rows(cursor: Cursor, row_count: int) -> Packed:
    """Reads a roaring bitmap of rows that begins at the cursor, and moves the cursor behind it. See `read_rows`."""
    data = np.frombuffer(cursor.data[cursor.at :], np.uint8)
    blocks, size = read32_prefix(data, where=cursor.where, max_end=row_count)
    cursor.take(size)
    if blocks.end > row_count:
        raise cursor.corrupt(f"row {blocks.end - 1} of {row_count} rows")
    return blocks.packed(row_count)


def evaluate(index: RowSets, op: str, literals: Sequence[Keys]) -> IndexResult:
    """Evaluates an operator; `ALL` if it needs an order that the index does not have, or no index supports it."""
    answer = _OPERATORS.get(op)
    packed = answer(index, literals) if answer else None
    return ALL if packed is None else rows(packed, index.row_count)


def _listed(index: RowSets, literals: Sequence[Keys]) -> Packed:
    found = (index.equal(key) for keys in literals for key in keys)
    return reduce(np.bitwise_or, found, empty(index.row_count))


def _unlisted(index: RowSets, literals: Sequence[Keys]) -> Packed:
    # Java's bitmap index keeps null rows here; SQL does not, and fewer rows are read.
    return index.present() & ~_listed(index, literals)


def _less(index: RowSets, literals: Sequence[Keys]) -> Packed | None:
    return index.below(literals[0][0])


def _less_or_equal(index: RowSets, literals: Sequence[Keys]) -> Packed | None:
    greatest = literals[0][-1]
    below = index.below(greatest)
    return None if below is None else below | index.equal(greatest)


def _greater(index: RowSets, literals: Sequence[Keys]) -> Packed | None:
    others = _less_or_equal(index, literals)
    return None if others is None else index.present() & ~others


def _greater_or_equal(index: RowSets, literals: Sequence[Keys]) -> Packed | None:
    others = _less(index, literals)
    return None if others is None else index.present() & ~others


_OPERATORS: Mapping[str, Callable[[RowSets, Sequence[Keys]], Packed | None]] = {
    "=": _listed,
    "IN": _listed,
    "!=": _unlisted,
    "NOT IN": _unlisted,
    "<": _less,
    "<=": _less_or_equal,
    ">": _greater,
    ">=": _greater_or_equal,
    "IS NULL": lambda index, _: complement(index.present(), index.row_count),
    "IS NOT NULL": lambda index, _: index.present(),
}
