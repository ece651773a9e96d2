"""A merge engine that another package registers: its tables are created, written, read, compacted and changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from tests.support import other_package


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[morrow.Catalog]:
    monkeypatch.syspath_prepend(str(other_package.build(tmp_path)))
    yield morrow.Catalog(str(tmp_path / "warehouse"))
    morrow.clear_caches()


def made(warehouse: morrow.Catalog, **options: Any) -> morrow.Table:
    warehouse.create_database("db", ignore_if_exists=True)
    return warehouse.create_table(
        "db.t",
        schema="id BIGINT NOT NULL, at INT, v STRING",
        primary_keys="id",
        options={"bucket": 1, "merge-engine": "oldest", "oldest.field": "at", **options},
    )


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": True}, {"file.format": "avro"}])
def test_the_oldest_version_stays(warehouse: morrow.Catalog, options: dict[str, Any]) -> None:
    table = made(warehouse, **options)
    table.upsert({"id": [1, 2, 3], "at": [5, 5, 5], "v": ["a", "b", "c"]})
    table.upsert({"id": [1, 2, 4], "at": [4, 6, 1], "v": ["older", "newer", "d"]})
    expected = [(1, 4, "older"), (2, 5, "b"), (3, 5, "c"), (4, 1, "d")]

    assert sorted(table.scan().to_polars().rows()) == expected
    assert sorted(table.scan().to_duckdb(duckdb.connect()).fetchall()) == expected
    assert table.scan(filter="v = 'newer'").count() == 0

    table.compact(full=True)
    assert sorted(table.scan().to_polars().rows()) == expected
    table.upsert({"id": [3], "at": [0], "v": ["oldest"]}, kinds="-D")
    assert sorted(table.scan(columns=["id"]).to_polars()["id"]) == [1, 2, 4]


def test_its_traits_are_asked_for(warehouse: morrow.Catalog) -> None:
    table = made(warehouse)
    table.upsert({"id": [1], "at": [5], "v": ["a"]})

    with pytest.raises(Unsupported, match="update of a table with the merge engine oldest"):
        table.update({"v": "'b'"}, where="id = 1")
    assert "oldest by (id) ordered by at DESC" in str(table.scan().plan.merge)


def test_it_checks_tables_that_are_made(warehouse: morrow.Catalog) -> None:
    with pytest.raises(InvalidArgument, match="merge-engine oldest needs a column"):
        made(warehouse, **{"oldest.field": "nope"})


def test_without_the_package_the_table_is_refused(warehouse: morrow.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(warehouse)
    table.upsert({"id": [1], "at": [5], "v": ["a"]})
    assert table.scan().to_polars().equals(pl.DataFrame({"id": [1], "at": [5], "v": ["a"]}).cast({"at": pl.Int32}))

    monkeypatch.undo()
    morrow.clear_caches()
    with pytest.raises(MorrowError, match="oldest"):
        warehouse.table("db.t").scan().to_polars()
