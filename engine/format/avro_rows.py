"""Encoder of few rows as Avro, value by value: for one or two rows, columns take longer to join than values to write.

The bytes are those of `avro_encode`, whose table of types holds here, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.avro_encode import END_OF_ARRAY, NULL_BRANCH, VALUE_BRANCH, varint

FEW = 4
"""Rows up to which this is quicker."""


def encode_rows(table: pa.Table, record: Mapping[str, Any]) -> bytes:
    """Encodes all rows of a table by an Avro record: integers, timestamps, floats, text, bytes; arrays and records.

    Raises:
        InvalidArgument: a column is missing, or holds a null where the schema has none. Unsupported: other types.
    """
    out = bytearray()
    # Chunk by chunk: Arrow cannot combine lists without elements that Polars exports, not even one chunk of them.
    columns = {name: [value for chunk in table[name].chunks for value in _values(chunk)] for name in table.column_names}
    for number in range(table.num_rows):
        _record(out, {name: values[number] for name, values in columns.items()}, record)
    return bytes(out)


def _values(column: pa.Array) -> list[Any]:
    """Returns the values as Python has them; timestamps as numbers of their unit."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if not pa.types.is_struct(column.type):
        found: list[Any] = column.to_pylist()
        return found
    names = [column.type.field(i).name for i in range(column.type.num_fields)]
    rows = zip(*(_values(member) for member in column.flatten()))
    valid = column.is_valid().to_pylist()
    return [dict(zip(names, row)) if there else None for row, there in zip(rows, valid)]


def _record(out: bytearray, row: Mapping[str, Any], node: Mapping[str, Any]) -> None:
    for member in node["fields"]:
        name = member["name"]
        if name not in row:
            raise InvalidArgument(f"the column {name!r} of the Avro schema is not there; it has {', '.join(row)}")
        value, kind = row[name], member["type"]
        if value is None and not isinstance(kind, list):
            raise InvalidArgument(f"the column {name!r} holds a null, for which the Avro schema has no place")
        _value(out, value, kind)


def _value(out: bytearray, value: Any, node: Any) -> None:
    if isinstance(node, list):
        if len(node) != 2 or node[0] != "null":
            raise Unsupported(f"writing the Avro union {node!r}")
        out += NULL_BRANCH if value is None else VALUE_BRANCH
        if value is not None:
            _value(out, value, node[1])
        return
    kind = node["type"] if isinstance(node, dict) else node
    if kind not in _ENCODERS:
        raise Unsupported(f"writing the Avro type {kind!r}")
    _ENCODERS[kind](out, value, node)


def _integer(out: bytearray, value: int, _: Any) -> None:
    out += varint(value)


def _boolean(out: bytearray, value: bool, _: Any) -> None:
    out.append(value)


def _bytes(out: bytearray, value: bytes | str, _: Any) -> None:
    data = value.encode() if isinstance(value, str) else value
    out += varint(len(data))
    out += data


def _array(out: bytearray, values: Sequence[Any], node: Any) -> None:
    if values:
        out += varint(len(values))
        for value in values:
            if value is None and not isinstance(node["items"], list):
                raise InvalidArgument("an array holds a null, for which the Avro schema has no place")
            _value(out, value, node["items"])
    out += END_OF_ARRAY


_ENCODERS: Mapping[str, Callable[[bytearray, Any, Any], None]] = {
    "int": _integer,
    "long": _integer,
    "boolean": _boolean,
    "float": lambda out, value, _: out.extend(struct.pack("<f", value)),
    "double": lambda out, value, _: out.extend(struct.pack("<d", value)),
    "bytes": _bytes,
    "string": _bytes,
    "array": _array,
    "record": _record,
}
