"""Values cast to the types of their columns, as Paimon casts them in INSERT, UPDATE and MERGE."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MERGES = {"spark.paimon.write.merge-schema": "true"}
DAY = dt.date(2026, 1, 2)
BOTH = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

CASTS = [
    ("INT", "'7'", 7),
    ("DATE", "'2026-01-02'", DAY),
    ("TIMESTAMP_NTZ", "'2026-01-02 03:04:05'", dt.datetime(2026, 1, 2, 3, 4, 5)),
    ("DECIMAL(5, 2)", "'1.255'", Decimal("1.26")),
    ("BOOLEAN", "'true'", True),
    ("BOOLEAN", "0", False),
    ("STRING", "12", "12"),
    ("BINARY", "'xy'", b"xy"),
    ("INT", "true", 1),
    ("STRUCT<a: INT, b: DATE>", "named_struct('a', '7', 'b', '2026-01-02')", (7, DAY)),
    ("ARRAY<DATE>", "array('2026-01-02', NULL)", [DAY, None]),
    ("MAP<INT, STRUCT<a: DATE>>", "map('1', named_struct('a', '2026-01-02'))", {1: (DAY,)}),
]
"""Type of a column, an SQL value of another type, and the value in the column."""


def test_values_are_cast_in_every_statement(sql: Sql) -> None:
    columns = ", ".join(f"c{i} {kind}" for i, (kind, _, _) in enumerate(CASTS))
    sql(f"CREATE TABLE pm.db.t (id INT, {columns}) TBLPROPERTIES ('primary-key' = 'id')")
    values = ", ".join(value for _, value, _ in CASTS)
    named = ", ".join(f"{value} AS c{i}" for i, (_, value, _) in enumerate(CASTS))
    sets = ", ".join(f"c{i} = {value}" for i, (_, value, _) in enumerate(CASTS))
    sql(f"INSERT INTO pm.db.t VALUES ('1', {values})")
    sql(f"INSERT INTO pm.db.t BY NAME SELECT {named}, '2' AS id")
    sql("INSERT INTO pm.db.t (id) VALUES (3), (4)")
    sql(f"UPDATE pm.db.t SET {sets} WHERE id = 3")
    source = f"(SELECT id, {named} FROM VALUES ('4'), ('5') AS s (id)) s"
    sql(f"MERGE INTO pm.db.t t USING {source} ON t.id = s.id {BOTH}")
    expected = tuple(value for _, _, value in CASTS)
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(id, *expected) for id in range(1, 6)]


def test_members_are_inserted_by_position(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.t (id INT, s STRUCT<a: INT, b: DATE>, m ARRAY<STRUCT<a: INT>>)")
    sql("INSERT INTO pm.db.t VALUES (1, struct('7', '2026-01-02'), array(named_struct('other', '8')))")
    sql("INSERT INTO pm.db.t SELECT 2, named_struct('b', '7', 'a', '2026-01-02'), NULL")
    assert sorted(sql("SELECT * FROM pm.db.t")) == [(1, (7, DAY), [(8,)]), (2, (7, DAY), None)]


def test_values_that_cannot_be_cast(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE pm.db.t (id INT, day DATE, s STRUCT<n: INT>) TBLPROPERTIES ('primary-key' = 'id')")
    sql("INSERT INTO pm.db.t VALUES (1, '2026-01-02', NULL)")
    merge = "MERGE INTO pm.db.t t USING (SELECT 1 AS id, 'x' AS d) src ON t.id = src.id WHEN MATCHED THEN UPDATE SET "
    for statement, words in (
        (
            "INSERT INTO pm.db.t VALUES (7, '2026-13-01', NULL)",
            r"'2026-13-01' of the column `day` in the row \{7, 2026",
        ),
        ("INSERT INTO pm.db.t (id, s) VALUES (7, struct('x'))", r"'x' of the column `s.n` in the row \{7\}"),
        ("UPDATE pm.db.t SET day = 'x'", r"'x' of the column `day` in the row \{1, 2026-01-02\}"),
        (f"{merge} day = src.d", r"'x' of the column `day` in the row \{1, x\}"),
        ("INSERT INTO pm.db.t (id) VALUES (99999999999)", "column or variable `id` due to an overflow"),
        ("INSERT INTO pm.db.t (id, day) VALUES (7, 5)", "Cannot safely cast `day`"),
        ("UPDATE pm.db.t SET nope = 1", "`nope` cannot be resolved"),
        ("UPDATE pm.db.t SET day = 'x' WHERE nope = 1", "`nope` cannot be resolved"),
        (f"{merge} day = src.nope", "`src`.`nope` cannot be resolved"),
    ):
        with pytest.raises(Exception, match=words):
            sql(statement)
    with settings(spark, {"spark.sql.ansi.enabled": "false"}):  # as Paimon: Spark's own casts
        sql("INSERT INTO pm.db.t (id, day) VALUES ('7', 'x')")
    with settings(spark, {"spark.sql.storeAssignmentPolicy": "STRICT"}):
        sql("INSERT INTO pm.db.t (id, day) VALUES (8L, '2026-01-02')")
    assert sorted(sql("SELECT id, day FROM pm.db.t")) == [(1, DAY), (7, None), (8, DAY)]


# write.merge-schema


def test_merge_under_merge_schema(sql: Sql, spark: SparkSession) -> None:
    columns = (
        "v STRING, n INT, kept INT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>"
    )
    sql(f"CREATE TABLE pm.db.t (id INT, {columns}) TBLPROPERTIES ('primary-key' = 'id')")
    sql("INSERT INTO pm.db.t VALUES (1, 'a', 1, 5, struct(1, 2), NULL, NULL)")
    source = (
        "(SELECT id, 'x' AS V, '2' AS n, named_struct('B', '3', 'c', 4) AS s, array(named_struct('b', 1)) AS l, "
        "map('k', named_struct('A', 1, 'b', 2)) AS m, 7 AS new FROM VALUES (1), (2) AS s (id)) src"
    )
    sql("USE pm.db")
    with settings(spark, MERGES):
        explained = sql(f"EXPLAIN MERGE INTO t USING {source} ON t.id = src.id {BOTH}")
        assert "would change the table's columns is not supported; run it" in str(explained)
        sql(f"MERGE INTO t USING {source} ON t.id = src.id {BOTH}")
        assert sorted(sql("SELECT * FROM t")) == [
            (1, "x", 2, 5, (1, 3, 4), [(None, 1)], {"k": (1, 2)}, 7),  # a star keeps members that the source lacks
            (2, "x", 2, None, (None, 3, 4), [(None, 1)], {"k": (1, 2)}, 7),
        ]
        source = (
            "(SELECT id, named_struct('d', 9) AS s, 8 AS n, 1 AS more, 2 AS unused FROM VALUES (1), (3) AS s (id)) src"
        )
        update, insert = "UPDATE SET s = src.s, more = src.more", "INSERT (id, n) VALUES (id, n)"
        on = "ON target.id = src.id WHEN MATCHED THEN"
        sql(f"MERGE INTO t AS target USING {source} {on} {update} WHEN NOT MATCHED THEN {insert}")
        assert sorted(sql("SELECT id, n, s, more FROM t"))[::2] == [
            (1, 2, (None, None, None, 9), 1),
            (3, 8, None, None),
        ]
    sql("USE spark_catalog.default")


def test_widening_of_keys(sql: Sql, spark: SparkSession) -> None:
    for name in ("t", "negative"):
        sql(f"CREATE TABLE pm.db.{name} (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
        sql(f"INSERT INTO pm.db.{name} VALUES (1, 1), ({2 if name == 't' else -2}, 2)")
    data = "SELECT * FROM VALUES (2L, 20L), (3000000000L, 3L) AS s (id, v)"
    with settings(spark, {**MERGES, "spark.paimon.write.merge-schema.type-widening": "true"}):
        sql(f"MERGE INTO pm.db.t t USING ({data}) s ON t.id = s.id {BOTH}")
        with pytest.raises(Exception, match="widening the key column 'id', which has negative values"):
            sql(f"INSERT INTO pm.db.negative {data}")
    assert sql("SELECT * FROM pm.db.t ORDER BY id") == [(1, 1), (2, 20), (3000000000, 3)]
    sql("DELETE FROM pm.db.t WHERE id = 1")
    sql("CALL pm.sys.compact(table => 'db.t')")
    assert sql("SELECT id FROM pm.db.t WHERE id < 5") == [(2,)]


def test_insert_under_merge_schema_casts(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE pm.db.t (id INT, day DATE, s STRUCT<a: DATE>)")
    with settings(spark, MERGES):
        sql("INSERT INTO pm.db.t VALUES ('1', '2026-01-02', struct('2026-01-02'), 'new')")
        sql("INSERT INTO pm.db.t BY NAME SELECT '2' AS id, named_struct('A', '2026-01-02', 'b', 1) AS s")
    assert sorted(sql("SELECT * FROM pm.db.t")) == [
        (1, DAY, (DAY, None), "new"),
        (2, None, (DAY, 1), None),
    ]
