"""Without file listings from Morrow, files are found by name: masks are joined, and folders name partitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import morrow
from morrow.engine.errors import FileMissing, SnapshotExpired
from morrow.spark.jvm import file_scans
from morrow.spark.jvm.file_scans import Scanning
from morrow.spark.reading import choice
from morrow.spark.reading.distributed import to_dataframe
from morrow.spark.reading.read import explain, read
from tests.spark.reading.test_read import keyed, partitioned, plan_of, rows

pytestmark = pytest.mark.usefixtures("joined")


@pytest.fixture
def joined(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(file_scans._SCANNINGS, spark.sparkContext._gateway, Scanning(obstacle="no reason"))
    yield


def test_masks_are_joined(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path)
    frame = read(spark, table.path)
    assert rows(frame) == [(1, "a", 10), (2, "B", None), (3, "c", 30)]
    assert "LeftSemi" in plan_of(frame)
    assert "masks are joined to the scan: no reason" in explain(morrow.open(table.path).scan())


def test_files_that_went_with_their_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    """For an older frame, the error is Spark's and names the file; for a new frame, it is Morrow's."""
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT")
    table.append({"id": [1, 2]})
    scan = morrow.open(table.path).scan()
    old, (name,) = to_dataframe(scan.plan, scan.store, spark), [Path(file.path).name for file in scan.plan.files]
    table.overwrite({"id": [3]})
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC) + timedelta(days=1))
    old.createOrReplaceTempView("old")
    for _ in range(2):
        with pytest.raises(Exception, match=f"FILE_NOT_EXIST.*{name}"):
            old.collect()
        spark.catalog.refreshTable("old")  # otherwise Spark's list would skip missing files
    with pytest.raises(SnapshotExpired, match=f"snapshot 1 was removed .*{name}"):
        to_dataframe(scan.plan, scan.store, spark)
    table.append({"id": [4]})
    scan = morrow.open(table.path).scan()
    next(iter(Path(file.path) for file in scan.plan.files)).unlink()
    with pytest.raises(FileMissing, match="parquet: no such file"):  # real damage, since the snapshot exists
        to_dataframe(scan.plan, scan.store, spark)


@pytest.mark.parametrize("prefix", ["my data-", "_"])
def test_files_that_spark_spells_in_another_way_are_left_to_tasks(
    spark: SparkSession, tmp_path: Path, prefix: str
) -> None:
    """Masks are matched by file names, which Spark encodes as in URLs: ``my%20data-``."""
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", options={"data-file.prefix": prefix})
    table.append({"id": [1, 2]})
    assert rows(read(spark, table.path)) == [(1,), (2,)]
    assert "by tasks: Spark" in explain(table.scan())


def test_partitions_that_spark_cannot_tell_are_scans_of_their_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = partitioned(tmp_path, "STRING", [None, "a", "a=b/ü%"])
    frame = read(spark, table.path)
    assert rows(frame) == [(0, None), (1, "a"), (2, "a=b/ü%")]
    assert plan_of(frame.where("p IS NULL")).count("FileScan") == 1
    monkeypatch.setattr(choice, "MAX_SCANS", 2)
    assert rows(read(spark, table.path)) == rows(frame)
    assert "does not know the values of its 3 partitions" in explain(morrow.open(table.path).scan())
    assert "MapInArrow" not in plan_of(read(spark, table.path, columns=["id"]))


def test_partitions_that_spark_finds_are_one_scan(spark: SparkSession, tmp_path: Path) -> None:
    table = partitioned(tmp_path, "STRING", ["1", "b c%:=", "ü"])
    frame = read(spark, table.path)
    assert rows(frame.where("p > '1'")) == [(1, "b c%:="), (2, "ü")]
    assert plan_of(frame).count("FileScan") == 1
