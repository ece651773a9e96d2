"""``load`` and ``save`` with the JVM's format: the same options as in the Python data source, different code."""

from __future__ import annotations

import datetime as dt
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import IllegalArgumentException, UnsupportedOperationException

import morrow
from morrow.engine.errors import (
    AlreadyExists,
    BranchNotFound,
    InvalidArgument,
    MorrowError,
    SnapshotNotFound,
    TableNotFound,
    Unsupported,
)
from morrow.spark import register
from morrow.spark.catalogs.questions import Place
from morrow.spark.source import dataframe_io, replaced_methods
from morrow.spark.source.replaced_methods import REGISTERED
from morrow.spark.statements.execution import run
from morrow.spark.statements.queries import Session
from morrow.spark.views import Access
from tests.spark.conftest import settings
from tests.support.by_source import BY_SOURCE, register_by_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = [dt.date(2024, 5, 14), dt.date(2024, 5, 15)]
ORDERS = "id INT, item STRING, day DATE"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    register_by_source(spark)
    return spark


WAYS = ("morrow", BY_SOURCE)


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.fixture
def orders(tmp_path: Path) -> morrow.Table:
    """Make two snapshots, the second with a change of order 2, and a tag and a branch of the first."""
    table = morrow.Catalog(tmp_path).create_table(
        "db.orders", schema=ORDERS, primary_keys=["id", "day"], partition_keys=["day"], options={"bucket": 1}
    )
    table.append({"id": [1, 2, 3], "item": ["a", "b", None], "day": [DAYS[0], DAYS[1], DAYS[1]]})
    table.tags.create("first")
    table.branches.create("old", tag="first")
    table.append({"id": [2], "item": ["B"], "day": [DAYS[1]]})
    return table


# --- reading ---


def test_columns_and_filters_of_a_query_reach_sparks_own_scan(session: SparkSession, orders: morrow.Table) -> None:
    frame = session.read.format("morrow").load(orders.path).where("id > 1 AND day = DATE'2024-05-15'").select("item")
    assert sorted(row.item or "" for row in frame.collect()) == ["", "B"]
    scans = plan(frame)
    assert "FileScan parquet" in scans and "GreaterThan(id,1)" in scans and "BatchScan" not in scans


READS: list[tuple[dict[str, object], list[tuple[Any, ...]]]] = [
    ({}, [(1, "a"), (2, "B"), (3, None)]),
    ({"COLUMNS": "item,id"}, [("B", 2), ("a", 1), (None, 3)]),
    ({"columns": '["item"]', "filter": "id < 3"}, [("B",), ("a",)]),
    ({"push-filters": True, "filter": "item IS NULL"}, [(3, None)]),
    ({"scan.snapshot-id": 1, "filter": "id = 2"}, [(2, "b")]),
    ({"tag": "first", "filter": "id = 2"}, [(2, "b")]),
    ({"versionAsOf": "first", "filter": "id = 2"}, [(2, "b")]),
    ({"scan.timestamp-millis": 4102444800000, "filter": "id = 2"}, [(2, "B")]),
    ({"branch": "old", "filter": "id = 2"}, [(2, "b")]),
]


@pytest.mark.parametrize(("options", "expected"), READS, ids=str)
def test_options_of_reads_mean_the_same_in_both_ways(
    options: dict[str, Any],
    expected: list[tuple[Any, ...]],
    session: SparkSession,
    orders: morrow.Table,
) -> None:
    for way in WAYS:
        frame = session.read.format(way).options(**options).load(orders.path)
        rows = frame.drop("day") if "day" in frame.columns else frame
        assert sorted(map(tuple, rows.collect()), key=str) == sorted(expected, key=str)


def test_sparks_own_moment_is_on_the_clock_of_the_session(session: SparkSession, tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT")
    table.append({"id": [1]})
    time.sleep(0.01)
    between = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    table.append({"id": [2]})
    morrow.spark.catalog(session, "pm", warehouse=tmp_path)
    place = {"pm": Place(session, "pm", morrow.Catalog(tmp_path), Access())}
    for zone in ("Asia/Tokyo", "UTC"):
        text = between.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S.%f")
        with settings(session, {"spark.sql.session.timeZone": zone}):
            reader = session.read.option("timestampAsOf", text)
            assert reader.table("pm.db.t").count() == 1
            assert reader.format("morrow").load(table.path).count() == 1
            query = f"SELECT * FROM pm.db.t TIMESTAMP AS OF '{text}'"
            assert session.sql(query).count() == run(Session(session, place), query).count() == 1
    with pytest.raises(Exception, match="nothing says here which zone it is in"):
        session.read.format(BY_SOURCE).option("timestampAsOf", "2024-01-01").load(table.path)


WRONG: list[tuple[dict[str, object], type[MorrowError], str]] = [
    ({"snapshots": 1}, InvalidArgument, "no option 'snapshots'"),
    ({"scan.tag-name": "a", "tag": "b"}, InvalidArgument, "'tag' is given twice"),
    ({"read.changelog": True}, InvalidArgument, "no option 'read.changelog'"),
    ({"snapshot": 9}, SnapshotNotFound, "snapshot 9"),
    ({"timestampAsOf": "noon"}, InvalidArgument, "the option 'timestamp' cannot be 'noon'"),
    ({"timestampAsOf": "1970-01-01T00:00:00Z"}, SnapshotNotFound, "at or before 1970-01-01"),
    ({"path": "/nowhere"}, TableNotFound, "/nowhere"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG, ids=str)
def test_errors_of_reads_are_the_same_in_both_ways(
    options: dict[str, Any],
    error: type[MorrowError],
    message: str,
    session: SparkSession,
    orders: morrow.Table,
) -> None:
    given = {"path": orders.path, **options}
    for way in WAYS:
        with pytest.raises(Exception, match=f"{error.__name__}: .*{message}"):
            session.read.format(way).options(**given).load().collect()


def test_all_ways_to_say_it(session: SparkSession, orders: morrow.Table) -> None:
    read, path = session.read, orders.path
    schema = "id INT, item STRING, day DATE"
    for frame in (
        session.read.load(path, format="morrow"),
        session.read.load([path], "MORROW", schema, filter="id < 4"),
        session.read.format("morrow").schema(schema).option("PATH", path).load(),
        read.format("morrow").load(path),
        read.load(path),  # the reader kept the format of the line before
    ):
        assert frame.count() == 3
    with pytest.raises(
        IllegalArgumentException,
        match=r"InvalidArgument: .*the schema of the table is",
    ):
        session.read.format("morrow").schema("id BIGINT").load(path)
    with pytest.raises(IllegalArgumentException, match=r"InvalidArgument: .*several paths"):
        session.read.format("morrow").load([path, path])
    with pytest.raises(Exception, match=r"'path' or 'paths' option set and load\(\) is called with path"):
        session.read.format("morrow").option("path", path).load(path)


def test_other_formats_threads_and_sessions(session: SparkSession, orders: morrow.Table, tmp_path: Path) -> None:
    register(session)  # registers a second time
    session.range(3).write.save(str(tmp_path / "files"))
    assert session.read.load(str(tmp_path / "files")).count() == 3
    with ThreadPoolExecutor(1) as other_thread:  # its JVM thread has another class loader
        assert other_thread.submit(lambda: session.read.format("morrow").load(orders.path).count()).result() == 3
    other = session.newSession()
    with pytest.raises(UnsupportedOperationException, match=r"call morrow\.spark\.register\(spark\)"):
        other.read.format("morrow").load(orders.path)
    register(other)
    assert "FileScan" in plan(other.read.format("morrow").load(orders.path))


# --- writing ---


def ids(path: str) -> list[int]:
    found: list[int] = morrow.open(path).scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def frame(spark: SparkSession, *ids: int, day: int = 0) -> DataFrame:
    return spark.createDataFrame([(number, str(number), DAYS[day]) for number in ids], ORDERS)


def test_a_table_is_made_by_both_ways(session: SparkSession, tmp_path: Path) -> None:
    options = {"Primary-Key": "id,day", "partition": "day", "bucket": 2, "fields.item.default-value": "none"}
    made = []
    for name, way in zip("ab", WAYS, strict=True):
        path = str(tmp_path / name)
        frame(session, 1, 2).write.format(way).options(**options).mode("append").save(path)
        frame(session, 2, 3).write.format(way).options(**options).mode("append").save(path)  # the same options
        assert ids(path) == [1, 2, 3]
        table = morrow.open(path)
        made.append((table.primary_keys, table.partition_keys, table.options, table.schemas()[0].fields))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("mode", "expected"), [("dynamic", {"save": [2, 9], "write": [2, 9]}), ("STATIC", {"save": [9], "write": [9]})]
)
def test_the_setting_of_the_session_says_what_an_overwrite_replaces(
    mode: str, expected: dict[str, list[int]], session: SparkSession, tmp_path: Path
) -> None:
    setting, found = "spark.sql.sources.partitionOverwriteMode", {}
    session.conf.set(setting, mode)
    try:
        for way in expected:
            table = morrow.Catalog(tmp_path).create_table(
                f"db.{way}", schema=ORDERS, primary_keys=["id", "day"], partition_keys=["day"], options={"bucket": 1}
            )
            table.append({"id": [1, 2], "item": ["a", "b"], "day": DAYS})
            if way == "save":
                frame(session, 9).write.format("morrow").mode("overwrite").save(table.path)
            else:
                morrow.spark.write(frame(session, 9), table.path, "overwrite")
            found[way] = ids(table.path)
    finally:
        session.conf.unset(setting)
    assert found == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [9]),
        ({"partitionOverwriteMode": "dynamic"}, [2, 9]),
        ({"partition-overwrite": "DYNAMIC"}, [2, 9]),
    ],
    ids=str,
)
def test_overwrites_by_both_ways(
    options: dict[str, str], expected: list[int], session: SparkSession, tmp_path: Path
) -> None:
    for name, way in zip("ab", WAYS, strict=True):
        table = morrow.Catalog(tmp_path).create_table(
            f"db.{name}", schema=ORDERS, primary_keys=["id", "day"], partition_keys=["day"], options={"bucket": 1}
        )
        table.append({"id": [1, 2], "item": ["a", "b"], "day": DAYS})
        frame(session, 9).write.format(way).mode("overwrite").options(**options).save(table.path)
        assert ids(table.path) == expected


def test_kinds_and_numbered_commits_by_both_ways(session: SparkSession, tmp_path: Path) -> None:
    for name, way in zip("ab", WAYS, strict=True):
        path = str(tmp_path / name)
        rows = session.createDataFrame([(1, "+I"), (2, "+I"), (3, "-D")], "id INT, kind STRING").coalesce(1)
        writer = rows.write.format(way).mode("append").option("commit-user", "etl").option("kinds", "kind")
        for _ in range(2):  # the second time, it is already committed
            writer.option("commit-identifier", 1).option("primary-key", "id").option("bucket", 1).save(path)
        assert ids(path) == [1, 2]
        assert [(s.commit_user, s.commit_identifier) for s in morrow.open(path).snapshots()] == [("etl", 1)]


def test_rows_are_shuffled_and_compacted_in_the_same_job(session: SparkSession, tmp_path: Path) -> None:
    options = {"primary-key": "id", "bucket": 2, "deletion-vectors.enabled": True}
    rows = session.range(0, 100, numPartitions=4)
    rows.write.format("morrow").mode("append").options(**options).save(str(tmp_path / "t"))
    table = morrow.open(str(tmp_path / "t"))
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND", "COMPACT"]
    assert len(list((tmp_path / "t").glob("bucket-*/data-*"))) == 2  # four tasks would have written eight
    assert table.scan().count() == 100


def test_tables_whose_keys_are_given_buckets(session: SparkSession, tmp_path: Path) -> None:
    """The Python data source only accepts rows for these tables from a single task."""
    path = str(tmp_path / "t")
    session.range(20).repartition(2).write.format("morrow").mode("append").option("primary-key", "id").save(path)
    assert ids(path) == list(range(20))


def test_modes_of_tables_that_are_there_or_not(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame(session, 1).write.format("morrow").save(path)
    with pytest.raises(IllegalArgumentException, match=r"AlreadyExists: .*there is a table; add to it by"):
        frame(session, 2).write.format("morrow").save(path)
    frame(session, 2).write.save(path, "morrow", "ignore")
    assert ids(path) == [1]
    frame(session, 3).write.save(path, "morrow", mode="append", partitionBy=None, KINDS="+I")
    frame(session, 4).write.mode("ignore").format("morrow").option("path", str(tmp_path / "u")).save()
    assert (ids(path), ids(str(tmp_path / "u"))) == ([1, 3], [4])


def test_partition_by_says_the_partition_keys(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame(session, 1).write.format("morrow").partitionBy("day", "item").save(path)
    assert morrow.open(path).partition_keys == ("day", "item")
    frame(session, 2).write.partitionBy("day", "item").save(path, format="morrow", mode="append")
    for keys in (["day"], "id"):
        with pytest.raises(
            IllegalArgumentException,
            match=r"InvalidArgument: .*the option 'partition' is 'day,item' for this table, not",
        ):
            frame(session, 3).write.save(path, format="morrow", mode="append", partitionBy=keys)
    with pytest.raises(IllegalArgumentException, match=r"InvalidArgument: .*give one of them"):
        frame(session, 3).write.partitionBy("day").save(path, format="morrow", mode="append", partition="day")
    assert ids(path) == [1, 2]


def test_unknown_columns_are_named_by_position(session: SparkSession, tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", "a INT, b STRING, day STRING", partition_keys="day")

    def save(names: str, **options: str) -> None:
        rows = session.sql("SELECT 1, 'x', 'y'").toDF(*names.split())
        rows.write.format("paimon").mode("append").options(**options).save(table.path)

    for names in ("a B c", "_1 _2 _3"):
        save(names, **{"write.merge-schema": "false", "write.merge-schema.type-widening": "true"})
    assert table.to_polars().rows() == [(1, "x", "y")] * 2
    with pytest.raises(Exception, match=r"ColumnNotFound: .*'c'"):
        save("a day c")  # 'day' is not at its position


WRONG_WRITES: list[tuple[dict[str, object], type[MorrowError], str]] = [
    ({"bucket": 2}, InvalidArgument, "the option 'bucket' is '1' for this table, not '2'"),
    ({"buckets": 2}, InvalidArgument, "the option 'buckets' is None for this table"),
    ({"partitionOverwriteMode": "some"}, InvalidArgument, "it is static or dynamic"),
    ({"partition-overwrite": "dynamic"}, InvalidArgument, r"'partitionOverwriteMode' belongs to \.mode\('overwrite'\)"),
    ({"merge-engine": "first-row"}, InvalidArgument, "the option 'merge-engine' is None for this table"),
    ({"commit-identifier": 1}, InvalidArgument, "numbers the commits of a 'commit-user'"),
    ({"kinds": "nothing"}, InvalidArgument, "nothing"),
    ({"write.merge-schema.explicit-cast": True}, InvalidArgument, "belongs to 'write.merge-schema'"),
    ({"branch": "none"}, BranchNotFound, "none"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG_WRITES, ids=str)
def test_errors_of_writes_are_the_same_in_both_ways(
    options: dict[str, Any],
    error: type[MorrowError],
    message: str,
    session: SparkSession,
    orders: morrow.Table,
) -> None:
    for way in WAYS:
        with pytest.raises(Exception, match=f"{error.__name__}: .*{message}"):
            frame(session, 1).write.format(way).mode("append").options(**options).save(orders.path)
    assert len(orders.snapshots()) == 2


def test_settings_that_only_spark_knows_stay_sparks(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="bucketBy"):
        session.range(3).write.format("morrow").mode("append").bucketBy(2, "id").save(str(tmp_path / "t"))
    with pytest.raises(Exception, match=r"'path' option set and save\(\) is called with a path"):
        session.range(3).write.format("morrow").mode("append").option("path", "a").save(str(tmp_path / "t"))


def test_methods_of_pyspark_where_they_are_replaced(session: SparkSession, orders: morrow.Table) -> None:
    """The replaced methods serve Spark Connect and Spark 3.5, whose JVM lacks the format."""
    (_, _, loading), (_, _, saving) = dataframe_io.REPLACEMENTS
    reader, writer = type(session.read), type(session.range(0).write)
    load, save = loading(reader.load), saving(writer.save)
    with settings(session, {REGISTERED: "true"}):
        save(frame(session, 7).write, orders.path, "morrow", "append")
        found = load(session.read, orders.path, "morrow", filter="id > 2")
        assert sorted(row.id for row in found.collect()) == [3, 7]
        with pytest.raises(AlreadyExists):
            save(frame(session, 8).write, orders.path, "morrow")
        with settings(session, {"spark.paimon.*.db.orders.scan.snapshot-id": "1", "spark.paimon.*.db.t.bucket": "1"}):
            for call in (
                lambda: load(session.read, orders.path, "morrow"),
                lambda: save(frame(session, 8).write, orders.path, "morrow", "append"),
            ):
                with pytest.raises(Unsupported, match=r"setting spark\.paimon\.\*\.db\.orders\.scan\.snapshot-id"):
                    call()
            _check_streams(session, orders.path)
        with pytest.raises(InvalidArgument, match="no option 'snapshots'"):
            load(session.read, orders.path, "morrow", snapshots=1)


def _check_streams(session: SparkSession, path: str) -> None:
    """Check that streams are refused under a setting for the table, for each way to pass the path."""
    replaced = {(owner, name): wrap for owner, name, wrap in replaced_methods.STREAM_REPLACEMENTS}
    option = replaced["DataStreamReader", "option"](type(session.readStream).option)
    load = replaced["DataStreamReader", "load"](type(session.readStream).load)
    stream = session.readStream.format("rate").load().writeStream
    start = replaced["DataStreamWriter", "start"](type(stream).start)
    for call in (
        lambda: load(session.readStream, path, "morrow"),
        lambda: load(option(session.readStream, "path", path), format="morrow"),
        lambda: start(stream, path, "morrow"),
    ):
        with pytest.raises(Unsupported, match=r"a stream of format\('morrow'\) under the setting spark\.paimon"):
            call()
