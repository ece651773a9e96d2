"""Encoder of few rows as Avro, value by value: for these, columns take longer to join than values to write.

The bytes are those of `avro_encode`, whose table of types holds here, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.avro_encode import END_OF_ARRAY, NULL_BRANCH, VALUE_BRANCH, varint

FEW = 100
"""Rows up to which this is quicker."""

_SMALL = tuple(map(varint, range(128)))
"""The bytes of most numbers: counts, levels, and lengths of text."""

Write: TypeAlias = Callable[[bytearray, Any], None]
"""Appends the bytes of one value."""


def row_encoder(record: Mapping[str, Any]) -> Callable[[Iterable[Mapping[str, Any]]], bytes]:
    """Returns the encoder of rows by an Avro record: integers, floats, text, bytes; arrays and records as dicts.

    It raises `InvalidArgument` for a row that lacks a column, or has a null where the schema has none.

    Raises:
        Unsupported: other types.
    """
    write = _record(record)

    def encode(rows: Iterable[Mapping[str, Any]]) -> bytes:
        out = bytearray()
        for row in rows:
            write(out, row)
        return bytes(out)

    return encode


def _record(node: Mapping[str, Any]) -> Write:
    members = [(each["name"], _value(each["type"]), isinstance(each["type"], list)) for each in node["fields"]]

    def write(out: bytearray, row: Mapping[str, Any]) -> None:
        for name, write_value, nullable in members:
            if name not in row:
                raise InvalidArgument(f"the column {name!r} of the Avro schema is not there; it has {', '.join(row)}")
            value = row[name]
            if value is None and not nullable:
                raise InvalidArgument(f"the column {name!r} holds a null, for which the Avro schema has no place")
            write_value(out, value)

    return write


def _value(node: Any) -> Write:
    if isinstance(node, list):
        return _union(node)
    kind = node["type"] if isinstance(node, dict) else node
    if kind in _NESTED:
        return _NESTED[kind](node)
    if kind not in _PLAIN:
        raise Unsupported(f"writing the Avro type {kind!r}")
    return _PLAIN[kind]


def _union(branches: Sequence[Any]) -> Write:
    if len(branches) != 2 or branches[0] != "null":
        raise Unsupported(f"writing the Avro union {branches!r}")
    write_value = _value(branches[1])

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += NULL_BRANCH
        else:
            out += VALUE_BRANCH
            write_value(out, value)

    return write


def _array(node: Any) -> Write:
    write_item, nullable = _value(node["items"]), isinstance(node["items"], list)

    def write(out: bytearray, values: Sequence[Any]) -> None:
        if values:
            _integer(out, len(values))
            for value in values:
                if value is None and not nullable:
                    raise InvalidArgument("an array holds a null, for which the Avro schema has no place")
                write_item(out, value)
        out += END_OF_ARRAY

    return write


def _integer(out: bytearray, value: int) -> None:
    out += _SMALL[value] if 0 <= value < len(_SMALL) else varint(value)


def _bytes(out: bytearray, value: bytes | str) -> None:
    data = value.encode() if isinstance(value, str) else value
    _integer(out, len(data))
    out += data


_NESTED: Mapping[str, Callable[[Any], Write]] = {"array": _array, "record": _record}
_PLAIN: Mapping[str, Write] = {
    "int": _integer,
    "long": _integer,
    "boolean": lambda out, value: out.append(value),
    "float": lambda out, value: out.extend(struct.pack("<f", value)),
    "double": lambda out, value: out.extend(struct.pack("<d", value)),
    "bytes": _bytes,
    "string": _bytes,
}
