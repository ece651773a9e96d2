"""What the key ranges of a section find out about the rows of its files, range by range: a byte for each row of a file
while it is in a range to come, a bit from then on.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.format.arrow_buffers import series_of
from morrow.readers.masks.bits import uniform
from morrow.readers.masks.key_ranges import KeyRange
from morrow.readers.masks.section_keys import SectionKeys

Rows = npt.NDArray[np.bool_]


def as_mask(rows: Rows, *, absent: bool) -> pl.Series | None:
    """Returns a mask; None where all rows are `absent`."""
    return None if (rows.all() if absent else not rows.any()) else series_of(rows)


class Marks:
    """A boolean for each row of each file, `blank` until it is put; threads may put at once, in ranges of their own.

    None is the mask of a file whose rows are all `absent`.
    """

    def __init__(self, keys: SectionKeys, *, blank: bool, absent: bool) -> None:
        self._blank, self._absent = blank, absent
        self._heights = [file.row_count for file in keys.files]
        self._left = Counter(number for part in keys.ranges for number in part.files)
        self._rows: dict[int, Rows] = {}
        self._masks: dict[int, pl.Series | None] = {}
        self._lock = Lock()

    def put(self, number: int, places: slice | npt.NDArray[np.integer], values: Rows) -> None:
        """Puts the values of rows of one file."""
        with self._lock:
            if number not in self._rows:
                self._rows[number] = np.full(self._heights[number], self._blank)
            rows = self._rows[number]
        rows[places] = values

    def done(self, part: KeyRange) -> None:
        """Ends a range: files that no other range is in need no more bytes."""
        with self._lock:
            self._left.subtract(part.files)
            ended = {number: self._rows.pop(number) for number in part.files if not self._left[number]}
        for number, rows in ended.items():
            self._masks[number] = as_mask(rows, absent=self._absent)

    def masks(self) -> list[pl.Series | None]:
        """Returns a mask for each file, oldest first."""
        return [self._masks[i] if i in self._masks else self._untouched(n) for i, n in enumerate(self._heights)]

    def _untouched(self, height: int) -> pl.Series | None:
        return None if self._blank == self._absent else uniform(self._blank, height)
