"""The data types of the Paimon specification, their text and JSON forms, and their Arrow equivalents.

A type is a frozen value: it prints as Paimon writes it (``DECIMAL(10, 2) NOT NULL``), compares, hashes and pickles.
In schema files atomic types are that text and nested types are JSON objects
(``{"type": "ARRAY", "element": "INT"}``); `from_json` reads both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from morrow.engine.errors import Unsupported

MAX_LENGTH = 2**31 - 1
"""The length of STRING and BYTES: Java's Integer.MAX_VALUE."""

MAX_DECIMAL_PRECISION = 38
MAX_TIME_PRECISION = 9

ARROW_MILLIS_PRECISION = 3
ARROW_MICROS_PRECISION = 6

T = TypeVar("T", bound="DataType")


@dataclass(frozen=True)
class DataType:
    """Base of all types; `nullable` is part of the type, as in SQL."""

    nullable: bool = True
    keyword: ClassVar[str] = ""

    def text(self) -> str:
        """Returns the type without its nullability: ``VARCHAR(20)``."""
        return self.keyword

    def arrow(self) -> pa.DataType:
        """Returns the Arrow type of values of this type in Morrow's results."""
        raise NotImplementedError

    def with_nullable(self: T, nullable: bool) -> T:
        return replace(self, nullable=nullable)

    def __str__(self) -> str:
        return self.text() if self.nullable else f"{self.text()} NOT NULL"


@dataclass(frozen=True)
class BooleanType(DataType):
    keyword: ClassVar[str] = "BOOLEAN"

    def arrow(self) -> pa.DataType:
        return pa.bool_()


@dataclass(frozen=True)
class TinyIntType(DataType):
    keyword: ClassVar[str] = "TINYINT"

    def arrow(self) -> pa.DataType:
        return pa.int8()


@dataclass(frozen=True)
class SmallIntType(DataType):
    keyword: ClassVar[str] = "SMALLINT"

    def arrow(self) -> pa.DataType:
        return pa.int16()


@dataclass(frozen=True)
class IntType(DataType):
    keyword: ClassVar[str] = "INT"

    def arrow(self) -> pa.DataType:
        return pa.int32()


@dataclass(frozen=True)
class BigIntType(DataType):
    keyword: ClassVar[str] = "BIGINT"

    def arrow(self) -> pa.DataType:
        return pa.int64()


@dataclass(frozen=True)
class FloatType(DataType):
    keyword: ClassVar[str] = "FLOAT"

    def arrow(self) -> pa.DataType:
        return pa.float32()


@dataclass(frozen=True)
class DoubleType(DataType):
    keyword: ClassVar[str] = "DOUBLE"

    def arrow(self) -> pa.DataType:
        return pa.float64()


@dataclass(frozen=True)
class DateType(DataType):
    keyword: ClassVar[str] = "DATE"

    def arrow(self) -> pa.DataType:
        return pa.date32()


@dataclass(frozen=True)
class VariantType(DataType):
    """Semi-structured values; in Arrow the two byte strings of the Parquet variant encoding."""

    keyword: ClassVar[str] = "VARIANT"

    def arrow(self) -> pa.DataType:
        return pa.struct(
            [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
        )


@dataclass(frozen=True)
class BlobType(DataType):
    """Large bytes, stored in separate files."""

    keyword: ClassVar[str] = "BLOB"

    def arrow(self) -> pa.DataType:
        return pa.large_binary()


@dataclass(frozen=True)
class _SizedType(DataType):
    length: int = MAX_LENGTH
    unbounded_keyword: ClassVar[str | None] = None

    def text(self) -> str:
        if self.unbounded_keyword and self.length == MAX_LENGTH:
            return self.unbounded_keyword
        return f"{self.keyword}({self.length})"


@dataclass(frozen=True)
class CharType(_SizedType):
    length: int = 1
    keyword: ClassVar[str] = "CHAR"

    def arrow(self) -> pa.DataType:
        return pa.string()


@dataclass(frozen=True)
class VarCharType(_SizedType):
    keyword: ClassVar[str] = "VARCHAR"
    unbounded_keyword: ClassVar[str | None] = "STRING"

    def arrow(self) -> pa.DataType:
        return pa.string()


@dataclass(frozen=True)
class BinaryType(_SizedType):
    length: int = 1
    keyword: ClassVar[str] = "BINARY"

    def arrow(self) -> pa.DataType:
        return pa.binary()


@dataclass(frozen=True)
class VarBinaryType(_SizedType):
    keyword: ClassVar[str] = "VARBINARY"
    unbounded_keyword: ClassVar[str | None] = "BYTES"

    def arrow(self) -> pa.DataType:
        return pa.binary()


@dataclass(frozen=True)
class DecimalType(DataType):
    precision: int = 10
    scale: int = 0
    keyword: ClassVar[str] = "DECIMAL"

    def text(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"

    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)


@dataclass(frozen=True)
class TimeType(DataType):
    """Time of day; Paimon keeps milliseconds whatever the precision is."""

    precision: int = 0
    keyword: ClassVar[str] = "TIME"

    def text(self) -> str:
        return f"TIME({self.precision})"

    def arrow(self) -> pa.DataType:
        return pa.time32("ms")


def arrow_time_unit(precision: int) -> str:
    """Returns the Arrow unit for a timestamp precision of 0-9 digits: s, ms, us or ns."""
    if precision == 0:
        return "s"
    if precision <= ARROW_MILLIS_PRECISION:
        return "ms"
    return "us" if precision <= ARROW_MICROS_PRECISION else "ns"


@dataclass(frozen=True)
class TimestampType(DataType):
    """Wall-clock time without zone: not an instant."""

    precision: int = 6
    keyword: ClassVar[str] = "TIMESTAMP"

    def text(self) -> str:
        return f"TIMESTAMP({self.precision})"

    def arrow(self) -> pa.DataType:
        return pa.timestamp(arrow_time_unit(self.precision))


@dataclass(frozen=True)
class LocalZonedTimestampType(DataType):
    """An instant, shown in the session's zone by SQL engines; UTC in Arrow."""

    precision: int = 6
    keyword: ClassVar[str] = "TIMESTAMP_LTZ"

    def text(self) -> str:
        return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"

    def arrow(self) -> pa.DataType:
        return pa.timestamp(arrow_time_unit(self.precision), tz="UTC")


@dataclass(frozen=True)
class ArrayType(DataType):
    element: DataType = DataType()
    keyword: ClassVar[str] = "ARRAY"

    def text(self) -> str:
        return f"ARRAY<{self.element}>"

    def arrow(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.arrow(), nullable=self.element.nullable))


@dataclass(frozen=True)
class VectorType(DataType):
    """An array of a fixed number of elements (embeddings)."""

    element: DataType = DataType()
    length: int = 1
    keyword: ClassVar[str] = "VECTOR"

    def text(self) -> str:
        return f"VECTOR<{self.element}, {self.length}>"

    def arrow(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.arrow(), nullable=self.element.nullable), self.length)


@dataclass(frozen=True)
class MapType(DataType):
    key: DataType = DataType()
    value: DataType = DataType()
    keyword: ClassVar[str] = "MAP"

    def text(self) -> str:
        return f"MAP<{self.key}, {self.value}>"

    def arrow(self) -> pa.DataType:
        return pa.map_(
            pa.field("key", self.key.arrow(), nullable=False),
            pa.field("value", self.value.arrow(), nullable=self.value.nullable),
        )


@dataclass(frozen=True)
class MultisetType(DataType):
    """A bag: each element with its count, a map in Arrow."""

    element: DataType = DataType()
    keyword: ClassVar[str] = "MULTISET"

    def text(self) -> str:
        return f"MULTISET<{self.element}>"

    def arrow(self) -> pa.DataType:
        return pa.map_(
            pa.field("key", self.element.arrow(), nullable=False), pa.field("value", pa.int32(), nullable=False)
        )


@dataclass(frozen=True)
class DataField:
    """A named, typed column or row member; its `id` is its identity through renames and moves."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.type.arrow(), nullable=self.type.nullable)

    def __str__(self) -> str:
        return f"`{self.name}` {self.type}"


@dataclass(frozen=True)
class RowType(DataType):
    fields: tuple[DataField, ...] = ()
    keyword: ClassVar[str] = "ROW"

    def text(self) -> str:
        return f"ROW<{', '.join(map(str, self.fields))}>"

    def arrow(self) -> pa.DataType:
        return pa.struct([field.arrow() for field in self.fields])


NESTED_TYPES = (ArrayType, VectorType, MapType, MultisetType, RowType)
"""The types that are objects in schema files."""

SIZED_TYPES: dict[str, type[_SizedType]] = {t.keyword: t for t in (CharType, VarCharType, BinaryType, VarBinaryType)}
PLAIN_TYPES: dict[str, type[DataType]] = {
    **{t.keyword: t for t in (BooleanType, TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType)},
    **{t.keyword: t for t in (DateType, VariantType, BlobType)},
    "INTEGER": IntType,
    "DOUBLE PRECISION": DoubleType,
    "STRING": VarCharType,
    "BYTES": VarBinaryType,
}

_ATOMIC = re.compile(
    r"""\s* (?P<name>[A-Za-z_]+ (?:\s+PRECISION)?) \s*
        (?: \( \s* (?P<first>\d+) \s* (?: , \s* (?P<second>\d+) \s* )? \) )? \s*
        (?P<zone> WITH \s+ LOCAL \s+ TIME \s+ ZONE | WITHOUT \s+ TIME \s+ ZONE | WITH \s+ TIME \s+ ZONE )? \s*
        (?P<null> NOT \s+ NULL | NULL )? \s*""",
    re.VERBOSE | re.IGNORECASE,
)


def parse_atomic(text: str, *, where: str | None = None) -> DataType:
    """Parses an atomic type such as ``TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL``.

    Raises:
        Unsupported: the text names no type of the specification that Morrow knows.
    """
    match = _ATOMIC.fullmatch(text)
    if match is None:
        raise Unsupported(f"the type {text!r}", where=where)
    name = re.sub(r"\s+", " ", match["name"]).upper()
    sizes = [int(size) for size in (match["first"], match["second"]) if size is not None]
    zone = re.sub(r"\s+", " ", match["zone"] or "").upper()
    kind = _atomic_of(name, sizes, zone)
    if kind is None:
        raise Unsupported(f"the type {text!r}", where=where)
    return kind.with_nullable((match["null"] or "").upper()[:3] != "NOT")


def _atomic_of(name: str, sizes: list[int], zone: str) -> DataType | None:
    if name in ("TIMESTAMP", "TIMESTAMP_LTZ") and len(sizes) <= 1:
        precision = sizes[0] if sizes else ARROW_MICROS_PRECISION
        if precision > MAX_TIME_PRECISION:
            return None
        if name == "TIMESTAMP_LTZ" or zone == "WITH LOCAL TIME ZONE":
            return LocalZonedTimestampType(precision=precision)
        return TimestampType(precision=precision) if zone in ("", "WITHOUT TIME ZONE") else None
    if name == "TIME" and len(sizes) <= 1 and zone in ("", "WITHOUT TIME ZONE"):
        precision = sizes[0] if sizes else 0
        return TimeType(precision=precision) if precision <= MAX_TIME_PRECISION else None
    if zone:
        return None
    if name in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = ([*sizes, 0] if sizes else [10, 0])[:2]
        in_range = 1 <= precision <= MAX_DECIMAL_PRECISION and scale <= precision
        return DecimalType(precision=precision, scale=scale) if in_range else None
    if name in SIZED_TYPES and len(sizes) <= 1:
        length = sizes[0] if sizes else 1
        return SIZED_TYPES[name](length=length) if length <= MAX_LENGTH else None
    return PLAIN_TYPES[name]() if name in PLAIN_TYPES and not sizes else None


def from_json(node: Any, *, where: str | None = None) -> DataType:
    """Reads a type as schema files hold it: text for atomic types, an object for nested ones.

    Raises:
        Unsupported: a type that Morrow does not know.
        KeyError, TypeError: the object lacks a member (callers report the file as corrupt).
    """
    if isinstance(node, str):
        return parse_atomic(node, where=where)
    keyword, _, nullability = str(node["type"]).partition(" ")
    nullable = "NOT NULL" not in nullability
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
    raise Unsupported(f"the type {node['type']!r}", where=where)


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


def arrow_schema(fields: tuple[DataField, ...] | list[DataField]) -> pa.Schema:
    """Returns the Arrow schema of these columns; descriptions become field metadata ``comment``."""
    return pa.schema(
        [f.arrow().with_metadata({"comment": f.description}) if f.description else f.arrow() for f in fields]
    )
