"""``verify="pages"`` in Spark: both Spark's own scan and Morrow's tasks check page checksums."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import morrow
import morrow.spark
from tests.readers.files.test_page_checksums import ROWS, append_table, files, flip


def damaged(folder: Path) -> str:
    table = append_table(folder)
    flip(files(table)[0], "score")
    return table.path


def test_the_scan_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = damaged(tmp_path)
    rows = morrow.spark.read(spark, path, verify="pages")
    assert rows.select("id").count() == ROWS
    assert rows.agg({"id": "sum"}).collect()[0][0] == ROWS * (ROWS - 1) // 2
    with pytest.raises(Exception, match="CRC checksum verification failed"):
        rows.agg({"score": "sum"}).collect()


def test_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = morrow.open(damaged(tmp_path))
    table.alter.set_type("id", "DECIMAL(20, 0)")  # tasks handle casts
    rows = morrow.spark.read(spark, table.path, columns=["id", "score"], verify="pages")
    assert "by tasks" in morrow.spark.explain(morrow.open(table.path, verify="pages").scan())
    with pytest.raises(Exception, match="column 'score' in row group 0: the checksum of a page is wrong"):
        rows.collect()
