"""Index files of deletion vectors, and the bytes of one vector; `deletion_vector` is what they are decoded to.

An index file of type ``DELETION_VECTORS``, integers big-endian::

    u8   version, 1
    per vector:
        i32  size of the payload
        payload
        u32  CRC32 of the payload

    payload = 5E 43 F2 D0 (1581511376)  32-bit roaring bitmap     positions below 2^31
            | D1 D3 39 64               64-bit roaring bitmap     `deletion-vectors.bitmap64`

The index manifest holds the location of a vector, ``_DELETIONS_VECTORS_RANGES``: ``f0`` the data file, ``f1`` the
offset of the size field, ``f2`` the length, ``_CARDINALITY``. Mind ``f2``: for 32-bit vectors it is the size of the
payload, for 64-bit vectors that of the whole entry, size field and CRC included.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format.deletion_vector import MAX_POSITIONS_64, DeletionVector
from morrow.engine.format.roaring import read32, read64, write32, write64

INDEX_TYPE = "DELETION_VECTORS"
VERSION = 1
VERSION_WIDTH = 1
SIZE_WIDTH = 4
CRC_WIDTH = 4
MAGIC_WIDTH = 4
MAGIC32 = (1581511376).to_bytes(MAGIC_WIDTH, "big")
MAGIC64 = (1681511377).to_bytes(MAGIC_WIDTH, "little")
MAX_POSITIONS_32 = 2**31
MAX_PAYLOAD = 2**31 - 1 - SIZE_WIDTH - CRC_WIDTH


class DeletionVectorRange(NamedTuple):
    """The location of a data file's vector, as the index manifest holds it."""

    file_name: str
    offset: int
    length: int
    cardinality: int


def decode(
    payload: bytes | memoryview, *, where: str, row_count: int | None = None, expected_cardinality: int | None = None
) -> DeletionVector:
    """Decodes magic and bitmap.

    Args:
        where: file (and offset) for messages.
        row_count: rows of the data file, if known: no position may reach it, and nothing larger is allocated.
        expected_cardinality: the cardinality in the index manifest, if it has one.

    Raises:
        CorruptFile: unknown magic, not a roaring bitmap, positions beyond `row_count`, or another cardinality.
    """
    magic = bytes(payload[:MAGIC_WIDTH])
    bitmap = np.frombuffer(payload, np.uint8)[MAGIC_WIDTH:]
    if magic == MAGIC32:
        blocks = read32(bitmap, where=where, max_end=2**32 if row_count is None else row_count)
    elif magic == MAGIC64:
        blocks = read64(bitmap, where=where, max_end=MAX_POSITIONS_64 if row_count is None else row_count)
    else:
        raise CorruptFile(
            where, f"a deletion vector begins with {MAGIC32.hex()} or {MAGIC64.hex()}, not with {magic.hex()!r}"
        )
    vector = DeletionVector(blocks, where)
    if row_count is not None:
        vector.check_rows(row_count)
    if expected_cardinality is not None and vector.cardinality != expected_cardinality:
        raise CorruptFile(
            where, f"{vector.cardinality} rows are marked deleted, the index manifest says {expected_cardinality}"
        )
    return vector


def encode(vector: DeletionVector, *, bitmap64: bool = False) -> bytes:
    """Encodes magic and bitmap, as `decode` takes them.

    Raises:
        InvalidArgument: a position does not fit 31 bits and `bitmap64` is false, or the result exceeds 2 GiB.
    """
    return _encode_payload(vector, bitmap64)


def entry_span(length: int) -> int:
    """Returns the number of bytes from the offset on that are enough for `read_entry`, for either bitmap."""
    return SIZE_WIDTH + length + CRC_WIDTH


def read_entry(
    data: bytes | memoryview,
    offset: int,
    length: int,
    *,
    where: str,
    row_count: int | None = None,
    expected_cardinality: int | None = None,
    base: int = 0,
) -> DeletionVector:
    """Reads and checks one vector of an index file.

    Args:
        data: the index file, or the part of it that begins at byte `base`.
        offset, length: ``f1`` and ``f2`` of the index manifest.
        where: path of the index file.
        row_count, expected_cardinality: see `decode`.

    Raises:
        CorruptFile: size field, magic, CRC or bitmap contradict each other or the index manifest.
        Unsupported: another version of the format.
    """
    view = memoryview(data)
    if base == 0:
        _check_version(view, where)
    spot = f"{where} (deletion vector at byte {offset})"
    at = offset - base
    if at < (VERSION_WIDTH if base == 0 else 0) or length < MAGIC_WIDTH or at + SIZE_WIDTH + MAGIC_WIDTH > len(view):
        raise CorruptFile(
            spot, f"the range of {length} bytes does not lie within the {len(view)} bytes from byte {base} on"
        )
    size = int.from_bytes(view[at : at + SIZE_WIDTH], "big", signed=True)
    start = at + SIZE_WIDTH
    framing = SIZE_WIDTH + CRC_WIDTH if view[start : start + MAGIC_WIDTH] == MAGIC64 else 0
    if size != length - framing:
        raise CorruptFile(spot, f"its size field says {size} bytes, the index manifest {length - framing}")
    if start + size + CRC_WIDTH > len(view):
        raise CorruptFile(
            spot, f"{size} bytes and a checksum do not lie within the {len(view)} bytes from byte {base} on"
        )
    payload = view[start : start + size]
    stored = int.from_bytes(view[start + size : start + size + CRC_WIDTH], "big")
    if zlib.crc32(payload) != stored:
        raise CorruptFile(spot, f"its CRC32 is {zlib.crc32(payload):08x}, the file says {stored:08x}")
    return decode(payload, where=spot, row_count=row_count, expected_cardinality=expected_cardinality)


def write_index_file(
    vectors: Mapping[str, DeletionVector], bitmap64: bool = False
) -> tuple[bytes, tuple[DeletionVectorRange, ...]]:
    """Returns an index file with the vector of each data file, and the ranges to store in the index manifest.

    Args:
        vectors: the vectors by name of the data file; written in this order.

    Raises:
        InvalidArgument: see `encode`.
    """
    parts = [bytes([VERSION])]
    ranges = []
    offset = VERSION_WIDTH
    for file_name, vector in vectors.items():
        payload = _encode_payload(vector, bitmap64)
        size = len(payload)
        parts += [size.to_bytes(SIZE_WIDTH, "big"), payload, zlib.crc32(payload).to_bytes(CRC_WIDTH, "big")]
        entry = SIZE_WIDTH + size + CRC_WIDTH
        ranges.append(DeletionVectorRange(file_name, offset, entry if bitmap64 else size, vector.cardinality))
        offset += entry
    return b"".join(parts), tuple(ranges)


def _encode_payload(vector: DeletionVector, bitmap64: bool) -> bytes:
    if not bitmap64 and vector.blocks.end > MAX_POSITIONS_32:
        raise InvalidArgument(
            f"position {vector.blocks.end - 1} needs 64-bit deletion vectors; set deletion-vectors.bitmap64 = true"
        )
    payload = MAGIC64 + write64(vector.blocks) if bitmap64 else MAGIC32 + write32(vector.blocks)
    if len(payload) > MAX_PAYLOAD:
        raise InvalidArgument(
            f"a deletion vector of {len(payload)} bytes exceeds the 2 GiB of the format; compact the data file"
        )
    return payload


def _check_version(view: memoryview, where: str) -> None:
    if len(view) < VERSION_WIDTH:
        raise CorruptFile(where, "the deletion vector index file is empty")
    if view[0] != VERSION:
        raise Unsupported(
            f"version {view[0]} of deletion vector index files", where=where, hint="only version 1 is known"
        )
