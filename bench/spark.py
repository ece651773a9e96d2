"""Shared parts of the measurements of Spark: the session, the queries, and the plain scan as the limit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import morrow.spark
from bench.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": 2,
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Spark settings. The peer has the same in `bench/peer_worker.py`."""


SPARK_KINDS = {"TIMESTAMP(6)": "TIMESTAMP_NTZ"}
"""Types that have another name in Spark."""


def session(master: str, **settings: object) -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = morrow.spark.session("Morrow", master, **{**SETTINGS, **settings})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def full(frame: DataFrame) -> None:
    """Read every column of every row into Spark's noop sink."""
    frame.write.format("noop").mode("overwrite").save()


def count_and_sum(frame: DataFrame) -> tuple[int, float]:
    ((rows, total),) = frame.selectExpr("count(*)", "sum(amount)").collect()
    return rows, total


QUERIES: dict[str, Callable[[DataFrame], object]] = {"full": full, "sum": count_and_sum}
"""Name of a query, also used by the peers -> the query."""


def plain(spark: SparkSession, table: Table) -> DataFrame:
    """Read the rows of all files by Spark's own reader, without merging and with deleted rows.

    The schema is given to Spark, so that it need not read it from a file, and only the scan remains.
    """
    return spark.read.schema(columns(table)).parquet(*table.files)


def columns(table: Table) -> str:
    """Return the columns of a table as a schema in Spark's text form."""
    fields = json.loads(Path(table.path, "schema", "schema-0").read_text())["fields"]
    kinds = {field["name"]: field["type"].removesuffix(" NOT NULL") for field in fields}
    return ", ".join(f"{name} {SPARK_KINDS.get(kind, kind)}" for name, kind in kinds.items())
