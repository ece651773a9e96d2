"""Footers and page headers of Parquet files: Thrift's compact protocol, and limits on pages.

Unsigned numbers are varints of 7 bits, signed ones zigzag; a field is a byte ``id delta << 4 | type`` (delta 0: the id
follows), a struct ends with 0, a list begins with ``size << 4 | type`` (15: the size follows).

Decoding does not need a schema. Arrow trusts the numbers of a page header: a few bytes can claim gigabytes, or
decompress to them. `check_page_sizes` therefore reads the headers of a metadata file before Arrow allocates memory
for its pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from morrow.engine.errors import CorruptFile

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET = range(1, 11)
STRUCT = 12
END = 0
LONG_LIST = 15
DOUBLE_BYTES = 8
MAX_SHIFT_BITS = 63
"""The number of bits of a 64-bit number below its last group of seven."""
MAX_NESTING = 32
"""Maximum nesting of structs and lists, which is below ten in Parquet."""

Struct = dict[int, tuple[int, Any]]
"""A struct: field id -> (wire type, value), in the order of ids."""


class ThriftError(ValueError):
    """The bytes end too early, or do not follow the protocol."""


class Items(list[Any]):
    """A list of items with their wire type."""

    def __init__(self, kind: int, items: Iterable[Any]) -> None:
        super().__init__(items)
        self.kind = kind


def decode_thrift(data: bytes) -> Struct:
    """Decode a struct of any schema. Raises `ThriftError`."""
    return decode_thrift_from(data, 0)[0]


def decode_thrift_from(data: bytes, start: int, levels: int = MAX_NESTING) -> tuple[Struct, int]:
    """Decode the struct that begins at `start`; return the struct and its end.

    Structs nested deeper than `levels` come back empty. Raises `ThriftError`.
    """
    try:
        return _decode_struct(data, start, 1, levels)
    except IndexError:
        raise ThriftError("the bytes end within a struct") from None


def encode_thrift(node: Struct) -> bytes:
    """Encode a struct, the reverse of `decode_thrift`. Structs within it may be encoded already."""
    out = bytearray()
    _put_struct(out, node)
    return bytes(out)


def encode_members(node: Struct, after: int = 0) -> bytes:
    """Encode members of a struct that follow the member `after`, without the end of the struct."""
    out = bytearray()
    _put_members(out, node, after)
    return bytes(out)


# --- decoding: each function takes a position and returns the next; IndexError is the end of the bytes ---


def _decode_struct(data: bytes, at: int, depth: int, levels: int) -> tuple[Struct, int]:
    """Decode a struct. Optimized for speed like `_skip_struct`, as a file has many page headers."""
    if depth > MAX_NESTING:
        raise ThriftError(f"more than {MAX_NESTING} structs in each other")
    if depth > levels:
        return {}, _skip_struct(data, at, depth)
    node: Struct = {}
    field = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head >> 4:
            field += head >> 4
        else:
            field, at = _decode_zigzag(data, at)
        if kind in (I32, I64, I16):
            number = data[at]
            at += 1
            if number >= 0x80:
                number, at = _decode_varint(data, at - 1)
            node[field] = kind, number >> 1 ^ -(number & 1)
        elif kind in (TRUE, FALSE):
            node[field] = kind, kind == TRUE
        else:
            value, at = _decode_value(data, at, kind, depth, levels)
            node[field] = kind, value
    return node, at + 1


def _skip_struct(data: bytes, at: int, depth: int) -> int:
    """Return the end of the struct that begins at `at`, without decoding it."""
    while head := data[at]:
        at += 1
        kind = head & 15
        if not head >> 4:
            _, at = _decode_varint(data, at)
        if kind in (I32, I64, I16):
            while data[at] & 0x80:
                at += 1
            at += 1
        elif kind == BINARY:
            length, at = _decode_varint(data, at)
            at += length
        elif kind not in (TRUE, FALSE):
            _, at = _decode_value(data, at, kind, depth, depth)
    return at + 1


def _decode_value(data: bytes, at: int, kind: int, depth: int, levels: int) -> tuple[Any, int]:
    if kind == STRUCT:
        return _decode_struct(data, at, depth + 1, levels)
    if kind == BINARY:
        length, at = _decode_varint(data, at)
        return _take_bytes(data, at, length)
    if kind in (I16, I32, I64):
        return _decode_zigzag(data, at)
    if kind in (LIST, SET):
        return _decode_items(data, at, depth + 1, levels)
    if kind == DOUBLE:
        return _take_bytes(data, at, DOUBLE_BYTES)
    if kind in (TRUE, FALSE, BYTE):
        return data[at], at + 1
    raise ThriftError(f"no type has the number {kind}")


def _decode_items(data: bytes, at: int, depth: int, levels: int) -> tuple[Items, int]:
    head = data[at]
    size, at = _decode_varint(data, at + 1) if head >> 4 == LONG_LIST else (head >> 4, at + 1)
    if depth > MAX_NESTING or size > len(data) - at:  # an item takes at least a byte
        raise ThriftError(f"a list of {size} items, {depth} deep")
    items = Items(head & 15, ())
    for _ in range(size):
        item, at = _decode_value(data, at, items.kind, depth, levels)
        items.append(item)
    return items, at


def _take_bytes(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    end = at + length
    if end > len(data):
        raise IndexError
    return data[at:end], end


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > MAX_SHIFT_BITS:
            raise ThriftError("a number of more than 64 bits")


def _decode_zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = _decode_varint(data, at)
    return number >> 1 ^ -(number & 1), at


# --- encoding ---


def _put_struct(out: bytearray, node: Struct | bytes) -> None:
    if isinstance(node, bytes):
        out += node
        return
    _put_members(out, node, 0)
    out.append(END)


def _put_members(out: bytearray, node: Struct, last: int) -> None:
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


def _put_list(out: bytearray, items: Items) -> None:
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

MAGIC = b"PAR1"
TAIL_BYTES = 8
"""The end of a file: the length of the footer, and the magic."""
ROWS, ROW_GROUPS = 3, 4
"""Thrift field ids of ``FileMetaData``."""
COLUMNS, GROUP_ROWS = 1, 3
"""Thrift field ids of ``RowGroup``."""
DATA_OFFSET, DICTIONARY_OFFSET, STORED = 9, 11, 7
"""Thrift field ids of ``ColumnMetaData``, which is member 3 of ``ColumnChunk``."""
METADATA = 3
LEVELS_PER_GROUP = 8
"""Levels of a group of packed levels, which takes as many bytes as a level has bits."""
PAGE_UNCOMPRESSED, PAGE_STORED = 2, 3
"""Thrift field ids of ``PageHeader``."""


def count_rows(levels: bytes | memoryview, width: int, values: int) -> int:
    """Count the rows that begin among `values` values, by their repetition levels of `width` bits (RLE or packed).

    Raises ThriftError, IndexError, ValueError: the levels are damaged.
    """
    data, at, left, rows = bytes(levels), 0, values, 0
    while left > 0:
        head, at = _decode_varint(data, at)
        count = min((head >> 1) * (LEVELS_PER_GROUP if head & 1 else 1), left)
        length = (head >> 1) * width if head & 1 else -(-width // 8)
        if not count or at + length > len(data):
            raise ThriftError("repetition levels that end too early")
        if head & 1:
            bits = np.unpackbits(np.frombuffer(data, np.uint8, length, at), bitorder="little")
            rows += count - int(bits[: count * width].reshape(count, width).any(1).sum())
        elif not any(data[at : at + length]):
            rows += count
        at, left = at + length, left - count
    return rows


def check_page_sizes(data: bytes, where: str, most_rows: int, most_bytes: int) -> None:
    """Check that a Parquet file claims at most `most_rows` rows and `most_bytes` bytes of pages.

    Raises `CorruptFile`: the file claims more, or its footer or a page header is damaged.
    """
    try:
        length = int.from_bytes(data[-TAIL_BYTES : -TAIL_BYTES // 2], "little")
        footer = decode_thrift(data[-TAIL_BYTES - length : -TAIL_BYTES])
        rows = sum(group[GROUP_ROWS][1] for group in footer[ROW_GROUPS][1])
        unpacked = sum(_iterate_page_sizes(data, footer))
    except (ThriftError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CorruptFile(where, f"the footer or a page header of the Parquet file is damaged ({error})") from error
    if not 0 <= rows <= most_rows or rows != footer[ROWS][1]:
        raise CorruptFile(where, f"it claims {rows} rows, more than its {len(data)} bytes can name files")
    if unpacked > most_bytes:
        raise CorruptFile(where, "it decompresses to more than a file of its size can hold")


def _iterate_page_sizes(data: bytes, footer: Struct) -> Iterator[int]:
    """Yield the size of each page in bytes, decompressed."""
    for group in footer[ROW_GROUPS][1]:
        for chunk in group[COLUMNS][1]:
            column: Struct = chunk[METADATA][1]
            if column[STORED][1] == 0:
                continue
            offsets = [column[member][1] for member in (DATA_OFFSET, DICTIONARY_OFFSET) if member in column]
            at = min(offset for offset in offsets if offset > 0)
            end = at + column[STORED][1]
            if not 0 < at <= end <= len(data):
                raise ThriftError("a column lies outside of the file")
            while at < end:
                header, at = decode_thrift_from(data, at)
                stored, unpacked = header[PAGE_STORED][1], header[PAGE_UNCOMPRESSED][1]
                if stored < 0 or unpacked < 0:
                    raise ThriftError("a page of less than no bytes")
                yield unpacked
                at += stored


# --- merged footers ---
#
# A footer is the struct FileMetaData of the Parquet format in Thrift's compact protocol. It is decoded without its
# schema, changed in a few places, and encoded again, so that everything else from the writer is kept:
#
#     FileMetaData    2 schema: list<SchemaElement>   3 num_rows: i64   4 row_groups: list<RowGroup>
#     SchemaElement   1 type: i32   2 type_length: i32   6 converted_type   10 logicalType
#     RowGroup        1 columns: list<ColumnChunk>   5 file_offset: i64   7 ordinal: i16
#     ColumnChunk     2 file_offset: i64   3 meta_data: ColumnMetaData   4, 5 offset and length of the offset index
#                     6, 7 offset and length of the column index
#     OffsetIndex     1 page_locations: list<PageLocation>
#     PageLocation    1 offset: i64
#     ColumnMetaData  1 type: i32   9 data_page_offset   10 index_page_offset   11 dictionary_page_offset: i64

FIXED_LEN_BYTE_ARRAY, INT96 = 7, 3
INT96_WIDTH = 12
"""Bytes of an INT96: nanoseconds of the day (8 bytes) and Julian day (4 bytes)."""

SCHEMA, PROPERTIES = 2, 5
ELEMENT_TYPE, ELEMENT_LENGTH, ELEMENT_CONVERTED, ELEMENT_LOGICAL = 1, 2, 6, 10
GROUP_OFFSET, GROUP_ORDINAL = 5, 7
CHUNK_OFFSET = 2
OFFSET_INDEX, COLUMN_INDEX = (4, 5), (6, 7)
PAGE_LOCATIONS, PAGE_OFFSET = 1, 1
METADATA_TYPE, METADATA_OFFSETS = 1, (9, 10, 11, 14)


class Part(NamedTuple):
    """A file with row groups: the size of their pages, the page indexes behind them, and the footer."""

    size: int
    indexes: bytes
    footer: bytes


def merge_footers(parts: Sequence[Part], *, int96: bool, arrow: bytes | None = None) -> tuple[bytes, bytes]:
    """Return the page indexes and the footer of a file with the concatenated pages of several files.

    Args:
        parts: the files.
        int96: columns of 12 fixed bytes, other than decimals, become INT96.
        arrow: Arrow's schema in base 64, to store beside Parquet's own.
    """
    if len(parts) == 1 and not int96 and arrow is None:
        return parts[0].indexes, parts[0].footer
    footers = [decode_thrift(part.footer) for part in parts]
    merged, rows, shift = footers[0], 0, 0
    groups: list[Struct] = []
    indexes, start = bytearray(), len(MAGIC) + sum(part.size for part in parts)
    for footer, part in zip(footers, parts, strict=True):
        for group in footer[ROW_GROUPS][1]:
            _move_indexes(group, part, indexes, start, shift)
            _move(group, shift, len(groups))
            groups.append(group)
        rows += footer[ROWS][1]
        shift += part.size
    merged[ROWS] = (I64, rows)
    merged[ROW_GROUPS] = (LIST, Items(STRUCT, groups))
    if int96:
        _relabel(merged)
    if arrow is not None:
        entry: Struct = {1: (BINARY, b"ARROW:schema"), 2: (BINARY, arrow)}
        merged[PROPERTIES] = (LIST, Items(STRUCT, [entry]))
    return bytes(indexes), encode_thrift(merged)


def _move_indexes(group: Struct, part: Part, indexes: bytearray, start: int, shift: int) -> None:
    """Append the page indexes of a row group to `indexes`, which begin at `start` in the merged file.

    Offset indexes name positions of pages, which `shift` moves.
    """
    for chunk in group[COLUMNS][1]:
        for offset, length in (COLUMN_INDEX, OFFSET_INDEX):
            if offset not in chunk:
                continue
            first = chunk[offset][1] - len(MAGIC) - part.size
            data = part.indexes[first : first + chunk[length][1]]
            if shift and (offset, length) == OFFSET_INDEX:
                index = decode_thrift(data)
                for location in index[PAGE_LOCATIONS][1]:
                    _add(location, (PAGE_OFFSET,), shift)
                data = encode_thrift(index)
            chunk[offset], chunk[length] = (I64, start + len(indexes)), (I32, len(data))
            indexes += data


def _move(group: Struct, shift: int, ordinal: int) -> None:
    _add(group, (GROUP_OFFSET,), shift)
    group[GROUP_ORDINAL] = (I16, ordinal)
    for chunk in group[COLUMNS][1]:
        _add(chunk, (CHUNK_OFFSET,), shift)
        _add(chunk[METADATA][1], METADATA_OFFSETS, shift)


def _add(node: Struct, fields: Sequence[int], shift: int) -> None:
    """Add `shift` to offsets, except 0, with which writers fill a required but unknown offset."""
    for each in fields:
        if each in node and node[each][1]:
            node[each] = (I64, node[each][1] + shift)


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
        for chunk, is_nanos in zip(group[COLUMNS][1], nanos, strict=True):
            if is_nanos:
                chunk[METADATA][1][METADATA_TYPE] = (I32, INT96)
