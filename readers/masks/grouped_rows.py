"""Rows of a file by the leading bits of hashes: a few are found without going through all."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.integer]
"""64-bit unsigned integers."""
Numbers = npt.NDArray[np.integer]

LEADING_BITS = 16
"""Bits that tell groups apart: numbers of so few bits are sorted by counting them."""
ROW_BYTES = 12
"""Memory of a row: its hash and its number."""


class GroupedRows(msgspec.Struct, frozen=True):
    """Row numbers and their hashes, group by group; a group begins at its place in `starts`."""

    rows: Numbers
    hashes: Hashes
    starts: Numbers

    @classmethod
    def of(cls, hashes: Hashes) -> GroupedRows:
        groups = _groups(hashes)
        rows = np.argsort(groups, kind="stable").astype(np.uint32)
        ends = np.cumsum(np.bincount(groups, minlength=1 << LEADING_BITS))
        return cls(rows, hashes[rows], np.append(0, ends))

    def found(self, wanted: Hashes) -> Numbers:
        """Returns the rows, ascending, that have one of these hashes, none of which is given twice."""
        groups = _groups(wanted).astype(np.int64)
        starts = self.starts[groups]
        counts = self.starts[groups + 1] - starts
        ends = np.cumsum(counts)
        candidates = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
        same = self.hashes[candidates] == np.repeat(wanted, counts)
        rows: Numbers = self.rows[candidates[same]]
        rows.sort()
        return rows


def _groups(hashes: Hashes) -> Numbers:
    groups: Numbers = hashes >> np.uint64(64 - LEADING_BITS)
    return groups.astype(np.uint16)
