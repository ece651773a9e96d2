"""Row files: compressed blocks of rows, each row its columns one after the other, and an index of the blocks.

Layout (little-endian; a varint has 7 bits a byte, low ones first)::

    block*                  compressed by zstd:
        row*                null bits, then the values that are not null
        offset of a row     4 bytes each
        count of rows       4 bytes
    index                   three times a varint of the size, and zigzag varints: the first number, then differences:
                            compressed sizes, uncompressed sizes, numbers of the blocks' first rows
    footer                  rows (8 bytes), blocks (4), offset (8) and size (4) of the index, version 1 (1 byte),
                            3 bytes of zeros, "SWOR"

    BOOLEAN, TINYINT to BIGINT, FLOAT, DOUBLE    1, 2, 4 or 8 bytes
    DATE, TIME                                   4 bytes: days, milliseconds
    CHAR, VARCHAR, BINARY, VARBINARY, BLOB       varint of the size, bytes
    DECIMAL                                      8 bytes up to 18 digits; else as bytes, big-endian
    TIMESTAMP, TIMESTAMP_LTZ                     8 bytes of milliseconds; above precision 3 a varint of nanoseconds
    VARIANT                                      two byte strings: value, metadata
    ARRAY                                        varint of the count, null bits, elements that are not null
    MAP, MULTISET                                the array of keys, the array of values or counts
    VECTOR                                       varint of the count, elements
    ROW                                          as a row

Null bits are one bit a value, low bits first, in whole bytes. Files do not name their columns.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.blob_layout import decode_zigzag_varints, encode_zigzag_varints

Numbers: TypeAlias = npt.NDArray[np.int64]

FOOTER = struct.Struct("<qiqiB3xI")
MAGIC = 0x524F5753
VERSION = 1
OFFSET_BYTES = 4
VARINT_BITS = 7
MAX_VARINT_BYTES = 5
DEFAULT_BLOCK_BYTES = 65_536
"""Bytes of rows that end a block, unless ``file.block-size`` is set."""

WIDTHS: dict[type[t.DataType], str] = {
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
"""Types of a fixed width, and their dtypes."""


class BlockIndex(msgspec.Struct, frozen=True):
    """Sizes in bytes and row counts of the blocks of a file, in their order."""

    compressed: Numbers
    uncompressed: Numbers
    rows: Numbers


def decode_footer(footer: bytes, size: int, where: str) -> tuple[int, int, int, int]:
    """Return rows, blocks, and offset and size of the index of a file of `size` bytes.

    Raises `CorruptFile`: not a footer, or one of another file. `Unsupported`: another version.
    """
    if len(footer) < FOOTER.size:
        raise CorruptFile(where, f"truncated: {len(footer)} bytes are too few for a row file")
    rows, blocks, offset, length, version, magic = FOOTER.unpack(footer)
    if magic != MAGIC:
        raise CorruptFile(where, "a row file does not end with its magic number")
    if version != VERSION:
        raise Unsupported(f"version {version} of row files", where=where)
    if min(rows, blocks, offset, length) < 0 or offset + length + FOOTER.size != size:
        raise CorruptFile(where, f"the footer of a row file of {size} bytes cannot be right")
    return rows, blocks, offset, length


def decode_index(data: bytes, footer: tuple[int, int, int, int], where: str) -> BlockIndex:
    """Decode the index of the blocks, and check it against the footer."""
    rows, blocks, offset, _ = footer
    parts, at = [], 0
    for _ in range(3):
        size, at = _read_varint(data, at, where)
        parts.append(np.cumsum(decode_zigzag_varints(data[at : at + size], where)))
        at += size
    compressed, uncompressed, starts = parts
    counts = np.diff(np.append(starts, rows))
    if at != len(data) or any(len(part) != blocks for part in parts) or int(compressed.sum()) != offset:
        raise CorruptFile(where, "the index of a row file does not fit its footer")
    if (compressed <= 0).any() or (counts <= 0).any() or (starts[:1] != 0).any() or (rows and not blocks):
        raise CorruptFile(where, "the index of a row file holds impossible numbers")
    if (uncompressed < (counts + 1) * OFFSET_BYTES).any():
        raise CorruptFile(where, "the index of a row file holds blocks without room for their rows")
    return BlockIndex(compressed, uncompressed, counts)


def _read_varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    value = 0
    for place in range(MAX_VARINT_BYTES):
        if at + place >= len(data):
            break
        value |= (data[at + place] & 0x7F) << place * VARINT_BITS
        if data[at + place] < 0x80:
            return value, at + place + 1
    raise CorruptFile(where, "the index of a row file is cut off")


def encode_end(blocks: Sequence[BlockIndex]) -> bytes:
    """Return the index and the footer of a file of these blocks."""
    none = np.empty(0, np.int64)
    compressed = np.concatenate([none, *(each.compressed for each in blocks)])
    uncompressed = np.concatenate([none, *(each.uncompressed for each in blocks)])
    rows = np.concatenate([none, *(each.rows for each in blocks)])
    index = b""
    for numbers in (compressed, uncompressed, np.cumsum(rows) - rows):
        part = encode_zigzag_varints(numbers.tolist())
        index += _encode_varint(len(part)) + part
    offset = int(compressed.sum())
    return index + FOOTER.pack(int(rows.sum()), len(rows), offset, len(index), VERSION, MAGIC)


def _encode_varint(value: int) -> bytes:
    octets = bytearray()
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= VARINT_BITS
    return bytes([*octets, value])


def count_bitmap_bytes(count: Numbers) -> Numbers:
    """Return the size in bytes of the null bits of a number of values."""
    return (count + 7) >> 3
