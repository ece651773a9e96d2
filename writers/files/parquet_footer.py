"""Footers of Parquet files: one made of several, and fixed bytes relabelled as INT96.

A footer is the struct FileMetaData of the Parquet format in Thrift's compact protocol. It is decoded without knowledge
of its schema, changed in a few places, and encoded again, so whatever the writer of the files put in is kept:

    FileMetaData    2 schema: list<SchemaElement>   3 num_rows: i64   4 row_groups: list<RowGroup>
    SchemaElement   1 type: i32   2 type_length: i32   6 converted_type   10 logicalType
    RowGroup        1 columns: list<ColumnChunk>   5 file_offset: i64   7 ordinal: i16
    ColumnChunk     2 file_offset: i64   3 meta_data: ColumnMetaData   4, 6 offsets of the page indexes
    ColumnMetaData  1 type: i32   9 data_page_offset   10 index_page_offset   11 dictionary_page_offset: i64

Compact protocol: unsigned numbers as varints of 7 bits, signed ones zigzag; a field is a byte ``id delta << 4 | type``
(delta 0: the id follows), a struct ends with 0, a list begins with ``size << 4 | type`` (15: the size follows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET = range(1, 11)
STRUCT = 12
LONG_LIST = 15

Struct = dict[int, tuple[int, Any]]
"""Field id -> (wire type, value), in the order of ids."""

FIXED_LEN_BYTE_ARRAY, INT96 = 7, 3
INT96_WIDTH = 12

SCHEMA, NUM_ROWS, ROW_GROUPS = 2, 3, 4
ELEMENT_TYPE, ELEMENT_LENGTH, ELEMENT_CONVERTED, ELEMENT_LOGICAL = 1, 2, 6, 10
GROUP_COLUMNS, GROUP_OFFSET, GROUP_ORDINAL = 1, 5, 7
CHUNK_OFFSET, CHUNK_METADATA, CHUNK_OFFSETS = 2, 3, (2, 4, 6)
METADATA_TYPE, METADATA_OFFSETS = 1, (9, 10, 11, 14)


def merge_footers(parts: Sequence[tuple[int, bytes]], *, int96: bool) -> bytes:
    """The footer of a file that has the row groups of several files, one after another.

    Args:
        parts: for each file the length of what lies between its magic and its footer, and that footer.
        int96: columns of 12 fixed bytes, other than decimals, become INT96.
    """
    if len(parts) == 1 and not int96:
        return parts[0][1]
    footers = [decode(footer) for _, footer in parts]
    merged, rows, shift = footers[0], 0, 0
    groups: list[Struct] = []
    for footer, (length, _) in zip(footers, parts, strict=True):
        for group in footer[ROW_GROUPS][1]:
            _move(group, shift, len(groups))
            groups.append(group)
        rows += footer[NUM_ROWS][1]
        shift += length
    merged[NUM_ROWS] = (I64, rows)
    merged[ROW_GROUPS] = (LIST, _List(STRUCT, groups))
    if int96:
        _relabel(merged)
    return encode(merged)


def _move(group: Struct, shift: int, ordinal: int) -> None:
    _add(group, (GROUP_OFFSET,), shift)
    group[GROUP_ORDINAL] = (I16, ordinal)
    for chunk in group[GROUP_COLUMNS][1]:
        _add(chunk, CHUNK_OFFSETS, shift)
        _add(chunk[CHUNK_METADATA][1], METADATA_OFFSETS, shift)


def _add(node: Struct, fields: Sequence[int], shift: int) -> None:
    """Offset 0 stands for none where a writer fills the required member."""
    for field in fields:
        if field in node and node[field][1]:
            node[field] = (I64, node[field][1] + shift)


def _relabel(footer: Struct) -> None:
    leaves = [node for node in footer[SCHEMA][1] if ELEMENT_TYPE in node]
    nanos = [
        leaf[ELEMENT_TYPE][1] == FIXED_LEN_BYTE_ARRAY
        and leaf[ELEMENT_LENGTH][1] == INT96_WIDTH
        and ELEMENT_LOGICAL not in leaf
        and ELEMENT_CONVERTED not in leaf
        for leaf in leaves
    ]
    for leaf, is_nanos in zip(leaves, nanos, strict=True):
        if is_nanos:
            leaf[ELEMENT_TYPE] = (I32, INT96)
            del leaf[ELEMENT_LENGTH]
    for group in footer[ROW_GROUPS][1]:
        for chunk, is_nanos in zip(group[GROUP_COLUMNS][1], nanos, strict=True):
            if is_nanos:
                chunk[CHUNK_METADATA][1][METADATA_TYPE] = (I32, INT96)


class _List(list[Any]):
    """Items with their wire type."""

    def __init__(self, kind: int, items: Iterator[Any] | Sequence[Any]) -> None:
        super().__init__(items)
        self.kind = kind


# --- the compact protocol ---


def decode(data: bytes) -> Struct:
    """A struct of any schema."""
    return _Reader(data).struct()


def encode(node: Struct) -> bytes:
    """The reverse of `decode`."""
    out = bytearray()
    _put_struct(out, node)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> Struct:
        node: Struct = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            node[field] = (kind, kind == TRUE if kind in (TRUE, FALSE) else self.value(kind))
        return node

    def value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (LIST, SET):
            return self.items()
        if kind == STRUCT:
            return self.struct()
        if kind == DOUBLE:
            return self.take(8)
        return self.byte()

    def items(self) -> _List:
        head = self.byte()
        size = self.varint() if head >> 4 == LONG_LIST else head >> 4
        return _List(head & 15, (self.value(head & 15) for _ in range(size)))

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]

    def varint(self) -> int:
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def zigzag(self) -> int:
        number = self.varint()
        return number >> 1 ^ -(number & 1)


def _put_struct(out: bytearray, node: Struct) -> None:
    last = 0
    for field in sorted(node):
        kind, value = node[field]
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        delta = field - last
        if 0 < delta <= LONG_LIST:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _put_zigzag(out, field)
        if kind not in (TRUE, FALSE):
            _put(out, kind, value)
        last = field
    out.append(0)


def _put_varint(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _put_zigzag(out: bytearray, number: int) -> None:
    _put_varint(out, number << 1 if number >= 0 else (-number << 1) - 1)


def _put_binary(out: bytearray, value: bytes) -> None:
    _put_varint(out, len(value))
    out += value


def _put_list(out: bytearray, items: _List) -> None:
    if len(items) < LONG_LIST:
        out.append(len(items) << 4 | items.kind)
    else:
        out.append(LONG_LIST << 4 | items.kind)
        _put_varint(out, len(items))
    for item in items:
        _put(out, items.kind, item)


def _put(out: bytearray, kind: int, value: Any) -> None:
    _PUT.get(kind, bytearray.append)(out, value)


_PUT: dict[int, Callable[[bytearray, Any], None]] = {
    **dict.fromkeys((I16, I32, I64), _put_zigzag),
    BINARY: _put_binary,
    **dict.fromkeys((LIST, SET), _put_list),
    STRUCT: _put_struct,
    DOUBLE: bytearray.extend,
}
