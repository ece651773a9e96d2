"""Spark's own catalog with Morrow's tables beside Spark's: ``spark_catalog``, in a session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import FOR_FEW_ROWS, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def run(spark: SparkSession) -> Iterator[Sql]:
    """Return a function that runs a statement in a session with the database ``own``."""
    session = spark.newSession()
    morrow.spark.catalog(session, "spark_catalog")

    def run(statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in session.sql(statement).collect()]

    with settings(session, FOR_FEW_ROWS):
        run("CREATE DATABASE own")
        run("USE own")
        yield run
        run("USE default")
        run("DROP DATABASE own CASCADE")


def test_tables_of_both(run: Sql, spark: SparkSession) -> None:
    run("CREATE TABLE t (a INT, b STRING) USING paimon TBLPROPERTIES ('primary-key' = 'a')")
    run("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    run("INSERT INTO t VALUES (2, 'z')")
    run("CREATE TABLE p USING parquet AS SELECT * FROM t")
    run("CREATE TABLE c (a INT, k INT) USING csv PARTITIONED BY (k)")
    run("INSERT INTO c VALUES (1, 2)")
    assert run("SELECT t.a, p.b FROM t JOIN p ON t.a = p.a JOIN c ON c.a = t.a") == [(1, "x")]
    assert sorted(row[1] for row in run("SHOW TABLES")) == ["c", "p", "t"]
    assert run("SELECT b FROM t VERSION AS OF 1 WHERE a = 2") == [("y",)]
    assert run("SELECT count(*) FROM `t$snapshots`") == [(2,)]
    run("UPDATE t SET b = 'u' WHERE a = 1")
    run("ALTER TABLE t CREATE TAG v")
    run("CALL spark_catalog.sys.create_tag(table => 'own.t', tag => 'w')")
    assert run("SHOW TAGS t") == [("v",), ("w",)]
    warehouse = str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")
    assert sorted(morrow.Catalog(warehouse).table("own.t").to_polars().rows()) == [(1, "u"), (2, "z")]

    # Spark's own tables, views and functions are its own
    run("ALTER TABLE c ADD PARTITION (k = 3)")
    run("MSCK REPAIR TABLE c")
    assert run("SHOW PARTITIONS c") == [("k=2",), ("k=3",)]
    run("ANALYZE TABLE p COMPUTE STATISTICS FOR COLUMNS a")
    run("ANALYZE TABLE t COMPUTE STATISTICS")
    run("CREATE VIEW v AS SELECT a FROM t")
    assert (run("SELECT max(a) FROM v"), [row[1] for row in run("SHOW VIEWS")]) == ([(2,)], ["v"])
    run("DROP VIEW v")
    for statement, told in REFUSED.items():
        with pytest.raises(Exception, match=told):
            run(statement)
    run("ALTER TABLE t RENAME TO t2")
    run("CREATE OR REPLACE TABLE t2 USING paimon AS SELECT 5 AS n")
    assert run("SELECT * FROM t2") == [(5,)]
    run("DROP TABLE t2")
    run("CREATE OR REPLACE TABLE p USING paimon AS SELECT a, 'p' AS c FROM p WHERE a = 1")
    assert (run("SELECT * FROM p"), run("SELECT * FROM p VERSION AS OF 1")) == ([(1, "p")], [(1, "p")])
    run("CREATE TABLE o (a INT) USING csv")
    run("REPLACE TABLE o (b INT) USING paimon TBLPROPERTIES ('bucket' = '-1')")
    assert (run("SELECT * FROM o"), morrow.Catalog(warehouse).table("own.o").schema.names) == ([], ["b"])
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        run("REPLACE TABLE c USING paimon AS SELECT a / (a - a) AS n FROM c")
    assert run("SELECT a FROM c") == [(1,)]
    run("DROP TABLE o")
    run("DROP TABLE p")
    assert [row[1] for row in run("SHOW TABLES")] == ["c"]


REFUSED = {
    "CREATE TABLE p (a INT) USING paimon": "TABLE_OR_VIEW_ALREADY_EXISTS",
    "CREATE TABLE t (a INT) USING parquet": "AlreadyExists: there is a table",
    "CREATE TABLE x USING paimon LOCATION '/tmp/x' AS SELECT 1 AS a": "create the table, then INSERT INTO it",
    "CREATE TABLE t LIKE p": "AlreadyExists: there is a table",
    "CREATE VIEW t AS SELECT 1": "AlreadyExists: there is a table",
    "ALTER TABLE p RENAME TO t": "AlreadyExists: there is a table",
    "ALTER TABLE own.p RENAME TO own.t": "AlreadyExists: there is a table",
    "DROP DATABASE own": "SCHEMA_NOT_EMPTY",
    "ALTER TABLE t RENAME TO p": "ALREADY_EXISTS",
}


def test_tables_with_a_location(run: Sql, tmp_path: Path) -> None:
    run(f"CREATE TABLE far (a INT, b STRING) USING paimon LOCATION '{tmp_path}/t' TBLPROPERTIES ('primary-key' = 'a')")
    run("INSERT INTO far VALUES (1, 'x'), (2, 'y')")
    run("DELETE FROM far WHERE a = 2")
    run("MERGE INTO far USING (SELECT 1 AS a, 'm' AS b) s ON far.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b")
    assert run("SELECT * FROM far") == [(1, "m")]
    assert sorted(run("SELECT * FROM far VERSION AS OF 1")) == [(1, "x"), (2, "y")]
    assert sorted(run("SELECT b FROM far TIMESTAMP AS OF '2100-01-01 00:00:00'")) == [("m",)]
    assert ("Type", "EXTERNAL", "") in run("DESCRIBE EXTENDED far")
    run(f"CREATE TABLE again USING paimon LOCATION '{tmp_path}/t'")
    run("ALTER TABLE again RENAME TO renamed")
    assert [row[1] for row in run("SHOW TABLES")] == ["far", "renamed"]
    run("DROP TABLE far")
    assert run("SELECT * FROM OWN.renamed") == [(1, "m")]


def test_databases_in_any_case(run: Sql) -> None:
    run("CREATE TABLE OWN.t USING paimon AS SELECT 1 AS a")
    run("USE Own")
    run("UPDATE t SET a = 2")
    run("ALTER TABLE t RENAME TO oWn.u")
    assert (run("SELECT * FROM OWN.u"), [row[1] for row in run("SHOW TABLES IN OwN")]) == ([(2,)], ["u"])


def test_migration_of_tables_beside(run: Sql) -> None:
    run("CREATE TABLE p (id STRING, day STRING) USING parquet PARTITIONED BY (day)")
    run("CREATE TABLE o USING orc AS SELECT '2' AS id")
    run("CREATE TABLE t USING paimon AS SELECT '3' AS id")
    run("INSERT INTO p VALUES ('1', 'x')")
    assert run("CALL sys.migrate_table(source_type => 'hive', table => 'own.p')") == [(True,)]
    assert run("SELECT * FROM p") == [("1", "x")]
    with pytest.raises(Exception, match=r"own\.p is a table of Paimon already"):
        run("CALL sys.migrate_table(source_type => 'hive', table => 'own.p')")
    ((done,),) = run("CALL sys.migrate_database(source_type => 'hive', database => 'own')")
    assert done == "migrate database is finished, success cnt: 1 , failed cnt: 0"
    assert [run(f"SELECT id FROM {name}") for name in "pot"] == [[("1",)], [("2",)], [("3",)]]
    assert [row[1] for row in run("SHOW TABLES")] == ["o", "p", "t"]
