"""Options of writes by name: new columns, overwrites by condition, options of the table for one write, settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
            assert "EXPLAIN WITH SCHEMA EVOLUTION is not supported" in str(sql(f"EXPLAIN {merge}"))
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
        ("id > 3", "insertInto", "no partition column"),
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
