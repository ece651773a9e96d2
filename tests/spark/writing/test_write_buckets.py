"""Buckets computed by Spark SQL equal those of the bucket function, row by row."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from morrow.spark.writing.job import build_bucket_sql
from morrow.writers.buckets.routers import FixedRouter
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.target import WriteTarget
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANDOM = Random(11)
DAY = dt.date(1970, 1, 1)
SCHEMA = (
    "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, d DATE, s STRING, x BYTES, m DECIMAL(9,2), o INT DEFAULT 3"
)
KEYS = [
    ["b"], ["i1"], ["i2"], ["i4"], ["i8"], ["d"], ["s"], ["x"],
    ["i8", "i4"], ["s", "x"], ["i8", "s", "d", "x", "b"],
]  # fmt: skip


def integer(bits: int) -> int:
    return RANDOM.choice([0, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), RANDOM.getrandbits(bits - 1)])


def text() -> str:
    return "".join(RANDOM.choice("abü€") for _ in range(RANDOM.choice([0, 1, 3, 6, 7, 8, 9, 15, 16, 17, 60])))


def values() -> tuple[Any, ...]:
    row = (
        RANDOM.random() < 0.5, integer(8), integer(16), integer(32), integer(64),
        DAY + dt.timedelta(RANDOM.randrange(-90_000, 90_000)), text(), text().encode(),
    )  # fmt: skip
    return tuple(None if RANDOM.random() < 0.1 else value for value in row)


def router_of(folder: Path, keys: list[str], **options: object) -> FixedRouter:
    made = {"bucket": 7, "bucket-key": ",".join(keys), **options}
    table = new_table(
        folder, SCHEMA, options=made, name="_".join([*keys, *options]).replace("-", "_").replace(".", "_")
    )
    return FixedRouter(WriteTarget.of(table._metadata))


def test_buckets_are_those_of_the_bucket_function(spark: SparkSession, tmp_path: Path) -> None:
    rows = [values() for _ in range(600)]
    data = spark.createDataFrame(
        rows, "b BOOLEAN, i1 TINYINT, i2 SMALLINT, i4 INT, i8 BIGINT, d DATE, s STRING, x BINARY"
    )
    names = {name: name for name in data.columns}
    routers = [router_of(tmp_path, keys) for keys in KEYS]
    sql = [build_bucket_sql(router, names, data.schema) for router in routers]
    assert None not in sql
    found = data.selectExpr(*(f"{text} AS k{number}" for number, text in enumerate(sql))).collect()
    given = new_table(tmp_path, SCHEMA, name="given")
    frame = pl.concat(convert_rows(WriteTarget.of(given._metadata), data.toArrow(), partial=True))
    for number, router in enumerate(routers):
        assert [row[number] for row in found] == list(router.buckets(frame)), KEYS[number]


@pytest.mark.parametrize(
    ("keys", "options"),
    [(["m"], {}), (["o"], {}), (["i8", "m"], {}), (["i8"], {"bucket-function.type": "mod"})],
)
def test_what_spark_cannot_work_out(
    spark: SparkSession, tmp_path: Path, keys: list[str], options: dict[str, object]
) -> None:
    """Decimals, columns with default values, and other bucket functions are not computed by SQL."""
    schema = spark.range(0).selectExpr("id AS i8", "CAST(id AS INT) AS o", "CAST(id AS DECIMAL(9,2)) AS m").schema
    assert build_bucket_sql(router_of(tmp_path, keys, **options), {name: name for name in schema.names}, schema) is None
