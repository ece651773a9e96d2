"""A warehouse folder as a catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.catalog.filesystem import FilesystemCatalog
from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound, UnsafePath
from morrow.engine.io.local import LocalStore
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


def test_a_warehouse_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    assert FilesystemCatalog(LocalStore(), str(tmp_path)).databases() == []
    with pytest.raises(DatabaseNotFound, match="nope: there is no such warehouse folder"):
        FilesystemCatalog(LocalStore(), str(tmp_path / "nope")).databases()


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
