"""Options of a read, settings of the session, functions of changes: other states of a table by name."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.source.settings import options_for
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAME = "`a.b 'ü`"


@pytest.fixture
def table(sql: Sql, tmp_path: Path) -> morrow.Table:
    """Four snapshots: keys 1 and 2, then 2 updated and 3 inserted, then 1 deleted."""
    sql("CREATE TABLE pm.db." + NAME + " (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    made = morrow.Catalog(tmp_path).table("db.a.b 'ü")
    for rows in ({"id": [1], "v": ["a"]}, {"id": [2], "v": ["b"]}, {"id": [2, 3], "v": ["c", "d"]}):
        made.upsert(pa.table(rows))
    made.delete("id = 1")
    return made


@pytest.mark.parametrize(
    ("call", "ids"),
    [
        ("paimon_incremental_query('pm.db.{}', 1, 3)", [2, 2, 3]),
        ("paimon_incremental_query('pm.db.{}', '3', 2 + 2)", []),
        ("paimon_incremental_query('pm.db.{}', 4, 4)", []),
        ("paimon_incremental_query('pm.db.{}', 'first', 'last')", [2, 3]),
        ("paimon_incremental_between_timestamp('pm.db.{}', '0', '{millis}')", [1, 2, 2, 3]),
        ("paimon_incremental_between_timestamp('pm.db.{}', '2020-01-01 00:00:00', '2020-01-02')", []),
        ("paimon_incremental_to_auto_tag('pm.db.{}', '2024-01-01')", []),
        ("pm.db.{} WITH ('incremental-between' = '1,3', 'incremental-between-scan-mode' = 'diff')", [2, 3]),
    ],
)
def test_changes(sql: Sql, table: morrow.Table, call: str, ids: list[int]) -> None:
    table.tags.create("first", 1)
    table.tags.create("last", 4)
    millis = int(dt.datetime.now().timestamp() * 1000)
    asked = call.format(NAME.replace("'", "\\'") if "(" in call.split(" ")[0] else NAME, millis=millis)
    assert sorted(row[0] for row in sql(f"SELECT id FROM {asked} AS c WHERE c.id > 0")) == ids
    assert sql(f"SELECT count(*) FROM {asked}") == [(len(ids),)]


def test_kinds_of_changes(sql: Sql, table: morrow.Table) -> None:
    del table
    changes = "paimon_incremental_query('pm.db.`a.b \\'ü$audit_log`', 2, 4)"
    assert sorted(sql(f"SELECT rowkind, id FROM {changes}")) == [("+I", 2), ("+I", 3), ("-D", 1)]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM paimon_incremental_query('pm.db.{}', 1)", "takes the name of a table and 2 more"),
        ("SELECT * FROM paimon_incremental_query('pm.db.{}', 'x', 2)", "neither two tags nor the ids"),
        ("SELECT * FROM paimon_incremental_query('spark_catalog.default.t', 1, 2)", "of the catalog spark_catalog"),
        ("SELECT * FROM paimon_incremental_query('pm.db.nope', 1, 2)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM paimon_incremental_query('pm..x', 1, 2)", "a name is expected"),
        ("SELECT * FROM range(1) r, LATERAL paimon_incremental_query('pm.db.{}', r.id, 2)", "but constants"),
        ("SELECT pm.sys.max_pt('pm.db.{}')", "it is not partitioned"),
        ("SELECT pm.sys.max_pt('spark_catalog.default.t')", "max_pt of a table of the catalog spark_catalog"),
        ("SELECT pm.sys.max_pt(id || '') FROM pm.db.{}", "^max_pt of anything but the name of a table as a literal"),
    ],
)
def test_refused(sql: Sql, table: morrow.Table, query: str, words: str) -> None:
    del table
    with pytest.raises(Exception, match=words):
        sql(query.format(NAME if query.endswith("{}") else NAME.replace("'", "\\'")))


def test_states(sql: Sql, spark: SparkSession, table: morrow.Table) -> None:
    one = [(1, "a")]
    assert sql(f"SELECT * FROM pm.db.{NAME} WITH ('scan.snapshot-id' = '1')") == one
    assert [tuple(row) for row in spark.read.option("scan.version", "1").table(f"pm.db.{NAME}").collect()] == one
    assert [tuple(row) for row in spark.read.option("versionAsOf", 1).table(f"pm.db.{NAME}").collect()] == one
    for options, words in (
        ("'branch' = 'x'", "the option 'branch' of a read by name"),
        ("'scan.snapshot-id' = '1', 'scan.tag-name' = 'x'", "give only one of"),
        ("'incremental-between' = '1,2', 'scan.snapshot-id' = '1'", "beside 'incremental-between'"),
        ("'incremental-between' = '1'", "is a start and an end"),
        ("'incremental-between' = '1,2', 'incremental-between-scan-mode' = 'x'", "cannot be 'x'"),
    ):
        with pytest.raises(Exception, match=words):
            sql(f"SELECT * FROM pm.db.{NAME} WITH ({options})")
    table.alter.add_column("w", "INT")
    with pytest.raises(Exception, match="with other columns, is not supported; write VERSION AS OF"):
        sql(f"SELECT * FROM pm.db.{NAME} WITH ('scan.snapshot-id' = '1')")


def test_settings_of_the_session(sql: Sql, spark: SparkSession, table: morrow.Table) -> None:
    del table
    conf = {"spark.paimon.scan.snapshot-id": "1", "spark.paimon.*.db.other.scan.snapshot-id": "3"}
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        assert sql(f"SELECT * FROM pm.db.{NAME}") == [(1, "a")]
        assert len(sql(f"SELECT * FROM pm.db.{NAME} VERSION AS OF 2")) == 2
        for change in (f"UPDATE pm.db.{NAME} SET v = 'x'", f"DELETE FROM pm.db.{NAME}"):
            with pytest.raises(Exception, match=r"is not supported; unset spark\.paimon\.scan\.snapshot-id"):
                sql(change)
    finally:
        for name in conf:
            spark.conf.unset(name)
    assert len(sql(f"SELECT * FROM pm.db.{NAME}")) == 2


def follow(spark: SparkSession, table: str) -> None:
    query = spark.readStream.table(table).writeStream.format("memory").queryName("none").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


@pytest.mark.parametrize("key", ["incremental-between", "pm.db.*.incremental-between"])
def test_a_table_whose_changes_are_read_takes_rows(sql: Sql, spark: SparkSession, key: str) -> None:
    sql("CREATE TABLE pm.db.t (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    sql("INSERT INTO pm.db.t VALUES (1, 'a')")
    with settings(spark, {f"spark.paimon.{key}": "0,1"}):
        for change in (
            "DELETE FROM pm.db.t WHERE v = 'a'",
            "DELETE FROM pm.db.t",
            "UPDATE pm.db.t SET v = 'x'",
            "MERGE INTO pm.db.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        ):
            with pytest.raises(
                Exception, match=rf"chooses what is read is not supported; unset spark.paimon.{re.escape(key)}"
            ):
                sql(change)
        sql("INSERT INTO pm.db.t VALUES (2, 'b')")
        with pytest.raises(Exception, match=r"a stream while spark\.paimon"):
            follow(spark, "pm.db.t")
        assert sql("SELECT * FROM pm.db.t") == [(1, "a")]
    assert len(sql("SELECT * FROM pm.db.t")) == 2


AT_ONE = {"spark.paimon.scan.snapshot-id": "1"}


@pytest.mark.parametrize("conf", [AT_ONE, {"spark.paimon.*.db.*.scan.snapshot-id": "1"}])
def test_settings_of_system_tables(
    sql: Sql, spark: SparkSession, table: morrow.Table, tmp_path: Path, conf: dict[str, str]
) -> None:
    del table
    system = NAME[:-1]
    by_path = str(tmp_path / "db.db" / "a.b 'ü")
    with settings(spark, conf):
        for found in ("files", "partitions", "buckets"):
            assert sql(f"SELECT sum(record_count) FROM pm.db.{system}${found}`") == [(1,)]
        assert sql(f"SELECT rowkind, id FROM pm.db.{system}$audit_log`") == [("+I", 1)]
        assert sql(f"SELECT sum(record_count) FROM pm.db.{system}$files` VERSION AS OF 3") == [(4,)]
        assert len(sql(f"SELECT * FROM pm.db.{system}$snapshots`")) == 4  # of all states, as in Paimon
        with pytest.raises(Exception, match=r"a stream while spark\.paimon.* chooses what is read is not supported"):
            follow(spark, f"pm.db.{system}$audit_log`")
        if conf == AT_ONE:
            assert spark.read.format("morrow").load(f"{by_path}$files").count() == 1
            assert spark.read.format("morrow").option("snapshot", 2).load(f"{by_path}$files").count() == 2
    with settings(spark, {"spark.paimon.pm.db.t.scan.snapshot-id": "1"}):
        assert len(sql(f"SELECT * FROM pm.db.{system}$files`")) == 4


def test_changes_that_settings_ask_for_of_system_tables(sql: Sql, spark: SparkSession, table: morrow.Table) -> None:
    del table
    system = NAME[:-1]
    with settings(spark, {"spark.paimon.incremental-between": "2,4"}):
        changed = [("+I", 2), ("+I", 3), ("-D", 1)]
        assert sorted(sql(f"SELECT rowkind, id FROM pm.db.{system}$audit_log`")) == changed
        with pytest.raises(Exception, match=r"one snapshot, while spark\.paimon\.incremental-between chooses"):
            sql(f"SELECT * FROM pm.db.{system}$files`")


def test_which_settings_are_for_a_table() -> None:
    given = {
        "scan.snapshot-id": "1",
        "*.*.a.b.scan.snapshot-id": "2",
        "pm.db.a.b.scan.snapshot-id": "3",
        "pm.other.a.b.scan.tag-name": "x",
        "requiredSparkConfsCheck.enabled": "false",
        "read.batch-size": "64",
        "pm.db.c.source.split.target-size": "1 mb",
    }
    assert options_for(given, "pm", "db", "a.b") == {"scan.snapshot-id": "3"}
    assert options_for(given, "pm", "db2", "a.b") == {"scan.snapshot-id": "2"}
    assert options_for(given, "pm", "db", "c") == {"scan.snapshot-id": "1"}
    with pytest.raises(InvalidArgument, match=r"the setting spark\.paimon\.scan\.snapshot: there is no option"):
        options_for({"scan.snapshot": "1"}, "pm", "db", "t")
    with pytest.raises(Unsupported, match=r"spark\.paimon\.s3\.secret-key, which Spark shows .*; RESET it") as refused:
        options_for({"s3.secret-key": "x4711"}, "pm", "db", "t")
    assert "x4711" not in str(refused.value)


def test_the_greatest_partition(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.p (id INT, `d t` DATE) PARTITIONED BY (`d t`)")
    with pytest.raises(Exception, match="no partition has rows"):
        sql("SELECT pm.sys.max_pt('pm.db.p')")
    sql("INSERT INTO pm.db.p VALUES (1, DATE'2024-01-01'), (2, DATE'2024-02-01'), (3, NULL)")
    assert sql("SELECT id, pm.sys.max_pt('pm.db.p') FROM pm.db.p WHERE `d t` = pm.sys.max_pt('pm.db.p')") == [
        (2, "2024-02-01")
    ]
