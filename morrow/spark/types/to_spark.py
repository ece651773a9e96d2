"""Paimon's types in Spark, and conversion of rows to them.

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

The other types are the same in all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.schema.defaults import default_text_of, default_value
from morrow.engine.values import replace
from morrow.readers.casts.dtypes import conform, list_offsets, null_mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

LEAVE_OUT = "leave the column out by columns=[...]"
TIME_DIGITS = 3
"""Milliseconds of a day, as Paimon stores TIME."""

VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""The metadata by which Spark distinguishes a variant from any other struct of these members."""


def spark_schema(fields: Sequence[t.DataField]) -> StructType:
    """Returns the columns' Spark schema, NOT NULL where they are.

    Raises:
        Unsupported: a column whose type this version of Spark does not have (TIME before 4.1, VARIANT before 4.0).
    """
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(f.name, spark_type(f.type, f.name), f.type.nullable) for f in fields])


def spark_type(kind: t.DataType, column: str) -> SparkType:
    """Returns the Spark type of a Paimon type; errors name `column`. Raises as `spark_schema`."""
    from pyspark.sql import types as s

    build = _SPARK.get(type(kind))
    if build is None:
        raise Unsupported(f"the type {kind} of column {column!r} in Spark", hint=LEAVE_OUT)
    return build(s, kind, column)


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Returns a DataFrame of nullable columns without rows: Spark knows that it is empty, and runs no job for it."""
    from pyspark.sql.functions import lit

    return spark.range(1).limit(0).select(*(lit(None).cast(f.dataType).alias(f.name) for f in schema.fields))


def default_sql(field: t.DataField, kind: SparkType) -> str:
    """Returns the default value of a column, which it has, as an expression in Spark's SQL."""
    scalar = default_value(field.type, str(field.default_value), field.name)
    if pa.types.is_timestamp(scalar.type):
        scalar = scalar.cast(pa.timestamp("us", scalar.type.tz), safe=False)  # the most that Spark can hold
    value = scalar.as_py()
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    text = default_text_of(value, field.name)
    if isinstance(field.type, t.LocalZonedTimestampType):
        text += "Z"  # whatever the session's zone
    text = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{text}' AS {kind.simpleString()})"


def travel_schema(fields: Iterable[t.DataField]) -> pa.Schema:
    """Returns the Arrow schema in which Spark takes rows of `spark_schema`."""
    return pa.schema([_travel_field(field) for field in fields])


def as_spark(rows: Rows, schema: pa.Schema) -> Rows:
    """Converts rows with Morrow's Arrow types to `travel_schema`; unchanged columns are not copied."""
    columns = [_conformed(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return type(rows).from_arrays(columns, schema=schema)


def without_not_null(fields: Iterable[t.DataField]) -> tuple[t.DataField, ...]:
    """Returns the columns, nullable at all levels, as Spark treats the columns of files that it reads itself."""
    return tuple(replace(field, type=_nullable(field.type)) for field in fields)


def with_nullable_members(fields: Iterable[t.DataField]) -> tuple[t.DataField, ...]:
    """Returns the columns, NOT NULL where they are, but with nullable members of ROWs.

    Where such a ROW is null, Arrow has nulls in its members too, which createDataFrame refuses.
    """
    return tuple(replace(f, type=_nullable(f.type).with_nullable(f.type.nullable)) for f in fields)


def _conformed(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_conformed(chunk, kind) for chunk in column.chunks], kind)
    conformed = conform(column, kind)
    return _filled(conformed) if _holds_variants(kind) else conformed


@lru_cache(maxsize=512)
def _holds_variants(kind: pa.DataType) -> bool:
    return kind.equals(VARIANT) or any(_holds_variants(kind.field(i).type) for i in range(kind.num_fields))


def _filled(array: pa.Array) -> pa.Array:
    """Returns the same values with empty members in null variants: createDataFrame refuses nulls there."""
    kind = array.type
    if not _holds_variants(kind):
        return array
    if pa.types.is_map(kind):
        key, item = _filled(array.keys), _filled(array.items)
        return pa.MapArray.from_arrays(list_offsets(array), key, item, type=kind, mask=null_mask(array))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(list_offsets(array), _filled(array.values), type=kind, mask=null_mask(array))
    members = [array.field(i) for i in range(kind.num_fields)]
    members = [pc.fill_null(m, b"") for m in members] if kind.equals(VARIANT) else [_filled(m) for m in members]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=null_mask(array))


@lru_cache(maxsize=512)
def _nullable(kind: t.DataType) -> t.DataType:
    kind = kind.with_nullable(True)
    if isinstance(kind, (t.ArrayType, t.VectorType)):
        return replace(kind, element=_nullable(kind.element))
    if isinstance(kind, t.MapType):
        return replace(kind, key=_nullable(kind.key), value=_nullable(kind.value))
    if isinstance(kind, t.MultisetType):
        return t.MapType(key=_nullable(kind.element), value=t.IntType())
    if isinstance(kind, t.RowType):
        return replace(kind, fields=without_not_null(kind.fields))
    return kind


# --- Paimon to Spark ---

Build = Callable[[Any, Any, str], "SparkType"]


def _named(name: str) -> Build:
    return lambda s, _kind, _column: getattr(s, name)()


def _since(version: str, name: str, *arguments: int) -> Build:
    def build(s: Any, kind: t.DataType, column: str) -> Any:
        if not hasattr(s, name):
            raise Unsupported(f"the type {kind} of column {column!r} in Spark before {version}", hint=LEAVE_OUT)
        return getattr(s, name)(*arguments)

    return build


def _array(s: Any, kind: t.ArrayType | t.VectorType, column: str) -> Any:
    return s.ArrayType(spark_type(kind.element, column), kind.element.nullable)


def _map(s: Any, kind: t.MapType, column: str) -> Any:
    return s.MapType(spark_type(kind.key, column), spark_type(kind.value, column), kind.value.nullable)


_SPARK: Mapping[type[t.DataType], Build] = {
    t.BooleanType: _named("BooleanType"),
    t.TinyIntType: _named("ByteType"),
    t.SmallIntType: _named("ShortType"),
    t.IntType: _named("IntegerType"),
    t.BigIntType: _named("LongType"),
    t.FloatType: _named("FloatType"),
    t.DoubleType: _named("DoubleType"),
    t.DecimalType: lambda s, kind, _: s.DecimalType(kind.precision, kind.scale),
    t.CharType: _named("StringType"),
    t.VarCharType: _named("StringType"),
    t.BinaryType: _named("BinaryType"),
    t.VarBinaryType: _named("BinaryType"),
    t.BlobType: _named("BinaryType"),
    t.DateType: _named("DateType"),
    t.TimeType: _since("4.1", "TimeType", TIME_DIGITS),
    t.TimestampType: _named("TimestampNTZType"),
    t.LocalZonedTimestampType: _named("TimestampType"),
    t.VariantType: _since("4.0", "VariantType"),
    t.ArrayType: _array,
    t.VectorType: _array,
    t.MapType: _map,
    t.MultisetType: lambda s, kind, column: s.MapType(spark_type(kind.element, column), s.IntegerType(), False),
    t.RowType: lambda _s, kind, _column: spark_schema(kind.fields),
}

# --- Paimon to Arrow for Spark ---


def _travel_field(field: t.DataField) -> pa.Field:
    return pa.field(field.name, _travel_type(field.type), nullable=field.type.nullable)


def _travel_type(kind: t.DataType) -> pa.DataType:
    build = _TRAVEL.get(type(kind))
    return kind.arrow() if build is None else build(kind)


def _element(kind: t.DataType) -> pa.Field:
    return pa.field("element", _travel_type(kind), nullable=kind.nullable)


def _entries(key: t.DataType, value: t.DataType) -> pa.DataType:
    return pa.map_(
        pa.field("key", _travel_type(key), nullable=False), pa.field("value", _travel_type(value), value.nullable)
    )


_TRAVEL: Mapping[type[t.DataType], Callable[[Any], pa.DataType]] = {
    t.BlobType: lambda _: pa.binary(),
    t.TimeType: lambda _: pa.time64("ns"),
    t.TimestampType: lambda _: pa.timestamp("us"),
    t.LocalZonedTimestampType: lambda _: pa.timestamp("us", tz="UTC"),
    t.VariantType: lambda _: VARIANT,
    t.ArrayType: lambda kind: pa.list_(_element(kind.element)),
    t.VectorType: lambda kind: pa.list_(_element(kind.element)),
    t.MapType: lambda kind: _entries(kind.key, kind.value),
    t.MultisetType: lambda kind: _entries(kind.element, t.IntType(nullable=False)),
    t.RowType: lambda kind: pa.struct([_travel_field(field) for field in kind.fields]),
}
