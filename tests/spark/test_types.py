"""Paimon's types in Spark, and the Arrow types that carry their values. These tests do not run Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from morrow.engine.format import types as t
from morrow.engine.format.types import DataField, parse_atomic, to_arrow_schema
from morrow.spark.types import drop_not_null, to_spark_rows, to_spark_schema, to_travel_schema

MICROS, INSTANT = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
VARIANT = t.VariantType()
VECTOR = t.VectorType(element=t.FloatType(), length=2)
MULTISET = t.MultisetType(element=t.VarCharType())
NESTED = t.RowType(
    fields=(
        DataField(1, "a", t.ArrayType(element=t.TimestampType(precision=9))),
        DataField(2, "m", t.MapType(key=t.VarCharType(nullable=False), value=t.TimeType(nullable=False))),
    )
)


@pytest.mark.parametrize(
    ("kind", "in_spark", "travels"),
    [
        ("BOOLEAN", "boolean", pa.bool_()),
        ("TINYINT", "tinyint", pa.int8()),
        ("SMALLINT", "smallint", pa.int16()),
        ("INT", "int", pa.int32()),
        ("BIGINT", "bigint", pa.int64()),
        ("FLOAT", "float", pa.float32()),
        ("DOUBLE", "double", pa.float64()),
        ("DECIMAL(38, 18)", "decimal(38,18)", pa.decimal128(38, 18)),
        ("CHAR(3)", "string", pa.string()),
        ("VARCHAR(3)", "string", pa.string()),
        ("BINARY(3)", "binary", pa.binary()),
        ("BYTES", "binary", pa.binary()),
        ("BLOB", "binary", pa.binary()),
        ("DATE", "date", pa.date32()),
        ("TIME(3)", "time(3)", pa.time64("ns")),
        ("TIMESTAMP(0)", "timestamp_ntz", MICROS),
        ("TIMESTAMP(9)", "timestamp_ntz", MICROS),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "timestamp", INSTANT),
        (VECTOR, "array<float>", pa.list_(pa.field("element", pa.float32()))),
        (MULTISET, "map<string,int>", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
        (NESTED, "struct<a:array<timestamp_ntz>,m:map<string,time(3)>>", None),
        (VARIANT, "variant", None),
    ],
    ids=str,
)
def test_every_type_has_one_in_spark(kind: str | t.DataType, in_spark: str, travels: pa.DataType | None) -> None:
    fields = [DataField(0, "x", parse_atomic(kind) if isinstance(kind, str) else kind)]
    assert to_spark_schema(fields)["x"].dataType.simpleString() == in_spark
    if travels is not None:
        assert to_travel_schema(fields).field("x").type == travels
    rows = to_spark_rows(to_arrow_schema(fields).empty_table(), to_travel_schema(fields))
    assert rows.schema == to_travel_schema(fields)


def test_a_variant_is_marked_as_one() -> None:
    travels = to_travel_schema([DataField(0, "x", VARIANT)]).field("x").type
    assert travels.field("metadata").metadata == {b"variant": b"true"}


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        (VECTOR, pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)), [[1.0, 2.0], None]),
        (NESTED, None, [{"a": [None], "m": []}, None]),
    ],
    ids=["vector", "row"],
)
def test_nested_values_arrive(kind: t.DataType, column: pa.Array | None, expected: list[object]) -> None:
    rows = pa.table({"x": pa.array(expected, kind.arrow()) if column is None else column})
    assert to_spark_rows(rows, to_travel_schema([DataField(0, "x", kind)]))["x"].to_pylist() == expected


def test_not_null_is_kept_or_left_out_all_through() -> None:
    kind = t.ArrayType(nullable=False, element=t.RowType(nullable=False, fields=(DataField(1, "a", t.IntType(False)),)))
    fields = [DataField(0, "x", kind)]
    for columns, nullable in ((fields, False), (drop_not_null(fields), True)):
        made = to_spark_schema(columns)["x"]
        assert {made.nullable, made.dataType.containsNull, made.dataType.elementType["a"].nullable} == {nullable}


def test_members_of_variants_that_are_null_are_empty_wherever_they_are() -> None:
    """Arrow casts and createDataFrame treat a null below a NOT NULL member as an error."""
    kinds = [VARIANT, t.ArrayType(element=VARIANT), t.RowType(fields=(DataField(1, "a", VARIANT),))]
    kinds.append(t.MapType(key=t.IntType(nullable=False), value=VARIANT))
    value = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
    rows: list[list[object]] = [[value, None], [[value, None], None], [{"a": None}, None], [[(1, None)], None]]
    for kind, values in zip(kinds, rows, strict=True):
        fields = [DataField(0, "x", kind)]
        loose = pa.table({"x": pa.array(values, _loose(kind.arrow()))})
        found = to_spark_rows(loose, to_travel_schema(fields))
        assert found.cast(to_travel_schema(fields))["x"].to_pylist() == values
        assert found["x"].null_count == 1


def _loose(kind: pa.DataType) -> pa.DataType:
    """Make the members of a type nullable, as in Polars."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _loose(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_loose(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _loose(f.type)) for f in kind])
    return kind
