"""`morrow.spark.call`: procedures for the layout and metadata of tables, and for many tables at once."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.procedures import call
from tests.support.written import new_table
from tests.support.written import rows as rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE = [{"result": True}]
NAME = "db.odd ü%t"


def called(spark: SparkSession, procedure: str, warehouse: Path, **arguments: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in call(spark, procedure, warehouse=warehouse, **arguments).collect()]


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    made = new_table(tmp_path, "p STRING, id BIGINT", keys=["p", "id"], by=["p"], options={"bucket": 1}, name=NAME[3:])
    for number in range(3):
        made.append({"p": ["a", "b"], "id": [number, number]})
    return made


def test_layout_and_metadata(spark: SparkSession, table: morrow.Table, tmp_path: Path) -> None:
    rows = rows_of(table)
    assert called(spark, "rescale", tmp_path, table=NAME, bucket_num=2, partitions="p=a") == DONE
    table.alter.set_options({"bucket": "2", "file-index.bitmap.columns": "id"})
    assert called(spark, "rescale", tmp_path, table=NAME, where="p = 'b'") == DONE
    (written,) = called(spark, "rewrite_file_index", tmp_path, table=NAME, where="p = 'b'")
    assert written == {"written_partitions": 0, "written_indexes": 0}  # the rescaled files have the index already
    (written,) = called(spark, "rewrite_file_index", tmp_path, table=NAME)
    assert written == {"written_partitions": 1, "written_indexes": 2}
    assert called(spark, "mark_partition_done", tmp_path, table=NAME, partitions="p=a;p=b") == DONE
    assert len(list(Path(table.path).glob("p=*/_SUCCESS"))) == 2

    newest = table.snapshots()[-1].id
    assert called(spark, "compact_manifest", tmp_path, table=NAME, dry_run=True) == DONE
    assert table.snapshots()[-1].id == newest
    assert called(spark, "compact_manifest", tmp_path, table=NAME, options="manifest.target-file-size=1 mb") == DONE
    assert table.snapshots()[-1].id == newest + 1
    assert called(spark, "compact", tmp_path, table=NAME, buckets="0-1") == DONE
    assert rows_of(table) == rows

    assert called(spark, "remove_unexisting_files", tmp_path, table="db.*", dry_run=True) == []
    lost = table.system("files").to_polars()["file_path"][0]
    Path(lost).unlink()
    assert called(spark, "remove_unexisting_files", tmp_path, table=NAME, dry_run=True) == [{"fileName": lost}]
    assert called(spark, "remove_unexisting_files", tmp_path, table="db.*", parallelism=2) == [{"fileName": lost}]
    assert set(rows_of(table)) < set(rows)

    (Path(table.path) / "snapshot" / "snapshot-2").unlink()
    (earliest,) = called(spark, "repair_earliest_snapshot", tmp_path, table=NAME, snapshot_id=3)
    assert earliest == {"previous_earliest_snapshot_id": 1, "current_earliest_snapshot_id": 3}
    assert table.snapshots()[0].id == 3


@pytest.mark.usefixtures("table")
def test_many_tables(spark: SparkSession, tmp_path: Path) -> None:
    log = new_table(tmp_path, "id BIGINT", name="log")
    log.append({"id": [1]})
    log.branches.create("dev")
    log.on_branch("dev").append({"id": [2]})
    assert called(spark, "merge_branch", tmp_path, table="db.log", source_branch="dev") == DONE
    merged = called(spark, "merge_branch", tmp_path, table="db.log", source_branch="main", target_branch="dev")
    assert merged == DONE
    assert rows_of(log) == rows_of(log.on_branch("dev")) == [(1,), (2,)]

    (finished,) = called(spark, "compact_database", tmp_path, including_databases="d.", excluding_tables=r".*odd.*")
    assert finished == {"result": "Compact database finished. Success: 1, Failed: 0"}
    assert len(log.system("files").to_polars()) == 1
    (finished,) = called(spark, "compact_database", tmp_path, options="no.such=1")
    assert finished == {"result": "Compact database finished. Success: 0, Failed: 2"}
    assert called(spark, "compact_database", tmp_path, including_databases="none")[0]["result"].endswith("0, Failed: 0")
    with pytest.raises(InvalidArgument, match="in which warehouse"):
        call(spark, "compact_database")

    assert called(spark, "copy", tmp_path, source_table=NAME, target_table="db.copy", where="p = 'a'") == DONE
    assert rows_of(morrow.Catalog(tmp_path).table("db.copy")) == [("a", 0), ("a", 1), ("a", 2)]


def test_a_folder_of_parquet_files_is_cloned(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "old" / "dt=2024-01-01"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "part-0.parquet")
    migrated = {"source_type": "parquet", "table": str(folder.parent), "target_table": "db.new"}
    for wrong, problem in (
        ({}, "deletes its origin is not supported; files are copied: delete_origin => false"),
        ({"delete_origin": False, "parallelism": 3}, "with parallelism"),
    ):
        with pytest.raises(Unsupported, match=problem):
            call(spark, "migrate_table", warehouse=tmp_path, **{**migrated, **wrong})
    with pytest.raises(InvalidArgument, match="the source is database\\.table of"):
        call(spark, "migrate_table", warehouse=tmp_path, **{**migrated, "source_type": "hive"})
    options = {"options": "file.format=orc", "options_map": {"bucket": "-1"}}
    assert called(spark, "migrate_table", tmp_path, **migrated, **options, delete_origin=False) == DONE
    made = morrow.Catalog(tmp_path).table("db.new")
    assert (rows_of(made), made.partition_keys) == ([(1, dt.date(2024, 1, 1))], ("dt",))
    assert made.options["file.format"] == "orc"
    assert (folder / "part-0.parquet").exists()


def test_tables_of_spark_are_migrated(spark: SparkSession, tmp_path: Path) -> None:
    for name, provider in (("one", "parquet"), ("two", "orc")):
        spark.sql(f"CREATE TABLE {name} (id STRING, p INT) USING {provider} PARTITIONED BY (p) COMMENT 'old'")
        spark.sql(f"INSERT INTO {name} VALUES ('1', 1), ('2', NULL)")
    hive = {"source_type": "hive", "options": "file.format=avro"}
    try:
        with pytest.raises(InvalidArgument, match="only support unaware-bucket target table"):
            call(
                spark, "migrate_table", warehouse=tmp_path, source_type="hive", table="default.one", options="bucket=1"
            )
        kept = {"table": "default.one", "target_table": "db.one", "delete_origin": False, "parallelism": 6}
        assert called(spark, "migrate_table", tmp_path, **hive, **kept) == DONE
        table = morrow.Catalog(tmp_path).table("db.one")
        assert (dict(table.options), table.comment) == ({"bucket": "-1", "file.format": "avro"}, "old")
        assert rows_of(table, filter="p = 1") == [("1", 1)]
        assert spark.table("one").count() == 0  # its rows have moved, as in Paimon
        spark.sql("INSERT INTO one VALUES ('3', 1)")
        file = {"source_type": "hive", "source_table": "default.one", "target_table": "db.one"}
        assert called(spark, "migrate_file", tmp_path, **file) == DONE
        assert len(rows_of(table)) == 3
        done = "migrate database is finished, success cnt: 1 , failed cnt: 0"
        assert called(spark, "migrate_database", tmp_path, source_type="hive", database="default") == [{"result": done}]
        assert morrow.Catalog(tmp_path).table("default.two").scan().count() == 2
        assert not any(spark.catalog.tableExists(name) for name in ("one", "two"))
        spark.sql("CREATE VIEW a_view AS SELECT 1 AS id")  # a failure does not stop the others
        spark.sql("CREATE TABLE three (Comment STRING) USING parquet")
        with pytest.raises(Unsupported, match="the view default\\.a_view"):
            call(spark, "migrate_table", warehouse=tmp_path, source_type="hive", table="default.a_view")
        done = "migrate database is finished, success cnt: 1 , failed cnt: 1"
        assert called(spark, "migrate_database", tmp_path, source_type="hive", database="default") == [{"result": done}]
        assert morrow.Catalog(tmp_path).table("default.three").comment is None
        with pytest.raises(Unsupported, match="from 'iceberg'"):
            call(spark, "migrate_table", warehouse=tmp_path, source_type="iceberg", table="default.one")
    finally:
        spark.sql("DROP VIEW IF EXISTS a_view")
        for name in ("one", "two", "three"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
