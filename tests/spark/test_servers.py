"""Spark's Thrift server with a warehouse, and a client of JDBC: the beeline of PySpark."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyspark
import pytest

import morrow
from morrow.cli import warehouse
from morrow.cli.arguments import Format
from morrow.engine.errors import InvalidArgument
from morrow.spark import servers
from morrow.spark.sessions import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = Path(pyspark.__file__).parent / "jars" / "*"
BEELINE = ("-XX:TieredStopAtLevel=1", "-cp", str(JARS), "org.apache.hive.beeline.BeeLine", "--outputformat=tsv2")


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def test_a_client_of_jdbc_writes_and_reads(spark: SparkSession, tmp_path: Path) -> None:
    morrow.spark.catalog(spark, "pm", warehouse=tmp_path)
    spark.sql("CREATE DATABASE pm.db")
    server = servers.start_thrift_server(spark, port=find_port())
    try:
        statements = (
            "CREATE TABLE pm.db.t (id BIGINT NOT NULL, name STRING) TBLPROPERTIES ('primary-key' = 'id')",
            "INSERT INTO pm.db.t VALUES (1, 'ann'), (2, 'bob')",
            "CALL pm.sys.create_tag(table => 'db.t', tag => 'may')",
            "SELECT * FROM pm.db.t VERSION AS OF 'may' WHERE id = 2",
        )
        run = [each for text in statements for each in ("-e", text)]
        command = [str(find_java().home / "bin/java"), *BEELINE, "-u", server.url, *run]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
        with pytest.raises(InvalidArgument, match="cannot listen there"):
            servers.start_thrift_server(spark, port=int(server.url.rpartition(":")[2]))
    finally:
        server.stop()
    assert "2\tbob" in done.stdout
    assert morrow.open(tmp_path / "db.db/t").scan().count() == 2


def test_statements_of_a_terminal(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    morrow.spark.catalog(spark, "pm", warehouse=tmp_path)
    shared = SimpleNamespace(sql=spark.sql, stop=lambda: None)  # the session of all tests goes on
    monkeypatch.setattr(servers, "open_session", lambda *_: shared)
    warehouse.run_sql(str(tmp_path), "pm", "SHOW DATABASES IN pm; SELECT 'a;b' AS c", None, {}, Format.CSV)
    assert capsys.readouterr().out.splitlines()[-2:] == ["c", "a;b"]
    with pytest.raises(InvalidArgument, match="TABLE_OR_VIEW_NOT_FOUND"):
        warehouse.run_sql(str(tmp_path), "pm", "SELECT * FROM pm.db.nope", None, {}, Format.CSV)
