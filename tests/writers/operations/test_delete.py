"""Deletes by a condition and by keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from tests.support.written import new_table, rows
from tests.writers.operations.conftest import made


def test_by_a_condition(any_table: morrow.Table) -> None:
    snapshot = any_table.delete("length(v || 'x') = 2 AND n >= 20")
    assert snapshot is not None
    assert rows(any_table, columns=["id"]) == [(1,), (4,)]


@pytest.mark.parametrize("kind", ["append-vectors", "keyed"])
@pytest.mark.parametrize("condition", ["n > 15 AND v <> 'd'", pl.col("n") > 15, pc.field("n") > 15], ids=str)
def test_by_a_condition_of_any_form(tmp_path: Path, kind: str, condition: Any) -> None:
    table = made(kind, tmp_path)
    assert table.delete(condition) is not None
    assert rows(table, columns=["id"]) == [(1,), (4,)]


def test_unknown_is_not_deleted(any_table: morrow.Table) -> None:
    any_table.delete("NOT n = 10")
    assert rows(any_table, columns=["id"]) == [(1,), (4,)]


def test_nothing_to_delete(any_table: morrow.Table) -> None:
    assert any_table.delete("id = 99") is None
    assert len(rows(any_table)) == 4


def test_then_write_again(any_table: morrow.Table) -> None:
    any_table.delete("id = 2")
    any_table.append({"id": [2], "p": ["x"], "n": [7], "v": ["new"]})
    assert rows(any_table, filter="id = 2") == [(2, "x", 7, "new")]


def test_by_partition_drops_whole_partitions(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, p INT", keys=["id", "p"], by=["p"], options={"merge-engine": "first-row"})
    table.append({"id": [1, 2, 3], "p": [1, 2, 3]})
    snapshot = table.delete("p >= 2 AND p * 2 < 6")
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.delta_record_count) == ("OVERWRITE", -1)
    assert rows(table) == [(1, 1), (3, 3)]


@pytest.mark.parametrize(
    "keys",
    [
        [{"id": 1}, {"id": 99}],
        pl.DataFrame({"id": [1, 1], "v": ["any", "thing"]}),
        pa.table({"id": pa.array([1], pa.int8())}),
    ],
    ids=lambda keys: type(keys).__name__,
)
def test_by_keys(keyed: morrow.Table, keys: Any) -> None:
    keyed.delete(keys)
    assert rows(keyed, columns=["id"]) == [(2,), (3,), (4,)]


def test_by_keys_of_rows_whose_values_count(tmp_path: Path) -> None:
    options = {"bucket": 1, "sequence.field": "s"}
    table = new_table(tmp_path, "id INT, s INT, v STRING NOT NULL", keys=["id"], options=options)
    table.upsert({"id": [1, 2], "s": [5, 5], "v": ["a", "b"]})
    table.delete({"id": [1, 3]})
    assert rows(table) == [(2, 5, "b")]


def test_by_keys_in_a_changelog(tmp_path: Path) -> None:
    options = {"bucket": 1, "changelog-producer": "input"}
    table = new_table(tmp_path, "id INT, v STRING", keys=["id"], options=options)
    table.upsert({"id": [1, 2], "v": ["a", "b"]})
    table.delete({"id": [1]})
    changes = table.changes(1, 2).to_polars()
    assert changes.select("id", "v").rows() == [(1, "a")]


def test_the_kind_is_not_taken_from_the_row(tmp_path: Path) -> None:
    options = {"bucket": 1, "rowkind.field": "op"}
    table = new_table(tmp_path, "id INT, op STRING", keys=["id"], options=options)
    table.upsert({"id": [1, 2], "op": ["+I", "+I"]})
    table.delete("id = 1")
    assert rows(table) == [(2, "+I")]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (None, InvalidArgument, "give a condition or keys; Table.truncate removes all rows"),
        ("nope = 1", ColumnNotFound, "no column 'nope'"),
        ({"v": ["a"]}, InvalidArgument, "the data lacks the primary key column id;"),
        ({"id": [None]}, InvalidArgument, "null in it"),
        (7, InvalidArgument, "a int is not a table"),
    ],
    ids=str,
)
def test_what_is_refused(keyed: morrow.Table, given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        keyed.delete(given)


def test_append_tables_have_no_keys(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="it has no primary key; delete by a condition"):
        new_table(tmp_path, "id INT").delete({"id": [1]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "first-row"}, "merge engine first-row is not supported"),
        ({"merge-engine": "partial-update"}, "set partial-update.remove-record-on-delete"),
        ({"merge-engine": "aggregation"}, "make another table with aggregation.remove-record-on-delete"),
        ({"ignore-delete": True}, "a table with ignore-delete"),
    ],
    ids=str,
)
def test_engines_that_delete_no_rows(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": 1, **options})
    for given in ("id = 1", {"id": [1]}):
        with pytest.raises(Unsupported, match=message):
            table.delete(given)


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
@pytest.mark.parametrize("given", ["id = 1", {"id": [1]}], ids=str)
def test_a_deleted_row_starts_anew(tmp_path: Path, engine: str, given: Any) -> None:
    options = {"bucket": 1, "merge-engine": engine, f"{engine}.remove-record-on-delete": True}
    table = new_table(tmp_path, "id INT, a INT, b INT", keys=["id"], options=options)
    table.upsert({"id": [1], "a": [1], "b": [1]})
    table.delete(given)
    table.upsert({"id": [1], "a": [2], "b": [None]})
    assert rows(table) == [(1, 2, None)]


SUM = {"bucket": 1, "merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
GROUP = {**SUM, "merge-engine": "partial-update", "fields.b.sequence-group": "a"}


@pytest.mark.parametrize(
    ("b", "options"),
    [
        ("INT NOT NULL", {**SUM, "aggregation.remove-record-on-delete": True}),
        ("INT", {**SUM, "aggregation.remove-record-on-delete": True, "sequence.field": "b"}),
        ("INT", {**GROUP, "partial-update.remove-record-on-sequence-group": "b"}),
    ],
    ids=["NOT NULL column", "sequence field", "sequence group"],
)
def test_old_values_are_not_combined_with_new_rows(tmp_path: Path, b: str, options: dict[str, Any]) -> None:
    table = new_table(tmp_path, f"id INT, a INT, b {b}", keys=["id"], options=options)
    row = {"id": [1], "a": [3], "b": [1]}
    table.upsert(row)
    table.delete("id = 1")
    table.upsert(row)
    table.delete({"id": [1]})
    table.upsert(row)
    if "fields.b.sequence-group" in options:
        table.merge({"id": [1]}, on="id").when_matched_delete().execute()
        table.upsert(row)
    assert rows(table) == [(1, 3, 1)]


def test_aggregation_that_removes_records(tmp_path: Path) -> None:
    options = {"bucket": 1, "merge-engine": "aggregation", "aggregation.remove-record-on-delete": True}
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options={**options, "fields.v.aggregate-function": "sum"})
    table.upsert({"id": [1, 2], "v": [1, 2]})
    table.upsert({"id": [1, 2], "v": [10, 20]})
    table.delete("v > 11")
    assert rows(table) == [(1, 11)]
