"""Tables read by name: the newest or another snapshot, pushdown of columns and filters, errors."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import morrow
import morrow.spark
from morrow.scans import table_scan
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings
from tests.support.spark_rows import lines_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.engine.plan.metadata import TableMetadata
    from morrow.engine.plan.scan_plan import ScanPlan, ScanRequest

ROWS = pa.table({"id": [1, 2, 3], "v": [10, 20, 30]})


def made(warehouse: Path, name: str = "db.t", **options: str) -> morrow.Table:
    table = morrow.Catalog(warehouse).create_table(
        name, schema="id BIGINT, v BIGINT", primary_keys=["id"], options={"bucket": "2", **options}
    )
    table.upsert(ROWS)
    return table


def test_every_query_has_the_newest_rows(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    frame = spark.table("pm.db.t")
    sql("CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT sum(v) FROM pm.db.t")
    assert sql("SELECT count(*), sum(v) FROM pm.db.t WHERE id > 1") == [(2, 50)]
    table.upsert(pa.table({"id": [3], "v": [33]}))
    assert sql("SELECT sum(v) FROM pm.db.t") == sql("SELECT * FROM seen") == [(63,)]
    assert frame.groupBy().sum("v").collect() == [(60,)]  # a DataFrame keeps its snapshot
    morrow.Catalog(tmp_path).drop_table("db.t")
    made(tmp_path).upsert(pa.table({"id": [1], "v": [0]}))
    assert sql("SELECT sum(v) FROM pm.db.t") == [(50,)]
    with pytest.raises(Exception, match=r"SnapshotExpired|FileMissing"):
        frame.collect()
    sql("DROP VIEW seen")


def test_a_cached_table_is_refreshed(sql: Sql, tmp_path: Path) -> None:
    table = made(tmp_path)
    sql("CACHE TABLE pm.db.t")
    table.upsert(pa.table({"id": [3], "v": [33]}))
    sql("REFRESH TABLE pm.db.t")
    assert sql("SELECT sum(v) FROM pm.db.t") == [(63,)]
    sql("INSERT INTO pm.db.t VALUES (3, 34)")
    assert sql("SELECT sum(v) FROM pm.db.t") == [(64,)]
    sql("UNCACHE TABLE pm.db.t")
    for before, now, name in (("t", "pm.db.u", "u"), ("u", "w", "w")):
        sql(f"CACHE TABLE pm.db.{before}")
        count = sql(f"SELECT count(*) FROM pm.db.{before}")
        sql(f"ALTER TABLE pm.db.{before} RENAME TO {now}")
        assert sql(f"SELECT count(*) FROM pm.db.{name}") == count
        sql(f"UNCACHE TABLE IF EXISTS pm.db.{name}")


def test_states_branches_and_system_tables(sql: Sql, tmp_path: Path) -> None:
    table = made(tmp_path)
    table.tags.create("first")
    table.upsert(pa.table({"id": [1], "v": [11]}))
    table.branches.create("dev", tag="first")
    newest = table.snapshots()[-1].time_millis / 1000
    one = "SELECT v FROM pm.db.t {} WHERE id = 1"
    assert [sql(one.format(f"VERSION AS OF {at}")) for at in ("1", "'first'", "2")] == [[(10,)], [(10,)], [(11,)]]
    assert sql(one.format(f"TIMESTAMP AS OF {newest + 1}")) == [(11,)]
    assert sql("SELECT v FROM pm.db.`t$branch_dev` WHERE id = 1") == [(10,)]
    assert sql("SELECT snapshot_id FROM pm.db.`t$snapshots` WHERE snapshot_id > 1") == [(2,)]
    assert sql("SELECT count(*) FROM pm.db.`t$files` VERSION AS OF 1") == [(2,)]
    assert sql("SELECT rowkind, v FROM pm.db.`t$audit_log` WHERE id = 1") == [("+I", 11)]
    assert sql("SELECT table_name FROM pm.sys.all_tables") == [("t",)]


def test_joins_of_a_table_with_itself_and_subqueries(sql: Sql, tmp_path: Path) -> None:
    made(tmp_path)
    assert sql("SELECT a.v, b.v FROM pm.db.t a JOIN pm.db.t b ON a.id = b.id + 1 WHERE b.id = 1") == [(20, 10)]
    assert sql("SELECT v FROM pm.db.t WHERE id = (SELECT max(id) FROM pm.db.t)") == [(30,)]
    assert sql("SELECT v FROM pm.db.t t WHERE EXISTS (SELECT 1 FROM pm.db.t s WHERE s.id = t.id + 2)") == [(10,)]
    assert sql("WITH q AS (SELECT v FROM pm.db.t WHERE v < 30) SELECT count(*) FROM q a, q b") == [(4,)]
    assert len(sql("SELECT * FROM pm.db.t LIMIT 2")) == 2


def test_columns_and_filters_reach_the_files(sql: Sql, tmp_path: Path) -> None:
    morrow.Catalog(tmp_path).create_table("db.a", schema="id BIGINT, v BIGINT").append(ROWS)
    plan = sql("EXPLAIN SELECT v FROM pm.db.a WHERE v > 15")[0][0]
    assert "ReadSchema: struct<v:bigint>" in plan and "GreaterThan(v,15)" in plan
    assert "FileScan" not in sql("EXPLAIN SELECT v FROM pm.db.a WHERE v > 100")[0][0]  # pruned by Morrow's statistics
    assert sql("SELECT input_file_name() <> '' FROM pm.db.a LIMIT 1") == [(True,)]


def test_parts_of_nested_columns(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.n (id BIGINT, many ARRAY<STRUCT<x: INT, y: STRING>>, one STRUCT<x: INT, y: STRING>)")
    sql("INSERT INTO pm.db.n VALUES (1, array(named_struct('x', 7, 'y', 'a')), named_struct('x', 8, 'y', 'b'))")
    assert sql("SELECT many[0].y, many.y, one.y FROM pm.db.n WHERE one.y = 'b'") == [("a", ["a"], "b")]
    assert sql("SELECT one.x, id FROM pm.db.n WHERE many[0].x = 7") == [(8, 1)]


def test_hostile_names_of_columns_and_tables(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.`a.b c` (`*` INT, `a.b` INT, `a``b` INT, `^x$` INT, `Up` INT)")
    sql("INSERT INTO pm.db.`a.b c` VALUES (1, 2, 3, 4, 5), (10, 20, 30, 40, 50)")
    assert sql("SELECT `a``b`, up FROM pm.db.`a.b c` WHERE `a.b` > 5 AND `^x$` = 40 AND `*` IN (10, 11)") == [(30, 50)]
    assert sql("SELECT `*` FROM pm.db.`a.b c` WHERE NOT (`a.b` = 20 OR `a``b` > 30)") == [(1,)]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_of_all_types_filtered(sql: Sql, spark: SparkSession, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    values = {
        "d DECIMAL(10, 2)": "1.25",
        "dt DATE": "DATE'2024-02-29'",
        "old DATE": "DATE'1066-10-14'",
        "ts TIMESTAMP": "TIMESTAMP'2024-03-10 06:30:00 UTC'",
        "tn TIMESTAMP_NTZ": "TIMESTAMP_NTZ'2024-03-10 02:30:00'",
        "v VARCHAR(3)": "'xyz'",
        "c CHAR(5)": "'ab'",
        "f FLOAT": "CAST('NaN' AS FLOAT)",
        "b BINARY": "X'00ff'",
        "s STRUCT<a: INT, l: ARRAY<STRING>>": "named_struct('a', 1, 'l', array('q', CAST(NULL AS STRING)))",
        "m MAP<STRING, INT>": "map('k', 1)",
    }
    try:
        sql(f"CREATE TABLE pm.db.all ({', '.join(values)})")
        sql(f"INSERT INTO pm.db.all VALUES ({', '.join(values.values())})")
        same = [f"{column.split()[0]} = {value}" for column, value in list(values.items())[:-2]]
        assert len(sql(f"SELECT * FROM pm.db.all WHERE {' AND '.join(same)}")) == 1
        assert sql("SELECT s.a, s.l[0], m['k'], c FROM pm.db.all WHERE s.a = 1") == [(1, "q", 1, "ab   ")]
        assert sql("SELECT CAST(tn AS STRING) FROM pm.db.all") == [("2024-03-10 02:30:00",)]
        with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
            sql("INSERT INTO pm.db.all (c) VALUES ('toolong')")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_what_is_not_there(sql: Sql) -> None:
    for name in ("db.nope", "nope.t", "`a.b`.t", "db.`t$nope`", "db.`$`"):
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql(f"SELECT * FROM pm.{name}")
    sql("CREATE TABLE pm.db.t (id INT)")
    sql("INSERT INTO pm.db.t VALUES (1)")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM pm.db.`t$branch_nope`")
    with pytest.raises(Exception, match=r"TagNotFound: .*there is no tag 'v9'") as raised:
        sql("SELECT * FROM pm.db.t VERSION AS OF 'v9'")
    assert "\n" not in str(raised.value).strip()


def test_two_catalogs_threads_and_sessions(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    made(tmp_path)
    morrow.spark.catalog(spark, "other", warehouse=tmp_path)
    assert sql("SELECT count(*) FROM pm.db.t a JOIN other.db.t b ON a.id = b.id") == [(3,)]
    held: list[object] = []
    thread = threading.Thread(target=lambda: held.extend(sql("SELECT count(*) FROM pm.db.t")))
    thread.start()
    thread.join()
    session = spark.newSession()
    morrow.spark.catalog(session, "pm", warehouse=tmp_path)
    assert held == [(3,)] == [tuple(row) for row in session.sql("SELECT count(*) FROM pm.db.t").collect()]


def test_a_frame_of_a_catalog_that_went_elsewhere(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.t (id INT)")
    frame = spark.table("pm.db.t")
    made(tmp_path / "elsewhere")
    morrow.spark.catalog(spark, "pm", warehouse=tmp_path / "elsewhere")
    with pytest.raises(Exception, match=r"is no longer db\.t; make the DataFrame again"):
        frame.collect()


# Aggregates, limits and sizes that Spark gets from metadata.

SUMMED_ROWS = pa.table({"p.q": ["a", "a", None], "v": [1, None, 3], "s": ["x", "y", "z"]})
READS = ("parquet", "MapInArrow")


@pytest.fixture
def table(sql: Sql, tmp_path: Path) -> morrow.Table:
    """Create ``pm.db.t`` with two files in partition a and two in the null partition."""
    assert sql("SHOW TABLES IN pm.db") == []
    made = morrow.Catalog(tmp_path).create_table("db.t", schema="`p.q` STRING, v INT, s STRING", partition_keys=["p.q"])
    made.append(SUMMED_ROWS)
    made.append(SUMMED_ROWS)
    return made


def plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()  # type: ignore[operator]


def reads(spark: SparkSession, statement: str) -> bool:
    """Return whether a query reads files."""
    return any(word in str(plan(spark.sql(statement)).toString()) for word in READS)


@pytest.mark.usefixtures("table")
def test_aggregates_that_metadata_tells_read_no_files(sql: Sql, spark: SparkSession) -> None:
    told = {
        "SELECT count(*), count(v), min(v), max(v), max(`p.q`) FROM pm.db.t": [(6, 4, 1, 3, "a")],
        "SELECT count(*) + 1 AS n FROM pm.db.t WHERE `p.q` = 'a' HAVING n > 1": [(5,)],
        "SELECT `p.q`, count(*), max(v) FROM pm.db.t GROUP BY 1 ORDER BY 1": [(None, 2, 3), ("a", 4, 1)],
        "SELECT * FROM (SELECT count(*) AS c FROM pm.db.t) JOIN (SELECT count(*) + 0 AS c FROM pm.db.t) USING (c)": [
            (6,)
        ],
        "SELECT count(*) FROM pm.db.t VERSION AS OF 1": [(3,)],
    }
    for statement, rows in told.items():
        assert (sql(statement), reads(spark, statement)) == (rows, False), statement
    read = {
        "SELECT max(s) FROM pm.db.t": [("z",)],
        "SELECT count(*) FROM pm.db.t WHERE v > 1": [(2,)],
        "SELECT count(DISTINCT v) FROM pm.db.t": [(2,)],
        "SELECT count(*) FROM (SELECT * FROM pm.db.t LIMIT 5)": [(5,)],
        "SELECT count(*) FROM pm.db.t WHERE upper(`p.q`) = 'A'": [(4,)],
    }
    for statement, rows in read.items():
        assert (sql(statement), reads(spark, statement)) == (rows, True), statement


@pytest.mark.usefixtures("table")
def test_an_aggregate_of_all_rows_is_a_row_if_no_column_of_it_is_used(spark: SparkSession) -> None:
    relations = (
        "SELECT sum(v) FROM pm.db.t",
        "SELECT max(v), count(*) FROM pm.db.t WHERE `p.q` = 'none'",
        "SELECT count(*) FROM pm.db.t VERSION AS OF 1",
    )
    forms = ("SELECT count(*) FROM ({})", "SELECT count(*) FROM pm.db.t WHERE EXISTS ({})")
    frames = [spark.sql(form.format(relation)) for relation in relations for form in forms]
    frames += [spark.sql(f"SELECT count(*) FROM ({relations[0]}) CROSS JOIN ({relations[1]})")]
    assert [lines.popitem()[0] for lines in lines_of(frames) if isinstance(lines, Counter)] == [
        '{"c0":1}',
        '{"c0":6}',
        '{"c0":1}',
        '{"c0":6}',
        '{"c0":1}',
        '{"c0":6}',
        '{"c0":1}',
    ]


def test_a_limit_leaves_files_unread(sql: Sql, spark: SparkSession, table: morrow.Table) -> None:
    assert len(sql("SELECT v FROM pm.db.t LIMIT 5")) == 5
    assert len(spark.sql("SELECT v FROM pm.db.t WHERE `p.q` = 'a' LIMIT 2").inputFiles()) == 2  # one section of files
    assert len(morrow.spark.read(spark, table.path).inputFiles()) == 4


def test_analyze_commits_what_spark_measures(sql: Sql, table: morrow.Table) -> None:
    def stored() -> Any:
        return table.system("statistics").to_arrow().to_pylist()[0]["colstat"]

    table.analyze(None)
    local = stored()
    assert sql("ANALYZE TABLE pm.db.t COMPUTE STATISTICS FOR ALL COLUMNS") == []
    assert stored() == local
    sql("ANALYZE TABLE pm.db.t COMPUTE STATISTICS FOR COLUMNS `P.q`, v")
    assert set(json.loads(stored())) == {"p.q", "v"}
    with pytest.raises(Exception, match="Analyze table partition is not supported"):
        sql("ANALYZE TABLE pm.db.t PARTITION (`p.q` = 'a') COMPUTE STATISTICS")


def test_the_planner_knows_sizes(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.o", schema="id BIGINT, s STRING", options={"file.format": "orc"})
    table.append(pa.table({"id": range(100), "s": ["abc"] * 100}))
    for frame in (morrow.spark.read(spark, table.path), morrow.spark.read(spark, table.path + "$snapshots")):
        assert 0 < plan(frame).stats().sizeInBytes() < 10_000
    join = spark.table("pm.db.o").join(spark.table("pm.db.o"), "id")
    assert "BroadcastHashJoin" in join._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    before = spark.sql("SELECT * FROM pm.db.o")._jdf.queryExecution().analyzed().toString()  # type: ignore[operator]
    assert "RelationV2" in before
    shown = sql("EXPLAIN COST SELECT id FROM pm.db.o WHERE s = 'abc'")[0][0]
    assert "EiB" not in shown


BUCKETED = {"spark.sql.sources.v2.bucketing.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "-1"}


def find_steps(spark: SparkSession, statement: str) -> list[str]:
    """Return the shuffles and sorts in the plan of a query."""
    made = spark.sql(statement)._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    return re.findall(r"\b(?:Exchange|Sort)\b", made)


def test_joins_by_bucket_need_no_shuffle(sql: Sql, spark: SparkSession) -> None:
    for name, options in (
        ("a", "'primary-key' = 'id', 'deletion-vectors.enabled' = 'true'"),
        ("b", "'bucket-key' = 'id'"),
    ):
        sql(f"CREATE TABLE pm.db.{name} (id INT, v STRING) TBLPROPERTIES ({options}, 'bucket' = '3')")
        sql(f"INSERT INTO pm.db.{name} SELECT id, concat('{name}', id) FROM range(-9, 9)")
        sql(f"INSERT INTO pm.db.{name} SELECT id, 'new' FROM range(5, 20, 3)")
    joined = "SELECT a.id, a.v, b.v FROM pm.db.a JOIN pm.db.b ON a.id = b.id"
    grouped = "SELECT id, max(v) FROM pm.db.a WHERE id > 3 GROUP BY id"
    rows = {query: Counter(sql(query)) for query in (joined, grouped)}
    with settings(spark, BUCKETED):
        assert {query: Counter(sql(query)) for query in rows} == rows
        assert find_steps(spark, joined) == ["Sort", "Sort"]
        assert find_steps(spark, grouped) == ["Sort"]
        sql("CALL pm.sys.compact(table => 'db.a', compact_strategy => 'full')")
        assert find_steps(spark, grouped) == []  # each bucket is one file, in the order of its keys
        sql("ALTER TABLE pm.db.b SET TBLPROPERTIES ('bucket' = '2')")
        assert find_steps(spark, joined) == ["Sort"]  # its files still have three buckets
        sql("CALL pm.sys.rescale(table => 'db.b', bucket_num => 2)")
        assert find_steps(spark, joined) == ["Sort", "Exchange"] * 2
        assert {query: Counter(sql(query)) for query in rows} == rows


def test_other_queries_are_not_read_by_bucket(sql: Sql, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket is one partition: other joins and groups would lose tasks. A read is planned once."""
    plan = table_scan.plan_scan
    planned: list[ScanRequest] = []

    def plan_scan(metadata: TableMetadata, request: ScanRequest, *others: Any) -> ScanPlan:
        planned.append(request)
        return plan(metadata, request, *others)

    monkeypatch.setattr(table_scan, "plan_scan", plan_scan)
    sql("CREATE TABLE pm.db.a (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO pm.db.a SELECT id, id % 2 FROM range(9)")
    planned.clear()
    counts = []
    for query, is_by_bucket in (
        ("SELECT id, count(*) FROM pm.db.a GROUP BY id", True),
        ("SELECT v, count(*) FROM pm.db.a GROUP BY v", False),
        ("SELECT sum(v + 1) FROM pm.db.a", False),
        ("SELECT a.id FROM pm.db.a AS a JOIN range(3) AS b ON a.v = b.id", False),
    ):
        with settings(spark, BUCKETED):
            shown = spark.sql(query)._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
        assert ("BatchScan" in shown) is is_by_bucket, query
        counts.append(len(planned))
        planned.clear()
    assert counts == [1, 0, 0, 1]  # the same files are not planned again, others are: b.id is not null


@pytest.mark.usefixtures("sql")
def test_options_name_a_table_of_a_catalog(spark: SparkSession, tmp_path: Path) -> None:
    path, named = made(tmp_path).path, {"catalog": "pm", "database": "db", "table": "t"}
    for options, load in ((named, (path,)), (named, ()), ({"catalog": "pm"}, (path,))):
        spark.createDataFrame([(4, 40)], "id BIGINT, v BIGINT").write.format("paimon").options(**options).mode(
            "append"
        ).save(*load)
        reader = spark.read.format("paimon").options(**options)
        assert sorted(map(tuple, reader.load(*load).collect())) == [(1, 10), (2, 20), (3, 30), (4, 40)]
        assert reader.option("scan.snapshot-id", "1").load(*load).count() == 3
    with pytest.raises(Exception, match="needs the options 'database' and 'table'"):
        spark.read.format("paimon").option("catalog", "pm").load()
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.read.format("paimon").options(**{**named, "table": "none"}).load(path)
