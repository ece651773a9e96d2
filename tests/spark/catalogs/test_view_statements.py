"""Views in Spark, which a JDBC catalog keeps for all engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(spark: SparkSession, sql: Sql, tmp_path: Path) -> Iterator[morrow.Catalog]:
    """Return the catalog ``jc``, with a table ``db.t``; its database is the current one."""
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": str(tmp_path / "lake")}
    morrow.spark.catalog(spark, "jc", options=options)
    sql("CREATE DATABASE jc.db")
    sql("USE jc.db")
    sql("CREATE TABLE t (id INT, name VARCHAR(50), tags ARRAY<VARCHAR(10)>)")
    sql("INSERT INTO t VALUES (2, 'bob', array('x')), (1, 'ann', null)")
    yield morrow.open_catalog(options)
    sql("USE spark_catalog.default")


def test_views_are_created_and_read(lake: morrow.Catalog, sql: Sql, spark: SparkSession) -> None:
    assert sql("SHOW VIEWS") == []
    sql("CREATE VIEW v AS SELECT * FROM t WHERE id < 2")
    assert sql("SELECT * FROM v") == [(1, "ann", None)]
    assert lake.sql("SELECT id FROM v", database="db").fetchall() == [(1,)]
    with pytest.raises(Exception, match="already; write CREATE OR REPLACE VIEW"):
        sql("CREATE VIEW v AS SELECT 1 AS id")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql("CREATE TABLE v (id INT)")
    sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS id")
    sql("ALTER TABLE t ADD COLUMN more INT FIRST")  # the columns of * are found by name
    assert sql("SELECT * FROM v") == [(1, "ann", None)]
    sql("CREATE OR REPLACE VIEW v AS SELECT id + 1 AS next FROM t")
    assert sql("SELECT * FROM v WHERE next >= (SELECT max(next) FROM v)") == [(3,)]
    sql("CREATE VIEW c AS WITH x(a, b) AS (SELECT 1, 2) SELECT * FROM x")
    sql("CREATE VIEW o (number, name) AS SELECT id, name FROM t ORDER BY 1")
    assert sql("SELECT * FROM c") == [(1, 2)]
    assert sql("SELECT * FROM o") == [(1, "ann"), (2, "bob")]
    sql("USE spark_catalog.default")  # names in a view are those of its database
    assert sql("SELECT count(*) FROM jc.db.o AS o JOIN jc.db.t AS t ON o.number = t.id") == [(2,)]
    assert spark.table("jc.db.o").columns == ["number", "name"]
    assert sql("SHOW VIEWS IN jc.db LIKE 'c|v*'") == [("db", "c", False), ("db", "v", False)]
    assert sql("SHOW TABLES IN jc.db") == [("db", "t", False)]
    sql("CREATE TEMPORARY VIEW v AS SELECT 1")
    sql("DROP VIEW v")
    sql("DROP VIEW jc.db.c")
    sql("DROP VIEW IF EXISTS jc.db.c")
    with pytest.raises(Exception, match=r"TableNotFound: .*there is no view 'db[.]c'"):
        sql("DROP VIEW jc.db.c")


def test_views_are_described_and_altered(lake: morrow.Catalog, sql: Sql) -> None:
    sql("""
        CREATE VIEW v (number COMMENT 'the id', name) COMMENT 'of all' TBLPROPERTIES ('k1' = 'v1')
        AS SELECT id, name FROM t
    """)
    assert sql("DESC v") == [("number", "INT", "the id"), ("name", "STRING", None)]
    assert sql("DESCRIBE TABLE EXTENDED v")[2:] == [
        ("", "", ""),
        ("# Detailed View Information", "", ""),
        ("Name", "db.v", ""),
        ("Comment", "of all", ""),
        ("View Text", "SELECT id, name FROM t", ""),
        ("View Query Output Columns", "[number, name]", ""),
        ("View Properties", "[k1=v1]", ""),
    ]
    ((shown,),) = sql("SHOW CREATE TABLE v")
    assert shown == (
        "CREATE VIEW db.v (\n  number COMMENT 'the id',\n  name)\nCOMMENT 'of all'\n"
        "TBLPROPERTIES (\n  'k1' = 'v1')\nAS\nSELECT id, name FROM t\n"
    )
    sql("ALTER VIEW v SET TBLPROPERTIES ('k2' = 'v2')")
    sql("ALTER VIEW v UNSET TBLPROPERTIES ('k1')")
    sql("ALTER VIEW v AS SELECT id FROM t")
    view = lake.view("db.v")
    assert (view.options, view.query, view.dialects, view.comment) == (
        {"k2": "v2"},
        "SELECT id FROM t",
        {"spark": "SELECT id FROM t"},
        "of all",
    )
    sql("ALTER VIEW v RENAME TO w")
    assert (lake.views("db"), sql("SELECT max(id) FROM w")) == (["w"], [(2,)])
    for action, arguments, text in (
        ("drop", "", "SELECT id FROM t"),
        ("add", ", 'spark', 'SELECT 7 AS id'", "SELECT 7 AS id"),
        ("update", ", query => 'SELECT 8 AS id'", "SELECT 8 AS id"),
    ):
        assert sql(f"CALL sys.alter_view_dialect('w', '{action}'{arguments})") == [(True,)]
        assert ("View Text", text, "") in sql("DESC EXTENDED w")
    assert sql("SELECT * FROM w") == [(8,)]
    for action in ("add', 'spark', 'SELECT 1", "drop', 'flink", "nope"):
        with pytest.raises(Exception, match="alter_view_dialect"):
            sql(f"CALL sys.alter_view_dialect('w', '{action}')")


@pytest.mark.usefixtures("lake")
def test_what_is_no_view_is_refused(sql: Sql) -> None:
    for statement, message in (
        ("CREATE VIEW v AS DROP TABLE t", "is not a query"),
        ("CREATE VIEW v AS FROM t INSERT INTO t SELECT *", "is not a query"),
        ("CREATE VIEW v (a) AS SELECT * FROM t", "1 names for 3 columns"),
        ("CREATE VIEW v AS SELECT nope FROM t", "UNRESOLVED_COLUMN"),
        ("CREATE VIEW pm.db.v AS SELECT 1", "views is not supported; catalogs with metastore=rest, jdbc or hive"),
        ("ALTER VIEW nope AS SELECT 1", "there is no view 'db.nope'"),
        ("CREATE VIEW t AS SELECT 1", "AlreadyExists"),
    ):
        with pytest.raises(Exception, match=message.replace("(", "[(]")):
            sql(statement)
    assert sql("SHOW VIEWS") == sql("SHOW VIEWS IN pm.db") == []
    assert len(sql("SELECT * FROM t")) == 2
