"""The JSON form of data types in schema files: atomic types are text, nested types are objects.

``{"type": "ARRAY", "element": "INT"}``; the type of a nested node carries its nullability (``"ARRAY NOT NULL"``).
pypaimon 1.3 to 2.0 repeats the members in it (``"MAP<STRING NOT NULL, INT>"``), where only what follows ``>`` counts.
"""

from __future__ import annotations

from typing import Any

from morrow.engine.errors import Unsupported
from morrow.engine.format.type_text import parse_atomic
from morrow.engine.format.types import (
    NESTED_TYPES,
    ArrayType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)


def from_json(node: Any, *, where: str | None = None) -> DataType:
    """Reads a type as schema files hold it: text for atomic types, an object for nested ones.

    Raises:
        Unsupported: a type that Morrow does not know.
        KeyError, TypeError: the object lacks a member (callers report the file as corrupt).
    """
    if isinstance(node, str):
        return parse_atomic(node, where=where)
    text = str(node["type"])
    keyword, *_ = text.replace("<", " ").split(maxsplit=1)
    nullable = "NOT NULL" not in text.rpartition(">")[2]
    if keyword == "ARRAY":
        return ArrayType(nullable, from_json(node["element"], where=where))
    if keyword == "VECTOR":
        return VectorType(nullable, from_json(node["element"], where=where), int(node["length"]))
    if keyword == "MULTISET":
        return MultisetType(nullable, from_json(node["element"], where=where))
    if keyword == "MAP":
        return MapType(nullable, from_json(node["key"], where=where), from_json(node["value"], where=where))
    if keyword == "ROW":
        return RowType(nullable, tuple(field_from_json(field, where=where) for field in node["fields"]))
    raise Unsupported(f"the type {text!r}", where=where)


def field_from_json(node: Any, *, where: str | None = None) -> DataField:
    """Reads one member of ``fields``: id, name, type, and optionally description and defaultValue."""
    return DataField(
        id=int(node["id"]),
        name=str(node["name"]),
        type=from_json(node["type"], where=where),
        description=node.get("description"),
        default_value=node.get("defaultValue"),
    )


def to_json(data_type: DataType) -> Any:
    """Returns the type as schema files hold it; `from_json` reads it back."""
    if not isinstance(data_type, NESTED_TYPES):
        return str(data_type)
    node: dict[str, Any] = {"type": data_type.keyword if data_type.nullable else f"{data_type.keyword} NOT NULL"}
    if isinstance(data_type, RowType):
        node["fields"] = [field_to_json(f) for f in data_type.fields]
    elif isinstance(data_type, MapType):
        node |= {"key": to_json(data_type.key), "value": to_json(data_type.value)}
    else:
        node["element"] = to_json(data_type.element)
    if isinstance(data_type, VectorType):
        node["length"] = data_type.length
    return node


def field_to_json(field: DataField) -> dict[str, Any]:
    """Returns one member of ``fields``; `field_from_json` reads it back."""
    node: dict[str, Any] = {"id": field.id, "name": field.name, "type": to_json(field.type)}
    if field.description is not None:
        node["description"] = field.description
    if field.default_value is not None:
        node["defaultValue"] = field.default_value
    return node
