"""``write.merge-schema``: adds columns of the written rows that the table lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
import morrow.spark
from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import TableMetadata
from morrow.spark.writing.schema_evolution import Evolution, extend_schema
from tests.support.written import new_table, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


def schema_of(table: morrow.Table) -> TableSchema:
    return TableMetadata(*resolve(table.path)).latest_schema()


def test_new_columns_and_members(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, r ROW<a INT>", keys=["id"], options={"bucket": 1})
    table.upsert({"id": [1], "r": [{"a": 1}]})
    data = "SELECT 2L AS ID, named_struct('a', 2, 'b.`', 'x') AS r, 1.5BD AS `new ``c.ü`, '+I' AS kind"
    morrow.spark.write(spark.sql(data), table.path, kinds="kind", merge_schema=True)
    assert schema_of(table).by_name["new `c.ü"].type == t.DecimalType(precision=2, scale=1)
    found = rows(table)
    assert found[0] == (1, {"a": 1, "b.`": None}, None)
    assert (found[1][0], found[1][1], str(found[1][2])) == (2, {"a": 2, "b.`": "x"}, "1.5")
    before = schema_of(table)
    morrow.spark.write(spark.sql("SELECT 3L AS id"), table.path, merge_schema=True)
    assert schema_of(table) == before
    with pytest.raises(Exception, match="extra"):
        morrow.spark.write(spark.sql("SELECT 3L AS id, 1 AS extra"), table.path)
    morrow.spark.sink(table.path, commit_user="q", merge_schema=True)(spark.sql("SELECT 4L AS id, 1 AS extra"), 0)
    assert rows(table)[-1] == (4, None, None, 1)
    morrow.spark.register(spark)
    more = spark.sql("SELECT 5L AS id, 'x' AS more").write.format("morrow").mode("append").option("mergeSchema", True)
    more.save(table.path)
    assert rows(table)[-1] == (5, None, None, None, "x")


TYPES = [
    (t.IntType(), t.BigIntType(), "BIGINT", "BIGINT"),
    (t.BigIntType(), t.IntType(), "BIGINT", "INT"),
    (t.DoubleType(), t.IntType(), "DOUBLE", "INT"),
    (t.DecimalType(precision=5, scale=2), t.DecimalType(precision=9, scale=2), "DECIMAL(9, 2)", "DECIMAL(9, 2)"),
    (t.DecimalType(precision=5, scale=2), t.DecimalType(precision=9, scale=3), None, None),
    (t.VarCharType(length=3), t.VarCharType(), "STRING", "STRING"),
    (t.TimestampType(precision=9), t.TimestampType(precision=6), "TIMESTAMP(9)", "TIMESTAMP(9)"),
    (t.IntType(), t.VarCharType(), None, "STRING"),
    (t.ArrayType(element=t.IntType()), t.ArrayType(element=t.BigIntType()), "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
    (t.BooleanType(), t.DateType(), None, None),
]


@pytest.mark.parametrize(("stored", "data", "wider", "cast"), TYPES, ids=str)
def test_types(tmp_path: Path, stored: t.DataType, data: t.DataType, wider: str | None, cast: str | None) -> None:
    for number, (how, expected) in enumerate(
        ((Evolution(), str(stored)), (Evolution(widens=True), wider), (Evolution(widens=True, casts=True), cast))
    ):
        table = new_table(tmp_path / str(number), f"id BIGINT, c {stored}")
        metadata = TableMetadata(*resolve(table.path))
        columns = [t.DataField(0, "c", data)]
        if expected is None:
            with pytest.raises(Unsupported, match=r"changing 'c' from .* cast the data"):
                extend_schema(metadata, columns, how)
        else:
            extend_schema(metadata, columns, how)
            assert str(schema_of(table).by_name["c"].type) == expected
