"""Aggregates, limits and sizes that Spark is told from metadata."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import morrow
import morrow.spark
from tests.spark.catalogs.conftest import Sql
from tests.support.spark_rows import lines_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = pa.table({"p.q": ["a", "a", None], "v": [1, None, 3], "s": ["x", "y", "z"]})
READS = ("parquet", "MapInArrow")


@pytest.fixture
def table(sql: Sql, tmp_path: Path) -> morrow.Table:
    """``pm.db.t``, two files in partition a and two in that of nulls."""
    assert sql("SHOW TABLES IN pm.db") == []
    made = morrow.Catalog(tmp_path).create_table("db.t", schema="`p.q` STRING, v INT, s STRING", partition_keys=["p.q"])
    made.append(ROWS)
    made.append(ROWS)
    return made


def plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()  # type: ignore[operator]


def reads(spark: SparkSession, statement: str) -> bool:
    """Tells whether a query reads files."""
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
    assert len(spark.sql("SELECT v FROM pm.db.t WHERE `p.q` = 'a' LIMIT 2").inputFiles()) == 2  # a section
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
    with pytest.raises(Exception, match="of partitions is not supported"):
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
