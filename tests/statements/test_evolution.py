"""INSERT and MERGE WITH SCHEMA EVOLUTION, REPLACE WHERE and ANALYZE TABLES."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    catalog = morrow.Catalog(tmp_path)
    catalog.sql("CREATE DATABASE db")
    catalog.sql("CREATE TABLE db.t (id INT, v INT, PRIMARY KEY (id))")
    catalog.sql("INSERT INTO db.t VALUES (1, 10), (2, 20)")
    return catalog


def test_insert_adds_the_columns_of_the_query(catalog: morrow.Catalog) -> None:
    catalog.sql("INSERT WITH SCHEMA EVOLUTION INTO db.t BY NAME SELECT 3 AS id, 'x' AS \"the tag\", 1.5 AS d")
    assert catalog.table("db.t").schema.names == ["id", "v", "the tag", "d"]
    rows = catalog.sql("SELECT * FROM db.t ORDER BY id").fetchall()
    assert [row[:3] for row in rows] == [(1, 10, None), (2, 20, None), (3, None, "x")]


@pytest.mark.parametrize(
    ("clauses", "columns"),
    [
        ("WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", ["id", "v", "tag", "other"]),
        ("WHEN MATCHED THEN UPDATE SET tag = s.tag", ["id", "v", "tag"]),
        ("WHEN MATCHED THEN DELETE", ["id", "v"]),
    ],
)
def test_merge_adds_the_columns_that_it_assigns(catalog: morrow.Catalog, clauses: str, columns: list[str]) -> None:
    source = "(SELECT 1 AS id, 11 AS v, 'x' AS tag, 0 AS other)"
    catalog.sql(f"MERGE WITH SCHEMA EVOLUTION INTO db.t USING {source} AS s ON t.id = s.id {clauses}")
    assert catalog.table("db.t").schema.names == columns


def test_replace_where_replaces_the_partitions_of_a_condition(catalog: morrow.Catalog) -> None:
    catalog.sql("CREATE TABLE db.p (day DATE, v INT) PARTITIONED BY (day)")
    catalog.sql("INSERT INTO db.p SELECT DATE '2026-01-01' + CAST(i AS INT), i FROM range(5) AS r(i)")
    march = "INSERT INTO db.p REPLACE WHERE day >= '2026-01-03' AND day <> '2026-01-05' SELECT DATE {}, 99"
    catalog.sql(march.format("'2026-01-03'"))
    assert catalog.sql("SELECT v FROM db.p ORDER BY day").fetchall() == [(0,), (1,), (99,), (4,)]
    with pytest.raises(InvalidArgument, match="rows of the partition"):
        catalog.sql(march.format("'2026-01-01'"))
    with pytest.raises(InvalidArgument, match="'v' is not a partition column"):
        catalog.sql("INSERT INTO db.p REPLACE WHERE v = 1 SELECT DATE '2026-01-01', 1")
    with pytest.raises(InvalidArgument, match="leave partition and dynamic out"):
        catalog.table("db.p").overwrite([], dynamic=True, replace_where="day > '2026-01-01'")


def test_analyze_tables_counts_all_of_them(catalog: morrow.Catalog) -> None:
    catalog.sql("CREATE TABLE db.empty (id INT)")
    done = catalog.sql("ANALYZE TABLES IN db COMPUTE STATISTICS").fetchall()
    assert done == [("counted the rows of 2 tables of db",)]
    assert catalog.table("db.t").snapshots()[-1].commit_kind == "ANALYZE"
