"""Encoders of Avro object container files, which encode all rows of a column at once.

The layout is in `morrow.engine.format.avro`. A row is the concatenation of its members' bytes. So every member becomes
one or more columns of byte strings, which Arrow joins row by row in native code:

    int, long         zigzag varint
    boolean           a byte, 0 or 1
    float, double     4 or 8 bytes, little-endian
    fixed             its bytes; the column holds byte strings of that length
    bytes, string     varint length, then the bytes
    array             varint count, the items, then 0; an empty array is only the 0
    map               an array of records {key, value}
    ["null", T]       0 for null, else 2 and the bytes of T (union branches are longs: 0 and 1)
    record            its members, one after the other
"""

from __future__ import annotations

import bz2
import json
import lzma
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import cramjam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.arrow_buffers import read_fixed_values
from morrow.engine.format.avro import MAGIC, SNAPPY_CRC_LENGTH

BLOCK_BYTES = 64_000
"""A block is closed after the row that makes it at least this long, as in Java."""
GROUP_BITS = 7
MAX_VARINT_BYTES = 10
NULL_BRANCH = b"\x00"
VALUE_BRANCH = b"\x02"
END_OF_ARRAY = b"\x00"
ZSTD_LEVEL = 1
NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})

_GROUPS = np.arange(MAX_VARINT_BYTES)
_WIDTHS = np.uint64(1) << (GROUP_BITS * np.arange(1, MAX_VARINT_BYTES)).astype(np.uint64)

Piece: TypeAlias = "pa.Array | bytes"
"""Bytes of every row: a large binary column, or constant bytes for all rows."""


def encode_container(table: pa.Table, schema: bytes, codec: str) -> bytes:
    """Encode the rows of `table` as one container file.

    Args:
        schema: the Avro schema, a record of the types above; its text is stored unchanged. Columns are matched by
            name. Integers of any width may be an int or a long, timestamps a long of their own unit.
        codec: the compression of the blocks: null, deflate, snappy, zstd (or zstandard), bzip2, xz.

    Raises:
        InvalidArgument: a column is missing, or has nulls that the schema does not allow.
        Unsupported: an unknown codec, or a schema of other types.
    """
    name = find_codec(codec)
    sync = uuid.uuid4().bytes
    return encode_head(schema, name, sync) + encode_blocks(table, json.loads(schema), name, sync, ZSTD_LEVEL)


def wrap_block(schema: bytes, codec: str, rows: int, payload: bytes) -> bytes:
    """Return a container file of one block with encoded rows. Raises `Unsupported` as `find_codec`."""
    name = find_codec(codec)
    sync = uuid.uuid4().bytes
    compressed = COMPRESSORS[name](memoryview(payload), ZSTD_LEVEL)
    return b"".join(
        [encode_head(schema, name, sync), encode_varint(rows), encode_varint(len(compressed)), compressed, sync]
    )


def find_codec(codec: str) -> str:
    """Return the name of a codec in headers. Raises `Unsupported` if it is not in `COMPRESSORS`."""
    name = {"zstd": "zstandard", "none": "null", "uncompressed": "null"}.get(codec, codec)
    if name not in COMPRESSORS:
        raise Unsupported(f"the Avro codec {codec!r}", hint=f"known are {', '.join(COMPRESSORS)}")
    return name


def encode_head(schema: bytes, codec: str, sync: bytes, attributes: Mapping[str, str] = NO_ATTRIBUTES) -> bytes:
    """Return the head of a container; `codec` is the name in the header, `attributes` are further members."""
    members = ((b"avro.schema", schema), (b"avro.codec", codec.encode()))
    out = [MAGIC, encode_varint(len(members) + len(attributes))]
    for key, value in (*members, *((k.encode(), v.encode()) for k, v in attributes.items())):
        out += [encode_varint(len(key)), key, encode_varint(len(value)), value]
    return b"".join([*out, encode_varint(0), sync])


def encode_blocks(table: pa.Table, record: Mapping[str, Any], codec: str, sync: bytes, zstd_level: int) -> bytes:
    """Encode the rows of `table` as blocks of a container whose head has this schema (parsed), codec and sync marker.

    Raises `InvalidArgument`, `Unsupported`: as `encode_container`.
    """
    columns = {column: _combine_chunks(table[column]) for column in table.column_names}
    out: list[bytes] = []
    for count, payload in _split_blocks(_join_pieces(_encode_members(columns, record), table.num_rows)):
        compressed = COMPRESSORS[codec](payload, zstd_level)
        out += [encode_varint(count), encode_varint(len(compressed)), compressed, sync]
    return b"".join(out)


def encode_varint(value: int) -> bytes:
    """Encode one zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= GROUP_BITS
    out.append(value)
    return bytes(out)


# --- rows ---


def _encode_members(columns: Mapping[str, pa.Array], record: Mapping[str, Any], nulls: int = 0) -> list[Piece]:
    """Return the pieces of a record; `nulls` rows are null themselves, and their bytes are not used."""
    pieces: list[Piece] = []
    for member in record["fields"]:
        name, node = member["name"], member["type"]
        if name not in columns:
            raise InvalidArgument(f"the column {name!r} of the Avro schema is not there; it has {', '.join(columns)}")
        column = columns[name]
        if not isinstance(node, list) and column.null_count > nulls:
            raise InvalidArgument(f"the column {name!r} holds a null, for which the Avro schema has no place")
        pieces += _encode_pieces(column, node)
    return pieces


def _encode_pieces(column: pa.Array, node: Any) -> list[Piece]:
    if isinstance(node, list):
        return _encode_unions(column, node)
    kind = node["type"] if isinstance(node, dict) else node
    try:
        return _ENCODERS[kind](column, node)
    except KeyError:
        raise Unsupported(f"writing the Avro type {kind!r}") from None


def _encode_unions(column: pa.Array, branches: Sequence[Any]) -> list[Piece]:
    if len(branches) != 2 or branches[0] != "null":
        raise Unsupported(f"writing the Avro union {branches!r}")
    if column.null_count == len(column):
        return [NULL_BRANCH]
    pieces = [VALUE_BRANCH, *_encode_pieces(column, branches[1])]
    if not column.null_count:
        return pieces
    return [pc.if_else(column.is_valid(), _join_pieces(pieces, len(column)), pa.scalar(NULL_BRANCH, pa.large_binary()))]


def _encode_integers(column: pa.Array, _node: Any) -> list[Piece]:
    values = read_fixed_values(column, _NUMPY[column.type.bit_width]).astype(np.int64)
    return [_encode_varints(values)]


def _encode_fixed(column: pa.Array, node: Any) -> list[Piece]:
    width = column.type.bit_width // 8 or 1
    values = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
    data = np.ascontiguousarray(read_fixed_values(values, {"boolean": "u1", "float": "<f4", "double": "<f8"}[node]))
    return [_build_column(np.arange(0, len(column) * width + 1, width, dtype=np.int64), pa.py_buffer(data))]


def _encode_exact(column: pa.Array, node: Any) -> list[Piece]:
    return [column.cast(pa.large_binary()).fill_null(bytes(node["size"]))]


def _encode_bytes(column: pa.Array, _node: Any) -> list[Piece]:
    column = column.cast(pa.large_binary())
    if column.null_count:
        column = column.fill_null(b"")
    edges = _read_edges(column)
    return [_encode_varints(np.diff(edges)), column]


def _encode_arrays(column: pa.Array, node: Any) -> list[Piece]:
    lengths = read_fixed_values(pc.list_value_length(column).cast(pa.int64()), "<i8")
    items = column.flatten()
    if not isinstance(node["items"], list) and items.null_count:
        raise InvalidArgument("an array holds a null, for which the Avro schema has no place")
    joined = _join_pieces(_encode_pieces(items, node["items"]), len(items))
    ends = _read_edges(joined)[np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])]
    bodies = _build_column(ends, joined.buffers()[2])
    return [_encode_varints(lengths, lengths > 0), bodies, END_OF_ARRAY]


def _encode_maps(column: pa.Array, node: Any) -> list[Piece]:
    members = [{"name": "key", "type": "string"}, {"name": "value", "type": node["values"]}]
    return _encode_arrays(column, {"items": {"type": "record", "fields": members}})


def _encode_records(column: pa.Array, node: Any) -> list[Piece]:
    names = [column.type.field(i).name for i in range(column.type.num_fields)]
    return _encode_members(dict(zip(names, column.flatten(), strict=True)), node, column.null_count)


_ENCODERS: Mapping[str, Callable[[pa.Array, Any], list[Piece]]] = {
    "int": _encode_integers,
    "long": _encode_integers,
    "bytes": _encode_bytes,
    "string": _encode_bytes,
    "fixed": _encode_exact,
    **dict.fromkeys(("boolean", "float", "double"), _encode_fixed),
    "array": _encode_arrays,
    "map": _encode_maps,
    "record": _encode_records,
}
_NUMPY = {8: "<i1", 16: "<i2", 32: "<i4", 64: "<i8"}


def _encode_varints(values: npt.NDArray[np.int64], present: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return the varint of each value, or an empty byte string if the value is not `present`."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    widths = np.searchsorted(_WIDTHS, zigzag, side="right") + 1
    longest = int(widths.max(initial=1))
    groups = (zigzag[:, None] >> (GROUP_BITS * _GROUPS[:longest]).astype(np.uint64)).astype(np.uint8) & 0x7F
    groups[_GROUPS[:longest] < widths[:, None] - 1] |= 0x80
    if present is not None:
        widths = np.where(present, widths, 0)
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])
    return _build_column(edges, pa.py_buffer(groups[_GROUPS[:longest] < widths[:, None]]))


def _join_pieces(pieces: Sequence[Piece], count: int) -> pa.Array:
    """Return the concatenated pieces of each row."""
    columns = [p for p in pieces if isinstance(p, pa.Array)]
    if len(columns) == len(pieces) == 1:
        return columns[0]
    if not columns:
        return pa.repeat(pa.scalar(b"".join(p for p in pieces if isinstance(p, bytes)), pa.large_binary()), count)
    parts = [pa.scalar(p, pa.large_binary()) if isinstance(p, bytes) else p for p in pieces]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _build_column(edges: npt.NDArray[np.int64], data: pa.Buffer | None) -> pa.Array:
    """Return a large binary column of the byte strings that lie back to back in `data`."""
    return pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), data])


def _read_edges(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the begins of the byte strings of a large binary column, and the end of the last."""
    if not len(column):
        return np.zeros(1, np.int64)
    return np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# --- blocks ---


def _split_blocks(rows: pa.Array) -> Iterator[tuple[int, memoryview]]:
    """Yield row counts and bytes of consecutive blocks."""
    edges = _read_edges(rows)
    data = memoryview(rows.buffers()[2] or b"")
    begin = 0
    while begin < len(rows):
        end = min(int(np.searchsorted(edges, edges[begin] + BLOCK_BYTES, side="left")), len(rows))
        yield end - begin, data[edges[begin] : edges[end]]
        begin = end


def _compress_zstandard(payload: memoryview, level: int) -> bytes:
    compressed: bytes = pa.Codec("zstd", level).compress(pa.py_buffer(payload), asbytes=True)
    return compressed


def _compress_snappy(payload: memoryview, _level: int) -> bytes:
    checksum = zlib.crc32(payload).to_bytes(SNAPPY_CRC_LENGTH, "big")
    return bytes(cramjam.snappy.compress_raw(payload)) + checksum


def _compress_deflate(payload: memoryview, _level: int) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(payload) + deflater.flush()


COMPRESSORS: Mapping[str, Callable[[memoryview, int], bytes]] = {
    "null": lambda payload, _: bytes(payload),
    "deflate": _compress_deflate,
    "snappy": _compress_snappy,
    "zstandard": _compress_zstandard,
    "bzip2": lambda payload, _: bz2.compress(payload),
    "xz": lambda payload, _: lzma.compress(payload),
}
"""Functions that compress a block, by the name of the codec in the header."""
