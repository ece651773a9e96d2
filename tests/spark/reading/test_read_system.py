"""System tables in `morrow.spark.read`: the driver passes metadata on, and table rows are read as usual."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, TableNotFound
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.system.audit_log import ROW_TABLES
from morrow.readers.system.registry import SYSTEM_TABLES
from morrow.spark import dataframes
from morrow.spark.reading.read import explain, read
from tests.support.spark_rows import assert_reads_alike
from tests.support.table_factory import TableFactory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def orders(tmp_path: Path) -> TableFactory:
    """Insert and delete 1, insert and update 2, insert 3; all versions are still in files."""
    table = TableFactory(tmp_path / "orders", [("id", "INT"), ("amount", "INT")], ["id"])
    table.write_file(pa.table({"id": [1, 2], "amount": [10, 20]}))
    table.commit()
    table.write_file(pa.table({"id": [1, 2, 3], "amount": [10, 21, 30]}), kinds=["-D", "+I", "+I"])
    table.commit()
    return table


def rows(frame: DataFrame) -> list[Any]:
    return sorted(map(tuple, frame.collect()))


def test_metadata_are_rows_too(spark: SparkSession, orders: TableFactory) -> None:
    frame = read(spark, f"{orders.path}$snapshots", ["snapshot_id", "commit_kind"], "snapshot_id > 1")
    assert rows(frame) == [(2, "APPEND")]
    assert frame.schema.simpleString() == "struct<snapshot_id:bigint,commit_kind:string>"
    assert "the driver makes" in explain(morrow.open(orders.path).system("snapshots"))


METADATA = sorted(SYSTEM_TABLES.keys() - {table.name for table in ROW_TABLES})


def test_all_tables_of_metadata_are_those_of_the_local_reader(spark: SparkSession, orders: TableFactory) -> None:
    for name in METADATA:
        assert_reads_alike(read(spark, f"{orders.path}${name}"), morrow.open(orders.path).system(name))


@pytest.mark.parametrize("name", ["audit_log", "binlog", "ro"])
def test_rows_of_the_table_are_read_by_the_executors(spark: SparkSession, orders: TableFactory, name: str) -> None:
    scan = morrow.open(orders.path).system(name)
    assert_reads_alike(read(spark, f"{orders.path}${name}"), scan)
    assert "Spark reads" in explain(scan)


def test_the_audit_log_has_deleted_keys_whoever_reads_them(spark: SparkSession, orders: TableFactory) -> None:
    everything = read(spark, f"{orders.path}$audit_log")
    assert rows(everything) == [("+I", 2, 21), ("+I", 3, 30), ("-D", 1, 10)]
    # Without the row kind, Spark's own scan reads the files.
    assert "own Parquet scan" in explain(morrow.open(orders.path).system("audit_log", ["id"]))
    assert rows(read(spark, f"{orders.path}$audit_log", ["id"])) == [(1,), (2,), (3,)]
    assert rows(read(spark, f"{orders.path}$audit_log", ["id"], "rowkind = '-D'")) == [(1,)]


def test_the_filter_of_a_binlog_may_look_into_arrays(spark: SparkSession, orders: TableFactory) -> None:
    assert rows(read(spark, f"{orders.path}$binlog", filter="rowkind = '-D'")) == [("-D", [1], [10])]
    assert rows(read(spark, f"{orders.path}$binlog", filter="amount[1] = 30")) == [("+I", [3], [30])]


def test_what_is_made_of_a_file_is_made_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    events = TableFactory(tmp_path / "events", [("id", "INT")], options={"row-tracking.enabled": "true"})
    events.write_file(pa.table({"id": [7, 8]}), sequence_start=5)
    events.commit()
    scan = morrow.open(events.path).system("row_tracking", ["id", "_SEQUENCE_NUMBER"])
    assert_reads_alike(read(spark, f"{events.path}$row_tracking", ["id", "_SEQUENCE_NUMBER"]), scan)
    assert "_SEQUENCE_NUMBER is not a column of files" in explain(scan)


def test_a_branch_in_the_path(spark: SparkSession, orders: TableFactory) -> None:
    morrow.open(orders.path).branches.create("dev")
    assert read(spark, f"{orders.path}$branch_dev").columns == ["id", "amount"]
    assert read(spark, f"{orders.path}$branch_dev$options").columns == ["key", "value"]
    with pytest.raises(InvalidArgument, match="names the branch 'dev' already"):
        read(spark, f"{orders.path}$branch_dev", branch="main")


def test_wrong_names(spark: SparkSession, orders: TableFactory) -> None:
    with pytest.raises(TableNotFound, match="did you mean 'snapshots'"):
        read(spark, f"{orders.path}$snapshot")
    with pytest.raises(ColumnNotFound):
        read(spark, f"{orders.path}$snapshots", ["id"])
    with pytest.raises(InvalidArgument, match="not read as of one"):
        read(spark, f"{orders.path}$snapshots", snapshot=1)


def test_too_much_metadata_is_an_error(
    spark: SparkSession, orders: TableFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataframes, "MAX_BYTES", 10)
    with pytest.raises(InvalidArgument, match=r"orders\$snapshots: 2 rows and more .* choose fewer by columns"):
        read(spark, f"{orders.path}$snapshots")


def test_every_member_of_a_plan_is_known_to_the_rule() -> None:
    """For a new member, make sure that Spark's own scan respects it or is not used."""
    assert {member.name for member in msgspec.structs.fields(ScanPlan)} == {
        *("table", "schema", "columns", "filter", "sections", "snapshot", "merge", "limit", "steps", "fallback"),
        *("file_fields", "file_options", "root", "roots", "allowed_roots", "branch", "of_changes"),
    }
