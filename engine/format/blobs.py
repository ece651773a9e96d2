"""References to large values: descriptors, views, and the references of a data file to packs.

A BLOB column of an append table has files of its own (`morrow.readers.files.formats.blob`). Other columns hold
references inline: the descriptor of a range of a file, or a view of a value of another table. Tables with a primary
key hold descriptors of packs (``*.managed.blob``), and each of their data files has a file of references
(``*.blobref``) to the packs that its rows need. Layouts (little-endian unless noted)::

    descriptor                              view
        version       1 byte   1 or 2           version           1 byte   1
        magic         8 bytes  from version 2   magic             8 bytes
        length of URI 4 bytes                   length of name    4 bytes
        URI           UTF-8                     table             UTF-8: database.table
        offset        8 bytes                   field id          4 bytes
        length        8 bytes  -1: to the end   row id            8 bytes

    references (big-endian)
        magic         4 bytes  PBLR
        version       1 byte   1
        count         4 bytes
        reference*             folder and name, each modified UTF-8 after 2 bytes of length
        CRC-32        4 bytes  of the bytes after the magic
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from posixpath import dirname

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.blob_layout import Numbers
from morrow.engine.format.types import ArrayType, BlobType, DataType, MapType

DESCRIPTOR_MAGIC = b"CSEDBOLB"
VIEW_MAGIC = b"WEIVBOLB"
DESCRIPTOR_VERSION = 2
VIEW_VERSION = 1
_PLACE_BYTES = 16
_REFERENCES_MAGIC = b"PBLR"
_REFERENCES_VERSION = 1
_CRC_BYTES = 4

REFERENCES_SUFFIX = ".blobref"
"""Suffix that the file of references adds to the name of its data file."""
PACK_SUFFIX = ".managed.blob"
"""Suffix of packs, the files that hold the blobs of tables with a primary key."""


def is_blob_type(kind: DataType) -> bool:
    """Return whether columns of this type hold blobs: BLOB, ARRAY<BLOB> or MAP<K, BLOB>."""
    return isinstance(get_blob_member(kind), BlobType)


def get_blob_member(kind: DataType) -> DataType:
    """Return the type of the elements of an ARRAY or of the values of a MAP; any other type itself."""
    if isinstance(kind, ArrayType):
        return kind.element
    return kind.value if isinstance(kind, MapType) else kind


class BlobDescriptor(msgspec.Struct, frozen=True):
    """A range of a file; a negative length reaches to its end."""

    uri: str
    offset: int = 0
    length: int = -1

    def encode(self) -> bytes:
        return encode_descriptor_start(self.uri) + struct.pack("<qq", self.offset, self.length)


class BlobView(msgspec.Struct, frozen=True):
    """A value of another table: the column's field id, and the row id."""

    table: str
    field_id: int
    row_id: int

    def encode(self) -> bytes:
        name = self.table.encode()
        start = struct.pack("<B8si", VIEW_VERSION, VIEW_MAGIC, len(name))
        return start + name + struct.pack("<iq", self.field_id, self.row_id)


def encode_descriptor_start(uri: str) -> bytes:
    """Return the bytes of a descriptor before its offset and length."""
    name = uri.encode()
    return struct.pack("<B8si", DESCRIPTOR_VERSION, DESCRIPTOR_MAGIC, len(name)) + name


def encode_descriptors(uri: str, offsets: Numbers, lengths: Numbers) -> pl.Series:
    """Return the descriptors of ranges of one file."""
    start = np.frombuffer(encode_descriptor_start(uri), np.uint8)
    places = np.stack([offsets, lengths], axis=1).astype("<i8").view(np.uint8).reshape(len(offsets), _PLACE_BYTES)
    return to_binary(np.concatenate([np.broadcast_to(start, (len(offsets), len(start))), places], axis=1))


def to_binary(rows: npt.NDArray[np.uint8]) -> pl.Series:
    """Return the rows of a matrix of bytes as binary values."""
    height, width = rows.shape
    offsets = pa.py_buffer(np.arange(height + 1, dtype=np.int64) * width)
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.large_binary(), height, [None, offsets, data])))


def is_descriptor(values: pl.Series) -> pl.Series:
    """Return whether each value is a descriptor with a magic number; null for null."""
    return values.bin.starts_with(bytes([DESCRIPTOR_VERSION]) + DESCRIPTOR_MAGIC)


def is_descriptor_value(value: bytes) -> bool:
    """Return whether a value is a descriptor with a magic number."""
    return value.startswith(bytes([DESCRIPTOR_VERSION]) + DESCRIPTOR_MAGIC)


def is_view(values: pl.Series) -> pl.Series:
    """Return whether each value is a view; null for null."""
    return values.bin.starts_with(bytes([VIEW_VERSION]) + VIEW_MAGIC)


def decode_descriptors(values: pl.Series, where: str) -> pl.DataFrame:
    """Return the columns uri, offset and length of descriptors; null for null.

    Raises `CorruptFile`: a value is not a descriptor. `Unsupported`: its version is newer than 2.
    """
    version = values.bin.head(1).bin.reinterpret(dtype=pl.UInt8)
    if (version > DESCRIPTOR_VERSION).any():
        raise Unsupported(f"version {version.max()!r} of blob descriptors", where=where)
    has_magic = version == DESCRIPTOR_VERSION
    start = pl.select(pl.when(has_magic).then(1 + len(DESCRIPTOR_MAGIC)).otherwise(1).alias("start")).to_series()
    found = _decode_parts(values, start, _PLACE_BYTES)
    bad = (values.is_not_null() & found["name"].is_null()) | (has_magic & ~is_descriptor(values))
    if bad.any():
        raise CorruptFile(where, _show(values.filter(bad), "descriptor"))
    rest = found["rest"]
    offsets = rest.bin.head(8).bin.reinterpret(dtype=pl.Int64)
    lengths = rest.bin.slice(8, 8).bin.reinterpret(dtype=pl.Int64)
    if (offsets < 0).any():
        raise CorruptFile(where, f"a blob descriptor has the offset {offsets.min()!r}")
    return pl.DataFrame({"uri": found["name"], "offset": offsets, "length": lengths})


def decode_descriptor(value: bytes, where: str) -> BlobDescriptor:
    """Return one descriptor. Raises as `decode_descriptors`."""
    ((uri, offset, length),) = decode_descriptors(pl.Series([value], dtype=pl.Binary), where).rows()
    return BlobDescriptor(uri, offset, length)


def decode_views(values: pl.Series, where: str) -> pl.DataFrame:
    """Return the columns table, field_id and row_id of views; null for null.

    Raises `CorruptFile`: a value is not a view. `Unsupported`: its version is newer than 1.
    """
    found = _decode_parts(values, pl.repeat(1 + len(VIEW_MAGIC), len(values), eager=True), 12)
    bad = values.is_not_null() & (~is_view(values) | found["name"].is_null())
    if bad.any():
        raise CorruptFile(where, _show(values.filter(bad), "view"))
    field_ids = found["rest"].bin.head(4).bin.reinterpret(dtype=pl.Int32)
    row_ids = found["rest"].bin.slice(4, 8).bin.reinterpret(dtype=pl.Int64)
    return pl.DataFrame({"table": found["name"], "field_id": field_ids, "row_id": row_ids})


def _decode_parts(values: pl.Series, start: pl.Series, rest_bytes: int) -> pl.DataFrame:
    """Return the name whose length is at `start`, and the bytes after the name; null if there are too few bytes."""
    frame = pl.DataFrame({"value": values, "start": start.cast(pl.Int64)})
    value, size = pl.col("value"), pl.col("value").bin.size().cast(pl.Int64)
    length = value.bin.slice(pl.col("start"), 4).bin.reinterpret(dtype=pl.Int32).cast(pl.Int64)
    frame = frame.with_columns(length.alias("length"))
    begin = pl.col("start") + 4
    is_whole = (pl.col("length") >= 0) & (size >= begin + pl.col("length") + rest_bytes)
    name = value.bin.slice(begin, pl.col("length").clip(0)).cast(pl.String, strict=False)
    rest = value.bin.slice(begin + pl.col("length").clip(0), rest_bytes)
    return frame.select(pl.when(is_whole).then(name).alias("name"), pl.when(is_whole).then(rest).alias("rest"))


def list_descriptors(column: pl.Series, kind: DataType) -> pl.Series:
    """Return the descriptors of a column that holds them inline: its values, or the members of its arrays or maps."""
    if isinstance(kind, BlobType):
        return column
    members = column.list.explode(keep_nulls=False, empty_as_null=False)
    return members.struct.field("value") if isinstance(kind, MapType) else members


def map_members(column: pl.Series, kind: DataType, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Return a BLOB column after applying `change` to its values, or to the members of its arrays or maps."""
    if isinstance(kind, BlobType):
        return change(column)
    values = change(list_descriptors(column, kind))
    if isinstance(kind, MapType):
        entries = column.list.explode(keep_nulls=False, empty_as_null=False)
        values = pl.DataFrame({"key": entries.struct.field("key"), "value": values}).to_struct()
    ends = np.cumsum(column.list.len().fill_null(0).to_numpy().astype(np.int64))
    made = pa.LargeListArray.from_arrays(np.concatenate([[0], ends]), values.to_arrow())
    lists = pl.Series(pl.from_arrow(made), dtype=column.dtype)
    return pl.select(pl.when(column.is_not_null()).then(lists)).to_series()


def _show(wrong: pl.Series, what: str) -> str:
    value = bytes(wrong[0])
    return f"{value[:16]!r}{'...' if len(value) > 16 else ''} is not a {what} of a blob"


def encode_references(uris: Iterable[str]) -> bytes:
    """Return the content of a file of references to the packs among these files."""
    packs = sorted({(dirname(uri), uri.rpartition("/")[2]) for uri in uris if uri.endswith(PACK_SUFFIX)})
    body = struct.pack(">Bi", _REFERENCES_VERSION, len(packs))
    body += b"".join(_encode_text(part) for pack in packs for part in pack)
    return _REFERENCES_MAGIC + body + struct.pack(">I", zlib.crc32(body))


def decode_references(data: bytes, where: str) -> list[str]:
    """Return the packs that a file of references names. Raises `CorruptFile`, `Unsupported` (version)."""
    body, crc = data[len(_REFERENCES_MAGIC) : -_CRC_BYTES], data[-_CRC_BYTES:]
    if not data.startswith(_REFERENCES_MAGIC) or len(body) < 5:
        raise CorruptFile(where, "this is not a file of references to blobs")
    if body[0] != _REFERENCES_VERSION:
        raise Unsupported(f"version {body[0]} of references to blobs", where=where)
    if zlib.crc32(body) != int.from_bytes(crc, "big"):
        raise CorruptFile(where, "the checksum of the references to blobs is wrong")
    texts, at = [], 5
    while at < len(body):
        length = int.from_bytes(body[at : at + 2], "big")
        texts.append(body[at + 2 : at + 2 + length].decode("utf-8", "surrogatepass"))
        at += 2 + length
    if len(texts) != 2 * int.from_bytes(body[1:5], "big") or at != len(body):
        raise CorruptFile(where, "the references to blobs end early")
    for name in texts[1::2]:
        if "/" in name or name in ("", ".", ".."):
            raise CorruptFile(where, f"{name!r} is not the name of a file of blobs")
    return [f"{folder}/{name}" for folder, name in zip(texts[::2], texts[1::2])]


def _encode_text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return struct.pack(">H", len(data)) + data
