"""A merge engine from another package on driver and executors: Spark jobs write, compact and read with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
import morrow.spark
from tests.support import other_package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[morrow.Table]:
    package = str(other_package.build(tmp_path))
    monkeypatch.syspath_prepend(package)
    spark.sparkContext.addPyFile(package)
    warehouse = morrow.Catalog(str(tmp_path / "warehouse"))
    yield warehouse.create_table(
        "db.t",
        schema="id BIGINT NOT NULL, at INT, v STRING",
        primary_keys="id",
        options={"bucket": 2, "merge-engine": "oldest", "oldest.field": "at"},
    )
    morrow.clear_caches()


def test_the_oldest_version_stays(spark: SparkSession, table: morrow.Table) -> None:
    morrow.spark.upsert(spark.createDataFrame([(1, 5, "a"), (2, 5, "b")], "id BIGINT, at INT, v STRING"), table.path)
    morrow.spark.upsert(
        spark.createDataFrame([(1, 4, "older"), (2, 6, "newer")], "id BIGINT, at INT, v STRING"), table.path
    )
    expected = [(1, 4, "older"), (2, 5, "b")]

    assert sorted(map(tuple, morrow.spark.read(spark, table.path).collect())) == expected
    morrow.spark.compact(spark, table.path, full=True)
    assert sorted(map(tuple, morrow.spark.read(spark, table.path).collect())) == expected
    assert sorted(table.scan().to_polars().rows()) == expected
