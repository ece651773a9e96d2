"""The conformance suite of catalogs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from morrow.catalogs.catalog import Catalog
from morrow.engine.catalog.databases import keeps_properties
from morrow.engine.catalog.protocol import Catalog as CatalogProtocol
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    InvalidArgument,
    MorrowError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.schema.creating import new_schema
from morrow.tables.table import Table

SCHEMA = "id INT NOT NULL, v STRING"
BAD_NAMES = ("", " ", " a", "a ", ".a", "a$b")
WRITERS, COMMITS = 4, 3


class CatalogTests:
    """What Morrow asks of a `Catalog`. Subclass it with the fixture `catalog`, which has no databases."""

    @pytest.fixture
    def catalog(self) -> CatalogProtocol:
        """Returns the catalog to test."""
        raise NotImplementedError("give the suite a fixture 'catalog'")

    @pytest.fixture
    def tables(self, catalog: CatalogProtocol) -> Catalog:
        """Returns the catalog as users see it, with the empty database ``db``."""
        catalog.create_database("db")
        return Catalog.over(catalog)

    # Databases

    def test_databases(self, catalog: CatalogProtocol) -> None:
        for name in ("sales", "hr", "ü b"):
            catalog.create_database(name)
        assert catalog.databases() == ["hr", "sales", "ü b"]
        assert catalog.has_database("hr")
        assert not catalog.has_database("nope")
        assert catalog.tables("hr") == []
        with pytest.raises(AlreadyExists):
            catalog.create_database("hr")
        catalog.create_database("hr", ignore_if_exists=True)

    def test_a_database_is_dropped_when_it_is_empty(self, catalog: CatalogProtocol) -> None:
        catalog.create_table("db.t", _schema())
        with pytest.raises(InvalidArgument):
            catalog.drop_database("db")
        assert catalog.has_table("db.t")
        catalog.drop_database("db", cascade=True)
        assert not catalog.has_database("db")
        assert not catalog.has_table("db.t")
        with pytest.raises(DatabaseNotFound):
            catalog.drop_database("db")
        catalog.drop_database("db", ignore_if_not_exists=True)

    def test_a_database_is_renamed_with_its_tables_or_not_at_all(self, catalog: CatalogProtocol) -> None:
        catalog.create_table("db.t", _schema())
        catalog.create_database("taken")
        with pytest.raises((AlreadyExists, Unsupported)):
            catalog.rename_database("db", "taken")
        with pytest.raises((DatabaseNotFound, Unsupported)):
            catalog.rename_database("nope", "other")
        try:
            catalog.rename_database("db", "other")
        except Unsupported:
            assert (catalog.databases(), catalog.tables("db")) == (["db", "taken"], ["t"])
        else:
            assert (catalog.databases(), catalog.tables("other")) == (["other", "taken"], ["t"])

    def test_properties_of_databases(self, catalog: CatalogProtocol) -> None:
        seen = Catalog.over(catalog)
        seen.create_database("plain")
        given = {"a": 'it\'s "ü" % $1 \\', "b": True, "c": 1.5, "d e": ""}
        if not keeps_properties(catalog):
            for change in (seen.create_database, seen.alter_database):
                with pytest.raises(Unsupported):
                    change("plain" if change == seen.alter_database else "other", properties=given)
            assert (catalog.databases(), dict(seen.database("plain").properties)) == (["plain"], {})
            return
        seen.create_database("other", properties=given, comment="all; 'of' them")
        told = seen.database("other")
        assert (told.name, told.comment) == ("other", "all; 'of' them")
        assert told.properties.items() >= {"a": given["a"], "b": "true", "c": "1.5", "d e": ""}.items()
        seen.create_database("other", properties={"a": "new"}, ignore_if_exists=True)
        seen.alter_database("other", {"b": "B", "f": "g"}, unset=["a", "not there"])
        after = seen.database("other")
        assert after.comment == told.comment
        assert after.properties.items() >= {"b": "B", "c": "1.5", "f": "g"}.items()
        assert "a" not in after.properties
        assert not set(seen.database("plain").properties) & {"a", "b", "f"}
        for unknown in (lambda: seen.database("no"), lambda: seen.alter_database("no", {"a": "b"})):
            with pytest.raises(DatabaseNotFound):
                unknown()
        seen.drop_database("other")
        seen.create_database("other")
        assert not set(seen.database("other").properties) & {"b", "c", "f"}

    # Tables

    def test_tables(self, catalog: CatalogProtocol) -> None:
        for name in ("db.b", "db.a", "other.c"):
            made = catalog.create_table(name, _schema())
            assert list(made.latest_schema().by_name) == ["id", "v"]
        assert (catalog.tables("db"), catalog.tables("other")) == (["a", "b"], ["c"])
        assert catalog.has_table("db.a")
        assert not catalog.has_table("db.c")
        assert not catalog.has_table("nope.c")
        assert catalog.table("db.a").latest_snapshot() is None
        with pytest.raises(AlreadyExists):
            catalog.create_table("db.a", _schema())

    def test_what_does_not_exist_is_not_found(self, catalog: CatalogProtocol) -> None:
        catalog.create_database("db")
        with pytest.raises(DatabaseNotFound):
            catalog.tables("nope")
        with pytest.raises(DatabaseNotFound):
            catalog.table("nope.t")
        with pytest.raises(TableNotFound):
            catalog.table("db.t")
        with pytest.raises(TableNotFound):
            catalog.drop_table("db.t")
        with pytest.raises(TableNotFound):
            catalog.rename_table("db.t", "db.u")
        catalog.drop_table("db.t", ignore_if_not_exists=True)

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_names_that_are_refused(self, catalog: CatalogProtocol, name: str) -> None:
        catalog.create_database("db")
        with pytest.raises(MorrowError):
            catalog.create_database(name)
        for table in (f"db.{name}", name, f"{name}.t"):
            with pytest.raises(MorrowError):
                catalog.create_table(table, _schema())
            with pytest.raises(MorrowError):
                catalog.where_of(table)
        with pytest.raises(InvalidArgument):
            catalog.create_database("sys")
        assert (catalog.databases(), catalog.tables("db")) == (["db"], [])

    def test_a_table_is_dropped_with_its_rows(self, tables: Catalog) -> None:
        _made(tables).append({"id": [1], "v": ["a"]})
        tables.drop_table("db.t")
        assert tables.tables("db") == []
        assert _rows(_made(tables)) == []

    def test_a_table_is_renamed_with_its_rows_or_not_at_all(self, tables: Catalog) -> None:
        _made(tables).append({"id": [1], "v": ["a"]})
        _made(tables, "db.taken")
        tables.create_database("other")
        with pytest.raises((AlreadyExists, Unsupported)):
            tables.rename_table("db.t", "db.taken")
        with pytest.raises((DatabaseNotFound, Unsupported)):
            tables.rename_table("db.t", "nope.t")
        try:
            moved = tables.rename_table("db.t", "other.u")
        except Unsupported:
            assert tables.tables("db") == ["t", "taken"]
            assert _rows(tables.table("db.t")) == [(1, "a")]
        else:
            assert (tables.tables("db"), tables.tables("other")) == (["taken"], ["u"])
            moved.append({"id": [2], "v": ["b"]})
            assert _rows(tables.table("other.u")) == [(1, "a"), (2, "b")]

    def test_one_of_several_creators_wins(self, catalog: CatalogProtocol) -> None:
        catalog.create_database("db")

        def create(_: int) -> bool:
            try:
                catalog.create_table("db.t", _schema())
            except AlreadyExists:
                return False
            return True

        with ThreadPoolExecutor(WRITERS) as pool:
            assert list(pool.map(create, range(WRITERS))).count(True) == 1
        assert catalog.tables("db") == ["t"]

    # Rows and history

    def test_commits_follow_one_another(self, tables: Catalog) -> None:
        table = _made(tables)
        for number in range(3):
            table.append({"id": [number], "v": [str(number)]})
        table.delete("id = 1")

        assert _rows(tables.table("db.t")) == [(0, "0"), (2, "2")]
        assert [snapshot.id for snapshot in tables.table("db.t").snapshots()] == [1, 2, 3, 4]
        assert _rows(tables.table("db.t"), snapshot=3) == [(0, "0"), (1, "1"), (2, "2")]

    def test_no_commit_is_lost(self, tables: Catalog) -> None:
        _made(tables)

        def write(writer: int) -> None:
            table = tables.table("db.t")
            for number in range(COMMITS):
                table.append({"id": [COMMITS * writer + number], "v": [str(writer)]})

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
        found = tables.table("db.t")
        assert [id_ for id_, _ in _rows(found)] == list(range(WRITERS * COMMITS))
        assert [snapshot.id for snapshot in found.snapshots()] == list(range(1, WRITERS * COMMITS + 1))

    def test_tables_with_keys_are_merged_and_compacted(self, tables: Catalog) -> None:
        table = _made(tables, primary_keys="id", options={"bucket": 1})
        table.upsert({"id": [1, 2], "v": ["a", "b"]})
        table.upsert({"id": [2, 3], "v": ["B", "c"]})
        table.compact(full=True)
        assert _rows(tables.table("db.t")) == [(1, "a"), (2, "B"), (3, "c")]

    def test_the_schema_changes(self, tables: Catalog) -> None:
        table = _made(tables)
        table.append({"id": [1], "v": ["a"]})
        tables.table("db.t").alter.add_column("n", "INT")
        table.append({"id": [2], "v": ["b"], "n": [5]})
        assert _rows(tables.table("db.t")) == [(1, "a", None), (2, "b", 5)]
        assert [schema.id for schema in table.schemas()] == [0, 1]

    def test_no_change_of_the_schema_is_lost(self, tables: Catalog) -> None:
        _made(tables)

        def change(number: int) -> None:
            tables.table("db.t").alter.add_column(f"c{number}", "INT")

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(change, range(WRITERS)))
        assert sorted(tables.table("db.t").schemas()[-1].by_name) == ["c0", "c1", "c2", "c3", "id", "v"]

    def test_tags(self, tables: Catalog) -> None:
        table = _made(tables)
        table.append({"id": [1], "v": ["a"]})
        table.tags.create("v1")
        table.append({"id": [2], "v": ["b"]})
        found = tables.table("db.t")
        assert [tag.name for tag in found.tags] == ["v1"]
        assert _rows(found, tag="v1") == [(1, "a")]
        with pytest.raises(AlreadyExists):
            found.tags.create("v1")
        found.tags.delete("v1")
        assert list(table.tags) == []

    def test_branches(self, tables: Catalog) -> None:
        table = _made(tables)
        table.append({"id": [1], "v": ["a"]})
        try:
            table.branches.create("dev", snapshot=1)
        except Unsupported:
            assert list(table.branches) == []
            return
        branch = tables.table("db.t", branch="dev")
        branch.append({"id": [2], "v": ["b"]})
        assert _rows(tables.table("db.t", branch="dev")) == [(1, "a"), (2, "b")]
        assert _rows(tables.table("db.t")) == [(1, "a")]
        table.branches.fast_forward("dev")
        assert _rows(tables.table("db.t")) == [(1, "a"), (2, "b")]
        table.branches.delete("dev")
        assert list(tables.table("db.t").branches) == []

    def test_rollback(self, tables: Catalog) -> None:
        table = _made(tables)
        for number in range(3):
            table.append({"id": [number], "v": [""]})
        try:
            table.rollback(snapshot=1)
        except Unsupported:
            assert len(_rows(tables.table("db.t"))) == 3
            return
        assert _rows(tables.table("db.t")) == [(0, "")]
        table.append({"id": [9], "v": [""]})
        assert _rows(tables.table("db.t")) == [(0, ""), (9, "")]

    def test_expiry(self, tables: Catalog) -> None:
        table = _made(tables)
        for number in range(4):
            table.append({"id": [number], "v": [""]})
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert [snapshot.id for snapshot in tables.table("db.t").snapshots()] == [4]
        assert len(_rows(tables.table("db.t"))) == 4

    # All tables at once

    def test_sql_and_system_tables(self, tables: Catalog) -> None:
        _made(tables).append({"id": [1, 2], "v": ["a", "b"]})
        _made(tables, "db.u").append({"id": [2], "v": ["c"]})
        query = "SELECT t.v, u.v FROM db.t AS t JOIN db.u AS u USING (id)"
        assert tables.sql(query).fetchall() == [("b", "c")]
        assert tables.sql('SELECT count(*) FROM db."t$snapshots"').fetchall() == [(1,)]
        found = tables.system("all_tables", ["database_name", "table_name"]).to_polars().rows()
        assert sorted(found) == [("db", "t"), ("db", "u")]
        assert tables.system("all_table_options").count() >= 2
        assert dict(tables.system("catalog_options").to_polars().rows()) == dict(tables._catalog.options)

    def test_the_catalog_names_itself(self, catalog: CatalogProtocol) -> None:
        assert catalog.title
        assert catalog.title in repr(Catalog.over(catalog))
        assert "t" in catalog.where_of("db.t")


def _schema() -> Any:
    return new_schema(SCHEMA, where="/t")


def _made(tables: Catalog, name: str = "db.t", **more: Any) -> Table:
    return tables.create_table(name, schema=SCHEMA, **more)


def _rows(table: Table, **at: Any) -> list[tuple[Any, ...]]:
    return sorted(table.scan(**at).to_polars().rows())
