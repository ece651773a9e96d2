"""Reads with global indexes: the same rows as without, from fewer files and ranges of rows."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.plan import global_indexes
from tests.support.global_indexes import draw_filter, unpack

NAMES = ("btree", "bitmap", "partitioned")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("indexes"))


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_pypaimon(warehouse: Path, name: str) -> None:
    expected = json.loads((warehouse / "expected.json").read_text())[name]
    rows = [
        [None if v is None else str(v) for v in row]
        for row in morrow.open(warehouse / "db.db" / name).to_polars().rows()
    ]

    assert sorted(rows, key=str) == expected


@pytest.mark.parametrize("name", NAMES)
def test_filters_return_the_same_rows_with_and_without_an_index(
    warehouse: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(global_indexes, "MIN_SKIPPED_ROWS", 2)
    table = morrow.open(warehouse / "db.db" / name)
    without = table.with_options({"global-index.enabled": "false"})
    rows, used = table.to_polars(), 0

    for seed in range(15):
        condition = draw_filter(rows, seed)
        scan, expected = table.scan(filter=condition), without.to_polars(filter=condition)
        assert repr(scan.to_polars().rows()) == repr(expected.rows()), condition
        assert scan.count() == expected.height
        used += "global index" in str(scan.explain())
        if seed % 5 == 0:
            pieces = [split.to_polars() for split in scan.splits(3)]
            assert repr(pl.concat([expected.clear(), *pieces]).rows()) == repr(expected.rows()), condition
    assert used > 3


def test_explain_names_the_index_and_the_ranges(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_indexes, "MIN_SKIPPED_ROWS", 3)
    table = morrow.open(warehouse / "db.db/btree")
    value = table.to_polars(["id"], filter="_ROW_ID = 20")["id"][0]

    text = str(table.scan(filter=f"id = {value}").explain())

    # Rows 0 to 49 are indexed, in files of 30 and 20 rows. The last 10 rows are always read.
    assert "files by global index (btree of id): kept 2 of 3" in text
    assert "rows by global index (2 ranges): kept 11 of 40" in text
    assert "30 rows (20 to 20 are read)" in text
