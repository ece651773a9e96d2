"""Files of columns of a data-evolution table, against the same rows in one file."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import morrow
from bench.compare import Bound, compare, timed

SECTION = "Data evolution"
ROWS, COLUMNS = 1_000_000, 8
EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[morrow.Table, morrow.Table]:
    """Return a table whose rows lie in three files of columns, and one with the same rows in one file."""
    numbers = np.random.default_rng(7)
    columns = {f"c{i}": numbers.integers(0, 1000, ROWS) for i in range(COLUMNS)}
    frame = pl.DataFrame({"id": np.arange(ROWS), **columns, "name": [f"row {i}" for i in range(ROWS)]})
    catalog = morrow.Catalog(tmp_path_factory.mktemp("evolution"))
    schema = {"id": "BIGINT", **dict.fromkeys(columns, "BIGINT"), "name": "STRING"}
    parts = catalog.create_table("db.parts", schema, options=EVOLUTION)
    parts.append(frame)
    parts.update({"c0": "c0 + 1"})
    parts.update({"c1": "c1 + 1", "c2": "c2 + 1"})
    whole = catalog.create_table("db.whole", schema)
    whole.append(parts.to_polars())
    return parts, whole


def test_a_read_of_files_of_columns(benchmark: BenchmarkFixture, tables: tuple[morrow.Table, morrow.Table]) -> None:
    parts, whole = tables
    compare(
        benchmark,
        SECTION,
        f"read of {ROWS:,} rows in three files of columns",
        parts.to_polars,
        baseline=("the same rows in one file", timed(whole.to_polars)),
        bound=Bound(1.3),
    )


def test_an_update_of_a_column(benchmark: BenchmarkFixture, tables: tuple[morrow.Table, morrow.Table]) -> None:
    parts, whole = tables
    rows = parts.to_polars(["_ROW_ID", "c3"])
    compare(
        benchmark,
        SECTION,
        f"update of one of {COLUMNS + 2} columns in {ROWS:,} rows",
        lambda: parts.update_rows(rows),
        baseline=("update of a table without data evolution", timed(lambda: whole.update({"c3": "c3 + 1"}))),
        bound=Bound(1, faster=True),
        rounds=3,
    )
