"""Schema files of `TableFactory`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from morrow.engine.format import types as t

SCHEMA_VERSION = 3


def schema_json(
    schema_id: int,
    fields: Sequence[t.DataField],
    partition_keys: Sequence[str],
    primary_keys: Sequence[str],
    options: Mapping[str, str],
) -> dict[str, Any]:
    """Builds the content of ``schema/schema-<id>``."""
    return {
        "version": SCHEMA_VERSION,
        "id": schema_id,
        "fields": [field_json(f) for f in fields],
        "highestFieldId": max((f.id for f in fields), default=-1),
        "partitionKeys": list(partition_keys),
        "primaryKeys": list(primary_keys),
        "options": dict(options),
        "timeMillis": now_millis(),
    }


def field_json(f: t.DataField) -> dict[str, Any]:
    return {"id": f.id, "name": f.name, "type": type_json(f.type)}


def type_json(kind: t.DataType) -> Any:
    """Writes a type as schema files hold it: text, or an object for nested types."""
    suffix = "" if kind.nullable else " NOT NULL"
    if isinstance(kind, t.RowType):
        return {"type": f"ROW{suffix}", "fields": [field_json(f) for f in kind.fields]}
    if isinstance(kind, t.MapType):
        return {"type": f"MAP{suffix}", "key": type_json(kind.key), "value": type_json(kind.value)}
    if isinstance(kind, (t.ArrayType, t.MultisetType)):
        return {"type": f"{kind.keyword}{suffix}", "element": type_json(kind.element)}
    if isinstance(kind, t.VectorType):
        return {"type": f"VECTOR{suffix}", "element": type_json(kind.element), "length": kind.length}
    return str(kind)


def now_millis() -> int:
    return time.time_ns() // 10**6
