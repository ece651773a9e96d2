"""`morrow.spark.call`: Paimon's procedures by name, on local tables."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import morrow
import morrow.spark
from morrow.engine.errors import (
    AlreadyExists,
    BranchNotFound,
    InvalidArgument,
    MorrowError,
    SnapshotNotFound,
    TableNotFound,
    TagNotFound,
    Unsupported,
)
from morrow.procedures.procedure import parse_partitions, translate_condition
from morrow.procedures.registry import NOT_HERE, PROCEDURES
from morrow.scans.arguments import parse_time
from morrow.spark.procedures import TableArgument, call, parse_table_argument
from morrow.spark.views import attach, detach
from tests.support.written import new_table, with_packed_blobs
from tests.support.written import rows as rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DONE = [{"result": True}]


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make ``db.t`` with the snapshots 1 to 3; snapshot n has the rows 1 to n."""
    made = new_table(tmp_path, "id BIGINT, v STRING", keys=["id"], options={"bucket": 1})
    for number in (1, 2, 3):
        made.append({"id": [number], "v": [f"v{number}"]})
    return made


def called(spark: SparkSession, procedure: str, table: morrow.Table, **arguments: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in call(spark, procedure, table=table.path, **arguments).collect()]


def test_tags(spark: SparkSession, table: morrow.Table) -> None:
    assert called(spark, "create_tag", table, tag="newest") == DONE
    assert called(spark, "sys.create_tag", table, tag="first", snapshot=1, time_retained="1 d") == DONE
    assert table.tags.get("first").time_retained == dt.timedelta(days=1)
    assert called(spark, "rename_tag", table, tag="first", target_tag="one") == DONE
    assert called(spark, "replace_tag", table, tag="one", snapshot=2) == DONE
    assert {tag.name: tag.snapshot.id for tag in table.tags} == {"newest": 3, "one": 2}
    assert called(spark, "delete_tag", table, tag="newest, one, never") == DONE
    assert table.tags.names == ()
    with pytest.raises(TagNotFound):
        call(spark, "rename_tag", table=table.path, tag="one", target_tag="two")


def test_a_tag_of_the_first_snapshot_since_a_time(spark: SparkSession, table: morrow.Table) -> None:
    second = table.snapshots()[1]
    made = called(spark, "create_tag_from_timestamp", table, tag="two", timestamp=second.time_millis)
    assert made[0]["tagName"] == "two"
    assert made[0]["commit_time"] == second.time_millis
    assert made[0]["watermark"] == "null"
    assert called(spark, "trigger_tag_automatic_creation", table) == DONE
    with pytest.raises(SnapshotNotFound):
        call(spark, "create_tag_from_timestamp", table=table.path, tag="later", timestamp=2**45)


def test_tags_expire(spark: SparkSession, table: morrow.Table) -> None:
    assert called(spark, "expire_tags", table) == [{"expired_tags": "No expired tags."}]
    table.tags.create("short", 1, time_retained=0.001)
    table.tags.create("long", 2, time_retained="9 d")
    time.sleep(0.01)
    assert called(spark, "expire_tags", table) == [{"expired_tags": "short"}]
    tomorrow = dt.datetime.now() + dt.timedelta(days=1)
    assert called(spark, "expire_tags", table, older_than=f"{tomorrow:%Y-%m-%d %H:%M:%S}") == [{"expired_tags": "long"}]


def test_branches(spark: SparkSession, table: morrow.Table) -> None:
    table.tags.create("v2", 2)
    assert called(spark, "create_branch", table, branch="dev", tag="v2") == DONE
    assert called(spark, "create_branch", table, branch="dev", ignoreIfExists="true") == DONE
    assert called(spark, "create_branch", table, branch="other") == DONE
    with pytest.raises(AlreadyExists):
        call(spark, "create_branch", table=table.path, branch="dev")
    # Branches are named as in Paimon.
    assert call(spark, "create_tag", table=f"{table.path}$branch_dev", tag="of_dev").collect()[0].result is True
    assert "of_dev" in table.on_branch("dev").tags

    table.on_branch("dev").append({"id": [9], "v": ["dev"]})
    assert called(spark, "rename_branch", table, from_branch="dev", to_branch="next") == DONE
    assert called(spark, "fast_forward", table, branch="next") == DONE
    assert rows_of(table) == [(1, "v1"), (2, "v2"), (9, "dev")]
    assert called(spark, "delete_branch", table, branch="next,other") == DONE
    assert list(table.branches) == []
    with pytest.raises(BranchNotFound):
        call(spark, "delete_branch", table=table.path, branch="next")


def test_rolling_back(spark: SparkSession, table: morrow.Table) -> None:
    table.append({"id": [4], "v": ["v4"]})
    table.tags.create("two", 2)
    second = table.snapshots()[1]
    assert called(spark, "rollback", table, version=3) == [{"previous_snapshot_id": 4, "current_snapshot_id": 3}]
    assert called(spark, "rollback", table, version="two") == [{"previous_snapshot_id": 3, "current_snapshot_id": 2}]
    assert rows_of(table) == [(1, "v1"), (2, "v2")]
    table.append({"id": [5], "v": ["v5"]})
    back = {"previous_snapshot_id": 3, "current_snapshot_id": 2}
    assert called(spark, "rollback_to_timestamp", table, timestamp=second.time_millis) == [back]
    assert called(spark, "rollback", table, tag="two") == [{**back, "previous_snapshot_id": 2}]
    for given in ({}, {"snapshot": 1, "tag": "two"}):
        with pytest.raises(InvalidArgument, match="one of version, snapshot and tag"):
            call(spark, "rollback", table=table.path, **given)


def test_rolling_back_to_a_watermark(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT")
    for number, watermark in enumerate((100, 200, 300)):
        with table.writer(commit_user="w") as writer:
            writer.write({"id": [number]})
            writer.commit(number, watermark=watermark)
    back = {"previous_snapshot_id": 3, "current_snapshot_id": 2}
    assert called(spark, "rollback_to_watermark", table, watermark=250) == [back]
    with pytest.raises(SnapshotNotFound, match="up to 99"):
        call(spark, "rollback_to_watermark", table=table.path, watermark=99)


def test_snapshots_expire(spark: SparkSession, table: morrow.Table) -> None:
    def gone(count: int) -> list[dict[str, object]]:
        return [{"deleted_snapshots_count": count}]

    assert called(spark, "expire_snapshots", table) == gone(0)
    options = "snapshot.num-retained.max=1, snapshot.num-retained.min=1"
    limited = called(spark, "expire_snapshots", table, options=options, max_deletes=1)
    assert limited == gone(1)
    later = dt.datetime.now() + dt.timedelta(seconds=1)
    expired = called(spark, "expire_snapshots", table, retain_min=1, older_than=str(later))
    assert expired == gone(1)
    assert [snapshot.id for snapshot in table.snapshots()] == [3]
    with pytest.raises(Unsupported, match=r"file\.format"):
        call(spark, "expire_snapshots", table=table.path, options="file.format=orc")


def test_partitions_expire(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, dt STRING, hh INT", by=["dt", "hh"])
    table.append({"id": [1, 2], "dt": ["2020-01-01", "2999-01-01"], "hh": [1, 2]})
    arguments = {"expiration_time": "1 d", "timestamp_pattern": "$dt", "timestamp_formatter": "yyyy-MM-dd"}
    expired = [{"expired_partitions": "dt=2020-01-01, hh=1"}]
    assert called(spark, "expire_partitions", table, **arguments) == expired
    options = "partition.expiration-time=1 d,partition.timestamp-pattern=$dt"
    nothing = [{"expired_partitions": "No expired partitions."}]
    assert called(spark, "expire_partitions", table, options=options) == nothing


def test_consumers(spark: SparkSession, table: morrow.Table) -> None:
    assert called(spark, "reset_consumer", table, consumerId="a1", nextSnapshotId=2) == DONE
    assert called(spark, "reset_consumer", table, consumerid="a2", nextsnapshotid=3) == DONE
    assert called(spark, "reset_consumer", table, consumerId="b", nextSnapshotId=3) == DONE
    with pytest.raises(SnapshotNotFound):
        call(spark, "reset_consumer", table=table.path, consumerId="b", nextSnapshotId=9)
    assert called(spark, "clear_consumers", table, includingConsumers="a.*", excludingConsumers=".2") == DONE
    assert table.consumers.all() == {"a2": 3, "b": 3}
    assert called(spark, "reset_consumer", table, consumerId="b") == DONE
    assert called(spark, "clear_consumers", table) == DONE
    assert table.consumers.all() == {}


def test_files(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, dt STRING", by=["dt"])
    for number in range(4):
        table.append({"id": [number, number], "dt": ["a", "b"]})
    # The table is small, so the driver compacts it by itself.
    assert called(spark, "compact", table, partitions="dt='a'") == DONE
    assert files(table) == {"a": 1, "b": 4}
    assert called(spark, "compact", table, where="dt = 'b'", compact_strategy="minor") == DONE
    assert files(table) == {"a": 1, "b": 4}  # too few files to compact
    assert called(spark, "compact", table, partition_idle_time="1 h") == DONE
    assert files(table) == {"a": 1, "b": 4}  # not idle
    assert called(spark, "compact", table, order_strategy="order", order_by="id", options="file.format=orc") == DONE
    assert files(table) == {"a": 1, "b": 1}
    assert {path.suffix for path in Path(table.path).glob("dt=b/bucket-0/*")} == {".parquet", ".orc"}
    assert table.scan(filter="dt = 'b'").to_polars()["id"].to_list() == [0, 1, 2, 3]
    assert {row["state"] for row in called(spark, "erase", table, where="dt = 'b' AND id = 3")} == {
        "found",
        "remaining",
    }
    assert table.scan(filter="dt = 'b'").to_polars()["id"].to_list() == [0, 1, 2]
    assert called(spark, "erase", table, where="id < 0", dry_run=True) == []
    assert called(spark, "purge_files", table) == [{"result": "Success"}]
    assert rows_of(table) == []


def test_packs_of_keyed_blobs_stay_and_all_faces_check_their_descriptors(spark: SparkSession, tmp_path: Path) -> None:
    table, pack = with_packed_blobs(tmp_path)
    morrow.spark.catalog(spark, "packed", warehouse=tmp_path)
    reads: tuple[Callable[[], DataFrame], ...] = (
        lambda: morrow.spark.read(spark, table.path),
        lambda: spark.read.format("morrow").load(table.path),
        lambda: spark.table("packed.db.t"),
        lambda: spark.sql("SELECT * FROM packed.db.t VERSION AS OF 't'"),
        lambda: spark.sql("SELECT * FROM packed.db.`t$audit_log`"),
    )
    for read in reads:
        with pytest.raises(Exception, match="is not a descriptor of a blob"):
            read().collect()
    assert spark.sql("SELECT k FROM packed.db.t VERSION AS OF 't'").count() == 1
    now = f"{dt.datetime.now():%Y-%m-%d %H:%M:%S}"
    for mode in ("local", "distributed"):
        (row,) = call(
            spark, "remove_orphan_files", table="db.t", warehouse=tmp_path, older_than=now, mode=mode, dry_run=False
        ).collect()
        assert row.asDict()["deletedFileCount"] == 0
    assert called(spark, "purge_files", table) == [{"result": "Success"}]
    assert pack.exists()


def files(table: morrow.Table) -> dict[str, int]:
    found = table.system("files").to_polars()
    names = found["partition"].str.strip_chars("{}").str.replace("dt=", "")
    return {name: int((names == name).sum()) for name in sorted(set(names))}


def test_orphans_of_a_whole_database(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("x", "y"):
        table = new_table(tmp_path, "id BIGINT", name=name)
        table.append({"id": [1]})
        orphan = Path(table.path) / "manifest" / "manifest-left"
        orphan.write_bytes(b"12345")
        os.utime(orphan, (1e9, 1e9))

    def removed(**arguments: Any) -> tuple[int, int]:
        (row,) = call(spark, "remove_orphan_files", table="db.*", warehouse=tmp_path, **arguments).collect()
        return row.deletedFileCount, row.deletedFileTotalLenInBytes

    assert removed(older_than="2000-01-01 00:00:00") == (0, 0)
    assert removed(older_than="2020-01-01 00:00:00", dry_run=True) == (2, 10)
    assert removed() == (2, 10)  # files older than a day
    assert removed(mode="local") == (0, 0)


@pytest.mark.parametrize(
    ("procedure", "arguments", "problem"),
    [
        (
            "create_tags",
            {},
            "no procedure 'create_tags', did you mean 'create_tag'?; there are",
        ),
        (
            "create_tag",
            {"tags": "x"},
            "create_tag has no argument 'tags', did you mean 'tag'?; it has table, tag",
        ),
        (
            "create_tag",
            {},
            "create_tag needs the argument 'tag'; it has table, tag (STRING), snap",
        ),
        ("create_tag", {"tag": " "}, "needs the argument 'tag'"),
        ("create_tag", {"tag": 1}, "tag is STRING, not 1"),
        ("create_tag", {"tag": "x", "snapshot": "1"}, "snapshot is BIGINT, not '1'"),
        ("create_tag", {"tag": "x", "snapshot": True}, "snapshot is BIGINT, not True"),
        ("create_tag", {"tag": "x", "time_retained": "soon"}, "'soon'"),
        ("create_tag", {"tag": "x", "distributed": True}, "create_tag runs no jobs"),
        ("expire_snapshots", {"retain_max": 2**31}, "retain_max is INT, not 2147483648"),
        ("expire_snapshots", {"older_than": "yesterday"}, "older_than is a time such as '2024-01-01 00:00:00'"),
        ("expire_snapshots", {"options": "x"}, "options: 'x' is not a pair"),
        (
            "create_branch",
            {"branch": "b", "ignoreIfExists": "maybe"},
            "ignoreIfExists is 'true' or 'false', not 'maybe'",
        ),
        ("remove_orphan_files", {"dry_run": "false"}, "dry_run is BOOLEAN, not 'false'"),
        ("remove_orphan_files", {"mode": "cluster"}, "mode is 'distributed' or 'local', not 'cluster'"),
        ("remove_orphan_files", {"parallelism": 0}, "parallelism is a number of tasks, not 0"),
        ("remove_orphan_files", {"older_than": "2999-01-01"}, "older_than must be past"),
        ("compact", {"compact_strategy": "max"}, "compact_strategy is 'full' or 'minor', not 'max'"),
        ("compact", {"partitions": "a=1", "where": "a = 1"}, "partitions and where cannot be used together"),
        ("compact", {"order_by": "id"}, "order_by and an order_strategy other than 'none' go together"),
        ("compact", {"order_by": "id", "order_strategy": "zorder"}, "sort compaction of a table with keys"),
        ("compact", {"where": "id = 1"}, "'id' is not a partition column"),
        ("compact", {"options": "merge-engine=first-row"}, "'merge-engine' cannot be changed"),
        ("compact", {"options": "no.such.option=1"}, "there is no option 'no.such.option'"),
        ("compact", {"buckets": "1-0"}, "buckets are numbers such as '0-3,7', not '1-0'"),
        ("compact", {"buckets": "0,1"}, "the buckets are 0 to 0"),
        ("rescale", {"bucket_num": 0}, "the number of buckets is 1 or more, not 0"),
        (
            "rescale",
            {"bucket_num": 2, "partitions": "a=1", "where": "a = 1"},
            "partitions and where cannot be used together",
        ),
        ("rewrite_file_index", {"where": "id = 1"}, "'id' is not a partition column"),
        ("mark_partition_done", {"partitions": "dt=1"}, "'dt' is not a partition column; they are: none"),
        ("compact_manifest", {"manifest_sort_enabled": True}, "manifest_sort_"),
        ("compact_manifest", {"options": "bucket=3"}, "compact_manifest with the option 'bucket'"),
        ("repair_earliest_snapshot", {"snapshot_id": 2}, "snapshot 1 exists, so that 2 does not follow a gap"),
        ("repair_earliest_snapshot", {"snapshot_id": 9}, "the oldest snapshot is one of 1 to 3, and 9 is not"),
        ("merge_branch", {"source_branch": "x"}, "there is no branch 'x'"),
        ("repair", {"database_or_table": "x"}, "the catalog is its folders, so that no metastore can lag behind"),
        ("compact_chain_table", {"partition": "dt=1"}, "not a chain table with both branches"),
        ("clear_consumers", {"includingConsumers": "["}, "'[' is not a valid regular expression"),
    ],
)
def test_wrong_calls_change_nothing(
    spark: SparkSession, table: morrow.Table, procedure: str, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(MorrowError) as error:
        call(spark, procedure, table=table.path, **arguments)
    assert problem in str(error.value)
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3]


def test_the_table_may_be_a_name(spark: SparkSession, table: morrow.Table, tmp_path: Path) -> None:
    """A path has a ``/``; a name belongs to a warehouse, or begins with an attached catalog."""
    assert parse_table_argument(spark, Path("t"), None, None) == TableArgument("t", None)
    assert parse_table_argument(spark, "./t$branch_b", None, None) == TableArgument("./t", None, "b")
    assert parse_table_argument(spark, "`db`.`t.1`", "wh", None) == TableArgument("db.t.1", "wh")
    assert parse_table_argument(spark, "db.t$branch_b", "wh", None) == TableArgument("db.t", "wh", "b")
    attach(spark, tmp_path, as_="procs")
    assert call(spark, "create_tag", table="procs.db.t", tag="v1").collect()[0].result is True
    assert call(spark, "CREATE_TAG", Table="db.t", TAG="v2", warehouse=tmp_path).collect()[0].result is True
    detach(spark, "procs")
    assert table.tags.names == ("v1", "v2")
    for given, problem in {
        "procs.db.t": "in which warehouse",
        "db.t": "in which warehouse",
        f"{table.path}$snapshots": "is a system table",
        "": "table is the folder or name of a table",
        3: "table is the folder or name of a table",
    }.items():
        with pytest.raises(InvalidArgument, match=problem):
            call(spark, "create_tag", table=given, tag="v3")
    with pytest.raises(InvalidArgument, match="needs the argument 'table'"):
        call(spark, "create_tag", tag="v3")
    with pytest.raises(TableNotFound):
        call(spark, "create_tag", table=str(tmp_path), tag="v3")


def test_texts_of_arguments() -> None:
    assert parse_partitions("dt=1,hh=2; dt='3'") == [{"dt": "1", "hh": "2"}, {"dt": "3"}]
    assert parse_partitions(None) == []
    assert parse_time("2024-01-01 00:00:00", "t") == dt.datetime(2024, 1, 1).astimezone()
    assert parse_time("2024-01-01T00:00:00+02:00", "t") == dt.datetime(2023, 12, 31, 22, tzinfo=dt.UTC)


def test_conditions_are_of_sparks_sql() -> None:
    assert translate_condition('`d y` = "it\'s" AND a <=> 1') == "\"d y\" = 'it''s' AND a IS NOT DISTINCT FROM 1"
    for wrong in ("a = 'x", "a = 1; b = 2", "a = = 1"):
        with pytest.raises(InvalidArgument, match="where is"):
            translate_condition(wrong)


def test_each_procedure_is_described() -> None:
    assert len(PROCEDURES) == 46
    assert not PROCEDURES.keys() & NOT_HERE.keys()
    assert str(PROCEDURES["rename_tag"]) == "table, tag (STRING), target_tag (STRING)"
