"""Types and values with renamed ROW members; values have the form of ``pyarrow.Array.to_pylist``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from morrow.engine.format import types as t
from morrow.engine.structs import replace


def with_members(kind: t.DataType, name: Callable[[str], str]) -> t.DataType:
    """Rename the members of a type with `name` at any depth."""
    if isinstance(kind, t.RowType):
        return replace(
            kind, fields=tuple(replace(f, name=name(f.name), type=with_members(f.type, name)) for f in kind.fields)
        )
    if isinstance(kind, (t.ArrayType, t.VectorType, t.MultisetType)):
        return replace(kind, element=with_members(kind.element, name))
    if isinstance(kind, t.MapType):
        return replace(kind, key=with_members(kind.key, name), value=with_members(kind.value, name))
    return kind


def moved(value: Any, old: t.DataType, new: t.DataType) -> Any:
    """Convert a value of the type `old` to the type `new`, whose member names differ."""
    if value is None or old == new:
        return value
    if isinstance(old, t.RowType) and isinstance(new, t.RowType):
        pairs = zip(old.fields, new.fields, strict=True)
        return {n.name: moved(value.get(o.name), o.type, n.type) for o, n in pairs}
    if isinstance(old, t.MapType) and isinstance(new, t.MapType):
        return [(moved(k, old.key, new.key), moved(v, old.value, new.value)) for k, v in value]
    if isinstance(old, t.MultisetType) and isinstance(new, t.MultisetType):
        return [(moved(element, old.element, new.element), count) for element, count in value]
    if isinstance(old, t.ArrayType) and isinstance(new, t.ArrayType):
        return [moved(element, old.element, new.element) for element in value]
    raise AssertionError(f"{old} and {new} differ in more than names of members")
