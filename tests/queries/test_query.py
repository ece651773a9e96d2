"""SQL over a catalog: ``Catalog.sql`` and ``morrow.sql``."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import (
    BranchNotFound,
    DatabaseNotFound,
    FileMissing,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    TableNotFound,
    TagNotFound,
    Unsupported,
)
from morrow.readers.execution import strategy
from tests.support.recording_store import RecordingStore

NOON = dt.datetime(2024, 5, 14, 12, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a warehouse with ``db.orders`` (id, amount) and ``other.items`` (id, name).

    Snapshot i of orders adds order i with the amount 10 * i, at noon and i - 1 seconds. Tag v2 keeps snapshot 2,
    and the tag with the name 3 keeps snapshot 1. Branch dev has order 1 only.
    """
    root = tmp_path_factory.mktemp("warehouse")
    catalog = morrow.Catalog(root)
    orders = catalog.create_table("db.orders", schema="id INT, amount INT", primary_keys=["id"], options={"bucket": 1})
    for i in (1, 2, 3):
        orders.append(pa.table({"id": pa.array([i], pa.int32()), "amount": pa.array([10 * i], pa.int32())}))
    items = catalog.create_table("other.items", schema="id INT, name STRING")
    items.append(pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["pen", "ink"]}))
    path = Path(orders.path)
    for i in (1, 2, 3):
        snapshot = path / f"snapshot/snapshot-{i}"
        members = json.loads(snapshot.read_text())
        snapshot.write_text(json.dumps(members | {"timeMillis": int(NOON.timestamp() * 1000) + 1000 * (i - 1)}))
    (path / "tag").mkdir()
    for name, snapshot_id in (("v2", 2), ("3", 1)):
        shutil.copy(path / f"snapshot/snapshot-{snapshot_id}", path / f"tag/tag-{name}")
    branch = path / "branch/branch-dev"
    shutil.copytree(path / "schema", branch / "schema")
    (branch / "snapshot").mkdir()
    shutil.copy(path / "snapshot/snapshot-1", branch / "snapshot")
    return root


@pytest.fixture
def catalog(made: Path) -> morrow.Catalog:
    return morrow.Catalog(made)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def rows(catalog: morrow.Catalog, query: str, con: duckdb.DuckDBPyConnection, **options: Any) -> list[tuple[Any, ...]]:
    return catalog.sql(query, connection=con, **options).fetchall()


def test_a_query_over_the_tables_of_a_catalog(catalog: morrow.Catalog, con: duckdb.DuckDBPyConnection) -> None:
    query = """
        WITH named AS (SELECT id, name FROM other.items)
        SELECT o.id, name, amount FROM db.orders AS o JOIN named USING (id) WHERE amount > 10
    """
    assert rows(catalog, query, con) == [(2, "ink", 20)]
    assert rows(catalog, "FROM db.orders SELECT sum(amount)", con) == [(60,)]
    assert rows(catalog, "SELECT db.orders.id, orders.amount FROM db.orders ORDER BY 1 LIMIT 1", con) == [(1, 10)]
    assert rows(catalog, "SELECT count(*) FROM `db`.`orders`", con) == [(3,)]
    assert len(rows(catalog, "DESCRIBE db.orders", con)) == len(rows(catalog, "SUMMARIZE db.orders", con)) == 2
    assert rows(catalog, "SELECT 1", con) == [(1,)]


def test_morrow_sql_takes_a_catalog_or_its_folder(made: Path, con: duckdb.DuckDBPyConnection) -> None:
    for catalog in (made, str(made), morrow.Catalog(made)):
        assert morrow.sql("SELECT max(id) FROM db.orders", catalog, connection=con).fetchall() == [(3,)]
    assert morrow.sql("SELECT max(id) FROM db.orders", made).fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("travel", "ids"),
    [
        ("VERSION AS OF 2", [1, 2]),
        ("VERSION AS OF 'v2'", [1, 2]),
        ("VERSION AS OF '2'", [1, 2]),
        ("VERSION AS OF 3", [1]),  # a tag of this name takes precedence over the snapshot, as in Java
        ("VERSION AS OF 'snapshot.3'", [1, 2, 3]),
        ("FOR VERSION AS OF 'v2'", [1, 2]),
        ("FOR SYSTEM_VERSION AS OF 'v2'", [1, 2]),
        ("version as of 2 AS o", [1, 2]),
        ("TIMESTAMP AS OF '2024-05-14 12:00:00'", [1]),
        ("TIMESTAMP AS OF '2024-05-14T14:00:01+02:00'", [1, 2]),
        ("TIMESTAMP AS OF '2024-05-15'", [1, 2, 3]),
        ("TIMESTAMP AS OF 1715688000", [1]),
        ("TIMESTAMP AS OF 1715688001.5", [1, 2]),
        ("TIMESTAMP AS OF TIMESTAMP '2024-05-14 12:00:01'", [1, 2]),
        ("TIMESTAMP AS OF TIMESTAMP '2024-05-14 12:00:01' - INTERVAL 1 SECOND", [1]),
        ("TIMESTAMP AS OF DATE '2024-05-15'", [1, 2, 3]),
        ("TIMESTAMP AS OF now()", [1, 2, 3]),
        ("FOR TIMESTAMP AS OF '2024-05-14 12:00:00'", [1]),
        ("FOR SYSTEM_TIME AS OF TIMESTAMP '2024-05-14 12:00:01'", [1, 2]),
    ],
)
def test_time_travel(catalog: morrow.Catalog, con: duckdb.DuckDBPyConnection, travel: str, ids: list[int]) -> None:
    con.execute("SET TimeZone = 'Asia/Tokyo'")  # times without a zone are in UTC all the same

    assert rows(catalog, f"SELECT id FROM db.orders {travel} ORDER BY id", con) == [(i,) for i in ids]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT (SELECT max(id) FROM db.orders) FROM db.orders", ["(SELECT MAX(id) FROM db.orders)"]),
        ("WITH a AS (SELECT EXISTS(SELECT 1 FROM db.orders)) SELECT * FROM a", ["EXISTS(SELECT 1 FROM db.orders)"]),
        ("SELECT id, (SELECT count(*) FROM db.orders) AS n FROM db.orders", ["id", "n"]),
        ("SELECT (SELECT 1 FROM db.orders LIMIT 1) UNION ALL SELECT 2", ["(SELECT 1 FROM db.orders LIMIT 1)"]),
    ],
)
def test_names_of_computed_columns(catalog: morrow.Catalog, query: str, names: list[str]) -> None:
    assert catalog.sql(query).columns == names


def test_several_states_in_one_query(catalog: morrow.Catalog, con: duckdb.DuckDBPyConnection) -> None:
    query = """
        SELECT id FROM db.orders WHERE id NOT IN (SELECT id FROM db.orders VERSION AS OF 'v2')
        UNION ALL SELECT count(*) FROM db.orders VERSION AS OF 1 a, db.orders VERSION AS OF 2 b
        UNION ALL SELECT id FROM db."orders$branch_dev"
    """
    assert sorted(rows(catalog, query, con)) == [(1,), (2,), (3,)]


def test_system_tables(catalog: morrow.Catalog, con: duckdb.DuckDBPyConnection) -> None:
    query = 'SELECT s.snapshot_id, t.tag_name FROM db."orders$snapshots" s JOIN db.`orders$tags` t USING (snapshot_id)'

    assert sorted(rows(catalog, query, con)) == [(1, "3"), (2, "v2")]
    assert rows(catalog, "SELECT count(*) FROM db.orders$files VERSION AS OF 2", con) == [(2,)]
    assert rows(catalog, "SELECT count(*) FROM db.orders$branch_dev$snapshots", con) == [(1,)]
    assert len(rows(catalog, "SELECT * FROM sys.all_tables", con)) == 2


def test_names_without_a_database(catalog: morrow.Catalog, con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE VIEW local AS SELECT 2 AS id")
    con.execute("CREATE SCHEMA mine; CREATE TABLE mine.local AS SELECT 3 AS id")

    assert rows(catalog, "SELECT amount FROM db.orders JOIN local USING (id)", con) == [(20,)]
    assert rows(catalog, "SELECT amount FROM db.orders JOIN mine.local USING (id)", con) == [(30,)]
    assert rows(catalog, "SELECT amount FROM db.orders JOIN memory.mine.local USING (id)", con) == [(30,)]
    query = "WITH items AS (SELECT 1 AS id) SELECT name FROM items JOIN other.items AS named USING (id)"
    assert rows(catalog, query, con, database="other") == [("pen",)]
    assert rows(catalog, "SELECT max(id) FROM orders VERSION AS OF 2, range(2)", con, database="db") == [(2,)]


def test_members_of_rows_are_told_from_qualified_columns(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    catalog = morrow.Catalog(tmp_path)
    catalog.create_table("db.t", schema="id INT, r ROW<b ROW<c INT>, d INT>").append(
        {"id": [1], "r": [{"b": {"c": 5}, "d": 6}]}
    )
    query = "SELECT r.b.c, t.r.d, t.r.b.c, db.t.id, db.t.r.d, db.t.r.b.c, DB.T.ID FROM db.t"
    assert rows(catalog, query, con) == [(5, 6, 5, 1, 6, 5, 1)]
    assert rows(catalog, "SELECT x.r.b.c FROM db.t AS x WHERE r.b.c = 5", con) == [(5,)]


@pytest.mark.parametrize("name", ["array", "list", "LIST", "map", "a"])
def test_a_column_with_the_name_of_a_constructor_is_no_array(
    name: str, tmp_path: Path, con: duckdb.DuckDBPyConnection
) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", schema={"id": "INT", name: "ARRAY<ROW<x INT, y STRING>>"})
    table.append([{"id": 1, name: [{"x": 7, "y": "a"}]}, {"id": 2, name: None}])
    found = rows(
        catalog, f'SELECT "{name}"[1].x, t.{name}[1].y, len(ARRAY[4, 5]), "{name}"[1:1] FROM db.t ORDER BY id', con
    )
    assert found == [(7, "a", 2, [{"x": 7, "y": "a"}]), (None, None, 2, None)]
    assert table.scan(["id"], f'"{name}"[1].x = 7').to_polars()["id"].to_list() == [1]
    assert table.scan(["id"], f'"{name}"[1].y IS NULL AND id = ARRAY[2][1]').to_polars()["id"].to_list() == [2]
    table.delete(f'"{name}"[1].x > 6')
    assert table.scan(["id"]).to_polars()["id"].to_list() == [2]


def test_columns_and_filters_reach_the_files(
    made: Path, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategy, "MAX_DUCKDB_FILES", 0)
    catalog = morrow.Catalog(made)
    store = RecordingStore()
    object.__setattr__(catalog, "_catalog", type(catalog._catalog)(store, str(made)))
    rows(catalog, "SELECT id FROM db.orders WHERE id = 3", con)
    pushed = set(store.scans)
    rows(catalog, "SELECT id FROM db.orders", con)

    assert len(pushed) == 1
    assert len(set(store.scans)) == 3


def test_a_relation_lives_on_its_own(catalog: morrow.Catalog, con: duckdb.DuckDBPyConnection) -> None:
    """A relation is lazy, can be run again, and leaves nothing in the connection."""
    relation = catalog.sql("SELECT id FROM db.orders VERSION AS OF 2", connection=con)
    con.execute("SET python_enable_replacements = false").fetchall()

    assert relation.filter("id > 1").fetchall() == [(2,)]
    assert sorted(relation.fetchall()) == [(1,), (2,)]
    assert con.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
    with pytest.raises(InvalidArgument, match="SET python_enable_replacements = true"):
        catalog.sql("FROM db.orders", connection=con)


@pytest.mark.parametrize(
    ("query", "error", "said"),
    [
        ("FROM db.nope", TableNotFound, "no table 'db.nope'; the tables of db are: orders"),
        ("FROM nowhere.orders", DatabaseNotFound, "no database 'nowhere'"),
        ("SELECT foo(1)", InvalidArgument, "Function with name foo does not exist"),
        ("FROM foo(1)", InvalidArgument, "Function with name foo does not exist"),
        ("FROM orders", TableNotFound, "are written database.table"),
        ("FROM connection", TableNotFound, "are written database.table"),  # a variable of the program, not a table
        ("FROM orders VERSION AS OF 1", TableNotFound, "written database.table, have a past; not orders"),
        ("FROM range(3) VERSION AS OF 1", TableNotFound, "not RANGE"),
        ("FROM db.orders$nope", TableNotFound, "nope"),
        ("FROM db.orders$branch_nope", BranchNotFound, "no branch 'nope'"),
        ("FROM db.orders VERSION AS OF 'v9'", TagNotFound, "no tag 'v9'"),
        ("FROM db.orders VERSION AS OF 9", SnapshotNotFound, "no snapshot 9"),
        ("FROM db.orders TIMESTAMP AS OF 5", SnapshotNotFound, "1970-01-01T00:00:05"),
        ("FROM db.orders TIMESTAMP AS OF '1715688000'", InvalidArgument, "seconds since 1970 as a number"),
        ("FROM db.orders TIMESTAMP AS OF 'noon'", InvalidArgument, "'noon' is not a time"),
        ("FROM db.orders TIMESTAMP AS OF id", InvalidArgument, "must not depend on rows"),
        ("FROM db.orders TIMESTAMP AS OF (SELECT now())", InvalidArgument, "must not depend on rows"),
        ("FROM db.orders TIMESTAMP AS OF NULL", InvalidArgument, "that is NULL"),
        ("FROM db.orders TIMESTAMP AS OF 1 / 0", InvalidArgument, "TIMESTAMP AS OF"),
        ("FROM db.orders VERSION AS OF 1.5", InvalidArgument, "takes a text or the id"),
        ("FROM db.orders VERSION AS OF -1", InvalidArgument, "takes a text or the id"),
        ("FROM db.orders FOR SYSTEM_TIME ALL", InvalidArgument, "time travel by ALL"),
        ("SELECT nope FROM db.orders", InvalidArgument, "nope"),
        ("SELEC", InvalidArgument, "no statement begins with 'SELEC'"),
        ("SELECT (1", InvalidArgument, "does not parse"),
        ("", InvalidArgument, "0 statements"),
        (5, InvalidArgument, "must be text"),
    ],
)
def test_errors_are_typed(
    catalog: morrow.Catalog, con: duckdb.DuckDBPyConnection, query: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        catalog.sql(query, connection=con)


def test_an_expired_snapshot(made: Path, con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "w")
    shutil.rmtree(tmp_path / "w/db.db/orders/tag")
    (tmp_path / "w/db.db/orders/snapshot/snapshot-1").unlink()

    with pytest.raises(SnapshotExpired, match="snapshot 1 has expired"):
        morrow.sql("FROM db.orders VERSION AS OF 1", tmp_path / "w", connection=con)


def test_a_hint_is_honoured_or_refused(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", schema="id INT")
    for i in (1, 2, 3):
        table.append(pa.table({"id": pa.array([i], pa.int32())}))
    table.tags.create("it's", 2)

    def count(query: str) -> int:
        return catalog.sql(query).fetchall()[0][0]

    hint = "/*+ OPTIONS('scan.snapshot-id' = '1') */"
    assert count(f"SELECT count(*) FROM db.t {hint}") == 1
    assert count(f"SELECT count(*) FROM db.t {hint} AS o WHERE o.id > 0") == 1
    assert count(f"SELECT count(*) FROM db.t AS o {hint}") == 1
    assert (
        count(f"SELECT count(*) FROM db.t {hint} AS a JOIN db.t /*+options('scan.tag-name'='it''s')*/ AS b ON true")
        == 2
    )
    assert count(f"SELECT count(*) FROM (SELECT * FROM db.t {hint}) AS o, db.t") == 3
    assert count("SELECT count(*) FROM db.t /* OPTIONS('scan.snapshot-id' = '1') is no hint */") == 3
    assert count(f"SELECT count(*) FROM db.t WHERE '{hint.replace(chr(39), '')}' <> ''") == 3
    now = table.snapshots()[0].time_millis
    assert count(f"SELECT count(*) FROM db.t /*+ OPTIONS('log.scan.timestamp-millis' = '{now}') */") == 1
    for options, error, said in (
        ("('write-only' = 'true')", Unsupported, "'write-only' in a hint"),
        ("('scan.ignore-lost-files' = 'maybe')", InvalidArgument, "scan.ignore-lost-files"),
        ("('scan.snapshot-id' = 'x')", InvalidArgument, "not a number"),
        ("(scan.snapshot-id = 1)", InvalidArgument, "not of the form"),
        ("('scan.snapshot-id'='1', 'scan.tag-name'='it''s')", InvalidArgument, "only one of"),
    ):
        with pytest.raises(error, match=said):
            catalog.sql(f"SELECT * FROM db.t /*+ OPTIONS{options} */")
    with pytest.raises(Unsupported, match=r"'scan\.ignore-lost-files' in a hint"):
        catalog.sql("SELECT * FROM db.t$files /*+ OPTIONS('scan.ignore-lost-files' = 'true') */")
    with pytest.raises(InvalidArgument, match="both a hint and AS OF"):
        catalog.sql(f"SELECT * FROM db.t VERSION AS OF 2 {hint}")
    for query in (
        f"SELECT {hint} * FROM db.t",
        f"SELECT * FROM db.t WHERE id > 0 {hint}",
        f"{hint} SELECT * FROM db.t",
    ):
        with pytest.raises(InvalidArgument, match="belongs behind the name of its table"):
            catalog.sql(query)
    with pytest.raises(TableNotFound, match="have a past"):
        catalog.sql(f"WITH c AS (SELECT 1) SELECT * FROM c {hint}, db.t")


def test_a_hint_gives_options_of_one_read(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", schema="id INT")
    for i in (1, 2):
        table.append(pa.table({"id": pa.array([i], pa.int32())}))
    lost = table.system("files").to_polars().sort("min_sequence_number")["file_path"][0]
    (Path(table.path) / lost).unlink()

    hint = "/*+ OPTIONS('scan.ignore-lost-files' = 'true') */"
    kind = type(catalog._catalog)
    with patch.object(kind, "table", autospec=True, side_effect=kind.table) as opened:
        assert catalog.sql(f"SELECT id FROM db.t {hint}").fetchall() == [(2,)]
    assert opened.call_count == 1
    with pytest.raises(InvalidArgument, match="have no past and no options"):
        catalog.sql(f"SELECT * FROM sys.tables {hint}")
    with pytest.raises(FileMissing):
        catalog.sql("SELECT id FROM db.t").fetchall()
