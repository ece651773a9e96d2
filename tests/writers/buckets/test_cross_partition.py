"""Keys that move to another partition: the merge engine decides which row stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from tests.support.written import new_table, rows


def new(folder: Path, engine: str, **options: Any) -> morrow.Table:
    chosen = {
        "bucket": -1,
        "merge-engine": engine,
        **{name.replace("_", "-"): value for name, value in options.items()},
    }
    return new_table(folder, "id INT, p STRING, v INT", keys=["id"], by=["p"], options=chosen)


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("deduplicate", [(1, "b", 10), (2, "a", 20), (3, "b", 31)]),
        ("partial-update", [(1, "a", 10), (2, "a", 20), (3, "b", 31)]),
        ("aggregation", [(1, "a", 10), (2, "a", 20), (3, "b", 31)]),
        ("first-row", [(1, "a", 1), (2, "a", 2), (3, "b", 30)]),
    ],
)
def test_where_a_key_is_kept(tmp_path: Path, engine: str, expected: list[tuple[Any, ...]]) -> None:
    table = new(tmp_path, engine)
    table.upsert({"id": [1, 2], "p": ["a", "a"], "v": [1, 2]})
    table.upsert({"id": [1, 2, 3, 3], "p": ["b", "a", "b", "b"], "v": [10, 20, 30, 31]})
    assert rows(table) == expected


@pytest.mark.parametrize("vectors", [True, False])
def test_a_key_that_moved_before_is_where_it_went(tmp_path: Path, vectors: bool) -> None:
    """With deletion vectors, the old row is still in a file of the old partition, marked as deleted."""
    table = new(tmp_path, "deduplicate", **{"deletion-vectors.enabled": vectors})
    for n, p in enumerate("abcab"):
        table.upsert({"id": [1, 2 + n], "p": [p, p], "v": [n, n]})
        assert [row for row in rows(table) if row[0] == 1] == [(1, p, n)]


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("deduplicate", [(1, "b", 2), (2, "b", 3)]),
        ("partial-update", [(1, "a", 2), (2, "b", 3)]),
        ("aggregation", [(1, "a", 2), (2, "b", 3)]),
    ],
)
def test_keys_that_wait_for_compaction_are_where_they_are(
    tmp_path: Path, engine: str, expected: list[tuple[Any, ...]]
) -> None:
    """Writers that do not compact leave rows in level 0, which reads with deletion vectors skip."""
    table = new(tmp_path, engine, **{"deletion-vectors.enabled": True, "write-only": True})
    table.upsert({"id": [1], "p": ["a"], "v": [1]})
    table.upsert({"id": [1], "p": ["b"], "v": [2]})
    table.upsert({"id": [2], "p": ["b"], "v": [3]})
    assert rows(table) == []
    table.compact()
    assert rows(table) == expected


def test_keys_that_stay_since_deletions_are_ignored(tmp_path: Path) -> None:
    """Java, too, ignores the deletion in the old partition."""
    table = new(tmp_path, "deduplicate", **{"ignore-delete": True})
    for v, p in enumerate("abbc"):
        table.upsert({"id": [1, 2 + v], "p": [p, p], "v": [v, v]})
    assert [row for row in rows(table) if row[0] == 1] == [(1, "a", 0), (1, "b", 2), (1, "c", 3)]


def test_a_deleted_key_starts_anew(tmp_path: Path) -> None:
    """The deletion record holds only the key and the partition, so there is nothing to add to."""
    options = {"fields.v.aggregate-function": "sum", "aggregation.remove-record-on-delete": True}
    table = new(tmp_path, "aggregation", **options)
    table.upsert({"id": [1], "p": ["a"], "v": [5]})
    table.delete("v = 5")
    table.upsert({"id": [1], "p": ["a"], "v": [3]})
    table.delete({"id": [1]})
    table.upsert({"id": [1], "p": ["a"], "v": [2]})
    assert rows(table) == [(1, "a", 2)]


def test_a_key_that_moves_within_one_write(tmp_path: Path) -> None:
    table = new(tmp_path, "deduplicate")
    table.upsert({"id": [1, 1, 1, 1], "p": ["a", "b", "b", "a"], "v": [1, 2, 3, 4]})
    assert rows(table) == [(1, "a", 4)]


def test_buckets_fill_up_and_give_room_back(tmp_path: Path) -> None:
    table = new(tmp_path, "deduplicate", **{"dynamic-bucket.target-row-num": 2})
    table.upsert({"id": [1, 2, 3], "p": ["a"] * 3, "v": [0] * 3})
    table.upsert({"id": [1, 2], "p": ["b"] * 2, "v": [0] * 2})
    table.upsert({"id": [4, 5], "p": ["a"] * 2, "v": [0] * 2})
    table.compact(full=True)
    where = {(s.partition[0], s.bucket): s.row_count for s in table.scan().plan.sections}
    assert where == {("a", 0): 2, ("a", 1): 1, ("b", 0): 2}


step = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=6)


@settings(max_examples=settings().max_examples // 3)
@given(steps=st.lists(step, min_size=1, max_size=4), room=st.integers(1, 3), one_writer=st.booleans())
def test_a_key_is_in_one_partition(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[int, str, int]]], room: int, one_writer: bool
) -> None:
    table = new(tmp_path_factory.mktemp("w"), "deduplicate", **{"dynamic-bucket.target-row-num": room})
    newest = {row[0]: row for rows_ in steps for row in rows_}
    frames = [pl.DataFrame(rows_, ["id", "p", "v"], orient="row") for rows_ in steps]
    if one_writer:
        with table.writer() as writer:
            for frame in frames:
                writer.write(frame)
    else:
        for frame in frames:
            table.upsert(frame)
    assert rows(table) == sorted(newest.values())
