"""Rows of a file by the leading bits of hashes: a few are found without going through all."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.integer]
"""64-bit unsigned integers."""
Numbers = npt.NDArray[np.integer]

DIGIT_BITS = 16
"""Numbers of so many bits are sorted by counting them."""
MOST_BITS = 24
"""Bits that tell groups apart, at most."""
GROUP = 2
"""Rows of a group, about, as a power of two: more than four are seldom compared."""
ROW_BYTES = 16
"""Memory of a row: its hash, its number and its part of a start."""


class GroupedRows(msgspec.Struct, frozen=True):
    """Row numbers and their hashes, group by group; a group begins at its place in `starts`."""

    rows: Numbers
    hashes: Hashes
    starts: Numbers
    bits: int

    @classmethod
    def of(cls, hashes: Hashes) -> GroupedRows:
        bits = min(max(len(hashes).bit_length() - GROUP, 1), MOST_BITS)
        groups = _groups(hashes, bits)
        rows = np.argsort(groups.astype(np.uint16), kind="stable")
        if bits > DIGIT_BITS:
            above = (groups >> np.uint64(DIGIT_BITS)).astype(np.uint16)
            rows = rows.take(np.argsort(above.take(rows), kind="stable"))
        ends = np.cumsum(np.bincount(groups.astype(np.int64), minlength=1 << bits))
        return cls(rows.astype(np.uint32), hashes.take(rows), np.append(0, ends).astype(np.uint32), bits)

    def found(self, wanted: Hashes) -> Numbers:
        """Returns the rows, ascending, that have one of these hashes, none of which is given twice."""
        groups = _groups(wanted, self.bits).astype(np.int64)
        starts = self.starts.take(groups).astype(np.int64)
        counts = self.starts.take(groups + 1) - starts
        ends = np.cumsum(counts)
        candidates = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
        same = self.hashes.take(candidates) == np.repeat(wanted, counts)
        rows: Numbers = self.rows.take(candidates[same])
        rows.sort()
        return rows


def _groups(hashes: Hashes, bits: int) -> Numbers:
    groups: Numbers = hashes >> np.uint64(64 - bits)
    return groups
