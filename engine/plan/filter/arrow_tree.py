"""Arrow expressions as trees, read from their pickled form."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

C_SCHEMA_SIZE = 72
C_SCHEMA_METADATA_OFFSET = 16
QUOTED = re.compile(r'"(\\.|[^"\\])*"')


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Tree, ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class Field:
    path: tuple[str, ...]


@dataclass(frozen=True)
class Literal:
    scalar: pa.Scalar


Tree: TypeAlias = Call | Field | Literal


class UnknownForm(Exception):
    """A serialized expression with a part unknown to this module."""


def identity(expression: pc.Expression) -> bytes | None:
    try:
        (serialized, *_) = expression.__reduce__()[1]
        return bytes(serialized)
    except (pa.ArrowException, ValueError, TypeError):
        return None


def tree_of(expression: pc.Expression) -> Tree:
    try:
        (serialized, *_) = expression.__reduce__()[1]
        values = pa.ipc.open_file(serialized).read_all()
        items = iter(_metadata_items(values.schema))
        return _node(*next(items), items, values)
    except (pa.ArrowException, StopIteration, ValueError, TypeError, IndexError) as error:
        raise UnknownForm from error


def _metadata_items(schema: pa.Schema) -> list[tuple[str, str]]:
    """Returns the schema's metadata in order, with its repeated keys."""
    exported = ctypes.create_string_buffer(C_SCHEMA_SIZE)
    schema._export_to_c(ctypes.addressof(exported))
    try:
        start = ctypes.c_void_p.from_buffer(exported, C_SCHEMA_METADATA_OFFSET).value
        return list(_read_pairs(start)) if start else []
    finally:
        pa.Schema._import_from_c(ctypes.addressof(exported))  # takes the export back, which releases it


def _read_pairs(address: int) -> Iterator[tuple[str, str]]:
    def text() -> str:
        nonlocal address
        (length,) = struct.unpack("=i", ctypes.string_at(address, 4))
        value = ctypes.string_at(address + 4, length)
        address += 4 + length
        return value.decode()

    (count,) = struct.unpack("=i", ctypes.string_at(address, 4))
    address += 4
    for _ in range(count):
        yield text(), text()


def _node(key: str, value: str, items: Iterator[tuple[str, str]], values: pa.Table) -> Tree:
    """Returns the tree, built on an explicit stack: a chain of thousands of ORs nests as deep."""
    open_: list[tuple[str, list[Tree], dict[str, Any]]] = []
    while True:
        if key == "call":
            open_.append((value, [], {}))
        elif key == "options":
            options = {name: values.column(int(value))[0][name] for name in values.schema.field(int(value)).type.names}
            open_[-1][2].update(options)
        else:
            node = _call(*open_.pop()) if key == "end" else _leaf(key, value, items, values)
            if not open_:
                return node
            open_[-1][1].append(node)
        key, value = next(items)


def _call(name: str, arguments: list[Tree], options: dict[str, Any]) -> Tree:
    return Call(name, tuple(arguments), options)


def _leaf(key: str, value: str, items: Iterator[tuple[str, str]], values: pa.Table) -> Tree:
    if key == "field_ref":
        return Field((value,))
    if key == "nested_field_ref":
        return Field(tuple(name for _, name in (next(items) for _ in range(int(value)))))
    if key == "literal":
        return Literal(values.column(int(value))[0])
    raise UnknownForm
