"""Views of REST and JDBC catalogs: created, listed, dropped, and queried in SQL of the dialects they are written in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.catalog.protocol import View, parse_function
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    StorageError,
    TableNotFound,
    Unsupported,
)
from tests.support.rest_server import rest_server


def jdbc(folder: Path) -> morrow.Catalog:
    uri = f"jdbc:sqlite:{folder}/c.db"
    return morrow.open_catalog({"metastore": "jdbc", "uri": uri, "warehouse": f"{folder}/w"})


def function(*parameters: str, returns: str = "DOUBLE", **definitions: str | dict[str, str]) -> dict[str, Any]:
    """Describe a function with DOUBLE parameters as a server does; a text is its SQL."""
    return {
        "inputParams": [{"id": i, "name": name, "type": "DOUBLE"} for i, name in enumerate(parameters)],
        "returnParams": [{"id": 0, "name": "r", "type": returns}],
        "deterministic": True,
        "definitions": {
            dialect: {"type": "sql", "definition": each} if isinstance(each, str) else each
            for dialect, each in definitions.items()
        },
    }


FUNCTIONS = {
    "area": function("a", "B", duckdb="a * b", spark="0"),
    "twice": function("x", spark="nvl(x, -1) * 2", returns="INT"),
    "cube": function("x", trino="db.area(x, db.area(x, x))"),
    "Höhe": function(duckdb="1 + 1"),
    "loop": function("x", duckdb="db.loop(x) + 1"),
    "more": function("x", duckdb="x + y"),
    "total": function("x", duckdb="sum(x)"),
    "rows": function("x", duckdb="(SELECT max(id) FROM db.t)"),
    "jvm": function("x", spark={"type": "lambda", "definition": "x -> x", "language": "JAVA"}, flink={"type": "file"}),
    "broken": function("x", duckdb="x +"),
}


@pytest.fixture(params=["jdbc", "rest"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[morrow.Catalog]:
    if request.param == "jdbc":
        yield filled(jdbc(tmp_path))
        return
    with rest_server(tmp_path, functions={"db": FUNCTIONS}) as server:
        options = {"metastore": "rest", "uri": server.url, "token.provider": "bear", "token": "x"}
        yield filled(morrow.open_catalog(options))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[morrow.Catalog]:
    with rest_server(tmp_path_factory.mktemp("served"), functions={"db": FUNCTIONS}) as server:
        options = {"metastore": "rest", "uri": server.url, "token.provider": "bear", "token": "x"}
        yield filled(morrow.open_catalog(options))


@pytest.fixture
def local(tmp_path: Path) -> morrow.Catalog:
    return filled(jdbc(tmp_path))


def filled(catalog: morrow.Catalog) -> morrow.Catalog:
    table = catalog.create_table("db.t", schema="id INT NOT NULL, v STRING", primary_keys="id")
    table.upsert({"id": [1, 2, 3], "v": ["a", "b", None]})
    catalog.create_database("other")
    return catalog


def test_a_view_is_made_listed_read_and_dropped(catalog: morrow.Catalog) -> None:
    made = catalog.create_view("db.few", "SELECT id * 2 AS twice, v FROM t WHERE id < 3", comment="two of three")
    assert [field.name for field in made.fields] == ["twice", "v"]
    assert (made.comment, catalog.view("db.few"), catalog.views("db")) == ("two of three", made, ["few"])
    assert catalog.tables("db") == ["t"]

    catalog.sql(
        "CREATE VIEW other.\"ü v\" COMMENT 'c' AS SELECT f.v, t.id FROM db.few AS f JOIN db.t ON t.id * 2 = twice"
    )
    assert sorted(catalog.sql('SELECT * FROM other."ü v"').fetchall()) == [("a", 1), ("b", 2)]
    assert catalog.sql("SELECT count(*), sum(x.twice) FROM db.few x, db.few").fetchall() == [(4, 12)]
    assert catalog.sql("SELECT few.v FROM few ORDER BY 1 LIMIT 1", database="db").fetchall() == [("a",)]
    assert catalog.sql("SHOW VIEWS IN db LIKE 'f*'").fetchall() == [("db", "few")]
    catalog.table("db.t").upsert({"id": [1], "v": ["new"]})
    assert catalog.sql("SELECT v FROM db.few WHERE twice = 2").fetchall() == [("new",)]

    with pytest.raises(AlreadyExists):
        catalog.create_view("db.few", "SELECT 1 AS x")
    with pytest.raises(AlreadyExists):
        catalog.create_view("db.t", "SELECT 1 AS x")
    assert catalog.create_view("db.few", "SELECT 1 AS x", ignore_if_exists=True) == made
    catalog.sql("DROP VIEW db.few; DROP VIEW IF EXISTS db.few")
    assert catalog.views("db") == []
    with pytest.raises(TableNotFound, match=r"there is no view 'db\.few'"):
        catalog.drop_view("db.few")
    with pytest.raises(TableNotFound, match="few"):
        catalog.sql('SELECT * FROM other."ü v"')
    with pytest.raises(DatabaseNotFound):
        catalog.create_view("nope.v", "SELECT 1 AS x")


def test_functions_are_listed(catalog: morrow.Catalog) -> None:
    if "sqlite" in catalog.warehouse:
        with pytest.raises(Unsupported, match="metastore=rest"):
            catalog.functions("db")
        return
    assert catalog.functions("db") == sorted(FUNCTIONS)
    assert catalog.sql("SHOW FUNCTIONS IN db LIKE 'a*'").fetchall() == [("db", "area")]
    found = catalog.function("db.area")
    assert [str(each.type) for each in (*found.parameters, *found.returns)] == ["DOUBLE", "DOUBLE", "DOUBLE"]
    assert (found.definitions["duckdb"].text, found.deterministic) == ("a * b", True)
    with pytest.raises(TableNotFound, match=r"no function 'db\.are'; did you mean 'area'"):
        catalog.function("db.are")


def called(catalog: morrow.Catalog, text: str) -> Any:
    return catalog.sql(text).fetchall()


def test_functions_are_called(served: morrow.Catalog) -> None:
    assert called(served, "SELECT db.area(id + 1, 2), db.twice(NULL) FROM db.t ORDER BY 1") == [
        (4, -2),
        (6, -2),
        (8, -2),
    ]
    assert called(served, 'SELECT v FROM db.t WHERE db.cube(id) = 8 AND db."Höhe"() = 2') == [("b",)]
    assert called(served, "SELECT db.area(1.5, '2'), typeof(db.twice(1.4))")[0][1] == "INTEGER"
    assert called(served, "SELECT v.upper(), db.twice(sum(id)) FROM db.t AS db WHERE id = 1 GROUP BY v") == [("A", 2)]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        ("area(1)", InvalidArgument, r"db\.area\(a, B\) has 2 parameters, not 1"),
        ("loop(1)", InvalidArgument, "call each other too often"),
        ("more(1)", Unsupported, "reads y, no parameter of its own"),
        ("total(1)", Unsupported, "an aggregate"),
        ("rows(1)", Unsupported, "with a query"),
        ("jvm(1)", Unsupported, r"definitions spark \(lambda\), flink \(file\)"),
        ("broken(1)", Unsupported, "SQL for duckdb"),
        ("nope(1)", (InvalidArgument, TableNotFound), "nope"),
    ],
)
def test_functions_that_are_not_called(served: morrow.Catalog, call: str, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        served.sql(f"SELECT db.{call} FROM db.t").fetchall()


def given(catalog: morrow.Catalog, name: str, query: str, columns: str = "a INT", **dialects: str) -> None:
    """Create a view like another engine, without Morrow's checks."""
    fields = catalog.create_table("other.fields", schema=columns)._newest.fields
    catalog.drop_table("other.fields")
    catalog._catalog.create_view(name, View(query, fields, dialects))  # type: ignore[attr-defined]  # a JDBC catalog


@pytest.mark.parametrize(
    ("query", "dialects"),
    [
        ("not SQL at all", {"spark": "SELECT id FROM `pm`.`db`.`t` WHERE v RLIKE '^a' OR id = 5 div 2 "}),
        ("not SQL at all", {"trino": "SELECT id FROM db.t WHERE regexp_like(v, '^[ab]')"}),
        ("not SQL at all", {"spark": "no", "duckdb": "FROM t SELECT id WHERE id <= 2"}),
        ("SELECT `t`.`id` FROM `flinks`.`db`.`t` AS `t` WHERE `t`.`id` < 3", {"flink": "whatever"}),
        ("WITH t2 AS (FROM t), u AS (FROM t2 WHERE id IN (SELECT id FROM t2)) SELECT id FROM u WHERE id < 3", {}),
        ("SELECT id FROM t WHERE id IN (SELECT * FROM range(1, 3))", {}),
    ],
)
def test_texts_of_other_engines(local: morrow.Catalog, query: str, dialects: dict[str, str]) -> None:
    given(local, "db.v", query, "a INT", **dialects)
    assert local.sql("SELECT count(a), min(a), max(v.a) FROM db.v").fetchall() == [(2, 1, 2)]


@pytest.mark.parametrize(
    ("query", "columns", "dialects", "error", "said"),
    [
        ("SELEKT 1", "a INT", {"flink": "SELEKT 1"}, Unsupported, "has texts for flink"),
        ("x", "a INT", {"spark": "SELECT FROM WHERE"}, Unsupported, "text for spark"),
        ("SELECT a FROM v", "a INT", {}, InvalidArgument, "reads itself"),
        ("SELECT id FROM elsewhere.t", "a INT", {}, Unsupported, "no database is so named"),
        ("SELECT * FROM read_csv('/etc/passwd')", "a INT", {}, Unsupported, "reads read_csv"),
        ("SELECT * FROM read_text('/etc/passwd')", "a INT", {}, Unsupported, "reads read_text"),
        ("SELECT * FROM '/etc/passwd.csv'", "a STRING", {}, TableNotFound, "passwd"),
        ("SELECT $secret AS a", "a STRING", {}, Unsupported, "parameters"),
        ("DELETE FROM t", "a INT", {}, Unsupported, "not a query"),
        ("SELECT id, v FROM t", "a INT, b STRING, c INT", {}, InvalidArgument, "columns"),
    ],
)
def test_what_cannot_be_run_is_refused(
    local: morrow.Catalog, query: str, columns: str, dialects: dict[str, str], error: type[MorrowError], said: str
) -> None:
    given(local, "db.v", query, columns, **dialects)
    with pytest.raises(error, match=said):
        local.sql("SELECT * FROM db.v").fetchall()


def test_no_past_no_views_and_damage(local: morrow.Catalog, tmp_path: Path) -> None:
    given(local, "db.v", "SELECT id FROM t")
    past: list[Any] = ["VERSION AS OF 1", "/*+ OPTIONS('scan.snapshot-id' = '1') */"]
    for clause in past:
        with pytest.raises(Unsupported, match="an earlier state of a view"):
            local.sql(f"SELECT * FROM db.v {clause}")
    local._catalog.rows.database.run("UPDATE paimon_views SET view_schema = '{'")  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match="not JSON"):
        local.view("db.v")
    folder = morrow.Catalog(tmp_path / "w")
    folder.create_database("db", ignore_if_exists=True)
    with pytest.raises(Unsupported, match="metastore=rest, jdbc or hive"):
        folder.views("db")
    with pytest.raises(TableNotFound):
        folder.sql("SELECT * FROM db.v")


def test_functions_are_changed(tmp_path: Path) -> None:
    with rest_server(tmp_path, functions={}) as server:
        catalog = morrow.open_catalog({"metastore": "rest", "uri": server.url, "token.provider": "bear", "token": "x"})
        catalog.create_database("db")
        made = parse_function(function("a", "b", duckdb="a * b"), "here")
        catalog.create_function("db.area", made)
        assert catalog.function("db.area") == made
        assert catalog.sql("SELECT db.area(2, 3)").fetchall() == [(6.0,)]
        with pytest.raises(AlreadyExists, match=r"there is a function 'db\.area' already"):
            catalog.create_function("db.area", made)
        catalog.create_function("db.area", made, ignore_if_exists=True)
        catalog.alter_function("db.area", {"action": "dropDefinition", "name": "duckdb"})
        assert dict(catalog.function("db.area").definitions) == {}
        catalog.create_function("db.area", made, replace=True)
        assert dict(catalog.function("db.area").definitions) != {}
        with pytest.raises(InvalidArgument, match="not a function name"):
            catalog.create_function("db.42", made)
        catalog.drop_function("db.area")
        catalog.drop_function("db.area", ignore_if_not_exists=True)
        with pytest.raises(TableNotFound, match=r"there is no function 'db\.area'"):
            catalog.drop_function("db.area")
