"""The ``bitmap`` index: the set of rows of each value.

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
keys ascend. The end of the last bitmap need not be stored in either version: a roaring bitmap tells its own size.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.file_index import rowsets
from morrow.engine.format.file_index.cursor import Cursor
from morrow.engine.format.file_index.keys import KINDS, Key, KeyKind
from morrow.engine.format.file_index.result import Packed

NAME = "bitmap"
UNSUPPORTED = (t.DecimalType, t.BinaryType, t.VarBinaryType)
PLACE_WIDTH = 4


def supports(data_type: t.DataType) -> bool:
    return not isinstance(data_type, UNSUPPORTED)


@dataclass(frozen=True)
class BitmapIndex:
    """The places of the bitmaps, each of which is decoded on demand."""

    row_count: int
    null_place: int | None
    place_of: Callable[[Key], int | None]
    bitmaps: Cursor

    def present(self) -> Packed:
        nulls = rowsets.empty(self.row_count) if self.null_place is None else self._rows(self.null_place)
        return rowsets.complement(nulls, self.row_count)

    def equal(self, key: Key) -> Packed:
        place = self.place_of(key)
        return rowsets.empty(self.row_count) if place is None else self._rows(place)

    def below(self, key: Key) -> None:
        """Returns None: bitmaps are found by value, not by order."""

    def _rows(self, place: int) -> Packed:
        if place >= 0:
            return rowsets.take_rows(self.bitmaps.rest(place), self.row_count)
        row = -1 - place
        if row >= self.row_count:
            raise self.bitmaps.corrupt(f"row {row} of {self.row_count} rows")
        out = rowsets.empty(self.row_count)
        out[row >> 3] = 1 << (row & 7)
        return out


def read(cursor: Cursor, data_type: t.DataType) -> BitmapIndex:
    """Reads the index of a column of this type.

    Raises:
        CorruptFile, Unsupported: not this format, or another version of it.
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
    cursor.i32()  # the number of keys, which the blocks store as well
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
