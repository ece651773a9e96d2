"""`Catalog.compact` and `copy_table`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import FileMissing, InvalidArgument, TableNotFound
from tests.support.written import new_table, rows


def test_many_tables_are_compacted(tmp_path: Path) -> None:
    for name in ("a", "b", "tmp"):
        table = new_table(tmp_path, "id BIGINT", name=name)
        for number in range(2):
            table.append({"id": [number]})
    for path in Path(morrow.Catalog(tmp_path).table("db.a").path).rglob("*.parquet"):
        path.unlink()
    first, second = morrow.Catalog(tmp_path).compact(databases="d.", excluding=r"db\.t.*", full=True)
    assert (first.name, first.snapshot, type(first.error)) == ("db.a", None, FileMissing)
    assert (second.name, second.error) == ("db.b", None)
    assert second.snapshot is not None
    assert morrow.Catalog(tmp_path).compact(databases="none") == []
    with pytest.raises(InvalidArgument, match="not a valid regular expression"):
        morrow.Catalog(tmp_path).compact(including="(")


def test_a_table_is_copied(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    options = {"bucket": 2, "merge-engine": "partial-update"}
    source = new_table(tmp_path, "p STRING, id BIGINT, v INT", keys=["p", "id"], by=["p"], options=options)
    source.append({"p": ["a", "b"], "id": [1, 1], "v": [1, None]})
    source.upsert({"p": ["a"], "id": [2], "v": [2]})
    copy = catalog.copy_table("db.t", "other.copy")
    assert rows(copy) == rows(source)
    assert (copy.primary_keys, copy.partition_keys, copy.options) == (("p", "id"), ("p",), source.options)
    source.truncate()
    source.append({"p": ["a"], "id": [9], "v": [9]})
    catalog.copy_table(source, "other.copy", where="p <> 'none'")
    assert rows(copy) == [("a", 9, 9), ("b", 1, None)]

    plain = new_table(tmp_path, "id BIGINT", name="plain")
    for wrong, name, problem in (
        (source, "db.t", "to itself"),
        (source, "db.plain", "with other primary keys"),
        (plain, "other.copy", "with other primary keys"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            catalog.copy_table(wrong, name)
    with pytest.raises(InvalidArgument, match="'id' is not a partition column"):
        catalog.copy_table(source, "db.third", where="id = 1")
    with pytest.raises(TableNotFound):
        catalog.copy_table("db.none", "db.third")
    assert catalog.tables("db") == ["plain", "t"]
    assert rows(catalog.copy_table(plain, "db.empty")) == []


@pytest.mark.parametrize(
    ("change", "copied"),
    [
        (lambda alter: alter.drop_column("v"), [(1,), (2,)]),
        (lambda alter: alter.add_column("w", "INT"), [(1, "a", None), (2, "b", None)]),
        (lambda alter: alter.rename_column("v", "w"), [(1, "a"), (2, "b")]),
        (lambda alter: alter.set_type("id", "BIGINT"), [(1, "a"), (2, "b")]),
        (lambda alter: alter.set_options({"scan.snapshot-id": "1"}), [(1, "a"), (2, "b")]),
    ],
)
def test_a_table_is_copied_with_its_newest_columns(
    tmp_path: Path, change: Callable[[Any], object], copied: list[tuple[object, ...]]
) -> None:
    source = new_table(tmp_path, "id INT, v STRING")
    source.append({"id": [1], "v": ["a"]})
    source.append({"id": [2], "v": ["b"]})
    change(source.alter)
    copy = morrow.Catalog(tmp_path).copy_table("db.t", "db.copy")
    assert [field.name for field in copy.schemas()[-1].fields] == [f.name for f in source.schemas()[-1].fields]
    assert rows(copy, snapshot=1) == copied


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["append", "keyed"])
def test_a_table_with_members_is_copied_after_changes(tmp_path: Path, keys: list[str]) -> None:
    """Ids of columns and members, which changes leave gaps in, are another table's own."""
    source = new_table(tmp_path, "id INT, v INT, r ROW<a INT, b ARRAY<ROW<x INT>>>", keys=keys)
    source.append({"id": [1], "v": [1], "r": [{"a": 1, "b": [{"x": 1}]}]})
    source.alter.drop_column("v")
    source.alter.add_column("r.c", "MAP<INT, ROW<y INT>>")
    source.alter.drop_column("r.a")
    source.alter.add_column("v", "ROW<z INT>", first=True)
    for _ in range(2):
        copy = morrow.Catalog(tmp_path).copy_table("db.t", "db.copy")
        assert rows(copy) == [(None, 1, {"b": [{"x": 1}], "c": None})]
