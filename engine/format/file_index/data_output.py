"""The big-endian format of `DataOutput` in Java: a bounds-checked reader, and byte strings to write.

Byte strings of different lengths are stored back to back in one array, so many keys are written without a Python loop.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile

_I8, _I16, _I32, _I64 = (struct.Struct(code) for code in (">b", ">h", ">i", ">q"))


@dataclass
class Cursor:
    """A reader with a position in bytes. Reading beyond the end, or a negative length, raises `CorruptFile`."""

    data: memoryview
    where: str
    at: int = 0
    expected_rows: int | None = None
    """Rows of the data file, if known; an index over another number of rows is corrupt."""

    def corrupt(self, problem: str) -> CorruptFile:
        return CorruptFile(self.where, f"file index: {problem} (at byte {self.at})")

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes and move past them."""
        if not 0 <= size <= len(self.data) - self.at:
            raise self.corrupt(f"{size} bytes are wanted, {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def part(self, start: int, size: int) -> Cursor:
        """Return a separate reader of the `size` bytes from `start` on; this reader does not move."""
        return self.rest(start).next(size)

    def rest(self, start: int) -> Cursor:
        """Return a separate reader of all bytes from `start` on; this reader does not move."""
        if not 0 <= start <= len(self.data):
            raise self.corrupt(f"the offset {start} lies outside its {len(self.data)} bytes")
        return Cursor(self.data[start:], self.where, expected_rows=self.expected_rows)

    def next(self, size: int) -> Cursor:
        """Return a separate reader of the next `size` bytes; this reader moves past them."""
        return Cursor(self.take(size), self.where, expected_rows=self.expected_rows)

    def i8(self) -> int:
        return int(_I8.unpack(self.take(1))[0])

    def i16(self) -> int:
        return int(_I16.unpack(self.take(2))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self.take(4))[0])

    def i64(self) -> int:
        return int(_I64.unpack(self.take(8))[0])

    def boolean(self) -> bool:
        return self.i8() != 0

    def count(self, least_width: int) -> int:
        """Read an i32 that counts items of at least `least_width` bytes each, and check that the bytes suffice."""
        count = self.i32()
        if not 0 <= count * least_width <= len(self.data) - self.at:
            raise self.corrupt(f"{count} items cannot fit into {len(self.data) - self.at} bytes")
        return count

    def row_count(self) -> int:
        """Read an i32 that counts the rows of the data file; it is checked before memory is allocated."""
        count = self.i32()
        if count < 0 or self.expected_rows not in (None, count):
            raise self.corrupt(f"it is about {count} rows, the data file has {self.expected_rows}")
        return count

    def sized(self) -> bytes:
        """Read bytes after their i32 length."""
        return bytes(self.take(self.i32()))

    def utf(self) -> str:
        """Read text as `DataOutput.writeUTF` writes it: u16 length, then modified UTF-8."""
        raw = bytes(self.take(self.i16() & 0xFFFF))
        try:
            # Modified UTF-8 encodes NUL as C0 80 and characters beyond the BMP as two surrogates.
            halves = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise self.corrupt(f"a name is not text: {raw!r}") from error


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
        """Return the strings `start` .. `stop` - 1."""
        sizes = self.sizes[start:stop]
        first = int(self.sizes[:start].sum())
        return Ragged(self.data[first : first + int(sizes.sum())], sizes)


def to_fixed_width(values: npt.NDArray[np.generic], dtype: str) -> Ragged:
    """Return numbers as byte strings of the width and byte order of `dtype`, a numpy dtype such as ``>i4``."""
    width = np.dtype(dtype).itemsize
    return Ragged(np.ascontiguousarray(values.astype(dtype)).view(np.uint8), np.full(len(values), width, np.int64))


def gather(data: U8, starts: Ints, sizes: Ints) -> Ragged:
    """Return the strings at these positions of `data`, in the order given."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    at = np.arange(total) + np.repeat(starts - (ends - sizes), sizes)
    return Ragged(data[at], sizes)


def take(strings: Ragged, order: Ints) -> Ragged:
    """Return the strings at these indexes."""
    return gather(strings.data, strings.starts[order], strings.sizes[order])


def concat_rows(parts: Sequence[Ragged]) -> Ragged:
    """Concatenate row by row: string `i` joins string `i` of each part, in order."""
    sizes = np.stack([part.sizes for part in parts], axis=1)
    pieces = sizes.reshape(-1)
    starts = (np.cumsum(pieces) - pieces).reshape(sizes.shape)
    out = np.empty(int(pieces.sum()), np.uint8)
    for column, part in enumerate(parts):
        out[np.arange(part.data.size) + np.repeat(starts[:, column] - part.starts, part.sizes)] = part.data
    return Ragged(out, sizes.sum(axis=1))
