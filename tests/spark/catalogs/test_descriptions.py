"""SHOW CREATE TABLE recreates the table with any columns, defaults and comments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = r"""CREATE TABLE pm.db.t (
  a BIGINT NOT NULL COMMENT 'it\'s \\ x',
  `b ``c` STRING DEFAULT 'my\'v',
  c INT DEFAULT -5,
  d DATE DEFAULT CAST('2024-01-02' AS date),
  e DECIMAL(10,2) DEFAULT 1.50,
  f BOOLEAN DEFAULT true,
  g DOUBLE DEFAULT CAST('1.5' AS double),
  h CHAR(3),
  i VARCHAR(5) DEFAULT 'x',
  j TIMESTAMP DEFAULT CAST('2024-01-02 08:04:05Z' AS timestamp),
  k TIMESTAMP_NTZ,
  l ARRAY<STRUCT<`x y`: INT NOT NULL COMMENT 'c', y: MAP<STRING, INT>>>,
  p STRING NOT NULL)
USING paimon
PARTITIONED BY (p)
COMMENT 'co\'m'
TBLPROPERTIES (
  'bucket' = '2',
  'primary-key' = 'a,p')
"""


def test_the_statement_makes_the_same_table(sql: Sql) -> None:
    sql(TABLE)
    assert sql("SHOW CREATE TABLE pm.db.t") == [(TABLE,)]


def test_what_a_table_does_not_keep_is_refused(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.u (a INT, s STRING)")
    for statement, words in (
        ("CREATE TABLE pm.db.x (s ARRAY<STRUCT<x: STRING COLLATE UTF8_LCASE>>)", "collation UTF8_LCASE"),
        ("CREATE TABLE pm.db.x AS SELECT 'a' COLLATE UNICODE AS s", "collation UNICODE"),
        ("CREATE TABLE pm.db.x (s STRING) DEFAULT COLLATION UNICODE", "DEFAULT COLLATION"),
        ("ALTER TABLE pm.db.u ADD COLUMN c STRING COLLATE UNICODE", "collation UNICODE"),
        ("ALTER TABLE pm.db.u SET LOCATION '/x'", "SET LOCATION"),
        ("ALTER TABLE pm.db.u REPLACE COLUMNS (a INT)", "REPLACE COLUMNS"),
        ("ALTER TABLE pm.db.u DROP COLUMNS (a, s)", "dropping all columns"),
        ("DROP TABLE pm.db.`u$snapshots`", "not a table of its own"),
        ("DROP TABLE pm.sys.all_tables", "not a table of its own"),
    ):
        with pytest.raises(Exception, match=words):
            sql(statement)
    assert sql("SHOW TABLES IN pm.db") == [("db", "u", False)]


def test_secrets_are_no_properties_of_tables(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.t (token STRING) TBLPROPERTIES ('fields.token.default-value' = 'a')")
    executions = spark._jsparkSession.sharedState().statusStore()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # executions are counted in a thread of their own
    before = executions.executionsCount()
    for statement in (
        "ALTER TABLE pm.db.t SET TBLPROPERTIES ('s3.secret-key' = 'hidden')",
        "CREATE TABLE pm.db.u (a INT) TBLPROPERTIES ('jdbc.password' = 'hidden')",
        "CREATE TABLE pm.db.u OPTIONS (token 'hidden') AS SELECT 1 AS a",
    ):
        with pytest.raises(Exception, match="keeps no secrets") as raised:
            sql(statement)
        assert "hidden" not in str(raised.value)
        if statement.startswith("ALTER"):
            assert executions.executionsCount() == before  # its plan would show the value
    morrow.spark.register(spark)
    rows, new = spark.range(1).write.format("morrow").option("s3.secret-key", "hidden"), tmp_path / "new"
    with pytest.raises(Exception, match="keeps no secrets"):
        rows.mode("append").save(str(new))
    morrow.open(str(tmp_path / "db.db" / "t")).alter.set_options(
        {"s3.secret-key": "hidden"}
    )  # as others may have set it
    ((shown,),) = sql("SHOW CREATE TABLE pm.db.t")
    assert "'s3.secret-key' = '***'" in shown and "'fields.token.default-value' = 'a'" in shown


def test_partitions_are_described(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.p (id INT NOT NULL, name STRING COMMENT 'its name') PARTITIONED BY (year INT, day DATE)")
    sql("INSERT INTO pm.db.p VALUES (1, 'a', 2025, DATE'2025-09-20'), (2, 'b', 2025, DATE'2025-09-21')")
    sql("INSERT INTO pm.db.p VALUES (3, 'c', 2025, DATE'2025-09-21')")
    place = "PARTITION (year = 2025, DAY = '2025-09-21')"
    rows = sql(f"DESCRIBE FORMATTED pm.db.p {place}")
    found = {name: value for name, value, _ in rows}
    assert found["Partition Values"] == "[year=2025, day=2025-09-21]"
    assert "fileCount=2, " in found["Partition Parameters"]
    assert "recordCount=2}" in found["Partition Parameters"]
    assert found["Partition Statistics"].endswith(" bytes, 2 rows")
    assert {("id", "int", "NOT NULL"), ("name", "string", "its name"), ("# Column Not Null", "", "")} <= {*rows}
    assert sql(f"DESCRIBE pm.db.p {place}") == sql("DESCRIBE pm.db.p")
    ((_, _, _, shown),) = sql(f"SHOW TABLE EXTENDED IN pm.db LIKE 'p' {place.replace('DAY', 'day')}")
    assert "recordCount" in shown and "2 rows" in shown
    for spec in (
        "year = 2025, day = '2024-01-01'",
        "year = 2025",
        "year = 2025, nope = 1",
    ):  # errors of Spark, from 4.3 on
        with pytest.raises(Exception, match=r"(?i)partition"):
            sql(f"DESCRIBE EXTENDED pm.db.p PARTITION ({spec})")
