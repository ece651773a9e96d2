"""``paimon_scan`` in SQL of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from tests.support.table_factory import TableFactory
from tests.support.written import new_table


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield morrow.duckdb.install(connection)


@pytest.fixture
def orders(tmp_path: Path) -> str:
    """Snapshot 1 has amounts 10, 20, 30, snapshot 2 updates order 2 to 25. Tag v1 keeps snapshot 1."""
    table = TableFactory(tmp_path / "orders", [("id", "INT"), ("amount", "INT")], ["id"])
    table.write_file(pa.table({"id": [1, 2, 3], "amount": [10, 20, 30]}))
    table.commit()
    table.write_file(pa.table({"id": [2], "amount": [25]}))
    table.commit()
    (table.path / "tag").mkdir()
    (table.path / "tag" / "tag-v1").write_text((table.path / "snapshot" / "snapshot-1").read_text())
    return str(table.path)


def test_rows_filters_and_aggregates(con: duckdb.DuckDBPyConnection, orders: str) -> None:
    assert con.sql(f"FROM paimon_scan('{orders}') ORDER BY id").fetchall() == [(1, 10), (2, 25), (3, 30)]
    assert con.sql(f"SELECT id FROM paimon_scan('{orders}') WHERE amount = 25").fetchall() == [(2,)]
    assert con.sql(f"SELECT count(*), sum(amount) FROM paimon_scan('{orders}')").fetchall() == [(3, 65)]


@pytest.mark.parametrize(
    ("argument", "total"),
    [
        ("as_of := 1", 60),
        ("as_of := 2", 65),
        ("as_of := 'v1'", 60),
        ("snapshot := 1", 60),
        ("tag := 'v1'", 60),
        ("version := 'v1'", 60),
        ("version := 2", 65),
        ("version := 'snapshot.1'", 60),
        ("timestamp := TIMESTAMPTZ '2999-01-01 00:00:00+02'", 65),
        ("timestamp := '2999-01-01'", 65),
        ("timestamp := TIMESTAMP '2999-01-01 00:00:00'", 65),
        ("branch := 'main'", 65),
        ("snapshot := NULL", 65),
    ],
)
def test_time_travel(con: duckdb.DuckDBPyConnection, orders: str, argument: str, total: int) -> None:
    assert con.sql(f"SELECT sum(amount) FROM paimon_scan('{orders}', {argument})").fetchall() == [(total,)]


def test_a_branch(con: duckdb.DuckDBPyConnection, orders: str) -> None:
    branch = Path(orders) / "branch" / "branch-b"
    for folder in ("schema", "snapshot"):
        (branch / folder).mkdir(parents=True)
    (branch / "schema" / "schema-0").write_text((Path(orders) / "schema" / "schema-0").read_text())
    (branch / "snapshot" / "snapshot-1").write_text((Path(orders) / "snapshot" / "snapshot-1").read_text())
    assert con.sql(f"SELECT sum(amount) FROM paimon_scan('{orders}', branch := 'b')").fetchall() == [(60,)]


def test_two_tables_and_two_snapshots_in_one_query(con: duckdb.DuckDBPyConnection, orders: str) -> None:
    changed = con.sql(f"""
        SELECT id, old.amount, new.amount
        FROM paimon_scan('{orders}', snapshot := 1) old JOIN paimon_scan('{orders}') new USING (id)
        WHERE old.amount <> new.amount
    """)
    assert changed.fetchall() == [(2, 20, 25)]


def test_views_see_the_newest_snapshot(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": [1]}))
    table.commit()
    con.execute(f"CREATE VIEW v AS FROM paimon_scan('{table.path}')")
    assert con.sql("SELECT count(*) FROM v").fetchall() == [(1,)]
    table.write_file(pa.table({"id": [2]}))
    table.commit()
    assert con.sql("SELECT count(*) FROM v").fetchall() == [(2,)]


def test_prepared_statements(con: duckdb.DuckDBPyConnection, orders: str) -> None:
    con.execute(f"PREPARE q AS SELECT amount FROM paimon_scan('{orders}') WHERE id = $1")
    assert [con.execute(f"EXECUTE q({n})").fetchall() for n in (1, 2, 3, 4)] == [[(10,)], [(25,)], [(30,)], []]
    assert con.execute("SELECT count(*) FROM paimon_scan(?, tag := ?)", [orders, "v1"]).fetchall() == [(3,)]


def test_paths_with_quotes_and_spaces(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / 'it\'s a "table"; --', [("id", "INT")], ["id"])
    table.write_file(pa.table({"id": [1]}))
    table.commit()
    assert con.execute("SELECT count(*) FROM paimon_scan(?)", [str(table.path)]).fetchall() == [(1,)]
    quoted = str(table.path).replace("'", "''")
    assert con.sql(f"SELECT count(*) FROM paimon_scan('{quoted}')").fetchall() == [(1,)]


# --- errors: DuckDB wraps them and keeps their text ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("paimon_scan('{}/none')", "none"),
        ("paimon_scan('{}', snapshot := 99)", "99"),
        ("paimon_scan('{}', snapshot := 'one')", "not a snapshot id"),
        ("paimon_scan('{}', tag := 'v9')", "v9"),
        ("paimon_scan('{}', branch := 'nowhere')", "nowhere"),
        ("paimon_scan('{}', tag := 'v1', snapshot := 1)", "only one of"),
        ("paimon_scan('{}', timestamp := 'yesterday')", "yesterday"),
        ("paimon_scan('')", "empty path"),
    ],
)
def test_errors_name_what_is_wrong(con: duckdb.DuckDBPyConnection, orders: str, call: str, message: str) -> None:
    with pytest.raises(duckdb.Error, match=message):
        con.sql("FROM " + call.format(orders)).fetchall()
    assert con.sql(f"SELECT count(*) FROM paimon_scan('{orders}')").fetchall() == [(3,)]


def test_an_unknown_column_is_duckdbs_own_error(con: duckdb.DuckDBPyConnection, orders: str) -> None:
    with pytest.raises(duckdb.BinderException, match="nothing"):
        con.sql(f"SELECT nothing FROM paimon_scan('{orders}')")


def test_a_damaged_file_is_named(con: duckdb.DuckDBPyConnection, orders: str) -> None:
    for file in (Path(orders) / "bucket-0").iterdir():
        file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(duckdb.Error, match="data-"):
        con.sql(f"SELECT sum(amount) FROM paimon_scan('{orders}')").fetchall()


# --- from Python ---


def test_install_without_a_connection_takes_duckdbs_default(orders: str) -> None:
    morrow.duckdb.install()
    assert duckdb.sql(f"SELECT count(*) FROM paimon_scan('{orders}')").fetchall() == [(3,)]


def test_to_duckdb_gives_a_relation(con: duckdb.DuckDBPyConnection, orders: str) -> None:
    relation = morrow.open(orders).scan(filter="amount > 10").to_duckdb(con)
    assert relation.filter("id < 3").fetchall() == [(2, 25)]
    assert relation.aggregate("count(*)").fetchall() == [(2,)]


def test_to_duckdb_keeps_a_limit_below_later_filters(con: duckdb.DuckDBPyConnection, orders: str) -> None:
    limited = morrow.open(orders).scan(limit=2).to_duckdb(con)
    kept = limited.fetchall()
    assert len(kept) == 2
    assert limited.filter("id > 0").fetchall() == kept
    assert len(limited.filter(f"id <> {kept[0][0]}").fetchall()) == 1


def test_to_duckdb_says_by_our_errors_what_cannot_be_read(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")], ["id"], options={"merge-engine": "no-such-engine"})
    table.commit()
    with pytest.raises(morrow.MorrowError, match="no-such-engine"):
        morrow.open(table.path).scan().to_duckdb(con)


def test_open_dataset_refuses_what_is_no_snapshot_id(orders: str) -> None:
    with pytest.raises(InvalidArgument, match="'-1' is not a snapshot id"):
        morrow.duckdb.open_dataset(orders, {"snapshot": "-1"})


def test_a_version_and_another_state_at_once(orders: str) -> None:
    with pytest.raises(InvalidArgument, match="give only one of as_of, version"):
        morrow.duckdb.open_dataset(orders, {"as_of": "1", "version": "v1"})


def test_what_is_trusted_and_verified_is_said_when_it_is_installed(tmp_path: Path) -> None:
    table = new_table(tmp_path / "wh", "id BIGINT")
    table.append({"id": [1, 2]})
    outside = tmp_path / "outside"
    Path(table.path, "bucket-0").rename(outside)
    Path(table.path, "bucket-0").symlink_to(outside)
    query = f"SELECT sum(id) FROM paimon_scan('{table.path}')"
    with pytest.raises(duckdb.Error, match="is a link"):
        morrow.duckdb.install(duckdb.connect()).sql(query).fetchall()
    connection = morrow.duckdb.install(duckdb.connect(), allowed_roots=[outside], verify="pages")
    assert connection.sql(query).fetchall() == [(3,)]
    (file,) = outside.glob("data-*")
    column, damaged = pq.read_metadata(file).row_group(0).column(0), bytearray(file.read_bytes())
    damaged[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    file.write_bytes(damaged)
    morrow.clear_caches()
    with pytest.raises(duckdb.Error, match="checksum"):
        connection.sql(f"SELECT count(*), max(id) FROM paimon_scan('{table.path}')").fetchall()
    for wrong in ({"verify": "all"}, {"allowed_roots": 5}):
        with pytest.raises(InvalidArgument):
            morrow.duckdb.install(duckdb.connect(), **wrong)  # type: ignore[arg-type]  # the error is tested
