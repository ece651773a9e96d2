"""The ``range-bitmap`` index: a sorted dictionary of the values, and the bits of each row's code.

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

The codes of a chunk are consecutive, so a key's code is the number of smaller keys.
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
from morrow.engine.format.file_index.bsi import BitSlices
from morrow.engine.format.file_index.data_output import Cursor, Ragged, concat_rows, take, to_fixed_width
from morrow.engine.format.file_index.keys import (
    KINDS,
    MAX_LONG_DECIMAL,
    MICROS_PRECISION,
    ColumnKeys,
    Key,
    KeyKind,
    encode_keys,
)
from morrow.engine.format.file_index.parameters import read_size
from morrow.engine.format.file_index.row_sets import Packed, write_rows, write_slices

NAME = "range-bitmap"
VERSION = 1
MAX_SLICES = 32
OFFSET_WIDTH = 4


def is_supported(data_type: t.DataType) -> bool:
    if isinstance(data_type, t.DecimalType):
        return data_type.precision <= MAX_LONG_DECIMAL
    if isinstance(data_type, (t.TimestampType, t.LocalZonedTimestampType)):
        return data_type.precision <= MICROS_PRECISION
    return not isinstance(data_type, (t.BinaryType, t.VarBinaryType))


@dataclass(frozen=True)
class Chunk:
    """A contiguous part of the dictionary: its first key, the code of this key, and the position of the other keys."""

    first: Key
    code: int
    size: int
    keys: Cursor
    offsets: Cursor | None

    def key(self, index: int, kind: KeyKind) -> Key:
        """Return key `index` of the chunk, counted from 0."""
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
        """Return the number of smaller keys (the key's code if it is present), and whether the key is present."""
        low, high = 0, len(self.chunks)
        while low < high:  # find the last chunk whose first key is not greater
            middle = (low + high) // 2
            low, high = (middle + 1, high) if not _is_less(key, self.chunks[middle].first) else (low, middle)
        if low == 0:
            return 0, False
        chunk = self.chunks[low - 1]
        low, high = 0, chunk.size + 1
        while low < high:  # find the first key of the chunk that is not smaller
            middle = (low + high) // 2
            low, high = (middle + 1, high) if _is_less(chunk.key(middle, self.kind), key) else (low, middle)
        return chunk.code + low, low <= chunk.size and chunk.key(low, self.kind) == key


@dataclass(frozen=True)
class RangeBitmap:
    """The dictionary and the codes of the rows; both are empty if all rows are null."""

    row_count: int
    dictionary: Dictionary
    codes: BitSlices

    def present(self) -> Packed:
        return self.codes.present

    def equal(self, key: Key) -> Packed:
        code, found = self.dictionary.find(key)
        return self.codes.compare(code)[1] if found else row_sets.make_empty_set(self.row_count)

    def below(self, key: Key) -> Packed:
        return self.codes.compare(self.dictionary.find(key)[0])[0]


def read(cursor: Cursor, data_type: t.DataType) -> RangeBitmap:
    """Read the index of a column of this type.

    Raises `CorruptFile`, `Unsupported`: not this format, or another version of the format.
    """
    kind = KINDS[type(data_type)]
    header = _read_header(cursor)
    row_count, keys = header.row_count(), header.i32()
    if keys < 0:
        raise header.corrupt(f"{keys} keys of {row_count} rows")
    if keys == 0:
        return RangeBitmap(row_count, Dictionary((), kind), BitSlices(row_sets.make_empty_set(row_count), ()))
    kind.read(header)  # the minimum and maximum key, which the dictionary stores too
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
        return _check_chunk(header, Chunk(first, code, size, chunk_keys, offsets), fits)
    fits = two == kind.width and size * kind.width == one
    return _check_chunk(header, Chunk(first, code, size, keys.part(offset, one), None), fits)


def _check_chunk(header: Cursor, chunk: Chunk, fits: bool) -> Chunk:
    if not fits or chunk.size < 0 or chunk.code < 0:
        raise header.corrupt(f"a dictionary chunk of {chunk.size} keys from code {chunk.code} contradicts its sizes")
    return chunk


def _read_codes(cursor: Cursor, row_count: int) -> BitSlices:
    header = _read_header(cursor)
    number, present_size, table_size = header.i8(), header.i32(), header.i32()
    if not 0 <= number <= MAX_SLICES or table_size != number * 2 * OFFSET_WIDTH:
        raise header.corrupt(f"{number} bit slices with a table of {table_size} bytes")
    present = row_sets.read_rows(cursor.next(present_size), row_count)
    body = cursor.rest(cursor.at)
    table = [(header.i32(), header.i32()) for _ in range(number)]
    return BitSlices(present, tuple(row_sets.read_rows(body.part(at, size), row_count) for at, size in table))


def _is_less(one: Key, other: Key) -> bool:
    return one < other  # type: ignore[operator]  # keys of one column are of one type


Ints = npt.NDArray[np.int64]

DEFAULT_CHUNK_SIZE = 16 << 10
UNCHUNKED = (t.BooleanType, t.TinyIntType, t.SmallIntType)
"""Types for which Java writes one key per chunk."""
SLICES_WITHOUT_KEYS = 64
"""The number of slices of an index without keys, for which Java uses the bits of the maximum code -1."""


def encode(keys: ColumnKeys, options: Mapping[str, str]) -> bytes:
    """Return the index of a column. Raises `InvalidArgument`: a parameter is not a size."""
    limit = read_size(options, "chunk-size", 0 if isinstance(keys.data_type, UNCHUNKED) else DEFAULT_CHUNK_SIZE)
    distinct = encode_keys(keys.distinct, keys.data_type)
    dictionary = _encode_dictionary(distinct, limit, fixed_width=KINDS[type(keys.data_type)].width)
    count = len(distinct)
    ends = b"".join(distinct.part(at, at + 1).data.tobytes() for at in (0, count - 1)) if count else b""
    header = struct.pack(">bii", VERSION, keys.row_count, count) + ends + struct.pack(">i", len(dictionary))
    return b"".join([_prefix_with_size(header), dictionary, _encode_codes(keys, count)])


def _prefix_with_size(header: bytes) -> bytes:
    return struct.pack(">i", len(header)) + header


def _encode_dictionary(keys: Ragged, limit: int, fixed_width: int | None) -> bytes:
    begins = _divide_chunks(keys.sizes, limit, fixed_width)
    further = np.diff(np.append(begins, len(keys))) - 1
    is_first = np.zeros(len(keys), np.bool_)
    is_first[begins] = True
    others = take(keys, np.flatnonzero(~is_first))
    key_sizes = _sum_groups(others.sizes, further)
    if fixed_width is None:
        offsets = others.starts - np.repeat(np.cumsum(key_sizes) - key_sizes, further)
        offset_sizes = further * OFFSET_WIDTH
        body = concat_rows([Ragged(to_fixed_width(offsets, ">i4").data, offset_sizes), Ragged(others.data, key_sizes)])
        sizes = (offset_sizes, key_sizes)
    else:
        body = Ragged(others.data, key_sizes)
        sizes = (key_sizes, np.full(len(begins), fixed_width))
    numbers = np.stack([begins, body.starts, further, *sizes], axis=1)
    tail = Ragged(to_fixed_width(numbers.reshape(-1), ">i4").data, np.full(len(begins), numbers.shape[1] * 4))
    headers = concat_rows([to_fixed_width(np.full(len(begins), VERSION), ">i1"), take(keys, begins), tail])
    offsets_of_headers = to_fixed_width(headers.starts, ">i4").data
    header = struct.pack(">biii", VERSION, len(begins), offsets_of_headers.size, headers.data.size)
    return b"".join(
        [_prefix_with_size(header), offsets_of_headers.tobytes(), headers.data.tobytes(), body.data.tobytes()]
    )


def _divide_chunks(sizes: Ints, limit: int, fixed_width: int | None) -> Ints:
    """Return the index of each chunk's first key, which is in the header; the other keys must fit the limit."""
    if fixed_width is not None:
        return np.arange(0, len(sizes), 1 + limit // fixed_width)
    ends = np.cumsum(sizes)
    begins, done = [], 0
    while done < len(sizes):
        begins.append(done)
        stop = int(np.searchsorted(ends, ends[done] + limit, side="right"))
        done = min(stop, done + 1 + limit // OFFSET_WIDTH)
    return np.array(begins, np.int64)


def _sum_groups(values: Ints, counts: Ints) -> Ints:
    """Return the sum of the first `counts[0]` values, of the `counts[1]` that follow, and so on."""
    totals = np.append(0, np.cumsum(values))
    ends = np.cumsum(counts)
    sums: Ints = totals[ends] - totals[ends - counts]
    return sums


def _encode_codes(keys: ColumnKeys, count: int) -> bytes:
    slices = max(1, (count - 1).bit_length()) if count else SLICES_WITHOUT_KEYS
    present = write_rows(keys.rows, keys.row_count)
    bodies = list(write_slices(keys.rows, keys.codes, slices, keys.row_count))
    lengths = np.array([len(body) for body in bodies])
    table = to_fixed_width(np.stack([np.cumsum(lengths) - lengths, lengths], axis=1).reshape(-1), ">i4").data.tobytes()
    header = struct.pack(">bbii", VERSION, slices, len(present), len(table)) + table
    return b"".join([_prefix_with_size(header), present, *bodies])
