"""Space-filling curves: map rows to positions on a line that keeps rows close which are close in several columns.

Every column becomes bytes that compare as its values do, the most significant first, nulls least. Numbers, times and
BOOLEAN take 8 bytes, text and binary their first ``zorder.var-length-contribution`` (Hilbert: 8). A position is

* z-order: the bits of the columns in turns; columns of fewer bytes drop out when theirs are used up
* Hilbert: the same after Skilling's transform (J. Skilling, "Programming the Hilbert curve", 2004)

Paimon does the same except for DECIMAL (its bytes do not compare), the last bits of FLOAT and DOUBLE, and the sign of
numbers on the Hilbert curve; there Morrow keeps rows closer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.file_index.keys import KINDS, MAX_LONG_DECIMAL
from morrow.engine.format.file_index.keys_encode import column_keys, spans

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

WORD_BYTES = 8
WORD_BITS = 64
SIGN = np.uint64(1 << 63)
TEXT_BYTES = 8
"""The default of ``zorder.var-length-contribution``."""
CHUNK_ROWS = 1 << 13
"""Rows whose bits are unpacked at once: every bit takes a byte then, and all should stay in the cache."""


def check_sortable(fields: Sequence[t.DataField], where: str) -> None:
    """Refuses columns whose values have no order. Raises `Unsupported`."""
    for field in fields:
        if type(field.type) not in KINDS:
            raise Unsupported(f"sorting by the column {field.name!r} of type {field.type}", where=where)


def z_order(columns: Sequence[pl.Series], types: Sequence[t.DataType], text_bytes: int = TEXT_BYTES) -> pl.Series:
    """Returns the position of each row on the z-order curve, as Binary that compares byte by byte."""
    return _chunked(lambda parts: interleaved([_bytes(p, k, text_bytes) for p, k in zip(parts, types)]), columns)


def hilbert(columns: Sequence[pl.Series], types: Sequence[t.DataType]) -> pl.Series:
    """Returns the position of each row on the Hilbert curve, as Binary that compares byte by byte."""

    def places(parts: Sequence[pl.Series]) -> U8:
        words = [_bytes(part, kind, WORD_BYTES).view(">u8")[:, 0].astype(np.uint64) for part, kind in zip(parts, types)]
        return interleaved([word.astype(">u8").view(np.uint8).reshape(-1, WORD_BYTES) for word in transposed(words)])

    return _chunked(places, columns)


CURVES: Mapping[str, Callable[[Sequence[pl.Series], Sequence[t.DataType], int], pl.Series]] = {
    "zorder": z_order,
    "hilbert": lambda columns, types, _: hilbert(columns, types),
}


def interleaved(columns: Sequence[U8]) -> U8:
    """Interleaves the bits of matrices with a row of bytes each: all first bits, then all second bits and so on."""
    unpacked = [np.unpackbits(column, axis=1) for column in columns]
    if len({column.shape[1] for column in columns}) == 1:
        return np.packbits(np.stack(unpacked, axis=2).reshape(len(columns[0]), -1), axis=1)
    bits = np.concatenate(unpacked, axis=1)
    widths = [column.shape[1] * 8 for column in columns]
    places = [(bit, number) for number, width in enumerate(widths) for bit in range(width)]
    order = sorted(range(len(places)), key=places.__getitem__)
    return np.packbits(bits[:, order], axis=1)


def transposed(axes: Sequence[U64]) -> list[U64]:
    """Returns Skilling's transform of coordinates: the bits of the Hilbert index are those of the results in turns."""
    x = [axis.copy() for axis in axes]
    for bit in range(WORD_BITS - 1, 0, -1):
        x[0] ^= _below(x[0], bit)
        for axis in x[1:]:
            inverted = _below(axis, bit)
            swapped = (x[0] ^ axis) & (np.uint64((1 << bit) - 1) ^ inverted)
            axis ^= swapped
            x[0] ^= swapped ^ inverted
    for before, axis in pairwise(x):
        axis ^= before
    flips = np.zeros_like(x[0])
    for bit in range(WORD_BITS - 1, 0, -1):
        flips ^= _below(x[-1], bit)
    return [axis ^ flips for axis in x]


def _below(words: U64, bit: int) -> U64:
    """Returns all bits below `bit` where it is set in a word, else none."""
    is_set = words >> np.uint64(bit) & np.uint64(1)
    mask: U64 = (np.uint64(0) - is_set) & np.uint64((1 << bit) - 1)
    return mask


def _chunked(places: Callable[[Sequence[pl.Series]], U8], columns: Sequence[pl.Series]) -> pl.Series:
    parts = []
    for start in range(0, columns[0].len(), CHUNK_ROWS):
        matrix = places([column.slice(start, CHUNK_ROWS) for column in columns])
        parts.append(_as_binary(matrix))
    return pl.concat(parts) if parts else pl.Series([], dtype=pl.Binary)


def _as_binary(matrix: U8) -> pl.Series:
    rows, width = matrix.shape
    buffers = [None, pa.py_buffer(np.ascontiguousarray(matrix))]
    return pl.Series(pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, buffers), dtype=pl.Binary)


def _bytes(column: pl.Series, kind: t.DataType, text_bytes: int) -> U8:
    """Returns the values as a row of bytes each."""
    if isinstance(kind, t.DecimalType) and kind.precision > MAX_LONG_DECIMAL:
        column, kind = column.cast(pl.Float64), t.DoubleType()
    keys = column_keys(column, kind)
    if keys.keys.dtype == pl.Binary:
        text = spans(keys.keys)
        matrix = np.zeros((keys.row_count, text_bytes), np.uint8)
        for at in range(text_bytes):
            longer = np.flatnonzero(text.sizes > at)
            matrix[keys.rows[longer], at] = text.data[text.starts[longer] + at]
        return matrix
    words = np.zeros(keys.row_count, np.uint64)
    words[keys.rows] = keys.keys.to_numpy().astype(np.int64).view(np.uint64) ^ SIGN
    return words.astype(">u8").view(np.uint8).reshape(-1, WORD_BYTES)
