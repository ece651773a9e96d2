"""Spark's types as Paimon types: the columns of a table made for a DataFrame, and types that no table can hold.

TIMESTAMP is an instant, TIMESTAMP_LTZ(6) in Paimon, and TIMESTAMP_NTZ is TIMESTAMP(6); CHAR and VARCHAR keep their
lengths; the other types reverse the mapping of `morrow.spark.types.to_spark`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.spark.types.to_spark import travel_schema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

COMMENT = "comment"
"""The key of a column's comment in the metadata of Spark's columns."""


BINARY = "UTF8_BINARY"
"""The collation of text that has none."""


def paimon_fields(schema: StructType) -> tuple[t.DataField, ...]:
    """Returns the columns of a DataFrame as Paimon fields, NOT NULL where they are, without ids yet.

    Raises:
        Unsupported: a type that Paimon does not have, such as an interval.
    """
    return tuple(
        t.DataField(0, f.name, paimon_type(f.dataType, f.name, nullable=f.nullable), f.metadata.get(COMMENT))
        for f in schema.fields
    )


def paimon_type(kind: SparkType, column: str, *, nullable: bool = True) -> t.DataType:
    """Returns the Paimon type of a Spark type; `column` is named in errors. Raises as `paimon_fields`."""
    name = type(kind).__name__
    build = _PAIMON.get(name)
    if build is None:
        raise Unsupported(
            f"writing the Spark type {kind.simpleString().upper()} of column {column!r}",
            hint="cast the column to a type that Paimon has, or drop it",
        )
    made: t.DataType = build(kind, column)
    return made.with_nullable(nullable)


def check_collations(kind: SparkType, column: str = "") -> None:
    """Raises `Unsupported` for a type of text that compares by other rules than its bytes: tables do not keep them."""
    for field in getattr(kind, "fields", ()):
        check_collations(field.dataType, field.name)
    for part in (getattr(kind, name, None) for name in ("elementType", "keyType", "valueType")):
        if part is not None:
            check_collations(part, column)
    collation = getattr(kind, "collation", BINARY)
    if collation != BINARY:
        raise Unsupported(f"the collation {collation} of the column {column!r}", hint="collate in queries")


def arrow_schema(schema: StructType, columns: Sequence[str] | None = None) -> pa.Schema:
    """Returns the Arrow schema in which tasks receive rows, of all columns or these. Raises as `paimon_fields`."""
    fields = {f.name: f for f in paimon_fields(schema)}
    if len(fields) < len(schema.fields):
        twice = next(name for name in schema.names if schema.names.count(name) > 1)
        raise InvalidArgument(f"the data has several columns {twice!r}; give each column a name of its own")
    return travel_schema(fields[name] for name in (fields if columns is None else columns))


def _array(kind: Any, column: str) -> t.DataType:
    return t.ArrayType(element=paimon_type(kind.elementType, column, nullable=kind.containsNull))


def _map(kind: Any, column: str) -> t.DataType:
    key = paimon_type(kind.keyType, column, nullable=False)
    return t.MapType(key=key, value=paimon_type(kind.valueType, column, nullable=kind.valueContainsNull))


def _always(kind: t.DataType) -> Callable[[Any, str], t.DataType]:
    return lambda _kind, _column: kind


_PAIMON: Mapping[str, Callable[[Any, str], t.DataType]] = {
    "BooleanType": _always(t.BooleanType()),
    "ByteType": _always(t.TinyIntType()),
    "ShortType": _always(t.SmallIntType()),
    "IntegerType": _always(t.IntType()),
    "LongType": _always(t.BigIntType()),
    "FloatType": _always(t.FloatType()),
    "DoubleType": _always(t.DoubleType()),
    "DecimalType": lambda kind, _: t.DecimalType(precision=kind.precision, scale=kind.scale),
    "StringType": _always(t.VarCharType()),
    "CharType": lambda kind, _: t.CharType(length=kind.length),
    "VarcharType": lambda kind, _: t.VarCharType(length=kind.length),
    "BinaryType": _always(t.VarBinaryType()),
    "DateType": _always(t.DateType()),
    "TimeType": _always(t.TimeType(precision=3)),
    "TimestampType": _always(t.LocalZonedTimestampType(precision=6)),
    "TimestampNTZType": _always(t.TimestampType(precision=6)),
    "VariantType": _always(t.VariantType()),
    "ArrayType": _array,
    "MapType": _map,
    "StructType": lambda kind, _: t.RowType(fields=paimon_fields(kind)),
}
"""Types by class name: some are newer than the oldest version of Spark that Morrow works with."""
