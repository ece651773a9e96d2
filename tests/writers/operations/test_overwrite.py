"""Overwrites, truncation and dropped partitions."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from tests.support.written import new_table, rows


@pytest.fixture(params=[[], ["id", "p", "h"]], ids=["append", "keyed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> morrow.Table:
    """Make the partitions (x, 1), (x, 2) and (y, 1) with a row each."""
    options = {"bucket": 1, "bucket-key": "id"}
    table = new_table(tmp_path, "id INT, p STRING, h INT", keys=request.param, by=["p", "h"], options=options)
    table.append({"id": [1, 2, 3], "p": ["x", "x", "y"], "h": [1, 2, 1]})
    return table


def test_only_partitions_with_new_rows(table: morrow.Table) -> None:
    snapshot = table.overwrite({"id": [9, 8], "p": ["x", "z"], "h": [1, 1]})
    assert snapshot is not None
    assert snapshot.commit_kind == "OVERWRITE"
    assert rows(table) == [(2, "x", 2), (3, "y", 1), (8, "z", 1), (9, "x", 1)]


def test_the_whole_table(table: morrow.Table) -> None:
    table.overwrite({"id": [9], "p": ["x"], "h": [1]}, dynamic=False)
    assert rows(table) == [(9, "x", 1)]


def test_as_the_option_says(table: morrow.Table) -> None:
    table.alter.set_options({"dynamic-partition-overwrite": False})
    table.overwrite({"id": [9], "p": ["x"], "h": [1]})
    assert rows(table) == [(9, "x", 1)]


def test_a_partition_by_name(table: morrow.Table) -> None:
    table.overwrite({"id": [9]}, partition={"p": "x", "h": 2})
    assert rows(table) == [(1, "x", 1), (3, "y", 1), (9, "x", 2)]


def test_some_of_the_partition_columns(table: morrow.Table) -> None:
    table.overwrite({"id": [9], "h": [2]}, partition={"p": "x"}, dynamic=False)
    assert rows(table) == [(3, "y", 1), (9, "x", 2)]


def test_no_rows(table: morrow.Table) -> None:
    assert table.overwrite([]) is None
    assert len(rows(table)) == 3
    table.overwrite([], partition={"p": "x"}, dynamic=False)
    assert rows(table) == [(3, "y", 1)]
    table.overwrite([], dynamic=False)
    assert rows(table) == []


@pytest.mark.parametrize("dynamic", [True, False])
def test_rows_of_another_partition(table: morrow.Table, dynamic: bool) -> None:
    with pytest.raises(InvalidArgument, match="partition"):
        table.overwrite({"id": [9], "p": ["y"], "h": [1]}, partition={"p": "x"}, dynamic=dynamic)
    assert len(rows(table)) == 3


def test_a_table_without_partitions(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT")
    table.append({"id": [1, 2]})
    table.overwrite({"id": [3]})
    assert rows(table) == [(3,)]


def test_truncate(table: morrow.Table) -> None:
    table.truncate()
    assert rows(table) == []
    assert len(rows(table, snapshot=1)) == 3


def test_drop_partitions(table: morrow.Table) -> None:
    table.drop_partition({"p": "x", "h": 1}, {"p": "y"})
    assert rows(table) == [(2, "x", 2)]


def test_partition_values_may_be_spelled(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, d DATE, h INT", by=["d", "h"])
    day = dt.date(2024, 5, 14)
    table.append({"id": [1, 2, 3], "d": [day, day, None], "h": [1, 2, None]})
    table.drop_partition({"d": "2024-05-14", "h": "2"})
    assert rows(table, columns=["id"]) == [(1,), (3,)]
    table.drop_partition({"d": None})
    assert rows(table, columns=["id"]) == [(1,)]
    table.overwrite({"id": [7]}, partition={"d": "2024-05-14", "h": 1})
    assert rows(table) == [(7, day, 1)]


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        ([], "name the partitions to drop"),
        ([{}], "name the partitions to drop"),
        ([{"id": 1}], "'id' is not a partition column; they are: p, h"),
        ([{"h": "first"}], "'first' spells no INT"),
        ([{"h": 1.5}], "partition h: 1.5 does not fit INT"),
    ],
    ids=str,
)
def test_partitions_that_cannot_be(table: morrow.Table, partitions: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        table.drop_partition(*partitions)
    assert len(rows(table)) == 3


@pytest.mark.parametrize("how", [{"dynamic": True}, {"partition": {"p": 0}}, {"replace_where": "p = 0"}])
def test_a_key_is_not_put_into_a_second_partition(how: dict[str, Any], tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table(
        "db.t", schema={"k": "INT NOT NULL", "p": "INT", "v": "INT"}, primary_keys=["k"], partition_keys=["p"]
    )
    table.upsert({"k": [1, 2], "p": [0, 1], "v": [1, 2]})
    with pytest.raises(InvalidArgument, match=r"the key {'k': 2} is in the partition {'p': 1}, which stays"):
        table.overwrite({"k": [2], "p": [0], "v": [3]}, **how)
    assert sorted(table.scan().to_polars().rows()) == [(1, 0, 1), (2, 1, 2)]
    table.overwrite({"k": [1, 3], "p": [0, 0], "v": [4, 5]}, **how)
    assert sorted(table.scan().to_polars().rows()) == [(1, 0, 4), (2, 1, 2), (3, 0, 5)]
    table.overwrite({"k": [2], "p": [0], "v": [6]}, dynamic=False)
    assert table.scan().to_polars().rows() == [(2, 0, 6)]


@pytest.mark.parametrize("by", [[], ["p"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize("never", ["false", "NULL", "1 = 0", "p = NULL", "p BETWEEN NULL AND 5"])
def test_a_condition_that_is_never_true_replaces_nothing(tmp_path: Path, by: list[str], never: str) -> None:
    """A table without partitions counts as a single partition, for which the constant condition is tested."""
    table = new_table(tmp_path, "id INT, p INT", by=by)
    table.append({"id": [1, 2], "p": [1, 2]})
    assert table.overwrite([], replace_where=never) is None
    assert table.delete(never) is None
    assert rows(table) == [(1, 1), (2, 2)]
    with pytest.raises(InvalidArgument, match="the data has rows of the partition"):
        table.overwrite({"id": [3], "p": [1]}, replace_where=never)
    table.overwrite({"id": [3], "p": [1]}, replace_where="1 = 1")
    assert rows(table) == [(3, 1)]
