"""Imports of tables of Delta Lake and Iceberg and of databases, by the libraries that extras install."""

from __future__ import annotations

import base64
import datetime as dt
import json
import sqlite3
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
import pytest

import morrow
from morrow.catalogs import import_sources, imports
from morrow.engine.errors import FileMissing, InvalidArgument, Unsupported
from tests.support.written import rows


def import_extra(module: str, extra: str) -> Any:
    """Import a library, or skip the test."""
    return pytest.importorskip(module, reason=f"{module} is not installed: pip install 'morrow[{extra}]'")


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    return morrow.Catalog(tmp_path / "warehouse")


ROWS = pa.table({"id": [1, 2, 3, 4], "zip": ["01730", "5", None, "9"], "day": ["a", "a", "b", "b"]})
LIVE = [(2, "5", "a"), (3, None, "b"), (4, "9", "b")]


def write_delta(folder: Path) -> Any:
    """Write a table in two files, and delete a row of it."""
    deltalake = import_extra("deltalake", "delta")
    deltalake.write_deltalake(folder, ROWS, partition_by=["day"])
    table = deltalake.DeltaTable(folder)
    table.delete("id = 1")
    return table


def write_iceberg(folder: Path) -> Any:
    """Write a table in two files, and delete a row of it."""
    import_extra("pyiceberg", "iceberg")
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("old", warehouse=folder.as_uri())
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS.slice(0, 2))
    table.append(ROWS.slice(2))
    table.delete("id = 1")
    return table


Z85 = str.maketrans(
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)
"""The digits of Python's base 85 -> those of Delta Lake."""
MAPPING = "delta.columnMapping"
WRITERS = {"delta": write_delta, "iceberg": write_iceberg}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_deleted_rows_stay_deleted(catalog: morrow.Catalog, tmp_path: Path, write: Callable[[Path], Any]) -> None:
    old = write(tmp_path / "old")
    plan = catalog.import_table(old, "db.t", primary_keys=["id", "day"], dry_run=True)
    assert (len(plan.files), plan.bytes > 0, catalog.databases()) == (2, True, [])
    table = plan.run()
    assert (rows(table), table.primary_keys) == (LIVE, ("id", "day"))
    assert table.partition_keys == (("day",) if write is write_delta else ())
    assert len(catalog.import_table(old, "db.t").snapshots()) == 1  # this version is there


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_version_is_imported_to_its_end(
    catalog: morrow.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], Any]
) -> None:
    old = write(tmp_path / "old")
    monkeypatch.setattr(imports, "MAX_COMMIT_FILES", 1)
    append, calls = imports.append_parts, iter(range(2))

    def interrupted(*args: Any, **named: Any) -> Any:
        if next(calls):
            raise KeyboardInterrupt
        return append(*args, **named)

    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(imports, "append_parts", interrupted)
        catalog.import_table(old, "db.t")
    assert 0 < catalog.table("db.t").count() < 3
    if write is write_delta:
        import deltalake

        deltalake.write_deltalake(old, ROWS.slice(0, 1), mode="append")
    else:
        old.append(ROWS.slice(0, 1))
    assert rows(catalog.import_table(old, "db.t")) == LIVE
    with pytest.raises(InvalidArgument, match="was imported into this table before, and has changed since"):
        catalog.import_table(old, "db.t")


def test_a_folder_of_delta_lake(catalog: morrow.Catalog, tmp_path: Path) -> None:
    write_delta(tmp_path / "old")
    assert rows(catalog.import_table(tmp_path / "old", "db.t", partition_keys=[])) == LIVE
    assert catalog.table("db.t").partition_keys == ()
    (tmp_path / "broken/_delta_log").mkdir(parents=True)
    (tmp_path / "broken/_delta_log/00000000000000000000.json").write_text("{}")
    with pytest.raises(Unsupported, match=r"broken, of which deltalake says"):
        catalog.import_table(tmp_path / "broken", "db.u")


def write_delta_log(folder: Path, protocol: Any, settings: dict[str, str], columns: Any, files: Any) -> Path:
    """Write the log of a Delta table as Spark does: `columns` are (name, type, name in the files)."""
    (folder / "_delta_log").mkdir(parents=True)
    fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {f"{MAPPING}.physicalName": physical, f"{MAPPING}.id": at},
        }
        for at, (name, kind, physical) in enumerate(columns)
    ]
    actions: list[Any] = [
        {"protocol": protocol},
        {
            "metaData": {
                "id": "1",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": ["day"] if any(values for _, _, values, _ in files) else [],
                "configuration": settings,
                "createdTime": 1,
            }
        },
    ]
    for name, table, values, more in files:
        pq.write_table(table, folder / name, use_deprecated_int96_timestamps=True)
        size = (folder / name).stat().st_size
        add = {"path": name, "partitionValues": values, "size": size, "modificationTime": 1, "dataChange": True}
        actions.append({"add": add | more})
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return folder


def test_deletion_vectors_of_delta_lake(catalog: morrow.Catalog, tmp_path: Path) -> None:
    import_extra("deltalake", "delta")
    vector = struct.pack("<I", 1681511377) + pyroaring.BitMap64([1, 2]).serialize()
    text = base64.b85encode(vector + bytes(-len(vector) % 4)).decode().translate(Z85)
    dead = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(vector), "cardinality": 2}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    files = [
        ("a.parquet", pa.table({"id": [1, 2, 3, 4]}), {"day": "mon"}, {"deletionVector": dead}),
        ("b.parquet", pa.table({"id": [5]}), {"day": None}, {}),
    ]
    columns = [("id", "long", "id"), ("day", "string", "day")]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    old = write_delta_log(tmp_path / "old", protocol, {}, columns, files)
    for _ in range(2):
        table = catalog.import_table(old, "db.t")
        assert (rows(table), table.partition_keys) == ([(1, "mon"), (4, "mon"), (5, None)], ("day",))


def test_renamed_columns_of_delta_lake(catalog: morrow.Catalog, tmp_path: Path) -> None:
    import_extra("deltalake", "delta")
    files = [("a.parquet", pa.table({"a": [1], "b": [2]}), {}, {})]
    columns = [("b", "long", "a"), ("c", "long", "b")]  # a was renamed to b, and b to c
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    mapping = {f"{MAPPING}.mode": "name"}
    old = write_delta_log(tmp_path / "old", protocol, mapping, columns, files)
    assert catalog.import_table(old, "db.t").to_polars().to_dicts() == [{"b": 1, "c": 2}]
    mapping = {f"{MAPPING}.mode": "id"}
    old = write_delta_log(tmp_path / "by_id", protocol, mapping, columns, files)
    with pytest.raises(Unsupported, match=r"by_id/: a Delta table whose columns are mapped by id.*let Spark write"):
        catalog.import_table(old, "db.u")


def test_variants_of_delta_lake_are_refused(catalog: morrow.Catalog, tmp_path: Path) -> None:
    import_extra("deltalake", "delta")
    files: Any = [("a.parquet", pa.table({"v": [{"metadata": b"\1\0\0", "value": b"\0"}]}), {}, {})]
    features = {"readerFeatures": ["variantType"], "writerFeatures": ["variantType"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    old = write_delta_log(tmp_path / "old", protocol, {}, [("v", "variant", "v")], files)
    with pytest.raises(Unsupported, match="a Delta table with VARIANT columns is not supported; import a copy"):
        catalog.import_table(old, "db.t")


def test_timestamps_of_spark_in_delta_lake(catalog: morrow.Catalog, tmp_path: Path) -> None:
    import_extra("deltalake", "delta")
    moments = [dt.datetime(1500, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]
    written = pa.table({"at": pa.array([each.replace(tzinfo=None) for each in moments], pa.timestamp("us"))})
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    old = write_delta_log(tmp_path / "old", protocol, {}, [("at", "timestamp", "at")], [("a.parquet", written, {}, {})])
    assert catalog.import_table(old, "db.t").to_arrow()["at"].to_pylist() == moments


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_that_is_gone_is_named(catalog: morrow.Catalog, tmp_path: Path, write: Callable[[Path], Any]) -> None:
    old = write(tmp_path / "old")
    for file in (tmp_path / "old").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(FileMissing, match=r"\.parquet: no such file; it was there when the import was planned"):
        catalog.import_table(old, "db.t")
    assert catalog.tables() == []


def test_columns_of_iceberg_that_are_newer_than_its_snapshot(catalog: morrow.Catalog, tmp_path: Path) -> None:
    old = write_iceberg(tmp_path / "old")
    with old.update_schema() as update:
        update.rename_column("zip", "code")
    for _ in range(2):
        assert catalog.import_table(old, "db.t").to_polars().columns == ["id", "code", "day"]
    assert rows(catalog.table("db.t")) == LIVE
    assert rows(catalog.import_table(old.scan(row_filter="id = 2"), "db.scan")) == LIVE[:1]
    with pytest.raises(InvalidArgument, match=r"a \w+ of pyiceberg is not a table; pass catalog.load_table"):
        catalog.import_table(old.schema(), "db.u")


def test_files_of_iceberg_without_a_catalog(catalog: morrow.Catalog, tmp_path: Path) -> None:
    old = write_iceberg(tmp_path / "old")
    metadata = Path(old.metadata_location.removeprefix("file://"))
    assert rows(catalog.import_table(metadata, "db.t")) == LIVE
    with pytest.raises(Unsupported, match=r"whose newest metadata only its catalog knows.*load_table"):
        catalog.import_table(metadata.parent.parent, "db.u")
    (metadata.parent / "version-hint.text").write_text(metadata.name.removesuffix(".metadata.json"))
    assert rows(catalog.import_table(metadata.parent.parent, "db.u")) == LIVE


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("delta", "deltalake", "delta"), ("iceberg", "pyiceberg", "iceberg"), ("a.sqlite", "connectorx", "database")],
)
def test_a_missing_library_is_one_line_with_the_command(
    catalog: morrow.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, library: str, extra: str
) -> None:
    for module in (library, f"{library}.table"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(import_sources, "ADBC_DRIVERS", {})
    for file in ("delta/_delta_log/_last_checkpoint", "iceberg/metadata/v1.metadata.json", "a.sqlite"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("{}")
    (tmp_path / "iceberg/metadata/version-hint.text").write_text("1")
    source = f"sqlite:///{tmp_path}/{name}" if extra == "database" else str(tmp_path / name)
    with pytest.raises(Unsupported, match=rf"without {library} is not supported; run: pip install 'morrow\[{extra}\]'"):
        catalog.import_table(source, "db.t", query="SELECT 1" if extra == "database" else None)


# Databases


@pytest.fixture
def database(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, zip TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(1, "01730"), (2, None)])
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.mark.parametrize("library", ["adbc_driver_sqlite", "connectorx"])
def test_results_of_a_database(
    catalog: morrow.Catalog, monkeypatch: pytest.MonkeyPatch, database: str, library: str
) -> None:
    import_extra(library, "database")
    if library == "connectorx":
        monkeypatch.setattr(import_sources, "ADBC_DRIVERS", {})
    for uri in (database, database.replace("///", "////")):
        catalog.import_table(uri, "db.t", query="SELECT * FROM orders", primary_keys="id")
    assert rows(catalog.table("db.t")) == [(1, "01730"), (2, None)]
    with pytest.raises(InvalidArgument, match=r"the query of sqlite: .*no such column: none"):
        catalog.import_table(database, "db.u", query="SELECT none FROM orders")
    assert catalog.tables("db") == ["t"]


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM orders",
        "-- all\n(drop TABLE orders",
        "WITH a AS (SELECT 1) DELETE FROM orders",
        "SELECT 1; DELETE FROM orders",
        ";",
    ],
)
def test_statements_that_change_a_database_are_refused(catalog: morrow.Catalog, database: str, query: str) -> None:
    with pytest.raises(InvalidArgument, match="an import only reads: give one query"):
        catalog.import_table(database, "db.t", query=query)


def test_texts_in_a_query_are_not_read_as_its_words(catalog: morrow.Catalog) -> None:
    query = "SELECT * FROM (VALUES ('(delete ')) AS t (a);"
    assert rows(catalog.import_table(duckdb.connect(), "db.t", query=query)) == [("(delete ",)]


def test_connections_and_files_of_databases(catalog: morrow.Catalog, database: str) -> None:
    with pytest.raises(InvalidArgument, match=r"no\.db: there is no such file"):
        catalog.import_table(database.replace("shop.db", "no.db"), "db.t", query="SELECT 1")
    with pytest.raises(InvalidArgument, match="returns rows as Python values; give the database's URI"):
        catalog.import_table(sqlite3.connect(":memory:"), "db.t", query="SELECT 1")


def test_a_file_of_an_iceberg_table_is_refused(catalog: morrow.Catalog, tmp_path: Path) -> None:
    schema = ROWS.schema.with_metadata({"iceberg.schema": "{}"})
    (tmp_path / "old").mkdir()
    pq.write_table(ROWS.cast(schema), tmp_path / "old/a.parquet")
    with pytest.raises(Unsupported, match=r"a table of Iceberg.*import_table\('<table>/metadata/<newest>"):
        catalog.import_table(tmp_path / "old", "db.t")
