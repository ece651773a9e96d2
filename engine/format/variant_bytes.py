"""Columns of byte strings as one numpy array of bytes, for codecs that read at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

LARGE_BINARY = pa.large_binary()
PADDING = bytes(16)
"""Bytes behind the data, so that a number at its end can be read with too many bytes."""


@dataclass(frozen=True)
class ByteStrings:
    """A column of byte strings: all bytes (padded), and the start and end of each row's."""

    data: Bytes
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, array: pa.Array) -> ByteStrings:
        """Return the bytes of a binary array; null is empty."""
        if array.type != pa.large_binary():
            array = array.cast(pa.large_binary())
        if array.null_count:
            array = array.fill_null(b"")
        offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1 + array.offset)[array.offset :]
        low, high = (int(offsets[0]), int(offsets[-1])) if len(array) else (0, 0)
        data = array.buffers()[2].slice(low, high - low).to_pybytes() if high > low else b""
        return cls(np.frombuffer(data + PADDING, np.uint8), offsets[:-1] - low, offsets[1:] - low)

    def unsigned(self, at: Ints, widths: Ints | int) -> Ints:
        """Return little-endian numbers of 1 to 4 bytes at these positions."""
        most, size = int(np.max(widths, initial=0)), len(self.data) - 1
        found = np.zeros(len(at), np.int64)
        for i in range(most):
            part = self.data[np.minimum(at + i, size)].astype(np.int64) << (8 * i)
            found += np.where(i < widths, part, 0)
        return found

    def fixed(self, at: Ints, dtype: str) -> npt.NDArray[Any]:
        """Return numbers of this dtype at these positions."""
        width = np.dtype(dtype).itemsize
        places = np.minimum(at[:, None] + np.arange(width), len(self.data) - 1)
        return np.ascontiguousarray(self.data[places]).view(dtype).ravel()

    def slices(self, starts: Ints, lengths: Ints, kind: pa.DataType = LARGE_BINARY) -> pa.Array:
        """Return bytes as an Arrow array of `kind`: large binary or large text."""
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(self.data[places].tobytes())]
        return pa.Array.from_buffers(kind, len(starts), buffers)


def spread(counts: Ints) -> tuple[Ints, Ints]:
    """Return for each of ``sum(counts)`` members the number of its owner and its place among the owner's members."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def scatter(parts: Sequence[tuple[Ints, pa.Array]], length: int, kind: pa.DataType) -> pa.Array:
    """Return an array of `length` values, given by their places; places that are not given are null."""
    places = np.full(length, -1, np.int64)
    start = 0
    for each, values in parts:
        places[each] = np.arange(start, start + len(values))
        start += len(values)
    values = pa.concat_arrays([pa.array([], kind), *(values for _, values in parts)])
    return values.take(pa.array(places, mask=places < 0) if (places < 0).any() else pa.array(places))
