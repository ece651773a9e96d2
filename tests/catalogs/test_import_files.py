"""Files that are imported from a folder, their values in folder names, and tables of other formats."""

from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.engine.io.resolve import resolve
from morrow.engine.io.store import FileStore
from tests.support.s3_server import BUCKET, s3_server
from tests.support.written import rows

OLD = f"s3://{BUCKET}/old"


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
    with pytest.raises(InvalidArgument, match="there is no such file or folder"):
        catalog.clone_parquet(tmp_path / "none", "db.u")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InvalidArgument, match="there is no file to import"):
        catalog.clone_parquet(empty, "db.u")
    assert catalog.tables("db") == ["t"]


# Which files of a folder hold rows, and how its folders become partitions.

ONE: dict[str, list[Any]] = {"id": [1]}
NULL = "__HIVE_DEFAULT_PARTITION__"


def written(root: Path, files: dict[str, Any]) -> Path:
    """Write files: tables as Parquet, texts unchanged."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (root / name).write_text(content)
        else:
            pq.write_table(pa.table(content), root / name)
    return root


def clone(tmp_path: Path, files: dict[str, Any], below: str = "") -> morrow.Table:
    """Clone a folder, and check that all its files still exist."""
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
        ({"_delta_log/00000000000000000003.json": "{}"}, "", r"Delta Lake.*import_table\('.*/old', 'db\.t'\)"),
        ({"_delta_log/_last_checkpoint": "{}", "day=1/a": ONE}, "day=1", r"import_table\('.*/old'"),
        ({"t/_delta_log/00000000000000000000.json": "{}", "t/a": ONE}, "", r"import_table\('.*/old/t'"),
        ({"metadata/v3.metadata.json": "{}", "data/a": ONE}, "data", r"import_table\('.*/v3\.metadata\.json'"),
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


LAYOUTS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["x", None]),
    "bytes": (pa.binary(), [b"x", None]),
    "list": (pa.list_(pa.string()), [["x"], None]),
    "members": (pa.struct([("s", pa.string()), ("l", pa.list_(pa.binary()))]), [{"s": "x", "l": [b"y"]}, None]),
    "map": (pa.map_(pa.string(), pa.list_(pa.string())), [[("k", ["x"])], None]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_of_polars_and_of_arrow_lie_in_one_folder(tmp_path: Path, layout: str) -> None:
    """Layouts of memory, which writers note in the footer, are not a difference of types."""
    kind, values = LAYOUTS[layout]
    old = tmp_path / "old"
    old.mkdir()
    plain = pa.table({"v": pa.array(values, kind)})
    pq.write_table(plain, old / "arrow.parquet")
    pl.DataFrame(plain).write_parquet(old / "polars.parquet")
    if layout in ("text", "bytes"):
        pq.write_table(pa.table({"v": plain["v"].cast(f"{kind}_view")}), old / "view.parquet")
        pq.write_table(pa.table({"v": plain["v"].dictionary_encode()}), old / "dictionary.parquet")
    table = morrow.Catalog(tmp_path / "lake").clone_parquet(old, "db.t")
    found = [row["v"] for row in table.to_arrow().to_pylist()]
    assert all(found.count(value) == len(list(old.iterdir())) for value in plain["v"].to_pylist())


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[FileStore, dict[str, str]]]:
    """Yield an S3 store, and its storage options."""
    with s3_server() as options:
        yield resolve(f"{OLD}/x", options)[0], options


def write_parquet(store: FileStore, key: str, **columns: list[Any]) -> None:
    with store.output(key) as out:
        pq.write_table(pa.table(columns), out)


def test_files_in_an_object_store_are_imported_once(bucket: tuple[FileStore, dict[str, str]]) -> None:
    store, options = bucket
    for day in (1, 2, 3):
        write_parquet(store, f"old/day={day}/a.parquet", id=[day, day * 10])
    store.write("old/_temporary/b.parquet", b"no Parquet")
    store.write("old/day=3/notes.txt", b"no rows")
    lake = morrow.Catalog(f"s3://{BUCKET}/warehouse", storage_options=options)
    made = lake.import_table(f"{OLD}/day=[12]/*.parquet", "db.t", primary_keys=["day", "id"])
    assert rows(made) == [(1, 1), (2, 2), (10, 1), (20, 2)]
    again = lake.import_table(f"{OLD}/**/*.parquet", "db.t", dry_run=True)
    assert again.files == (f"{OLD}/day=3/a.parquet",)
    assert again.imported_files == 2
    assert again.run().count() == 6
    cloned = lake.clone_parquet(f"{OLD}/day=1", "db.cloned")
    assert rows(cloned) == [(1,), (10,)]


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a.csv": "id,zip\n1,007\n", "b.csv.gz": "id,zip\n2,8\n"}, [(1, "007"), (2, "8")]),
        ({"a.json": '{"id": 1, "x": null}\n', "b.jsonl.gz": '{"id": 2, "x": 3}\n'}, [(1, None), (2, 3)]),
    ],
)
def test_text_files_in_an_object_store(
    bucket: tuple[FileStore, dict[str, str]], tmp_path: Path, files: dict[str, str], found: list[Any]
) -> None:
    store, options = bucket
    for name, text in files.items():
        store.write(f"texts/{name}", gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    sources = [f"s3://{BUCKET}/texts/{name}" for name in files]
    assert rows(morrow.Catalog(tmp_path).import_table(sources, "db.t", storage_options=options)) == found


def test_what_is_refused_in_an_object_store(bucket: tuple[FileStore, dict[str, str]], tmp_path: Path) -> None:
    store, options = bucket
    (tmp_path / "a.csv").write_text("id\n1\n")
    store.write("b.csv", b"id\n1\n")
    lake = morrow.Catalog(f"s3://{BUCKET}/refused/lake", storage_options=options)
    lake.create_table("db.t", "id INT").append([{"id": 1}])
    store.write("tables/hudi/.hoodie/x", b"")
    store.write("tables/hudi/day=1/a.parquet", b"")
    for source, error, problem in (
        (f"s3://{BUCKET}/refused/lake/db.db/t/bucket-0/*.parquet", Unsupported, "a table of Paimon"),
        (f"s3://{BUCKET}/tables", Unsupported, "a table of Hudi"),
        (f"s3://{BUCKET}/tables/hudi/day=1/a.parquet", Unsupported, "a table of Hudi"),
        (f"s3://{BUCKET}/refused", InvalidArgument, "the table would lie in the folder that it is made of"),
        (f"s3://{BUCKET}/none", InvalidArgument, "there is no such file or folder"),
        ([f"s3://{BUCKET}/b.csv", str(tmp_path / "a.csv")], InvalidArgument, "lie in several stores"),
    ):
        with pytest.raises(error, match=problem):
            lake.import_table(source, "db.u")
