"""`Catalog.clone_parquet`: which files of a folder are its rows, and what their folders say."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from tests.support.written import rows

ONE: dict[str, list[Any]] = {"id": [1]}
NULL = "__HIVE_DEFAULT_PARTITION__"


def written(root: Path, files: dict[str, Any]) -> Path:
    """Write files: tables as Parquet, texts as they are."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (root / name).write_text(content)
        else:
            pq.write_table(pa.table(content), root / name)
    return root


def clone(tmp_path: Path, files: dict[str, Any], below: str = "") -> morrow.Table:
    """Clone a folder, and check that each of its files is still there."""
    root = written(tmp_path / "old", files)
    before = sorted(root.rglob("*"))
    try:
        return morrow.Catalog(tmp_path / "warehouse").clone_parquet(root / below, "db.t")
    finally:
        assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize(
    ("files", "keys", "expected"),
    [
        ({"a.parquet": ONE, "more/b": {"id": [2]}}, (), [(1,), (2,)]),
        ({"zip=01730/a": ONE, "zip=5/a": ONE}, ("zip",), [(1, "01730"), (1, "5")]),
        ({"n=12345678901/a": ONE, "n=-1/a": ONE}, ("n",), [(1, -1), (1, 12345678901)]),
        ({f"n={NULL}/a": ONE, "n=0/a": ONE}, ("n",), [(1, None), (1, 0)]),
        ({f"n={NULL}/a": ONE}, ("n",), [(1, None)]),
        ({"f=NaN/a": ONE, "f=1/a": ONE}, ("f",), [(1, "1"), (1, "NaN")]),
        ({"_day=1/a": ONE, "_x/a": ONE, ".y/a": ONE, "_day=1/_SUCCESS": "", "_day=1/.a.crc": ""}, ("_day",), [(1, 1)]),
        ({"d=2024-01-01/a": {"id": [1], "d": [dt.date(2024, 1, 1)]}}, ("d",), [(1, dt.date(2024, 1, 1))]),
        ({"k=1/a": {"id": [1], "k": ["1"]}, "k=02/a": ONE}, ("k",), [(1, "02"), (1, "1")]),
        ({"a": {"id": pa.array([], pa.int64())}, "b": ONE}, (), [(1,)]),
        ({"a": {"s": pa.array(["x"]).dictionary_encode()}, "b": {"s": pa.array(["y"])}}, (), [("x",), ("y",)]),
        ({"a": {"s": pa.nulls(1)}, "b": {"s": ["y"]}}, (), [(None,), ("y",)]),
    ],
)
def test_folders_make_partitions(
    tmp_path: Path, files: dict[str, Any], keys: tuple[str, ...], expected: list[tuple[object, ...]]
) -> None:
    table = clone(tmp_path, files)
    assert table.partition_keys == keys
    assert sorted(rows(table), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"k=1/a": ONE, "b": ONE}, r"k=1/a: its folders name k, those of .*b name no column"),
        ({"k=1/j=2/a": ONE, "j=1/k=2/a": ONE}, r"name k, j, those of .* name j, k"),
        ({"k=1/k=2/a": ONE}, "two of its folders name the column 'k'"),
        ({"k=1/a": {"id": [1, 2], "k": [1, 3]}}, "a row has k = 3, but lies in the folder of '1'"),
        ({f"k={NULL}/a": {"k": [1]}}, "a row has k = 1, but lies in the folder of None"),
        ({"k=x/a": {"k": [1]}}, "k=x names no int64"),
        ({"k=%FF/a": ONE}, "can't decode byte 0xff"),
        ({"K=1/a": {"k": [1]}}, "'k' and 'K' differ in case alone"),
        ({"a": {"id": [1]}, "b": {"ID": [1]}}, "differ in case alone"),
        ({"a": {"id": [1]}, "b": {"id": ["1"]}}, "id has incompatible types"),
        ({"a": ONE, "README.md": "x"}, r"README\.md"),
    ],
)
def test_files_that_contradict_each_other(tmp_path: Path, files: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        clone(tmp_path, files)


@pytest.mark.parametrize(
    ("files", "below", "line"),
    [
        ({"_delta_log/00000000000000000003.json": "{}"}, "", r"""Delta Lake.*"FROM delta_scan\('.*/old'\)"\)"""),
        ({"_delta_log/_last_checkpoint": "{}", "day=1/a": ONE}, "day=1", r"delta_scan\('.*/old'\)"),
        ({"t/_delta_log/00000000000000000000.json": "{}", "t/a": ONE}, "", r"delta_scan\('.*/old/t'\)"),
        ({"metadata/v3.metadata.json": "{}", "data/a": ONE}, "data", r"iceberg_scan\('.*/v3\.metadata\.json'\)"),
        ({".hoodie/hoodie.properties": ""}, "", r"format\('hudi'\)"),
        ({"b": {"_hoodie_commit_time": ["x"]}}, "", r"format\('hudi'\)"),
        ({"schema/schema-0": "{}", "bucket-0/a": ONE}, "", r"catalog\.copy_table\(morrow\.open\('.*/old'\), 'db\.t'\)"),
        ({"b": {"_VALUE_KIND": [0]}}, "", "copy_table"),
        ({"_spark_metadata/0": "v1"}, "", r"spark\.read\.parquet"),
        ({"delta_0000001_0000001/a": ONE}, "", "INSERT OVERWRITE DIRECTORY"),
        ({"ducklake-0190.parquet": ONE}, "", "ATTACH 'ducklake:"),
    ],
)
def test_tables_of_other_formats_are_refused(tmp_path: Path, files: dict[str, Any], below: str, line: str) -> None:
    with pytest.raises(Unsupported, match=line):
        clone(tmp_path, {**files, "a" if not below else f"{below}/more": ONE}, below)
    assert not (tmp_path / "warehouse").exists()


@pytest.mark.parametrize("folder", ["db.db/t", "db.db", "db.db/t/k=1", "."])
def test_the_files_of_a_clone_lie_outside_of_the_table(tmp_path: Path, folder: str) -> None:
    written(tmp_path, {"db.db/t/k=1/a": ONE})
    with pytest.raises(InvalidArgument, match="the table would lie in the folder that it is made of"):
        morrow.Catalog(tmp_path).clone_parquet(tmp_path / folder, "db.t")
    assert (tmp_path / "db.db/t/k=1/a").exists()
