"""Reads of other snapshots by name: options of a read, settings of the session, functions of changes."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.source.settings import find_source_options
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "`a.b 'ü`"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> morrow.Table:
    """Make four snapshots: insert key 1, insert key 2, update key 2 and insert key 3, delete key 1."""
    table = new_table(tmp_path_factory.mktemp("made"), "id INT, v STRING", keys=["id"], name=NAME.strip("`"))
    for rows in ({"id": [1], "v": ["a"]}, {"id": [2], "v": ["b"]}, {"id": [2, 3], "v": ["c", "d"]}):
        table.upsert(pa.table(rows))
    table.delete("id = 1")
    return table


@pytest.fixture
def table(sql: Sql, tmp_path: Path, made: morrow.Table) -> morrow.Table:
    """Copy the table into the catalog of the test."""
    del sql
    shutil.copytree(made.path, tmp_path / "db.db" / Path(made.path).name)
    return morrow.Catalog(tmp_path).table("db.a.b 'ü")


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
        ("'branch' = 'x'", "there is no branch 'x'"),
        ("'scan.snapshot-id' = '1', 'scan.tag-name' = 'x'", "give only one of"),
        ("'incremental-between' = '1,2', 'scan.snapshot-id' = '1'", "beside 'incremental-between'"),
        ("'incremental-between' = '1'", "is a start and an end"),
        ("'incremental-between' = '1,2', 'incremental-between-scan-mode' = 'x'", "cannot be 'x'"),
    ):
        with pytest.raises(Exception, match=words):
            sql(f"SELECT * FROM pm.db.{NAME} WITH ({options})")
    table.branches.create("b")
    table.alter.add_column("w", "INT")
    with pytest.raises(Exception, match="with other columns, is not supported; write VERSION AS OF"):
        sql(f"SELECT * FROM pm.db.{NAME} WITH ('scan.snapshot-id' = '1')")
    with pytest.raises(Exception, match=r"the option 'branch', .* read the table .*\$branch_b by its name"):
        sql(f"SELECT * FROM pm.db.{NAME} WITH ('branch' = 'b')")


def test_settings_of_the_session(sql: Sql, table: morrow.Table) -> None:
    del table
    conf = {"spark.paimon.scan.snapshot-id": "1", "spark.paimon.*.db.other.scan.snapshot-id": "3"}
    try:
        for name, value in conf.items():
            sql(f"SET {name} = {value}")
        assert sql(f"SELECT * FROM pm.db.{NAME}") == [(1, "a")]
        assert len(sql(f"SELECT * FROM pm.db.{NAME} VERSION AS OF 2")) == 2
        for change in (f"UPDATE pm.db.{NAME} SET v = 'x'", f"DELETE FROM pm.db.{NAME}"):
            with pytest.raises(Exception, match=r"is not supported; unset spark\.paimon\.scan\.snapshot-id"):
                sql(change)
    finally:
        for name in conf:
            sql(f"RESET {name}")
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
        assert len(sql(f"SELECT * FROM pm.db.{system}$snapshots`")) == 4  # of all snapshots, as in Paimon
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
        "partition.sink-strategy": "hash",
        "pm.db.c.source.split.target-size": "1 mb",
    }
    assert find_source_options(given, "pm", "db", "a.b") == {"scan.snapshot-id": "3"}
    assert find_source_options(given, "pm", "db2", "a.b") == {"scan.snapshot-id": "2"}
    assert find_source_options(given, "pm", "db", "c") == {"scan.snapshot-id": "1"}
    with pytest.raises(InvalidArgument, match=r"the setting spark\.paimon\.scan\.snapshot: there is no option"):
        find_source_options({"scan.snapshot": "1"}, "pm", "db", "t")
    with pytest.raises(Unsupported, match=r"spark\.paimon\.s3\.secret-key, which Spark shows .*; RESET it") as refused:
        find_source_options({"s3.secret-key": "x4711"}, "pm", "db", "t")
    assert "x4711" not in str(refused.value)


def test_the_greatest_partition(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.p (id INT, `d t` DATE) PARTITIONED BY (`d t`)")
    with pytest.raises(Exception, match="no partition has rows"):
        sql("SELECT pm.sys.max_pt('pm.db.p')")
    sql("INSERT INTO pm.db.p VALUES (1, DATE'2024-01-01'), (2, DATE'2024-02-01'), (3, NULL)")
    morrow.spark.catalog(spark, "other", warehouse=tmp_path / "other")
    assert sql("SELECT other.sys.max_pt('pm.db.p')") == sql("SELECT pm.sys.max_pt('pm.db.p')")
    assert sql("SELECT id, pm.sys.max_pt('pm.db.p') FROM pm.db.p WHERE `d t` = pm.sys.max_pt('pm.db.p')") == [
        (2, "2024-02-01")
    ]


# Writes by name: new columns, overwrites by condition, options of the table for a single write, settings.

MERGES = {"write.merge-schema": "true"}


def test_new_columns(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE pm.db.t (id BIGINT NOT NULL, s STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    rows = spark.sql("SELECT 2.5D AS `neu, $`, 1 AS ID")
    rows.writeTo("pm.db.t").options(**MERGES).append()
    spark.sql("SELECT 2L, 'two', 3D, 'by place' AS extra").write.option("mergeSchema", True).insertInto("pm.db.t")
    rows.selectExpr("3L AS id", "named_struct('a', 1) AS n").write.options(**MERGES).mode("append").saveAsTable(
        "pm.db.t"
    )
    assert sql("SELECT * FROM pm.db.t ORDER BY id") == [
        (1, None, 2.5, None, None),
        (2, "two", 3.0, "by place", None),
        (3, None, None, None, (1,)),
    ]
    with settings(spark, {"spark.paimon.write.merge-schema": "true"}):
        sql("USE pm.db")
        sql("INSERT INTO t BY NAME SELECT named_struct('a', 2, 'b', 3) AS n, 4L AS id")
        sql("INSERT INTO t (id, s) VALUES (5, 'five')")
        sql("USE spark_catalog.default")
        sql("UPDATE pm.db.t SET s = 'six' WHERE id = 6")
    assert sql("SELECT id, s, n FROM pm.db.t WHERE id > 3 ORDER BY id") == [(4, None, (2, 3)), (5, "five", None)]
    with pytest.raises(Exception, match=r"EXTRA_COLUMNS|TOO_MANY_DATA_COLUMNS"):
        rows.selectExpr("id", "1 AS unheard").writeTo("pm.db.t").append()
    with pytest.raises(Exception, match="are there already"):
        spark.sql("SELECT 7L, 's', 3D, 'e', NULL, 1 AS ID").write.options(**MERGES).insertInto("pm.db.t")
    assert sql("SELECT count(*) FROM pm.db.t") == [(5,)]


def test_new_columns_of_a_merge(sql: Sql, spark: SparkSession) -> None:
    keyed = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true')"
    for number, properties in enumerate(("", keyed)):
        table = f"pm.db.t{number}"
        sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, r STRUCT<a: INT>) {properties}")
        sql(f"INSERT INTO {table} VALUES (1, struct(1)), (2, struct(2))")
        data = "SELECT 2L AS id, named_struct('a', 20, 'b', 'x') AS r, 1.5D AS extra UNION ALL SELECT 3L, NULL, 2.5D"
        merge = f"MERGE INTO {table} t USING ({data}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        merge += "WHEN NOT MATCHED THEN INSERT *"
        with settings(spark, {"spark.paimon.write.merge-schema": "true"}):
            assert "would change the table's columns is not supported" in str(sql(f"EXPLAIN {merge}"))
            sql(merge)
            sql(
                f"MERGE INTO {table} t USING (SELECT 1L AS id, 7 AS more, 8 AS unused) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET more = s.more"
            )
        assert sql(f"SELECT id, r.a, r.b, extra, more FROM {table} ORDER BY id") == [
            (1, 1, None, None, 7),
            (2, 20, "x", 1.5, None),
            (3, None, None, 2.5, None),
        ]
        with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
            sql(merge.replace("UPDATE SET *", "UPDATE SET unheard = s.extra"))
    with settings(spark, {"spark.paimon.*.db.t0.write.merge-schema": "true"}):
        sql("MERGE INTO pm.db.t0 t USING (SELECT 9L AS id, 1 AS last) s ON false WHEN NOT MATCHED THEN INSERT *")
    assert sql("SELECT last FROM pm.db.t0 WHERE id = 9") == [(1,)]


def test_members_by_position_and_in_any_case(sql: Sql, spark: SparkSession) -> None:
    nested = "r STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, m MAP<INT, STRUCT<y: INT>>"
    sql(f"CREATE TABLE pm.db.t (id INT, {nested})")
    with settings(spark, {"spark.paimon.write.merge-schema": "true"}):
        sql("INSERT INTO pm.db.t VALUES (1, struct(10, 'p'), array(struct(1)), map(1, struct(2)))")
        with pytest.raises(Exception, match="3 values for the 2 members of 'r', a, b"):
            sql("INSERT INTO pm.db.t VALUES (2, struct(10, 'p', 5), NULL, NULL)")
        data = (
            "named_struct('B', 'q', 'c', 3) AS R, array(named_struct('X', 4)) AS l, map(1, named_struct('Y', 5)) AS M"
        )
        sql(f"INSERT INTO pm.db.t BY NAME SELECT 2 AS ID, {data}")
        with pytest.raises(Exception, match=r"'r\.col2' is a name that Spark has made up"):
            sql("INSERT INTO pm.db.t BY NAME SELECT 3 AS id, struct(id, 'q') AS r FROM (SELECT 1 AS a, 3 AS id)")
        with settings(spark, {"spark.sql.caseSensitive": "true"}), pytest.raises(Exception, match="in case alone"):
            sql("INSERT INTO pm.db.t BY NAME SELECT 3 AS id, named_struct('A', 1) AS r")
    assert sql("SELECT id, r.a, r.b, r.c, l[0].x, m[1].y FROM pm.db.t ORDER BY id") == [
        (1, 10, "p", None, 1, 2),
        (2, None, "q", 3, 4, 5),
    ]
    sql("INSERT INTO pm.db.t SELECT 16777217, NULL, NULL, NULL")
    with pytest.raises(Exception, match=r"16777217 would become 16777216\.0 as FLOAT"):
        sql("ALTER TABLE pm.db.t ALTER COLUMN id TYPE FLOAT")


@pytest.mark.parametrize("keys", ["", "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true')"])
def test_reads_leave_out_files_that_cannot_be_read(sql: Sql, spark: SparkSession, tmp_path: Path, keys: str) -> None:
    sql(f"CREATE TABLE pm.db.t (id INT NOT NULL) {keys}")
    for number in (1, 2, 3):
        sql(f"INSERT INTO pm.db.t VALUES ({number})")
    lost, damaged, _ = sorted(Path(tmp_path, "db.db/t").rglob("data-*.parquet"), key=lambda path: path.stat().st_mtime)
    lost.unlink()
    lasting, reading = "scan.ignore-lost-files", "scan.ignore-corrupt-files"
    assert sql(f"SELECT * FROM pm.db.t WITH ('{lasting}' = 'true') ORDER BY id") == [(2,), (3,)]
    damaged.write_text("damaged")
    with settings(spark, {f"spark.paimon.{lasting}": "true", f"spark.paimon.*.db.t.{reading}": "true"}):
        assert sql("SELECT * FROM pm.db.t") == sql("SELECT max(id) FROM pm.db.t") == [(3,)]
        assert sql("SELECT count(*) FROM pm.db.t") == [(1,)]
        assert sql("SELECT * FROM pm.db.t VERSION AS OF 3 LIMIT 1") == [(3,)]
        with pytest.raises(Exception, match=f"unset spark.paimon.{lasting}"):
            sql("DELETE FROM pm.db.t WHERE id = 3")
    rows = spark.read.format("paimon").option(lasting, "true").option(reading, "true").load(f"{tmp_path}/db.db/t")
    assert [tuple(row) for row in rows.collect()] == [(3,)]
    sql("CREATE TABLE pm.db.copy (id INT)")
    stream = spark.readStream.option(lasting, "true").option(reading, "true").table("pm.db.t")
    query = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query.toTable("pm.db.copy").awaitTermination()
    assert sql("SELECT * FROM pm.db.copy") == [(3,)]
    with pytest.raises(Exception, match="no such file"):
        sql("SELECT * FROM pm.db.t")


def test_reads_see_level_0_of_tables_with_deletion_vectors(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    keys = "'primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true', 'write-only' = 'true'"
    sql(f"CREATE TABLE pm.db.t (id INT) TBLPROPERTIES ({keys})")
    sql("CREATE TABLE pm.db.plain (id INT)")
    sql("INSERT INTO pm.db.t VALUES (1)")
    sql("INSERT INTO pm.db.plain VALUES (2)")
    option = "deletion-vectors.merge-on-read"
    assert sql("SELECT * FROM pm.db.t") == []
    with settings(spark, {f"spark.paimon.{option}": "true"}):
        assert sql("SELECT * FROM pm.db.t UNION ALL SELECT * FROM pm.db.plain") == [(1,), (2,)]
    assert sql(f"SELECT count(*) FROM pm.db.t WITH ('{option}' = 'true')") == [(1,)]
    assert spark.read.format("paimon").option(option, "true").load(f"{tmp_path}/db.db/t").count() == 1


def test_overwrites_by_condition(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE pm.db.t (id INT, p STRING) PARTITIONED BY (p)")
    sql("INSERT INTO pm.db.t VALUES (1, 'a'), (2, 'b''x'), (3, 'c')")
    new = (
        spark.sql("SELECT 9 AS id, 'b\\'x' AS p").write.mode("overwrite").option("replaceWhere", "p > 'a' AND p < 'c'")
    )
    new.insertInto("pm.db.t")
    new.saveAsTable("pm.db.t")
    assert sql("SELECT * FROM pm.db.t ORDER BY id") == [(1, "a"), (3, "c"), (9, "b'x")]
    for option, call, words in (
        ("id > 3", "insertInto", "not a partition column"),
        ("p = 'a'", "insertInto", "does not belong"),
        ("p = ", "saveAsTable", "(?i)syntax"),
        ("nope = 1", "insertInto", "UNRESOLVED_COLUMN"),
    ):
        with pytest.raises(Exception, match=words):
            getattr(new.option("replaceWhere", option), call)("pm.db.t")
    with pytest.raises(Exception, match="a table that is not there"):
        new.saveAsTable("pm.db.other")
    with pytest.raises(Exception, match=r"mode\('overwrite'\)"):
        spark.table("pm.db.t").writeTo("pm.db.t").option("replaceWhere", "p = 'a'").append()
    assert sql("SELECT count(*) FROM pm.db.t") == [(3,)]


def _files(folder: Path) -> list[str]:
    return sorted(file.suffix for file in folder.rglob("data-*"))


def test_options_of_the_table_for_one_write(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.t (id BIGINT NOT NULL) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    table, folder = morrow.Catalog(tmp_path).table("db.t"), tmp_path / "db.db" / "t"
    spark.range(3).writeTo("pm.db.t").option("file.format", "orc").append()
    assert _files(folder) == [".orc"]
    with settings(spark, {"spark.paimon.write-only": "true", "spark.paimon.*.db.t.file.format": "avro"}):
        sql("INSERT INTO pm.db.t VALUES (7)")
        sql("UPDATE pm.db.t SET id = id WHERE id = 7")
        assert sql("SELECT count(*) FROM pm.db.t") == [(4,)]
    assert set(_files(folder)) == {".orc", ".avro"}
    assert "file.format" not in table.options
    morrow.spark.register(spark)
    spark.range(9, 10).write.format("morrow").option("file.format", "avro").mode("append").save(str(folder))
    for key, words in (
        ("bucket", "ALTER TABLE"),
        ("sequence.field", "ALTER TABLE"),
        ("scan.snapshot-id", "ALTER TABLE"),
        ("page-size", "no effect"),
        ("nonsense", "ALTER TABLE"),
        ("target-file-size", "target-file-size"),
    ):
        with pytest.raises(Exception, match=words):
            spark.range(3).writeTo("pm.db.t").option(key, "2 x").append()
    assert table.scan().to_arrow().num_rows == 5


MADE: tuple[Callable[[Any], None], ...] = (
    lambda rows: rows.write.option("primary-key", "id").option("bucket", 2).saveAsTable("pm.db.t"),
    lambda rows: rows.write.option("primary-key", "id").option("bucket", 2).mode("overwrite").saveAsTable("pm.db.t"),
    lambda rows: rows.writeTo("pm.db.t").option("primary-key", "id").option("bucket", "2").createOrReplace(),
)


def test_tables_made_of_rows_have_the_options_of_the_write(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    for make in MADE:
        make(spark.range(3))
        table = morrow.Catalog(tmp_path).table("db.t")
        assert (table.primary_keys, table.options["bucket"], table.scan().to_arrow().num_rows) == (("id",), "2", 3)
        sql("DROP TABLE pm.db.t")


def test_full_scans_are_forbidden(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE pm.db.t (id INT)")
    sql("CREATE TABLE pm.db.p (id INT, p INT) PARTITIONED BY (p)")
    sql("INSERT INTO pm.db.p VALUES (1, 1), (2, 2)")
    with settings(spark, {"spark.paimon.read.allow.fullScan": "false"}):
        assert (sql("SELECT * FROM pm.db.t"), sql("SELECT id FROM pm.db.p WHERE p > 1")) == ([], [(2,)])
        for condition in ("", "WHERE p > 0"):
            with pytest.raises(Exception, match=r"Full scan is not supported\."):
                sql(f"SELECT * FROM pm.db.p {condition}")
