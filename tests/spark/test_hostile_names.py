"""Columns with hostile names in Spark: written, scanned with masks, filtered, deleted, used as keys and partitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import morrow
from tests.support.hostile_names import NAMES
from tests.support.hostile_names import quoted as in_sql
from tests.support.written import new_table, renamed_by_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = list({name.lower(): name for name in NAMES}.values())


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_all_names_in_one_table(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), False), *(pa.field(name, pa.int32()) for name in ALL)])
    options = {"bucket": "2", "write-only": "true"}
    table = morrow.Catalog(str(tmp_path)).create_table("db.t", schema=schema, primary_keys=["id"], options=options)
    expected = [tuple(i * number for number in range(1, len(ALL) + 2)) for i in range(4)]
    types = ", ".join(["id INT", *(f"{quoted(name)} INT" for name in ALL)])
    morrow.spark.write(spark.createDataFrame([(i, *[0] * len(ALL)) for i in range(4)], types), table.path)
    morrow.spark.upsert(spark.createDataFrame(expected, types), table.path)
    found = morrow.spark.read(spark, table.path)
    assert sorted(map(tuple, found.collect())) == expected
    assert found.where(f"{quoted('*')} = 4 AND {quoted('^x$')} = 6").select(quoted("a`b")).collect() == [
        (2 * (ALL.index("a`b") + 2),)
    ]
    filtered = morrow.spark.read(spark, table.path, columns=["id"], filter=f"{in_sql(ALL[-1])} = {len(ALL) + 1}")
    assert filtered.collect() == [(1,)]


@pytest.mark.parametrize("name", ["^x$", "a`b.c"])
def test_a_key_and_a_partition(spark: SparkSession, tmp_path: Path, name: str) -> None:
    part = name + "2"
    schema = pa.schema([pa.field(name, pa.int32(), False), pa.field(part, pa.string(), False), ("v", pa.int32())])
    table = morrow.Catalog(str(tmp_path)).create_table(
        "db.t", schema=schema, primary_keys=[name, part], partition_keys=[part], options={"bucket": "2"}
    )
    types = f"{quoted(name)} INT, {quoted(part)} STRING, v INT"
    rows = spark.createDataFrame([(1, "p", 1), (2, "p", 2), (1, "q", 3)], types)
    morrow.spark.upsert(rows, table.path)
    morrow.spark.delete(rows.where("v = 3"), table.path)
    assert sorted(map(tuple, morrow.spark.read(spark, table.path).collect())) == [(1, "p", 1), (2, "p", 2)]


def test_columns_that_differ_in_case_only(spark: SparkSession, tmp_path: Path) -> None:
    table = renamed_by_others(new_table(tmp_path, "id INT, a INT, other INT"), {"other": "A"})
    table.append(pa.table({"id": [1, 2], "a": [1, 2], "A": [10, 20]}))
    assert morrow.spark.read(spark, table.path, columns=["A"], filter='"A" = 20').collect() == [(20,)]
    with pytest.raises(Exception, match="AMBIGUOUS_REFERENCE"):
        morrow.spark.read(spark, table.path).select("A")
    spark.conf.set("spark.sql.caseSensitive", True)
    try:
        assert morrow.spark.read(spark, table.path).where("A = 20").select("A", "a").collect() == [(20, 2)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
