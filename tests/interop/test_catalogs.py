"""Java Paimon and Morrow in the same catalog: a JDBC catalog in SQLite, and a REST server in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import StorageError
from tests.interop.jvm import JavaError, JavaPaimon
from tests.support.rest_server import RestServer, rest_server

COLUMNS = [["id", "INT NOT NULL"], ["pt", "STRING"], ["v", "STRING"]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path) as served:
        yield served


@pytest.fixture(params=["jdbc", "rest"])
def options(request: pytest.FixtureRequest, tmp_path: Path, server: RestServer) -> dict[str, str]:
    """Build the catalog options, which are the same for Java and Morrow."""
    if request.param == "jdbc":
        uri = f"jdbc:sqlite:{tmp_path}/catalog.db?journal_mode=WAL"
        keys = {"jdbc.user": "user", "jdbc.password": "password", "catalog-key": "both", "lock.enabled": "true"}
        return {"metastore": "jdbc", "uri": uri, "warehouse": f"{tmp_path}/warehouse", **keys}
    return {"metastore": "rest", "uri": server.url, "warehouse": "lake", "token.provider": "bear", "token": "both"}


def rows(table: morrow.Table, **at: Any) -> list[tuple[Any, ...]]:
    return sorted(table.scan(**at).to_polars().rows())


def test_both_make_find_write_and_change_tables(java: JavaPaimon, options: dict[str, str]) -> None:
    ours = morrow.open_catalog(options)
    keyed = {"bucket": "2"}
    java.ask("create", catalog=options, table="db.j", columns=COLUMNS, primary_keys=["id"], options=keyed)
    ours.create_table("db.m", schema="id INT NOT NULL, pt STRING, v STRING", primary_keys="id", options=keyed)
    assert sorted(java.ask("tables", catalog=options, database="db")) == ours.tables("db") == ["j", "m"]

    for name in ("db.j", "db.m"):
        java.ask("write", catalog=options, table=name, rows=[["+I", 1, "a", "java"], ["+I", 2, "a", "java"]])
        table = ours.table(name)
        table.upsert({"id": [2, 3], "pt": ["b", "b"], "v": ["morrow", "morrow"]})
        java.ask("write", catalog=options, table=name, rows=[["+I", 3, "c", "java again"]])
        table.alter.add_column("n", "INT")
        java.ask("alter", catalog=options, table=name, changes=[["add_column", "m", "STRING"]])
        table.upsert({"id": [4], "pt": [None], "v": ["x"], "n": [7], "m": ["ü"]})

        expected = [
            (1, "a", "java", None, None),
            (2, "b", "morrow", None, None),
            (3, "c", "java again", None, None),
            (4, None, "x", 7, "ü"),
        ]
        assert rows(ours.table(name)) == expected
        assert [row[0] for row in sorted(java.ask("read", catalog=options, table=name))] == [1, 2, 3, 4]
        assert [each.id for each in table.snapshots()] == list(range(1, len(table.snapshots()) + 1))

    java.ask("rename", catalog=options, table="db.j", to="db.of_java")
    ours.rename_table("db.m", "db.of_morrow")
    assert sorted(java.ask("tables", catalog=options, database="db")) == ["of_java", "of_morrow"]
    assert len(java.ask("read", catalog=options, table="db.of_morrow")) == len(rows(ours.table("db.of_java"))) == 4
    java.ask("drop", catalog=options, table="db.of_morrow")
    ours.drop_table("db.of_java")
    assert java.ask("tables", catalog=options, database="db") == ours.tables("db") == []
    assert java.ask("databases", catalog=options) == ours.databases() == ["db"]


def test_properties_of_databases_of_one_are_those_of_the_other(java: JavaPaimon, options: dict[str, str]) -> None:
    ours = morrow.open_catalog(options)
    java.ask("create_database", catalog=options, database="j", properties={"comment": "of Java", "a": "it's ü"})
    ours.create_database("m", comment="of Morrow", properties={"a": "it's ü"})
    for name, comment in (("j", "of Java"), ("m", "of Morrow")):
        java.ask("alter_database", catalog=options, database=name, set={"b": "1", "a": "2"}, unset=["x"])
        ours.alter_database(name, {"c": 3}, unset="a")
        found = ours.database(name)
        assert (found.comment, found.properties.get("a"), found.properties["b"]) == (comment, None, "1")
        told = java.ask("database", catalog=options, database=name)
        own = {"comment": found.comment, "owner": found.owner, "location": found.location}
        shown = {**found.properties, **{key: value for key, value in own.items() if value is not None}}
        assert {key: value for key, value in told.items() if value != "null"} == shown
    ours.alter_database("j", comment="ours")
    assert java.ask("database", catalog=options, database="j")["comment"] == "ours"


def test_who_holds_the_lock_keeps_the_other_out(java: JavaPaimon, tmp_path: Path) -> None:
    options = {
        "metastore": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/c.db?journal_mode=WAL",
        "warehouse": f"{tmp_path}/w",
    }
    options |= {"jdbc.user": "u", "jdbc.password": "p", "lock.enabled": "true", "lock-check-max-sleep": "50 ms"}
    ours = morrow.open_catalog({**options, "lock-acquire-timeout": "1 s"})
    table = ours.create_table("db.t", schema="id INT NOT NULL, pt STRING, v STRING")
    java.ask("write", catalog=options, table="db.t", rows=[["+I", 1, "a", "x"]])

    locks = morrow.open_catalog(options)._catalog.locks  # type: ignore[attr-defined]  # of JDBC catalogs
    with locks.hold("db", "t"), pytest.raises(JavaError, match="Acquire lock failed"):
        java.ask(
            "write",
            catalog={**options, "lock-acquire-timeout": "200 ms"},
            table="db.t",
            rows=[["+I", 2, "a", "x"]],
        )
    locks._database.run("INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES ('jdbc.db.t', 480)")
    with pytest.raises(StorageError, match=r"the lock jdbc\.db\.t could not be acquired"):
        table.append({"id": [3], "pt": ["a"], "v": ["x"]})
    assert rows(table) == [(1, "a", "x")]


def test_views_of_one_are_those_of_the_other(java: JavaPaimon, server: RestServer) -> None:
    """Views in REST catalogs; Java supports them in JDBC catalogs only since 2.0."""
    options = {"metastore": "rest", "uri": server.url, "warehouse": "lake", "token.provider": "bear", "token": "both"}
    ours = morrow.open_catalog(options)
    table = ours.create_table("db.t", schema="id INT NOT NULL, pt STRING, v STRING", primary_keys="id")
    table.upsert({"id": [1, 2], "pt": ["a", "ü"], "v": ["x", "y"]})
    spark = "SELECT * FROM `t` WHERE id <=> 2"
    java.ask("create_view", catalog=options, table="db.t", view="db.j", query="?", dialects={"spark": spark})
    ours.create_view("db.m", "SELECT id FROM t", dialects={"spark": "SELECT id FROM `t`"})
    assert sorted(java.ask("views", catalog=options, database="db")) == ours.views("db") == ["j", "m"]
    assert java.ask("view", catalog=options, view="db.m") == "SELECT id FROM `t`"
    assert (ours.view("db.j").comment, ours.view("db.j").dialects) == ("by Java", {"spark": spark})
    assert ours.sql("SELECT j.v FROM db.j JOIN db.m USING (id)").fetchall() == [("y",)]
