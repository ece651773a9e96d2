"""Catalogs in Spark SQL that are configured by options, not just by a folder."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import morrow
import morrow.spark
from morrow.engine.errors import InvalidArgument, MorrowError
from tests.support.hive_metastore import hive_metastore
from tests.support.rest_server import rest_server


def test_a_jdbc_catalog(spark: SparkSession, tmp_path: Path) -> None:
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "jdbc.password": "hidden-word"}
    warehouse = tmp_path / "wh"
    morrow.spark.catalog(
        spark, "byjdbc", warehouse=warehouse, options={**options, "lock.enabled": True}, **{"table-default.bucket": 2}
    )
    spark.sql("CREATE DATABASE byjdbc.db")
    spark.sql("CREATE TABLE byjdbc.db.t (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
    spark.sql("INSERT INTO byjdbc.db.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("UPDATE byjdbc.db.t SET v = 'B' WHERE id = 2")
    spark.sql("ALTER TABLE byjdbc.db.t ADD COLUMN n INT")
    spark.sql("ALTER TABLE byjdbc.db.t RENAME TO db.u")

    assert [tuple(row) for row in spark.sql("SELECT * FROM byjdbc.db.u ORDER BY id").collect()] == [
        (1, "a", None),
        (2, "B", None),
    ]
    catalog = morrow.open_catalog({**options, "warehouse": str(warehouse)})
    assert (catalog.tables("db"), catalog.table("db.u").options["bucket"]) == (["u"], "2")
    for statement in ("compact('byjdbc.db.u')", "create_tag(table => 'db.u', tag => 'x')", "copy('db.u', 'db.w')"):
        spark.sql(f"CALL byjdbc.sys.{statement}")
    stream = spark.readStream.table("byjdbc.db.u").writeStream.option("checkpointLocation", str(tmp_path / "cp"))
    stream.trigger(availableNow=True).toTable("byjdbc.db.w").awaitTermination()
    assert (catalog.tables("db"), catalog.table("db.w").tags.names) == (["u", "w"], ())
    assert [len(catalog.table(name).snapshots()) for name in ("db.u", "db.w")] == [3, 2]
    with pytest.raises(InvalidArgument, match="no catalog is named"):
        morrow.spark.catalog(spark, "nowhere")
    told = [str(value) for value in spark.sparkContext.getConf().getAll()] + [
        str(row) for row in spark.sql("SET -v").collect()
    ]
    assert not [line for line in told if "hidden-word" in line]


def test_properties_of_databases(spark: SparkSession, tmp_path: Path) -> None:
    def told(statement: str) -> dict[str, str]:
        rows = [tuple(row) for row in spark.sql(statement).collect()]
        return {key: value for key, value in rows if key not in ("Catalog Name", "Owner")}

    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": str(tmp_path / "wh")}
    morrow.spark.catalog(spark, "bykept", options=options)
    spark.sql("CREATE DATABASE bykept.db COMMENT 'it''s all' WITH DBPROPERTIES ('a' = 'b', 'c d' = 'é')")
    spark.sql("ALTER DATABASE bykept.db SET DBPROPERTIES ('a' = '1', 'e' = 'f')")
    spark.sql("ALTER DATABASE bykept.db UNSET DBPROPERTIES ('e', 'not there')")
    about = {"Namespace Name": "db", "Comment": "it's all", "Location": f"{tmp_path}/wh/db.db"}
    assert told("DESCRIBE DATABASE bykept.db") == about
    assert told("DESCRIBE DATABASE EXTENDED bykept.db") == {**about, "Properties": "((a,1), (c d,é))"}
    spark.sql("COMMENT ON DATABASE bykept.db IS NULL")
    found = morrow.open_catalog(options).database("db")
    assert (found.comment, dict(found.properties)) == (None, {"a": "1", "c d": "é"})
    assert found.owner is not None
    for statement, words in (
        ("CREATE DATABASE bykept.e LOCATION '/tmp/e'", "the property 'location' of a database is not supported"),
        ("ALTER DATABASE bykept.db SET LOCATION '/tmp/e'", "the property 'location' of a database is not supported"),
        ("ALTER DATABASE bykept.db SET DBPROPERTIES ('exists' = 'x')", "the property 'exists' of a database"),
        ("ALTER DATABASE bykept.none SET DBPROPERTIES ('a' = 'x')", "SCHEMA_NOT_FOUND"),
        ("CREATE DATABASE bykept.e WITH DBPROPERTIES ('password' = 'x')", "keeps no secrets"),
    ):
        with pytest.raises(PySparkException, match=words) as error:
            spark.sql(statement)
        assert "at org.apache" not in str(error.value)
    assert [row[0] for row in spark.sql("SHOW DATABASES IN bykept").collect()] == ["db"]


def test_a_catalog_that_is_open_already(spark: SparkSession, tmp_path: Path) -> None:
    catalog = morrow.open_catalog(
        {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": str(tmp_path)}
    )
    folder = morrow.Catalog(tmp_path / "folder", verify="pages")
    for name, given in (("opened", catalog), ("opened_folder", folder)):
        given.create_database("db")
        morrow.spark.catalog(spark, name, warehouse=given)
        spark.sql(f"CREATE TABLE {name}.db.t (id INT)")
        spark.sql(f"INSERT INTO {name}.db.t VALUES (1)")
        spark.sql(f"CALL {name}.sys.create_tag('db.t', 'x')")
        assert given.table("db.t").to_polars(tag="x").rows() == [(1,)]
        assert spark.table(f"{name}.db.t").collect() == [(1,)]
    for wrong in ({"options": {"metastore": "jdbc"}}, {"verify": "pages"}):
        with pytest.raises(InvalidArgument, match="give it alone"):
            morrow.spark.catalog(spark, "opened", warehouse=folder, **wrong)


def test_a_rest_catalog(spark: SparkSession, tmp_path: Path) -> None:
    with rest_server(tmp_path) as server:
        options = {"metastore": "rest", "uri": server.url, "warehouse": "lake"}
        told = {"token.provider": "bear", "token": "hidden-word"}
        morrow.spark.catalog(spark, "byrest", **options, options=told)
        spark.sql("CREATE DATABASE byrest.db")
        spark.sql("CREATE TABLE byrest.db.t (id INT NOT NULL, d STRING) PARTITIONED BY (d)")
        spark.sql("INSERT INTO byrest.db.t VALUES (1, 'x'), (2, 'y')")
        spark.sql("ALTER TABLE byrest.db.t ADD COLUMN n INT")
        spark.range(3, 5).selectExpr("CAST(id AS INT) AS id", "'z' AS d", "7 AS n").writeTo("byrest.db.t").append()
        spark.sql("DELETE FROM byrest.db.t WHERE id = 1")

        assert sorted(tuple(row) for row in spark.table("byrest.db.t").collect()) == [
            (2, "y", None),
            (3, "z", 7),
            (4, "z", 7),
        ]
        assert spark.sql("SELECT count(*) FROM byrest.db.t VERSION AS OF 1").first()[0] == 2
        commits = [path for method, path in server.asked if path.endswith("/commit")]
        table = morrow.open_catalog({**options, **told}).table("db.t")
        assert len(commits) == len(table.snapshots()) == 3
        spark.sql("CALL byrest.sys.create_tag('db.t', 'x')")
        assert list(table.tags.names) == ["x"]
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "one.json").write_text('{"id": 5, "d": "x", "n": 1}')
        stream = spark.readStream.schema("id INT, d STRING, n INT").json(str(tmp_path / "in")).writeStream
        stream = stream.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
        stream.toTable("byrest.db.t").awaitTermination()
        assert spark.table("byrest.db.t").where("id = 5").count() == 1

        server.lets_in = lambda *asked: asked[4].get("Authorization") == "Bearer hidden-word"
        followed = spark.readStream.table("byrest.db.t")
        assert "hidden-word" not in followed._jdf.queryExecution().toString()
        stream = followed.writeStream.option("checkpointLocation", str(tmp_path / "follow"))
        stream.trigger(availableNow=True).toTable("byrest.db.copy").awaitTermination()
        assert spark.table("byrest.db.copy").count() == spark.table("byrest.db.t").count() == 4
        with pytest.raises(PySparkException, match="it is the catalog that says where"):
            spark.readStream.option("by-catalog", "x").table("byrest.db.t").writeStream.format(
                "noop"
            ).start().processAllAvailable()
        server.lets_in = lambda *_: True

        files = tmp_path / "files of f"
        for day, number in (("2024-02-29", 1), ("__DEFAULT_PARTITION__", 2)):
            (files / f"day={day}").mkdir(parents=True)
            (files / f"day={day}" / "one.json").write_text(f'{{"id": {number}}}')
        spark.sql("CREATE TABLE byrest.db.f (id INT, day DATE) PARTITIONED BY (day)")
        stored = server.databases["db"]["f"]
        stored.files, stored.options = str(files), {"type": "format-table", "file.format": "json"}
        assert spark.sql("SELECT sum(id), max(day) FROM byrest.db.f").first() == (3, dt.date(2024, 2, 29))
        (files / "day=__DEFAULT_PARTITION__" / "one.json").write_text("{")
        assert spark.table("byrest.db.f").where("day = '2024-02-29'").select("id").collect() == [(1,)]
        for statement in ("DELETE FROM {}", "SELECT * FROM {} VERSION AS OF 1"):
            with pytest.raises((PySparkException, MorrowError), match=r"not support|format-table|UNSUPPORTED"):
                spark.sql(statement.format("byrest.db.f")).collect()


class TestHive:
    __test__ = os.environ.get("HYPOTHESIS_PROFILE") == "long"  # tests/interop/test_hive.py covers Hive itself

    def test_a_catalog_of_hives_metastore(self, spark: SparkSession, tmp_path: Path) -> None:
        with hive_metastore() as uri:
            options = {"metastore": "hive", "uri": uri, "warehouse": f"{tmp_path}/wh"}
            morrow.spark.catalog(spark, "byhive", **options)
            spark.sql("CREATE DATABASE byhive.db")
            spark.sql(
                "CREATE TABLE byhive.db.t (id INT NOT NULL, v STRING, p STRING NOT NULL) PARTITIONED BY (p) "
                "TBLPROPERTIES ('primary-key' = 'id,p', 'metastore.partitioned-table' = 'true')"
            )
            spark.sql("INSERT INTO byhive.db.t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
            spark.sql("UPDATE byhive.db.t SET v = 'B' WHERE id = 2")
            spark.sql("ALTER TABLE byhive.db.t RENAME TO db.u")
            rows = [tuple(row) for row in spark.sql("SELECT * FROM byhive.db.u ORDER BY id").collect()]
            assert rows == [(1, "a", "x"), (2, "B", "y")]

            spark.sql("CREATE VIEW byhive.db.w AS SELECT v FROM byhive.db.u WHERE id = 2")
            assert [tuple(row) for row in spark.table("byhive.db.w").collect()] == [("B",)]
            spark.sql("DROP VIEW byhive.db.w")
            properties = "TBLPROPERTIES ('type' = 'format-table')"
            spark.sql(f"CREATE TABLE byhive.db.f (p STRING, id INT) USING orc PARTITIONED BY (p) {properties}")
            spark.sql("INSERT INTO byhive.db.f (p, id) VALUES ('x/%', 1), (NULL, 2)")
            assert sorted(map(tuple, spark.table("byhive.db.f").collect())) == [(1, "x/%"), (2, None)]
            with pytest.raises(
                PySparkException, match="columns in the order a, b is not supported; select them as b, a"
            ):
                spark.sql(f"CREATE TABLE byhive.db.g PARTITIONED BY (a) {properties} AS SELECT 'A' AS a, 'B' AS b")
            spark.sql("DROP TABLE byhive.db.f")
            catalog = morrow.open_catalog(options)
            assert catalog.tables("db") == ["u"]
            spark.sql("DROP DATABASE byhive.db CASCADE")
            assert catalog.databases() == ["default"]
