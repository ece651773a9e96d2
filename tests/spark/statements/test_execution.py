"""Statements over ``pm.db.t`` without a catalog in the JVM: their effects and their errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import morrow
import morrow.spark
from morrow.engine.errors import MorrowError
from morrow.spark.catalogs.questions import Place
from morrow.spark.statements.execution import run
from morrow.spark.statements.queries import Session
from morrow.spark.views import Access

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE = (
    "CREATE DATABASE pm.db",
    "CREATE DATABASE IF NOT EXISTS pm.db",
    "CREATE TABLE pm.db.t (id BIGINT NOT NULL COMMENT 'the, key', `a.b` STRING, v DECIMAL(9, 2), at TIMESTAMP, "
    's STRUCT<x: INT, y: ARRAY<STRING>>, day STRING NOT NULL) USING paimon PARTITIONED BY (day) COMMENT "it\'s" '
    "TBLPROPERTIES ('primary-key' = 'id,day', 'bucket' = '1')",
    "CREATE TABLE IF NOT EXISTS pm.db.t (id INT)",
    "INSERT INTO pm.db.t VALUES (1, 'x{}', 1.5, TIMESTAMP'2026-01-02 03:04:05', NULL, 'p'), (2, NULL, 2, NULL, "
    "named_struct('x', 1, 'y', array('q')), 'p'), (3, 'z', 3, NULL, NULL, 'q');",
    "INSERT INTO pm.db.t (day, id) VALUES ('q', 4)",
    "INSERT INTO pm.db.t PARTITION (day = 'r') SELECT 5, 'five', 5, NULL, NULL",
    "INSERT INTO pm.db.t BY NAME SELECT 'r' AS day, 6L AS id",
    "WITH c AS (SELECT max(id) + 1 AS id FROM pm.db.t) SELECT * FROM c",
    "CREATE TABLE pm.db.c PARTITIONED BY (day) TBLPROPERTIES ('bucket' = '-1') AS SELECT id, day FROM pm.db.t AS t",
    "UPDATE pm.db.t AS x SET `a.b` = concat(x.`a.b`, '!'), v = x.v * 2 WHERE x.id = 1 "
    "AND CASE WHEN v > 0 THEN true END",
    "UPDATE pm.db.t SET pm.db.t.v = DEFAULT WHERE pm.db.t.id = 2",
    "DELETE FROM pm.db.t AS d WHERE d.id = 3 AND d.v + 0 > 1",
    "DELETE FROM pm.db.t WHERE day = 'nowhere'",
    "MERGE INTO pm.db.t AS a USING (SELECT id, day, 'm' AS m FROM pm.db.t WHERE id > 4 UNION ALL SELECT 9L, 'r', 'n') "
    "b ON a.id = b.id AND a.day = b.day WHEN MATCHED AND b.id = 6 THEN DELETE WHEN MATCHED THEN UPDATE SET `a.b` = b.m "
    "WHEN NOT MATCHED THEN INSERT (id, day, v) VALUES (b.id, b.day, CASE WHEN b.id > 1 THEN 7 ELSE 8 END) "
    "WHEN NOT MATCHED BY SOURCE AND a.id = 4 THEN UPDATE SET v = 44",
    "INSERT OVERWRITE pm.db.c PARTITION (day = 'q') SELECT 33",
    "INSERT INTO pm.db.c REPLACE WHERE day = 'r' SELECT 55L, 'r'",
    "ALTER TABLE pm.db.c ADD COLUMNS (n INT COMMENT 'new', m STRING)",
    "ALTER TABLE pm.db.c ADD COLUMN first STRING AFTER id",
    "ALTER TABLE pm.db.c RENAME COLUMN n TO `n n`",
    "ALTER TABLE pm.db.c ALTER COLUMN `n n` TYPE BIGINT",
    "ALTER TABLE pm.db.c DROP COLUMN m",
    "CREATE TABLE pm.db.d (id INT NOT NULL, default STRING DEFAULT 'x, y' COMMENT 'DEFAULT', s STRUCT<default: INT>, "
    "n DECIMAL(4, 1) DEFAULT CAST(1.5 AS DECIMAL(4, 1)) NOT NULL, m INT DEFAULT 7)",
    "ALTER TABLE pm.db.d ALTER COLUMN m SET DEFAULT -8",
    "INSERT INTO pm.db.d (id) VALUES (1)",
    "ALTER TABLE pm.db.d ALTER COLUMN m DROP DEFAULT",
    "INSERT INTO pm.db.d (id) VALUES (2)",
    "INSERT INTO pm.db.d VALUES (3, DEFAULT, NULL, 2.5, 1), (4, 'DEFAULT', named_struct('default', 1), DEFAULT, 2)",
    "INSERT INTO pm.db.d (m, id) VALUES (DEFAULT, 5), (1 + 1, 6);",
    "COMMENT ON TABLE pm.db.c IS 'first'",
    "COMMENT ON TABLE pm.db.c IS NULL",
    "COMMENT ON COLUMN pm.db.c.id IS 'it\\'s'",
    "CREATE TABLE pm.db.r (a INT COMMENT 'x', p STRING) PARTITIONED BY (p)",
    "INSERT INTO pm.db.r VALUES (1, 'p'), (2, 'q')",
    "CREATE OR REPLACE TABLE pm.db.r PARTITIONED BY (p) AS SELECT a + 1 AS a, p, 'n' AS n FROM pm.db.r",
    "CREATE OR REPLACE TABLE pm.db.r2 (a INT)",
    "REPLACE TABLE pm.db.r2 AS SELECT 7 AS b",
    "INSERT WITH SCHEMA EVOLUTION INTO pm.db.r2 BY NAME SELECT 8 AS b, 'new' AS c",
    "ALTER TABLE pm.db.c SET TBLPROPERTIES ('snapshot.num-retained.max' = '20')",
    "ALTER TABLE pm.db.c DROP PARTITION (day = 'p')",
    "ALTER TABLE pm.db.c ADD PARTITION (day = 'p') PARTITION (day = 'z')",
    "ALTER TABLE pm.db.t CREATE TAG one AS OF VERSION 1",
    "CALL pm.sys.create_tag(table => 'db.t', tag => 'two', snapshot => 2)",
    "CALL pm.sys.create_tag('pm.db.t', 'three')",
    "CREATE TABLE pm.db.like_c LIKE pm.db.c",
    "ALTER TABLE pm.db.like_c RENAME TO pm.db.other",
    "DROP TABLE pm.db.other",
    "DROP TABLE IF EXISTS pm.db.other",
)
FOUND: tuple[tuple[str, list[tuple[Any, ...]]], ...] = (
    (
        "SELECT id, `a.b`, CAST(v AS STRING), s.x, day FROM pm.db.t ORDER BY id",
        [
            (1, "x{}!", "3.00", None, "p"),
            (2, None, None, 1, "p"),
            (4, None, "44.00", None, "q"),
            (5, "m", "5.00", None, "r"),
            (9, None, "7.00", None, "r"),
        ],
    ),
    ("SELECT * FROM pm.db.c ORDER BY id", [(33, None, "q", None), (55, None, "r", None)]),
    ("SELECT count(*) FROM pm.db.t VERSION AS OF 1 JOIN pm.db.t VERSION AS OF 'one' AS o ON t.id = o.id", [(3,)]),
    ("SELECT count(pm.db.t.id), '{pm.db.t}' FROM pm.db.t WITH ('scan.snapshot-id' = '2')", [(4, "{pm.db.t}")]),
    ("SELECT count(*) FROM pm.db.`t$snapshots` WHERE snapshot_id < 3", [(2,)]),
    ("SELECT id FROM paimon_incremental_query('pm.db.t', 1, 2)", [(4,)]),
    ("SELECT day, sum(id) FROM (SELECT * FROM pm.db.t) x WHERE EXISTS (SELECT 1 FROM pm.db.c WHERE c.day = x.day) "
     "GROUP BY day ORDER BY 1", [("q", 4), ("r", 14)]),
    ("TABLE pm.db.c", [(33, None, "q", None), (55, None, "r", None)]),
    ("SELECT id, '{}' FROM pm.db.c WHERE day = pm.sys.max_pt('pm.db.c')", [(55, "{}")]),
    ("SELECT pm.sys.max_pt('db.t')", [("r",)]),
    ("SELECT id, default, CAST(n AS STRING), m FROM pm.db.d ORDER BY id",
     [(1, "x, y", "1.5", -8), (2, "x, y", "1.5", None), (3, "x, y", "2.5", 1), (4, "DEFAULT", "1.5", 2),
      (5, "x, y", "1.5", None), (6, "x, y", "1.5", 2)]),
    ("SELECT * FROM pm.db.r ORDER BY a", [(2, "p", "n"), (3, "q", "n")]),
    ("SELECT * FROM pm.db.r2 ORDER BY b", [(7, None), (8, "new")]),
    ("SHOW PARTITIONS pm.db.r PARTITION (p = 'q')", [("p=q",)]),
    ("SELECT t.id FROM pm.db.t TABLESAMPLE (100 PERCENT) REPEATABLE (1) WHERE t.id = 1 GROUP BY ALL", [(1,)]),
    ("DESCRIBE pm.db.c id", [("col_name", "id"), ("data_type", "bigint"), ("comment", "it's")]),
    ("DESCRIBE pm.db.t id", [("col_name", "id"), ("data_type", "bigint"), ("comment", "the, key")]),
    ("DESCRIBE QUERY SELECT id + 1 AS n FROM pm.db.t", [("n", "bigint", None)]),
    ("SHOW TBLPROPERTIES pm.db.t ('bucket')", [("bucket", "1")]),
    ("SHOW COLUMNS IN r FROM pm.db", [("a",), ("p",), ("n",)]),
    ("SHOW DATABASES IN pm", [("db",)]),
    ("SHOW TABLES IN pm.db LIKE 'c*'", [("db", "c", False)]),
    ("SHOW PARTITIONS pm.db.c", [("day=q",), ("day=r",)]),
    ("SHOW TAGS pm.db.t", [("one",), ("three",), ("two",)]),
    ("SHOW COLUMNS IN pm.db.c", [("id",), ("first",), ("day",), ("n n",)]),
    ("SELECT count(*) FROM range(3)", [(3,)]),
)  # fmt: skip
REFUSED = (
    ("INSERT INTO pm.db.t SELECT 1", "the query has 1 columns"),
    ("INSERT INTO pm.db.t (id, id) VALUES (1, 2)", "named twice"),
    ("INSERT INTO pm.db.t (id, day, v) VALUES (1, 'p', true)", "'v'"),
    ("INSERT INTO pm.db.none VALUES (1)", "none"),
    ("DELETE FROM pm.db.t USING pm.db.c WHERE t.id = c.id", "DELETE ... USING here"),
    ("UPDATE pm.db.t SET v = 1 FROM pm.db.c", "UPDATE ... FROM here"),
    ("TRUNCATE TABLE pm.db.c PARTITION (day)", "the partition column 'day' needs a value"),
    ("COPY pm.db.t TO 'x.csv'", "COPY here"),
    ("SELECT * FROM pm.db.t; SELECT 1", "one statement is expected, not 2"),
    ("ALTER TABLE pm.db.t\nRENAMED TO x", "not 'RENAMED' at line 2, column 1"),
    ("INSERT OVERWRITE pm.t VALUES (1)", "named catalog.database.table"),
    ("WITH c AS (SELECT 1) INSERT INTO pm.db.c SELECT * FROM c", "WITH in front of INSERT"),
    ("EXPLAIN DELETE FROM pm.db.c", "EXPLAIN of DELETE"),
    ("SELECT pm.sys.max_pt(day) FROM pm.db.c", "."),
    ("SELECT pm.sys.max_pt('pm.db.c', 'x')", "max_pt takes the name of a table"),
    ("UPDATE pm.db.t SET id = 3", "part of the primary key"),
    ("UPDATE pm.db.t SET s.x = 3", "a member of a column"),
    ("UPDATE pm.db.t SET v = 1, v = 2", "set twice"),
    ("UPDATE pm.db.t SET v = (SELECT 1)", "a subquery"),
    ("DELETE FROM pm.db.t WHERE id IN (SELECT 1)", "a subquery"),
    ("MERGE WITH SCHEMA EVOLUTION INTO pm.db.t USING pm.db.c ON true WHEN MATCHED THEN DELETE", "SCHEMA EVOLUTION"),
    ("MERGE INTO pm.db.t x USING pm.db.c X ON x.id = x.id WHEN MATCHED THEN DELETE", "both sides are called 'x'"),
    ("MERGE INTO pm.db.t USING pm.db.t ON t.id = t.id WHEN MATCHED THEN DELETE", "both sides are called 't'"),
    (
        "MERGE INTO pm.db.t t USING pm.db.c c ON t.id = c.id WHEN MATCHED THEN UPSERT",
        "UPDATE or DELETE is expected, not 'UPSERT'",
    ),
    ("CREATE TABLE pm.db.x (id INT) LOCATION '/tmp/x'", "LOCATION"),
    ("CREATE TABLE pm.db.x (id INT, ) ", r"id INT.*SYNTAX"),
    ("CREATE TABLE pm.db.x (id INT DEFAULT 1 + 1)", "default value `1 \\+ 1` of the column 'id'"),
    ("CREATE TABLE pm.db.x (id INT PRIMARY KEY)", "SYNTAX_ERROR.*PRIMARY"),
    ("CREATE TABLE pm.db.x (id INT) USING csv", "USING csv"),
    ("CREATE TABLE pm.db.t (id INT)", "there is"),
    ("CREATE VIEW v AS SELECT * FROM pm.db.t", "CREATE VIEW"),
    ("CACHE TABLE pm.db.t", "CACHE"),
    ("ALTER TABLE pm.db.t SET LOCATION '/tmp'", "ALTER TABLE SET LOCATION"),
    ("CALL pm.sys.nope(table => 'db.t')", "there is no procedure 'nope'"),
    ("SHOW CREATE VIEW pm.db.t", "SHOW CREATE"),
    ("SELECT * FROM pm.db.t TIMESTAMP AS OF now()", "a number"),
    ("DESCRIBE DATABASE pm.nope", "no database pm.nope"),
    ("USE pm.nope", "no database pm.nope"),
    ("CREATE DATABASE pm.other COMMENT 'x'", "a database with the property comment"),
    ("CREATE DATABASE pm.other WITH DBPROPERTIES ('a' = 'b')", "a database with the property a"),
    ("ALTER DATABASE pm.db SET DBPROPERTIES ('a' = 'b')", "the property a of the database 'db'"),
    ("COMMENT ON DATABASE pm.db IS 'x'", "the property comment"),
    ("COMMENT ON VIEW pm.db.c IS 'x'", "COMMENT ON VIEW"),
    ("COMMENT ON COLUMN pm.db.c IS 'x'", "column"),
    ("REPLACE TABLE pm.db.none (id INT)", "no table pm.db.none to replace"),
    ("INSERT WITH SCHEMA EVOLUTION INTO pm.db.d SELECT 1", "SCHEMA EVOLUTION"),
    ("SHOW PARTITIONS pm.db.c PARTITION (nope = 'p')", "'nope' is not a partition column"),
    ("DESCRIBE pm.db.c nope", "no column nope"),
    ("DROP DATABASE pm.db", "db"),
)


def check(spark: SparkSession, folder: Path) -> None:
    """Run all statements in any kind of session; see `tests.matrix`."""
    session = Session(spark, {"pm": Place(spark, "pm", morrow.Catalog(folder), Access())})
    for statement in DONE:
        run(session, statement)
    for statement, rows in FOUND:
        assert [tuple(row) for row in run(session, statement).collect()] == rows, statement
    described = [tuple(row) for row in run(session, "DESCRIBE TABLE EXTENDED pm.db.t").collect()]
    assert described[0] == ("id", "bigint", "the, key")
    assert ("comment", "it's", "") in described
    about = [tuple(row) for row in run(session, "DESCRIBE DATABASE EXTENDED pm.db").collect()]
    place = [("Catalog Name", "pm"), ("Namespace Name", "db"), ("Location", f"{folder}/db.db")]
    assert about == [*place, ("Properties", "")]
    check_use(session)
    before = len(morrow.Catalog(folder).table("db.t").snapshots())
    for statement, words in REFUSED:
        with pytest.raises(MorrowError, match=words):
            run(session, statement)
            pytest.fail(statement)
    assert len(morrow.Catalog(folder).table("db.t").snapshots()) == before


USED: tuple[tuple[str, list[tuple[Any, ...]]], ...] = (
    ("USE pm.db", []),
    ("SHOW CURRENT NAMESPACE", [("pm", "db")]),
    ("SELECT current_catalog(), current_schema(), 'current_schema()'", [("pm", "db", "current_schema()")]),
    ("SELECT b, r2.c FROM r2 ORDER BY b", [(7, None), (8, "new")]),
    ("WITH r2 AS (SELECT b FROM r2 WHERE b = 8) SELECT x.b FROM r2 AS x", [(8,)]),
    ("SELECT 1 FROM r AS r2, db.r2 AS x, LATERAL (SELECT x.b AS y) WHERE y = 7 "
     "AND EXTRACT(DAY FROM DATE'2026-01-02') = a",
     [(1,)]),
    ("SELECT (SELECT max(b) FROM pm.db.r2) FROM r2 VERSION AS OF 1 UNION SELECT count(*) FROM `r2$snapshots`",
     [(8,), (2,)]),
    ("SELECT count(*) FROM r2 WITH ('scan.snapshot-id' = '1') AS x JOIN r2 USING (b)", [(1,)]),
    ("TABLE r2", [(7, None), (8, "new")]),
    ("SELECT /*+ BROADCAST(x, r2) */ x.b FROM r2 x JOIN r2 TABLESAMPLE (100 PERCENT) ON x.b = r2.b AND r2.c = 'new'",
     [(8,)]),
    ("SELECT b FROM use_view", [(70,)]),
    ("SELECT * FROM paimon_incremental_query('r2', 1, 2)", [(8, "new")]),
    ("SELECT sys.max_pt('r')", [("q",)]),
    ("CREATE TABLE used AS SELECT b FROM r2", []),
    ("INSERT INTO used (SELECT b + 10 FROM use_view)", []),
    ("INSERT INTO db.used VALUES (DEFAULT)", []),
    ("MERGE INTO keyed USING used ON keyed.b = used.b WHEN NOT MATCHED AND used.b > 1 THEN "
     "INSERT (b) VALUES (used.b)", []),
    ("MERGE INTO pm.db.keyed USING pm.db.r2 ON pm.db.keyed.b = pm.db.r2.b AND r2.b > 7 WHEN MATCHED THEN "
     "UPDATE SET c = pm.db.r2.c", []),
    ("UPDATE keyed SET c = 'u' WHERE keyed.b = 7", []),
    ("DELETE FROM keyed WHERE b > 8", []),
    ("SELECT * FROM keyed", [(7, "u"), (8, "new")]),
    ("ALTER TABLE used ADD COLUMN c INT", []),
    ("ALTER TABLE used CREATE TAG t", []),
    ("CALL sys.create_tag('used', 'u')", None),
    ("SHOW TAGS used", [("t",), ("u",)]),
    ("COMMENT ON TABLE used IS 'x'", []),
    ("ANALYZE TABLE used COMPUTE STATISTICS", None),
    ("TRUNCATE TABLE used", []),
    ("DROP TABLE used", []),
    ("SHOW TABLES LIKE 'r*'", [("db", "r", False), ("db", "r2", False)]),
    ("SHOW DATABASES", [("db",)]),
    ("USE NAMESPACE db", []),
    ("USE pm", []),
    ("SHOW CURRENT DATABASE", [("pm", "default")]),
    ("SELECT count(*) FROM db.r2", [(2,)]),
    ("SET CATALOG spark_catalog", []),
    ("SELECT current_catalog()", [("spark_catalog",)]),
)  # fmt: skip


def check_use(session: Session) -> None:
    """Check that names without a catalog are resolved in the catalog of the last USE."""
    session.spark.sql("SELECT 70 AS b").createOrReplaceTempView("use_view")
    run(session, "CREATE TABLE pm.db.keyed (b INT NOT NULL, c STRING) TBLPROPERTIES ('primary-key' = 'b')")
    try:
        for statement, rows in USED:
            found = sorted((tuple(row) for row in run(session, statement).collect()), key=str)
            assert rows is None or found == sorted(rows, key=str), statement
        run(session, "USE pm.db")
        for statement, words in (
            ("SELECT * FROM not_there", "not_there"),
            ("SELECT * FROM r2 WHERE b ==== 1", "after USE"),
            ("CACHE TABLE r2", "CACHE"),
            ("SELECT * FROM IDENTIFIER('r2')", "IDENTIFIER"),
            ("INSERT INTO spark_catalog.default.t SELECT * FROM r2", "spark_catalog"),
            ("USE nope", "no database pm.nope"),
        ):
            with pytest.raises(MorrowError, match=words):
                run(session, statement)
                pytest.fail(statement)
    finally:
        run(session, "USE spark_catalog.default")
        session.spark.catalog.dropTempView("use_view")


def test_statements(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path)


def test_the_catalog_of_the_jvm_is_used_where_there_is_one(spark: SparkSession, tmp_path: Path) -> None:
    morrow.Catalog(tmp_path).create_database("db")
    morrow.spark.sql(spark, "CREATE TABLE pm.db.t AS SELECT 1 AS id", warehouse=tmp_path)
    assert spark.table("pm.db.t").collect() == morrow.spark.sql(spark, "SELECT * FROM pm.db.t").collect()
