"""Statistics of the newest snapshot, committed by ANALYZE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported

COLUMNS = "id INT, name STRING, price DOUBLE, at TIMESTAMP(3), `*` BYTES, tags ARRAY<STRING>"


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    return morrow.Catalog(tmp_path).create_table("db.t", schema=COLUMNS, primary_keys=["id"], options={"bucket": "1"})


def upsert(table: morrow.Table, given: dict[str, list[Any]]) -> None:
    """Upsert rows whose other columns are null."""
    ids = given["id"]
    table.upsert(pa.table({name: given.get(name, [None] * len(ids)) for name in table.schema.names}))


def facts(table: morrow.Table) -> dict[str, Any]:
    (row,) = table.system("statistics").to_arrow().to_pylist()
    return {**row, "colstat": json.loads(row["colstat"])}


def test_rows_and_columns_are_measured(table: morrow.Table) -> None:
    assert table.analyze() is None  # the table has no snapshot yet
    upsert(table, {"id": [1, 2, 3], "name": ["ä", "bcd", None], "price": [1.5, float("nan"), None]})
    upsert(table, {"id": [3], "*": [b"four"]})
    read = table.snapshots()[-1]
    made = table.analyze(["id", "name", "price", "at", "*"])
    assert made is not None
    assert (made.commit_kind, made.total_record_count) == ("ANALYZE", 4)
    found = facts(table)
    assert (found["snapshot_id"], found["schema_id"], found["mergedRecordCount"]) == (read.id, 0, 3)
    assert 0 < found["mergedRecordSize"] < sum(file.size for file in table.scan().plan.files)
    assert found["colstat"] == {
        "id": {"colId": 0, "distinctCount": 3, "min": "1", "max": "3", "nullCount": 0, "avgLen": 4, "maxLen": 4},
        "name": {"colId": 1, "distinctCount": 2, "nullCount": 1, "avgLen": 2, "maxLen": 3},
        "price": {"colId": 2, "distinctCount": 2, "min": "1.5", "max": "NaN", "nullCount": 1, "avgLen": 8, "maxLen": 8},
        "at": {"colId": 3, "distinctCount": 0, "nullCount": 3, "avgLen": 8, "maxLen": 8},
        "*": {"colId": 4, "distinctCount": 1, "nullCount": 2, "avgLen": 4, "maxLen": 4},
    }


def test_later_snapshots_keep_statistics_until_the_schema_changes(table: morrow.Table) -> None:
    upsert(table, {"id": [1]})
    table.analyze()
    assert facts(table)["colstat"] == {}
    upsert(table, {"id": [2]})
    assert facts(table)["mergedRecordCount"] == 1
    statistics = table.snapshots()[-1].statistics
    assert statistics is not None
    assert (Path(table.path) / "statistics" / statistics).exists()
    table.alter.drop_column("at")
    upsert(table, {"id": [3]})
    assert table.system("statistics").to_arrow().num_rows == 0


def test_columns_without_statistics_are_refused(table: morrow.Table) -> None:
    upsert(table, {"id": [1]})
    for columns, error in (
        (["tags"], Unsupported),
        (["nope"], ColumnNotFound),
        ("id", InvalidArgument),
    ):
        with pytest.raises(error):
            table.analyze(columns)
    assert len(table.snapshots()) == 1
