"""Manifests of large tables are decoded by tasks, and the plan equals that of the driver alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing
from morrow.engine.plan.manifests import list_manifests
from morrow.engine.plan.metadata import TableMetadata
from morrow.scans.table_scan import plan_with_outlines
from morrow.spark.job.wire import StoreAccess
from morrow.spark.reading import manifests
from morrow.spark.reading.manifests import ManifestTasks
from morrow.spark.reading.read import explain, read
from tests.support.spark_rows import assert_reads_alike
from tests.support.table_factory import TableFactory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "is_local", lambda _spark: False)
    monkeypatch.setattr(manifests, "MIN_ENTRIES", 0)
    monkeypatch.setattr(manifests, "MIN_TASK_BYTES", 1)
    morrow.clear_caches()


def keyed(path: Path) -> TableFactory:
    """Make a table with two partitions, several manifests, and a deleted file."""
    table = TableFactory(path / "t", [("p", "INT"), ("id", "INT"), ("v", "STRING")], ["p", "id"], ["p"])
    for number in range(6):
        rows = pa.table({"id": [number, number + 1], "v": [f"old {number}", f"new {number}"]})
        file = table.write_file(rows, partition={"p": number % 2})
    table.commit(entries_per_manifest=2)
    table.delete_file(file)
    table.commit()
    return table


def test_the_plan_is_that_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    path = keyed(tmp_path).path
    for text in (None, "p = 1", "id = 3", "v = 'old 2'", "id + 1 = 3"):
        tasks = ManifestTasks(spark)
        by_tasks = plan_with_outlines(morrow.open(path).scan(filter=text), tasks).plan
        assert len(tasks.told) == 1
        assert "by 4 tasks" in tasks.told[0]
        morrow.clear_caches()
        here = morrow.open(path).scan(filter=text).plan
        assert (by_tasks, by_tasks.steps) == (here, here.steps)
        morrow.clear_caches()


def test_rows_and_hidden_columns_are_read_by_such_a_plan(spark: SparkSession, tmp_path: Path) -> None:
    path = keyed(tmp_path).path
    assert_reads_alike(read(spark, path), morrow.open(path).scan())
    assert read(spark, path, ["id", "__paimon_bucket"], "id = 1").collect() == [(1, 0), (1, 0)]


def test_explain_says_who_decodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = morrow.open(keyed(tmp_path).path).scan()
    assert explain(scan).endswith("manifests: 7 entries of 4 manifests by 4 tasks")

    for where, why in (("is_local", "tasks would run on its own cores"), ("is_connect", "a client of Spark Connect")):
        morrow.clear_caches()
        monkeypatch.setattr(manifests, where, lambda _spark: True)
        assert f"manifests: 7 entries of 4 manifests by the driver: {why}" in explain(morrow.open(scan.title).scan())


def test_what_tasks_cannot_read_the_driver_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keyed(tmp_path).path
    nowhere = StoreAccess(str(tmp_path / "nowhere"), {})
    monkeypatch.setattr(manifests.StoreAccess, "of", lambda *_given: nowhere)
    tasks = ManifestTasks(spark)
    plan = plan_with_outlines(morrow.open(path).scan(), tasks).plan
    assert "by the driver: tasks could not" in tasks.told[0]
    assert len(plan.files) == 5


def test_of_damaged_manifests_the_error_is_the_drivers(spark: SparkSession, tmp_path: Path) -> None:
    scan = morrow.open(keyed(tmp_path).path).scan()
    assert scan.request.snapshot is not None
    metadata = TableMetadata(scan.store, scan.title)
    manifest = Path(metadata.paths.manifest(list_manifests(metadata, scan.request.snapshot)["_FILE_NAME"][1]))
    manifest.write_bytes(manifest.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptFile, match=manifest.name):
        read(spark, scan.title)
    manifest.unlink()
    with pytest.raises(FileMissing, match=manifest.name):
        read(spark, scan.title)
