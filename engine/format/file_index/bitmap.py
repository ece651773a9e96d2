"""The ``bitmap`` index: the set of rows of each value, and its encoder.

Integers big-endian; a key is stored in the width of its type, text as ``i32 length`` and bytes::

    u8   version, 1 or 2
    i32  number of rows
    i32  number of keys
    u8   1 if there are nulls; then
         i32  place of the null rows
         i32  length of their bitmap                     (version 2)

    version 1                                  version 2
    per key: key, i32 place                    i32  number of blocks
                                               per block: first key, i32 offset of the block
                                               i32  total size of the blocks
                                               per block: i32 number of keys; per key: key, i32 place, i32 length

    then the roaring bitmaps

A place below 0 is a single row, ``-1 - place``; otherwise it is the offset of a bitmap from the first one. Version 2
keys ascend. The end of the last bitmap may be missing in both versions, since a roaring bitmap contains its own size.

Java writers iterate over hash maps, so the order of a Java `HashMap` is part of the bytes. A key is in the bucket
``(hash ^ hash >>> 16) & (capacity - 1)``, and buckets are in ascending order. Within a bucket, `put` adds a key after
the present keys, `computeIfAbsent` before them. (Buckets of eight or more keys, which become trees, may differ from
Java. Readers do not depend on the order.)
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row_encoder import hash_bytes
from morrow.engine.format.file_index import row_sets
from morrow.engine.format.file_index.data_output import Cursor, Ragged, concat_rows, take, to_fixed_width
from morrow.engine.format.file_index.keys import KINDS, ColumnKeys, Key, KeyKind, encode_keys, to_bits, to_ragged
from morrow.engine.format.file_index.parameters import read_size, read_whole_number
from morrow.engine.format.file_index.row_sets import Packed, write_many, write_rows

NAME = "bitmap"
UNSUPPORTED = (t.DecimalType, t.BinaryType, t.VarBinaryType)
PLACE_WIDTH = 4


def is_supported(data_type: t.DataType) -> bool:
    return not isinstance(data_type, UNSUPPORTED)


@dataclass(frozen=True)
class BitmapIndex:
    """The places of the bitmaps, which are decoded on demand."""

    row_count: int
    null_place: int | None
    place_of: Callable[[Key], int | None]
    bitmaps: Cursor

    def present(self) -> Packed:
        nulls = row_sets.make_empty_set(self.row_count) if self.null_place is None else self._rows(self.null_place)
        return row_sets.invert_rows(nulls, self.row_count)

    def equal(self, key: Key) -> Packed:
        place = self.place_of(key)
        return row_sets.make_empty_set(self.row_count) if place is None else self._rows(place)

    def below(self, key: Key) -> None:
        """Return None, as this index is not ordered."""

    def _rows(self, place: int) -> Packed:
        if place >= 0:
            return row_sets.take_rows(self.bitmaps.rest(place), self.row_count)
        row = -1 - place
        if row >= self.row_count:
            raise self.bitmaps.corrupt(f"row {row} of {self.row_count} rows")
        out = row_sets.make_empty_set(self.row_count)
        out[row >> 3] = 1 << (row & 7)
        return out


def read(cursor: Cursor, data_type: t.DataType) -> BitmapIndex:
    """Read the index of a column of this type.

    Raises `CorruptFile`, `Unsupported`: not this format, or another version of the format.
    """
    version = cursor.i8()
    if version not in _READERS:
        raise Unsupported(f"version {version} of the bitmap index", where=cursor.where)
    return _READERS[version](cursor, KINDS[type(data_type)], cursor.row_count())


def _read_v1(cursor: Cursor, kind: KeyKind, row_count: int) -> BitmapIndex:
    number = cursor.count((kind.width or PLACE_WIDTH) + PLACE_WIDTH)
    null_place = cursor.i32() if cursor.boolean() else None
    places = {kind.read(cursor): cursor.i32() for _ in range(number)}
    return BitmapIndex(row_count, null_place, places.get, cursor.rest(cursor.at))


def _read_v2(cursor: Cursor, kind: KeyKind, row_count: int) -> BitmapIndex:
    cursor.i32()  # the number of keys, which the blocks store too
    null_place = None
    if cursor.boolean():
        null_place = cursor.i32()
        cursor.i32()
    number = cursor.count((kind.width or PLACE_WIDTH) + PLACE_WIDTH)
    firsts, offsets = [], []
    for _ in range(number):
        firsts.append(kind.read(cursor))
        offsets.append(cursor.i32())
    blocks = cursor.part(cursor.at + 4, cursor.i32())

    def place_of(key: Key) -> int | None:
        block = bisect_right(firsts, key) - 1
        return None if block < 0 else _read_block(blocks.rest(offsets[block]), kind).get(key)

    return BitmapIndex(row_count, null_place, place_of, cursor.rest(cursor.at + len(blocks.data)))


def _read_block(cursor: Cursor, kind: KeyKind) -> dict[Key, int]:
    number = cursor.count((kind.width or PLACE_WIDTH) + 2 * PLACE_WIDTH)
    places: dict[Key, int] = {}
    last: Any = None  # all keys of an index are of one type
    for _ in range(number):
        key = kind.read(cursor)
        if last is not None and key < last:
            raise cursor.corrupt("keys of a block that do not ascend")
        places[key], last = cursor.i32(), key
        cursor.i32()  # the length of the bitmap
    return places


_READERS: Mapping[int, Callable[[Cursor, KeyKind, int], BitmapIndex]] = {1: _read_v1, 2: _read_v2}

Ints = npt.NDArray[np.int64]

DEFAULT_VERSION = 2
DEFAULT_BLOCK_SIZE = 16 << 10
NO_LENGTH = -1
"""The length stored for a single row, which does not need a bitmap."""
BLOCK_HEAD = 4


@dataclass(frozen=True, eq=False)
class _Places:
    """The bitmaps of a column, and the place and length of each distinct key in ascending order."""

    order: Ints
    places: Ints
    lengths: Ints
    null_place: int
    null_length: int
    bitmaps: bytes


def encode(keys: ColumnKeys, options: Mapping[str, str]) -> bytes:
    """Return the index of a column, in the ``version`` of the options.

    Raises `InvalidArgument`: a parameter out of range, or a key that does not fit a block of ``index-block-size``.
    """
    version = read_whole_number(options, "version", DEFAULT_VERSION, least=min(_HEADS), most=max(_HEADS))
    places = _lay_out_places(keys)
    head = struct.pack(">bii?", version, keys.row_count, keys.distinct.len(), len(keys.null_rows) > 0)
    return b"".join([head, *_HEADS[version](keys, places, options), places.bitmaps])


def _lay_out_places(keys: ColumnKeys) -> _Places:
    """Lay out the bitmaps: the nulls first, then the keys in the order of the Java map."""
    count = keys.distinct.len()
    counts = np.bincount(keys.codes, minlength=count)
    _, came = np.unique(keys.codes, return_index=True)
    order = sort_in_map_order(hash_keys(keys.distinct, keys.data_type), -came)  # Java's writer uses computeIfAbsent
    rank = np.empty(count, np.int64)
    rank[order] = np.cumsum(counts[order] > 1) - 1  # of the keys with more than one row
    shared = np.flatnonzero(counts[keys.codes] > 1)
    sets = rank[keys.codes[shared]]
    sorting = np.argsort(sets, kind="stable")
    bitmaps = write_many(sets[sorting], keys.rows[shared[sorting]], int((counts > 1).sum()))
    nulls = write_rows(keys.null_rows, keys.row_count)
    stored_nulls = nulls if len(keys.null_rows) > 1 else b""
    starts, lengths = len(stored_nulls) + bitmaps.starts, bitmaps.sizes
    single = counts == 1
    return _Places(
        order=order,
        places=np.where(single, -1 - keys.rows[came], _take_values(starts, rank)),
        lengths=np.where(single, NO_LENGTH, _take_values(lengths, rank)),
        null_place=-1 - int(keys.null_rows[0]) if len(keys.null_rows) == 1 else 0,
        null_length=len(nulls),
        bitmaps=stored_nulls + bitmaps.data.tobytes(),
    )


def _take_values(values: Ints, places: Ints) -> Ints:
    """Return the values at these places, and an arbitrary value for an invalid place."""
    return values[places.clip(0)] if len(values) else places


def _encode_head_v1(keys: ColumnKeys, places: _Places, _: Mapping[str, str]) -> Iterator[bytes]:
    if len(keys.null_rows):
        yield struct.pack(">i", places.null_place)
    entries = concat_rows([encode_keys(keys.distinct, keys.data_type), to_fixed_width(places.places, ">i4")])
    yield take(entries, places.order).data.tobytes()


def _encode_head_v2(keys: ColumnKeys, places: _Places, options: Mapping[str, str]) -> Iterator[bytes]:
    if len(keys.null_rows):
        yield struct.pack(">ii", places.null_place, places.null_length)
    names = encode_keys(keys.distinct, keys.data_type)
    entries = concat_rows([names, to_fixed_width(places.places, ">i4"), to_fixed_width(places.lengths, ">i4")])
    begins, sizes = _divide_blocks(entries.sizes, read_size(options, "index-block-size", DEFAULT_BLOCK_SIZE))
    yield struct.pack(">i", len(begins))
    yield concat_rows([take(names, begins), to_fixed_width(np.cumsum(sizes) - sizes, ">i4")]).data.tobytes()
    yield struct.pack(">i", int(sizes.sum()))
    counts = np.diff(np.append(begins, len(entries)))
    yield concat_rows([to_fixed_width(counts, ">i4"), Ragged(entries.data, sizes - BLOCK_HEAD)]).data.tobytes()


def _divide_blocks(sizes: Ints, limit: int) -> tuple[Ints, Ints]:
    """Return the first entry and the size of each block; blocks have as many entries as fit the limit."""
    if len(sizes) and int(sizes.max()) + BLOCK_HEAD > limit:
        problem = f"a key of {int(sizes.max()) - 2 * BLOCK_HEAD} bytes does not fit a block of {limit} bytes"
        raise InvalidArgument(f"bitmap index: {problem}; raise index-block-size or take another index")
    ends = np.cumsum(sizes)
    begins, taken, done = [], [], 0
    while done < len(sizes):
        before = int(ends[done - 1]) if done else 0
        stop = int(np.searchsorted(ends, before + limit - BLOCK_HEAD, side="right"))
        begins.append(done)
        taken.append(int(ends[stop - 1]) - before + BLOCK_HEAD)
        done = stop
    return np.array(begins, np.int64), np.array(taken, np.int64)


_HEADS: Mapping[int, Callable[[ColumnKeys, _Places, Mapping[str, str]], Iterator[bytes]]] = {
    1: _encode_head_v1,
    2: _encode_head_v2,
}

Value = TypeVar("Value")
MIN_CAPACITY = 16
_TRUE_HASH, _FALSE_HASH = 1231, 1237
_LONGS = (t.BigIntType, t.DoubleType, t.TimestampType, t.LocalZonedTimestampType)


def hash_keys(keys: pl.Series, data_type: t.DataType) -> Ints:
    """Return `hashCode()` of the keys as Java values: Integer, Long, Float, Double, Boolean or BinaryString."""
    if keys.dtype == pl.Binary:
        text = to_ragged(keys)
        return hash_bytes(text.data, text.starts, text.sizes).astype(np.int64)
    bits = to_bits(keys.to_numpy(), data_type)
    if isinstance(data_type, t.BooleanType):
        return np.where(bits == 1, _TRUE_HASH, _FALSE_HASH)
    return bits ^ (bits.view(np.uint64) >> np.uint64(32)).view(np.int64) if isinstance(data_type, _LONGS) else bits


def sort_in_map_order(hashes: Ints, came: Ints) -> Ints:
    """Return the indexes that sort keys with these hashes in map order; within a bucket, by ascending `came`."""
    capacity = MIN_CAPACITY
    while len(hashes) > capacity * 3 // 4:
        capacity *= 2
    unsigned = hashes.astype(np.uint32)
    return np.lexsort((came, (unsigned ^ unsigned >> np.uint32(16)) & np.uint32(capacity - 1)))


def order_entries(entries: Mapping[str, Value]) -> dict[str, Value]:
    """Return the entries in the order of a Java map of Strings, after insertion in the given order."""
    names = list(entries)
    order = sort_in_map_order(np.array([_hash_string(name) for name in names], np.int64), np.arange(len(names)))
    return {names[at]: entries[names[at]] for at in order.tolist()}


def _hash_string(text: str) -> int:
    """Return `String.hashCode()`, which is over UTF-16 units."""
    value = 0
    for unit in np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").tolist():
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value
