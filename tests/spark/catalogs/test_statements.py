"""Every statement in docs/spark-sql.md, in order, in one session: its effect, or its error message."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.catalogs.conftest import Sql
from tests.test_docs import ROOT, SPARK_SQL, run_guide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / SPARK_SQL
ROW = re.compile(r"^\| (`{1,2})(.+?)\1 \| (Yes|No: )(.*) \|$", re.MULTILINE)
SETTING = "spark.sql.sources.partitionOverwriteMode"


def test_every_statement_does_what_the_page_says(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    rows = ROW.findall(PAGE.read_text())
    assert len(rows) == PAGE.read_text().count("\n| `")
    try:
        for _, written, answer, words in rows:
            statement = written.replace("'/data/", f"'{tmp_path}/")
            if answer == "Yes":
                sql(statement)
            else:
                with pytest.raises(Exception, match=re.escape(words)):
                    sql(statement)
                    pytest.fail(f"{statement}: it is done, and the page says it is refused")
    finally:
        spark.conf.unset(SETTING)
        sql("USE spark_catalog.default")


@pytest.mark.usefixtures("spark")
def test_the_page_runs(golden_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_guide(SPARK_SQL, golden_root)


# CALL: table names are resolved as in other statements, and cached tables are read again.


def test_names_without_a_database(sql: Sql) -> None:
    for database in ("default", "db"):
        sql(f"CREATE DATABASE IF NOT EXISTS pm.{database}")
        sql(f"CREATE TABLE pm.{database}.`t ü` (id INT)")
        sql(f"INSERT INTO pm.{database}.`t ü` VALUES (1)")
    sql("CALL pm.sys.create_tag(table => 't ü', tag => 'of default')")
    try:
        sql("USE pm.db")
        sql("CALL sys.create_tag('t ü', 'of db')")
        sql("CALL sys.create_branch(table => 't ü', branch => 'b', tag => 'of db')")
        sql("CALL sys.create_tag(table => 't ü$branch_b', tag => 'of branch')")
        sql("CALL sys.compact(table => 't ü')")
        assert sql("SELECT tag_name FROM `t ü$tags`") == [("of db",)]
        assert sql("SELECT tag_name FROM `t ü$branch_b$tags` ORDER BY 1") == [("of branch",), ("of db",)]
    finally:
        sql("USE spark_catalog.default")
    assert sql("SELECT tag_name FROM pm.default.`t ü$tags`") == [("of default",)]


def test_a_cached_table_is_read_anew(sql: Sql) -> None:
    sql("CREATE TABLE pm.db.`t.ü` AS SELECT 1 AS id")
    sql("INSERT INTO pm.db.`t.ü` VALUES (2)")
    sql("CACHE TABLE pm.db.`t.ü`")
    try:
        assert sql("SELECT count(*) FROM pm.db.`t.ü`") == [(2,)]
        sql("CALL pm.sys.rollback(table => 'db.t.ü', snapshot => 1)")
        assert sql("SELECT * FROM pm.db.`t.ü`") == [(1,)]
        sql("CALL pm.sys.remove_orphan_files(table => 'db.*')")
    finally:
        sql("UNCACHE TABLE pm.db.`t.ü`")
