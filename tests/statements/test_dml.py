"""UPDATE and DELETE with correlated subqueries change the same rows as DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import morrow
from morrow.engine.errors import InvalidArgument

ROWS = "(1, 10, 'a'), (2, 20, 'b'), (3, 30, 'O''Hara'), (4, NULL, NULL), (5, 50, 'e')"
OTHERS = "(1, 100), (3, 300), (3, 301), (NULL, 7)"


@pytest.fixture(params=["PRIMARY KEY (id)", ""], ids=["keyed", "append"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[morrow.Catalog, duckdb.DuckDBPyConnection]:
    """Make the same two tables in a catalog and in a DuckDB."""
    key = f", {request.param}" if request.param else ""
    makes = (f"CREATE TABLE db.t (id INT, v INT, s STRING{key})", "CREATE TABLE db.o (id INT, w INT)")
    fills = (f"INSERT INTO db.t VALUES {ROWS}", f"INSERT INTO db.o VALUES {OTHERS}")
    catalog, plain = morrow.Catalog(tmp_path), duckdb.connect()
    for text in ("CREATE DATABASE db", *makes, *fills):
        catalog.sql(text)
        plain.sql(text.replace("DATABASE", "SCHEMA"))
    return catalog, plain


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE db.t AS x SET v = (SELECT max(o.w) FROM db.o WHERE o.id = x.id)",
        "UPDATE db.t SET v = v + 1, s = 'seen' WHERE EXISTS (SELECT 1 FROM db.o WHERE o.id = t.id AND o.w > t.v * 9)",
        "DELETE FROM db.t WHERE NOT EXISTS (SELECT 1 FROM db.o WHERE o.id IS NOT DISTINCT FROM t.id)",
        "DELETE FROM db.t WHERE id > ANY (SELECT o.id FROM db.o)",
        "DELETE FROM db.t WHERE v < ALL (SELECT o.w FROM db.o)",
        "DELETE FROM db.t WHERE (SELECT count(*) FROM db.o WHERE o.id = t.id) = 2 OR s = 'O''Hara'",
        "DELETE FROM db.t WHERE id IN (SELECT id FROM db.o WHERE w > v)",
        "DELETE FROM db.t WHERE EXISTS (SELECT 1 FROM db.t AS other WHERE other.v > t.v)",
        "UPDATE db.t SET v = t.v + n.w FROM (SELECT id, max(w) AS w FROM db.o GROUP BY id) AS n WHERE n.id = t.id",
        "UPDATE db.t AS x SET s = 'all' FROM db.o WHERE o.w = 100",
        "DELETE FROM db.t AS x USING db.o WHERE o.id = x.id",
        "UPDATE db.t SET v = 0 WHERE id IN (SELECT id FROM db.o WHERE w > v AND w < 0)",
    ],
)
def test_the_same_rows_as_duckdb(statement: str, pair: tuple[morrow.Catalog, duckdb.DuckDBPyConnection]) -> None:
    catalog, plain = pair
    changed = sum(catalog.sql(statement).fetchall()[0][:3])
    assert [(changed,)] == plain.execute(statement).fetchall()
    query = "SELECT * FROM db.t ORDER BY ALL"
    assert catalog.sql(query).fetchall() == plain.sql(query).fetchall()


def test_a_subquery_of_several_rows_changes_nothing(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    for text in (
        "CREATE DATABASE db",
        "CREATE TABLE db.t (id INT, v INT)",
        "INSERT INTO db.t VALUES (3, 1)",
        "CREATE TABLE db.o (id INT, w INT)",
        f"INSERT INTO db.o VALUES {OTHERS}",
    ):
        catalog.sql(text)
    with pytest.raises(InvalidArgument, match="More than one row"):
        catalog.sql("UPDATE db.t SET v = (SELECT w FROM db.o WHERE o.id = t.id)")
    with pytest.raises(InvalidArgument, match="not found"):
        catalog.sql("DELETE FROM db.t WHERE EXISTS (SELECT 1 FROM db.o WHERE o.wrong = t.id)")
    assert len(catalog.table("db.t").snapshots()) == 1
