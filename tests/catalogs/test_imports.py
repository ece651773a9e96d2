"""`Catalog.import_table`: plans, restarts, files that differ, and tables in memory."""

from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import morrow
from morrow.catalogs import imports
from morrow.engine.errors import ColumnNotFound, InvalidArgument, MorrowError, Unsupported
from tests.support.written import rows


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    return morrow.Catalog(tmp_path / "warehouse")


def write_files(root: Path, files: dict[str, Any]) -> Path:
    """Write texts, bytes and tables (as Parquet, or as ORC for names with ``_0`` at the end)."""
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str | bytes):
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        elif name.endswith("_0"):
            orc.write_table(pa.table(content), file)
        else:
            pq.write_table(pa.table(content), file)
    return root


def test_a_dry_run_has_the_schema_and_writes_nothing(catalog: morrow.Catalog, tmp_path: Path) -> None:
    root = write_files(tmp_path / "old", {f"day=2024-01-0{day}/a.csv": "id,zip\n1,01730\n2,5\n" for day in (1, 2)})
    arguments: dict[str, Any] = {"primary_keys": ["day", "id"], "options": {"bucket": 1}, "comment": "codes"}
    plan = catalog.import_table(root, "db.t", **arguments, dry_run=True)
    assert str(plan).splitlines() == [
        f"import 2 files of {root} (38 B) into db.t, made by",
        "CREATE TABLE `db`.`t` (",
        "  `id` BIGINT,",
        "  `zip` STRING,",
        "  `day` DATE,",
        "  PRIMARY KEY (`day`, `id`) NOT ENFORCED",
        ")",
        "PARTITIONED BY (`day`)",
        "COMMENT 'codes'",
        "TBLPROPERTIES (",
        "  'bucket' = '1'",
        ")",
    ]
    assert plan.schema.names == ["id", "zip", "day"]
    assert plan.files == tuple(str(root / f"day=2024-01-0{day}/a.csv") for day in (1, 2))
    assert catalog.databases() == []
    assert plan.run().count() == 4
    assert str(catalog.import_table(root, "db.t", dry_run=True)).endswith(
        "2 files imported before into db.t, which exists"
    )


# Restarts


def fail_at(monkeypatch: pytest.MonkeyPatch, number: int, after: bool) -> None:
    """Interrupt the commit of this number, before or after it is done."""
    append, calls = imports.append_parts, iter(range(number + 1))

    def interrupted(*args: Any, **named: Any) -> Any:
        is_last = next(calls) == number
        if is_last and not after:
            raise KeyboardInterrupt
        done = append(*args, **named)
        if is_last:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(imports, "append_parts", interrupted)


@pytest.mark.parametrize("keys", [(), ("n",)])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_interrupted_import_goes_on(
    catalog: morrow.Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    after: bool,
    keys: tuple[str, ...],
) -> None:
    root = write_files(tmp_path / "old", {f"{name}.csv": f"n\n{name}\n" for name in range(5)})
    monkeypatch.setattr(imports, "MAX_COMMIT_FILES", 2)
    options = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1, "bucket": 1 if keys else -1}
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        fail_at(context, number, after)
        catalog.import_table(root, "db.t", primary_keys=keys, options=options)
    exists = "db.t" in catalog
    assert exists == (number > 0 or after)  # else it is dropped, since it has no snapshot
    if exists:
        assert catalog.table("db.t").count() == min(5, 2 * (number + after))
    table = catalog.import_table(root, "db.t", primary_keys=keys, options=None if exists else options)
    assert rows(table) == [(n,) for n in range(5)]
    assert table.consumers.all() == {}
    catalog.import_table(root, "db.t")
    assert table.count() == 5


def test_the_record_outlives_other_commits_until_the_import_is_complete(
    catalog: morrow.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_files(tmp_path / "old", {f"{name}.csv": f"n\n{name}\n" for name in range(3)})
    monkeypatch.setattr(imports, "MAX_COMMIT_FILES", 1)
    options = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1}
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        fail_at(context, 1, True)
        catalog.import_table(root, "db.t", options=options)
    table = catalog.table("db.t")
    for n in (7, 8, 9):
        table.append({"n": [n]})
    assert sorted(rows(catalog.import_table(root, "db.t"))) == [(n,) for n in (0, 1, 2, 7, 8, 9)]


def test_two_imports_at_once_add_each_file_once(catalog: morrow.Catalog, tmp_path: Path) -> None:
    root = write_files(tmp_path / "old", {f"{name}.csv": f"n\n{name}\n" for name in range(3)})
    catalog.create_table("db.t", schema="n BIGINT")
    plans = [catalog.import_table(root, "db.t", dry_run=True) for _ in range(2)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda plan: plan.run(), plans))
    assert rows(catalog.table("db.t")) == [(0,), (1,), (2,)]


def test_the_record_outlives_its_snapshot(catalog: morrow.Catalog, tmp_path: Path) -> None:
    root = write_files(tmp_path / "old", {"a.csv": "n\n1\n"})
    table = catalog.import_table(root, "db.t")
    for _ in range(2):
        table.append([{"n": 2}])
        table.expire_snapshots(retain_max=1, retain_min=1, older_than=dt.timedelta(0))
        assert catalog.import_table(root, "db.t").scan(filter="n = 1").count() == 1
    before = table.snapshots()[-1].id
    write_files(root, {"b.csv": "n\n3\n"})
    catalog.import_table(root, "db.t")
    table.rollback(before)  # forgets b.csv
    table.append([{"n": 4}])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=dt.timedelta(0))
    assert catalog.import_table(root, "db.t").scan(filter="n = 3").count() == 1
    table.purge()
    table.append([{"n": 5}])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=dt.timedelta(0))
    assert rows(catalog.import_table(root, "db.t")) == [(1,), (3,), (5,)]


def test_a_file_that_cannot_be_read_is_named(
    catalog: morrow.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_table("db.t", "n INT")
    root = write_files(tmp_path / "old", {"a.csv": "n\n1\n", "b.csv": "n\nx\n"})
    with pytest.raises(InvalidArgument, match=r"b\.csv: In CSV column #0"):
        catalog.import_table(root, "db.t")
    assert catalog.table("db.t").count() == 0
    monkeypatch.setattr(imports, "MAX_COMMIT_FILES", 1)
    with pytest.raises(InvalidArgument) as raised:
        catalog.import_table(root, "db.t")
    assert raised.value.__notes__ == ["1 of 2 files imported; call again for the others"]
    write_files(root, {"b.csv": "n\n2\n"})
    assert rows(catalog.import_table(root, "db.t")) == [(1,), (2,)]


def test_files_are_known_by_path_size_and_time(catalog: morrow.Catalog, tmp_path: Path) -> None:
    root = write_files(tmp_path / "old", {"a.csv": "n\n1\n"})
    table = catalog.import_table(root, "db.t")
    write_files(root, {"b.csv": "n\n2\n"})
    assert rows(catalog.import_table(root / "*.csv", "db.t")) == [(1,), (2,)]
    table.truncate()
    assert catalog.import_table(root, "db.t").count() == 2  # nothing of the import was left
    write_files(root, {"a.csv": "n\n1\n3\n"})
    with pytest.raises(InvalidArgument, match=r"a\.csv was imported into this table before, and has changed since"):
        catalog.import_table(root, "db.t")
    table.rollback(1)
    assert rows(table) == [(1,)]


# Files


@pytest.mark.parametrize(
    ("files", "source", "expected"),
    [
        ({"part-0-c000.snappy.parquet": {"n": [1]}, "_SUCCESS": "", ".part.crc": "x"}, "", [1]),
        ({"000000_0": {"n": [1]}, "000001_0": {"n": [2]}}, "", [1, 2]),
        ({"a.csv.gz": gzip.compress(b"n\n1\n"), "b.csv": "n\n2\n"}, "", [1, 2]),
        ({"a.json": '{"n": 1}\n', "b.jsonl.gz": gzip.compress(b'{"n": 2}\n')}, "", [1, 2]),
        ({"a.csv": "n\n1\n", "b.txt": "x", "sub/c.csv": "n\n3\n"}, "*.csv", [1]),
        ({"a.csv": "n\n1\n", "sub/c.csv": "n\n3\n", "_x/d.csv": "n\n4\n"}, "**/*.csv", [1, 3]),
        ({"x/a.csv": "n\n1\n", "y/c.csv": "n\n3\n", "z.csv": "n\n4\n"}, "[xy]", [1, 3]),
        ({"_a.csv": "n\n1\n", "b.csv": "n\n2\n"}, "*.csv", [2]),
        ({"_a.csv": "n\n1\n"}, "_a.csv", [1]),
        ({"a.csv": "n\n1\n"}, ["a.csv", "*.csv"], [1]),
        ({"a.parquet": {"n": [1]}, "b.parquet": {"n": pa.nulls(1)}}, "", [None, 1]),
        ({"a.parquet": {"n": ["x"]}, "b.parquet": {"n": pa.array(["y"]).dictionary_encode()}}, "", ["x", "y"]),
        ({"a.parquet": {"n": [[1]]}, "b.parquet": {"n": pa.array([[2]], pa.large_list(pa.int64()))}}, "", [[1], [2]]),
    ],
)
def test_sources_of_files(
    catalog: morrow.Catalog, tmp_path: Path, files: dict[str, Any], source: str | list[str], expected: list[object]
) -> None:
    root = write_files(tmp_path / "old", files)
    given = str(root / source) if isinstance(source, str) else [str(root / each) for each in source]
    table = catalog.import_table(given, "db.t")
    assert sorted(table.to_arrow()["n"].to_pylist(), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("files", "keys", "expected"),
    [
        ({"d=2024-01-01/a.csv": "n\n1\n", "d=2024-02-30/a.csv": "n\n2\n"}, ("d",), ["2024-01-01", "2024-02-30"]),
        ({"d=01/a.csv": "n,d\n1,01\n", "d=5/a.csv": "n,d\n2,5\n"}, ("d",), ["01", "5"]),
        ({"d=1/a.json": '{"n": 1}\n', "d=__HIVE_DEFAULT_PARTITION__/a.json": '{"n": 2}\n'}, ("d",), [1, None]),
        ({"d=1.50/000000_0": {"n": [1]}}, ("d",), ["1.50"]),
    ],
)
def test_folders_of_text_files_make_partitions(
    catalog: morrow.Catalog, tmp_path: Path, files: dict[str, Any], keys: tuple[str, ...], expected: list[object]
) -> None:
    table = catalog.import_table(write_files(tmp_path / "old", files), "db.t")
    assert table.partition_keys == keys
    assert [row["d"] for row in sorted(table.to_arrow().to_pylist(), key=lambda row: row["n"])] == expected


I32, I64 = pa.array([1], pa.int32()), pa.array([2**40])


@pytest.mark.parametrize(
    ("files", "problem", "merged"),
    [
        ({"a": {"n": [1]}, "b": {"n": [2], "m": ["01"]}}, "'m' is not there", [(1, None), (2, "01")]),
        ({"a": {"n": [1], "m": [1]}, "b": {"n": [2]}}, "'m' is missing here", [(1, 1), (2, None)]),
        ({"a": {"n": I32}, "b": {"n": I64}}, "'n' is int64, there int32", [(1,), (2**40,)]),
        ({"a": {"n": [1]}, "b": {"n": ["1"]}}, "'n' is string, there int64", "incompatible types: int64 vs string"),
        ({"a": {"n": [2**53 + 1]}, "b": {"n": [0.5]}}, "'n' is double, there int64", "does not fit DOUBLE"),
        ({"a.csv": "n\n1\n", "b.csv": "m,n\n01,2\n"}, "'m' is not there", [(1, None), (2, "01")]),
        ({"a.csv": "n\n1\n", "b.csv": "m\n2\n"}, "'m' is not there", "it shares no column"),
        ({"a.csv": "n\n1\n", "b": {"n": [1]}}, "is a file of the format parquet", "is a file of the format parquet"),
    ],
)
def test_files_that_differ(
    catalog: morrow.Catalog, tmp_path: Path, files: dict[str, Any], problem: str, merged: list[object] | str
) -> None:
    root = write_files(tmp_path / "old", files)
    with pytest.raises(InvalidArgument, match=problem):
        catalog.import_table(root, "db.t")
    if isinstance(merged, str):
        with pytest.raises(InvalidArgument, match=merged):
            catalog.import_table(root, "db.t", schema_mode="merge")
        assert "db.t" not in catalog
    else:
        assert rows(catalog.import_table(root, "db.t", schema_mode="merge")) == merged


def test_types_are_those_of_all_files(catalog: morrow.Catalog, tmp_path: Path) -> None:
    files = {"a.csv": "zip,n\n12345,1\n", "b.csv": "n,zip\n2,01730\n"}
    assert rows(catalog.import_table(write_files(tmp_path / "old", files), "db.t")) == [("01730", 2), ("12345", 1)]


@pytest.mark.parametrize(
    ("source", "arguments", "error", "problem"),
    [
        ("none", {}, InvalidArgument, "there is no such file or folder"),
        ("none*", {}, InvalidArgument, "there is no file to import"),
        ("a.avro", {}, InvalidArgument, "the ending says no format"),
        ("a.parquet", {}, InvalidArgument, "does not begin like a file of the format parquet"),
        ("a.csv", {"format": "excel"}, InvalidArgument, "the format 'excel' is not known"),
        ("a.csv", {"schema_mode": "overwrite"}, InvalidArgument, "schema_mode is None or 'merge'"),
        ("a.csv", {"primary_keys": "x"}, ColumnNotFound, "the primary key 'x' is not a column"),
        ("a.csv", {"partition_keys": ["x"]}, ColumnNotFound, "the partition key 'x' is not a column"),
        ("a.csv", {"query": "SELECT 1"}, InvalidArgument, "no database that Morrow can open"),
        ("empty.csv", {}, InvalidArgument, "its rows have no value of n; make the table first: morrow create db.t"),
        ("postgresql://u:secret@h/d", {}, InvalidArgument, "a database of postgresql: give a query"),
    ],
)
def test_what_is_refused(
    catalog: morrow.Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    arguments: dict[str, Any],
    error: type[MorrowError],
    problem: str,
) -> None:
    write_files(tmp_path, {"a.csv": "n\n1\n", "a.avro": "Obj", "a.parquet": "x", "empty.csv": "n\n"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=problem):
        catalog.import_table(source, "db.t", **arguments)
    assert catalog.databases() == []


def test_keys_and_options_of_an_existing_table(catalog: morrow.Catalog, tmp_path: Path) -> None:
    root = write_files(tmp_path, {"a.csv": "n,m\n1,1\n"})
    catalog.create_table("db.t", "n INT, m STRING", primary_keys="n", options={"bucket": 1})
    for arguments in ({"primary_keys": "m"}, {"partition_keys": "m"}, {"options": {"bucket": 2}}, {"comment": "x"}):
        with pytest.raises(InvalidArgument, match="t exists"):
            catalog.import_table(root / "a.csv", "db.t", **arguments)  # type: ignore[call-overload]
    assert rows(catalog.import_table(root / "a.csv", "db.t", primary_keys="n")) == [(1, "1")]


def test_arguments_that_have_no_effect_are_refused(catalog: morrow.Catalog, tmp_path: Path) -> None:
    """The form of CSV files for other files, and the format of files for other sources."""
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidArgument, match="options of CSV files are for CSV alone"):
        catalog.import_table(tmp_path / "a.parquet", "db.t", csv={"delimiter": ";"})
    arguments: list[dict[str, Any]] = [{"format": "csv"}, {"csv": {"header": False}}]
    for given in arguments:
        for source, more in (({"n": [1]}, {}), (duckdb.connect(), {"query": "SELECT 1 AS n"})):
            with pytest.raises(InvalidArgument, match="describe files"):
                catalog.import_table(source, "db.t", **given, **more)
    assert catalog.tables() == []


def test_a_file_of_the_table_itself_is_refused(catalog: morrow.Catalog) -> None:
    table = catalog.import_table({"n": [1]}, "db.t")
    (file,) = Path(table.path).glob("bucket-0/*")
    with pytest.raises((InvalidArgument, Unsupported), match=r"lies in the folder of the table|a table of Paimon"):
        catalog.import_table(file, "db.t")


# Tables in memory

MAKERS: dict[str, Callable[[], Any]] = {
    "Polars": lambda: pl.DataFrame({"n": [1, None], "s": ["01", "x"]}),
    "Polars, lazy": lambda: pl.LazyFrame({"n": [1, None], "s": ["01", "x"]}),
    "Arrow": lambda: pa.table({"n": [1, None], "s": ["01", "x"]}),
    "Arrow, a stream": lambda: pa.table({"n": [1, None], "s": ["01", "x"]}).to_reader(),
    "DuckDB": lambda: duckdb.sql("SELECT * FROM (VALUES (1, '01'), (NULL, 'x')) AS v(n, s)"),
    "pandas": lambda: pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "s": ["01", "x"]}),
    "dicts": lambda: [{"n": 1, "s": "01"}, {"s": "x"}],
    "columns": lambda: {"n": [1, None], "s": ["01", "x"]},
    "tables": lambda: iter([pa.table({"n": [1], "s": ["01"]}), pa.table({"n": pa.array([None], "int64"), "s": ["x"]})]),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_tables_in_memory(catalog: morrow.Catalog, make: Callable[[], Any]) -> None:
    assert rows(catalog.import_table(make(), "db.t")) == [(1, "01"), (None, "x")]
    assert catalog.import_table(make(), "db.t").count() == 4  # rows in memory are not recorded
    assert rows(catalog.import_table(make(), "db.k", primary_keys="s")) == [(1, "01"), (None, "x")]


def test_a_query_of_a_connection(catalog: morrow.Catalog) -> None:
    connection = duckdb.connect()
    assert rows(catalog.import_table(connection, "db.t", query="SELECT 1 AS n, '01' AS s")) == [(1, "01")]
    with pytest.raises(InvalidArgument, match="the query of DuckDB: Binder Error"):
        catalog.import_table(connection, "db.u", query="SELECT none")
    with pytest.raises(InvalidArgument, match="query= is for a database, not for a dict"):
        catalog.import_table({"n": [1]}, "db.u", query="SELECT 1")
    assert catalog.tables("db") == ["t"]


def test_a_query_that_fails_late(catalog: morrow.Catalog) -> None:
    query = "SELECT CASE WHEN range = 5000 THEN error('no such rate') ELSE range END AS id FROM range(9000)"
    with pytest.raises(InvalidArgument, match="the query: Invalid Input Error: no such rate"):
        catalog.import_table(duckdb.sql(query), "db.t")
    assert catalog.tables() == []
