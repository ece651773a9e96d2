"""Masks as bits, the first row in the lowest one, and masks that are filled range by range.

`MaskBuilder` collects the results for a section's rows, key range by key range. It takes a byte per row of a file until
all ranges of the file are merged, and a bit per row from then on.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.format.arrow_buffers import make_series, to_series
from morrow.readers.masks.key_ranges import KeyRange
from morrow.readers.masks.section_keys import SectionKeys


def pack_mask(mask: pl.Series | None) -> bytes | None:
    """Return a mask as bits."""
    return None if mask is None else np.packbits(mask.to_numpy(), bitorder="little").tobytes()


def unpack_mask(bits: bytes | None, rows: int) -> pl.Series | None:
    """Return the mask of `rows` rows that `pack_mask` packed."""
    if bits is None:
        return None
    return to_series(pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)]))


def make_uniform_mask(value: bool, rows: int) -> pl.Series:
    """Return a mask of `rows` rows with the same value; `pl.repeat` would run a query."""
    data = np.full(-(-rows // 8), 255 * value, np.uint8)
    return to_series(pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(data)]))


Rows = npt.NDArray[np.bool_]


def to_mask(rows: Rows, *, absent: bool) -> pl.Series | None:
    """Return the rows as a mask; None if all rows are `absent`."""
    return None if (rows.all() if absent else not rows.any()) else make_series(rows)


class MaskBuilder:
    """A builder of one boolean per row of each file, `blank` until it is set; threads may set disjoint ranges at once.

    The mask of a file whose rows are all `absent` is None.
    """

    def __init__(self, keys: SectionKeys, *, blank: bool, absent: bool) -> None:
        self._blank, self._absent = blank, absent
        self._heights = [file.row_count for file in keys.files]
        self._left = Counter(number for part in keys.ranges for number in part.files)
        self._rows: dict[int, Rows] = {}
        self._masks: dict[int, pl.Series | None] = {}
        self._lock = Lock()

    def put(self, number: int, places: slice | npt.NDArray[np.integer], values: Rows) -> None:
        """Set the values of rows of one file."""
        with self._lock:
            if number not in self._rows:
                self._rows[number] = np.full(self._heights[number], self._blank)
            rows = self._rows[number]
        rows[places] = values

    def done(self, part: KeyRange) -> None:
        """Finish a range: files that no unfinished range touches are packed to bits."""
        with self._lock:
            self._left.subtract(part.files)
            ended = {number: self._rows.pop(number) for number in part.files if not self._left[number]}
        for number, rows in ended.items():
            self._masks[number] = to_mask(rows, absent=self._absent)

    def masks(self) -> list[pl.Series | None]:
        """Return a mask for each file, oldest first."""
        return [self._masks[i] if i in self._masks else self._untouched(n) for i, n in enumerate(self._heights)]

    def _untouched(self, height: int) -> pl.Series | None:
        return None if self._blank == self._absent else make_uniform_mask(self._blank, height)
