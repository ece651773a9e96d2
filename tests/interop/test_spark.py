"""Tables written with Spark through Morrow, read by Java Paimon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from morrow.spark import delete, upsert, write
from tests.interop.jvm import JavaPaimon
from tests.spark.conftest import spark  # noqa: F401 - the fixture
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "id BIGINT, dt STRING, v INT"
KEYED = {
    "partitions": (["dt"], {"bucket": 2}),
    "vectors": ([], {"bucket": 2, "deletion-vectors.enabled": True}),
    "dynamic": (["dt"], {"dynamic-bucket.target-row-num": 30}),
    "lookup": ([], {"bucket": 2, "changelog-producer": "lookup", "merge-engine": "partial-update"}),
}


@pytest.mark.parametrize("name", KEYED)
def test_upserts_and_deletes(java: JavaPaimon, spark: SparkSession, tmp_path: Path, name: str) -> None:  # noqa: F811
    by, options = KEYED[name]
    table = new_table(tmp_path, SCHEMA, keys=["id", "dt"], by=by, options=options)
    for low in (0, 60):
        upsert(spark.range(low, low + 100).selectExpr("id", "substr('abc', id % 3 + 1, 1) AS dt", "1 AS v"), table.path)
    if name != "lookup":
        delete("id >= 140", table.path, spark=spark)
    assert table.scan().count() == (160 if name == "lookup" else 140)
    assert_java_reads_alike(java, table)


def test_appends_and_overwrites(java: JavaPaimon, spark: SparkSession, tmp_path: Path) -> None:  # noqa: F811
    table = new_table(tmp_path, SCHEMA, by=["dt"])
    rows = spark.range(90).selectExpr("id", "IF(id % 3 = 0, NULL, substr('abc', id % 3 + 1, 1)) AS dt", "1 AS v")
    write(rows, table.path)
    write(rows.where("dt = 'b'").selectExpr("id", "dt", "2 AS v"), table.path, "overwrite")
    assert table.scan(filter="v = 2").count() == 30
    assert_java_reads_alike(java, table)


def assert_java_reads_alike(java: JavaPaimon, table: morrow.Table) -> None:
    scan = table.scan()
    assert_same_rows(java.read(Path(table.path)), rows_of(scan.to_arrow(), scan.plan.fields), scan.plan.fields)
