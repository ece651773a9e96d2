"""Schema files of `TableFactory`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from morrow.engine.format import types as t

SCHEMA_VERSION = 3


@dataclass(frozen=True)
class Spelling:
    """A writer's spelling of metadata, which is Java's by default.

    `write_columns` is the form of a file's columns in manifests: null, their names, or left out.
    `type_texts` puts the types of keys and values into the texts of nested types, like pypaimon before 2.1.
    `case` converts option values that ignore case; with `commas`, lists of columns end with one.
    Before 2.1, pypaimon's checksums of blobs leave out their lengths (`unchecked_lengths`). If it streams blobs, it
    counts no nulls (`uncounted_blobs`). Its files hold vectors as Arrow's fixed-size lists (`fixed_lists`).
    """

    write_columns: Literal["null", "named", "left out"] = "null"
    type_texts: bool = False
    case: Callable[[str], str] = str
    commas: bool = False
    unchecked_lengths: bool = False
    uncounted_blobs: bool = False
    fixed_lists: bool = False

    def options(self, options: Mapping[str, str]) -> dict[str, str]:
        return {name: self._value(name, value) for name, value in options.items()}

    def _value(self, name: str, value: str) -> str:
        if name in CASELESS or value in ("true", "false"):
            return self.case(value)
        return f"{value}," if self.commas and (name == "sequence.field" or name.endswith(".sequence-group")) else value


JAVA = Spelling()
CASELESS = ("merge-engine", "changelog-producer", "sequence.field.sort-order")


def schema_json(
    schema_id: int,
    fields: Sequence[t.DataField],
    partition_keys: Sequence[str],
    primary_keys: Sequence[str],
    options: Mapping[str, str],
    spelling: Spelling = JAVA,
) -> dict[str, Any]:
    """Build the content of ``schema/schema-<id>``."""
    return {
        "version": SCHEMA_VERSION,
        "id": schema_id,
        "fields": [field_json(f, spelling) for f in fields],
        "highestFieldId": max((f.id for f in fields), default=-1),
        "partitionKeys": list(partition_keys),
        "primaryKeys": list(primary_keys),
        "options": spelling.options(options),
        "timeMillis": now_millis(),
    }


def field_json(f: t.DataField, spelling: Spelling = JAVA) -> dict[str, Any]:
    return {"id": f.id, "name": f.name, "type": type_json(f.type, spelling)}


def type_json(kind: t.DataType, spelling: Spelling = JAVA) -> Any:
    """Return a type's JSON for schema files: a text, or an object for nested types."""
    suffix = "" if kind.nullable else " NOT NULL"
    if isinstance(kind, t.RowType):
        return {"type": f"ROW{suffix}", "fields": [field_json(f, spelling) for f in kind.fields]}
    if isinstance(kind, t.MapType):
        parts = {"key": type_json(kind.key, spelling), "value": type_json(kind.value, spelling)}
        if spelling.type_texts:
            return {"type": f"MAP<{kind.key}, {kind.value}>", **parts, "nullable": kind.nullable}
        return {"type": f"MAP{suffix}", **parts}
    if isinstance(kind, (t.ArrayType, t.MultisetType)):
        return {"type": f"{kind.keyword}{suffix}", "element": type_json(kind.element, spelling)}
    if isinstance(kind, t.VectorType):
        text = str(kind) if spelling.type_texts else f"VECTOR{suffix}"
        return {"type": text, "element": type_json(kind.element, spelling), "length": kind.length}
    return str(kind)


def now_millis() -> int:
    return time.time_ns() // 10**6
