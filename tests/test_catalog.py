"""A warehouse folder: databases, tables, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import BranchNotFound, DatabaseNotFound, InvalidArgument, TableNotFound
from tests.support.table_factory import TableFactory


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    """a.db with orders and people, b.db without tables; folders and files that are no databases and tables."""
    for name in ("people", "orders"):
        table = TableFactory(tmp_path / "a.db" / name, [("id", "INT")], ["id"])
        table.write_file(pa.table({"id": [1]}))
        table.commit()
    (tmp_path / "b.db").mkdir()
    (tmp_path / "not_a_database").mkdir()
    (tmp_path / "file.db").write_text("")
    (tmp_path / "a.db" / "not_a_table").mkdir()
    return morrow.Catalog(tmp_path)


def test_databases_and_tables_by_name(catalog: morrow.Catalog) -> None:
    assert catalog.databases() == ["a", "b"]
    assert catalog.tables("a") == ["orders", "people"]
    assert catalog.tables("b") == []


def test_a_table(catalog: morrow.Catalog) -> None:
    table = catalog.table("a.orders")
    assert isinstance(table, morrow.Table)
    assert table.scan().to_arrow().to_pydict() == {"id": [1]}


def test_what_is_not_there(catalog: morrow.Catalog) -> None:
    with pytest.raises(DatabaseNotFound, match="c"):
        catalog.tables("c")
    with pytest.raises(DatabaseNotFound, match="c"):
        catalog.table("c.orders")
    with pytest.raises(TableNotFound, match="nothing"):
        catalog.table("a.nothing")
    with pytest.raises(BranchNotFound, match="b1"):
        catalog.table("a.orders", branch="b1")


@pytest.mark.parametrize("name", ["orders", "", "a.", ".orders", "../x.orders", "a/../a.orders"])
def test_names_that_are_no_table_names(catalog: morrow.Catalog, name: str) -> None:
    with pytest.raises((InvalidArgument, DatabaseNotFound, TableNotFound, morrow.errors.UnsafePath)):
        catalog.table(name)


def test_an_empty_warehouse(tmp_path: Path) -> None:
    assert morrow.Catalog(str(tmp_path)).databases() == []


def test_it_says_where_it_is(catalog: morrow.Catalog, tmp_path: Path) -> None:
    assert catalog.warehouse == str(tmp_path)
    assert repr(catalog) == f"Catalog({str(tmp_path)!r})"
