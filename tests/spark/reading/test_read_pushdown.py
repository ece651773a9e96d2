"""Query plans that Spark executes: columns and conditions reach the files, which are scanned in place."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException

import morrow
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.spark.job import sections
from morrow.spark.job.tasks import Work
from morrow.spark.reading import choice, task_rows
from morrow.spark.reading.read import explain, read
from tests.spark.reading.test_native import settings
from tests.support.s3_server import BUCKET, client_of, s3_server
from tests.support.spark_rows import handed_over
from tests.support.table_factory import TableFactory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = [("id", "INT"), ("v", "STRING"), ("n", "BIGINT")]
ROW_INDEX = "_tmp_metadata_row_index:bigint"
"""The column that matches rows with their bits in the mask."""


def updated(path: Path, engine: str = "deduplicate", format: str = "parquet") -> TableFactory:
    """Make a table with two versions of key 2, and one version of 1 and 3."""
    table = TableFactory(path / "t", FIELDS, ["id"], options={"merge-engine": engine})
    table.write_file(pa.table({"id": [1, 2], "v": ["a", "b"], "n": [10, 20]}), format=format)
    table.write_file(pa.table({"id": [2, 3], "v": ["B", "c"], "n": [21, 30]}), format=format)
    table.commit()
    return table


def scans(frame: DataFrame) -> set[tuple[frozenset[str], str]]:
    """List the conditions and columns of the file scans that are executed."""
    frame.collect()
    text = str(frame._jdf.queryExecution().executedPlan().toString())
    found = re.findall(r"FileScan parquet .*?PushedFilters: \[(.*?)\], ReadSchema: struct<(.*?)>", text)
    return {(frozenset(re.split(r", (?=[A-Z])", filters)), columns) for filters, columns in found}


def test_columns_and_conditions_reach_masked_files(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, updated(tmp_path).path).where("n > 20 AND v IS NOT NULL").select("id")
    pushed = frozenset(["IsNotNull(n)", "IsNotNull(v)", "GreaterThan(n,20)"])
    assert scans(frame) == {(pushed, f"id:int,v:string,n:bigint,{ROW_INDEX}")}
    assert sorted(frame.collect()) == [(2,), (3,)]


def test_sql_on_a_view_reaches_them_too(spark: SparkSession, tmp_path: Path) -> None:
    read(spark, updated(tmp_path).path).createOrReplaceTempView("pushed")
    try:
        frame = spark.sql("SELECT sum(n) AS total FROM pushed WHERE id IN (2, 3)")
        assert scans(frame) == {(frozenset(["In(id, [2,3])"]), f"id:int,n:bigint,{ROW_INDEX}")}
        assert frame.collect() == [(51,)]
    finally:
        spark.catalog.dropTempView("pushed")


def test_a_condition_never_sees_the_older_version(spark: SparkSession, tmp_path: Path) -> None:
    """The files contain 20, but the table does not."""
    for engine in ("deduplicate", "partial-update"):
        assert read(spark, updated(tmp_path / engine, engine).path).where("n = 20").collect() == []


@pytest.mark.parametrize(
    ("engine", "here"), [("partial-update", True), ("partial-update", False), ("deduplicate", False)]
)
def test_columns_reach_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, here: bool
) -> None:
    """Tasks get the columns that a query needs, possibly none; Spark then applies the conditions.

    `here`: the driver merges instead, as in local mode.
    """
    monkeypatch.setattr(choice, "ORC", "")  # stands for any format that Spark does not scan
    table = updated(tmp_path, engine, format="parquet" if engine == "partial-update" else "orc")
    made: list[tuple[str, ...]] = []
    merge_on_driver = task_rows.merge_on_driver

    def run_sections(work: Work, plan: ScanPlan, *more: Any) -> DataFrame:
        made.append(plan.columns)
        return sections.run_sections(work, plan, *more)

    def merged(plan: ScanPlan, *more: Any) -> DataFrame | None:
        found = merge_on_driver(plan, *more) if here else None
        made.extend([] if found is None else [plan.columns])
        return found

    monkeypatch.setattr(task_rows, "run_sections", run_sections)
    monkeypatch.setattr(task_rows, "merge_on_driver", merged)
    frame = read(spark, table.path)
    assert made == []
    assert sorted(frame.where("n > 20").select("v").collect()) == [("B",), ("c",)]
    assert frame.count() == 3
    assert frame.selectExpr("sum(n)", "count(*)").collect() == [(61, 3)]
    assert frame.alias("a").join(frame.alias("b"), "id").where("b.n = 21").select("a.v").collect() == [("B",)]
    assert sorted(made) == [("id",), ("id", "n"), ("id", "v"), ("n",), ("v", "n")]
    assert sorted(read(spark, table.path, columns=["v"], filter="n > 20").collect()) == [("B",), ("c",)]


CONDITIONS = """
d = 'NaN'; d > 1.5; d = 0.0; d <= -0.0; NOT d < 1.5; d IN (0.0, 'NaN'); d IS NULL; NOT d IN (1.5, NULL); v <=> NULL
v LIKE 'a%'; v = ''; v > '\U0001f600'; NOT v = 'b'; v IN ('a', NULL); p = 'x%y'; p > 'b' AND d > 0; p = 'b' OR id = 1
id BETWEEN 2 AND 5; t > '2020-01-01 00:00:00.000001'; day < '1500-01-01'; m > 1.04; b = X'00'; length(v) > 1 AND id <> 3
"""


def test_conditions_reach_tasks_and_keep_what_spark_keeps(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN is above all numbers, -0.0 equals 0.0, and null matches nothing, as in Spark for rows handed to it."""
    columns = "id INT, p STRING, v STRING, d DOUBLE, t TIMESTAMP(6), day DATE, m DECIMAL(9, 2), b BYTES"
    options = {"bucket": "1", "file.format": "orc", "merge-engine": "partial-update", "write-only": "true"}
    table = morrow.Catalog(tmp_path).create_table(
        "db.t", schema=columns, primary_keys=["id", "p"], partition_keys=["p"], options=options
    )
    odd = [
        {"id": 1, "p": "a", "v": "a", "d": 0.0, "m": Decimal("1.04"), "b": b"\0"},
        {"id": 2, "p": "x%y", "v": "ab", "d": -0.0, "t": dt.datetime(2020, 1, 1, microsecond=1)},
        {"id": 3, "p": "x%y", "v": "", "d": float("nan"), "day": dt.date(1400, 2, 3)},
        {"id": 4, "p": "b", "v": "😀a", "d": 1.5, "t": dt.datetime(2020, 1, 1, microsecond=2)},
        {"id": 5, "p": "b", "d": float("inf"), "m": Decimal("1.05"), "day": dt.date(2024, 2, 29)},
        {"id": 6, "p": "ü", "v": "b"},
    ]
    table.upsert(pa.Table.from_pylist(odd, table.schema))
    table.upsert(pa.Table.from_pylist([{**row, "v": None} for row in odd[:4]], table.schema))
    told: list[tuple[str, int]] = []

    def run_sections(work: Work, plan: ScanPlan, chosen: Any, *more: Any) -> DataFrame:
        told.append((str(plan.filter), len(chosen)))
        return sections.run_sections(work, plan, chosen, *more)

    monkeypatch.setattr(task_rows, "run_sections", run_sections)
    frame, given = read(spark, table.path), handed_over(table.scan(), spark)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        conditions = re.split("; |\n", CONDITIONS.strip())
        numbered = [(number, each) for number in range(len(conditions)) for each in (frame, given)]
        parts = [each.where(conditions[number]).selectExpr(f"{number} AS n", "id") for number, each in numbered]
        found, expected = (
            reduce(lambda left, right: left.unionAll(right), parts[side::2]).collect() for side in (0, 1)
        )
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert sorted(found) == sorted(expected)
    assert {n for n, _ in found} == {*range(len(conditions))} - {7}
    assert {sections for text, sections in told if "p = 'x%y'" in text} == {1}
    assert sum(bool(text) for text, _ in told) > len(conditions) // 2


def upload(folder: Path, options: dict[str, str]) -> str:
    """Upload the files of a table to a bucket, and return the table's URL."""
    client = client_of(options)
    for file in folder.rglob("*"):
        if file.is_file():
            client.put_object(Bucket=BUCKET, Key=f"db.db/t/{file.relative_to(folder)}", Body=file.read_bytes())
    return f"s3://{BUCKET}/db.db/t"


def test_tables_in_an_object_store_that_spark_does_not_know_are_read_by_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = updated(tmp_path, "partial-update")
    with s3_server() as options:
        url = upload(table.path, options)
        frame = read(spark, url, columns=["id", "n"], filter="id > 1", storage_options=options)
        assert sorted(frame.collect()) == [(2, 21), (3, 30)]
        text = explain(morrow.open(url, storage_options=options).scan())
        assert "by tasks: the files lie in an object store, and Spark has no file system for s3://" in text
        assert read(spark, url + "$snapshots", ["snapshot_id"], storage_options=options).collect() == [(1,)]
        # Query plans contain no secrets.
        assert "secret" not in str(frame._jdf.queryExecution().toString())


def mounted(folder: Path) -> dict[str, str]:
    """Return settings that mount the folder at s3a://lake/db.db/t with a file system of Hadoop."""
    return {
        "fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.s3a.impl.disable.cache": "true",
        f"fs.viewfs.mounttable.{BUCKET}.link./db.db/t": folder.as_uri(),
    }


def test_where_spark_has_a_file_system_for_the_store_it_scans_there(spark: SparkSession, tmp_path: Path) -> None:
    """Metadata and masks are read from the server by Morrow's options, rows from the place in Spark's settings."""
    table = updated(tmp_path)
    with s3_server() as options, settings(spark, mounted(table.path)):
        url = upload(table.path, options)
        frame = read(spark, url, storage_options=options)
        assert scans(frame.where("n > 20"))
        assert sorted(frame.select("id", "v").collect()) == [(1, "a"), (2, "B"), (3, "c")]
        assert {file.partition("bucket-0")[0] for file in frame.inputFiles()} == {f"s3a://{BUCKET}/db.db/t/"}
        text = str(frame._jdf.queryExecution().toString())
        assert not re.search("MorrowTasks|secret|user", text)
        assert "masks are a filter of the scan" in explain(morrow.open(url, storage_options=options).scan())
        shutil.rmtree(table.path / "snapshot")
        assert len(frame.where("id > 1").collect()) == 2  # a tag might keep the files
        shutil.rmtree(table.path / "bucket-0")
        with pytest.raises(IllegalArgumentException, match=r"SnapshotExpired: .* was removed since this DataFrame"):
            frame.where("id > 2").collect()


def test_files_of_another_store_by_that_name_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    table = updated(tmp_path)
    other = tmp_path / "other"
    shutil.copytree(table.path, other)
    for file in other.rglob("*.parquet"):
        file.write_bytes(b"PAR1")
    with s3_server() as options:
        url = upload(table.path, options)
        for folder, said in ((other, "finds another file at"), (tmp_path / "none", "does not reach")):
            with settings(spark, mounted(folder)):
                assert sorted(read(spark, url, ["id"], storage_options=options).collect()) == [(1,), (2,), (3,)]
                assert f"Spark {said}" in explain(morrow.open(url, storage_options=options).scan())
