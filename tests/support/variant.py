"""Parquet's variant encoding as JSON text, to the extent that golden tables need it.

metadata: header byte (version in the low 4 bits, offset size - 1 in the top 2), number of names, offsets, UTF-8 names.
value: header byte whose low 2 bits say primitive, short string, object or array; the other 6 bits belong to that kind.
"""

from __future__ import annotations

import itertools
import json
import struct
from decimal import Decimal
from typing import Any

PRIMITIVE, SHORT_STRING, OBJECT = 0, 1, 2
FIXED = {3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 14: "<f"}
DECIMAL_BYTES = {8: 4, 9: 8, 10: 16}
BINARY, STRING = 15, 16


def variant_json(value: bytes, metadata: bytes) -> str:
    """Return the JSON text that Java prints, without blanks and with members in the order of their names."""
    return json.dumps(_decode(value, 0, _names(metadata)), separators=(",", ":"), ensure_ascii=False)


def _uint(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "little")


def _names(metadata: bytes) -> list[str]:
    size = (metadata[0] >> 6) + 1
    count = _uint(metadata, 1, size)
    offsets = [_uint(metadata, 1 + size * (i + 1), size) for i in range(count + 1)]
    text = metadata[1 + size * (count + 2) :]
    return [text[a:b].decode() for a, b in itertools.pairwise(offsets)]


def _decode(data: bytes, at: int, names: list[str]) -> Any:
    kind, detail = data[at] & 3, data[at] >> 2
    if kind == PRIMITIVE:
        return _primitive(data, at + 1, detail)
    if kind == SHORT_STRING:
        return data[at + 1 : at + 1 + detail].decode()
    is_object = kind == OBJECT
    offset_size = (detail & 3) + 1
    id_size = ((detail >> 2) & 3) + 1 if is_object else 0
    count_size = 4 if (detail >> (4 if is_object else 2)) & 1 else 1
    count = _uint(data, at + 1, count_size)
    ids = at + 1 + count_size
    offsets = ids + count * id_size
    values = offsets + (count + 1) * offset_size
    items = [_decode(data, values + _uint(data, offsets + i * offset_size, offset_size), names) for i in range(count)]
    if not is_object:
        return items
    return {names[_uint(data, ids + i * id_size, id_size)]: item for i, item in enumerate(items)}


def _primitive(data: bytes, at: int, type_id: int) -> Any:
    if type_id in (0, 1, 2):
        return (None, True, False)[type_id]
    if type_id in FIXED:
        return struct.unpack_from(FIXED[type_id], data, at)[0]
    if type_id in DECIMAL_BYTES:
        unscaled = int.from_bytes(data[at + 1 : at + 1 + DECIMAL_BYTES[type_id]], "little", signed=True)
        number = Decimal(unscaled).scaleb(-data[at])
        return int(number) if number == number.to_integral_value() else float(number)
    if type_id in (BINARY, STRING):
        content = data[at + 4 : at + 4 + _uint(data, at, 4)]
        return content.decode() if type_id == STRING else content.hex()
    raise AssertionError(f"variant primitive {type_id} is not in any golden table")
