"""Spark SQL through the catalog: MERGE INTO against an upsert of the same rows, and a table of many partitions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
import morrow.spark
from bench import spark as sparks
from bench.compare import Bound, Limit, compare, timed
from bench.tables import HOME, ROW_GROUP
from bench.test_spark import FIXED, QUICK
from bench.test_write import ROUNDS, Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECTION = "Spark: statements"
PARTITIONS = 1_500
ROWS_EACH = 10
MERGE = (
    "MERGE INTO pm.db.copy t USING rows s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    made = sparks.session("local[2]")
    yield made
    made.stop()


@pytest.fixture
def workshop(request: pytest.FixtureRequest) -> Iterator[Workshop]:
    shop = Workshop(HOME / "spark_sql", QUICK if request.config.getoption("--quick") else 1)
    shop.clean()
    yield shop
    shutil.rmtree(shop.folder, ignore_errors=True)


def test_merge_into(benchmark: BenchmarkFixture, spark: SparkSession, workshop: Workshop) -> None:
    """Measure MERGE INTO with rows whose every second key exists in the table."""
    base, rows = workshop.base(), workshop.update(3)
    every_second = pl.int_range(pl.len()) % 2 == 0
    rows = rows.with_columns(pl.when(every_second).then("id").otherwise(pl.col("id") + 1)).unique("id")
    source = workshop.folder / "rows.parquet"
    rows.write_parquet(source, row_group_size=ROW_GROUP)
    original = Path(_filled(workshop, base).path)
    copy = original.with_name("copy")
    morrow.spark.catalog(spark, "pm", warehouse=str(workshop.folder))
    spark.read.parquet(str(source)).createOrReplaceTempView("rows")

    def before() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        morrow.clear_caches()

    def upsert() -> float:
        before()
        return timed(lambda: morrow.spark.upsert(spark.read.parquet(str(source)), copy))()

    compare(
        benchmark,
        SECTION,
        f"MERGE INTO of {rows.height:,} rows into {base.height:,}, first",
        lambda: spark.sql(MERGE),
        baseline=("Morrow's upsert of the same rows", upsert),
        bound=Bound(3),
        before=before,
        rounds=ROUNDS,
    )

    keys = pl.concat([base["id"], rows["id"]]).n_unique()
    assert morrow.open(copy).scan().count() == keys


def _filled(workshop: Workshop, rows: pl.DataFrame) -> morrow.Table:
    table = workshop.table(FIXED)
    table.upsert(rows)
    table.compact(full=True)
    return table


def test_read_of_many_partitions(benchmark: BenchmarkFixture, spark: SparkSession, workshop: Workshop) -> None:
    """Measure `morrow.spark.read` without caches, up to the first query."""
    table = morrow.Catalog(workshop.folder).create_table(
        "db.many", schema={"p": "INT", "id": "BIGINT", "amount": "DOUBLE"}, partition_keys=["p"]
    )
    ids = pl.int_range(PARTITIONS * ROWS_EACH, eager=True)
    table.append(pl.DataFrame({"p": (ids % PARTITIONS).cast(pl.Int32), "id": ids, "amount": ids * 0.5}))
    compare(
        benchmark,
        SECTION,
        f"read() of a table of {PARTITIONS:,} partitions, first",
        lambda: morrow.spark.read(spark, table.path),
        bound=Limit(1000, "ms"),
        before=morrow.clear_caches,
        rounds=ROUNDS,
    )

    assert sparks.count_and_sum(morrow.spark.read(spark, table.path))[0] == len(ids)
