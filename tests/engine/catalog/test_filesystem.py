"""A warehouse folder as a catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from morrow.engine.catalog.filesystem import FilesystemCatalog, check_warehouse
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    StorageError,
    TableNotFound,
    UnsafePath,
    Unsupported,
)
from morrow.engine.io.local import LocalStore
from morrow.engine.io.resolve import resolve
from morrow.engine.schema.creation import build_first_schema
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.s3_server import s3_server
from tests.support.table_factory import TableFactory


@pytest.fixture
def catalog(tmp_path: Path) -> FilesystemCatalog:
    for name in ("sales.db/orders", "sales.db/items", "hr.db/people"):
        TableFactory(tmp_path / name, [("id", "INT")])
    (tmp_path / "sales.db" / "no_table").mkdir()
    (tmp_path / "empty.db").mkdir()
    (tmp_path / "no_database").mkdir()
    (tmp_path / "file.db").touch()
    return FilesystemCatalog(LocalStore(), str(tmp_path))


def test_databases_and_tables(catalog: FilesystemCatalog) -> None:
    assert catalog.databases() == ["empty", "hr", "sales"]
    assert catalog.tables("sales") == ["items", "orders"]
    assert catalog.tables("empty") == []


def test_a_table_by_name(catalog: FilesystemCatalog) -> None:
    table = catalog.table("sales.orders")

    assert table.root == f"{catalog.root}/sales.db/orders"
    assert list(table.latest_schema().by_name) == ["id"]


def test_a_warehouse_whose_folder_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    new = FilesystemCatalog(LocalStore(), str(tmp_path / "new" / "er"))
    assert new.databases() == []
    with pytest.raises(DatabaseNotFound, match="the databases are: none; the warehouse's folder does not exist"):
        new.tables("db")
    with pytest.raises(DatabaseNotFound, match=r"new/er: the warehouse's folder does not exist; correct the path"):
        check_warehouse(new)
    new.drop_database("db", ignore_if_not_exists=True)
    new.create_database("db", ignore_if_exists=True)
    assert (new.databases(), new.tables("db")) == (["db"], [])
    check_warehouse(new)


def test_a_file_is_no_warehouse(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="file: a warehouse is a folder, this is a file"):
        FilesystemCatalog(LocalStore(), str(tmp_path / "file")).databases()


def test_what_is_not_there_is_named_with_what_is(catalog: FilesystemCatalog) -> None:
    with pytest.raises(DatabaseNotFound, match=r"there is no database 'nope'; the databases are: empty, hr, sales$"):
        catalog.tables("nope")
    with pytest.raises(DatabaseNotFound, match="'nope'"):
        catalog.table("nope.orders")
    with pytest.raises(TableNotFound, match=r"no table 'sales.nope'; the tables of sales are: items, orders$"):
        catalog.table("sales.nope")
    with pytest.raises(TableNotFound, match="the tables of empty are: none"):
        catalog.table("empty.t")


@pytest.mark.parametrize("name", ["orders", "", ".", "sales.", ".orders"])
def test_a_name_without_database_and_table(catalog: FilesystemCatalog, name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"write database.table"):
        catalog.table(name)


@pytest.mark.parametrize("name", ["sa/les.orders", "sales.../../etc", "sales.a/b", "sales..."])
def test_a_name_that_leads_elsewhere(catalog: FilesystemCatalog, name: str) -> None:
    with pytest.raises(UnsafePath):
        catalog.table(name)


FIRST = build_first_schema("id INT", where="/t")


def test_databases_made_renamed_and_dropped(catalog: FilesystemCatalog) -> None:
    catalog.create_database("new")
    catalog.rename_database("sales", "shop")
    catalog.drop_database("empty")

    assert catalog.databases() == ["hr", "new", "shop"]
    assert catalog.tables("shop") == ["items", "orders"]
    with pytest.raises(AlreadyExists, match="there is a database 'new' already"):
        catalog.create_database("new")
    with pytest.raises(AlreadyExists, match=r"file\.db: the database cannot be created where there is a file"):
        catalog.create_database("file")
    with pytest.raises(AlreadyExists, match="there is a database 'hr' already"):
        catalog.rename_database("shop", "hr")
    with pytest.raises(DatabaseNotFound, match="'sales'"):
        catalog.rename_database("sales", "other")
    with pytest.raises(DatabaseNotFound, match="'empty'"):
        catalog.drop_database("empty")
    catalog.create_database("new", ignore_if_exists=True)
    catalog.drop_database("empty", ignore_if_not_exists=True)


def test_a_database_with_tables_is_dropped_only_with_them(catalog: FilesystemCatalog) -> None:
    with pytest.raises(InvalidArgument, match=r"'sales' holds 2 tables \(items, orders\); .* cascade=True"):
        catalog.drop_database("sales")
    catalog.drop_database("sales", cascade=True)
    assert not catalog.has_database("sales")


def test_a_table_made_makes_its_database_and_warehouse(tmp_path: Path) -> None:
    catalog = FilesystemCatalog(LocalStore(), str(tmp_path / "new" / "warehouse"))
    table = catalog.create_table("db.t", FIRST)

    assert table.latest_schema() == FIRST
    assert (catalog.databases(), catalog.tables("db"), catalog.has_table("db.t")) == (["db"], ["t"], True)
    with pytest.raises(AlreadyExists, match="there is a table already"):
        catalog.create_table("db.t", FIRST)


def test_tables_renamed_and_dropped(catalog: FilesystemCatalog) -> None:
    moved = catalog.rename_table("sales.orders", "hr.orders")
    assert (catalog.tables("sales"), catalog.tables("hr")) == (["items"], ["orders", "people"])
    assert catalog.table("hr.orders") == moved
    for name in ("hr.people", "sales.no_table"):
        with pytest.raises(AlreadyExists, match="there is a table or folder already"):
            catalog.rename_table("hr.orders", name)
    with pytest.raises(DatabaseNotFound, match="'nope'"):
        catalog.rename_table("hr.orders", "nope.orders")
    with pytest.raises(TableNotFound, match=r"'sales.orders'"):
        catalog.drop_table("sales.orders")

    catalog.drop_table("hr.orders")
    catalog.drop_table("hr.orders", ignore_if_not_exists=True)
    assert catalog.tables("hr") == ["people"]
    assert not (Path(catalog.root) / "hr.db" / "orders").exists()


@pytest.mark.parametrize("name", ["db.t$files", "sys.t", "db. t", "db.t ", ".hidden.t", "db..t"])
def test_names_that_nothing_new_can_have(catalog: FilesystemCatalog, name: str) -> None:
    with pytest.raises(
        InvalidArgument, match=r"is not a valid name for a|is the database of Paimon's own tables|is not a table name"
    ):
        catalog.place_of(name)


def test_a_drop_that_is_interrupted_can_be_repeated(tmp_path: Path) -> None:
    """If an operation of the drop fails, the table is untouched, empty or gone, and a second drop succeeds."""
    looking_and_first_deletion = 4
    for at in range(7):
        table = TableFactory(tmp_path / "db.db" / f"t{at}", [("id", "INT")])
        (table.path / "snapshot").mkdir(exist_ok=True)
        (table.path / "snapshot" / "snapshot-1").write_text("{}")
        store = FaultyStore(LocalStore(), Fault(at, FaultKind.BAD_DISK))
        try:
            FilesystemCatalog(store, str(tmp_path)).drop_table(f"db.t{at}")
        except StorageError:
            catalog = FilesystemCatalog(LocalStore(), str(tmp_path))
            if catalog.has_table(f"db.t{at}"):
                assert (table.path / "snapshot" / "snapshot-1").exists() == (at < looking_and_first_deletion)
                catalog.drop_table(f"db.t{at}")
    assert FilesystemCatalog(LocalStore(), str(tmp_path)).tables("db") == []


@pytest.fixture(scope="module")
def in_a_bucket() -> Iterator[FilesystemCatalog]:
    with s3_server() as options:
        yield FilesystemCatalog(*resolve("s3://lake/warehouse", options))


def test_all_of_it_in_an_object_store(in_a_bucket: FilesystemCatalog) -> None:
    catalog = in_a_bucket
    catalog.create_database("empty")
    table = catalog.create_table("db.t", FIRST)
    assert table.latest_schema() == FIRST
    assert (catalog.databases(), catalog.tables("db"), catalog.tables("empty")) == (["db", "empty"], ["t"], [])
    with pytest.raises(AlreadyExists):
        catalog.create_table("db.t", FIRST)
    with pytest.raises(Unsupported, match="renaming in an object store is not supported"):
        catalog.rename_table("db.t", "db.u")
    with pytest.raises(Unsupported, match="renaming in an object store is not supported"):
        catalog.rename_database("db", "other")

    catalog.drop_table("db.t")
    assert catalog.databases() == ["db", "empty"]
    catalog.drop_database("db")
    catalog.drop_database("empty")
    assert catalog.databases() == []
