"""Values of VARIANT in the Parquet variant encoding: a value, and the names of the members of its objects.

::

    metadata   header: version 1 (4 bits), sorted (1 bit), unused, size of offsets - 1 (2 bits)
               number of names, offsets of the names (one more than names), names in UTF-8
    value      header: basic type (2 bits), info (6 bits); then by basic type
      0        primitive: info is its type, see `Primitive`; then its bytes
      1        text of info bytes, which follow
      2        object: info is size of offsets - 1 (2 bits), size of ids - 1 (2 bits), large (1 bit);
               number of members (1 byte, 4 if large), ids of names, offsets (one more than members), values
      3        array: info is size of offsets - 1 (2 bits), large (1 bit); number of elements, offsets, values

Numbers are little-endian. The members of an object are sorted by name, in the order of bytes. Their values may have
any order; Paimon writes them in the order in which they were given.

This module converts single Python values. `variant_arrays` handles columns.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Any

from morrow.engine.arguments import refuse_depth
from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format.java_floats import format_double, format_float


class Primitive(IntEnum):
    """The types of primitive values."""

    NULL = 0
    TRUE = 1
    FALSE = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    DOUBLE = 7
    DECIMAL4 = 8
    DECIMAL8 = 9
    DECIMAL16 = 10
    DATE = 11
    TIMESTAMP = 12
    TIMESTAMP_NTZ = 13
    FLOAT = 14
    BINARY = 15
    STRING = 16
    TIME_NTZ = 17
    TIMESTAMP_NANOS = 18
    TIMESTAMP_NTZ_NANOS = 19
    UUID = 20


PRIMITIVE, SHORT_TEXT, OBJECT, ARRAY = range(4)
"""The basic types."""
VERSION = 1
MAX_SHORT_TEXT_BYTES = 63
"""Longer text has a length of 4 bytes before it."""
MAX_DIGITS = {Primitive.DECIMAL4: 9, Primitive.DECIMAL8: 18, Primitive.DECIMAL16: 38}
WIDTHS: Mapping[int, int] = {
    Primitive.NULL: 0,
    Primitive.TRUE: 0,
    Primitive.FALSE: 0,
    Primitive.INT8: 1,
    Primitive.INT16: 2,
    Primitive.INT32: 4,
    Primitive.INT64: 8,
    Primitive.DOUBLE: 8,
    Primitive.DECIMAL4: 5,
    Primitive.DECIMAL8: 9,
    Primitive.DECIMAL16: 17,
    Primitive.DATE: 4,
    Primitive.TIMESTAMP: 8,
    Primitive.TIMESTAMP_NTZ: 8,
    Primitive.FLOAT: 4,
    Primitive.TIME_NTZ: 8,
    Primitive.TIMESTAMP_NANOS: 8,
    Primitive.TIMESTAMP_NTZ_NANOS: 8,
    Primitive.UUID: 16,
}
"""Bytes after the header of a primitive value; BINARY and STRING have a length of 4 bytes and their bytes."""
MAX_INT64 = 2**63 - 1
MAX_ROW_BYTES = 128 << 20
"""Maximum bytes of a value or its metadata, as in Java."""
EPOCH = dt.datetime(1970, 1, 1)
EPOCH_DAY = dt.date(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
EMPTY_METADATA = b"\x01\x00\x00"


def find_width(number: int) -> int:
    """Return the bytes (1 to 4) that hold an unsigned number."""
    return max((number.bit_length() + 7) // 8, 1)


def to_header(kind: Primitive) -> int:
    """Return the header of a primitive value."""
    return kind << 2 | PRIMITIVE


# --- from Python values ---


class Members(list[tuple[str, object]]):
    """The members of a JSON object in their order."""


def encode(value: object) -> tuple[bytes, bytes]:
    """Return the value and the metadata of a Python value.

    None, booleans, numbers, text, bytes, dates, times, UUIDs, lists, tuples and mappings with text keys are encoded.
    Integers have the fewest bytes, floats are DOUBLE, and decimals keep their scale.

    Raises `InvalidArgument`: a value of another type, a number that is too long, or a name that occurs twice.
    """
    names: dict[str, int] = {}
    out = bytearray()
    with refuse_depth("a VARIANT is"):
        _write(out, value, names)
    metadata = encode_metadata(names)
    if max(len(out), len(metadata)) > MAX_ROW_BYTES:
        raise InvalidArgument(f"a VARIANT of {max(len(out), len(metadata))} bytes; its limit is {MAX_ROW_BYTES} bytes")
    return bytes(out), metadata


def encode_metadata(names: Iterable[str]) -> bytes:
    """Return the metadata with these names, in their order."""
    texts = [name.encode() for name in names]
    width = find_width(max(sum(map(len, texts)), len(texts)))
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text))
    numbers = b"".join(end.to_bytes(width, "little") for end in (len(texts), *ends))
    return bytes([VERSION | (width - 1) << 6]) + numbers + b"".join(texts)


def _write(out: bytearray, value: object, names: dict[str, int]) -> None:
    write = WRITERS.get(type(value))
    if write is None:
        write = next((found for kind, found in WRITERS.items() if isinstance(value, kind)), None)
    if write is None and hasattr(value, "tolist"):  # scalars and arrays of numpy
        return _write(out, value.tolist(), names)
    if write is None:
        raise InvalidArgument(f"a {type(value).__name__} in a VARIANT; give None, numbers, text, lists and dicts")
    write(out, value, names)
    return None


def _write_integer(out: bytearray, value: int, _: dict[str, int]) -> None:
    if not -MAX_INT64 - 1 <= value <= MAX_INT64:
        return _write_decimal(out, Decimal(value), _)
    bits = (value if value >= 0 else ~value).bit_length() + 1
    kind, width = next(pair for pair in INTEGERS if bits <= 8 * pair[1])
    out.append(to_header(kind))
    out += value.to_bytes(width, "little", signed=True)
    return None


INTEGERS = ((Primitive.INT8, 1), (Primitive.INT16, 2), (Primitive.INT32, 4), (Primitive.INT64, 8))


def _write_decimal(out: bytearray, value: Decimal, _: dict[str, int]) -> None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidArgument(f"the decimal {value} in a VARIANT; give a float")
    unscaled, scale = int("".join(map(str, digits)) or "0"), max(-exponent, 0)
    if exponent > 0:
        unscaled *= 10**exponent
    precision = len(str(unscaled))
    kind = next((kind for kind, most in MAX_DIGITS.items() if max(precision, scale) <= most), None)
    if kind is None:
        raise InvalidArgument(f"the number {value} in a VARIANT has more than 38 digits; give a float")
    out += bytes([to_header(kind), scale])
    out += (-unscaled if sign else unscaled).to_bytes(WIDTHS[kind] - 1, "little", signed=True)


def _write_text(out: bytearray, value: str, _: dict[str, int]) -> None:
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"the text {value!r} in a VARIANT is not valid Unicode") from error
    if len(text) <= MAX_SHORT_TEXT_BYTES:
        out.append(len(text) << 2 | SHORT_TEXT)
    else:
        out.append(to_header(Primitive.STRING))
        out += len(text).to_bytes(4, "little")
    out += text


def _make_writer(kind: Primitive, layout: str, convert: Callable[[Any], Any]) -> Callable[..., None]:
    form = struct.Struct("<" + layout)

    def write(out: bytearray, value: object, _: dict[str, int]) -> None:
        out.append(to_header(kind))
        out += form.pack(convert(value))

    return write


def _write_bytes(out: bytearray, value: bytes, _: dict[str, int]) -> None:
    out.append(to_header(Primitive.BINARY))
    out += len(value).to_bytes(4, "little") + value


def _write_datetime(out: bytearray, value: dt.datetime, _: dict[str, int]) -> None:
    zoned = value.tzinfo is not None
    clock = value.astimezone(dt.UTC).replace(tzinfo=None) if zoned else value
    out.append(to_header(Primitive.TIMESTAMP if zoned else Primitive.TIMESTAMP_NTZ))
    out += ((clock - EPOCH) // MICROSECOND).to_bytes(8, "little", signed=True)


def _count_time_micros(value: dt.time) -> int:
    if value.tzinfo is not None:
        raise InvalidArgument(f"the time {value} with a zone in a VARIANT; give a datetime")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _write_array(out: bytearray, value: Sequence[object], names: dict[str, int]) -> None:
    data, ends = bytearray(), [0]
    for each in value:
        _write(data, each, names)
        ends.append(len(data))
    width, large = find_width(len(data)), len(value) > 0xFF
    out.append((large << 2 | width - 1) << 2 | ARRAY)
    out += len(value).to_bytes(4 if large else 1, "little")
    for end in ends:
        out += end.to_bytes(width, "little")
    out += data


def _write_object(out: bytearray, value: Mapping[object, object], names: dict[str, int]) -> None:
    _write_members(out, list(value.items()), names)


def _write_members(out: bytearray, members: Sequence[tuple[object, object]], names: dict[str, int]) -> None:
    data, found = bytearray(), []
    for name, each in members:
        if not isinstance(name, str):
            raise InvalidArgument(f"the name {name!r} of a member in a VARIANT; names are text")
        found.append((name.encode(), names.setdefault(name, len(names)), len(data)))
        _write(data, each, names)
    found.sort()
    twice = next((one[0] for one, other in pairwise(found) if one[0] == other[0]), None)
    if twice is not None:
        raise InvalidArgument(f"an object in a VARIANT has the member {twice.decode()!r} twice")
    id_width, width = find_width(max((each[1] for each in found), default=0)), find_width(len(data))
    large = len(found) > 0xFF
    out.append(((large << 2 | id_width - 1) << 2 | width - 1) << 2 | OBJECT)
    out += len(found).to_bytes(4 if large else 1, "little")
    for _, number, _ in found:
        out += number.to_bytes(id_width, "little")
    for _, _, start in found:
        out += start.to_bytes(width, "little")
    out += len(data).to_bytes(width, "little")
    out += data


WRITERS: dict[type, Callable[[bytearray, Any, dict[str, int]], None]] = {
    type(None): lambda out, _value, _names: out.append(to_header(Primitive.NULL)),
    bool: lambda out, value, _names: out.append(to_header(Primitive.TRUE if value else Primitive.FALSE)),
    int: _write_integer,
    float: _make_writer(Primitive.DOUBLE, "d", float),
    str: _write_text,
    Members: _write_members,
    dict: _write_object,
    list: _write_array,
    Decimal: _write_decimal,
    bytes: _write_bytes,
    dt.datetime: _write_datetime,
    dt.date: _make_writer(Primitive.DATE, "i", lambda value: (value - EPOCH_DAY).days),
    dt.time: _make_writer(Primitive.TIME_NTZ, "q", _count_time_micros),
    uuid.UUID: lambda out, value, _names: out.extend(bytes([to_header(Primitive.UUID)]) + value.bytes),
    tuple: _write_array,
    bytearray: _write_bytes,
    Mapping: _write_object,
}
"""Writers by type of Python; a subclass comes before its base."""


# --- from JSON ---

PLAIN_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def _parse_number(text: str) -> object:
    """Return a decimal if 38 digits hold the number, else a float, as Java does. Refuse numbers beyond floats."""
    if PLAIN_NUMBER.fullmatch(text):
        number = Decimal(text)
        digits, scale = len(number.as_tuple().digits), -int(number.as_tuple().exponent)
        if max(digits, scale) <= MAX_DIGITS[Primitive.DECIMAL16]:
            return number
    found = float(text)
    if math.isinf(found):
        raise ValueError(f"the number {text[:MAX_SHOWN]} is beyond DOUBLE")
    return found


def _parse_integer(text: str) -> object:
    digits = text.lstrip("-")
    if len(digits) < len(str(MAX_INT64)):
        return int(text)
    number = int(text) if len(digits) <= MAX_DIGITS[Primitive.DECIMAL16] else None
    return number if number is not None and -MAX_INT64 - 1 <= number <= MAX_INT64 else _parse_number(text)


def _refuse_constant(text: str) -> object:
    raise ValueError(f"{text} is not JSON")


_PARSER = json.JSONDecoder(
    object_pairs_hook=Members,
    parse_float=_parse_number,
    parse_int=_parse_integer,
    parse_constant=_refuse_constant,
)


def encode_json(text: str) -> tuple[bytes, bytes]:
    """Return the value and the metadata of a JSON text.

    Numbers are integers of the fewest bytes or decimals of up to 38 digits; others are DOUBLE.

    Raises `InvalidArgument`: it is not JSON, or an object has a member twice.
    """
    try:
        value = _PARSER.decode(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
        raise InvalidArgument(f"{shown!r} is not JSON: {error}") from error
    return encode(value)


MAX_SHOWN = 60
"""Maximum characters of a text in an error."""


# --- to Python values ---


def decode(value: bytes, metadata: bytes) -> Any:
    """Return the Python value of a variant, the reverse of `encode`. Timestamps with nanoseconds become ISO text.

    Raises:
        CorruptFile: the bytes are not a variant. Unsupported: a type or version that Morrow does not know, or a value
            that is nested too deeply.
    """
    try:
        return _read(value, 0, decode_names(metadata))
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise CorruptFile("a VARIANT", f"its bytes do not fit its headers ({error})") from error
    except RecursionError as error:
        raise Unsupported("a VARIANT that is nested deeper than Python can follow") from error


@lru_cache(maxsize=1024)
def decode_names(metadata: bytes) -> tuple[str, ...]:
    """Return the names in metadata. Raises `CorruptFile` or `Unsupported`."""
    if not metadata:
        raise CorruptFile("a VARIANT", "its metadata is empty")
    if metadata[0] & 0xF != VERSION:
        raise Unsupported(f"a VARIANT of version {metadata[0] & 0xF}")
    width = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + width], "little")
    first = 1 + width * (count + 2)
    if first > len(metadata):
        raise CorruptFile("a VARIANT", f"its metadata has {len(metadata)} bytes for {count} names")
    ends = [int.from_bytes(metadata[1 + width * i : 1 + width * (i + 1)], "little") for i in range(1, count + 2)]
    if ends != sorted(ends) or first + ends[-1] > len(metadata):
        raise CorruptFile("a VARIANT", "the names in its metadata do not fit")
    try:
        return tuple(metadata[first + low : first + high].decode() for low, high in pairwise(ends))
    except UnicodeDecodeError as error:
        raise CorruptFile("a VARIANT", f"a name in its metadata is not UTF-8 ({error})") from error


def _read(data: bytes, at: int, names: tuple[str, ...]) -> Any:
    header = data[at]
    basic, info = header & 3, header >> 2
    if basic == SHORT_TEXT:
        return _take(data, at + 1, info).decode()
    if basic == PRIMITIVE:
        return _read_primitive(data, at + 1, info)
    width = (info & 3) + 1
    is_object = basic == OBJECT
    id_width = ((info >> 2) & 3) + 1 if is_object else 0
    count_width = 4 if info >> (4 if is_object else 2) & 1 else 1
    count = int.from_bytes(_take(data, at + 1, count_width), "little")
    ids = at + 1 + count_width
    offsets = ids + count * id_width
    first = offsets + (count + 1) * width
    if first > len(data):
        raise IndexError(f"{count} members")
    starts = [first + int.from_bytes(data[offsets + i * width :][:width], "little") for i in range(count)]
    if is_object:
        numbers = (int.from_bytes(data[ids + i * id_width :][:id_width], "little") for i in range(count))
        return {names[number]: _read(data, start, names) for number, start in zip(numbers, starts)}
    return [_read(data, start, names) for start in starts]


def _take(data: bytes, at: int, count: int) -> bytes:
    found = data[at : at + count]
    if len(found) < count:
        raise IndexError(f"{count} bytes at {at}")
    return found


def _read_primitive(data: bytes, at: int, info: int) -> Any:
    if info in (Primitive.STRING, Primitive.BINARY):
        found = _take(data, at + 4, int.from_bytes(_take(data, at, 4), "little"))
        return found.decode() if info == Primitive.STRING else found
    if info not in WIDTHS:
        raise Unsupported(f"a VARIANT with a value of type {info}")
    return READERS[info](_take(data, at, WIDTHS[info]))


def _read_decimal(data: bytes) -> Decimal:
    unscaled = int.from_bytes(data[1:], "little", signed=True)
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -data[0]))


def _read_integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _read_nanos(data: bytes, zone: str) -> str:
    nanos = _read_integer(data)
    clock = EPOCH + dt.timedelta(seconds=nanos // 10**9)
    return f"{clock.isoformat(' ')}.{nanos % 10**9:09d}{zone}"


READERS: dict[int, Callable[[bytes], Any]] = {
    Primitive.NULL: lambda _: None,
    Primitive.TRUE: lambda _: True,
    Primitive.FALSE: lambda _: False,
    **dict.fromkeys((Primitive.INT8, Primitive.INT16, Primitive.INT32, Primitive.INT64), _read_integer),
    Primitive.DOUBLE: lambda data: struct.unpack("<d", data)[0],
    Primitive.FLOAT: lambda data: struct.unpack("<f", data)[0],
    **dict.fromkeys(MAX_DIGITS, _read_decimal),
    Primitive.DATE: lambda data: EPOCH_DAY + dt.timedelta(days=_read_integer(data)),
    Primitive.TIMESTAMP: lambda data: (EPOCH + _read_integer(data) * MICROSECOND).replace(tzinfo=dt.UTC),
    Primitive.TIMESTAMP_NTZ: lambda data: EPOCH + _read_integer(data) * MICROSECOND,
    Primitive.TIME_NTZ: lambda data: (EPOCH + _read_integer(data) * MICROSECOND).time(),
    Primitive.TIMESTAMP_NANOS: lambda data: _read_nanos(data, "+00:00"),
    Primitive.TIMESTAMP_NTZ_NANOS: lambda data: _read_nanos(data, ""),
    Primitive.UUID: lambda data: uuid.UUID(bytes=data),
}


def format_primitive(value: bytes) -> str:
    """Return the JSON text of a primitive value, as Java writes it: dates, times, bytes (base64) and UUIDs as text."""
    found = decode(value, EMPTY_METADATA)
    if isinstance(found, bool) or found is None:
        return json.dumps(found)
    if isinstance(found, float):
        is_float = value[0] == to_header(Primitive.FLOAT)
        return format_float(found) if is_float else format_double(found)
    if isinstance(found, Decimal):
        text = f"{found:f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
    if isinstance(found, int):
        return str(found)
    if isinstance(found, bytes):
        found = base64.b64encode(found).decode()
    if isinstance(found, dt.datetime):
        found = _format_datetime(found)
    return json.dumps(str(found), ensure_ascii=False)


def _format_datetime(value: dt.datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(" ")
    text = text.rstrip("0") if value.microsecond else text
    return text if value.tzinfo is None else f"{text}+00:00"
