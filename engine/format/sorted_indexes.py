"""Files of sorted global indexes: the values of a column as keys, with the row ids of each key.

Row ids are local: they count from the first row id of the range that the index manifest gives. `varint` holds 7 bits
per byte, lowest first; all bytes except the last have their highest bit set. A roaring bitmap is of 64 bits.

A btree file, integers little-endian, keys in the order of their values::

    data block      entries: varint length, key, varint length, (varint count, count x varint row id)
    ...
    null rows       roaring bitmap, u32 CRC of it             only if there are null rows
    index block     entries: varint length, last key of a block, varint length, (varint offset, varint size)
    footer          u64 offset, u32 size, u64 count           bloom filter, all 0
                    u64 offset, u32 size                      index block
                    u64 offset, u32 size                      null rows, 0 without
                    u32 version 1, u32 0x50425449

Entries of a block are followed by ``i32 size of each entry, u8 0`` if all have one size, and otherwise by ``i32 offset
of each entry, i32 number of entries, u8 1``. After each block come ``u8 compression, u32 CRC`` of its bytes and that
byte. A compressed block begins with its size as a varint.

A bitmap file, keys in the order of their bytes::

    bitmap of each key                roaring bitmap
    dictionary block                  varint count, entries: varint length, key, varint offset, varint size
    null rows, all other rows         roaring bitmaps
    index block                       varint count, entries: varint length, first key, varint offset, varint size
    footer, big-endian                i64 offset, i32 size     null rows, other rows, index block
                                      i32 number of keys, i32 version 1, i32 0x42474958

The metadata of both in the index manifest, little-endian: ``u32 length, first key, u32 length, last key, u8 has nulls,
u8 1, u8 flags``; bit 0 of the flags: there is no first key, bit 1: no last key. Source: Java's `BTreeIndexWriter`,
`BitmapGlobalIndexFormat`, `SortedIndexFileMeta` and `KeySerializer`.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import (
    find_byte_spans,
    make_series,
    read_wide_values,
    to_arrow_array,
    to_series,
)
from morrow.engine.format.file_index.data_output import Ragged, concat_rows, gather, take, to_fixed_width
from morrow.engine.format.file_index.row_sets import write_many
from morrow.engine.format.roaring_bitmaps import read_bitmap64, set_positions
from morrow.engine.io.store import FileStore

U8 = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

BTREE, BITMAP = "btree", "bitmap"
SORTED_INDEXES = (BTREE, BITMAP)

MAX_READ_AT_ONCE_BYTES = 4 << 20
"""The size up to which a whole file is read by one request."""
MAX_VARINT_BYTES = 9
"""The bytes of the largest `long` that is not negative."""
WIDE_BYTES = 16
NANOS_PER_MILLI = 1_000_000

_PER_MILLI = {"ms": 1, "us": 1_000, "ns": NANOS_PER_MILLI}
_BTREE_FOOTER = struct.Struct("<QIQQIQIII")
_BITMAP_FOOTER = struct.Struct(">qiqiqiiii")
_BTREE_MAGIC, _BITMAP_MAGIC, _VERSION = 0x50425449, 0x42474958, 1
_TRAILER_BYTES, _TAIL_BYTES = 5, 5
_EQUAL_SIZES, _OFFSETS = 0, 1
_UNCOMPRESSED, _ZSTD, _LZ4 = 0, 1, 2
_META_VERSION, _NO_FIRST, _NO_LAST = 1, 1, 2

_FIXED: Mapping[type[t.DataType], str] = {
    t.BooleanType: "u1",
    t.TinyIntType: "i1",
    t.SmallIntType: "<i2",
    t.IntType: "<i4",
    t.BigIntType: "<i8",
    t.FloatType: "<f4",
    t.DoubleType: "<f8",
    t.DateType: "<i4",
    t.TimeType: "<i4",
}
_TEXT = (t.CharType, t.VarCharType)
_TIMESTAMPS = (t.TimestampType, t.LocalZonedTimestampType)
MAX_LONG_DIGITS = 18
MILLIS_PRECISION = 3


def is_indexable(kind: t.DataType) -> bool:
    """Return whether a sorted index may have keys of this type."""
    return isinstance(kind, (*_FIXED, *_TEXT, *_TIMESTAMPS, t.DecimalType))


# --- keys ---


def encode_keys(values: pl.Series, kind: t.DataType) -> Ragged:
    """Return values without nulls, in the Polars dtype of `kind`, as keys."""
    if isinstance(kind, _TEXT):
        data, starts, sizes = find_byte_spans(to_arrow_array(values, kind))
        return gather(data, starts, sizes)
    if isinstance(kind, t.DecimalType):
        if kind.precision <= MAX_LONG_DIGITS:
            return to_fixed_width(values.to_physical().cast(pl.Int64).to_numpy(), "<i8")
        return _encode_wide(read_wide_values(to_arrow_array(values, kind)))
    if isinstance(kind, _TIMESTAMPS):
        per = _PER_MILLI[str(values.dtype.time_unit)]  # type: ignore[attr-defined]  # a Datetime
        whole, rest = np.divmod(values.to_physical().to_numpy(), per)
        millis = to_fixed_width(whole, "<i8")
        exact = kind.precision > MILLIS_PRECISION
        return concat_rows([millis, encode_varints(rest * (NANOS_PER_MILLI // per))]) if exact else millis
    numbers = values.to_physical().to_numpy()
    if isinstance(kind, t.TimeType):
        numbers = numbers // NANOS_PER_MILLI
    if values.dtype.is_float():
        numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)  # one NaN, as in Java
    return to_fixed_width(numbers, _FIXED[type(kind)])


def decode_keys(keys: Ragged, kind: t.DataType, where: str) -> pl.Series:
    """Return keys as values in the Polars dtype of `kind`. Raises `CorruptFile`: a key is not a value of the type."""
    dtype = t.to_polars_dtype(kind)
    if isinstance(kind, _TEXT):
        offsets = np.append(0, np.cumsum(keys.sizes))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(keys.data))]
        text = pa.Array.from_buffers(pa.large_binary(), len(keys), buffers)
        try:
            return to_series(text).cast(pl.String)
        except pl.exceptions.PolarsError as error:
            raise CorruptFile(where, f"a key is not text: {error}") from error
    if isinstance(kind, t.DecimalType):
        if kind.precision <= MAX_LONG_DIGITS:
            words = _read_fixed(keys, "<i8", where)
            wide = np.stack([words, words >> 63], axis=1)
        else:
            wide = _decode_wide(keys, where)
        kept = pa.decimal128(kind.precision, kind.scale)
        found = pa.Array.from_buffers(kept, len(keys), [None, pa.py_buffer(np.ascontiguousarray(wide))])
        return to_series(found).cast(dtype)
    if isinstance(kind, _TIMESTAMPS):
        return _decode_timestamps(keys, kind, where).cast(dtype)
    numbers = _read_fixed(keys, _FIXED[type(kind)], where)
    if isinstance(kind, t.BooleanType):
        return pl.Series(numbers == 1)
    if isinstance(kind, t.TimeType):
        numbers = numbers.astype(np.int64) * NANOS_PER_MILLI
    return pl.Series(numbers).cast(dtype)


def _read_fixed(keys: Ragged, dtype: str, where: str) -> npt.NDArray[Any]:
    width = np.dtype(dtype).itemsize
    if (keys.sizes != width).any():
        raise CorruptFile(where, f"a key does not have {width} bytes, as its type has")
    return np.ascontiguousarray(keys.data).view(dtype)


def _decode_timestamps(keys: Ragged, kind: t.TimestampType | t.LocalZonedTimestampType, where: str) -> pl.Series:
    dtype = t.to_polars_dtype(kind)
    per = _PER_MILLI[str(dtype.time_unit)]  # type: ignore[attr-defined]  # a Datetime
    if kind.precision <= MILLIS_PRECISION:
        return pl.Series(_read_fixed(keys, "<i8", where) * per)
    if (keys.sizes <= 8).any():  # the bytes of the milliseconds
        raise CorruptFile(where, "a key is shorter than its type requires")
    heads = gather(keys.data, keys.starts, np.full(len(keys), 8))
    nanos, ends = read_varints(keys.data, keys.starts + 8, where)
    if (ends != keys.starts + keys.sizes).any():
        raise CorruptFile(where, "a key is longer than its type requires")
    return pl.Series(_read_fixed(heads, "<i8", where) * per + nanos // (NANOS_PER_MILLI // per))


def _encode_wide(words: Ints) -> Ragged:
    """Return 128-bit integers, little-endian pairs of words, as big-endian bytes without needless leading ones."""
    data = np.ascontiguousarray(words).view(np.uint8).reshape(-1, WIDE_BYTES)[:, ::-1]
    sign = data[:, :1] >> 7
    needless = (data[:, :-1] == sign * 0xFF) & ((data[:, 1:] >> 7) == sign)
    leading = np.cumprod(needless, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(len(data)) * WIDE_BYTES + leading
    return gather(np.ascontiguousarray(data).reshape(-1), starts, WIDE_BYTES - leading)


def _decode_wide(keys: Ragged, where: str) -> Ints:
    if ((keys.sizes < 1) | (keys.sizes > WIDE_BYTES)).any():
        raise CorruptFile(where, f"a key of a DECIMAL does not have 1 to {WIDE_BYTES} bytes")
    out = np.repeat((keys.data[keys.starts] >> 7) * np.uint8(0xFF), WIDE_BYTES).reshape(-1, WIDE_BYTES)
    ends = np.cumsum(keys.sizes)
    row = np.repeat(np.arange(len(keys)), keys.sizes)
    out[row, WIDE_BYTES - (ends[row] - np.arange(len(keys.data)))] = keys.data
    return np.ascontiguousarray(out[:, ::-1]).view(np.int64)


# --- varints ---


def encode_varints(values: Ints) -> Ragged:
    """Return numbers that are not negative as varints."""
    sizes = np.ones(len(values), np.int64)
    rest = values >> 7
    while rest.any():
        sizes += rest > 0
        rest = rest >> 7
    ends = np.cumsum(sizes)
    owner = np.repeat(np.arange(len(values)), sizes)
    place = np.arange(int(sizes.sum())) - (ends - sizes)[owner]
    data = (values[owner] >> (7 * place)) & 0x7F
    return Ragged((data | np.where(place < sizes[owner] - 1, 0x80, 0)).astype(np.uint8), sizes)


def read_varints(data: U8, at: Ints, where: str) -> tuple[Ints, Ints]:
    """Read a varint at each of these places; return the numbers and the places after them.

    Raises `CorruptFile`: a varint goes beyond the data, or is too long.
    """
    values, at = np.zeros(len(at), np.int64), at.copy()
    open_ = np.ones(len(at), np.bool_)
    for step in range(MAX_VARINT_BYTES):
        if (at[open_] >= len(data)).any() or (at[open_] < 0).any():
            raise CorruptFile(where, "a number goes beyond the end of its block")
        found = data[at[open_]].astype(np.int64)
        values[open_] |= (found & 0x7F) << (7 * step)
        at[open_] += 1
        open_[open_] = found >= 0x80  # the highest bit
        if not open_.any():
            return values, at
    raise CorruptFile(where, "a number is too long")


def _read_all_varints(data: U8, where: str) -> tuple[Ints, Ints]:
    """Return the varints that fill `data`, and the places after them."""
    ends = np.flatnonzero(data < 0x80) + 1  # the highest bit
    if len(data) and (not len(ends) or ends[-1] != len(data)):
        raise CorruptFile(where, "row ids end within a number")
    starts = np.append(0, ends)[:-1]
    if len(ends) and int((ends - starts).max()) > MAX_VARINT_BYTES:
        raise CorruptFile(where, "a row id is too long")
    place = np.arange(len(data)) - np.repeat(starts, ends - starts)
    parts = (data & 0x7F).astype(np.int64) << (7 * place)
    return (np.bitwise_or.reduceat(parts, starts) if len(starts) else parts), ends


# --- reading ---


class Block(msgspec.Struct, frozen=True):
    """The place of bytes in an index file, without the trailer."""

    offset: int
    size: int


class Entries(msgspec.Struct, frozen=True):
    """Keys of an index, each with its encoded list of rows (btree) or the place of its bitmap."""

    keys: Ragged
    rows: Ragged | None = None
    places: Sequence[Block] = ()

    def __len__(self) -> int:
        return len(self.keys)


class KeyBounds(msgspec.Struct, frozen=True):
    """The first and last key of an index file, None if all its rows are null; `has_nulls`: whether any row is null."""

    first: bytes | None
    last: bytes | None
    has_nulls: bool

    @classmethod
    def parse(cls, data: bytes | None, where: str) -> KeyBounds:
        """Parse the metadata of an index file. Raises `CorruptFile`."""
        at, keys = 0, []
        data = data or b""
        for _ in range(2):
            (size,) = struct.unpack_from("<I", data, at) if len(data) >= at + 4 else (-1,)
            if not 0 <= size < len(data) - at - 4:
                raise CorruptFile(where, "the metadata of an index file is cut off")
            keys.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        has_nulls, flags = data[at] == 1, None
        if len(data) >= at + 3 and data[at + 1] == _META_VERSION:
            flags = data[at + 2]
        if flags is None:
            flags = _NO_FIRST | _NO_LAST if keys == [b"", b""] and has_nulls else 0
        return cls(None if flags & _NO_FIRST else keys[0], None if flags & _NO_LAST else keys[1], has_nulls)

    def serialize(self) -> bytes:
        first, last = self.first or b"", self.last or b""
        flags = (_NO_FIRST if self.first is None else 0) | (_NO_LAST if self.last is None else 0)
        head = struct.pack("<I", len(first)) + first + struct.pack("<I", len(last)) + last
        return head + bytes([self.has_nulls, _META_VERSION, flags])


class SortedIndexFile(msgspec.Struct, frozen=True, dict=True):
    """An index file to read. All methods raise `CorruptFile`, `FileMissing`, `StorageError`.

    Args:
        row_count: rows of the range that the file belongs to; row ids are below.
    """

    store: FileStore
    path: str
    size: int
    row_count: int

    @cached_property
    def _whole(self) -> bytes | None:
        return self.store.read(self.path) if self.size <= MAX_READ_AT_ONCE_BYTES else None

    def read(self, block: Block) -> bytes:
        """Return the bytes of a block, or of another part of the file."""
        if block.offset < 0 or block.size < 0 or block.offset + block.size > self.size:
            raise CorruptFile(self.path, f"a block is beyond the end of its {self.size} bytes")
        if self._whole is not None:
            found = self._whole[block.offset : block.offset + block.size]
        else:
            found = self.store.read_range(self.path, block.offset, block.size)
        if len(found) != block.size:
            raise CorruptFile(self.path, f"it is shorter than its {self.size} bytes")
        return found

    def read_block(self, block: Block) -> bytes:
        """Return a block decompressed, checked against its CRC."""
        data = self.read(Block(block.offset, block.size + _TRAILER_BYTES))
        body, kind = data[:-_TRAILER_BYTES], data[-_TRAILER_BYTES]
        if zlib.crc32(data[: 1 - _TRAILER_BYTES]) != int.from_bytes(data[1 - _TRAILER_BYTES :], "little"):
            raise CorruptFile(self.path, f"the block at byte {block.offset} does not have its CRC")
        return body if kind == _UNCOMPRESSED else self._decompress(body, kind)

    def _decompress(self, body: bytes, kind: int) -> bytes:
        if kind not in (_ZSTD, _LZ4):
            raise Unsupported(
                f"the compression {kind} of an index file", where=self.path, hint="build it with compression none"
            )
        (size,), (at,) = read_varints(np.frombuffer(body, np.uint8), np.zeros(1, np.int64), self.path)
        if kind == _LZ4:
            at += 8  # sizes before and after compression
        try:
            codec = pa.Codec("zstd" if kind == _ZSTD else "lz4_raw")
            return bytes(codec.decompress(body[at:], int(size), asbytes=True))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise CorruptFile(self.path, f"a block cannot be decompressed: {error}") from error

    def read_bitmap(self, block: Block) -> Ints:
        """Return the rows of a bitmap."""
        if not block.size:
            return np.zeros(0, np.int64)
        data = np.frombuffer(self.read(block), np.uint8)
        blocks = read_bitmap64(data, where=self.path, max_end=self.row_count)
        if blocks.end > self.row_count:
            raise CorruptFile(self.path, f"row {blocks.end - 1} of {self.row_count} rows")
        if blocks.positions is not None:
            return blocks.positions
        within = [set_positions(bits) + key * (1 << 16) for key, bits in zip(blocks.keys.tolist(), blocks.bits)]
        return np.concatenate(within) if within else np.zeros(0, np.int64)

    def _unpack_footer(self, layout: struct.Struct, magic: int) -> tuple[int, ...]:
        found = layout.unpack(self.read(Block(self.size - layout.size, layout.size)))
        version, kind = (found[-2], found[-1])
        if kind != magic:
            raise CorruptFile(self.path, f"it is not an index file: it ends with {kind:#x}, not {magic:#x}")
        if version != _VERSION:
            raise Unsupported(f"version {version} of an index file", where=self.path, hint="upgrade morrow")
        return found


class BTreeFile(SortedIndexFile, frozen=True, dict=True):
    """A btree file."""

    @cached_property
    def _footer(self) -> tuple[int, ...]:
        return self._unpack_footer(_BTREE_FOOTER, _BTREE_MAGIC)

    @cached_property
    def blocks(self) -> list[Block]:
        """The data blocks, in the order of their keys."""
        entries = self._index
        assert entries.rows is not None
        at = entries.rows.starts
        offsets, at = read_varints(entries.rows.data, at, self.path)
        sizes, _ = read_varints(entries.rows.data, at, self.path)
        return list(map(Block, offsets.tolist(), sizes.tolist()))

    @property
    def last_keys(self) -> Ragged:
        """The last key of each block."""
        return self._index.keys

    @cached_property
    def _index(self) -> Entries:
        return self._parse_block(self.read_block(Block(*self._footer[3:5])))

    def read_nulls(self) -> Ints:
        """Return the rows without a value."""
        block = Block(*self._footer[5:7])
        if block == Block(0, 0):
            return np.zeros(0, np.int64)
        data = self.read(Block(block.offset, block.size + 4))
        if zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise CorruptFile(self.path, "the bitmap of null rows does not have its CRC")
        return self.read_bitmap(block)

    def read_entries(self, blocks: Sequence[Block]) -> Iterator[Entries]:
        """Yield the entries of each block."""
        return (self._parse_block(self.read_block(block)) for block in blocks)

    def read_rows(self, entries: Entries, chosen: npt.NDArray[np.bool_]) -> Ints:
        """Return the rows of the chosen entries."""
        assert entries.rows is not None
        lists = take(entries.rows, np.flatnonzero(chosen))
        numbers, ends = _read_all_varints(lists.data, self.path)
        counts = np.diff(np.searchsorted(ends, np.cumsum(lists.sizes), side="right"), prepend=0)
        firsts = np.cumsum(counts) - counts
        if (counts < 2).any() or (numbers[firsts] != counts - 1).any():  # a count and a row
            raise CorruptFile(self.path, "a list of row ids does not have the length that it begins with")
        rows = np.delete(numbers, firsts)
        if len(rows) and int(rows.max()) >= self.row_count:
            raise CorruptFile(self.path, f"row {rows.max()} of {self.row_count} rows")
        return rows

    def _parse_block(self, block: bytes) -> Entries:
        data = np.frombuffer(block, np.uint8)
        if len(data) < _TAIL_BYTES:
            raise CorruptFile(self.path, "a block is too short")
        number, kind = int.from_bytes(block[-5:-1], "little"), block[-1]
        size = len(block) - _TAIL_BYTES
        if kind == _EQUAL_SIZES:
            if not number or size % number:
                raise CorruptFile(self.path, f"a block of {size} bytes has entries of {number} bytes")
            starts = np.arange(0, size, number)
        elif kind == _OFFSETS and 4 * number <= size:
            size -= 4 * number
            starts = data[size : size + 4 * number].view("<u4").astype(np.int64)
        else:
            raise CorruptFile(self.path, f"a block ends with the unknown kind {kind}, or has too many entries")
        body = data[:size]
        key_sizes, keys_at = read_varints(body, starts, self.path)
        sizes, values_at = read_varints(body, keys_at + key_sizes, self.path)
        if len(starts) and (values_at + sizes != np.append(starts[1:], size)).any():
            raise CorruptFile(self.path, "entries of a block do not follow each other")
        return Entries(gather(body, keys_at, key_sizes), gather(body, values_at, sizes))


class BitmapFile(SortedIndexFile, frozen=True, dict=True):
    """A bitmap file."""

    @cached_property
    def _footer(self) -> tuple[int, ...]:
        return self._unpack_footer(_BITMAP_FOOTER, _BITMAP_MAGIC)

    @cached_property
    def _index(self) -> Entries:
        return self._parse_block(self.read_block(Block(*self._footer[4:6])))

    @property
    def blocks(self) -> list[Block]:
        """The dictionary blocks, in the order of the bytes of their keys."""
        return list(self._index.places)

    def find_blocks(self, keys: Ragged) -> list[Block]:
        """Return the blocks that may have these keys."""
        firsts = _to_bytes(self._index.keys)
        found = {bisect_right(firsts, key) - 1 for key in _to_bytes(keys)}
        return [self._index.places[number] for number in sorted(found) if number >= 0]

    def read_nulls(self) -> Ints:
        """Return the rows without a value."""
        return self.read_bitmap(Block(*self._footer[0:2]))

    def read_entries(self, blocks: Sequence[Block]) -> Iterator[Entries]:
        """Yield the entries of each block."""
        return (self._parse_block(self.read_block(block)) for block in blocks)

    def read_rows(self, entries: Entries, chosen: npt.NDArray[np.bool_]) -> Ints:
        """Return the rows of the chosen entries."""
        found = [self.read_bitmap(entries.places[number]) for number in np.flatnonzero(chosen).tolist()]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _parse_block(self, block: bytes) -> Entries:
        """Parse entries one after another: there is one for each distinct value."""
        at = 0

        def number() -> int:
            nonlocal at
            value = shift = 0
            while True:
                if at >= len(block) or shift >= 7 * MAX_VARINT_BYTES:
                    raise CorruptFile(self.path, "a number goes beyond the end of its block")
                byte = block[at]
                at += 1
                value |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:  # the highest bit
                    return value

        keys, places = [], []
        for _ in range(number()):
            size = number()
            keys.append(block[at : at + size])
            at += size
            places.append(Block(number(), number()))
        if at != len(block):
            raise CorruptFile(self.path, "a block is longer than its entries")
        sizes = np.array([len(key) for key in keys], np.int64)
        return Entries(Ragged(np.frombuffer(b"".join(keys), np.uint8), sizes), None, places)


def open_index_file(kind: str, store: FileStore, path: str, size: int, row_count: int) -> BTreeFile | BitmapFile:
    """Return the reader of an index file of one of `SORTED_INDEXES`."""
    return (BTreeFile if kind == BTREE else BitmapFile)(store, path, size, row_count)


def _to_bytes(keys: Ragged) -> list[bytes]:
    data, edges = keys.data.tobytes(), np.append(0, np.cumsum(keys.sizes)).tolist()
    return [data[start:end] for start, end in pairwise(edges)]


# --- writing ---


def write_index_file(
    index_type: str, values: pl.Series, rows: Ints, kind: t.DataType, block_bytes: int
) -> tuple[bytes, bytes]:
    """Return an index file and its metadata.

    Args:
        values: the values of the rows, in the Polars dtype of `kind`.
        rows: the local row id of each value, ascending, below 2 ** 32.
    """
    is_null = values.is_null().to_numpy()
    nulls, rows = rows[is_null], rows[~is_null]
    values = values.drop_nulls()
    keys = encode_keys(values, kind)
    order = _sort_by_value(values, rows)
    bounds = KeyBounds(None, None, bool(len(nulls)))
    if len(keys):
        first, last = _to_bytes(take(keys, order[[0, -1]]))
        bounds = KeyBounds(first, last, bool(len(nulls)))
    write = _write_btree if index_type == BTREE else _write_bitmap
    return write(keys, rows, order, nulls, block_bytes), bounds.serialize()


def _sort_by_value(values: pl.Series, rows: Ints) -> Ints:
    """Return the indexes that sort by value, in Java's order, and then by row."""
    if values.dtype.is_float():  # -0.0 before 0.0, NaN last
        numbers = values.to_numpy()
        return np.lexsort((rows, ~np.signbit(numbers), numbers))
    frame = pl.DataFrame([values.alias("value"), make_series(np.arange(len(rows))).alias("row")])
    return frame.sort("value", maintain_order=True)["row"].to_numpy()


def _find_groups(keys: Ragged, order: Ints) -> Ints:
    """Return the places in `order` at which another key begins."""
    sorted_ = take(keys, order)
    offsets = np.append(0, np.cumsum(sorted_.sizes))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(sorted_.data))]
    text = to_series(pa.Array.from_buffers(pa.large_binary(), len(sorted_), buffers))
    return np.flatnonzero(text.ne_missing(text.shift()).to_numpy())


def _write_btree(keys: Ragged, rows: Ints, order: Ints, nulls: Ints, block_bytes: int) -> bytes:
    starts = _find_groups(keys, order)
    counts = np.diff(np.append(starts, len(order)))
    ids = encode_varints(rows[order])
    id_sizes = np.add.reduceat(ids.sizes, starts) if len(starts) else np.zeros(0, np.int64)
    lists = concat_rows([encode_varints(counts), Ragged(ids.data, id_sizes)])
    distinct = take(keys, order[starts])
    entries = concat_rows([encode_varints(distinct.sizes), distinct, encode_varints(lists.sizes), lists])
    block_of = entries.starts // block_bytes
    edges = np.flatnonzero(np.diff(block_of, prepend=-1)).tolist()
    out, at = [], 0
    lasts: list[int] = []
    places: list[tuple[int, int]] = []
    for start, end in pairwise([*edges, len(entries)]):
        block = _format_block(entries.part(start, end))
        out.append(_seal(block))
        lasts.append(end - 1)
        places.append((at, len(block)))
        at += len(block) + _TRAILER_BYTES
    null_at = (0, 0)
    if len(nulls):
        bitmap = _write_bitmap64(nulls)
        null_at = at, len(bitmap)
        out.append(bitmap + zlib.crc32(bitmap).to_bytes(4, "little"))
        at += len(bitmap) + 4
    table = np.array(places, np.int64).reshape(-1, 2)
    handles = concat_rows([encode_varints(table[:, 0]), encode_varints(table[:, 1])])
    last_keys = take(distinct, np.array(lasts, np.int64))
    index = concat_rows([encode_varints(last_keys.sizes), last_keys, encode_varints(handles.sizes), handles])
    block = _format_block(index)
    out.append(_seal(block))
    out.append(_BTREE_FOOTER.pack(0, 0, 0, at, len(block), *null_at, _VERSION, _BTREE_MAGIC))
    return b"".join(out)


def _format_block(entries: Ragged) -> bytes:
    data, sizes = entries.data.tobytes(), entries.sizes
    if len(sizes) and (sizes == sizes[0]).all():
        return data + int(sizes[0]).to_bytes(4, "little") + bytes([_EQUAL_SIZES])
    return data + entries.starts.astype("<i4").tobytes() + len(sizes).to_bytes(4, "little") + bytes([_OFFSETS])


def _seal(block: bytes) -> bytes:
    sealed = block + bytes([_UNCOMPRESSED])
    return sealed + zlib.crc32(sealed).to_bytes(4, "little")


def _write_bitmap64(rows: Ints) -> bytes:
    if not len(rows):
        return bytes(8)
    return _BITMAP64_HEAD + write_many(np.zeros(len(rows), np.int64), rows, 1).data.tobytes()


_BITMAP64_HEAD = (1).to_bytes(8, "little") + (0).to_bytes(4, "little")
"""One 32-bit bitmap, with the upper bits 0: local row ids are below 2 ** 32."""


def _write_bitmap(keys: Ragged, rows: Ints, order: Ints, nulls: Ints, block_bytes: int) -> bytes:
    starts = _find_groups(keys, order)
    counts = np.diff(np.append(starts, len(order)))
    distinct = take(keys, order[starts])
    bitmaps = write_many(np.repeat(np.arange(len(starts)), counts), rows[order], len(starts))
    head = np.tile(np.frombuffer(_BITMAP64_HEAD, np.uint8), len(starts))
    bodies = concat_rows([Ragged(head, np.full(len(starts), len(_BITMAP64_HEAD), np.int64)), bitmaps])
    by_bytes = np.array(sorted(range(len(distinct)), key=_to_bytes(distinct).__getitem__), np.int64)
    places = concat_rows([encode_varints(bodies.starts[by_bytes]), encode_varints(bodies.sizes[by_bytes])])
    in_order = take(distinct, by_bytes)
    entries = concat_rows([encode_varints(in_order.sizes), in_order, places])
    edges = np.flatnonzero(np.diff(entries.starts // block_bytes, prepend=-1)).tolist()
    out, at = [bodies.data.tobytes()], len(bodies.data)
    heads_at: list[tuple[int, int]] = []
    for start, end in pairwise([*edges, len(entries)]):
        part = entries.part(start, end)
        block = encode_varints(np.array([len(part)])).data.tobytes() + part.data.tobytes()
        out.append(_seal(block))
        heads_at.append((at, len(block)))
        at += len(block) + _TRAILER_BYTES
    footer: list[int] = []
    for bitmap in (_write_bitmap64(nulls), _write_bitmap64(np.sort(rows))):
        out.append(bitmap)
        footer += (at, len(bitmap))
        at += len(bitmap)
    table = np.array(heads_at, np.int64).reshape(-1, 2)
    firsts = take(in_order, np.array(edges, np.int64))
    index = concat_rows(
        [encode_varints(firsts.sizes), firsts, encode_varints(table[:, 0]), encode_varints(table[:, 1])]
    )
    block = encode_varints(np.array([len(index)])).data.tobytes() + index.data.tobytes()
    out.append(_seal(block))
    return b"".join([*out, _BITMAP_FOOTER.pack(*footer, at, len(block), len(starts), _VERSION, _BITMAP_MAGIC)])
