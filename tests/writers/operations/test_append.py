"""Appended rows with other columns than the table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from morrow import Catalog, Table
from morrow.engine.errors import ColumnNotFound, InvalidArgument, StorageError
from morrow.engine.io.local import LocalStore
from tests.support.written import new_table, rows


def test_columns_that_rows_bring_become_the_tables(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, v STRING", keys=["id"])
    table.upsert({"id": [1], "v": ["a"]})
    new = pl.DataFrame({"id": [1, 2], "a.b `c": [1.5, None], "ü": [["x"], None]})
    with pytest.raises(ColumnNotFound, match=r"does not have: 'a\.b `c', 'ü'"):
        table.upsert(new)
    table.upsert(new, schema_mode="merge")
    table.append(
        new.lazy().with_columns(kind=pl.lit("-D")).filter(pl.col("id") == 2), kinds="kind", schema_mode="merge"
    )
    reader = pa.table({"id": pa.array([3], pa.int32()), "z": [True]}).to_reader()
    table.append(reader, schema_mode="merge")
    assert table.schema.names == ["id", "v", "a.b `c", "ü", "z"]
    assert rows(table) == [(1, None, 1.5, ["x"], None), (3, None, None, None, True)]
    table.overwrite({"id": [4], "y": [1]}, schema_mode="merge")
    assert rows(table, columns=["id", "y"]) == [(4, 1)]


def test_what_does_not_become_a_column(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT")
    table.append({"id": [], "new": []}, schema_mode="merge")
    with pytest.raises(InvalidArgument, match="'w' has no value that tells its type"):
        table.append({"id": [1], "w": [None]}, schema_mode="merge")
    with pytest.raises(InvalidArgument, match="schema_mode is None or 'merge', not 'overwrite'"):
        table.append({"id": [1]}, schema_mode="overwrite")  # type: ignore[arg-type]
    assert table.schema.names == ["id"]
    assert table.count() == 0


@pytest.mark.parametrize("write", ["append", "upsert", "overwrite"])
def test_a_column_that_differs_in_case_alone_is_not_added(tmp_path: Path, write: str) -> None:
    keys = ["id"] if write == "upsert" else []
    table = new_table(tmp_path, "id BIGINT, amount DOUBLE", keys=keys, options={"bucket": 1} if keys else {})
    with pytest.raises(InvalidArgument, match="'amount' and 'Amount' differ in case alone"):
        getattr(table, write)([{"id": 2, "Amount": 3.0, "new": 1}], schema_mode="merge")
    assert table.schema.names == ["id", "amount"]


# Parquet files of other writers become data files of an append table as they are, if all readers agree on them.

ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "small": pa.array([1, -1, None], pa.int8()),
        "text": ["a", "ü", None],
        "number": [1.5, float("-inf"), None],
        "price": pa.array([Decimal("1.25"), None, Decimal("-7.00")], pa.decimal128(20, 2)),
        "moment": pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(1500, 1, 1)], pa.timestamp("us")),
        "instant": pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(1500, 1, 1)], pa.timestamp("us", "UTC")),
        "day": pa.array([dt.date(2020, 1, 1), None, dt.date(1, 1, 1)]),
        "list": [[1, 2], None, []],
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "struct": [{"x": 1}, None, {"x": None}],
        "yes": [True, False, None],
    }
)


def clone(folder: Path, **options: object) -> Table:
    catalog = Catalog(folder.parent / "warehouse")
    catalog.create_database("web", ignore_if_exists=True)
    return catalog.clone_parquet(folder, f"web.{folder.name}", options=options)


def count_links(table: Table) -> list[int]:
    """Return the numbers of names of the data files, 2 for a file that is also in the source."""
    return sorted(path.stat().st_nlink for path in Path(table.path).glob("**/bucket-*/*.parquet"))


def write(folder: Path, name: str = "a.parquet", rows: pa.Table = ROWS, **options: Any) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / name, **options)


def test_files_are_linked(tmp_path: Path) -> None:
    write(tmp_path / "logs")
    write(tmp_path / "logs", "b.parquet", compression="zstd")

    table = clone(tmp_path / "logs")

    assert count_links(table) == [2, 2]
    assert table.scan().to_arrow().equals(pa.concat_tables([ROWS, ROWS]).cast(table.schema))
    assert table.scan(filter="id = 2").to_polars()["text"].to_list() == ["ü", "ü"]
    assert table.count() == 6
    assert table.doctor(data=True).healthy


def test_a_link_that_is_not_durable_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_store: LocalStore, paths: Iterable[str]) -> None:
        if any(path.endswith(".parquet") for path in paths):
            raise StorageError("the disk is full")

    write(tmp_path / "logs")
    write(tmp_path / "logs", "b.parquet", compression="brotli")  # its rows are copied
    monkeypatch.setattr(LocalStore, "sync", fail)
    with pytest.raises(StorageError, match="the disk is full"):
        clone(tmp_path / "logs")
    assert list((tmp_path / "warehouse").rglob("*.parquet")) == []
    assert [path.stat().st_nlink for path in (tmp_path / "logs").iterdir()] == [1, 1]


def test_partitions_are_folders(tmp_path: Path) -> None:
    write(tmp_path / "logs", "month=1/a.parquet")
    write(tmp_path / "logs", "month=2/a.parquet")

    table = clone(tmp_path / "logs")

    assert table.partition_keys == ("month",)
    assert count_links(table) == [2, 2]
    assert table.doctor(data=True).healthy
    table.delete("id = 1 AND month = 1")  # the file is written again, with its partition column
    table.update({"text": "'new'"}, where="id = 2")
    rows = table.scan(columns=["id", "text", "month"]).to_polars().sort("month", "id", nulls_last=True).rows()
    assert rows == [(2, "new", 1), (None, None, 1), (1, "a", 2), (2, "new", 2), (None, None, 2)]


@pytest.mark.parametrize(
    ("options", "table_options"),
    [
        ({"compression": "brotli"}, {}),
        ({"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED"}}, {}),
        ({"coerce_timestamps": "ms"}, {"file.format": "orc"}),
        ({}, {"file-index.bloom-filter.columns": "text"}),
        ({}, {"bucket": 2, "bucket-key": "id"}),
    ],
)
def test_rows_of_other_files_are_copied(tmp_path: Path, options: Any, table_options: Any) -> None:
    rows = ROWS.drop_columns(["map"]) if "column_encoding" in options else ROWS
    write(tmp_path / "logs", rows=rows, **options)

    table = clone(tmp_path / "logs", **table_options)

    assert 2 not in count_links(table)
    assert table.count() == 3


def test_files_with_other_types_are_copied(tmp_path: Path) -> None:
    write(tmp_path / "logs", "a.parquet", pa.table({"id": pa.array([1], pa.int32())}))
    write(tmp_path / "logs", "b.parquet", pa.table({"id": pa.array([1 << 40], pa.int64())}))
    write(tmp_path / "logs", "c.parquet", pa.table({"id": pa.array([2], pa.int64()), "more": ["x"]}))

    table = clone(tmp_path / "logs")

    assert count_links(table) == [1, 2]  # `c` alone has both columns
    assert sorted(table.scan(columns=["id"]).to_polars()["id"]) == [1, 2, 1 << 40]


def test_int96_as_spark_writes_it_is_linked(tmp_path: Path) -> None:
    moments = pa.array([dt.datetime(2020, 1, 1), dt.datetime(1700, 1, 1)], pa.timestamp("us"))
    write(
        tmp_path / "logs", rows=pa.table({"moment": moments}), use_deprecated_int96_timestamps=True, store_schema=False
    )

    table = clone(tmp_path / "logs")

    assert count_links(table) == [2]
    assert str(table.schema.field("moment").type) == "timestamp[ns]"
    assert table.scan().to_arrow()["moment"].cast(pa.timestamp("us")).to_pylist() == moments.to_pylist()


def test_a_wrong_value_leaves_nothing(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    write(tmp_path / "logs", "a.parquet", pa.table({"text": ["fine"]}))
    write(tmp_path / "logs", "b.parquet", pa.table({"text": broken}))

    with pytest.raises(InvalidArgument, match="UTF-8"):
        clone(tmp_path / "logs")
    assert not list((tmp_path / "warehouse").glob("**/*.parquet"))


def test_an_empty_file_adds_nothing(tmp_path: Path) -> None:
    write(tmp_path / "logs", rows=ROWS[:0])
    assert clone(tmp_path / "logs").count() == 0
