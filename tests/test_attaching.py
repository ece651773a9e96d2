"""A warehouse as a database of a DuckDB connection: ``morrow.duckdb.attach``."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import morrow
import morrow.duckdb
from morrow.engine.errors import InvalidArgument, Unsupported

HOSTILE = 'ta.b\'le "q" % ü'


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    catalog = morrow.Catalog(tmp_path / "it's")
    catalog.sql("""
        CREATE DATABASE db; CREATE DATABASE main;
        CREATE TABLE db.t (a INT, b STRING, PRIMARY KEY (a)) WITH ('bucket' = '1');
        INSERT INTO db.t VALUES (1, 'x'), (2, 'y')
    """)
    catalog.sql(f"CREATE TABLE main.`{HOSTILE}` AS SELECT 7 AS n")
    return catalog


@pytest.fixture
def con(catalog: morrow.Catalog) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield morrow.duckdb.attach(connection, catalog.warehouse, "pm")


def test_queries_see_the_newest_state(con: duckdb.DuckDBPyConnection, catalog: morrow.Catalog) -> None:
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    assert con.sql(f"SELECT n FROM pm.main.{quoted}").fetchall() == [(7,)]
    assert con.sql('SELECT snapshot_id FROM pm.db."t$snapshots"').fetchall() == [(1,)]
    catalog.sql("INSERT INTO db.t VALUES (3, 'z'); CREATE TABLE db.u AS SELECT 2 AS a")
    catalog.sql("ALTER TABLE db.u ADD COLUMN c INT")
    assert con.sql("SELECT count(*) FROM pm.db.t WHERE a > 1").fetchall() == [(2,)]
    con.execute("CREATE TABLE mine AS SELECT 2 AS a")
    assert con.sql("SELECT b, c FROM pm.db.t JOIN mine USING (a) JOIN pm.db.u USING (a)").fetchall() == [("y", None)]
    plan = con.sql("EXPLAIN SELECT a FROM pm.db.t WHERE a > 1").fetchall()[0][1]
    assert "Projections: a" in plan and "a > 1" in plan
    assert con.sql("SHOW DATABASES").fetchall() == [("memory",), ("pm",)]
    catalog.sql("DROP TABLE db.u")
    with pytest.raises(duckdb.CatalogException, match="does not exist"):
        con.sql("SELECT * FROM pm.db.u")


def test_tables_of_other_processes(con: duckdb.DuckDBPyConnection, catalog: morrow.Catalog) -> None:
    made = morrow.Catalog(catalog.warehouse)._catalog  # without the layer that notifies watchers
    made.create_table("db.v", catalog.table("db.t")._newest)
    morrow.duckdb.refresh(con, "pm")
    assert con.sql("SELECT count(*) FROM pm.db.v").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE pm.db.x AS SELECT 1 AS a",
        "CREATE SCHEMA pm.x",
        "CREATE VIEW pm.db.x AS SELECT 1 AS a",
        "DROP VIEW pm.db.t",
        "INSERT INTO pm.db.t VALUES (9, 'w')",
    ],
)
def test_writing_is_refused(con: duckdb.DuckDBPyConnection, statement: str) -> None:
    con.execute("USE pm.db")
    with pytest.raises(duckdb.Error, match=r"read-only|not an table"):
        con.execute(statement)
    assert con.sql("SELECT count(*) FROM t").fetchall() == [(2,)]


def test_queries_go_on_while_tables_come_and_go(con: duckdb.DuckDBPyConnection, catalog: morrow.Catalog) -> None:
    con.execute("USE pm.db")
    found: list[object] = []
    done = threading.Event()

    def count() -> None:
        with con.cursor() as cursor:
            while not done.is_set():
                found.extend(cursor.sql("SELECT count(*) FROM pm.db.t").fetchall())

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for _ in range(3):
            catalog.sql("CREATE TABLE db.u AS SELECT 2 AS a")
            assert con.sql("SELECT a FROM u").fetchall() == [(2,)]
            catalog.sql("DROP TABLE db.u")
    finally:
        done.set()
        thread.join()
    assert set(found) == {(2,)}


def test_a_connection_that_may_not_open_files(catalog: morrow.Catalog) -> None:
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        morrow.duckdb.attach(connection, catalog, "pm")
        assert connection.sql("SELECT count(*) FROM pm.db.t").fetchall() == [(2,)]
        catalog.sql("CREATE TABLE db.u AS SELECT 2 AS a")
        assert connection.sql("SELECT a FROM pm.db.u").fetchall() == [(2,)]


def test_several_warehouses_threads_and_cursors(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    other = morrow.Catalog(tmp_path / "other")
    other.sql("CREATE DATABASE x; CREATE TABLE x.t AS SELECT 9 AS a")
    morrow.duckdb.attach(con, other, 'we"ird')
    query = 'SELECT count(*) FROM pm.db.t, "we""ird".x.t'
    found: list[object] = []

    def count() -> None:
        with con.cursor() as cursor:
            found.extend(cursor.sql(query).fetchall())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(2,)] * 4
    with pytest.raises(InvalidArgument, match="has a database 'PM' already"):
        morrow.duckdb.attach(con, other, "PM")


def test_detaching_leaves_nothing(con: duckdb.DuckDBPyConnection, catalog: morrow.Catalog) -> None:
    morrow.duckdb.detach(con, "pm")
    left = con.sql("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()
    assert left == [("memory",)]
    assert con.sql("FROM duckdb_functions() WHERE function_name LIKE 'morrow%'").fetchall() == []
    with pytest.raises(InvalidArgument, match="no warehouse attached as 'pm'"):
        morrow.duckdb.detach(con, "pm")
    morrow.duckdb.attach(con, catalog, "pm")
    con.close()
    catalog.sql("CREATE TABLE db.later (a INT)")  # no connection is notified any longer
    morrow.duckdb.detach(con, "pm")


def test_detached_by_sql(con: duckdb.DuckDBPyConnection, catalog: morrow.Catalog) -> None:
    con.sql("SELECT * FROM pm.db.t").fetchall()
    con.execute("DETACH pm; ATTACH ':memory:' AS pm")
    catalog.sql("CREATE TABLE db.w AS SELECT 1 AS a")  # the catalog changes, and the foreign database stays unchanged
    assert con.sql("SELECT database_name FROM duckdb_databases() WHERE NOT internal ORDER BY 1").fetchall() == [
        ("memory",),
        ("pm",),
    ]
    assert con.sql("SELECT 1 FROM duckdb_schemas() WHERE database_name = 'pm' AND schema_name = 'db'").fetchall() == []
    con.execute("DETACH pm")
    morrow.duckdb.attach(con, catalog.warehouse, "pm")
    con.execute("DETACH pm")
    morrow.duckdb.attach(con, catalog.warehouse, "pm")
    assert con.sql("SELECT a FROM pm.db.w").fetchall() == [(1,)]


def test_names_that_duckdb_takes_for_one(catalog: morrow.Catalog) -> None:
    catalog.sql("CREATE TABLE db.T (a INT)")
    with duckdb.connect() as connection:
        with pytest.raises(Unsupported, match="differ only in case"):
            morrow.duckdb.attach(connection, catalog, "pm")
        assert connection.sql("FROM duckdb_databases() WHERE database_name = 'pm'").fetchall() == []


def test_a_process_ends_silently_with_what_it_has_attached(catalog: morrow.Catalog) -> None:
    code = """
        import duckdb, sys, morrow.duckdb
        con = duckdb.connect()
        morrow.duckdb.attach(con, sys.argv[1], "pm")
        print(con.sql("SELECT count(*) FROM pm.db.t").fetchall())
    """
    command = [sys.executable, "-c", textwrap.dedent(code), catalog.warehouse]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("[(2,)]\n", "")
