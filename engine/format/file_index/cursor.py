"""A bounds-checked reader of the big-endian output of Java's `DataOutput`."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from morrow.engine.errors import CorruptFile

_I8, _I16, _I32, _I64 = (struct.Struct(code) for code in (">b", ">h", ">i", ">q"))


@dataclass
class Cursor:
    """Bytes and a position in them; reading beyond the end, or a negative length, raises `CorruptFile`."""

    data: memoryview
    where: str
    at: int = 0
    expected_rows: int | None = None
    """Rows of the data file, if known; an index over another number of rows is corrupt."""

    def corrupt(self, problem: str) -> CorruptFile:
        return CorruptFile(self.where, f"file index: {problem} (at byte {self.at})")

    def take(self, size: int) -> memoryview:
        """Returns the next `size` bytes and moves behind them."""
        if not 0 <= size <= len(self.data) - self.at:
            raise self.corrupt(f"{size} bytes are wanted, {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def part(self, start: int, size: int) -> Cursor:
        """Returns a separate reader of the `size` bytes from `start` on; this one does not move."""
        return self.rest(start).next(size)

    def rest(self, start: int) -> Cursor:
        """Returns a separate reader of all bytes from `start` on; this one does not move."""
        if not 0 <= start <= len(self.data):
            raise self.corrupt(f"the offset {start} lies outside its {len(self.data)} bytes")
        return Cursor(self.data[start:], self.where, expected_rows=self.expected_rows)

    def next(self, size: int) -> Cursor:
        """Returns a separate reader of the next `size` bytes; this one moves behind them."""
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
        """Reads an i32 that counts items of at least `least_width` bytes each: no more than the bytes can hold."""
        count = self.i32()
        if not 0 <= count * least_width <= len(self.data) - self.at:
            raise self.corrupt(f"{count} items cannot fit into {len(self.data) - self.at} bytes")
        return count

    def row_count(self) -> int:
        """Reads an i32 that counts the rows of the data file; it is checked before anything is allocated by it."""
        count = self.i32()
        if count < 0 or self.expected_rows not in (None, count):
            raise self.corrupt(f"it is about {count} rows, the data file has {self.expected_rows}")
        return count

    def sized(self) -> bytes:
        """Reads bytes after their i32 length."""
        return bytes(self.take(self.i32()))

    def utf(self) -> str:
        """Reads text as `DataOutput.writeUTF` writes it: u16 length, then modified UTF-8."""
        raw = bytes(self.take(self.i16() & 0xFFFF))
        try:
            # Modified UTF-8 encodes NUL as C0 80 and characters beyond the BMP as two surrogates.
            halves = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as error:
            raise self.corrupt(f"a name is not text: {raw!r}") from error
