"""The type tree of ORC files, as protobuf messages in the order of the tree's nodes (parents first).

    Type    1 kind   2 subtypes (packed node numbers)   3 fieldNames   4 maximumLength   5 precision   6 scale
            7 attributes (StringPair: 1 key, 2 value)

Every node but the root has its field id as the attribute ``paimon.id``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.protobuf import Field, message, numbered, varint
from morrow.writers.files.field_ids import Place

KIND, SUBTYPES, FIELD_NAMES, MAXIMUM_LENGTH, PRECISION, SCALE, ATTRIBUTES = range(1, 8)
ID_ATTRIBUTE = b"paimon.id"

BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BINARY, TIMESTAMP, LIST, MAP, STRUCT = range(13)
DECIMAL, DATE, VARCHAR, CHAR, TIMESTAMP_INSTANT = range(14, 19)

KINDS: Mapping[type[t.DataType], int] = {
    t.BooleanType: BOOLEAN,
    t.TinyIntType: BYTE,
    t.SmallIntType: SHORT,
    t.IntType: INT,
    t.BigIntType: LONG,
    t.FloatType: FLOAT,
    t.DoubleType: DOUBLE,
    t.BinaryType: BINARY,
    t.VarBinaryType: BINARY,
    t.DateType: DATE,
    t.TimeType: INT,
    t.TimestampType: TIMESTAMP,
    t.LocalZonedTimestampType: TIMESTAMP_INSTANT,
}


def type_tree(columns: Sequence[t.DataField], where: str) -> tuple[bytes, ...]:
    """Returns the type nodes of a file with these columns.

    Raises:
        Unsupported: a type that Java Paimon does not write to ORC either.
    """
    nodes: list[bytes] = []
    _add_struct(nodes, columns, Place(-1, where), [])
    return tuple(nodes)


def _add(nodes: list[bytes], type_: t.DataType, node_id: int, at: Place) -> None:
    """Adds the nodes of one type, whose topmost has the field id `node_id`."""
    pair = message([numbered(1, ID_ATTRIBUTE), numbered(2, str(node_id).encode())])
    attributes = [numbered(ATTRIBUTES, pair)]
    if isinstance(type_, t.RowType):
        _add_struct(nodes, type_.fields, at, attributes)
    elif type(type_) in _CHILDREN:
        kind, children = _CHILDREN[type(type_)](type_, at.inside)
        _add_parent(nodes, kind, [partial(_add, nodes, child, id_, at.inside) for child, id_ in children], attributes)
    else:
        nodes.append(message([*_atomic(type_, at.where), *attributes]))


def _add_struct(nodes: list[bytes], members: Sequence[t.DataField], at: Place, rest: list[Field]) -> None:
    names = [numbered(FIELD_NAMES, member.name.encode()) for member in members]
    add = [partial(_add, nodes, f.type, f.id, at.member(f.id)) for f in members]
    _add_parent(nodes, STRUCT, add, [*names, *rest])


def _add_parent(nodes: list[bytes], kind: int, children: Sequence[Callable[[], None]], rest: list[Field]) -> None:
    """Adds the node itself, then those of its children, whose numbers it lists."""
    own = len(nodes)
    nodes.append(b"")
    numbers = b""
    for add in children:
        numbers += varint(len(nodes))
        add()
    nodes[own] = message([numbered(KIND, kind), numbered(SUBTYPES, numbers), *rest])


def _map(type_: t.MapType, inside: Place) -> tuple[int, list[tuple[t.DataType, int]]]:
    return MAP, [(type_.key, inside.key_id), (type_.value, inside.element_id)]


_CHILDREN: Mapping[type[t.DataType], Callable[[Any, Place], tuple[int, list[tuple[t.DataType, int]]]]] = {
    t.ArrayType: lambda array, inside: (LIST, [(array.element, inside.element_id)]),
    t.MapType: _map,
    t.MultisetType: lambda bag, inside: _map(t.MapType(key=bag.element, value=t.IntType()), inside),
}
"""Kind, and type and id of each child."""


def _atomic(type_: t.DataType, where: str) -> list[Field]:
    if isinstance(type_, t.DecimalType):
        return [numbered(KIND, DECIMAL), numbered(PRECISION, type_.precision), numbered(SCALE, type_.scale)]
    if isinstance(type_, t.CharType):
        return [numbered(KIND, CHAR), numbered(MAXIMUM_LENGTH, type_.length)]
    if isinstance(type_, t.VarCharType):
        bounded = type_.length != t.MAX_LENGTH
        length = [numbered(MAXIMUM_LENGTH, type_.length)] if bounded else []
        return [numbered(KIND, VARCHAR if bounded else STRING), *length]
    if type(type_) not in KINDS:
        raise Unsupported(f"a column of {type_} in ORC files", where=where, hint="choose Parquet for the table")
    return [numbered(KIND, KINDS[type(type_)])]
