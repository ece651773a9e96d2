"""Every statement in docs/spark-sql.md, in order, in one session: its effect, or its error message."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql
from tests.support.copy_cases import CASES, CSV, ID_NAME, REFUSED
from tests.support.profile import every
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


# COPY INTO in Spark: the cases of `Catalog.sql` again, one in four of them in `make test`.


def test_loads(sql: Sql, tmp_path: Path) -> None:
    sql("USE pm.db")
    try:
        for number, name in enumerate(every(4, CASES)):
            case, folder = CASES[name], tmp_path / f"in{number}"
            case.write(folder)
            sql(f"CREATE TABLE t{number} ({case.columns})")
            report = sql(f"COPY INTO t{number} {case.into} FROM '{folder}' {case.format}")
            assert case.loads is None or [row[:5] for row in report] == case.loads, name
            assert all(case.errors.get(row[0], "") in (row[5] or "") for row in report), name
            found = [
                tuple(str(v) if isinstance(v, (Decimal, dt.date)) else v for v in row)
                for row in sql(f"SELECT * FROM t{number}")
            ]
            assert sorted(found, key=repr) == case.rows, name
    finally:
        sql("USE spark_catalog.default")


def test_refuses_wrong_statements(sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE pm.db.t (id INT, tags ARRAY<STRING>)")
    for end, (_, message) in REFUSED.items():
        with pytest.raises(Exception, match=message.replace("(", "[(]")):
            sql(f"COPY INTO pm.db.t FROM '{tmp_path}' {end}")
    for source, message in (
        ("()", "requires a non-empty query"),
        ("(DROP TABLE pm.db.t)", "only supports read-only queries"),
        ("(FROM pm.db.t INSERT INTO pm.db.t SELECT *)", "only supports read-only queries"),
        ("(INSERT OVERWRITE DIRECTORY 'x' USING csv SELECT 1)", "only supports read-only queries"),
    ):
        with pytest.raises(Exception, match=message.replace("(", "[(]")):
            sql(f"COPY INTO '{tmp_path}/out' FROM {source} {CSV}")
    (tmp_path / "a").write_text("abc\n")
    with pytest.raises(Exception, match="Cast failure in column 'id': 'abc' is no INT; nothing was loaded"):
        sql(f"COPY INTO pm.db.t (id) FROM '{tmp_path}/a' {CSV}")
    with pytest.raises(Exception, match=r"CSV into 'tags'"):
        sql(f"COPY INTO pm.db.t FROM '{tmp_path}/a' {CSV}")
    assert sql("SELECT * FROM pm.db.t") == []


def test_round_trips_load_once_by_spark_and_without(sql: Sql, tmp_path: Path) -> None:
    out, csv = tmp_path / "out", "FILE_FORMAT = (TYPE = CSV, HEADER = TRUE)"
    sql(f"CREATE TABLE pm.db.s ({ID_NAME})")
    sql("INSERT INTO pm.db.s VALUES (1, 'ann'), (2, 'b,b')")
    sql("CREATE TABLE pm.db.t LIKE pm.db.s")
    ((path, files, rows),) = sql(f"COPY INTO '{out}' FROM pm.db.s {csv}")
    assert (path, rows) == (str(out), 2)
    assert files == len(list(out.glob("part-*.csv"))) > 0
    with pytest.raises(Exception, match="path already exists; give OVERWRITE = TRUE"):
        sql(f"COPY INTO '{out}' FROM pm.db.s {csv}")
    load = f"FROM '{out}' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1)"
    assert {row[1] for row in sql(f"COPY INTO pm.db.t {load}")} == {"LOADED"}
    catalog = morrow.Catalog(tmp_path)
    assert {row[1] for row in catalog.sql(f"COPY INTO db.t {load}").fetchall()} == {"SKIPPED"}
    assert {row[1] for row in sql(f"COPY INTO pm.db.t {load}")} == {"SKIPPED"}
    assert catalog.table("db.t").scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "name": "ann"},
        {"id": 2, "name": "b,b"},
    ]
    query = "(SELECT id FROM pm.db.s WHERE id IN (1, 3))"
    assert sql(f"COPY INTO '{out}' FROM {query} FILE_FORMAT = (TYPE = JSON) OVERWRITE = TRUE")[0][2] == 1
    assert "".join(each.read_text() for each in out.glob("part-*.json")) == '{"id":1}\n'
    assert (
        sql(f"COPY INTO '{out}' FROM (SELECT 1 AS a WHERE false) FILE_FORMAT = (TYPE = PARQUET) OVERWRITE = TRUE")[0][2]
        == 0
    )
