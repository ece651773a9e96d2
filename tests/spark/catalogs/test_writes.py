"""Rows written by name: INSERT, OVERWRITE, CREATE and REPLACE AS SELECT, and the equivalent DataFrame calls."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import morrow
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS = ("rows_added", "rows_updated", "rows_deleted")
MODE = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "a", 10), (2, "b", 20)], "id INT, p STRING, v INT")


def test_overwrites_replace_what_the_session_says(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    done = "TBLPROPERTIES ('partition.end-input-to-done' = 'true')"
    sql(f"CREATE TABLE pm.db.t (id INT, p STRING) PARTITIONED BY (p) {done}")
    sql("INSERT INTO pm.db.t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    marks = {path.parent.name: path for path in (tmp_path / "db.db" / "t").glob("p=*/_SUCCESS")}
    assert sorted(marks) == ["p=__DEFAULT_PARTITION__", "p=a", "p=b"]
    for path in marks.values():
        path.unlink()
    sql("INSERT OVERWRITE pm.db.t PARTITION (p = 'a') SELECT 4")
    assert {name for name, path in marks.items() if path.exists()} == {"p=a"}
    assert sorted(sql("SELECT id FROM pm.db.t")) == [(2,), (3,), (4,)]
    sql(f"SET {MODE} = dynamic")
    try:
        assert "4" in sql("EXPLAIN INSERT OVERWRITE pm.db.t SELECT 40, 'a'")[0][0]
        assert sorted(sql("SELECT id FROM pm.db.t")) == [(2,), (3,), (4,)]  # EXPLAIN writes nothing
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
    # Like Paimon's writers, replace every null by the default.
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
        with pytest.raises(Exception, match=r"not supported|not a partition column|the data has rows of the partition"):
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
    for _ in range(2):  # a pipeline that creates its table may run again
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
        (lambda write: write.bucketBy(2, "id"), r"partition transform: bucket\(2, id\)"),
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
        except BaseException as error:  # noqa: BLE001 - raised in the thread, checked below
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
        ("id > 1", "'id' is not a partition column"),
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


# DELETE, UPDATE and MERGE by name: their effects and their errors.

ROWS = pa.table({"id": [1, 2, 3, 4], "v": [10, 20, None, 40], "s": ["a", "b", "c", None]})
SCHEMA = "id BIGINT, v BIGINT, s STRING"


def made(warehouse: Path, schema: str = SCHEMA, rows: pa.Table = ROWS, **options: object) -> morrow.Table:
    table = morrow.Catalog(warehouse).create_table(
        "db.t", schema=schema, primary_keys=options.pop("primary_keys", ["id"]), options={"bucket": "2", **options}
    )
    table.upsert(rows)
    return table


def left(sql: Sql) -> list[tuple[object, ...]]:
    return sorted(sql("SELECT id, v, s FROM pm.db.t"), key=lambda row: row[0])


@pytest.mark.parametrize(
    ("condition", "deleted"),
    [
        ("NOT v > 15", [1]),
        ("v <=> NULL OR S = 'a'", [1, 3]),
        ("id IN (SELECT id + 1 FROM pm.db.t WHERE v = 10)", [2]),
        ("false", []),
        ("true", [1, 2, 3, 4]),
    ],
)
def test_delete(sql: Sql, tmp_path: Path, condition: str, deleted: list[int]) -> None:
    table = made(tmp_path)
    sql(f"EXPLAIN DELETE FROM pm.db.t WHERE {condition}")
    assert len(table.snapshots()) == 1
    sql(f"DELETE FROM pm.db.t WHERE {condition}")
    assert [row[0] for row in left(sql)] == [id for id in (1, 2, 3, 4) if id not in deleted]
    assert len(table.snapshots()) == (2 if deleted else 1)


def test_a_delete_of_no_rows_makes_a_snapshot_if_a_setting_says_so(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE pm.db.t AS SELECT 1 AS id")
    for ignores, snapshots in (("true", 1), ("false", 2)):
        with settings(spark, {"spark.paimon.snapshot.ignore-empty-commit": ignores}):
            sql("DELETE FROM pm.db.t WHERE id = 2")
        assert sql("SELECT count(*) FROM pm.db.`t$snapshots`") == [(snapshots,)]


def test_rows_of_a_view_are_not_deleted(sql: Sql, tmp_path: Path) -> None:
    made(tmp_path)
    sql("CREATE OR REPLACE TEMPORARY VIEW some AS SELECT id + 1 AS id, v FROM pm.db.t WHERE v > 10")
    for statement in ("DELETE FROM some", "DELETE FROM some WHERE id = 3"):
        with pytest.raises(Exception, match="or of a table that nobody writes, is not supported"):
            sql(statement)
    sql("DROP VIEW some")
    assert len(left(sql)) == 4


def test_update(sql: Sql, tmp_path: Path) -> None:
    table = made(tmp_path)
    sql("EXPLAIN UPDATE pm.db.t SET v = 0")
    sql("UPDATE pm.db.t SET V = v + 1, s = upper(s), id = id WHERE id <> 2")
    assert left(sql) == [(1, 11, "A"), (2, 20, "b"), (3, None, "C"), (4, 41, None)]
    sql("UPDATE pm.db.t SET v = (SELECT max(v) FROM pm.db.t), s = DEFAULT WHERE s IN (SELECT * FROM VALUES ('b'))")
    assert left(sql)[1] == (2, 41, None)
    sql("UPDATE pm.db.t SET v = 1 WHERE v > 1000")
    assert len(table.snapshots()) == 3
    with pytest.raises(Exception, match="UPDATE would change 'id', which is part of the primary key"):
        sql("UPDATE pm.db.t SET id = id + 1 WHERE id = 1")
    with pytest.raises(Exception, match="CAST_OVERFLOW_IN_TABLE_INSERT"):
        sql("UPDATE pm.db.t SET v = v / (id - 1)")
    assert len(table.snapshots()) == 3


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_rows_of_one_key_in_several_partitions(sql: Sql, tmp_path: Path, engine: str) -> None:
    """With fixed buckets, several partitions, also the null partition, can have a row of the same key."""
    options = {"bucket": 2, "merge-engine": engine}
    if engine == "partial-update":
        options["partial-update.remove-record-on-delete"] = True
    rows = {"id": [1, 1, 1, 2], "v": [0, 0, 0, 0], "s": ["a", "b", None, "a"]}
    table = new_table(tmp_path, SCHEMA, keys=["id"], by=["s"], options=options)
    table.upsert(rows)
    sql("DELETE FROM pm.db.t WHERE id = 1 AND s IS NULL AND v < 5")
    sql("UPDATE pm.db.t SET v = 7 WHERE id = 1 AND s = 'a'")
    assert sorted(left(sql)) == [(1, 0, "b"), (1, 7, "a"), (2, 0, "a")]
    with pytest.raises(Exception, match="UPDATE of the partition column 's', which would not move the row,"):
        sql("UPDATE pm.db.t SET s = 'z' WHERE id = 1")
    sql(
        "MERGE INTO pm.db.t t USING (SELECT 1L id) x ON t.id = x.id WHEN MATCHED AND t.s = 'b' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET id = x.id, v = 8"
    )
    assert sorted(left(sql)) == [(1, 8, "a"), (2, 0, "a")]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
def test_char_keys_that_another_writer_has_not_padded(sql: Sql, tmp_path: Path, engine: str) -> None:
    removes = {"partial-update.remove-record-on-delete": "true"} if engine == "partial-update" else {}
    options = ", ".join(f"'{key}' = '{value}'" for key, value in {"merge-engine": engine, **removes}.items())
    sql(
        "CREATE TABLE pm.db.t (k CHAR(3) NOT NULL, n INT NOT NULL, v INT) "
        f"TBLPROPERTIES ('primary-key' = 'k,n', 'bucket' = '1', {options})"
    )
    table = morrow.Catalog(tmp_path).table("db.t")
    table.upsert({"k": ["a", "b  ", "c", "d", "e"], "n": [1, 1, 1, 1, 1], "v": [1, 2, 3, 4, 5]})
    sql("DELETE FROM pm.db.t WHERE k = 'a'")
    sql("DELETE FROM pm.db.t WHERE k IN (SELECT 'b  ' UNION ALL SELECT 'c  ')")
    assert sorted(tuple(row.values()) for row in table.scan().rows()) == [("d", 1, 4), ("e", 1, 5)]
    if engine != "first-row":
        sql("UPDATE pm.db.t SET v = v + 10 WHERE k = 'd'")
        assert sorted(tuple(row.values()) for row in table.scan().rows()) == [("d", 1, 14), ("e", 1, 5)]
        sql(
            "MERGE INTO pm.db.t t USING (SELECT * FROM VALUES ('d  '), ('e  '), ('f  ') AS x(k)) s ON t.k = s.k "
            "WHEN MATCHED AND v = 14 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 0 "
            "WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 1)"
        )
        assert sorted(tuple(row.values()) for row in table.scan().rows()) == [("e", 1, 0), ("f  ", 1, None)]
        table.upsert({"k": ["f"], "n": [1], "v": [1]})
        for statement in ("UPDATE pm.db.t SET v = 9 WHERE k = 'f'", "DELETE FROM pm.db.t WHERE k = 'f'"):
            with pytest.raises(Exception, match="two keys differ only in the padding of CHAR values"):
                sql(statement)


MERGE = "MERGE INTO pm.db.t t USING (SELECT * FROM VALUES {} AS x(id, v)) s ON {} "


def test_merge_of_all_clauses(sql: Sql, tmp_path: Path) -> None:
    table = made(tmp_path)
    merge = MERGE.format("(1L, 100L), (2, NULL), (5, 50), (6, NULL)", "t.id = s.id") + (
        "WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.v "
        "WHEN NOT MATCHED AND s.v > 0 THEN INSERT (id, v) VALUES (s.id, s.v) "
        "WHEN NOT MATCHED BY SOURCE AND t.s = 'c' THEN UPDATE SET s = 'alone' WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    sql(f"EXPLAIN {merge}")
    assert len(table.snapshots()) == 1
    sql(merge)
    assert left(sql) == [(1, 110, "a"), (3, None, "alone"), (5, 50, None)]
    assert len(table.snapshots()) == 2


def test_merge_of_stars_keys_and_several_matches(sql: Sql, tmp_path: Path) -> None:
    table = made(tmp_path)
    sql(
        "MERGE INTO pm.db.t USING (SELECT id + 3 AS id, v, s FROM pm.db.t) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert [row[:2] for row in left(sql)] == [(1, 10), (2, 20), (3, None), (4, 10), (5, 20), (6, None), (7, 40)]
    sql(MERGE.format("(1L, 7L)", "t.id <=> s.id AND t.s <=> NULL") + "WHEN MATCHED THEN DELETE")
    sql(MERGE.format("(1L, 7L), (8L, 8L)", "t.id = s.id") + "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (id, v)")
    assert len(table.snapshots()) == 3
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        sql(MERGE.format("(1L, 7L), (1L, 8L)", "t.id = s.id") + "WHEN MATCHED THEN UPDATE SET v = s.v")
    with pytest.raises(Exception, match="MERGE would change 'id'"):
        sql(MERGE.format("(1L, 7L)", "t.id = s.id + 1") + "WHEN MATCHED THEN UPDATE SET id = s.id")
    assert len(table.snapshots()) == 3


def test_schema_evolution(sql: Sql, tmp_path: Path) -> None:
    made(tmp_path)
    sql("CREATE TABLE pm.db.a (id BIGINT, s STRUCT<x: INT>)")
    sql("INSERT INTO pm.db.a VALUES (1, struct(1)), (2, NULL)")
    source = (
        "(SELECT 1L AS id, 5000000000 AS v, 's' AS s, 3 AS extra UNION ALL SELECT 9L, 9L, 'n', 9) s ON t.id = s.id "
    )
    stars = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    explained = sql(f"EXPLAIN MERGE WITH SCHEMA EVOLUTION INTO pm.db.t t USING {source} {stars}")
    assert "EXPLAIN WITH SCHEMA EVOLUTION is not supported" in str(explained)
    assert morrow.Catalog(tmp_path).table("db.t").schema.names == ["id", "v", "s"]
    sql(f"MERGE WITH SCHEMA EVOLUTION INTO pm.db.t t USING {source} {stars}")
    sql("INSERT WITH SCHEMA EVOLUTION INTO pm.db.t BY NAME SELECT 10L AS id, DATE'2026-01-02' AS `d.ü`")
    found = sql("SELECT id, v, extra, CAST(`d.ü` AS STRING) FROM pm.db.t WHERE id <> 3 ORDER BY id")
    expected = [(1, 5_000_000_000, 3, None), (2, 20, None, None), (4, 40, None, None), (9, 9, 9, None)]
    assert found == [*expected, (10, None, None, "2026-01-02")]
    sql(
        "MERGE WITH SCHEMA EVOLUTION INTO pm.db.a t USING (SELECT 2L AS id, struct(7 AS x, 8 AS y) AS s, 1 AS unused) "
        "s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = s.s"
    )
    assert sorted(sql("SELECT id, s.x, s.y FROM pm.db.a")) == [(1, 1, None), (2, 7, 8)]
    assert morrow.Catalog(tmp_path).table("db.a").schema.names == ["id", "s"]


def test_cached_tables(sql: Sql, tmp_path: Path) -> None:
    made(tmp_path)
    sql("CACHE TABLE pm.db.t")
    try:
        sql("DELETE FROM pm.db.t WHERE id = 1")
        sql("UPDATE pm.db.t SET v = 0 WHERE id = 2")
        assert left(sql)[0] == (2, 0, "b")
        with pytest.raises(Exception, match="into a cached table is not supported; UNCACHE TABLE first"):
            sql(MERGE.format("(9L, 9L)", "t.id = s.id") + "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
        sql("DELETE FROM pm.db.t")
        assert left(sql) == []
    finally:
        sql("UNCACHE TABLE pm.db.t")


@pytest.mark.parametrize("keyed", [True, False])
def test_statements_are_repeated_where_others_commit_first(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    """Another commit lands between the read and the commit of each statement, which sees the newest rows."""
    from morrow.spark.writing import changes

    table = made(tmp_path) if keyed else morrow.Catalog(tmp_path).create_table("db.t", schema=SCHEMA)
    if not keyed:
        table.append(ROWS)
    check = changes.check_premise
    waiting: list[int] = []

    def late(*arguments: object) -> None:
        check(*arguments)  # type: ignore[arg-type]
        if waiting:
            table.update({"v": waiting.pop()}, where="id = 1")

    monkeypatch.setattr(changes, "check_premise", late)
    for number, statement in (
        (5, "UPDATE pm.db.t SET v = v + 1 WHERE id = 1"),
        (19, "DELETE FROM pm.db.t WHERE id = 2 AND v + 0 > (SELECT v FROM pm.db.t WHERE id = 1)"),
        (
            7,
            "MERGE INTO pm.db.t USING (SELECT max(v) + 1 AS id FROM pm.db.t WHERE id < 2) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        ),
        (
            50,
            MERGE.format("(1L, 100L), (9L, 9L)", "t.id = s.id")
            + "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
        ),
    ):
        waiting.append(number)
        sql(statement)
        assert waiting == []
    assert left(sql) == [(1, 150, "a"), (3, None, "c"), (4, 40, None), (8, None, None), (9, 9, None)]


def test_statements_are_not_repeated_for_other_columns(
    sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from morrow.spark.writing import changes

    table = made(tmp_path)
    check = changes.check_premise
    added: list[object] = []

    def late(*arguments: object) -> None:
        check(*arguments)  # type: ignore[arg-type]
        if not added:
            added.append(table.alter.add_column("extra", "INT"))
            table.update({"v": 1}, where="id = 1")

    monkeypatch.setattr(changes, "check_premise", late)
    with pytest.raises(Exception, match=r"CommitConflict: .*its columns were changed meanwhile; nothing was changed"):
        sql("UPDATE pm.db.t SET v = v + 1")
    assert left(sql)[0] == (1, 1, "a")


def test_partitions_deletion_vectors_and_hostile_names(sql: Sql) -> None:
    sql(
        "CREATE TABLE pm.db.t (id INT NOT NULL, `a.b` STRING NOT NULL, `a``b` DECIMAL(9, 2), `*` INT) "
        "PARTITIONED BY (`a.b`) "
        "TBLPROPERTIES ('primary-key' = 'id,a.b', 'bucket' = '1', 'deletion-vectors.enabled' = 'true')"
    )
    sql("INSERT INTO pm.db.t VALUES (1, 'p', 1, 1), (2, 'p', 2, 2), (3, 'q', 3, 3), (4, 'r', 4, 4)")
    sql("UPDATE pm.db.t SET `a``b` = `a``b` * 1.5, `*` = DEFAULT WHERE `a.b` = 'p' AND `a``b` > 1")
    sql("DELETE FROM pm.db.t WHERE `a.b` = 'q'")
    sql("DELETE FROM pm.db.t WHERE `a.b` = 'r' AND `*` = 4")
    rows = sql("SELECT id, `a.b`, CAST(`a``b` AS STRING), `*` FROM pm.db.t")
    assert sorted(rows) == [(1, "p", "1.00", 1), (2, "p", "3.00", None)]
    assert sql("SELECT commit_kind FROM pm.db.`t$snapshots` WHERE snapshot_id = 5 OR commit_kind = 'OVERWRITE'") != []


def test_merge_engines_and_sequences(sql: Sql, tmp_path: Path) -> None:
    made(tmp_path, **{"sequence.field": "v"})
    sql("UPDATE pm.db.t SET v = v + 1, s = 'new' WHERE id = 1")
    with pytest.raises(Exception, match=r"sets back the sequence \(v\)"):
        sql("UPDATE pm.db.t SET v = v - 1 WHERE id = 1")
    sql(
        MERGE.format("(1L, 100L), (2L, 0L)", "t.id = s.id")
        + "WHEN MATCHED AND s.v = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    assert left(sql) == [(1, 100, "new"), (3, None, "c"), (4, 40, None)]
    sql("DELETE FROM pm.db.t WHERE s = 'new'")
    assert [row[0] for row in left(sql)] == [3, 4]
    for engine in ("aggregation", "first-row"):
        sql("DROP TABLE pm.db.t")
        made(tmp_path, **{"merge-engine": engine})
        matched = MERGE.format("(1L, 100L)", "t.id = s.id") + "WHEN MATCHED THEN UPDATE SET v = 1"
        for statement in ("UPDATE pm.db.t SET v = 1", matched):
            with pytest.raises(Exception, match=f"with the merge engine {engine}"):
                sql(statement)
        sql("DELETE FROM pm.db.t WHERE v = 10")  # files are rewritten, as these engines have no deletions
        sql("DELETE FROM pm.db.t WHERE id IN (SELECT 3)")
        assert [row[0] for row in left(sql)] == [2, 4]
    sql(MERGE.format("(1L, 100L), (9L, 9L)", "t.id = s.id") + "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
    assert [row[0] for row in left(sql)] == [1, 2, 4, 9]
    sql("ALTER TABLE pm.db.t SET TBLPROPERTIES ('write-only' = 'true')")
    sql("INSERT INTO pm.db.t (id) VALUES (5)")
    with pytest.raises(Exception, match="please use 'COMPACT' procedure first"):
        sql("DELETE FROM pm.db.t WHERE s = 'b'")


def test_partial_update(sql: Sql) -> None:
    """Updates that the table's merge would not reproduce are refused, and aggregated columns add a value once."""
    sql(
        "CREATE TABLE pm.db.t (id BIGINT NOT NULL, v BIGINT, s STRING, g INT, n INT, total INT, m MAP<STRING, INT>) "
        "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'merge-engine' = 'partial-update', "
        "'fields.g.sequence-group' = 'n,total', 'fields.total.aggregate-function' = 'sum', "
        "'partial-update.remove-record-on-sequence-group' = 'g')"
    )
    sql("INSERT INTO pm.db.t VALUES (1, 10, 'a', 1, 1, 10, map('k', 1)), (2, 20, 'b', 2, 2, 20, NULL)")
    sql("INSERT INTO pm.db.t (id, v) VALUES (3, 30)")
    sql("UPDATE pm.db.t SET v = v + 1, s = 'x' WHERE id < 3")
    sql("UPDATE pm.db.t SET total = total, n = NULL, m = map('z', 9) WHERE id = 2")
    for values, words in (
        ("v = NULL", "makes 'v' null"),
        ("total = 5", "whose values the function sum combines"),
        ("g = 0", r"sets back the sequence \(g\)"),
        ("n = 5 WHERE id = 3", r"its sequence group \(g\) is null"),
        ("id = 7", "part of the primary key"),
    ):
        with pytest.raises(Exception, match=words):
            sql(f"UPDATE pm.db.t SET {values}")
    merge = MERGE.format("(1L, 50L), (2L, NULL), (9L, 90L)", "t.id = s.id")
    merge += "WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
    merge += "WHEN NOT MATCHED THEN INSERT (id, v, g) VALUES (s.id, s.v, 1) WHEN NOT MATCHED BY SOURCE THEN "
    with pytest.raises(Exception, match="deleting a row whose sequence"):
        sql(merge + "DELETE")
    sql(merge + "UPDATE SET s = 'alone'")
    assert sorted(sql("SELECT id, v, s, g, n, total, m['k'] FROM pm.db.t")) == [
        (1, 50, "x", 1, 1, 10, 1),
        (3, 30, "alone", None, None, None, None),
        (9, 90, None, 1, None, None, None),
    ]


def test_append_tables(sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.t (id BIGINT, v BIGINT, s STRING)")
    matched = "WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.v "
    merge = MERGE.format("(1L, 100L), (3L, NULL), (5L, 50L)", "t.id = s.id") + matched
    merge += (
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (id, v) WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = 'alone'"
    )
    for statement in ("DELETE FROM pm.db.t WHERE v + 1 = 2", "UPDATE pm.db.t SET v = 1"):
        sql(statement)  # the table has no snapshot yet
    assert sql("SELECT * FROM pm.db.`t$snapshots`") == []
    sql("INSERT INTO pm.db.t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, NULL, 'c'), (4, 40, NULL), (5, NULL, 'bee')")
    sql("DELETE FROM pm.db.t WHERE v > 10 AND s LIKE 'b%'")
    sql("DELETE FROM pm.db.t WHERE length(s) = 3 AND id IN (SELECT id FROM pm.db.t)")
    sql(f"EXPLAIN {merge}")
    sql("UPDATE pm.db.t SET v = v + 1, s = upper(s) WHERE id <> 3")
    assert left(sql) == [(1, 11, "A"), (3, None, "c"), (4, 41, None)]
    sql(merge)
    assert left(sql) == [(1, 111, "A"), (4, 41, "alone"), (5, 50, None)]
    sql(MERGE.format("(1L, 7L), (8L, 8L)", "t.id = s.id") + "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (id, v)")
    assert sql("SELECT count(*), count(DISTINCT __paimon_file_path, __paimon_row_index) FROM pm.db.t") == [(4, 4)]
    told = {
        row["operation"]: [row[name] for name in COUNTS]
        for row in morrow.Catalog(tmp_path).table("db.t").history().to_dicts()
    }
    assert (told["UPDATE"], told["MERGE"]) == ([0, 2, 0], [1, 2, 1])
    commits = sql("SELECT commit_kind FROM pm.db.`t$snapshots` ORDER BY snapshot_id")
    assert [kind for (kind,) in commits] == ["APPEND", *["OVERWRITE"] * 4, "APPEND"]
    for statement, words in (
        (MERGE.format("(1L, 7L), (1L, 8L)", "t.id = s.id") + "WHEN MATCHED THEN UPDATE SET v = s.v", "CARDINALITY"),
        ("DELETE FROM pm.db.`t$snapshots` WHERE snapshot_id = 1", "not supported"),
    ):
        with pytest.raises(Exception, match=words):
            sql(statement)
    sql(MERGE.format("(1L, 7L), (1L, 8L)", "t.id = s.id") + "WHEN MATCHED THEN DELETE")  # matching twice deletes once
    assert [row[0] for row in left(sql)] == [4, 5, 8]
    sql("DELETE FROM pm.db.t")
    assert left(sql) == []
    sql("CREATE TABLE pm.db.odd (`__Paimon_Row_Index` INT)")
    with pytest.raises(Exception, match="columns that are named as the hidden ones"):
        sql("UPDATE pm.db.odd SET `__Paimon_Row_Index` = 1")


TRACKED = "'row-tracking.enabled' = 'true', 'deletion-vectors.enabled' = '{}', 'data-evolution.enabled' = '{}'"


def test_changes_by_bucket(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    sql("INSERT INTO pm.db.t VALUES (1, 'a'), (2, 'b')")
    sql("UPDATE pm.db.t SET v = concat(v, __paimon_bucket) WHERE __paimon_bucket = 0 AND id = 1")
    sql("CALL pm.sys.compact(table => 'db.t')")  # the file of a merged row is unknown
    sql(
        "MERGE INTO pm.db.t USING (SELECT 2 AS id UNION ALL SELECT 3) s ON t.id = s.id AND t.__paimon_bucket = 0 "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(1, "a0"), (2, "m"), (3, None)]


TRACKED_ROWS = "SELECT *, _ROW_ID, _SEQUENCE_NUMBER FROM pm.db.t ORDER BY _ROW_ID"


@pytest.mark.parametrize(("vectors", "evolving"), [("false", "false"), ("true", "false"), ("true", "true")])
def test_tracked_rows_keep_their_ids(
    sql: Sql, spark: SparkSession, tmp_path: Path, vectors: str, evolving: str
) -> None:
    sql(f"CREATE TABLE pm.db.t (id INT, v INT, s STRING) TBLPROPERTIES ({TRACKED.format(vectors, evolving)})")
    sql("INSERT INTO pm.db.t SELECT /*+ REPARTITION(1) */ id, id, 'a' FROM range(1, 6)")
    sql("UPDATE pm.db.t SET V = v * 10 WHERE _ROW_ID = 1")
    sql(
        MERGE.format("(1, 7), (3, NULL), (4, 40), (9, 90)", "t.id = s.id")
        + "WHEN MATCHED AND t.id = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (id, v) WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN DELETE"
    )
    with settings(spark, {"spark.paimon.data-evolution.merge-into.file-pruning": "false"}):
        sql(
            "MERGE INTO pm.db.t USING pm.db.t x ON t._ROW_ID = x._ROW_ID AND x.id = 9 "
            "WHEN MATCHED THEN UPDATE SET s = 'z' WHEN NOT MATCHED AND x.id = 100 THEN INSERT *"
        )
    rows = sql(TRACKED_ROWS)
    assert [row[:4] for row in rows] == [(1, 7, "a", 0), (2, 20, "a", 1), (4, 40, "a", 3), (9, 90, "z", 5)]
    assert [row[4] for row in rows] == ([3, 3, 3, 4] if evolving == "true" else [3, 2, 3, 4])
    table = morrow.open(tmp_path / "db.db" / "t")
    assert table.to_polars([*table.schema.names, "_ROW_ID", "_SEQUENCE_NUMBER"]).sort("_ROW_ID").rows() == rows
    if evolving == "true":
        written = {tuple(file.write_columns or ("id", "v", "s")) for file in table.scan().plan.files}
        assert written == {("id", "v", "s"), ("v",), ("s",)}

    sql(
        "MERGE INTO pm.db.t USING (SELECT 7 AS v, 80L AS k) s ON t._ROW_ID = s.k "
        "WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.k, s.v)"
    )
    assert [row[:4] for row in sql(TRACKED_ROWS)] == [*(row[:4] for row in rows), (80, 7, None, 6)]
    sql("DELETE FROM pm.db.t WHERE id = 80")

    changed = spark.createDataFrame([(3, "b"), (5, "c")], "_ROW_ID BIGINT, s STRING")
    morrow.spark.merge(changed, table, on="_ROW_ID").when_matched_update().execute()
    morrow.spark.update(spark, table, set={"v": "_ROW_ID + 100"}, where="_ROW_ID < 2")
    sql("DELETE FROM pm.db.t WHERE id IN (SELECT 2)")
    assert [row[:4] for row in sql(TRACKED_ROWS)] == [(1, 100, "a", 0), (4, 40, "b", 3), (9, 90, "c", 5)]


def test_blobs_are_binary(sql: Sql, tmp_path: Path) -> None:
    tracked = TRACKED.format("false", "true")
    sql(f"CREATE TABLE pm.db.t (id INT, pic BINARY) TBLPROPERTIES ({tracked}, 'blob-field' = 'pic')")
    sql("INSERT INTO pm.db.t VALUES (1, X'01'), (2, NULL)")
    sql("UPDATE pm.db.t SET pic = X'03' WHERE id = 1")
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(1, b"\3"), (2, None)]
    assert {file.format for file in morrow.open(tmp_path / "db.db" / "t").scan().plan.files} == {"parquet", "blob"}


def test_append_tables_of_buckets_partitions_and_deletion_vectors(sql: Sql) -> None:
    sql(
        "CREATE TABLE pm.db.t (id BIGINT, `a.b` STRING, p STRING) PARTITIONED BY (p) "
        "TBLPROPERTIES ('deletion-vectors.enabled' = 'true', 'bucket' = '2', 'bucket-key' = 'id')"
    )
    sql("INSERT INTO pm.db.t SELECT id, concat('s', id), IF(id % 2 = 0, 'x', NULL) FROM range(100)")
    sql("DELETE FROM pm.db.t WHERE id % 7 = 0 AND coalesce(length(p), 1) = 1")
    sql("UPDATE pm.db.t SET `a.b` = 'new', p = 'z' WHERE id % 5 = 0")
    sql("DELETE FROM pm.db.t WHERE id + 0 = 11")
    there = [id for id in range(100) if id % 7 and id != 11]
    z = [id for id in there if id % 5 == 0]
    found = sql("SELECT p, count(*), sum(id), count_if(`a.b` = 'new') FROM pm.db.t GROUP BY p")
    assert {row[0]: row[1:] for row in found}["z"] == (len(z), sum(z), len(z))
    assert sql("SELECT count(*), sum(id) FROM pm.db.t") == [(len(there), sum(there))]
    sql("MERGE INTO pm.db.t USING pm.db.t s ON t.id = s.id + 1 WHEN MATCHED THEN DELETE")
    left = [id for id in there if id - 1 not in there]
    assert sorted(sql("SELECT id FROM pm.db.t")) == [(id,) for id in left]
