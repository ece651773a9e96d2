"""``Table.system`` and ``Catalog.system``: system tables in every form, also filtered, at times and on branches."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
from morrow.engine.errors import BranchNotFound, ColumnNotFound, InvalidArgument, SnapshotNotFound, TableNotFound
from tests.support.table_factory import TableFactory


@pytest.fixture
def orders(tmp_path: Path) -> morrow.Table:
    """Make orders (id, amount) with three commits of two orders each, and a partitioned table besides."""
    table = TableFactory(tmp_path / "db.db" / "orders", [("id", "INT"), ("amount", "INT")], ["id"])
    for first in (1, 3, 5):
        table.write_file(pa.table({"id": [first, first + 1], "amount": [10, 20]}))
        table.commit()
    days = TableFactory(tmp_path / "db.db" / "days", [("id", "INT"), ("day", "DATE")], partition_keys=["day"])
    days.write_file(pa.table({"id": [1, 2]}), partition={"day": pa.scalar(19723, pa.date32()).as_py()})
    days.commit()
    return morrow.open(table.path)


def test_every_form(orders: morrow.Table) -> None:
    scan = orders.system("snapshots", ["snapshot_id", "commit_kind"])
    rows = [(1, "APPEND"), (2, "APPEND"), (3, "APPEND")]

    assert scan.schema == pa.schema(
        [pa.field("snapshot_id", pa.int64(), nullable=False), pa.field("commit_kind", pa.string(), nullable=False)]
    )
    assert scan.to_arrow().schema == scan.schema
    assert [tuple(row.values()) for row in scan.to_arrow().to_pylist()] == rows
    assert scan.to_polars().rows() == rows
    assert scan.lazy().filter(pl.col("snapshot_id") > 2).collect().rows() == rows[2:]
    assert list(scan.to_pandas().itertuples(index=False, name=None)) == rows
    assert [len(batch) for batch in scan.to_batches(2)] == [2, 1]
    assert pa.table(scan).to_pylist() == scan.to_reader().read_all().to_pylist()
    assert scan.count() == 3
    with duckdb.connect() as connection:
        relation = scan.to_duckdb(connection)
        assert relation.filter("snapshot_id = 2").project("commit_kind").fetchall() == [("APPEND",)]
    assert scan.dataset().to_table(["snapshot_id"], pc.field("snapshot_id") > 1).to_pydict() == {"snapshot_id": [2, 3]}


@pytest.mark.parametrize("name", ["snapshots", "audit_log", "binlog"])
def test_every_kind_narrows(orders: morrow.Table, name: str) -> None:
    column = "snapshot_id" if name == "snapshots" else "rowkind"
    scan = orders.system(name)
    narrowed = scan.narrowed([column], f"{column} IS NOT NULL")
    assert narrowed.to_polars().columns == [column]
    assert narrowed.count() == scan.count() > 0
    with pytest.raises(InvalidArgument, match="a scan with a limit cannot be narrowed by a filter"):
        orders.system(name, limit=1).narrowed(filter=f"{column} IS NULL")
    with pytest.raises(ColumnNotFound):
        narrowed.narrowed(["id"])
    with duckdb.connect() as connection:
        limited = orders.system(name, [column], limit=1).to_duckdb(connection)
        assert len(limited.filter(f"{column} IS NOT NULL").fetchall()) == 1


@pytest.mark.parametrize("filter", ["snapshot_id >= 2", pl.col("snapshot_id") >= 2, pc.field("snapshot_id") >= 2])
def test_filters_and_limits(orders: morrow.Table, filter: object) -> None:
    scan = orders.system("snapshots", ["total_record_count"], filter, 1)
    assert scan.to_polars().rows() == [(4,)]
    assert scan.count() == 1


def test_it_says_what_it_is(orders: morrow.Table) -> None:
    scan = orders.system("$Snapshots", ["snapshot_id"], "snapshot_id > 1", limit=5)
    place = f"{orders.path}$snapshots"
    assert repr(scan) == f"SystemScan({place!r}, columns=['snapshot_id'], filter='snapshot_id > 1', limit=5)"


def test_time_travel_of_tables_that_describe_a_snapshot(orders: morrow.Table) -> None:
    assert [orders.system("files", as_of=i).count() for i in (1, 2, 3)] == [1, 2, 3]
    assert orders.system("ro", snapshot=1).count() == 0
    with pytest.raises(SnapshotNotFound):
        orders.system("files", as_of=9).count()
    with pytest.raises(InvalidArgument, match="tells of all snapshots at once"):
        orders.system("snapshots", as_of=1)


def test_names_that_are_not_there(orders: morrow.Table) -> None:
    with pytest.raises(TableNotFound, match=r"did you mean 'snapshots'\? there are snapshots, schemas, "):
        orders.system("snapshot")
    with pytest.raises(InvalidArgument, match="is text such as 'snapshots'"):
        orders.system(3)  # type: ignore[arg-type]
    with pytest.raises(
        ColumnNotFound, match=r"\$tags has no column 'name'; did you mean 'tag_name'. its columns are tag_name"
    ):
        orders.system("tags", ["name"])
    with pytest.raises(BranchNotFound):
        orders.system("tags", branch="dev")
    with pytest.raises(InvalidArgument, match="limit must be a number of rows"):
        orders.system("tags", limit=-1)


# Catalogs


@pytest.fixture
def catalog(orders: morrow.Table, tmp_path: Path) -> morrow.Catalog:
    assert orders.name == "orders"
    return morrow.Catalog(tmp_path)


def test_system_tables_by_their_full_name(catalog: morrow.Catalog) -> None:
    assert catalog.system("db.orders$snapshots").count() == 3
    assert catalog.system("db.orders$branch_main$files", ["level"], as_of=1).to_polars().rows() == [(0,)]
    with pytest.raises(InvalidArgument, match="is a table, not a system table"):
        catalog.system("db.orders$branch_dev")
    with pytest.raises(BranchNotFound):
        catalog.system("db.orders$branch_dev$files")
    with pytest.raises(TableNotFound):
        catalog.system("db.order$files")


@pytest.mark.parametrize("name", ["all_tables", "sys.all_tables", "sys.tables", "ALL_TABLES"])
def test_all_tables(catalog: morrow.Catalog, name: str) -> None:
    columns = ["database_name", "table_name", "table_type", "partitioned", "primary_key", "owner"]
    assert catalog.system(name, columns).to_polars().rows() == [
        ("db", "days", "table", True, False, None),
        ("db", "orders", "table", False, True, None),
    ]


def test_all_partitions(catalog: morrow.Catalog) -> None:
    (row,) = catalog.system("sys.partitions").to_arrow().to_pylist()
    assert row["file_size_in_bytes"] > 0
    assert row["last_file_creation_time"] > 0
    del row["file_size_in_bytes"], row["last_file_creation_time"]
    # Dates in names of partitions are days since 1970, unless 'partition.legacy-name' is false.
    assert row == {
        "database_name": "db",
        "table_name": "days",
        "partition_name": "day=19723",
        "record_count": 2,
        "file_count": 1,
        "done": False,
    }


def test_options_of_all_tables_and_of_the_catalog(catalog: morrow.Catalog, tmp_path: Path) -> None:
    rows = catalog.system("all_table_options", ["table_name", "value"], "key = 'path'").to_polars().rows()
    assert rows == [("days", f"{tmp_path}/db.db/days"), ("orders", f"{tmp_path}/db.db/orders")]
    assert catalog.system("catalog_options").to_polars().rows() == [("warehouse", str(tmp_path))]


def test_secrets_that_are_stored_as_options_are_not_shown(tmp_path: Path) -> None:
    """Neither metadata tables nor statements show them, while a column may have the name token."""
    catalog = morrow.Catalog(tmp_path)
    secrets = {"s3.secret-key": "tAzt71ck", "auth-url": "https://anna:tAzt71ck@host/x"}
    own = {"merge-engine": "aggregation", "fields.token.aggregate-function": "max"}
    table = catalog.create_table("db.t", "k INT, token INT", primary_keys="k", options={"bucket": 1, **own, **secrets})
    assert table.options.items() > secrets.items()
    rows = dict(table.system("options").to_polars().rows())
    assert rows == {"bucket": "1", **own, "s3.secret-key": "***", "auth-url": "https://***@host/x"}
    told = [str(catalog.system(name).to_arrow().to_pylist()) for name in ("all_table_options", "db.t$schemas")]
    statements = ("SHOW CREATE TABLE db.t", "SHOW TBLPROPERTIES db.t", "DESCRIBE EXTENDED db.t")
    told += [str(catalog.sql(statement).fetchall()) for statement in statements]
    for each in (*told, repr(table), repr(table.schemas()), table._repr_html_(), str(table.inspect())):
        assert "tAzt71ck" not in each
    for each in told:
        assert "s3.secret-key" in each and "fields.token.aggregate-function" in each


def test_what_a_catalog_has_not(catalog: morrow.Catalog) -> None:
    with pytest.raises(TableNotFound, match="did you mean 'all_tables'"):
        catalog.system("all_table")
    with pytest.raises(InvalidArgument, match="is text such as"):
        catalog.system(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="have no past: leave out as_of"):
        catalog.system("all_tables", as_of=1)


# DuckDB


def test_paimon_scan_of_system_tables(orders: morrow.Table) -> None:
    with duckdb.connect() as connection:
        morrow.duckdb.install(connection)

        def rows(query: str) -> list[tuple[object, ...]]:
            return connection.sql(query.replace("orders", orders.path)).fetchall()

        assert rows("SELECT max(snapshot_id) FROM paimon_scan('orders$snapshots')") == [(3,)]
        assert rows("SELECT count(*) FROM paimon_scan('orders$files', as_of := 2)") == [(2,)]
        assert rows("SELECT rowkind, id FROM paimon_scan('orders$audit_log') WHERE id = 4") == [("+I", 4)]
        assert rows("SELECT id FROM paimon_scan('orders$branch_main$binlog', snapshot := 1) WHERE amount[1] = 20") == [
            ([2],)
        ]
        assert rows("SELECT count(*) FROM paimon_scan('orders$branch_main')") == [(6,)]
        with pytest.raises(duckdb.Error, match="the path names the branch 'main'"):
            rows("FROM paimon_scan('orders$branch_main', branch := 'dev')")
        with pytest.raises(duckdb.Error, match="did you mean 'files'"):
            rows("FROM paimon_scan('orders$file')")
