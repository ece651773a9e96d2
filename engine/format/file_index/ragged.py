"""Byte strings of different lengths, back to back: for writing many keys without visiting them one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ragged:
    """Byte strings without gaps: string `i` is the `sizes[i]` bytes of `data` after the strings before it."""

    data: U8
    sizes: Ints

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def starts(self) -> Ints:
        return np.cumsum(self.sizes) - self.sizes

    def part(self, start: int, stop: int) -> Ragged:
        """Returns the strings `start` .. `stop` - 1."""
        sizes = self.sizes[start:stop]
        first = int(self.sizes[:start].sum())
        return Ragged(self.data[first : first + int(sizes.sum())], sizes)


def fixed(values: npt.NDArray[np.generic], dtype: str) -> Ragged:
    """Returns numbers as byte strings of the width and byte order of `dtype`, a numpy dtype such as ``>i4``."""
    width = np.dtype(dtype).itemsize
    return Ragged(np.ascontiguousarray(values.astype(dtype)).view(np.uint8), np.full(len(values), width, np.int64))


def gather(data: U8, starts: Ints, sizes: Ints) -> Ragged:
    """Returns the strings at these positions of `data`, in the order given."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    at = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
    return Ragged(data[at], sizes)


def take(strings: Ragged, order: Ints) -> Ragged:
    """Returns the strings at these indexes."""
    return gather(strings.data, strings.starts[order], strings.sizes[order])


def side_by_side(parts: Sequence[Ragged]) -> Ragged:
    """Concatenates row by row: string `i` is string `i` of the first part, then of the second and so on."""
    sizes = np.stack([part.sizes for part in parts], axis=1)
    pieces = sizes.reshape(-1)
    starts = (np.cumsum(pieces) - pieces).reshape(sizes.shape)
    out = np.empty(int(pieces.sum()), np.uint8)
    for column, part in enumerate(parts):
        out[np.arange(part.data.size) + np.repeat(starts[:, column] - part.starts, part.sizes)] = part.data
    return Ragged(out, sizes.sum(axis=1))
