"""LazyFrames of users: their filters fail as filters, files as files, and a panic of Polars is no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, SnapshotExpired
from tests.support.written import new_table


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    table = new_table(tmp_path, "k STRING, n INT")
    for n in range(2):
        table.append({"k": ["a", "b"], "n": [n, n + 10]})
    return table


@pytest.mark.parametrize(
    "probe", [pl.col("k").is_in([None, "a"], nulls_equal=True), pl.col("n").is_in([None, 0, 1], nulls_equal=True)]
)
def test_a_filter_that_panics_in_the_scan_of_files_is_tested_above_it(table: morrow.Table, probe: pl.Expr) -> None:
    assert sorted(table.scan().lazy().filter(probe).collect().rows()) == [("a", 0), ("a", 1)]
    assert sorted(table.scan().lazy().filter(probe).select("n").collect()["n"]) == [0, 1]
    assert table.scan().lazy().filter(probe).select(pl.len()).collect().item() == 2


def test_rows_that_came_before_a_failure_come_once(table: morrow.Table) -> None:
    """Strict casts fail at the last row; the error is Polars' own for the expression, not of a file."""
    table.append({"k": ["7", "x"], "n": [7, 8]})
    frame = table.scan().lazy().filter(pl.col("k").cast(pl.Int64) == 7)
    with pytest.raises(pl.exceptions.InvalidOperationError, match="conversion from `str` to `i64` failed"):
        frame.collect()


def test_a_filter_that_polars_cannot_evaluate_at_all(table: morrow.Table) -> None:
    def panics(_: pl.Series) -> pl.Series:
        raise pl.exceptions.PanicException("called `Option::unwrap()`")

    frame = table.scan().lazy().filter(pl.col("n").map_batches(panics, return_dtype=pl.Boolean, is_elementwise=True))
    with pytest.raises(InvalidArgument, match=r"Polars cannot evaluate .*Option::unwrap"):
        frame.collect()


def test_a_damaged_file_is_named_with_or_without_a_filter(table: morrow.Table) -> None:
    (file, *_) = Path(table.path).rglob("*.parquet")
    damaged = bytearray(file.read_bytes())
    damaged[-12:-4] = b"\xff" * 8
    frame = table.scan().lazy()
    file.write_bytes(damaged)
    for query in (frame, frame.filter(pl.col("n") > 3), frame.select(pl.col("n").sum())):
        with pytest.raises(CorruptFile, match=file.name):
            query.collect()


def test_a_snapshot_that_expires_before_the_frame_is_collected(table: morrow.Table) -> None:
    frame = table.scan().lazy()
    table.overwrite({"k": ["c"], "n": [1]})
    table.expire_snapshots(1, 1)
    with pytest.raises(SnapshotExpired):
        frame.filter(pl.col("n") > 3).collect()


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_what_polars_hands_down(table: morrow.Table, engine: Literal["in-memory", "streaming"]) -> None:
    frame = table.scan().lazy()
    assert frame.head(3).collect(engine=engine).height == 3
    assert frame.head(3).filter(pl.col("k") == "a").collect(engine=engine).height == 2
    assert frame.filter(pl.col("k") == "a").head(1).collect(engine=engine).rows() == [("a", 0)]
    assert frame.slice(1, 2).collect(engine=engine).height == 2
    assert frame.select(pl.len()).collect(engine=engine).item() == 4
    assert frame.join(frame, on="k").select(pl.len()).collect(engine=engine).item() == 8
    assert table.scan([]).lazy().select(pl.len()).collect(engine=engine).item() == 4


def test_columns_filters_and_limits_set_later_plan_the_read_of_a_merged_table(tmp_path: Path) -> None:
    """Files that they leave out may even be gone."""
    table = new_table(tmp_path, "day INT, id INT, text STRING", keys=["day", "id"], by=["day"])
    for text in "ab":
        table.upsert({"day": [1, 2], "id": [7, 7], "text": [text, text]})
    frame = table.scan().lazy()
    for file in Path(table.path).glob("day=2/**/*.parquet"):
        file.unlink()
    assert frame.filter(pl.col("day") == 1).collect().rows() == [(1, 7, "b")]
    assert frame.filter(pl.col("day") < 2, pl.col("text").str.contains("b")).select("id").collect().rows() == [(7,)]
    assert frame.filter((pl.col("day") == 1) & (pl.col("text") == "a")).collect().is_empty()
    with pytest.raises(FileMissing):
        frame.filter(pl.col("id") == 7).collect(engine="streaming")
