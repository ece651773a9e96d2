"""`Catalog.compact`, `copy_table` and `clone_parquet`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import AlreadyExists, FileMissing, InvalidArgument, TableNotFound, Unsupported
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
    with pytest.raises(InvalidArgument, match="no regular expression"):
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
    with pytest.raises(InvalidArgument, match="'id' is no partition column"):
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


def test_parquet_files_are_cloned(tmp_path: Path) -> None:
    catalog, old = morrow.Catalog(tmp_path / "warehouse"), tmp_path / "old"
    values = {
        "x": pa.array([1]),
        "at": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
        "d": pa.array([Decimal("1.20")]),
        "s": pa.array([{"a": 1, "b": ["q", None]}]),
    }
    for place, table in {
        "k=a%2Fb ü/n=3": pa.table(values),
        "k=__HIVE_DEFAULT_PARTITION__/n=4": pa.table({**values, "more": pa.array([b"\0"])}),
        "_temporary": pa.table({"junk": [1]}),
    }.items():
        (old / place).mkdir(parents=True)
        pq.write_table(table, old / place / "part-0.parquet")
    made = catalog.clone_parquet(old, "db.t", options={"file.format": "orc"})
    assert made.partition_keys == ("k", "n")
    found = rows(made, columns=["k", "n", "d", "s", "more"])
    assert found == [
        ("a/b ü", 3, Decimal("1.20"), {"a": 1, "b": ["q", None]}, None),
        (None, 4, Decimal("1.20"), {"a": 1, "b": ["q", None]}, b"\0"),
    ]
    with pytest.raises(AlreadyExists):
        catalog.clone_parquet(old, "db.t")
    pq.write_table(pa.table({"x": ["text"]}), old / "z.parquet")
    with pytest.raises(InvalidArgument, match="x has incompatible types"):
        catalog.clone_parquet(old, "db.u")
    (old / "z.parquet").write_text("no Parquet")
    with pytest.raises(InvalidArgument, match=r"z\.parquet"):
        catalog.clone_parquet(old, "db.u")
    with pytest.raises(InvalidArgument, match="there is no such folder"):
        catalog.clone_parquet(tmp_path / "none", "db.u")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InvalidArgument, match="no Parquet file"):
        catalog.clone_parquet(empty, "db.u")
    with pytest.raises(Unsupported, match="no local folder"):
        catalog.clone_parquet("s3://bucket/folder", "db.u")
    assert catalog.tables("db") == ["t"]
