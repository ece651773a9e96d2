"""SET and RESET, catalogs of a session, and names of three parts in `Catalog.sql`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, Unsupported


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    """``db.t`` with the snapshots 1, 2 and 3 of one, two and three rows."""
    made = morrow.Catalog(tmp_path / "warehouse")
    made.sql("CREATE DATABASE db; CREATE TABLE db.t (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED)")
    for i in (1, 2, 3):
        made.sql(f"INSERT INTO db.t VALUES ({i}, 'v{i}')")
    return made


def run(catalog: morrow.Catalog, text: str) -> list[Any]:
    return catalog.sql(text).fetchall()


@pytest.mark.parametrize(
    "set_option",
    [
        "SET scan.snapshot-id = 2",
        "SET 'scan.snapshot-id' = '2'",
        "SET `spark.paimon.scan.snapshot-id` = 2",
        "SET 'paimon.db.t.scan.snapshot-id' = '2'",
        "SET paimon.default_catalog.db.t.scan.snapshot-id = 2",
        "SET spark.paimon.*.db.*.scan.snapshot-id = 2",
        "SET scan.snapshot-id = 1; SET paimon.*.*.t.scan.snapshot-id = 3; SET paimon.db.t.scan.snapshot-id = 2",
    ],
)
def test_options_of_reads(catalog: morrow.Catalog, set_option: str) -> None:
    run(catalog, set_option)
    assert run(catalog, "SELECT count(*) FROM db.t") == [(2,)]
    assert run(catalog, "USE db; SELECT count(*) FROM t") == [(2,)]
    assert run(catalog, "SELECT count(*) FROM t VERSION AS OF 1") == [(1,)]
    assert run(catalog, "SELECT count(*) FROM t /*+ OPTIONS('scan.snapshot-id' = '3') */") == [(3,)]
    assert run(catalog, 'SELECT count(*) FROM "t$snapshots"') == [(3,)]
    assert run(catalog, "RESET; SELECT count(*) FROM t") == [(3,)]


def test_options_of_another_table_do_not_count(catalog: morrow.Catalog) -> None:
    run(catalog, "SET paimon.db.u.scan.snapshot-id = 1; SET paimon.*.x.*.scan.snapshot-id = 2")
    assert run(catalog, "SELECT count(*) FROM db.t") == [(3,)]
    assert run(catalog, "CREATE TABLE db.u AS SELECT * FROM db.t; SELECT count(*) FROM db.u") == [(3,)]


def test_options_of_writes(catalog: morrow.Catalog) -> None:
    run(catalog, "SET scan.snapshot-id = 1; SET write-only = true; SET file.format = orc")
    run(catalog, "UPDATE db.t SET v = 'new' WHERE id = 3")  # changes are made on the newest snapshot
    run(catalog, "RESET 'scan.snapshot-id'")
    assert run(catalog, "SELECT v FROM db.t WHERE id = 3") == [("new",)]
    [newest] = run(catalog, 'SELECT DISTINCT file_format FROM db."t$files" WHERE max_sequence_number = 3')
    assert newest == ("orc",)
    assert catalog.table("db.t").options.get("file.format") is None


def test_options_are_shown(catalog: morrow.Catalog) -> None:
    assert run(catalog, "SET") == []
    assert run(catalog, "SET scan.snapshot-id = 2") == [("scan.snapshot-id", "2")]
    assert run(catalog, "SET 'scan.snapshot-id'") == run(catalog, "SET") == [("scan.snapshot-id", "2")]
    assert run(catalog, "RESET scan.snapshot-id; SET") == []
    assert run(catalog, "SET paimon.scan.snapshot-id = 2; RESET scan.snapshot-id; SET") == []
    with pytest.raises(Unsupported, match=r"RESET scan\.snapshot, which is not an option"):
        run(catalog, "RESET scan.snapshot")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SET scan.snapshotid = 2", Unsupported, "did you mean 'scan.snapshot-id'"),
        ("SET scan.snapshot-id = two", InvalidArgument, "must be a whole number"),
        ("SET bucket = 4", Unsupported, "ALTER TABLE"),
        ("SET merge-engine = aggregation", Unsupported, "ALTER TABLE"),
        ("SET threads = 4", Unsupported, "set options of DuckDB by its connection"),
        ("SET 'execution.runtime-mode' = 'batch'", Unsupported, "those of Flink and Spark have no effect"),
        ("SET TIME ZONE 'UTC'", Unsupported, "SET TIME ZONE"),
        ("SET paimon.t.scan.snapshot-id = 2", InvalidArgument, "paimon.<database>.<table>.<option>"),
        ("SET paimon.nope.db.t.scan.snapshot-id = 2", InvalidArgument, "no catalog 'nope'"),
        ("SET scan.snapshot-id", InvalidArgument, "not set"),
        ("SET scan.snapshot-id =", InvalidArgument, "a value is expected"),
    ],
)
def test_refused_options(catalog: morrow.Catalog, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        catalog.sql(text)
    assert run(catalog, "SET") == []


def test_catalogs_of_a_session(catalog: morrow.Catalog, tmp_path: Path) -> None:
    other = f"WITH ('type' = 'paimon', 'warehouse' = '{tmp_path / 'other'}')"
    run(catalog, f"CREATE CATALOG x {other}; CREATE CATALOG IF NOT EXISTS x {other}")
    assert run(catalog, "SHOW CATALOGS") == [("default_catalog",), ("x",)]
    run(catalog, "CREATE DATABASE x.shop; CREATE TABLE x.shop.u (id INT, v STRING)")
    run(catalog, "INSERT INTO x.shop.u SELECT * FROM db.t")
    assert run(catalog, "SELECT x.shop.u.v FROM x.shop.u JOIN db.t USING (id) WHERE id = 2") == [("v2",)]
    run(catalog, "UPDATE x.shop.u SET v = (SELECT max(v) FROM db.t AS old WHERE old.id < u.id) WHERE id = 3")
    run(catalog, "DELETE FROM x.shop.u USING db.t AS t WHERE t.id = u.id AND t.id = 1")
    assert run(catalog, "SHOW TABLES IN x.shop") == [("shop", "u")]
    run(catalog, "CALL x.sys.create_tag('shop.u', 'one')")

    assert run(catalog, "USE CATALOG x; SHOW CURRENT CATALOG") == [("x",)]
    assert run(catalog, "SELECT * FROM shop.u ORDER BY id") == [(2, "v2"), (3, "v2")]
    assert run(catalog, "SELECT count(*) FROM default_catalog.db.t") == [(3,)]
    assert run(catalog, "USE shop; SHOW TAGS u") == [("one",)]
    assert run(catalog, "USE default_catalog.db; SHOW CURRENT DATABASE") == [("default_catalog", "db")]
    assert run(catalog, "DROP CATALOG x; SHOW CATALOGS") == [("default_catalog",)]
    assert morrow.Catalog(tmp_path / "other").tables() == ["shop.u"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("CREATE CATALOG y", InvalidArgument, "'type' = 'paimon', 'warehouse'"),
        ("CREATE CATALOG y WITH ('type' = 'jdbc', 'warehouse' = 'w')", Unsupported, "known values: paimon"),
        ("CREATE CATALOG y WITH ('warehouse' = 'w', 'nope' = '1')", InvalidArgument, "unknown option 'nope'"),
        ("CREATE CATALOG default_catalog WITH ('warehouse' = 'w')", AlreadyExists, "default_catalog"),
        ("DROP CATALOG default_catalog", InvalidArgument, "current catalog"),
        ("DROP CATALOG nope", InvalidArgument, "no catalog 'nope'"),
        ("USE CATALOG nope", InvalidArgument, "no catalog 'nope'"),
        ("USE nope", DatabaseNotFound, "no database nope"),
        ("USE nope.db", InvalidArgument, "no catalog 'nope'"),
        ("CREATE TABLE lake.shop.orders (id INT)", InvalidArgument, "3 parts; write database.table"),
        ("DROP TABLE IF EXISTS lake.shop.orders", InvalidArgument, "3 parts"),
        ("CREATE DATABASE lake.shop", InvalidArgument, "2 parts; write database"),
        ("SHOW DATABASES IN nope", InvalidArgument, "the name of a catalog"),
        ("CALL nope.sys.compact('db.t')", InvalidArgument, "CALL sys.name"),
    ],
)
def test_refused_catalogs(catalog: morrow.Catalog, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        catalog.sql(text)


def test_a_view_reads_its_own_catalog(tmp_path: Path) -> None:
    catalog = morrow.open_catalog(
        {"type": "paimon", "metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": str(tmp_path / "a")}
    )
    catalog.sql("CREATE DATABASE db; CREATE TABLE db.t AS SELECT 1 AS id")
    catalog.sql(f"CREATE CATALOG x WITH ('warehouse' = '{tmp_path / 'b'}'); USE CATALOG x")
    assert catalog.sql("SELECT id FROM default_catalog.db.t").fetchall() == [(1,)]


def test_settings_are_not_pickled(catalog: morrow.Catalog) -> None:
    catalog.sql("SET scan.snapshot-id = 1")
    again = pickle.loads(pickle.dumps(catalog))
    assert again.sql("SELECT count(*) FROM db.t").fetchall() == [(3,)]
    assert catalog.table("db.t").count() == 3  # options of SQL are not those of methods
