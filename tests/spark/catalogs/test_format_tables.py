"""Format tables in Spark SQL: created, written by tasks, read by Spark or by tasks with the rows of local reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import lit

import morrow
from tests.support.rest_server import rest_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "id BIGINT, s STRING, `k v` STRING, day DATE, d DECIMAL(9, 2), f DOUBLE, t TIMESTAMP_NTZ, b BINARY"
ROWS = """
VALUES (1L, 'a, "b" \\\\ ü', 'x/=% ü', DATE'2024-02-29', 1.50, 0.1D, TIMESTAMP_NTZ'2024-01-02 03:04:05.000006', X'00'),
       (2L, NULL, NULL, NULL, NULL, CAST('NaN' AS DOUBLE), NULL, NULL),
       (3L, 'c', '_h', DATE'1500-02-28', -0.01, -0.0D, TIMESTAMP_NTZ'1969-12-31 23:59:58.5', X'01')
"""
PLACE = "PARTITION (`k v` = 'x/=% ü', day = '2024-02-29')"


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[morrow.Catalog]:
    """Make a catalog of a REST server, named ``files`` in Spark."""
    with rest_server(tmp_path / "rest") as server:
        options = {"metastore": "rest", "uri": server.url, "token.provider": "bear", "token": "x"}
        morrow.spark.catalog(spark, "files", **options)
        spark.sql("CREATE DATABASE files.db")
        yield morrow.open_catalog(options)


Run = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def run(spark: SparkSession) -> Run:
    return lambda text: [tuple(row) for row in spark.sql(text).collect()]


def local(catalog: morrow.Catalog, name: str = "db.t") -> list[tuple[Any, ...]]:
    return sorted(catalog.format_table(name).scan().to_polars().rows())


FORMATS = ["parquet", "orc", "csv", "json"] if os.environ.get("HYPOTHESIS_PROFILE") == "long" else ["parquet"]


@pytest.mark.parametrize("format_", FORMATS)
def test_written_and_read(catalog: morrow.Catalog, run: Run, spark: SparkSession, format_: str) -> None:
    run(
        f"CREATE TABLE files.db.t ({COLUMNS}) USING {format_} PARTITIONED BY (`k v`, day) "
        "TBLPROPERTIES ('type' = 'format-table')"
    )
    run(f"INSERT INTO files.db.t {ROWS}")
    there = run("SELECT * FROM files.db.t ORDER BY id")
    assert (len(there), repr(there)) == (3, repr(local(catalog)))
    rows = spark.table("files.db.t").where("day = DATE'2024-02-29'").select("id")
    assert ("FileScan parquet" in rows._jdf.queryExecution().executedPlan().toString()) is (format_ == "parquet")
    assert rows.collect() == [(1,)]

    run(f"INSERT OVERWRITE files.db.t {PLACE} (id, s) VALUES (10L, 'new')")
    spark.table("files.db.t").where("id = 3").withColumn("id", lit(103)).writeTo("files.db.t").overwritePartitions()
    assert [row[0] for row in local(catalog)] == [2, 10, 103]
    assert run("SHOW PARTITIONS files.db.t")[1:] == [("k v=null/day=null",), ("k v=x%2F%3D%25 ü/day=2024-02-29",)]
    run(f"ALTER TABLE files.db.t DROP {PLACE}")
    run("INSERT OVERWRITE files.db.t SELECT * FROM files.db.t WHERE id > 2")
    assert run("SELECT id, `k v` FROM files.db.t") == [(103, "_h")]
    run("TRUNCATE TABLE files.db.t")
    assert run("SELECT count(*) FROM files.db.t") == [(0,)]
    assert ("k v=_h/day=1500-02-28",) in run("SHOW PARTITIONS files.db.t")
    root = Path(catalog.format_table("db.t").path)
    assert [each for each in root.rglob("*") if each.is_file() or each.name.startswith(".")] == []


def test_a_format_of_files_makes_a_format_table(catalog: morrow.Catalog, run: Run, spark: SparkSession) -> None:
    for format_ in ("csv", "JSON", "orc", "parquet", "text"):
        run(f"CREATE TABLE files.db.{format_} (v STRING) USING {format_}")
        assert catalog.format_table(f"db.{format_}").format == format_.lower()
    run(
        "CREATE TABLE files.db.t (a INT, b INT, p INT) USING CSV OPTIONS ('csv.field-delimiter' ';') PARTITIONED BY (p)"
    )
    run("INSERT INTO files.db.t VALUES (1, 2, 3)")
    (file,) = Path(catalog.format_table("db.t").path).glob("p=3/*.csv")
    assert file.read_text() == "1;2\n"
    run("CREATE TABLE files.db.made USING json PARTITIONED BY (p) AS SELECT * FROM files.db.t")
    assert run("SELECT a, b, p FROM files.db.made") == [(1, 2, 3)]
    assert run("SHOW PARTITIONS files.db.made") == [("p=3",)]
    run("CREATE OR REPLACE TABLE files.db.t USING json AS SELECT a + 1 AS a FROM files.db.t")
    assert (run("SELECT * FROM files.db.t"), catalog.format_table("db.t").format) == ([(2,)], "json")
    run("CREATE OR REPLACE TABLE files.db.t AS SELECT a + 1 AS a FROM files.db.t")
    run("CREATE OR REPLACE TABLE files.db.t AS SELECT a + 1 AS b FROM files.db.t")  # the server keeps the snapshots
    assert (run("SELECT b FROM files.db.t"), run("SELECT a FROM files.db.t VERSION AS OF 1")) == ([(4,)], [(3,)])
    place = Path(catalog.table("db.t").path).parent / "elsewhere"
    run(f"CREATE TABLE files.db.far (id INT) LOCATION '{place}'")
    run("INSERT INTO files.db.far VALUES (7)")
    assert ("Type", "EXTERNAL", "") in run("DESCRIBE EXTENDED files.db.far")
    assert f"LOCATION '{place}'" in str(run("SHOW CREATE TABLE files.db.far"))
    run("DROP TABLE files.db.far")
    run(f"CREATE TABLE files.db.far USING paimon LOCATION '{place}'")
    assert run("SELECT * FROM files.db.far") == [(7,)]
    run("CALL files.sys.create_branch('db.far', 'b')")
    run("INSERT INTO files.db.`far$branch_b` VALUES (8)")
    assert [tuple(row) for row in spark.read.option("branch", "b").table("files.db.far").collect()] == [(8,)]
    spark.table("files.db.made").write.saveAsTable("files.db.saved")  # of the session's format: a Paimon table
    assert catalog.table("db.saved").scan().count() == 1
    run("CREATE TABLE files.db.of_csv (a INT, p STRING) USING csv PARTITIONED BY (p)")
    writer = spark.sql("SELECT 5 AS a, 'x' AS p").write.mode("overwrite").partitionBy("p")
    with pytest.raises(PySparkException, match=r"saveAsTable in the mode overwrite, .* of the format json"):
        writer.format("json").saveAsTable("files.db.of_csv")
    path = catalog.format_table("db.of_csv").path
    writer.format("csv").option("path", path).saveAsTable("files.db.of_csv")
    assert run("SELECT * FROM files.db.of_csv") == [(5, "x")]


def test_files_of_others(catalog: morrow.Catalog, run: Run) -> None:
    """Columns with other types, in capitals or missing are read like in local reads."""
    table = catalog.create_format_table("db.t", "id BIGINT, s STRING, p INT", partition_keys="p")
    table.append({"id": [1], "s": ["a"], "p": [1]})
    others = [
        {"id": pl.Series([8], dtype=pl.Int32), "s": ["int32"]},
        {"ID": [7], "s": ["up"]},
        {"s": ["no id"]},
        {"more": [1], "id": [9]},
    ]
    for number, columns in enumerate(others):
        pl.DataFrame(columns).write_parquet(Path(table.path, "p=1", f"{number}.parquet"))
    found = run("SELECT * FROM files.db.t")
    assert (sorted(map(repr, found)), len(found)) == (sorted(map(repr, table.scan().to_polars().rows())), 5)
    properties = "TBLPROPERTIES ('type' = 'format-table', 'file.format' = 'json')"
    run(f"CREATE TABLE files.db.made {properties} AS SELECT p, s FROM files.db.t")
    assert run("SELECT count(s), sum(p) FROM files.db.made") == [(4, 5)]


REFUSED = {
    "DELETE FROM files.db.t WHERE v = ''": "DELETE of a format table",
    "UPDATE files.db.t SET v = 'x'": "UPDATE of a format table",
    "MERGE INTO files.db.t t USING (SELECT 'x' AS v) s ON t.v = s.v WHEN NOT MATCHED THEN INSERT *": "MERGE INTO a",
    "ALTER TABLE files.db.t ADD COLUMN w INT": "ALTER TABLE .add column. of a format table",
    "ALTER TABLE files.db.t ADD PARTITION (v = 'x')": "not a partition column|is not partitioned|partition",
    "MSCK REPAIR TABLE files.db.t": "only for partitions in the catalog",
    "ANALYZE TABLE files.db.t COMPUTE STATISTICS": "only for partitions in the catalog",
    "SELECT files.sys.max_pt('files.db.t')": "it is not partitioned",
    "SELECT * FROM files.db.t VERSION AS OF 1": "type 'format-table'",
    "INSERT INTO files.db.t VALUES ('')": "set csv.null-literal",
    "INSERT OVERWRITE files.db.t VALUES ('a' || chr(10))": "CSV holds no line breaks",
    "CREATE TABLE files.db.u (a INT DEFAULT 1) TBLPROPERTIES ('type' = 'format-table')": "default values of columns",
    "CREATE TABLE files.db.u (a INT) TBLPROPERTIES ('type' = 'format-table', 'primary-key' = 'a')": "no primary key",
    "CREATE TABLE files.db.u (a INT) USING avro TBLPROPERTIES ('type' = 'format-table')": "a table USING avro",
}


def test_refusals(catalog: morrow.Catalog, run: Run) -> None:
    table = catalog.create_format_table("db.t", "v STRING", format="csv")
    table.append({"v": ["there"]})
    for statement, told in REFUSED.items():
        with pytest.raises(PySparkException, match=told):
            run(statement)
    assert (local(catalog), catalog.tables("db")) == ([("there",)], ["t"])
