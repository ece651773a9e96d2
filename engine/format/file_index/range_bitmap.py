"""The ``range-bitmap`` index: a sorted dictionary of the values, and the bits of each row's code in it.

Integers big-endian; a key is stored in the width of its type, text as ``i32 length`` and bytes::

    i32  size of the header            i32  size of the header          dictionary
    u8   version, 1                    u8   version, 1
    i32  number of rows                i32  number of chunks
    i32  number of keys                i32  size of the offsets
    key  least   } if there            i32  size of the chunk headers
    key  greatest} are keys            i32[] offset of each chunk header
    i32  size of the dictionary        chunk headers
    dictionary                         keys of the chunks
    codes

    chunk header                       i32  size of the header          codes
    u8   version, 1                    u8   version, 1
    key  first key                     u8   number of slices
    i32  its code                      i32  size of the bitmap of present rows
    i32  offset into the keys          i32  size of the slice table
    i32  number of further keys        (i32 offset, i32 length) per slice, lowest bit first
    fixed width: i32 size of the keys, i32 width       bitmap of present rows
    text:        i32 size of the offsets, i32 size of the keys (the offsets, i32 each, come first)
                                       bitmaps of the slices

The codes of a chunk follow on each other, so a key's code is the number of smaller keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.file_index import rowsets
from morrow.engine.format.file_index.bsi import BitSlices
from morrow.engine.format.file_index.cursor import Cursor
from morrow.engine.format.file_index.keys import KINDS, MAX_LONG_DECIMAL, MICROS_PRECISION, Key, KeyKind
from morrow.engine.format.file_index.result import Packed

NAME = "range-bitmap"
VERSION = 1
MAX_SLICES = 32
OFFSET_WIDTH = 4


def supports(data_type: t.DataType) -> bool:
    if isinstance(data_type, t.DecimalType):
        return data_type.precision <= MAX_LONG_DECIMAL
    if isinstance(data_type, (t.TimestampType, t.LocalZonedTimestampType)):
        return data_type.precision <= MICROS_PRECISION
    return not isinstance(data_type, (t.BinaryType, t.VarBinaryType))


@dataclass(frozen=True)
class Chunk:
    """A contiguous part of the dictionary: its first key, the code of that key, and where the further keys are."""

    first: Key
    code: int
    size: int
    keys: Cursor
    offsets: Cursor | None

    def key(self, index: int, kind: KeyKind) -> Key:
        """Returns key `index` of the chunk, the first one being 0."""
        if index == 0:
            return self.first
        if self.offsets is None:
            return kind.read(self.keys.rest((index - 1) * (kind.width or 0)))
        return kind.read(self.keys.rest(self.offsets.rest((index - 1) * OFFSET_WIDTH).i32()))


@dataclass(frozen=True)
class Dictionary:
    """The chunks in ascending order."""

    chunks: tuple[Chunk, ...]
    kind: KeyKind

    def find(self, key: Key) -> tuple[int, bool]:
        """Returns the number of smaller keys, which is the key's code if it is present, and whether it is."""
        low, high = 0, len(self.chunks)
        while low < high:  # the last chunk whose first key is not greater
            middle = (low + high) // 2
            low, high = (middle + 1, high) if not _less(key, self.chunks[middle].first) else (low, middle)
        if low == 0:
            return 0, False
        chunk = self.chunks[low - 1]
        low, high = 0, chunk.size + 1
        while low < high:  # the first key of the chunk that is not smaller
            middle = (low + high) // 2
            low, high = (middle + 1, high) if _less(chunk.key(middle, self.kind), key) else (low, middle)
        return chunk.code + low, low <= chunk.size and chunk.key(low, self.kind) == key


@dataclass(frozen=True)
class RangeBitmap:
    """The dictionary and the codes of the rows; both empty when all rows are null."""

    row_count: int
    dictionary: Dictionary
    codes: BitSlices

    def present(self) -> Packed:
        return self.codes.present

    def equal(self, key: Key) -> Packed:
        code, found = self.dictionary.find(key)
        return self.codes.compare(code)[1] if found else rowsets.empty(self.row_count)

    def below(self, key: Key) -> Packed:
        return self.codes.compare(self.dictionary.find(key)[0])[0]


def read(cursor: Cursor, data_type: t.DataType) -> RangeBitmap:
    """Reads the index of a column of this type.

    Raises:
        CorruptFile, Unsupported: not this format, or another version of it.
    """
    kind = KINDS[type(data_type)]
    header = _read_header(cursor)
    row_count, keys = header.row_count(), header.i32()
    if keys < 0:
        raise header.corrupt(f"{keys} keys of {row_count} rows")
    if keys == 0:
        return RangeBitmap(row_count, Dictionary((), kind), BitSlices(rowsets.empty(row_count), ()))
    kind.read(header)  # the least and the greatest key, which the dictionary stores as well
    kind.read(header)
    dictionary = _read_dictionary(cursor.next(header.i32()), kind)
    return RangeBitmap(row_count, dictionary, _read_codes(cursor, row_count))


def _read_header(cursor: Cursor) -> Cursor:
    header = cursor.next(cursor.i32())
    _check_version(header)
    return header


def _check_version(cursor: Cursor) -> None:
    version = cursor.i8()
    if version != VERSION:
        raise Unsupported(f"version {version} of the range-bitmap index", where=cursor.where)


def _read_dictionary(cursor: Cursor, kind: KeyKind) -> Dictionary:
    header = _read_header(cursor)
    size, offsets_size, headers_size = header.i32(), header.i32(), header.i32()
    offsets = cursor.next(offsets_size)
    headers = cursor.next(headers_size)
    keys = cursor.rest(cursor.at)
    if size * OFFSET_WIDTH != offsets_size:
        raise cursor.corrupt(f"{size} chunks with {offsets_size} bytes of offsets")
    return Dictionary(tuple(_read_chunk(headers.rest(offsets.i32()), keys, kind) for _ in range(size)), kind)


def _read_chunk(header: Cursor, keys: Cursor, kind: KeyKind) -> Chunk:
    _check_version(header)
    first = kind.read(header)
    code, offset, size, one, two = (header.i32() for _ in range(5))
    if kind.width is None:
        offsets, chunk_keys = keys.part(offset, one), keys.part(offset + one, two)
        fits = size * OFFSET_WIDTH == one
        return _checked(header, Chunk(first, code, size, chunk_keys, offsets), fits)
    fits = two == kind.width and size * kind.width == one
    return _checked(header, Chunk(first, code, size, keys.part(offset, one), None), fits)


def _checked(header: Cursor, chunk: Chunk, fits: bool) -> Chunk:
    if not fits or chunk.size < 0 or chunk.code < 0:
        raise header.corrupt(f"a dictionary chunk of {chunk.size} keys from code {chunk.code} contradicts its sizes")
    return chunk


def _read_codes(cursor: Cursor, row_count: int) -> BitSlices:
    header = _read_header(cursor)
    number, present_size, table_size = header.i8(), header.i32(), header.i32()
    if not 0 <= number <= MAX_SLICES or table_size != number * 2 * OFFSET_WIDTH:
        raise header.corrupt(f"{number} bit slices with a table of {table_size} bytes")
    present = rowsets.read_rows(cursor.next(present_size), row_count)
    body = cursor.rest(cursor.at)
    table = [(header.i32(), header.i32()) for _ in range(number)]
    return BitSlices(present, tuple(rowsets.read_rows(body.part(at, size), row_count) for at, size in table))


def _less(one: Key, other: Key) -> bool:
    return one < other  # type: ignore[operator]  # keys of one column are of one type
