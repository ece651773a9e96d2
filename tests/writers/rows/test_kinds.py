"""Row kinds: one for all rows, a column of the data, one per row, or a column of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from tests.support.written import new_table, rows


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Keys 1 to 3."""
    table = new_table(tmp_path, "id BIGINT, v STRING", keys=["id"], options={"bucket": 1})
    table.upsert({"id": [1, 2, 3], "v": ["a", "b", "c"]})
    return table


@pytest.mark.parametrize(
    "kinds",
    [
        ["-D", "+U"],
        [3, 2],
        np.array([3, 2], np.int8),
        np.array(["-D", "+U"]),
        pl.Series(["-D", "+U"]),
        pl.Series([3, 2]),
        iter(["-D", "+U"]),
    ],
    ids=lambda kinds: type(kinds).__name__,
)
def test_a_kind_per_row(table: morrow.Table, kinds: Any) -> None:
    table.upsert({"id": [1, 2], "v": ["x", "y"]}, kinds=kinds)
    assert rows(table) == [(2, "y"), (3, "c")]


def test_one_kind_for_all(table: morrow.Table) -> None:
    table.upsert({"id": [1, 2], "v": [None, None]}, kinds="-D")
    table.upsert({"id": [3], "v": [None]}, kinds=3)
    assert rows(table) == []


def test_a_column_of_the_data(table: morrow.Table) -> None:
    table.upsert({"id": [1, 2], "op": ["-D", "+U"], "v": ["x", "y"]}, kinds="op")
    assert rows(table) == [(2, "y"), (3, "c")]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("-X", r"kinds='-X' is no kind \(\+I, -U, \+U, -D .*\) and no column of the data"),
        (4, r"the row kind 4 is none of"),
        (["-D", "delete"], r"row 1: the row kind 'delete' is none of"),
        (["-D", None], r"row 1: the row kind None is none of"),
        (["-D"], r"kinds has 1 values for more rows"),
        (["-D", "-D", "-D"], r"kinds has 3 values for 2 rows"),
        ("id", r"kinds='id' names a column of the table; give the kinds another name"),
        (2.5, r"a float holds no row kinds"),
        ([1.5, 2.5], r"not values of type Float64"),
    ],
    ids=str,
)
def test_what_is_no_kind(table: morrow.Table, kinds: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        table.upsert({"id": [1, 2], "v": ["x", "y"]}, kinds=kinds)
    assert rows(table) == [(1, "a"), (2, "b"), (3, "c")]


def test_rowkind_field_overrules(tmp_path: Path) -> None:
    options = {"bucket": 1, "rowkind.field": "op"}
    table = new_table(tmp_path, "id BIGINT, op STRING", keys=["id"], options=options)
    table.upsert({"id": [1, 2], "op": ["+I", "+I"]})
    table.upsert({"id": [1, 2], "op": ["-D", "+U"]}, kinds="+I")
    assert rows(table) == [(2, "+U")]
    with pytest.raises(
        InvalidArgument, match=r"column 'op' \(rowkind.field\), from row 0 on: row 1: the row kind None"
    ):
        table.upsert({"id": [1, 2], "op": ["-D", None]})


def test_ignore_delete_leaves_retractions_out(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT", keys=["id"], options={"bucket": 1, "ignore-delete": True})
    with table.writer() as writer:
        assert writer.write({"id": [1, 1, 2], "v": [1, 1, 2]}, kinds=["+I", "-D", "-U"]) == 1
    assert rows(table) == [(1, 1)]


@pytest.mark.parametrize(
    ("options", "keys", "reason"),
    [
        ({}, [], "it is an append table"),
        ({"merge-engine": "first-row"}, ["id"], "merge-engine first-row takes no retractions"),
        ({"merge-engine": "partial-update"}, ["id"], "merge-engine partial-update takes no retractions; say what"),
    ],
)
def test_retractions_that_a_table_does_not_take(
    tmp_path: Path, options: dict[str, Any], keys: list[str], reason: str
) -> None:
    table = new_table(tmp_path, "id BIGINT, v INT", keys=keys, options={**options, "bucket": 1, "bucket-key": "id"})
    with pytest.raises(InvalidArgument, match=f"-U and -D rows cannot be written: {reason}"):
        table.append({"id": [1], "v": [1]}, kinds="-D")
