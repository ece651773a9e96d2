"""A file format that another package registers: its tables are created, written, read, compacted and verified."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import morrow
from morrow.engine.errors import Unsupported
from tests.support import other_format

ROWS = {"id": [1, 2, 3], "v": [0.5, None, float("nan")], "tags": [["a"], [], None]}


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[morrow.Catalog]:
    monkeypatch.syspath_prepend(str(other_format.build(tmp_path)))
    yield morrow.Catalog(str(tmp_path / "warehouse"))
    morrow.clear_caches()


def made(warehouse: morrow.Catalog, **options: Any) -> morrow.Table:
    warehouse.create_database("db", ignore_if_exists=True)
    return warehouse.create_table(
        "db.t",
        schema="id BIGINT NOT NULL, v DOUBLE, tags ARRAY<STRING>",
        primary_keys="id" if options else (),
        options={"file.format": "ipc", **options},
    )


def endings(table: morrow.Table) -> set[str]:
    return set(table.system("files", ["file_format"]).to_polars()["file_format"])


@pytest.mark.parametrize(
    "options",
    [
        {"bucket": 1},
        {"bucket": 1, "deletion-vectors.enabled": True},
        {"bucket": 2, "changelog-producer": "lookup", "changelog-file.format": "ipc"},
        {"bucket": 1, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": True},
        {"bucket": -1, "file-index.bloom-filter.columns": "id"},
    ],
)
def test_tables_with_keys(warehouse: morrow.Catalog, options: dict[str, Any]) -> None:
    table = made(warehouse, **options)
    table.upsert(ROWS)
    table.upsert({"id": [2, 4], "v": [2.5, 4.5], "tags": [["b"], ["c", "d"]]})
    table.delete("id = 1")
    expected = [(2, 2.5, ["b"]), (4, 4.5, ["c", "d"])]

    for _ in range(2):
        assert endings(table) == {"ipc"}
        assert sorted(table.scan(filter="id <> 3").to_polars().rows()) == expected
        assert sorted(table.scan(filter="id <> 3").to_duckdb(duckdb.connect()).fetchall()) == expected
        assert table.scan().count() == 3
        assert table.scan(filter="v > 3").count() == 2  # NaN is greater than all
        table.scan().verify()
        table.compact(full=True)


def test_tables_without_keys(warehouse: morrow.Catalog) -> None:
    table = made(warehouse)
    for _ in range(6):
        table.append(ROWS)
    table.delete("id = 1")
    table.compact()

    assert endings(table) == {"ipc"}
    assert table.scan(["id"]).to_polars()["id"].sort().to_list() == [2] * 6 + [3] * 6
    table.scan().verify()
    assert warehouse.sql("SELECT count(tags) AS n FROM db.t").fetchall() == [(6,)]


def test_types_that_it_lacks(warehouse: morrow.Catalog) -> None:
    with pytest.raises(Unsupported, match="the type VARIANT of column 'v' in ipc files"):
        warehouse.create_table("db.u", schema="id INT, v VARIANT", options={"file.format": "ipc"})


def test_without_the_package_the_table_is_refused(warehouse: morrow.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(warehouse)
    table.append(ROWS)
    assert table.scan().count() == 3

    monkeypatch.undo()
    with pytest.raises(Unsupported, match=r"the file format .*ipc"):
        table.scan().to_polars()
    with pytest.raises(Unsupported, match="writing files of the format 'ipc'"):
        table.append(ROWS)
    with pytest.raises(Unsupported, match="the file format 'ipc'"):
        warehouse.create_table("db.u", schema="id INT", options={"file.format": "ipc"})


@pytest.mark.parametrize(
    ("entry_points", "problem"),
    [
        ("[morrow.file_formats]\nipc = ipc_files:READER\n", "'ipc' of the entry point morrow.file_formats is not"),
        ("[morrow.file_formats]\nmine = ipc_files:FORMAT\n", "has one of the name 'ipc'"),
        ("[morrow.file_formats]\nipc = ipc_files:NOTHING\n", "it does not load"),
    ],
)
def test_entry_points_of_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry_points: str, problem: str
) -> None:
    monkeypatch.syspath_prepend(str(other_format.build(tmp_path, entry_points)))
    name = entry_points.split("\n")[1].split(" ")[0]

    with pytest.raises(Unsupported, match=problem):
        morrow.Catalog(str(tmp_path / "w")).create_table("db.t", schema="id INT", options={"file.format": name})
