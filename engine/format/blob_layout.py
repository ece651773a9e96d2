"""Blob files: the values of one BLOB column, one record after the other, and an index of their lengths.

Layout (little-endian)::

    record*                 for each value that is not null:
        magic      4 bytes  CF 11 4E 58
        value               bytes, or the payload of an ARRAY or MAP
        length     8 bytes  of the whole record
        CRC-32     4 bytes  of all the bytes before it; pypaimon 1.3 to 2.0: of those before the length
    index                   zigzag varints: the first record's length, then differences from one to the next;
                            -1 is null, -2 a placeholder (the value is in an older file)
    index length   4 bytes
    version        1 byte   1

    payload of an ARRAY<BLOB>                   payload of a MAP<K, BLOB>
        magic         4 bytes                       magic              4 bytes
        version       1 byte   1                    version            1 byte   1
        count         4 bytes                       count              4 bytes
        elements                                    keys, values
        lengths       as the index; -1 is null      lengths of keys, lengths of values
        index length  4 bytes                       both index lengths 4 bytes each

Keys of a MAP are bytes, UTF-8, booleans of one byte, integers of the width of their type, days, milliseconds of a day,
and unscaled decimals: of 8 bytes up to 18 digits, else big-endian and as short as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from morrow.engine.errors import CorruptFile

Numbers: TypeAlias = npt.NDArray[np.int64]

FILE_VERSION = 1
FOOTER_BYTES = 5
MAGIC = bytes.fromhex("cf114e58")
LENGTH_BYTES = 8
CRC_BYTES = 4
RECORD_OVERHEAD = len(MAGIC) + LENGTH_BYTES + CRC_BYTES
NULL_LENGTH = -1
PLACEHOLDER_LENGTH = -2
ARRAY_MAGIC = (1094861634).to_bytes(4, "little")
MAP_MAGIC = (1296188226).to_bytes(4, "little")
PAYLOAD_VERSION = 1
PAYLOAD_HEAD_BYTES = 9
MAX_VARINT_BYTES = 10
MAX_SHORT_DIGITS = 18
"""Maximum digits of decimal keys that are stored in 8 bytes."""


def decode_zigzag_varints(data: bytes, where: str) -> Numbers:
    """Decode all varints of `data` at once."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if not octets.size:
        return np.empty(0, np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if not ends.size or ends[-1] != octets.size - 1 or int((ends - starts).max()) >= MAX_VARINT_BYTES:
        raise CorruptFile(where, "a varint of the index is cut off")
    place = np.arange(octets.size) - np.repeat(starts, ends - starts + 1)
    groups = (octets & 0x7F).astype(np.uint64) << (place * 7).astype(np.uint64)
    raw = np.bitwise_or.reduceat(groups, starts)
    values: Numbers = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
    return values


def encode_zigzag_varints(lengths: Sequence[int]) -> bytes:
    """Encode the first length, and the differences from one to the next."""
    known = np.asarray([0, *lengths], np.int64)
    steps = known[1:] - known[:-1]
    raw = ((steps << 1) ^ (steps >> 63)).astype(np.uint64)
    groups = (raw[:, None] >> (np.arange(MAX_VARINT_BYTES, dtype=np.uint64) * np.uint64(7))).astype(np.uint64)
    counts = np.maximum((groups != 0).sum(axis=1), 1)
    octets = (groups & np.uint64(0x7F)).astype(np.uint8)
    place = np.arange(MAX_VARINT_BYTES)
    octets |= np.where(place < counts[:, None] - 1, 0x80, 0).astype(np.uint8)
    encoded: bytes = octets[place < counts[:, None]].tobytes()
    return encoded
