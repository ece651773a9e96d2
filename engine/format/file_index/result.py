"""The result of evaluating a comparison with a file index: unknown, no row, or the rows that may match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile
from morrow.engine.format.position_blocks import unpack

Packed = npt.NDArray[np.uint8]
"""Row `i` is bit ``i & 7`` of byte ``i >> 3``; the bits after the last row are 0."""


@dataclass(frozen=True, eq=False)
class IndexResult:
    """`ALL`, `NONE`, or a set of rows; combine with ``&`` and ``|``.

    Attributes:
        packed: the rows of the data file that may match, deleted ones included; None when the index cannot tell.
        row_count: rows of the data file; 0 for `ALL` and `NONE`, which hold for any file.
    """

    packed: Packed | None
    row_count: int = 0

    @property
    def is_all(self) -> bool:
        """Whether the index cannot tell: every row must be read."""
        return self.packed is None

    @property
    def is_none(self) -> bool:
        """Whether no row can match: the file need not be opened."""
        return self.packed is not None and not self.row_count

    def mask(self, row_count: int) -> npt.NDArray[np.bool_]:
        """Returns a boolean per row, true where it may match.

        Raises:
            CorruptFile: the index was built over another number of rows.
        """
        if self.packed is None or not self.row_count:
            return np.full(row_count, self.is_all)
        if self.row_count != row_count:
            raise _row_counts_differ(self.row_count, row_count)
        return unpack(self.packed, row_count)

    def positions(self) -> npt.NDArray[np.int64] | None:
        """Returns the rows that may match, ascending; None for `ALL`."""
        return None if self.packed is None else np.flatnonzero(self.mask(self.row_count))

    def __and__(self, other: IndexResult) -> IndexResult:
        if self.packed is None or other.is_none:
            return other
        if other.packed is None or self.is_none:
            return self
        if self.row_count != other.row_count:
            raise _row_counts_differ(self.row_count, other.row_count)
        return rows(self.packed & other.packed, self.row_count)

    def __or__(self, other: IndexResult) -> IndexResult:
        if self.packed is None or other.is_none:
            return self
        if other.packed is None or self.is_none:
            return other
        if self.row_count != other.row_count:
            raise _row_counts_differ(self.row_count, other.row_count)
        return rows(self.packed | other.packed, self.row_count)

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
        return f"{int(np.bitwise_count(self.packed).sum())} of {self.row_count} rows"


ALL = IndexResult(None)
NONE = IndexResult(np.zeros(0, np.uint8))


def rows(packed: Packed, row_count: int) -> IndexResult:
    """Returns the result for these rows; `NONE` when there are none."""
    return IndexResult(packed, row_count) if packed.any() else NONE


def _row_counts_differ(one: int, other: int) -> CorruptFile:
    return CorruptFile("file index", f"one index is about {one} rows, the other (or the data file) about {other}")
