"""Avro schemas lowered to the types that Polars decodes, describing the same bytes.

Avro's wire format has fewer shapes than its type system, and Polars's decoder supports only part of the format:

==================================  ==============================================================
written                             read as (same bytes)
==================================  ==============================================================
map of V                            array of record {key: string, value: V}
named type, second use              the definition, in place
top-level union ["null", record]    record with the branch number as a first field of type long
enum                                int, the number of the symbol
a record as a column                its members as columns, if requested
any other logical type than below   the plain type
==================================  ==============================================================

The logical types ``date``, ``time-millis``, ``decimal`` and the four timestamps in milli- and microseconds are kept.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.types import MAX_DECIMAL_PRECISION

PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
LOGICAL_TYPES = frozenset(
    {
        ("int", "date"),
        ("int", "time-millis"),
        ("bytes", "decimal"),
        ("fixed", "decimal"),
        ("long", "timestamp-millis"),
        ("long", "timestamp-micros"),
        ("long", "local-timestamp-millis"),
        ("long", "local-timestamp-micros"),
    }
)
MAX_DEPTH = 64
MAX_NODES = 100_000
"""Limits of a lowered schema. Named types are expanded at each use, so a schema could grow exponentially."""
MAX_SCHEMA_BYTES = 1 << 24

BRANCH = "__branch"
"""Name of the field for a row's union branch, if the row itself is a nullable record."""


class LoweredSchema(msgspec.Struct, frozen=True):
    """A record schema for Polars: its JSON, the names of its columns, and the column of each row's union branch."""

    json: bytes
    names: tuple[str, ...]
    branch: str | None = None
    row_branch: int = 0


@lru_cache(maxsize=256)
def _lower(schema: bytes, spread: str) -> LoweredSchema:
    try:
        written = json.loads(schema)
    except ValueError as error:  # JSONDecodeError or UnicodeDecodeError
        raise _BadSchemaError(f"the schema is not JSON ({error})") from error
    record, branch = _find_row(written)
    lowered = _Lowering().lowered(record, "", 0)
    if spread:
        lowered["fields"] = _spread(lowered["fields"], spread)
    names = tuple(member["name"] for member in lowered["fields"])
    if not names or len(set(names)) != len(names) or BRANCH in names:
        raise _BadSchemaError("the schema has no columns or two of the same name")
    if branch is None:
        return LoweredSchema(json.dumps(lowered).encode(), names)
    lowered["fields"].insert(0, {"name": BRANCH, "type": "long"})
    return LoweredSchema(json.dumps(lowered).encode(), names, BRANCH, branch)


def _spread(fields: list[Any], name: str) -> list[Any]:
    """Replace the column `name` by its members, if it is a record that is never null."""
    spread: list[Any] = []
    for field in fields:
        is_record = field["name"] == name and isinstance(field["type"], dict) and field["type"]["type"] == "record"
        spread += field["type"]["fields"] if is_record else [field]
    return spread


def lower(schema: bytes, *, where: str, spread: str = "") -> LoweredSchema:
    """Return the schema of a container file in types that Polars reads.

    The members of the column `spread` become columns, if it is a record that is never null.

    Raises:
        CorruptFile: not a schema.
        Unsupported: recursive types, unions other than "null or one type", items of zero bytes.
    """
    try:
        if len(schema) > MAX_SCHEMA_BYTES:
            raise _BadSchemaError(f"the schema has {len(schema)} bytes")
        return _lower(schema, spread)
    except _BadSchemaError as error:
        raise CorruptFile(where, f"bad Avro schema: {error}") from error
    except _NoEquivalentError as error:
        raise Unsupported(str(error), where=where) from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(where, f"bad Avro schema: {type(error).__name__} {error}") from error


class _BadSchemaError(Exception):
    """The JSON is not an Avro schema."""


class _NoEquivalentError(Exception):
    """An Avro schema that cannot be described to Polars."""


def _find_row(schema: Any) -> tuple[Any, int | None]:
    """Return the record of a row, and its branch number if rows are ["null", record] (Paimon before 1.0)."""
    if isinstance(schema, list):
        if len(schema) == 2 and "null" in schema:
            branch = 1 - schema.index("null")
            return _find_row(schema[branch])[0], branch
        raise _NoEquivalentError("a file whose rows are a union of several types")
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _NoEquivalentError("an Avro file whose rows are not records")
    return schema, None


class _Lowering:
    """One pass over a schema, with the named types seen so far."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[Any, str]] = {}
        self.open: set[str] = set()
        self.numbers: Iterator[int] = itertools.count()

    def lowered(self, schema: Any, space: str, depth: int) -> Any:
        number = next(self.numbers)
        if depth > MAX_DEPTH or number > MAX_NODES:
            raise _NoEquivalentError("an Avro schema this deep or large")
        if isinstance(schema, list):
            return self.union(schema, space, depth)
        if isinstance(schema, str):
            return schema if schema in PRIMITIVES else self.reference(schema, space, depth)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.lowered(kind, space, depth + 1)
        if kind in ("record", "error"):
            return self.record(schema, space, depth, f"r{number}")
        if kind in ("enum", "fixed"):
            self.named[_qualify_name(schema, space)] = (schema, space)
            return (
                "int"
                if kind == "enum"
                else _lower_logical(schema, {"type": "fixed", "name": f"r{number}", "size": _size(schema)})
            )
        if kind == "array":
            return {"type": "array", "items": self.item(schema["items"], space, depth)}
        if kind == "map":
            members = [("key", "string"), ("value", self.lowered(schema["values"], space, depth + 1))]
            entry = {"type": "record", "name": f"r{number}", "fields": [{"name": n, "type": t} for n, t in members]}
            return {"type": "array", "items": entry}
        if kind in PRIMITIVES:
            return _lower_logical(schema, {"type": kind})
        return self.reference(kind, space, depth)

    def union(self, branches: list[Any], space: str, depth: int) -> Any:
        if len(branches) == 1:
            # A single branch still writes its number before each value; the lowered types lack this prefix.
            raise _NoEquivalentError("an Avro union of one type")
        if len(branches) != 2 or "null" not in branches:
            raise _NoEquivalentError(f"an Avro union of {len(branches)} types")
        return [b if b == "null" else self.lowered(b, space, depth + 1) for b in branches]

    def record(self, schema: Mapping[str, Any], space: str, depth: int, name: str) -> Any:
        full = _qualify_name(schema, space)
        inner = full.rpartition(".")[0]
        self.named[full] = (schema, space)
        self.open.add(full)
        fields = [
            {"name": str(member["name"]), "type": self.lowered(member["type"], inner, depth + 1)}
            for member in schema["fields"]
        ]
        self.open.discard(full)
        return {"type": "record", "name": name, "fields": fields}

    def reference(self, name: str, space: str, depth: int) -> Any:
        full = name if "." in name or not space or f"{space}.{name}" not in self.named else f"{space}.{name}"
        if full in self.open:
            raise _NoEquivalentError(f"the recursive Avro type {full}")
        if full not in self.named:
            raise _NoEquivalentError(f"the Avro type {name!r}")
        definition, defined_in = self.named[full]
        return self.lowered(definition, defined_in, depth + 1)

    def item(self, schema: Any, space: str, depth: int) -> Any:
        lowered = self.lowered(schema, space, depth + 1)
        if _is_empty(lowered):
            # With empty items, a few bytes could claim any number of items.
            raise _NoEquivalentError("an Avro array whose items take no bytes")
        return lowered


def _qualify_name(schema: Mapping[str, Any], space: str) -> str:
    name = str(schema["name"])
    space = schema.get("namespace", space)
    return name if "." in name or not space else f"{space}.{name}"


def _size(schema: Mapping[str, Any]) -> int:
    size = schema["size"]
    if not isinstance(size, int) or size < 0:
        raise _BadSchemaError(f"a fixed of size {size!r}")
    return size


def _lower_logical(schema: Mapping[str, Any], plain: dict[str, Any]) -> Any:
    logical = schema.get("logicalType")
    if (plain["type"], logical) not in LOGICAL_TYPES:
        return plain if plain["type"] == "fixed" else plain["type"]
    if logical != "decimal":
        return {**plain, "logicalType": logical}
    precision, scale = schema["precision"], schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision):
        raise _BadSchemaError(f"a decimal of precision {precision!r} and scale {scale!r}")
    if precision > MAX_DECIMAL_PRECISION:
        raise _NoEquivalentError(f"an Avro decimal of precision {precision}")
    return {**plain, "logicalType": "decimal", "precision": precision, "scale": scale}


def _is_empty(lowered: Any) -> bool:
    if not isinstance(lowered, dict):
        return False
    if lowered["type"] == "record":
        return all(_is_empty(member["type"]) for member in lowered["fields"])
    return bool(lowered["type"] == "fixed" and lowered["size"] == 0)
