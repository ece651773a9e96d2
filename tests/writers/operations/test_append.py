"""Appended rows with other columns than the table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from morrow.engine.errors import ColumnNotFound, InvalidArgument
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
