"""The data types of the Paimon specification: Arrow equivalents, SQL text, JSON form, equality.

A type is a frozen value that can be compared, hashed and pickled, and prints as in Paimon (``DECIMAL(10, 2) NOT
NULL``).

In schema files atomic types are text and nested types are objects: ``{"type": "ARRAY", "element": "INT"}``. The
type of a nested node includes its nullability (``"ARRAY NOT NULL"``). pypaimon 1.3 to 2.0 repeats the members in this
text (``"MAP<STRING NOT NULL, INT>"``), of which only the text after ``>`` counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.structs import replace

MAX_LENGTH = 2**31 - 1
"""The length of STRING and BYTES: Java's Integer.MAX_VALUE."""

MAX_DECIMAL_PRECISION = 38
MAX_TIME_PRECISION = 9

ARROW_MILLIS_PRECISION = 3
ARROW_MICROS_PRECISION = 6

T = TypeVar("T", bound="DataType")


class DataType(msgspec.Struct, frozen=True):
    """The base class of all types; `nullable` is part of the type, as in SQL."""

    nullable: bool = True
    keyword: ClassVar[str] = ""
    in_arrow: ClassVar[pa.DataType]
    """The Arrow type, if it is the same for all types of the class."""

    def text(self) -> str:
        """Return the type without its nullability: ``VARCHAR(20)``."""
        return self.keyword

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of values of this type in Morrow's results."""
        return self.in_arrow

    def with_nullable(self: T, nullable: bool) -> T:
        return replace(self, nullable=nullable)

    def __str__(self) -> str:
        return self.text() if self.nullable else f"{self.text()} NOT NULL"


class BooleanType(DataType, frozen=True):
    keyword: ClassVar[str] = "BOOLEAN"
    in_arrow: ClassVar[pa.DataType] = pa.bool_()


class TinyIntType(DataType, frozen=True):
    keyword: ClassVar[str] = "TINYINT"
    in_arrow: ClassVar[pa.DataType] = pa.int8()


class SmallIntType(DataType, frozen=True):
    keyword: ClassVar[str] = "SMALLINT"
    in_arrow: ClassVar[pa.DataType] = pa.int16()


class IntType(DataType, frozen=True):
    keyword: ClassVar[str] = "INT"
    in_arrow: ClassVar[pa.DataType] = pa.int32()


class BigIntType(DataType, frozen=True):
    keyword: ClassVar[str] = "BIGINT"
    in_arrow: ClassVar[pa.DataType] = pa.int64()


class FloatType(DataType, frozen=True):
    keyword: ClassVar[str] = "FLOAT"
    in_arrow: ClassVar[pa.DataType] = pa.float32()


class DoubleType(DataType, frozen=True):
    keyword: ClassVar[str] = "DOUBLE"
    in_arrow: ClassVar[pa.DataType] = pa.float64()


class DateType(DataType, frozen=True):
    keyword: ClassVar[str] = "DATE"
    in_arrow: ClassVar[pa.DataType] = pa.date32()


class VariantType(DataType, frozen=True):
    """Semi-structured values; in Arrow, the two byte strings of the Parquet variant encoding."""

    keyword: ClassVar[str] = "VARIANT"

    def arrow(self) -> pa.DataType:
        return pa.struct(
            [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
        )


class BlobType(DataType, frozen=True):
    """Large bytes, stored in separate files."""

    keyword: ClassVar[str] = "BLOB"
    in_arrow: ClassVar[pa.DataType] = pa.large_binary()


class _SizedType(DataType, frozen=True):
    length: int = MAX_LENGTH
    unbounded_keyword: ClassVar[str | None] = None

    def text(self) -> str:
        if self.unbounded_keyword and self.length == MAX_LENGTH:
            return self.unbounded_keyword
        return f"{self.keyword}({self.length})"


class CharType(_SizedType, frozen=True):
    length: int = 1
    keyword: ClassVar[str] = "CHAR"
    in_arrow: ClassVar[pa.DataType] = pa.string()


class VarCharType(_SizedType, frozen=True):
    keyword: ClassVar[str] = "VARCHAR"
    unbounded_keyword: ClassVar[str | None] = "STRING"
    in_arrow: ClassVar[pa.DataType] = pa.string()


class BinaryType(_SizedType, frozen=True):
    length: int = 1
    keyword: ClassVar[str] = "BINARY"
    in_arrow: ClassVar[pa.DataType] = pa.binary()


class VarBinaryType(_SizedType, frozen=True):
    keyword: ClassVar[str] = "VARBINARY"
    unbounded_keyword: ClassVar[str | None] = "BYTES"
    in_arrow: ClassVar[pa.DataType] = pa.binary()


class DecimalType(DataType, frozen=True):
    precision: int = 10
    scale: int = 0
    keyword: ClassVar[str] = "DECIMAL"

    def text(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"

    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)


class TimeType(DataType, frozen=True):
    """Time of day; Paimon stores milliseconds regardless of the precision."""

    precision: int = 0
    keyword: ClassVar[str] = "TIME"

    def text(self) -> str:
        return f"TIME({self.precision})"

    in_arrow: ClassVar[pa.DataType] = pa.time32("ms")


def to_arrow_time_unit(precision: int) -> str:
    """Return the Arrow unit for a timestamp precision of 0-9 digits: s, ms, us or ns."""
    if precision == 0:
        return "s"
    if precision <= ARROW_MILLIS_PRECISION:
        return "ms"
    return "us" if precision <= ARROW_MICROS_PRECISION else "ns"


class TimestampType(DataType, frozen=True):
    """Wall-clock time without zone: not an instant."""

    precision: int = 6
    keyword: ClassVar[str] = "TIMESTAMP"

    def text(self) -> str:
        return f"TIMESTAMP({self.precision})"

    def arrow(self) -> pa.DataType:
        return pa.timestamp(to_arrow_time_unit(self.precision))


class LocalZonedTimestampType(DataType, frozen=True):
    """An instant, shown in the session's zone by SQL engines; UTC in Arrow."""

    precision: int = 6
    keyword: ClassVar[str] = "TIMESTAMP_LTZ"

    def text(self) -> str:
        return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"

    def arrow(self) -> pa.DataType:
        return pa.timestamp(to_arrow_time_unit(self.precision), tz="UTC")


class ArrayType(DataType, frozen=True):
    element: DataType = DataType()
    keyword: ClassVar[str] = "ARRAY"

    def text(self) -> str:
        return f"ARRAY<{self.element}>"

    def arrow(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.arrow(), nullable=self.element.nullable))


class VectorType(DataType, frozen=True):
    """An array of a fixed number of numbers or booleans, none of them null (embeddings)."""

    element: DataType = DataType()
    length: int = 1
    keyword: ClassVar[str] = "VECTOR"

    def text(self) -> str:
        return f"VECTOR<{self.element}, {self.length}>"

    def arrow(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.arrow(), nullable=self.element.nullable), self.length)


class MapType(DataType, frozen=True):
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


class MultisetType(DataType, frozen=True):
    """A multiset: a map from each element to its count in Arrow."""

    element: DataType = DataType()
    keyword: ClassVar[str] = "MULTISET"

    def text(self) -> str:
        return f"MULTISET<{self.element}>"

    def arrow(self) -> pa.DataType:
        return pa.map_(
            pa.field("key", self.element.arrow(), nullable=False), pa.field("value", pa.int32(), nullable=False)
        )


class DataField(msgspec.Struct, frozen=True):
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


class RowType(DataType, frozen=True):
    fields: tuple[DataField, ...] = ()
    keyword: ClassVar[str] = "ROW"

    def text(self) -> str:
        return f"ROW<{', '.join(map(str, self.fields))}>"

    def arrow(self) -> pa.DataType:
        return pa.struct([field.arrow() for field in self.fields])


INTEGER_TYPES = (TinyIntType, SmallIntType, IntType, BigIntType)
"""The integer types, narrow ones first."""
VECTOR_ELEMENT_TYPES = (BooleanType, *INTEGER_TYPES, FloatType, DoubleType)
"""The types of the elements of vectors."""
NESTED_TYPES = (ArrayType, VectorType, MapType, MultisetType, RowType)
"""The types that are objects in schema files."""


def has_type(kind: DataType, wanted: type[DataType]) -> bool:
    """Return whether a type, or one within it, is of this class."""
    if isinstance(kind, wanted):
        return True
    if isinstance(kind, RowType):
        return any(has_type(field.type, wanted) for field in kind.fields)
    inner = (getattr(kind, name, None) for name in ("element", "key", "value"))
    return any(isinstance(each, DataType) and has_type(each, wanted) for each in inner)


def to_arrow_schema(fields: tuple[DataField, ...] | list[DataField]) -> pa.Schema:
    """Return the Arrow schema of these columns; descriptions become field metadata ``comment``."""
    return pa.schema(
        [f.arrow().with_metadata({"comment": f.description}) if f.description else f.arrow() for f in fields]
    )


@lru_cache(maxsize=4096)
def has_same_values(first: DataType, second: DataType) -> bool:
    """Return whether two types differ at most in nullability, at any depth, so that values do not need a cast."""
    return _drop_nullability(first) == _drop_nullability(second)


def merge_nullability(first: DataType, second: DataType) -> DataType:
    """Merge two types that differ only in nullability; each level is nullable if it is nullable in either type."""
    parts: dict[str, Any] = {
        part: merge_nullability(getattr(first, part), getattr(second, part))
        for part in ("element", "key", "value")
        if hasattr(first, part)
    }
    if isinstance(first, RowType) and isinstance(second, RowType):
        pairs = zip(first.fields, second.fields)
        parts["fields"] = tuple(replace(f, type=merge_nullability(f.type, g.type)) for f, g in pairs)
    either: DataType = replace(first, nullable=first.nullable or second.nullable, **parts)
    return either


def _drop_nullability(kind: DataType) -> DataType:
    parts: dict[str, Any] = {
        part: _drop_nullability(getattr(kind, part)) for part in ("element", "key", "value") if hasattr(kind, part)
    }
    if isinstance(kind, RowType):
        parts["fields"] = tuple(DataField(f.id, f.name, _drop_nullability(f.type)) for f in kind.fields)
    bare: DataType = replace(kind, nullable=True, **parts)
    return bare


SIZED_TYPES: dict[str, type[_SizedType]] = {t.keyword: t for t in (CharType, VarCharType, BinaryType, VarBinaryType)}

PLAIN_TYPES: dict[str, type[DataType]] = {
    **{t.keyword: t for t in (BooleanType, TinyIntType, SmallIntType, IntType, BigIntType, FloatType, DoubleType)},
    **{t.keyword: t for t in (DateType, VariantType, BlobType)},
    "INTEGER": IntType,
    "DOUBLE PRECISION": DoubleType,
    "STRING": VarCharType,
    "BYTES": VarBinaryType,
}


# As text: `re` compiles the pattern on first use, which is needed only for types in an unusual spelling.
_ATOMIC = r"""(?xi) \s* (?P<name>[A-Za-z_]+ (?:\s+PRECISION)?) \s*
        (?: \( \s* (?P<first>\d+) \s* (?: , \s* (?P<second>\d+) \s* )? \) )? \s*
        (?P<zone> WITH \s+ LOCAL \s+ TIME \s+ ZONE | WITHOUT \s+ TIME \s+ ZONE | WITH \s+ TIME \s+ ZONE )? \s*
        (?P<null> NOT \s+ NULL | NULL )? \s*"""
NOT_NULL = " NOT NULL"


def parse_atomic(text: str, *, where: str | None = None) -> DataType:
    """Parse an atomic type such as ``TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL``.

    Raises `Unsupported`: the text is not a type of the specification that Morrow knows.
    """
    plain = PLAIN_TYPES.get(text.removesuffix(NOT_NULL))
    if plain is not None:
        return plain(nullable=not text.endswith(NOT_NULL))
    match = re.fullmatch(_ATOMIC, text)
    if match is None:
        raise Unsupported(f"the type {text!r}", where=where)
    name = re.sub(r"\s+", " ", match["name"]).upper()
    sizes = [int(size) for size in (match["first"], match["second"]) if size is not None]
    zone = re.sub(r"\s+", " ", match["zone"] or "").upper()
    kind = _make_atomic(name, sizes, zone)
    if kind is None:
        raise Unsupported(f"the type {text!r}", where=where)
    return kind.with_nullable((match["null"] or "").upper()[:3] != "NOT")


def _make_atomic(name: str, sizes: list[int], zone: str) -> DataType | None:
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
    """Read a type from the JSON of a schema file: text for atomic types, an object for nested types.

    Raises:
        Unsupported: a type that Morrow does not know.
        KeyError, TypeError: the object lacks a member; callers report a corrupt file.
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
        return RowType(nullable, tuple(from_json_field(field, where=where) for field in node["fields"]))
    raise Unsupported(f"the type {text!r}", where=where)


def from_json_field(node: Any, *, where: str | None = None) -> DataField:
    """Read one member of ``fields``: id, name, type, and optionally description and defaultValue."""
    return DataField(
        id=int(node["id"]),
        name=str(node["name"]),
        type=from_json(node["type"], where=where),
        description=node.get("description"),
        default_value=node.get("defaultValue"),
    )


def to_json(data_type: DataType) -> Any:
    """Return the JSON of a type in schema files, the reverse of `from_json`."""
    if not isinstance(data_type, NESTED_TYPES):
        return str(data_type)
    node: dict[str, Any] = {"type": data_type.keyword if data_type.nullable else f"{data_type.keyword} NOT NULL"}
    if isinstance(data_type, RowType):
        node["fields"] = [to_json_field(f) for f in data_type.fields]
    elif isinstance(data_type, MapType):
        node |= {"key": to_json(data_type.key), "value": to_json(data_type.value)}
    else:
        node["element"] = to_json(data_type.element)
    if isinstance(data_type, VectorType):
        node["length"] = data_type.length
    return node


def to_json_field(field: DataField) -> dict[str, Any]:
    """Return one member of ``fields``, the reverse of `from_json_field`."""
    node: dict[str, Any] = {"id": field.id, "name": field.name, "type": to_json(field.type)}
    if field.description is not None:
        node["description"] = field.description
    if field.default_value is not None:
        node["defaultValue"] = field.default_value
    return node


# The Polars dtypes in which Morrow's frames hold values of Paimon types.
#
# Polars has fewer types than Arrow, so some are represented by others:
#
# ================  ==========================================
# Paimon            Polars
# ================  ==========================================
# CHAR, VARCHAR     String
# BINARY, BYTES     Binary
# TIME              Time (nanoseconds)
# TIMESTAMP(0)      Datetime("ms")
# TIMESTAMP_LTZ     Datetime(unit, "UTC")
# MAP, MULTISET     List(Struct{key, value})
# ROW               Struct
# VECTOR            Array(element, length)
# VARIANT           Struct{value: Binary, metadata: Binary}
# ================  ==========================================

_ATOMIC_POLARS_TYPES: dict[type[DataType], pl.DataType] = {
    BooleanType: pl.Boolean(),
    TinyIntType: pl.Int8(),
    SmallIntType: pl.Int16(),
    IntType: pl.Int32(),
    BigIntType: pl.Int64(),
    FloatType: pl.Float32(),
    DoubleType: pl.Float64(),
    DateType: pl.Date(),
    TimeType: pl.Time(),
    CharType: pl.String(),
    VarCharType: pl.String(),
    BinaryType: pl.Binary(),
    VarBinaryType: pl.Binary(),
    BlobType: pl.Binary(),
    VariantType: pl.Struct({"value": pl.Binary(), "metadata": pl.Binary()}),
}


def _build_entries_dtype(key: DataType, value: DataType) -> pl.DataType:
    return pl.List(pl.Struct({"key": to_polars_dtype(key), "value": to_polars_dtype(value)}))


def _find_time_unit(precision: int) -> Any:
    unit = to_arrow_time_unit(precision)
    return "ms" if unit == "s" else unit


_PARAMETRIC: dict[type[DataType], Callable[[Any], pl.DataType]] = {
    DecimalType: lambda d: pl.Decimal(d.precision, d.scale),
    TimestampType: lambda d: pl.Datetime(_find_time_unit(d.precision)),
    LocalZonedTimestampType: lambda d: pl.Datetime(_find_time_unit(d.precision), "UTC"),
    ArrayType: lambda d: pl.List(to_polars_dtype(d.element)),
    VectorType: lambda d: pl.Array(to_polars_dtype(d.element), d.length),
    MapType: lambda d: _build_entries_dtype(d.key, d.value),
    MultisetType: lambda d: _build_entries_dtype(d.element, IntType()),
    RowType: lambda d: pl.Struct({field.name: to_polars_dtype(field.type) for field in d.fields}),
}


def to_polars_dtype(type: DataType) -> pl.DataType:
    """Return the Polars dtype in which Morrow's frames hold values of this Paimon type (see the table above).

    Raises `Unsupported`: a type without Polars representation.
    """
    kind = type.__class__
    if kind in _ATOMIC_POLARS_TYPES:
        return _ATOMIC_POLARS_TYPES[kind]
    if kind in _PARAMETRIC:
        return _PARAMETRIC[kind](type)
    raise Unsupported(f"the type {type} in a Polars frame")


def to_polars_schema(fields: Sequence[DataField]) -> pl.Schema:
    """Return the Polars schema of a frame with these columns."""
    return pl.Schema({field.name: to_polars_dtype(field.type) for field in fields})
