"""COPY INTO in Spark: the cases of `Catalog.sql` again, one in four of them in `make test`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

import morrow
from tests.spark.catalogs.conftest import Sql
from tests.support.copy_cases import CASES, CSV, ID_NAME, REFUSED
from tests.support.profile import every


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
