"""Conversion between Paimon types and Spark types, and of rows to the Arrow types that Spark accepts.

=====================  =======================  ================================================================
Paimon                 Spark                    passed as Arrow
=====================  =======================  ================================================================
CHAR, VARCHAR          STRING                   string
BINARY, BYTES, BLOB    BINARY                   binary
DECIMAL(p, s)          DECIMAL(p, s)            decimal128(p, s)
TIME                   TIME(3), from Spark 4.1  time64[ns]
TIMESTAMP              TIMESTAMP_NTZ            timestamp[us]; nanoseconds are cut off
TIMESTAMP_LTZ          TIMESTAMP                timestamp[us, UTC]; nanoseconds are cut off
ARRAY, VECTOR          ARRAY                    list
MAP, MULTISET          MAP                      map; of a multiset, elements with their counts
ROW                    STRUCT                   struct
VARIANT                VARIANT                  struct<value: binary, metadata: binary>, marked as a variant
=====================  =======================  ================================================================
The other types are the same in all three. In the other direction, TIMESTAMP becomes TIMESTAMP_LTZ(6) and
TIMESTAMP_NTZ becomes TIMESTAMP(6); CHAR and VARCHAR keep their lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.schema.defaults import NESTED, format_default, is_function_form, parse_default
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import cast_layout, list_offsets, make_null_mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

LEAVE_OUT = "leave the column out by columns=[...]"
TIME_DIGITS = 3
"""The fractional digits of TIME: Paimon stores milliseconds of the day."""

VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""The Arrow type of a variant. Its metadata distinguishes it in Spark from other structs with the same members."""


def to_spark_schema(fields: Sequence[t.DataField]) -> StructType:
    """Return the Spark schema of columns, which keeps NOT NULL.

    Raises `Unsupported`: a column whose type this version of Spark does not have (TIME before 4.1, VARIANT before 4.0).
    """
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f.name, to_spark_type(f.type, f.name), f.type.nullable) for f in fields])


def to_spark_type(kind: t.DataType, column: str) -> SparkType:
    """Return the Spark type of a Paimon type; errors name `column`. Raises as `to_spark_schema`."""
    from pyspark.sql import types as s

    build = _SPARK.get(type(kind))
    if build is None:
        raise Unsupported(f"the type {kind} of column {column!r} in Spark", hint=LEAVE_OUT)
    return build(s, kind, column)


def make_empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty DataFrame of nullable columns. Spark knows that it is empty, and runs no job for it."""
    from pyspark.sql.functions import lit

    return spark.range(1).limit(0).select(*(lit(None).cast(f.dataType).alias(f.name) for f in schema.fields))


def format_spark_default(field: t.DataField, kind: SparkType) -> str:
    """Return the default value of a column that has one, as an expression in Spark's SQL."""
    scalar = parse_default(field.type, str(field.default_value), field.name)
    if type(field.type) in NESTED:
        text = str(field.default_value)
        return (
            text
            if is_function_form(text)
            else f"CAST({_format_nested(scalar.as_py(), field)} AS {kind.simpleString()})"
        )
    if pa.types.is_timestamp(scalar.type):
        scalar = scalar.cast(pa.timestamp("us", scalar.type.tz), safe=False)  # the finest precision in Spark
    value = scalar.as_py()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    text = format_default(value, field.name)
    if isinstance(field.type, t.LocalZonedTimestampType):
        text += "Z"  # independent of the session's zone
    text = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{text}' AS {kind.simpleString()})"


def _format_nested(value: Any, field: t.DataField) -> str:
    """Return a value as SQL whose parts are text, for a cast to the type of the column."""
    if value is None:
        return "NULL"
    if isinstance(value, dict):
        return f"struct({', '.join(_format_nested(part, field) for part in value.values())})"
    if isinstance(value, list):
        pairs = bool(value) and isinstance(value[0], tuple)
        parts = [part for pair in value for part in pair] if pairs else value
        name = "map" if pairs or (isinstance(field.type, t.MapType) and not value) else "array"
        return f"{name}({', '.join(_format_nested(part, field) for part in parts)})"
    return "'" + format_default(value, field.name).replace("\\", "\\\\").replace("'", "\\'") + "'"


def to_travel_schema(fields: Iterable[t.DataField]) -> pa.Schema:
    """Return the Arrow schema in which Spark accepts rows of `to_spark_schema`."""
    return pa.schema([_to_travel_field(field) for field in fields])


def to_spark_rows(rows: Rows, schema: pa.Schema) -> Rows:
    """Convert rows with Morrow's Arrow types to `to_travel_schema`; unchanged columns are not copied."""
    columns = [_cast_column(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return type(rows).from_arrays(columns, schema=schema)


def drop_not_null(fields: Iterable[t.DataField]) -> tuple[t.DataField, ...]:
    """Return the columns, nullable at all levels, as in Spark's own file scans."""
    return tuple(replace(field, type=_make_nullable(field.type)) for field in fields)


def make_members_nullable(fields: Iterable[t.DataField]) -> tuple[t.DataField, ...]:
    """Return the columns with nullable members of ROWs; columns keep NOT NULL.

    If such a ROW is null, Arrow has nulls in its members too, which createDataFrame refuses.
    """
    return tuple(replace(f, type=_make_nullable(f.type).with_nullable(f.type.nullable)) for f in fields)


def _cast_column(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_cast_column(chunk, kind) for chunk in column.chunks], kind)
    conformed = cast_layout(column, kind)
    return _fill_variants(conformed) if _has_variants(kind) else conformed


@lru_cache(maxsize=512)
def _has_variants(kind: pa.DataType) -> bool:
    return kind.equals(VARIANT) or any(_has_variants(kind.field(i).type) for i in range(kind.num_fields))


def _fill_variants(array: pa.Array) -> pa.Array:
    """Return the same values with empty members in null variants: createDataFrame refuses null members."""
    kind = array.type
    if not _has_variants(kind):
        return array
    if pa.types.is_map(kind):
        key, item = _fill_variants(array.keys), _fill_variants(array.items)
        return pa.MapArray.from_arrays(list_offsets(array), key, item, type=kind, mask=make_null_mask(array))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            list_offsets(array), _fill_variants(array.values), type=kind, mask=make_null_mask(array)
        )
    members = [array.field(i) for i in range(kind.num_fields)]
    members = [pc.fill_null(m, b"") for m in members] if kind.equals(VARIANT) else [_fill_variants(m) for m in members]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=make_null_mask(array))


@lru_cache(maxsize=512)
def _make_nullable(kind: t.DataType) -> t.DataType:
    kind = kind.with_nullable(True)
    if isinstance(kind, (t.ArrayType, t.VectorType)):
        return replace(kind, element=_make_nullable(kind.element))
    if isinstance(kind, t.MapType):
        return replace(kind, key=_make_nullable(kind.key), value=_make_nullable(kind.value))
    if isinstance(kind, t.MultisetType):
        return t.MapType(key=_make_nullable(kind.element), value=t.IntType())
    if isinstance(kind, t.RowType):
        return replace(kind, fields=drop_not_null(kind.fields))
    return kind


# --- Paimon to Spark ---

Build = Callable[[Any, Any, str], "SparkType"]


def _make_builder(name: str) -> Build:
    return lambda s, _kind, _column: getattr(s, name)()


def _make_versioned_builder(version: str, name: str, *arguments: int) -> Build:
    def build(s: Any, kind: t.DataType, column: str) -> Any:
        if not hasattr(s, name):
            raise Unsupported(f"the type {kind} of column {column!r} in Spark before {version}", hint=LEAVE_OUT)
        return getattr(s, name)(*arguments)

    return build


def _to_spark_array(s: Any, kind: t.ArrayType | t.VectorType, column: str) -> Any:
    return s.ArrayType(to_spark_type(kind.element, column), kind.element.nullable)


def _to_spark_map(s: Any, kind: t.MapType, column: str) -> Any:
    return s.MapType(to_spark_type(kind.key, column), to_spark_type(kind.value, column), kind.value.nullable)


_SPARK: Mapping[type[t.DataType], Build] = {
    t.BooleanType: _make_builder("BooleanType"),
    t.TinyIntType: _make_builder("ByteType"),
    t.SmallIntType: _make_builder("ShortType"),
    t.IntType: _make_builder("IntegerType"),
    t.BigIntType: _make_builder("LongType"),
    t.FloatType: _make_builder("FloatType"),
    t.DoubleType: _make_builder("DoubleType"),
    t.DecimalType: lambda s, kind, _: s.DecimalType(kind.precision, kind.scale),
    t.CharType: _make_builder("StringType"),
    t.VarCharType: _make_builder("StringType"),
    t.BinaryType: _make_builder("BinaryType"),
    t.VarBinaryType: _make_builder("BinaryType"),
    t.BlobType: _make_builder("BinaryType"),
    t.DateType: _make_builder("DateType"),
    t.TimeType: _make_versioned_builder("4.1", "TimeType", TIME_DIGITS),
    t.TimestampType: _make_builder("TimestampNTZType"),
    t.LocalZonedTimestampType: _make_builder("TimestampType"),
    t.VariantType: _make_versioned_builder("4.0", "VariantType"),
    t.ArrayType: _to_spark_array,
    t.VectorType: _to_spark_array,
    t.MapType: _to_spark_map,
    t.MultisetType: lambda s, kind, column: s.MapType(to_spark_type(kind.element, column), s.IntegerType(), False),
    t.RowType: lambda _s, kind, _column: to_spark_schema(kind.fields),
}

# --- Paimon to Arrow for Spark ---


def _to_travel_field(field: t.DataField) -> pa.Field:
    return pa.field(field.name, _to_travel_type(field.type), nullable=field.type.nullable)


def _to_travel_type(kind: t.DataType) -> pa.DataType:
    build = _TRAVEL.get(type(kind))
    return kind.arrow() if build is None else build(kind)


def _make_element(kind: t.DataType) -> pa.Field:
    return pa.field("element", _to_travel_type(kind), nullable=kind.nullable)


def _make_entries(key: t.DataType, value: t.DataType) -> pa.DataType:
    return pa.map_(
        pa.field("key", _to_travel_type(key), nullable=False), pa.field("value", _to_travel_type(value), value.nullable)
    )


_TRAVEL: Mapping[type[t.DataType], Callable[[Any], pa.DataType]] = {
    t.BlobType: lambda _: pa.binary(),
    t.TimeType: lambda _: pa.time64("ns"),
    t.TimestampType: lambda _: pa.timestamp("us"),
    t.LocalZonedTimestampType: lambda _: pa.timestamp("us", tz="UTC"),
    t.VariantType: lambda _: VARIANT,
    t.ArrayType: lambda kind: pa.list_(_make_element(kind.element)),
    t.VectorType: lambda kind: pa.list_(_make_element(kind.element)),
    t.MapType: lambda kind: _make_entries(kind.key, kind.value),
    t.MultisetType: lambda kind: _make_entries(kind.element, t.IntType(nullable=False)),
    t.RowType: lambda kind: pa.struct([_to_travel_field(field) for field in kind.fields]),
}

COMMENT = "comment"
"""The key of a comment in the metadata of a Spark column."""

BINARY = "UTF8_BINARY"
"""The name of the default collation."""


def to_paimon_fields(schema: StructType) -> tuple[t.DataField, ...]:
    """Return the columns of a DataFrame as Paimon fields, which keep NOT NULL and are without ids.

    Raises `Unsupported`: a type that Paimon does not have, such as an interval.
    """
    return tuple(
        t.DataField(0, f.name, to_paimon_type(f.dataType, f.name, nullable=f.nullable), f.metadata.get(COMMENT))
        for f in schema.fields
    )


def to_paimon_type(kind: SparkType, column: str, *, nullable: bool = True) -> t.DataType:
    """Return the Paimon type of a Spark type; `column` is named in errors. Raises as `to_paimon_fields`."""
    name = type(kind).__name__
    build = _PAIMON.get(name)
    if build is None:
        raise Unsupported(
            f"writing the Spark type {kind.simpleString().upper()} of column {column!r}",
            hint=f"cast the column to a type that Paimon has, or drop it; Not a supported type: {kind.simpleString()}",
        )
    made: t.DataType = build(kind, column)
    return made.with_nullable(nullable)


def check_collations(kind: SparkType, column: str = "") -> None:
    """Raise `Unsupported` for text that does not compare by its bytes: tables do not store collations."""
    for field in getattr(kind, "fields", ()):
        check_collations(field.dataType, field.name)
    for part in (getattr(kind, name, None) for name in ("elementType", "keyType", "valueType")):
        if part is not None:
            check_collations(part, column)
    collation = getattr(kind, "collation", BINARY)
    if collation != BINARY:
        raise Unsupported(f"the collation {collation} of the column {column!r}", hint="collate in queries")


def to_arrow_schema(schema: StructType, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the Arrow schema in which tasks receive rows, of all or the given columns.

    Raises as `to_paimon_fields`.
    """
    fields = {f.name: f for f in to_paimon_fields(schema)}
    if len(fields) < len(schema.fields):
        twice = next(name for name in schema.names if schema.names.count(name) > 1)
        raise InvalidArgument(f"the data has several columns {twice!r}; give each column a name of its own")
    return to_travel_schema(fields[name] for name in (fields if columns is None else columns))


def _to_paimon_array(kind: Any, column: str) -> t.DataType:
    return t.ArrayType(element=to_paimon_type(kind.elementType, column, nullable=kind.containsNull))


def _to_paimon_map(kind: Any, column: str) -> t.DataType:
    key = to_paimon_type(kind.keyType, column, nullable=False)
    return t.MapType(key=key, value=to_paimon_type(kind.valueType, column, nullable=kind.valueContainsNull))


def _make_constant(kind: t.DataType) -> Callable[[Any, str], t.DataType]:
    return lambda _kind, _column: kind


_PAIMON: Mapping[str, Callable[[Any, str], t.DataType]] = {
    "BooleanType": _make_constant(t.BooleanType()),
    "ByteType": _make_constant(t.TinyIntType()),
    "ShortType": _make_constant(t.SmallIntType()),
    "IntegerType": _make_constant(t.IntType()),
    "LongType": _make_constant(t.BigIntType()),
    "FloatType": _make_constant(t.FloatType()),
    "DoubleType": _make_constant(t.DoubleType()),
    "DecimalType": lambda kind, _: t.DecimalType(precision=kind.precision, scale=kind.scale),
    "StringType": _make_constant(t.VarCharType()),
    "CharType": lambda kind, _: t.CharType(length=kind.length),
    "VarcharType": lambda kind, _: t.VarCharType(length=kind.length),
    "BinaryType": _make_constant(t.VarBinaryType()),
    "DateType": _make_constant(t.DateType()),
    "TimeType": _make_constant(t.TimeType(precision=3)),
    "TimestampType": _make_constant(t.LocalZonedTimestampType(precision=6)),
    "TimestampNTZType": _make_constant(t.TimestampType(precision=6)),
    "VariantType": _make_constant(t.VariantType()),
    "ArrayType": _to_paimon_array,
    "MapType": _to_paimon_map,
    "StructType": lambda kind, _: t.RowType(fields=to_paimon_fields(kind)),
}
"""Types by class name: some classes are missing in the oldest version of Spark that Morrow supports."""
