"""`Table.rescale`: the rows of partitions in another number of buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, SnapshotNotFound, Unsupported
from morrow.writers.operations import rescale
from tests.support.written import new_table, rows

PARTS = "p STRING, id BIGINT, v INT"


def buckets(table: morrow.Table) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for partition, bucket in table.system("files").to_polars().select("partition", "bucket").rows():
        found.setdefault(partition, set()).add(bucket)
    return found


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Two partitions of 20 keys in one bucket, with updated and deleted rows."""
    made = new_table(tmp_path, PARTS, keys=["p", "id"], by=["p"], options={"bucket": 1})
    made.append({"p": ["a", "b"] * 20, "id": [i // 2 for i in range(40)], "v": [0] * 40})
    made.upsert({"p": ["a"], "id": [3], "v": [7]})
    made.delete("id = 1")
    return made


def test_rows_stay_and_may_be_written_in_more_buckets(table: morrow.Table) -> None:
    before = rows(table)
    table.alter.set_options({"bucket": 4})
    with pytest.raises(InvalidArgument, match=r"rescale it first with Table\.rescale"):
        table.upsert({"p": ["a"], "id": [3], "v": [8]})
    done = table.rescale(partition={"p": "a"})
    assert done is not None
    assert done.commit_kind == "OVERWRITE"
    assert buckets(table) == {"{a}": {0, 1, 2, 3}, "{b}": {0}}
    table.rescale(where="p = 'b'")
    assert rows(table) == before
    table.upsert({"p": ["a", "b"], "id": [3, 99], "v": [8, 8]})
    assert ("a", 3, 8) in rows(table)
    assert table.rescale(2, partition=[{"p": "a"}, {"p": "none"}]) is not None
    assert buckets(table)["{a}"] == {0, 1}


def test_rows_that_others_commit_meanwhile_are_not_lost(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read = rescale.rows_where

    def disturbed(*arguments: Any) -> Any:
        monkeypatch.undo()
        yield from read(*arguments)
        table.upsert({"p": ["a"], "id": [1000], "v": [1]})

    monkeypatch.setattr(rescale, "rows_where", disturbed)
    before = rows(table)
    table.rescale(3)
    assert rows(table) == sorted([*before, ("a", 1000, 1)])


def test_postponed_rows_still_wait(tmp_path: Path) -> None:
    options = {"bucket": -2, "postpone.batch-write-fixed-bucket": "false"}
    table = new_table(tmp_path, "id BIGINT, v INT", keys=["id"], options=options)
    table.append({"id": [1, 2], "v": [1, 2]})
    table.compact()
    table.append({"id": [3], "v": [3]})
    with pytest.raises(InvalidArgument, match="say how many buckets"):
        table.rescale()
    table.rescale(3)
    assert rows(table) == [(1, 1), (2, 2)]
    table.compact()
    assert rows(table) == [(1, 1), (2, 2), (3, 3)]


def test_what_cannot_be_rescaled(table: morrow.Table, tmp_path: Path) -> None:
    for wrong in (0, -1, True, "2", 1.5):
        with pytest.raises(InvalidArgument, match="the number of buckets is 1 or more"):
            table.rescale(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="'id' is no partition column"):
        table.rescale(2, where="id = 1")
    with pytest.raises(InvalidArgument, match="an empty list names no partition"):
        table.rescale(2, partition=[])
    with pytest.raises(InvalidArgument, match="a partition of rescale"):
        table.rescale(2, partition=[None])  # type: ignore[list-item]
    with pytest.raises(Unsupported, match="without a fixed number"):
        new_table(tmp_path, "id BIGINT", name="log").rescale(2)
    with pytest.raises(SnapshotNotFound):
        new_table(tmp_path, "id BIGINT", keys=["id"], options={"bucket": 1}, name="empty").rescale(2)
    assert len(table.snapshots()) == 3
    options = {"bucket": 1, "deletion-vectors.enabled": "true", "write-only": "true"}
    hidden = new_table(tmp_path, "id BIGINT", keys=["id"], options=options, name="hidden")
    hidden.append({"id": [1]})
    with pytest.raises(Unsupported, match="not compacted yet"):
        hidden.rescale(2)
    hidden.compact()
    hidden.rescale(2)
    assert rows(hidden) == [(1,)]
