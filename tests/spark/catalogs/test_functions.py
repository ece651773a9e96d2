"""Functions in Spark, which a REST catalog keeps for all engines; each statement of the page about REST catalogs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from morrow.engine.format.blobs import BlobDescriptor
from tests.spark.catalogs.conftest import Sql
from tests.spark.conftest import settings
from tests.support.rest_server import RestServer, rest_server
from tests.test_docs import ROOT, SPARK_SQL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def server(spark: SparkSession, sql: Sql, tmp_path: Path) -> Iterator[RestServer]:
    """Return the server of the catalog ``files``, whose database ``db`` is the current one, with a table ``boxes``."""
    with rest_server(tmp_path / "rest", functions={}) as served:
        options = {"metastore": "rest", "uri": served.url, "token.provider": "bear", "token": "x"}
        morrow.spark.catalog(spark, "files", options=options)
        for database in ("db", "other"):
            sql(f"CREATE DATABASE files.{database}")
        sql("USE files.db")
        sql("CREATE TABLE boxes (w DOUBLE, h DOUBLE)")
        sql("INSERT INTO boxes VALUES (1, 2), (3, 4)")
        yield served
        sql("USE spark_catalog.default")


def test_statements_of_the_page(server: RestServer, sql: Sql) -> None:
    page = (ROOT / SPARK_SQL).read_text()
    blocks = re.findall(r"^```sql\n(.*?)```$", page, re.MULTILINE | re.DOTALL)
    found = {line: sql(line) for block in blocks for line in block.splitlines()}
    assert found["SELECT area(w, h), files.db.area(w), most(1) FROM boxes"] == [(2.0, 2.0, 4.0), (12.0, 6.0, 4.0)]
    assert found["SELECT twice(4)"] == [(8,)]
    assert found["DESCRIBE FUNCTION EXTENDED area"][2] == ("Input:         width DOUBLE",)
    assert found["DESCRIBE FUNCTION blanks"] == [("Function: db.blanks",), ("Class: com.example.Blanks",)]
    assert found["SHOW PARTITIONS logs"] == [
        (f"dt=2026-05-{day}/hh={hour}",) for day, hour in (("01", "10"), ("01", "11"), ("02", "10"))
    ]
    assert found["SELECT sys.max_pt('db.logs')"] == [("2026-05-02",)]
    assert "PARTITIONED BY (dt, hh)" in found["SHOW CREATE TABLE logs"][0][0]
    assert list(server.functions or {}) == ["db"]
    assert [*(server.functions or {})["db"]] == ["most"]


@pytest.mark.usefixtures("server")
def test_calls(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE FUNCTION next(x INT) RETURNS INT RETURN x + 1")
    sql("CREATE FUNCTION later(x INT) RETURNS INT RETURN next(next(x))")
    sql("CREATE TABLE n AS SELECT id FROM range(3)")
    assert sql("WITH q AS (SELECT later(id) AS l FROM n) SELECT l FROM q WHERE l IN (SELECT next(3))") == [(4,)]
    assert [row[0] for row in spark.table("n").selectExpr("next(id) AS l").sort("l").collect()] == [1, 2, 3]
    sql("CREATE VIEW v AS SELECT next(id) AS l FROM n")
    sql("INSERT INTO n SELECT next(id) FROM n WHERE id = 0")
    sql("USE files.other")
    assert sorted(sql("SELECT l FROM db.v")) == [(1,), (2,), (2,), (3,)]
    assert sql("SELECT files.db.later(1)") == [(3,)]
    sql("CREATE FUNCTION db.third(x DECIMAL(9, 2)) RETURNS DECIMAL(9, 2) RETURN x")
    lambda_ = "(java.math.BigDecimal x) -> x.divide(new java.math.BigDecimal(3), 4, java.math.RoundingMode.HALF_UP)"
    definition = {"type": "lambda", "language": "JAVA", "definition": lambda_}
    change = {"action": "updateDefinition", "name": "spark", "definition": definition}
    sql(f"CALL files.sys.alter_function('db.third', '{json.dumps(change)}')")
    assert sql("SELECT CAST(db.third(v) AS STRING) FROM VALUES (1.00BD) AS x(v)") == [("0.33",)]
    sql("CREATE OR REPLACE FUNCTION db.next(x INT) RETURNS INT RETURN x + 10")
    assert sql("SELECT db.later(1)") == [(21,)]
    sql("CREATE OR REPLACE FUNCTION files.db.next(x INT) RETURNS INT RETURN db.later(x)")
    with pytest.raises(Exception, match="calls itself"):
        sql("SELECT db.later(1)")


REFUSED = {
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN x": "AlreadyExists: there is a function db.f already",
    "CREATE FUNCTION g(x INT) RETURNS INT RETURN sum(x)": "CANNOT_CONTAIN_COMPLEX_FUNCTIONS",
    "CREATE FUNCTION g(x INT, x INT) RETURNS INT RETURN x": "(?i)duplicate",
    "CREATE FUNCTION g(x INT) RETURNS TABLE (y INT) RETURN SELECT x": "creating SQL table functions",
    "CREATE FUNCTION g(x INT) RETURN nothing(x)": "ROUTINE_NOT_FOUND|UNRESOLVED_ROUTINE",
    "CREATE FUNCTION g() RETURN SELECT max(h) FROM boxes WITH ('branch' = 'b')": "query does not parse at line 1",
    "CREATE FUNCTION sys.max_pt(x INT) RETURN x": "Can't create built-in function",
    "DROP FUNCTION sys.max_pt": "Can't drop built-in function",
    "DROP FUNCTION g": "there is no function 'db.g'",
    "SELECT g(1)": "UNRESOLVED_ROUTINE",
    "SELECT f('x')": "CAST_INVALID_INPUT",
    "SELECT f(1, 2)": "WRONG_NUM_ARGS|requires 1",
    "CREATE FUNCTION t(x INT) RETURN x": "is a temporary function and already exists",
    "CALL files.sys.alter_function('db.f', '{\"action\": \"nope\"}')": "is none of addDefinition",
}


def test_refusals(server: RestServer, sql: Sql) -> None:
    sql("CREATE FUNCTION f(x INT) RETURNS INT RETURN x")
    sql("CREATE TEMPORARY FUNCTION t(x INT) RETURNS INT RETURN x")
    for statement, told in REFUSED.items():
        with pytest.raises(Exception, match=told):
            sql(statement)
    sql("DROP TEMPORARY FUNCTION t")
    assert [*(server.functions or {})["db"]] == ["f"]


def test_functions_of_blobs(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    morrow.spark.catalog(spark, "pm", warehouse=tmp_path, allowed_roots=[tmp_path])
    sql("USE pm.db")
    options = "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true', 'blob-field' = 'picture'"
    sql(f"CREATE TABLE images (id INT, picture BINARY) TBLPROPERTIES ({options}, 'blob-as-descriptor' = 'true')")
    (tmp_path / "é.png").write_bytes(b"Hello")
    sql(f"INSERT INTO images VALUES (1, sys.path_to_descriptor('file://{tmp_path}/é.png'))")
    [(text,)] = sql("SELECT sys.descriptor_to_string(picture) FROM images")
    assert re.fullmatch(r"BlobDescriptor\{version=2, uri='.*\.blob', offset=\d+, length=5\}", text)
    [(encoded,)] = sql("SELECT sys.path_to_descriptor('s3://bucket/é')")
    assert bytes(encoded) == BlobDescriptor("s3://bucket/é").encode()
    assert sql("SELECT sys.descriptor_to_string(NULL), sys.path_to_descriptor(NULL)") == [(None, None)]
    with pytest.raises(Exception, match="takes a descriptor of a blob, not other bytes"):
        sql("SELECT sys.descriptor_to_string(X'02')")

    sql(f"CREATE TABLE seen (id INT, picture BINARY) TBLPROPERTIES ({options}, 'blob-view-field' = 'picture')")
    sql("INSERT INTO seen SELECT id, pm.sys.blob_view('db.images', 'picture', _ROW_ID) FROM images")
    sql("INSERT INTO seen SELECT id, sys.blob_view('pm.db.images', 'picture', _ROW_ID) FROM `images$row_tracking`")
    assert [(row, bytes(picture)) for row, picture in sql("SELECT * FROM seen")] == [(1, b"Hello")] * 2
    with settings(spark, {"spark.paimon.*.db.seen.blob-view.resolve.enabled": "false"}):
        views = {bytes(picture) for _, picture in sql("SELECT * FROM seen")}
    assert views == {bytes(sql("SELECT sys.blob_view('db.images', 'picture', 0)")[0][0])}
    with pytest.raises(Exception, match=r"ColumnNotFound: blob_view: .* has no column 'nope'"):
        sql("SELECT sys.blob_view('images', 'nope', 1)")
    with pytest.raises(Exception, match="blob_view takes the names of a table and of a column as literals"):
        sql("SELECT sys.blob_view('images', sql, 1) FROM VALUES ('a') AS t(sql)")
    assert {("pm.sys.max_pt",), ("pm.sys.blob_view",)} <= set(sql("SHOW USER FUNCTIONS IN pm.sys"))
    with pytest.raises(Exception, match=r"InvalidArgument: sys\.path_to_descriptor takes 1 arguments, not 2"):
        sql("SELECT sys.path_to_descriptor('a', 'b')")
    sql("USE spark_catalog.default")


def test_arrays_that_options_make_vectors(sql: Sql, tmp_path: Path) -> None:
    options = "'vector-field' = 'embed', 'field.embed.vector-dim' = '2'"
    sql(f"CREATE TABLE pm.db.v (id INT, embed ARRAY<FLOAT> NOT NULL) TBLPROPERTIES ({options})")
    sql("INSERT INTO pm.db.v VALUES (1, array(1, 2))")
    assert sql("SELECT * FROM pm.db.v") == [(1, [1.0, 2.0])]
    assert str(morrow.Catalog(tmp_path).table("db.v")._newest.column("embed")) == "`embed` VECTOR<FLOAT, 2> NOT NULL"
    with pytest.raises(Exception, match="it has 1 element, not 2"):
        sql("INSERT INTO pm.db.v VALUES (2, array(1))")
