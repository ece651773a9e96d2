"""Protobuf messages without their schema: enough to parse the tail of an ORC file and to write it again.

A message is a sequence of fields, each a key ``number << 3 | wire type`` and a value: a varint (wire type 0), 8 bytes
(1), a length and that many bytes (2), or 4 bytes (5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
WIDTHS = {FIXED64: 8, FIXED32: 4}

Field: TypeAlias = "tuple[int, int, int | bytes]"
"""A field: number, wire type, value."""


def fields(message: bytes) -> Iterator[Field]:
    """Yields the fields of a message that is known to be whole, in their order."""
    at = 0
    while at < len(message):
        key, at = _read(message, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == VARINT:
            value, at = _read(message, at)
        else:
            length, at = _read(message, at) if wire == BYTES else (WIDTHS[wire], at)
            value, at = message[at : at + length], at + length
        yield number, wire, value


def message(parts: Iterable[Field]) -> bytes:
    """Encodes a message of these fields, the reverse of `fields`."""
    return b"".join(_field(*part) for part in parts)


def numbered(number: int, value: int | bytes) -> Field:
    """Returns a field with an integer, or with bytes or a message."""
    return (number, VARINT if isinstance(value, int) else BYTES, value)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, wire: int, value: int | bytes) -> bytes:
    key = varint(number << 3 | wire)
    if isinstance(value, int):
        return key + varint(value)
    return key + (varint(len(value)) if wire == BYTES else b"") + value


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
