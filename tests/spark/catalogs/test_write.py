"""Rows written by name: INSERT, OVERWRITE, CREATE and REPLACE AS SELECT, and the DataFrame calls of the same."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODE = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "a", 10), (2, "b", 20)], "id INT, p STRING, v INT")


def test_overwrites_replace_what_the_session_says(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE pm.db.t (id INT, p STRING) PARTITIONED BY (p)")
    sql("INSERT INTO pm.db.t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    sql("INSERT OVERWRITE pm.db.t PARTITION (p = 'a') SELECT 4")
    assert sorted(sql("SELECT id FROM pm.db.t")) == [(2,), (3,), (4,)]
    sql(f"SET {MODE} = dynamic")
    try:
        assert "4" in sql("EXPLAIN INSERT OVERWRITE pm.db.t SELECT 40, 'a'")[0][0]
        assert sorted(sql("SELECT id FROM pm.db.t")) == [(2,), (3,), (4,)]  # EXPLAIN does nothing
        sql("INSERT OVERWRITE pm.db.t SELECT id + 1, p FROM pm.db.t WHERE p = 'b'")
    finally:
        spark.conf.unset(MODE)
    assert sorted(sql("SELECT id FROM pm.db.t")) == [(3,), (3,), (4,)]
    sql("INSERT OVERWRITE pm.db.t SELECT id, p FROM pm.db.t WHERE p IS NULL")
    assert sql("SELECT * FROM pm.db.t") == [(3, None)]
    assert sql("SHOW PARTITIONS pm.db.t") == [("p=null",)]
    sql("INSERT OVERWRITE pm.db.t SELECT 1, 'x' WHERE false")
    assert sql("SELECT * FROM pm.db.t") == []


def test_columns_that_a_statement_leaves_out(sql: Sql, tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, s STRING, d DATE", primary_keys=["id"])
    table.alter.set_default("s", "it's")
    table.alter.set_default("d", "2024-02-29")
    sql("INSERT INTO pm.db.t (id) VALUES (1)")
    sql("INSERT INTO pm.db.t VALUES (2, DEFAULT, NULL)")
    # Paimon's writers put the default in place of any null.
    assert sql("SELECT s, CAST(d AS STRING), count(*) FROM pm.db.t GROUP BY ALL") == [("it's", "2024-02-29", 2)]
    with pytest.raises(Exception, match="CANNOT_FIND_DATA"):
        sql("INSERT INTO pm.db.t (s) VALUES ('x')")
    with pytest.raises(Exception, match="NOT_NULL_ASSERT_VIOLATION"):
        sql("INSERT INTO pm.db.t VALUES (NULL, 'x', NULL)")


def test_rows_of_a_table_are_inserted_where_nulls_are_not_allowed(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.strict (id BIGINT NOT NULL, v STRING NOT NULL, w STRING)")
    sql("INSERT INTO pm.db.strict VALUES (1, 'a', 'b')")
    sql("INSERT INTO pm.db.strict SELECT id + 1, v, w FROM pm.db.strict")
    sql("INSERT INTO pm.db.strict SELECT a.* FROM pm.db.strict a JOIN pm.db.strict b ON a.id = b.id WHERE a.id = 2")
    assert sorted(sql("SELECT * FROM pm.db.strict")) == [(1, "a", "b"), (2, "a", "b"), (2, "a", "b")]
    with pytest.raises(Exception, match=r"NOT_NULL|nullable|null"):
        sql("INSERT INTO pm.db.strict SELECT id, w, NULL FROM pm.db.strict UNION ALL SELECT 3, NULL, NULL")


def test_tables_made_of_queries(sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.t TBLPROPERTIES ('primary-key' = 'id') AS SELECT CAST(id AS INT) FROM range(3)")
    assert morrow.Catalog(tmp_path).table("db.t").primary_keys == ("id",)
    sql("CREATE OR REPLACE TABLE pm.db.t AS SELECT id + 1 AS n FROM pm.db.t")
    assert sorted(sql("SELECT n FROM pm.db.t")) == [(1,), (2,), (3,)]
    for start in ("CREATE TABLE pm.db.new", "REPLACE TABLE pm.db.t"):
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            sql(f"{start} AS SELECT 1 / (id - 1) AS x FROM range(3)")
    assert sorted(sql("SELECT n FROM pm.db.t")) == [(1,), (2,), (3,)]
    assert sorted(path.name for path in (tmp_path / "db.db").iterdir()) == ["t"]


def test_write_to(sql: Sql, rows: DataFrame) -> None:
    from pyspark.sql.functions import col, lit

    keyed = rows.writeTo("pm.db.t").using("paimon").partitionedBy(col("p")).tableProperty("primary-key", "id,p")
    keyed.create()
    rows.select("v", "p", "id").withColumn("v", lit(7)).writeTo("pm.db.t").append()
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(1, "a", 7), (2, "b", 7)]
    rows.where("id = 1").withColumn("id", lit(9)).writeTo("pm.db.t").overwritePartitions()
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(2, "b", 7), (9, "a", 10)]
    rows.where("id = 2").writeTo("pm.db.t").overwrite(col("p") == "b")
    assert sorted(sql("SELECT id, v FROM pm.db.t")) == [(2, 20), (9, 10)]
    for condition in (col("v") > 1, col("v") == 1, (col("p") == "a") & (col("p") == "b")):
        with pytest.raises(Exception, match=r"not supported|no partition column|the data has rows of the partition"):
            rows.writeTo("pm.db.t").overwrite(condition)
    with pytest.raises(Exception, match="the option 'bogus' of a write"):
        rows.writeTo("pm.db.t").option("bogus", "1").append()
    rows.select("id").writeTo("pm.db.t").createOrReplace()
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(1,), (2,)]
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        rows.writeTo("pm.db.t").create()


def test_save_as_table_and_insert_into(sql: Sql, rows: DataFrame) -> None:
    rows.write.partitionBy("p").saveAsTable("pm.db.t")
    rows.write.mode("append").partitionBy("p").saveAsTable("pm.db.t")
    rows.write.insertInto("pm.db.t")
    assert sql("SELECT count(*) FROM pm.db.t") == [(6,)]
    rows.write.insertInto("pm.db.t", overwrite=True)
    rows.write.mode("ignore").saveAsTable("pm.db.t")
    assert sql("SELECT count(*) FROM pm.db.t") == [(2,)]
    rows.select("id").write.mode("overwrite").saveAsTable("pm.db.t")
    assert sorted(sql("SELECT id, v FROM pm.db.t")) == [(1, None), (2, None)]


def test_save_as_table_overwrites_rows_and_keeps_the_table(sql: Sql, spark: SparkSession, rows: DataFrame) -> None:
    made = rows.write.format("paimon").partitionBy("p").options(**{"primary-key": "id, p", "bucket": 2})
    for _ in range(2):  # a pipeline that makes its table runs again
        made.mode("overwrite").saveAsTable("pm.db.t")
    other = rows.selectExpr("id + 10 AS id", "p", "v")
    other.where("p = 'a'").write.mode("overwrite").saveAsTable("pm.db.t")
    assert sql("SELECT * FROM pm.db.t") == [(11, "a", 10)]
    assert sql("SELECT count(*) FROM pm.db.t VERSION AS OF 1") == [(2,)]
    with settings(spark, {MODE: "dynamic"}):
        other.selectExpr("id", "'b' AS p", "v").write.mode("overwrite").saveAsTable("pm.db.t")
    assert sql("SELECT id, p FROM pm.db.t ORDER BY id") == [(11, "a"), (11, "b"), (12, "b")]
    shown = sql("SHOW CREATE TABLE pm.db.t")[0][0]
    assert "PARTITIONED BY (p)" in shown and "'primary-key' = 'id,p'" in shown
    again = rows.write.mode("overwrite")
    again.option("mergeSchema", "true").saveAsTable("pm.db.t")
    for change, words in (
        (lambda write: write.option("bucket", 3), "'bucket' = '3', is not supported; writeTo"),
        (lambda write: write.option("primary-key", "id"), "which keeps the table, with 'primary-key' = 'id'"),
        (lambda write: write.partitionBy("v"), "which keeps the table, partitioned by v"),
        (lambda write: write.format("csv"), "a table USING csv"),
        (lambda write: write.option("path", "/tmp/t"), "a LOCATION of its own"),
        (lambda write: write.option("bogus", "1"), "the option 'bogus' of a write"),
        (lambda write: write.bucketBy(2, "id"), "PARTITIONED BY bucket"),
    ):
        with pytest.raises(Exception, match=words):
            change(rows.write.mode("overwrite")).saveAsTable("pm.db.t")
    with pytest.raises(Exception, match=r"TOO_MANY_DATA_COLUMNS|EXTRA_COLUMNS"):
        rows.selectExpr("*", "1 AS more").write.mode("overwrite").saveAsTable("pm.db.t")
    spark.table("pm.db.t").write.mode("overwrite").saveAsTable("pm.db.t")
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(1, "a", 10), (2, "b", 20)]


def test_writers_side_by_side(sql: Sql, rows: DataFrame) -> None:
    sql("CREATE TABLE pm.db.t (id INT, p STRING, v INT)")
    failed: list[BaseException] = []

    def append() -> None:
        try:
            rows.writeTo("pm.db.t").append()
        except BaseException as error:  # noqa: BLE001 - the thread's, for the assertion below
            failed.append(error)

    threads = [threading.Thread(target=append) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, sql("SELECT count(*) FROM pm.db.t")) == ([], [(6,)])


def test_partitions_are_replaced_by_conditions(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.p (id INT, a STRING, b INT) PARTITIONED BY (a, b)")
    sql("INSERT INTO pm.db.p VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', 1), (4, NULL, 3)")
    sql("INSERT INTO pm.db.p REPLACE WHERE a IN ('x', 'z') AND b >= 2 SELECT 22, 'x', 2")
    sql("INSERT INTO pm.db.p REPLACE WHERE a <> 'x' SELECT 6, 'y', 2")
    for condition, words in (
        ("a = 'x' AND b > 0", "not of a = 'x' AND b > 0"),
        ("a = 'x' OR b = 3", "compare partition columns with values"),
        ("id > 1", "'id' is no partition column"),
    ):
        with pytest.raises(Exception, match=words):
            sql(f"INSERT INTO pm.db.p REPLACE WHERE {condition} SELECT 5, 'y', 2")
    assert sorted(sql("SELECT id FROM pm.db.p")) == [(1,), (4,), (6,), (22,)]


def test_partitions_are_dropped_by_the_first_keys(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.p (id INT, a STRING, `b.c` INT, d DATE) PARTITIONED BY (a, `b.c`, d)")
    sql(
        "INSERT INTO pm.db.p VALUES (1, 'x', 1, DATE'2026-01-01'), (2, 'x', 2, DATE'2026-01-01'), "
        "(3, 'y', 1, DATE'2026-01-01'), (4, 'y', 1, NULL), (5, NULL, 1, NULL), (6, 'z', 1, NULL)"
    )
    sql("ALTER TABLE pm.db.p DROP PARTITION (A = 'y', `b.c` = '1'), PARTITION (a = 'nope')")
    assert sorted(sql("SELECT id FROM pm.db.p")) == [(1,), (2,), (5,), (6,)]
    sql("ALTER TABLE pm.db.p DROP IF EXISTS PARTITION (a = NULL), PARTITION (a = 'x', `b.c` = 1, d = '2026-01-01')")
    assert sql("SELECT id, snapshots FROM pm.db.p, (SELECT count(*) AS snapshots FROM pm.db.`p$snapshots`)") == [
        (2, 3),
        (6, 3),
    ]
    for spec, words in (("`b.c` = 1", "must match"), ("a = 'x', no = 1", "PARTITIONS_NOT_FOUND"), ("no = 1", "no")):
        with pytest.raises(Exception, match=words):
            sql(f"ALTER TABLE pm.db.p DROP PARTITION ({spec})")
    sql("TRUNCATE TABLE pm.db.p PARTITION (a = 'x')")
    assert sql("SHOW PARTITIONS pm.db.p PARTITION (a = 'z')") == [("a=z/b.c=1/d=null",)]
    assert sql("SELECT id FROM pm.db.p") == [(6,)]


def test_partitions_of_times_and_booleans(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.p (id INT, a TIMESTAMP, b TIMESTAMP_NTZ, c BOOLEAN) PARTITIONED BY (a, b, c)")
    rows = "(1, TIMESTAMP'2024-11-03 01:30:00', TIMESTAMP_NTZ'1969-12-31 23:59:59.123456', true), (2, NULL, NULL, NULL)"
    sql(f"INSERT INTO pm.db.p VALUES {rows}")
    times = "a = '2024-11-03 01:30:00', b = '1969-12-31 23:59:59.123456'"
    sql(f"INSERT OVERWRITE pm.db.p PARTITION ({times}, c) SELECT 3, true")
    assert sql("SELECT id, c FROM pm.db.p ORDER BY id") == [(2, None), (3, True)]
    sql(f"INSERT OVERWRITE pm.db.p PARTITION ({times}, c = true) SELECT 4")
    assert sql("SELECT id, c FROM pm.db.p ORDER BY id") == [(2, None), (4, True)]
    sql(f"ALTER TABLE pm.db.p DROP PARTITION ({times}, c = true)")
    assert sql("SELECT id FROM pm.db.p") == [(2,)]


def test_overwrites_by_booleans(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE pm.db.p (id INT, ok BOOLEAN) PARTITIONED BY (ok)")
    sql("INSERT INTO pm.db.p VALUES (1, true), (2, false), (3, NULL)")
    sql("INSERT OVERWRITE pm.db.p PARTITION (ok = 'false') VALUES (4)")
    assert sorted(sql("SELECT id FROM pm.db.p")) == [(1,), (3,), (4,)]
    for condition, id in (("ok", 5), ("ok IS TRUE", 6), ("ok <=> true", 7), ("true = ok", 8)):
        sql(f"INSERT INTO pm.db.p REPLACE WHERE {condition} SELECT {id}, true")
        assert sorted(sql("SELECT id FROM pm.db.p")) == [(3,), (4,), (id,)]
    from pyspark.sql.functions import col

    spark.sql("SELECT 9 AS id, false AS ok").writeTo("pm.db.p").overwrite(~col("ok"))
    assert sorted(sql("SELECT id FROM pm.db.p")) == [(3,), (8,), (9,)]
    for condition in ("NOT (ok <=> true)", "ok OR id = 3", "length(CAST(ok AS STRING)) = 4"):
        with pytest.raises(Exception, match="to overwrite where ok meets this condition is not supported; compare"):
            sql(f"INSERT INTO pm.db.p REPLACE WHERE {condition} SELECT 5, false")
    sql("DELETE FROM pm.db.p WHERE NOT ok")
    assert sorted(sql("SELECT id FROM pm.db.p")) == [(3,), (8,)]
