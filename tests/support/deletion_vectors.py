"""Deletion vectors of `TableFactory`: roaring bitmaps by pyroaring in Paimon's frame.

An index file is the version byte 1, then per vector: int32 big-endian length of magic and bitmap, the magic, the
bitmap in roaring's portable format, and the CRC32 of magic and bitmap, big-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pyroaring import BitMap, BitMap64

VERSION = b"\x01"
MAGIC = struct.pack(">i", 1581511376)
MAGIC_64 = struct.pack("<i", 1681511377)
FRAME_BYTES = 8
"""The length before a vector and the CRC after it."""

Vector = tuple[bytes, int]
"""Magic and bitmap, and the number of dead positions."""


def vector(positions: Sequence[int], *, wide: bool) -> Vector:
    """Encode a vector of these positions; `wide` means 64-bit positions."""
    bitmap = MAGIC_64 + BitMap64(positions).serialize() if wide else MAGIC + BitMap(positions).serialize()
    return bitmap, len(positions)


def index_file(vectors: Mapping[str, Vector]) -> tuple[bytes, list[dict[str, Any]]]:
    """Encode an index file with the vectors of these data files, and return also the ranges for the index manifest."""
    content, ranges = VERSION, []
    for file, (bitmap, cardinality) in vectors.items():
        # A quirk of the format: only for 64-bit vectors does the length include the length field and the CRC.
        length = len(bitmap) + (FRAME_BYTES if bitmap.startswith(MAGIC_64) else 0)
        ranges.append({"f0": file, "f1": len(content), "f2": length, "_CARDINALITY": cardinality})
        content += struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    return content, ranges
