"""The data types of the Paimon specification and their Arrow equivalents.

A type is a frozen value: it prints as Paimon writes it (``DECIMAL(10, 2) NOT NULL``), compares, hashes and pickles.
`type_text` parses that text, `type_json` reads and writes types in schema files.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

import msgspec
import pyarrow as pa

from morrow.engine.values import replace

MAX_LENGTH = 2**31 - 1
"""The length of STRING and BYTES: Java's Integer.MAX_VALUE."""

MAX_DECIMAL_PRECISION = 38
MAX_TIME_PRECISION = 9

ARROW_MILLIS_PRECISION = 3
ARROW_MICROS_PRECISION = 6

T = TypeVar("T", bound="DataType")


class DataType(msgspec.Struct, frozen=True):
    """Base of all types; `nullable` is part of the type, as in SQL."""

    nullable: bool = True
    keyword: ClassVar[str] = ""
    in_arrow: ClassVar[pa.DataType]
    """The Arrow type, where it is the same for all types of the class."""

    def text(self) -> str:
        """Returns the type without its nullability: ``VARCHAR(20)``."""
        return self.keyword

    def arrow(self) -> pa.DataType:
        """Returns the Arrow type of values of this type in Morrow's results."""
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
    """Semi-structured values; in Arrow the two byte strings of the Parquet variant encoding."""

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
    """Time of day; Paimon keeps milliseconds whatever the precision is."""

    precision: int = 0
    keyword: ClassVar[str] = "TIME"

    def text(self) -> str:
        return f"TIME({self.precision})"

    in_arrow: ClassVar[pa.DataType] = pa.time32("ms")


def arrow_time_unit(precision: int) -> str:
    """Returns the Arrow unit for a timestamp precision of 0-9 digits: s, ms, us or ns."""
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
        return pa.timestamp(arrow_time_unit(self.precision))


class LocalZonedTimestampType(DataType, frozen=True):
    """An instant, shown in the session's zone by SQL engines; UTC in Arrow."""

    precision: int = 6
    keyword: ClassVar[str] = "TIMESTAMP_LTZ"

    def text(self) -> str:
        return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"

    def arrow(self) -> pa.DataType:
        return pa.timestamp(arrow_time_unit(self.precision), tz="UTC")


class ArrayType(DataType, frozen=True):
    element: DataType = DataType()
    keyword: ClassVar[str] = "ARRAY"

    def text(self) -> str:
        return f"ARRAY<{self.element}>"

    def arrow(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.element.arrow(), nullable=self.element.nullable))


class VectorType(DataType, frozen=True):
    """An array of a fixed number of elements (embeddings)."""

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
    """A bag: each element with its count, a map in Arrow."""

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


NESTED_TYPES = (ArrayType, VectorType, MapType, MultisetType, RowType)
"""The types that are objects in schema files."""


def contains(kind: DataType, wanted: type[DataType]) -> bool:
    """Returns whether a type, or one within it, is of this class."""
    if isinstance(kind, wanted):
        return True
    if isinstance(kind, RowType):
        return any(contains(field.type, wanted) for field in kind.fields)
    inner = (getattr(kind, name, None) for name in ("element", "key", "value"))
    return any(isinstance(each, DataType) and contains(each, wanted) for each in inner)


def arrow_schema(fields: tuple[DataField, ...] | list[DataField]) -> pa.Schema:
    """Returns the Arrow schema of these columns; descriptions become field metadata ``comment``."""
    return pa.schema(
        [f.arrow().with_metadata({"comment": f.description}) if f.description else f.arrow() for f in fields]
    )
