"""Types that differ in nullability only: their values are the same."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from morrow.engine.format.types import DataField, DataType, RowType
from morrow.engine.values import replace


@lru_cache(maxsize=4096)
def same_values(first: DataType, second: DataType) -> bool:
    """Returns whether two types differ at most in nullability, at any depth: then values need no cast."""
    return _without_nullability(first) == _without_nullability(second)


def either_nullable(first: DataType, second: DataType) -> DataType:
    """Returns the first of two types that differ in nullability only, nullable wherever one of them is."""
    parts: dict[str, Any] = {
        part: either_nullable(getattr(first, part), getattr(second, part))
        for part in ("element", "key", "value")
        if hasattr(first, part)
    }
    if isinstance(first, RowType) and isinstance(second, RowType):
        pairs = zip(first.fields, second.fields)
        parts["fields"] = tuple(replace(f, type=either_nullable(f.type, g.type)) for f, g in pairs)
    either: DataType = replace(first, nullable=first.nullable or second.nullable, **parts)
    return either


def _without_nullability(kind: DataType) -> DataType:
    parts: dict[str, Any] = {
        part: _without_nullability(getattr(kind, part)) for part in ("element", "key", "value") if hasattr(kind, part)
    }
    if isinstance(kind, RowType):
        parts["fields"] = tuple(DataField(f.id, f.name, _without_nullability(f.type)) for f in kind.fields)
    bare: DataType = replace(kind, nullable=True, **parts)
    return bare
