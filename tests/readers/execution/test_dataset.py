"""A table as a pyarrow Dataset, for pyarrow itself, DuckDB and Polars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.readers.execution.dataset import PaimonDataset
from tests.support.table_factory import TableFactory

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", "c"]})
Asked = list[tuple[Sequence[str] | None, str | None]]


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    factory = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "STRING")], ["id"])
    factory.write_file(pa.table({"id": [1, 2, 3], "v": ["a", "old", "c"]}))
    factory.commit()
    factory.write_file(pa.table({"id": [2], "v": ["b"]}))
    factory.commit()
    return morrow.open(factory.path)


@pytest.fixture
def recorded(table: morrow.Table) -> tuple[PaimonDataset, Asked]:
    """The dataset, and what its host asks of it."""
    asked: Asked = []

    def read(columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
        asked.append((columns, None if filter is None else str(filter)))
        return table.scan().narrowed(columns, filter).to_reader()

    return PaimonDataset(table.scan().schema, read), asked


# --- pyarrow ---


def test_the_methods_of_pyarrow(table: morrow.Table) -> None:
    dataset = table.dataset()
    assert isinstance(dataset, pads.Dataset)
    assert dataset.schema.equals(table.schema)
    assert dataset.to_table().sort_by("id").to_pydict() == ROWS.to_pydict()
    assert dataset.to_table(columns=["v"], filter=pc.field("id") == 2).to_pydict() == {"v": ["b"]}
    assert dataset.count_rows() == 3
    assert dataset.count_rows(filter=pc.field("id") > 1) == 2
    assert dataset.head(2).num_rows == 2
    assert sum(batch.num_rows for batch in dataset.to_batches(columns=["id"])) == 3


def test_columns_may_be_expressions(table: morrow.Table) -> None:
    found = table.dataset().to_table(columns={"twice": pc.field("id") * 2}, filter=pc.field("v") == "c")
    assert found.to_pydict() == {"twice": [6]}


def test_it_can_be_read_again_and_again(table: morrow.Table) -> None:
    dataset = table.dataset()
    assert dataset.to_table().sort_by("id") == dataset.to_table().sort_by("id")


def test_its_snapshot_stays_the_one_it_was_made_with(table: morrow.Table) -> None:
    assert table.dataset(snapshot=1).to_table(filter=pc.field("id") == 2)["v"].to_pylist() == ["old"]


def test_an_unknown_column(table: morrow.Table) -> None:
    with pytest.raises(ColumnNotFound, match="w"):
        table.dataset().to_table(columns=["w"])


def test_a_scan_with_a_limit_takes_no_filter(table: morrow.Table) -> None:
    dataset = table.scan(limit=1).dataset()
    assert dataset.to_table().num_rows == 1
    with pytest.raises(InvalidArgument, match="limit"):
        dataset.to_table(filter=pc.field("id") > 1)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("filter", [pc.field("id") > 1]),
        ("get_fragments", []),
        ("join", [ROWS, "id"]),
        ("join_asof", [ROWS, "id", "id", 1]),
        ("replace_schema", [ROWS.schema]),
        ("sort_by", ["id"]),
    ],
)
def test_methods_that_need_arrows_own_files_are_refused(table: morrow.Table, method: str, arguments: list[Any]) -> None:
    with pytest.raises(Unsupported, match="to_table"):
        getattr(table.dataset(), method)(*arguments)


def test_there_is_no_partition_expression(table: morrow.Table) -> None:
    with pytest.raises(Unsupported):
        _ = table.dataset().partition_expression


# --- what hosts push down ---


def test_duckdb_pushes_columns_and_filters(recorded: tuple[PaimonDataset, Asked]) -> None:
    dataset, asked = recorded
    with duckdb.connect() as connection:
        connection.register("t", dataset)
        assert connection.sql("SELECT v FROM t WHERE id = 2").fetchall() == [("b",)]
    columns, condition = asked[-1]
    assert columns is not None
    assert set(columns) <= {"id", "v"}
    assert condition is not None
    assert "id == 2" in condition


def test_duckdb_counts(recorded: tuple[PaimonDataset, Asked]) -> None:
    dataset, _ = recorded
    with duckdb.connect() as connection:
        connection.register("t", dataset)
        assert connection.sql("SELECT count(*) FROM t").fetchall() == [(3,)]
        assert connection.sql("SELECT count(*) FROM t WHERE v < 'c'").fetchall() == [(2,)]


def test_polars_pushes_columns_and_filters(recorded: tuple[PaimonDataset, Asked]) -> None:
    dataset, asked = recorded
    frame = pl.scan_pyarrow_dataset(dataset).filter(pl.col("id") > 1).select("id")
    assert sorted(frame.collect()["id"]) == [2, 3]
    columns, condition = asked[-1]
    assert columns == ["id"]
    assert condition is not None
    assert "id > 1" in condition


def test_polars_counts(recorded: tuple[PaimonDataset, Asked]) -> None:
    dataset, _ = recorded
    assert pl.scan_pyarrow_dataset(dataset).select(pl.len()).collect().item() == 3


def test_it_says_what_it_is(table: morrow.Table) -> None:
    assert repr(table.dataset()) == "PaimonDataset(id, v)"
