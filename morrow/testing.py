"""Conformance suites for implementers, run by pytest: subclass a suite and define its fixture.

``class TestMyCatalog(CatalogTests)`` defines the fixture ``catalog``, which returns a catalog.
`StoreTests` checks a file store against `morrow.engine.io.store.FileStore`, `CatalogTests` a catalog against
`morrow.engine.catalog.protocol.Catalog`. They need pytest, which Morrow itself does not require.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from morrow.catalogs.catalog import Catalog
from morrow.engine.catalog.databases import has_properties
from morrow.engine.catalog.protocol import Catalog as CatalogProtocol
from morrow.engine.errors import (
    AlreadyExists,
    DatabaseNotFound,
    FileMissing,
    InvalidArgument,
    MorrowError,
    TableNotFound,
    Unsupported,
)
from morrow.engine.io.store import FileStatus, FileStore
from morrow.engine.schema.creation import build_first_schema
from morrow.tables.table import Table

__all__ = ["CatalogTests", "StoreTests"]

SCHEMA = "id INT NOT NULL, v STRING"
BAD_NAMES = ("", " ", " a", "a ", ".a", "a$b")
WRITERS, COMMITS = 4, 3


class CatalogTests:
    """The tests that a `Catalog` must pass. Subclass it with the fixture `catalog`, which has no databases."""

    @pytest.fixture
    def catalog(self) -> CatalogProtocol:
        """Return the catalog to test."""
        raise NotImplementedError("give the suite a fixture 'catalog'")

    @pytest.fixture
    def tables(self, catalog: CatalogProtocol) -> Catalog:
        """Return the catalog as users see it, with the empty database ``db``."""
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
        catalog.create_table("db.t", _make_schema())
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
        catalog.create_table("db.t", _make_schema())
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
        if not has_properties(catalog):
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
            made = catalog.create_table(name, _make_schema())
            assert list(made.latest_schema().by_name) == ["id", "v"]
        assert (catalog.tables("db"), catalog.tables("other")) == (["a", "b"], ["c"])
        assert catalog.has_table("db.a")
        assert not catalog.has_table("db.c")
        assert not catalog.has_table("nope.c")
        assert catalog.table("db.a").latest_snapshot() is None
        with pytest.raises(AlreadyExists):
            catalog.create_table("db.a", _make_schema())

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
                catalog.create_table(table, _make_schema())
            with pytest.raises(MorrowError):
                catalog.where_of(table)
        with pytest.raises(InvalidArgument):
            catalog.create_database("sys")
        assert (catalog.databases(), catalog.tables("db")) == (["db"], [])

    def test_a_table_is_dropped_with_its_rows(self, tables: Catalog) -> None:
        _create_table(tables).append({"id": [1], "v": ["a"]})
        tables.drop_table("db.t")
        assert tables.tables("db") == []
        assert _read_rows(_create_table(tables)) == []

    def test_a_table_is_renamed_with_its_rows_or_not_at_all(self, tables: Catalog) -> None:
        _create_table(tables).append({"id": [1], "v": ["a"]})
        _create_table(tables, "db.taken")
        tables.create_database("other")
        with pytest.raises((AlreadyExists, Unsupported)):
            tables.rename_table("db.t", "db.taken")
        with pytest.raises((DatabaseNotFound, Unsupported)):
            tables.rename_table("db.t", "nope.t")
        try:
            moved = tables.rename_table("db.t", "other.u")
        except Unsupported:
            assert tables.tables("db") == ["t", "taken"]
            assert _read_rows(tables.table("db.t")) == [(1, "a")]
        else:
            assert (tables.tables("db"), tables.tables("other")) == (["taken"], ["u"])
            moved.append({"id": [2], "v": ["b"]})
            assert _read_rows(tables.table("other.u")) == [(1, "a"), (2, "b")]

    def test_one_of_several_creators_wins(self, catalog: CatalogProtocol) -> None:
        catalog.create_database("db")

        def create(_: int) -> bool:
            try:
                catalog.create_table("db.t", _make_schema())
            except AlreadyExists:
                return False
            return True

        with ThreadPoolExecutor(WRITERS) as pool:
            assert list(pool.map(create, range(WRITERS))).count(True) == 1
        assert catalog.tables("db") == ["t"]

    # Rows and history

    def test_commits_follow_one_another(self, tables: Catalog) -> None:
        table = _create_table(tables)
        for number in range(3):
            table.append({"id": [number], "v": [str(number)]})
        table.delete("id = 1")

        assert _read_rows(tables.table("db.t")) == [(0, "0"), (2, "2")]
        assert [snapshot.id for snapshot in tables.table("db.t").snapshots()] == [1, 2, 3, 4]
        assert _read_rows(tables.table("db.t"), snapshot=3) == [(0, "0"), (1, "1"), (2, "2")]

    def test_no_commit_is_lost(self, tables: Catalog) -> None:
        _create_table(tables)

        def write(writer: int) -> None:
            table = tables.table("db.t")
            for number in range(COMMITS):
                table.append({"id": [COMMITS * writer + number], "v": [str(writer)]})

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
        found = tables.table("db.t")
        assert [id_ for id_, _ in _read_rows(found)] == list(range(WRITERS * COMMITS))
        assert [snapshot.id for snapshot in found.snapshots()] == list(range(1, WRITERS * COMMITS + 1))

    def test_tables_with_keys_are_merged_and_compacted(self, tables: Catalog) -> None:
        table = _create_table(tables, primary_keys="id", options={"bucket": 1})
        table.upsert({"id": [1, 2], "v": ["a", "b"]})
        table.upsert({"id": [2, 3], "v": ["B", "c"]})
        table.compact(full=True)
        assert _read_rows(tables.table("db.t")) == [(1, "a"), (2, "B"), (3, "c")]

    def test_the_schema_changes(self, tables: Catalog) -> None:
        table = _create_table(tables)
        table.append({"id": [1], "v": ["a"]})
        tables.table("db.t").alter.add_column("n", "INT")
        table.append({"id": [2], "v": ["b"], "n": [5]})
        assert _read_rows(tables.table("db.t")) == [(1, "a", None), (2, "b", 5)]
        assert [schema.id for schema in table.schemas()] == [0, 1]

    def test_no_change_of_the_schema_is_lost(self, tables: Catalog) -> None:
        _create_table(tables)

        def change(number: int) -> None:
            tables.table("db.t").alter.add_column(f"c{number}", "INT")

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(change, range(WRITERS)))
        assert sorted(tables.table("db.t").schemas()[-1].by_name) == ["c0", "c1", "c2", "c3", "id", "v"]

    def test_tags(self, tables: Catalog) -> None:
        table = _create_table(tables)
        table.append({"id": [1], "v": ["a"]})
        table.tags.create("v1")
        table.append({"id": [2], "v": ["b"]})
        found = tables.table("db.t")
        assert [tag.name for tag in found.tags] == ["v1"]
        assert _read_rows(found, tag="v1") == [(1, "a")]
        with pytest.raises(AlreadyExists):
            found.tags.create("v1")
        found.tags.delete("v1")
        assert list(table.tags) == []

    def test_branches(self, tables: Catalog) -> None:
        table = _create_table(tables)
        table.append({"id": [1], "v": ["a"]})
        try:
            table.branches.create("dev", snapshot=1)
        except Unsupported:
            assert list(table.branches) == []
            return
        branch = tables.table("db.t", branch="dev")
        branch.append({"id": [2], "v": ["b"]})
        assert _read_rows(tables.table("db.t", branch="dev")) == [(1, "a"), (2, "b")]
        assert _read_rows(tables.table("db.t")) == [(1, "a")]
        table.branches.fast_forward("dev")
        assert _read_rows(tables.table("db.t")) == [(1, "a"), (2, "b")]
        table.branches.delete("dev")
        assert list(tables.table("db.t").branches) == []

    def test_rollback(self, tables: Catalog) -> None:
        table = _create_table(tables)
        for number in range(3):
            table.append({"id": [number], "v": [""]})
        try:
            table.rollback(snapshot=1)
        except Unsupported:
            assert len(_read_rows(tables.table("db.t"))) == 3
            return
        assert _read_rows(tables.table("db.t")) == [(0, "")]
        table.append({"id": [9], "v": [""]})
        assert _read_rows(tables.table("db.t")) == [(0, ""), (9, "")]

    def test_expiry(self, tables: Catalog) -> None:
        table = _create_table(tables)
        for number in range(4):
            table.append({"id": [number], "v": [""]})
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert [snapshot.id for snapshot in tables.table("db.t").snapshots()] == [4]
        assert len(_read_rows(tables.table("db.t"))) == 4

    # All tables at once

    def test_sql_and_system_tables(self, tables: Catalog) -> None:
        _create_table(tables).append({"id": [1, 2], "v": ["a", "b"]})
        _create_table(tables, "db.u").append({"id": [2], "v": ["c"]})
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


def _make_schema() -> Any:
    return build_first_schema(SCHEMA, where="/t")


def _create_table(tables: Catalog, name: str = "db.t", **more: Any) -> Table:
    return tables.create_table(name, schema=SCHEMA, **more)


def _read_rows(table: Table, **at: Any) -> list[tuple[Any, ...]]:
    return sorted(table.scan(**at).to_polars().rows())


SECRET_NAMES = ("secret", "token", "password", "key")
NAMES = ("plain", "with blank", "p=x%20y", "ü-日本", "a#b", "q?x", "a+b&c", "100%")
"""File names that a store must distinguish and return unchanged."""
RACERS = 8


class StoreTests:
    """The tests that a `FileStore` must pass. Subclass it with the fixture `store`; each test has an empty folder."""

    @pytest.fixture
    def store(self) -> FileStore:
        """Return the store to test."""
        raise NotImplementedError("give the suite a fixture 'store'")

    @pytest.fixture
    def folder(self) -> str:
        """Return a folder of the store, as a path within it, that does not exist or is empty."""
        raise NotImplementedError("give the suite a fixture 'folder'")

    # Reading

    def test_a_file_that_does_not_exist(self, store: FileStore, folder: str) -> None:
        path = f"{folder}/nope"
        assert store.size(path) is None
        assert not store.exists(path)
        assert store.delete(path) is False
        with pytest.raises(FileMissing):
            store.read(path)
        with pytest.raises(FileMissing):
            store.open(path).read()
        with pytest.raises(FileMissing):
            store.read_range(path, 0, 1)

    def test_a_folder_that_does_not_exist(self, store: FileStore, folder: str) -> None:
        assert store.list(f"{folder}/nope") == []
        assert not store.is_dir(f"{folder}/nope")
        assert list(store.walk(f"{folder}/nope")) == []
        store.delete_folder(f"{folder}/nope")
        assert store.remove_empty_folder(f"{folder}/nope") is False

    def test_ranges_end_with_the_file(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/f", b"0123456789")
        assert store.read_range(f"{folder}/f", 2, 3) == b"234"
        assert store.read_range(f"{folder}/f", 8, 100) == b"89"
        assert store.read_range(f"{folder}/f", 50, 3) == b""
        assert store.size(f"{folder}/f") == 10

    def test_streams_seek(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/f", b"0123456789")
        with store.open(f"{folder}/f") as stream:
            assert stream.seekable()
            assert stream.seek(-3, io.SEEK_END) == 7
            assert stream.read() == b"789"
            assert stream.seek(0) == 0
            assert stream.read(4) == b"0123"

    # Listing

    def test_a_listing_has_files_and_folders(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/f", b"12")
        store.write(f"{folder}/sub/g", b"3")
        store.write(f"{folder}2/h", b"")
        found = {status.name: status for status in store.list(folder)}

        assert {(each.name, each.size, each.is_dir) for each in _clear_folder_sizes(found.values())} == {
            ("f", 2, False),
            ("sub", 0, True),
        }
        assert found["f"].modified_millis > 0
        assert store.is_dir(folder)
        assert store.is_dir(f"{folder}/sub")
        assert not store.is_dir(f"{folder}/f")
        assert not store.is_dir(f"{folder}/su")
        assert not store.exists(f"{folder}/sub")

    def test_a_walk_finds_all_files(self, store: FileStore, folder: str) -> None:
        for path in ("a", "b/c", "b/d/e"):
            store.write(f"{folder}/{path}", b"x")
        found = [path for part in store.walk(folder) for path, status in part if not status.is_dir]
        assert sorted(found) == [f"{folder}/a", f"{folder}/b/c", f"{folder}/b/d/e"]

    @pytest.mark.parametrize("name", NAMES)
    def test_names_stay_as_they_are(self, store: FileStore, folder: str, name: str) -> None:
        store.write(f"{folder}/{name}/{name}", name.encode())
        assert store.read(f"{folder}/{name}/{name}") == name.encode()
        assert [status.name for status in store.list(folder)] == [name]
        assert [status.name for status in store.list(f"{folder}/{name}")] == [name]

    # Writing

    def test_a_file_is_written_whole_and_replaced(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/sub/f", b"one")
        assert store.read(f"{folder}/sub/f") == b"one"
        store.write(f"{folder}/sub/f", b"")
        assert (store.read(f"{folder}/sub/f"), store.exists(f"{folder}/sub/f")) == (b"", True)

    def test_a_file_is_created_once(self, store: FileStore, folder: str) -> None:
        assert store.create(f"{folder}/f", b"first") is True
        assert store.create(f"{folder}/f", b"second") is False
        assert store.read(f"{folder}/f") == b"first"

    def test_one_of_several_creators_wins(self, store: FileStore, folder: str) -> None:
        for round_ in range(5):
            path = f"{folder}/f{round_}"
            contents = [f"by {racer}".encode() * 100 for racer in range(RACERS)]
            with ThreadPoolExecutor(RACERS) as pool:
                won = list(pool.map(lambda data, path=path: store.create(path, data), contents))
            assert won.count(True) == 1
            assert store.read(path) == contents[won.index(True)]

    def test_a_stream_makes_a_file_when_it_ends(self, store: FileStore, folder: str) -> None:
        part = bytes(range(256)) * 4096
        with store.output(f"{folder}/sub/f") as stream:
            for _ in range(12):
                stream.write(part)
        assert store.size(f"{folder}/sub/f") == 12 * len(part)
        assert store.read_range(f"{folder}/sub/f", 11 * len(part) - 1, 3) == b"\xff\x00\x01"

    def test_a_stream_that_fails_makes_no_file(self, store: FileStore, folder: str) -> None:
        with suppress(ZeroDivisionError), store.output(f"{folder}/f") as stream:
            stream.write(b"half")
            raise ZeroDivisionError
        assert not store.exists(f"{folder}/f")
        assert [status.name for status in store.list(folder) if not status.is_dir] == []

    def test_writers_in_native_code(self, store: FileStore, folder: str) -> None:
        target = store.local_target(f"{folder}/sub/f")
        if target is None:
            return
        Path(target).write_bytes(b"native")
        store.sync([f"{folder}/sub/f"])
        assert store.read(f"{folder}/sub/f") == b"native"

    # Removing and renaming

    def test_files_are_removed(self, store: FileStore, folder: str) -> None:
        for name in "abcd":
            store.write(f"{folder}/{name}", b"x")
        assert store.delete(f"{folder}/a") is True
        store.delete_many([f"{folder}/{name}" for name in ("b", "nope", "c")])
        store.discard([f"{folder}/nope"])
        assert [status.name for status in store.list(folder)] == ["d"]

    def test_a_folder_is_removed_with_everything_in_it(self, store: FileStore, folder: str) -> None:
        for path in ("sub/a", "sub/b/c", "sub2/d"):
            store.write(f"{folder}/{path}", b"x")
        store.delete_folder(f"{folder}/sub")
        assert not store.is_dir(f"{folder}/sub")
        assert store.exists(f"{folder}/sub2/d")

    def test_a_folder_that_is_made_exists(self, store: FileStore, folder: str) -> None:
        store.make_folder(f"{folder}/sub/deep")
        store.make_folder(f"{folder}/sub/deep")
        assert store.is_dir(f"{folder}/sub/deep")

    def test_a_folder_with_files_is_not_removed_as_empty(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/sub/f", b"x")
        assert store.remove_empty_folder(f"{folder}/sub") is False
        assert store.exists(f"{folder}/sub/f")

    def test_a_file_is_moved_over_another(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/a", b"a")
        store.write(f"{folder}/sub/b", b"b")
        store.move(f"{folder}/a", f"{folder}/sub/b")
        assert store.read(f"{folder}/sub/b") == b"a"
        assert not store.exists(f"{folder}/a")
        with pytest.raises(FileMissing):
            store.move(f"{folder}/a", f"{folder}/sub/b")
        assert store.read(f"{folder}/sub/b") == b"a"

    def test_a_folder_is_moved_whole_or_not_at_all(self, store: FileStore, folder: str) -> None:
        for path in ("a", "b/c"):
            store.write(f"{folder}/sub/{path}", path.encode())
        try:
            store.move_folder(f"{folder}/sub", f"{folder}/other")
        except Unsupported:
            assert store.read(f"{folder}/sub/b/c") == b"b/c"
            assert not store.is_dir(f"{folder}/other")
        else:
            assert store.read(f"{folder}/other/b/c") == b"b/c"
            assert not store.is_dir(f"{folder}/sub")

    # Access of other libraries

    def test_urls(self, store: FileStore, folder: str) -> None:
        store.write(f"{folder}/f", b"x")
        url = store.url(f"{folder}/f")
        assert url.endswith("/f")
        assert store.is_local == ("://" not in url)
        assert not store.is_local or Path(url).read_bytes() == b"x"

    def test_secrets_are_not_shown(self, store: FileStore) -> None:
        options = store.storage_options.items()
        secrets = [value for name, value in options if len(value) > 8 and any(each in name for each in SECRET_NAMES)]
        assert not [secret for secret in secrets if secret in f"{store!r} {store.storage_options!r}"]


def _clear_folder_sizes(found: Iterable[FileStatus]) -> list[FileStatus]:
    """Return the entries with size 0 for folders, whose size is undefined."""
    return [FileStatus(each.name, 0 if each.is_dir else each.size, 0, each.is_dir) for each in found]
