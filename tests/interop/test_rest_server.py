"""The REST server with which Java Paimon tests its client, used by Morrow's and Java's clients together.

For a renamed table, this server returns the old path, at which neither Java nor Morrow finds it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.catalog import settings
from morrow.engine.catalog.protocol import Catalog
from morrow.engine.catalog.settings import Settings
from morrow.engine.errors import AlreadyExists, MorrowError, StorageError, TableNotFound
from morrow.testing import CatalogTests
from tests.interop.jvm import JavaPaimon, JavaUnavailable, rest_server_jars

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
COLUMNS = [["id", "INT NOT NULL"], ["pt", "STRING"], ["v", "STRING"]]
KEYED: dict[str, Any] = {
    "schema": "id INT NOT NULL, pt STRING, v STRING",
    "primary_keys": "id",
    "options": {"bucket": 1},
}
BEAR = {"token.provider": "bear", "token": "hush-hush"}
DLF = {
    "token.provider": "dlf",
    "dlf.region": "cn-hangzhou",
    "dlf.access-key-id": "me",
    "dlf.access-key-secret": "hush-hush",
    "dlf.security-token": "for-now",
}
HOSTILE = ("a%2Fb", "q?x=1", "h#t", "a+b", "ü 'x'", "semi;c,d")

Served = Callable[..., dict[str, str]]


@pytest.fixture
def served(java: JavaPaimon, tmp_path: Path) -> Served:
    """Start a server that accepts the given credentials; return the options of its catalog."""
    try:
        jars = rest_server_jars()
    except JavaUnavailable as reason:
        pytest.skip(str(reason))

    def serve(auth: dict[str, str]) -> dict[str, str]:
        warehouse = uuid.uuid4().hex
        told = {"prefix": "paimon", "warehouse": warehouse}
        place = {"path": f"file:{tmp_path}/{warehouse}", "warehouse": warehouse, "jars": [str(jar) for jar in jars]}
        answer = java.ask("rest", auth=auth, defaults=told, **place)
        return {"metastore": "rest", "uri": answer["uri"], "warehouse": warehouse, **auth}

    return serve


def rows(table: morrow.Table) -> list[tuple[Any, ...]]:
    return sorted(table.scan().to_polars().rows())


def test_both_make_find_write_and_change_tables(java: JavaPaimon, served: Served) -> None:
    options = served(BEAR)
    ours = morrow.open_catalog(options)
    ours.create_database("db")
    java.ask("create", catalog=options, table="db.j", columns=COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    ours.create_table("db.m", **KEYED)
    for name in ("db.j", "db.m"):
        table = ours.table(name)
        java.ask("write", catalog=options, table=name, rows=[["+I", 1, "a", "java"], ["+I", 2, "a", "java"]])
        table.upsert({"id": [2, 3], "pt": ["b", None], "v": ["morrow", "ü"]})
        table.alter.add_column("n", "INT")
        java.ask("alter", catalog=options, table=name, changes=[["add_column", "m", "STRING"]])
        table.upsert({"id": [4], "pt": ["c"], "v": ["x"], "n": [7], "m": ["y"]})
        expected = [
            *((1, "a", "java", None, None), (2, "b", "morrow", None, None)),
            *((3, None, "ü", None, None), (4, "c", "x", 7, "y")),
        ]
        assert rows(ours.table(name)) == expected
        assert sorted(map(tuple, java.ask("read", catalog=options, table=name))) == expected
    ours.drop_table("db.j")
    assert java.ask("tables", catalog=options, database="db") == ours.tables("db") == ["m"]


def test_states(java: JavaPaimon, served: Served) -> None:
    options = served(BEAR)
    ours = morrow.open_catalog(options)
    table = ours.create_table("db.t", **KEYED)
    table.upsert({"id": [1], "pt": ["a"], "v": ["x"]})
    table.tags.create("one")
    table.branches.create("b", tag="one")
    branch = ours.table("db.t$branch_b")
    branch.upsert({"id": [2], "pt": ["b"], "v": ["y"]})
    assert (table.scan().count(), branch.scan().count()) == (1, 2)
    table.branches.fast_forward("b")
    assert rows(table) == [(1, "a", "x"), (2, "b", "y")]
    table.upsert({"id": [3], "pt": ["c"], "v": ["z"]})
    assert len(java.ask("read", catalog=options, table="db.t")) == 3
    table.rollback("one")
    assert rows(table) == [(1, "a", "x")]
    assert java.ask("read", catalog=options, table="db.t") == [[1, "a", "x"]]
    table.branches.delete("b")
    with pytest.raises(MorrowError, match="branch"):
        ours.table("db.t$branch_b")


def test_a_commit_whose_answer_is_lost_is_made_once(java: JavaPaimon, served: Served) -> None:
    table = morrow.open_catalog(served(BEAR)).create_table("db.t", **KEYED)
    jars = [str(jar) for jar in rest_server_jars()]
    java.ask("lose_answer", jars=jars, lose=True)
    try:
        table.upsert({"id": [1], "pt": ["a"], "v": ["x"]})
    finally:
        java.ask("lose_answer", jars=jars, lose=False)
    assert (rows(table), len(table.snapshots())) == ([(1, "a", "x")], 1)


def test_signed_requests_and_hostile_names(java: JavaPaimon, served: Served) -> None:
    """The server signs each request like Java's client, and compares the signatures."""
    options = served({**DLF, "dlf.signing-algorithm": "default"})
    ours = morrow.open_catalog(options)
    ours.create_database("db")
    for name in HOSTILE:
        ours.create_table(f"db.{name}", schema="id INT").append({"id": [1]})
        assert java.ask("read", catalog=options, table=f"db.{name}") == [[1]]
        assert rows(morrow.open_catalog(options).table(f"db.{name}")) == [(1,)]
    assert java.ask("tables", catalog=options, database="db") == ours.tables("db") == sorted(HOSTILE)
    with pytest.raises(StorageError, match="HTTP 401") as told:
        morrow.open_catalog({**options, "dlf.access-key-secret": "another-one"}).databases()
    assert "another-one" not in str(told.value)


def test_many_at_once_and_tables_made_again(java: JavaPaimon, served: Served) -> None:
    options = served(BEAR)
    ours = morrow.open_catalog(options)
    rarely = {"bucket": 1, "num-sorted-run.compaction-trigger": 100}  # Java fails if its compaction meets another
    table = ours.create_table("db.t", **KEYED | {"options": rarely})

    def commit(writer: int) -> None:
        found = morrow.open_catalog(options).table("db.t")
        for number in range(3):
            found.upsert({"id": [10 * writer + number], "pt": ["m"], "v": ["x"]})

    with ThreadPoolExecutor(3) as pool:
        done = pool.map(commit, range(3))
        for number in range(3):
            java.ask("write", catalog=options, table="db.t", rows=[["+I", 100 + number, "j", "x"]])
        list(done)
    assert [row[0] for row in rows(table)] == [0, 1, 2, 10, 11, 12, 20, 21, 22, 100, 101, 102]

    ours.drop_table("db.t")
    ours.create_table("db.t", **KEYED)
    with pytest.raises(TableNotFound, match=r"db\.t"):
        table.upsert({"id": [1], "pt": ["a"], "v": ["of the table before"]})
    assert rows(ours.table("db.t")) == []


def test_views_and_partitions(java: JavaPaimon, served: Served) -> None:
    options = served(BEAR)
    ours = morrow.open_catalog(options)
    ours.create_table("db.t", **KEYED).upsert({"id": [1, 2], "pt": ["a", "b"], "v": ["x", "y"]})
    spark = "SELECT * FROM `t` WHERE id <=> 2"
    java.ask("create_view", catalog=options, table="db.t", view="db.j", query="?", dialects={"spark": spark})
    ours.create_view("db.m", "SELECT id FROM t", dialects={"spark": "SELECT id FROM `t`"})
    assert sorted(java.ask("views", catalog=options, database="db")) == ours.views("db") == ["j", "m"]
    assert java.ask("view", catalog=options, view="db.m") == "SELECT id FROM `t`"
    assert ours.sql("SELECT j.v FROM db.j JOIN db.m USING (id)").fetchall() == [("y",)]
    ours.drop_view("db.m")
    assert (ours.views("db"), ours.functions("db")) == (["j"], [])
    parted = {"metastore.partitioned-table": "true"}
    days = ours.create_table("db.p", schema="id INT, d STRING", partition_keys="d", options=parted)
    days.append({"id": [1, 2], "d": ["a", "ü/%"]})
    days.delete("d = 'a'")
    assert [each["d"] for each in days.scan().to_polars().to_dicts()] == ["ü/%"]


class TestConformance(CatalogTests):
    __test__ = LONG  # the tests above always run

    @pytest.fixture
    def catalog(self, served: Served) -> Catalog:
        return settings.open_catalog(Settings.of(served(BEAR)))

    def test_a_table_is_renamed_with_its_rows_or_not_at_all(self, catalog: Catalog) -> None:
        """After a rename, this server returns the old path."""
        table = morrow.Catalog.over(catalog).create_table("db.t", **KEYED)
        table.upsert({"id": [1], "pt": ["a"], "v": ["x"]})
        catalog.rename_table("db.t", "db.u")
        with pytest.raises(TableNotFound, match="the folder does not exist"):
            morrow.Catalog.over(catalog).table("db.u").scan()
        assert catalog.tables("db") == ["u"]

    def test_one_of_several_creators_wins(self, catalog: Catalog) -> None:
        """The server may reply to the slower creators with the error that the schema exists."""
        ours = morrow.Catalog.over(catalog)
        ours.create_database("db")

        def create(_: int) -> bool:
            try:
                ours.create_table("db.t", **KEYED)
            except (AlreadyExists, StorageError):
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(create, range(4))) <= 1
        assert catalog.tables("db") == ["t"]

    def test_lists_come_in_pages(self, catalog: Catalog) -> None:
        for number in range(101):
            catalog.create_database(f"d{number}")
        assert len(catalog.databases()) == 101
