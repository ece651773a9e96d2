"""The ``bsi`` index (bit-sliced index): a bitmap of rows for each bit of a number, and its encoder.

Integers big-endian::

    u8   version, 1
    i32  number of rows
    u8   1 if there are numbers >= 0; then their slices
    u8   1 if there are numbers < 0; then the slices of their absolute values

    slices = u8   version, 1
             i64  least, i64 greatest number
             roaring bitmap of the rows that have a number
             i32  number of slices
             per slice, lowest bit first: roaring bitmap of the rows where this bit of (number - least) is set

Comparisons walk the slices from the highest bit down (O'Neil and Quass, "Improved query performance with variant
indexes").
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.file_index import row_sets
from morrow.engine.format.file_index.data_output import Cursor
from morrow.engine.format.file_index.keys import ColumnKeys, Key
from morrow.engine.format.file_index.row_sets import Packed, write_rows, write_slices

NAME = "bsi"
SUPPORTED = (
    *(t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DecimalType),
    *(t.DateType, t.TimeType, t.TimestampType, t.LocalZonedTimestampType),
)
VERSION = 1
MAX_SLICES = 64


def is_supported(data_type: t.DataType) -> bool:
    return isinstance(data_type, SUPPORTED)


@dataclass(frozen=True)
class BitSlices:
    """The number of each row, in bit slices.

    Attributes:
        present: the rows that have a number.
        slices: for each bit of ``number - least``, lowest first, the rows that have the bit set.
    """

    present: Packed
    slices: tuple[Packed, ...]
    least: int = 0

    def compare(self, number: int) -> tuple[Packed, Packed]:
        """Return the rows with a smaller number, and the rows with an equal number."""
        offset = number - self.least
        less, equal = np.zeros_like(self.present), self.present
        if offset < 0:
            return less, less
        if offset.bit_length() > len(self.slices):
            return equal, less
        for bit in reversed(range(len(self.slices))):
            if offset >> bit & 1:
                less = less | (equal & ~self.slices[bit])
                equal = equal & self.slices[bit]
            else:
                equal = equal & ~self.slices[bit]
        return less, equal


@dataclass(frozen=True)
class BsiIndex:
    """The bit slices of the numbers >= 0, and of the absolute values of negative numbers."""

    row_count: int
    positive: BitSlices
    negative: BitSlices

    def present(self) -> Packed:
        return self.positive.present | self.negative.present

    def equal(self, key: Key) -> Packed:
        number = _to_number(key)
        return self.negative.compare(-number)[1] if number < 0 else self.positive.compare(number)[1]

    def below(self, key: Key) -> Packed:
        number = _to_number(key)
        if number >= 0:
            return self.positive.compare(number)[0] | self.negative.present
        nearer, equal = self.negative.compare(-number)
        return self.negative.present & ~(nearer | equal)


def read(cursor: Cursor, _data_type: t.DataType) -> BsiIndex:
    """Read the index. Raises `CorruptFile`, `Unsupported`: not this format, or another version of the format."""
    _check_version(cursor)
    row_count = cursor.row_count()
    positive = _read_slices(cursor, row_count)
    return BsiIndex(row_count, positive, _read_slices(cursor, row_count))


def _read_slices(cursor: Cursor, row_count: int) -> BitSlices:
    if not cursor.boolean():
        return BitSlices(row_sets.make_empty_set(row_count), ())
    _check_version(cursor)
    least, _greatest = cursor.i64(), cursor.i64()
    present = row_sets.take_rows(cursor, row_count)
    number = cursor.i32()
    if not 0 <= number <= MAX_SLICES:
        raise cursor.corrupt(f"{number} bit slices of 64-bit numbers")
    return BitSlices(present, tuple(row_sets.take_rows(cursor, row_count) for _ in range(number)), least)


def _check_version(cursor: Cursor) -> None:
    version = cursor.i8()
    if version != VERSION:
        raise Unsupported(f"version {version} of the bsi index", where=cursor.where)


def _to_number(key: Key) -> int:
    assert isinstance(key, int), "the supported types have integer keys"
    return key


Ints = npt.NDArray[np.int64]
MIN_NUMBER = 0
"""Java starts the slices of both signs at zero, so a greater minimum never saves a slice."""


def encode(keys: ColumnKeys, _options: Mapping[str, str]) -> bytes:
    """Return the index of a column.

    Raises `Unsupported`: the minimum 64-bit number, whose absolute value does not fit 64 bits.
    """
    numbers = keys.keys.to_numpy()
    if len(numbers) and int(numbers.min()) == np.iinfo(np.int64).min:
        raise Unsupported(f"the number {np.iinfo(np.int64).min} in a bsi index", hint="take a range-bitmap index")
    negative = numbers < 0
    return b"".join(
        [
            struct.pack(">bi", VERSION, keys.row_count),
            _encode_slices(keys.rows[~negative], numbers[~negative], keys.row_count),
            _encode_slices(keys.rows[negative], -numbers[negative], keys.row_count),
        ]
    )


def _encode_slices(rows: Ints, numbers: Ints, row_count: int) -> bytes:
    if not len(rows):
        return b"\0"
    greatest = int(numbers.max())
    slices = greatest.bit_length()
    return b"".join(
        [
            struct.pack(">?bqq", True, VERSION, MIN_NUMBER, greatest),
            write_rows(rows, row_count),
            slices.to_bytes(4, "big"),
            *write_slices(rows, numbers, slices, row_count),
        ]
    )
