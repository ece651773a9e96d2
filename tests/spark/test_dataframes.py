"""`Scan.to_spark`: rows that fit the driver go through Arrow to a real Spark and back, with all types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.types import DataField, parse_atomic, to_arrow_schema
from morrow.spark import dataframes
from morrow.spark.dataframes import to_spark
from tests.support.table_factory import TableFactory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX = 2**63 - 1
LONG_AGO, LATER = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
VARIANT_5 = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
ROW = t.RowType(fields=(DataField(1, "a", t.IntType(nullable=False)), DataField(2, "b", t.VarCharType())))

VALUES: dict[str, tuple[str | t.DataType, str, list[Any]]] = {
    "BOOLEAN": ("BOOLEAN", "boolean", [True, False]),
    "TINYINT": ("TINYINT", "tinyint", [-128, 127]),
    "SMALLINT": ("SMALLINT", "smallint", [-(2**15), 2**15 - 1]),
    "INT": ("INT", "int", [-(2**31), 2**31 - 1]),
    "BIGINT": ("BIGINT", "bigint", [-MAX - 1, MAX]),
    "FLOAT": ("FLOAT", "float", [float("inf"), -0.0]),
    "DOUBLE": ("DOUBLE", "double", [5e-324, -float("inf")]),
    "DECIMAL": ("DECIMAL(38, 18)", "decimal(38,18)", [Decimal("9" * 20 + "." + "9" * 18), Decimal("-1E-18")]),
    "STRING": ("STRING", "string", ["", "ü\0x"]),
    "BYTES": ("BYTES", "binary", [b"", b"\x00\xff"]),
    "DATE": ("DATE", "date", [LONG_AGO.date(), LATER.date()]),
    "TIME": ("TIME(3)", "time(3)", [dt.time(0), dt.time(23, 59, 59, 999_000)]),
    "TIMESTAMP": ("TIMESTAMP(6)", "timestamp_ntz", [LONG_AGO, LATER]),
    # Both instants show the same time in New York, the session's time zone.
    "LTZ": (
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "timestamp",
        [dt.datetime(2024, 11, 3, hour, 30, tzinfo=dt.UTC) for hour in (5, 6)],
    ),
    "ARRAY": (t.ArrayType(element=t.IntType()), "array<int>", [[], [1, None]]),
    "VECTOR": (t.VectorType(element=t.FloatType(), length=2), "array<float>", [[1.0, 2.0], [0.5, -1.0]]),
    "MAP": (
        t.MapType(key=t.VarCharType(nullable=False), value=t.IntType()),
        "map<string,int>",
        [[], [("a", 1), ("b", None)]],
    ),
    "MULTISET": (t.MultisetType(element=t.VarCharType()), "map<string,int>", [[], [("a", 2)]]),
    "ROW": (ROW, "struct<a:int,b:string>", [{"a": 1, "b": None}, {"a": 2, "b": "x"}]),
    "VARIANT": (t.VariantType(), "variant", [VARIANT_5, VARIANT_5]),
}


def test_every_type_and_its_extremes_arrive(spark: SparkSession) -> None:
    fields = [
        DataField(i, name, parse_atomic(kind) if isinstance(kind, str) else kind)
        for i, (name, (kind, _, _)) in enumerate(VALUES.items())
    ]
    columns = [[*values, None] for _, _, values in VALUES.values()]
    arrays = [pa.array(values, field.type.arrow()) for values, field in zip(columns, fields)]
    frame = to_spark([pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(fields))], fields, spark, where="t")

    assert [field.dataType.simpleString() for field in frame.schema] == [name for _, name, _ in VALUES.values()]
    found = [[plain(value) for value in column] for column in zip(*frame.drop("LTZ").collect(), strict=True)]
    by_name = dict(zip(VALUES, columns))
    instants = by_name.pop("LTZ")
    assert dict(zip(by_name, found)) == by_name
    # Python's datetimes lack a time zone here, so compare seconds since 1970.
    seconds = [row[0] for row in frame.selectExpr("unix_seconds(LTZ)").collect()]
    assert seconds == [None if value is None else int(value.timestamp()) for value in instants]


def test_batches_without_rows_end_nothing(spark: SparkSession) -> None:
    fields = [DataField(0, "id", t.IntType()), DataField(1, "ids", t.ArrayType(element=t.IntType()))]
    full = pa.RecordBatch.from_arrays(
        [pa.array([1], pa.int32()), pa.array([[1]], to_arrow_schema(fields).field(1).type)],
        schema=to_arrow_schema(fields),
    )
    empty = full.slice(1)
    frame = to_spark([empty, full, empty, empty, full, empty], fields, spark, where="t")
    assert list(map(tuple, frame.collect())) == [(1, [1]), (1, [1])]


def test_no_rows_at_all_have_every_type(spark: SparkSession) -> None:
    kinds = [parse_atomic(kind) if isinstance(kind, str) else kind for kind, _, _ in VALUES.values()]
    fields = [DataField(i, name, kind) for i, (name, kind) in enumerate(zip(VALUES, kinds, strict=True))]
    assert to_spark([], fields, spark, where="t").collect() == []


def plain(value: Any) -> Any:
    """Convert a value of PySpark to Arrow's Python value."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "metadata"):
        return {"value": bytes(value.value), "metadata": bytes(value.metadata)}
    return value.asDict() if hasattr(value, "asDict") else value


def test_what_is_handed_over_can_be_written_and_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """In the other direction, rows of Spark become Arrow data with the table's types."""
    kinds = [
        ("id", "INT"),
        ("at", "TIMESTAMP(6)"),
        ("seen", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("d", "DECIMAL(9, 2)"),
    ]
    table = TableFactory(tmp_path / "t", kinds, ["id"])
    moment = dt.datetime(2024, 3, 10, 2, 30, 0, 123_456)
    rows = {"id": [1], "at": [moment], "seen": [moment.replace(tzinfo=dt.UTC)], "d": [Decimal("-0.05")]}
    scan = morrow.open(table.path).scan()
    table.write_file(pa.table(rows, scan.schema))
    table.commit()
    scan = morrow.open(table.path).scan()
    frame = scan.to_spark(spark)
    assert not frame.schema["id"].nullable
    assert frame.toArrow().cast(scan.schema).equals(scan.to_arrow())


def test_system_tables_too(spark: SparkSession, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")])
    table.write_file(pa.table({"id": [1, 2]}))
    table.commit()
    opened = morrow.open(table.path)
    assert opened.system("snapshots", ["total_record_count"]).to_spark(spark).collect() == [(2,)]
    assert opened.system("audit_log").to_spark(spark).collect() == [("+I", 1), ("+I", 2)]


def test_changes_too(spark: SparkSession, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")])
    table.write_file(pa.table({"id": [1, 2]}))
    table.commit()
    assert morrow.open(table.path).changes().to_spark(spark).collect() == [("+I", 1), ("+I", 2)]


def test_too_much_is_refused_with_the_way_to_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataframes, "MAX_BYTES", 10)
    table = TableFactory(tmp_path / "t", [("id", "INT")])
    table.write_file(pa.table({"id": range(100)}))
    table.commit()
    with pytest.raises(InvalidArgument, match=r"\d+ rows and more .* morrow\.spark\.read"):
        morrow.open(table.path).scan().to_spark(spark)
