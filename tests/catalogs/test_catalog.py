"""A warehouse folder: databases, tables, and other folders and files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.catalogs.catalog import OTHER_NAMES as CATALOG_NAMES
from morrow.engine.errors import (
    AlreadyExists,
    BranchNotFound,
    DatabaseNotFound,
    InvalidArgument,
    NotFound,
    TableNotFound,
)
from morrow.tables.table import OTHER_NAMES as TABLE_NAMES
from tests.support.table_factory import TableFactory


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    """Make a.db with orders and people, b.db without tables, and folders and files that are not databases or tables."""
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
    assert catalog.tables() == ["a.orders", "a.people"]


def test_a_table(catalog: morrow.Catalog) -> None:
    table = catalog.table("a.orders")
    assert isinstance(table, morrow.Table)
    assert table.scan().to_arrow().to_pydict() == {"id": [1]}


def test_it_contains_its_tables(catalog: morrow.Catalog) -> None:
    assert list(catalog) == [f"{name}.{table}" for name in catalog.databases() for table in catalog.tables(name)]
    assert next(iter(catalog)) in catalog
    assert "db.other" not in catalog and "other.db" not in catalog and 3 not in catalog


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


def test_a_table_made_and_read(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path / "warehouse")
    table = catalog.create_table(
        "shop.orders",
        schema=pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string(), metadata={"comment": "of whom"})]),
        primary_keys=["id"],
        options={"bucket": 4},
        comment="what was bought",
        defaults={"name": "nobody"},
    )

    assert isinstance(table, morrow.Table)
    assert (table.primary_keys, table.options, table.comment) == (("id",), {"bucket": "4"}, "what was bought")
    assert table.schema.field("id") == pa.field("id", pa.int64(), nullable=False)
    assert table.schema.field("name").metadata == {b"comment": b"of whom"}
    assert catalog.table("shop.orders").scan().to_arrow().num_rows == 0


def test_a_table_that_is_there_is_not_made_again(catalog: morrow.Catalog) -> None:
    with pytest.raises(AlreadyExists, match="there is a table already"):
        catalog.create_table("a.orders", schema="other STRING")
    assert catalog.create_table("a.orders", schema="other STRING", ignore_if_exists=True).schema.names == ["id"]


def test_nothing_is_made_when_the_schema_is_refused(catalog: morrow.Catalog) -> None:
    with pytest.raises(InvalidArgument, match="the number of buckets"):
        catalog.create_table("c.t", schema="id INT", options={"bucket": 0})
    assert catalog.databases() == ["a", "b"]


def test_names_change_and_go(catalog: morrow.Catalog) -> None:
    assert catalog.rename_table("a.orders", "b.bought").scan().to_arrow().num_rows == 1
    catalog.rename_database("b", "c")
    catalog.create_database("d")
    catalog.drop_table("a.people")
    catalog.drop_database("a")
    assert (catalog.databases(), catalog.tables("c")) == (["c", "d"], ["bought"])
    catalog.drop_database("c", cascade=True)
    assert catalog.databases() == ["d"]


def test_the_nearest_name(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("sales.orders", schema="amount INT, `or'd.\"er` INT")
    table.append({"amount": [1], "or'd.\"er": [2]})
    table.tags.create("march")
    table.branches.create("develop")
    for call, meant in (
        (lambda: catalog.table("sales.order"), "orders"),
        (lambda: catalog.table("sale.orders"), "sales"),
        (lambda: table.scan(tag="Marsh"), "march"),
        (lambda: table.tags.delete("marhc"), "march"),
        (lambda: table.on_branch("develp"), "develop"),
        (lambda: table.branches.delete("develo"), "develop"),
        (lambda: table.scan(["amuont"]), "amount"),
        (lambda: table.scan(filter="amuont > 1"), "amount"),
        (lambda: table.update({"amuont": 1}), "amount"),
        (lambda: table.alter.drop_column("amont"), "amount"),
        (lambda: table.append({"or'd.er": [1], "amount": [1]}), "or'd.\"er"),
        (lambda: table.system("snapshot"), "snapshots"),
        (lambda: table.system("snapshots", ["snapshotid"]), "snapshot_id"),
    ):
        with pytest.raises(NotFound) as raised:
            call()
        assert f"did you mean {meant!r}? " in str(raised.value)


@pytest.mark.parametrize(("folder", "listed"), [(".", "a.db/t, a.db/u, b.db/t"), ("a.db", "t, u"), ("c.db", "such as")])
def test_a_warehouse_or_database_in_place_of_a_table(tmp_path: Path, folder: str, listed: str) -> None:
    catalog = morrow.Catalog(tmp_path)
    for name in ("a.t", "a.u", "b.t"):
        catalog.create_table(name, schema="id INT")
    catalog.create_database("c")
    with pytest.raises(TableNotFound, match=listed):
        morrow.open(tmp_path / folder)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("list_tables", r"use tables\(database\)"),
        ("load_table", r"use table\(name\)"),
        ("tabels", "did you mean 'tables'"),
    ],
)
def test_names_of_other_libraries_lead_to_the_right_method(catalog: morrow.Catalog, name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=f"'Catalog' object has no attribute '{name}'; {instead}"):
        getattr(catalog, name)


@pytest.mark.parametrize("name", ["lake.shop.orders", "lake.a.orders"])
def leads_to_a_method(owner: object, call: str) -> bool:
    """Follow the attributes of a call such as ``tags.create(name)``, up to the first result of a call."""
    for part in re.sub(r"\(.*?\)", "()", call).split("."):
        name, called, _ = part.partition("(")
        if not hasattr(owner, name):
            return False
        if called:
            return True
        owner = getattr(owner, name)
    return True


@pytest.mark.parametrize("others", [CATALOG_NAMES, TABLE_NAMES], ids=["catalog", "table"])
def test_names_of_other_libraries_lead_to_methods_that_exist(
    catalog: morrow.Catalog, others: Mapping[str, str]
) -> None:
    owner = catalog if others is CATALOG_NAMES else catalog.table("a.orders")
    calls = [
        call
        for text in others.values()
        for call in re.split(r", (?![^(]*\))| or | and ", text)
        if call[0].isidentifier()
    ]
    missing = [call for call in calls if not call.startswith("the table itself") and not leads_to_a_method(owner, call)]
    assert missing == []
    assert [name for name in others if hasattr(owner, name)] == []


def test_private_names_are_not_compared_with_others(catalog: morrow.Catalog) -> None:
    with pytest.raises(AttributeError, match=r"'Catalog' object has no attribute '_repr_png_'$"):
        catalog._repr_png_  # type: ignore[attr-defined]  # noqa: B018 - as notebooks probe


@pytest.mark.parametrize("name", ["lake.shop.orders", "lake.a.orders"])
def test_names_of_three_parts_do_not_make_databases(catalog: morrow.Catalog, name: str) -> None:
    with pytest.raises(InvalidArgument, match="has three parts"):
        catalog.create_table(name, {"id": "INT"})
    with pytest.raises(InvalidArgument, match="has three parts"):
        catalog.rename_table("a.orders", name)
    assert catalog.databases() == ["a", "b"]


def test_parameters_of_sql_are_also_named_params(catalog: morrow.Catalog) -> None:
    assert catalog.sql("SELECT $a", params={"a": 1}).fetchall() == [(1,)]
    with pytest.raises(InvalidArgument, match="two names of one argument"):
        catalog.sql("SELECT ?", [1], params=[1])
