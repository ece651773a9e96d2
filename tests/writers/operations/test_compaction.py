"""On-demand compaction: fewer files, the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import CommitConflict, InvalidArgument, SnapshotNotFound, Unsupported
from morrow.writers.operations import compaction
from tests.support.written import new_table, rows


def files(table: morrow.Table) -> int:
    return len(table.scan().plan.files)


def test_full(any_table: morrow.Table) -> None:
    for number in range(5, 8):
        any_table.append({"id": [number], "p": ["x"], "n": [1], "v": ["v"]})
    before = rows(any_table)
    held = files(any_table)
    any_table.compact(full=True)
    assert rows(any_table) == before
    assert files(any_table) <= held


def test_write_only_tables_are_compacted_on_request(tmp_path: Path) -> None:
    options = {"bucket": 1, "write-only": True}
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options=options)
    for number in range(9):
        table.upsert({"id": [1, number], "v": [number, number]})
    assert files(table) == 9
    snapshot = table.compact(full=True)
    assert snapshot is not None
    assert (snapshot.commit_kind, files(table)) == ("COMPACT", 1)
    assert rows(table)[:2] == [(0, 0), (1, 8)]
    assert table.compact(full=True) is None


@pytest.mark.parametrize("others", [1, 9], ids=["once", "each time"])
def test_it_is_made_anew_where_another_compaction_was_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": 1, "write-only": True})
    own, left = compaction.commit_once, [None] * others

    def commit_late(*arguments: Any) -> object:
        if left and not monkeypatch.undo():
            left.pop()
            table.compact(full=True)
            table.upsert({"id": [len(left) + 1], "v": [1]})
            monkeypatch.setattr(compaction, "commit_once", commit_late)
        return own(*arguments)

    table.upsert({"id": [0, 1], "v": [0, 0]})
    table.upsert({"id": [0], "v": [2]})
    monkeypatch.setattr(compaction, "commit_once", commit_late)
    if others == 1:
        assert table.compact(full=True) is not None
        assert files(table) == 1
    else:
        with pytest.raises(CommitConflict, match="committed to the same files first"):
            table.compact(full=True)
    assert rows(table)[0] == (0, 2)


@pytest.mark.parametrize("keys", [[], ["id", "p"]], ids=["append", "keyed"])
def test_some_partitions(tmp_path: Path, keys: list[str]) -> None:
    options = {"bucket": 1, "bucket-key": "id", "write-only": True}
    table = new_table(tmp_path, "id INT, p INT", keys=keys, by=["p"], options=options)
    for number in range(6):
        table.append({"id": [number] * 3, "p": [1, 2, 3]})
    table.compact(full=True, partition={"p": 1})
    assert files(table) == 13
    table.compact(full=True, where="p >= 3")
    assert files(table) == 8
    assert table.compact(full=True, where="p > 100") is None
    with pytest.raises(InvalidArgument, match="'id' is not a partition column; Only partition predicate is supported"):
        table.compact(where="id = 1")


def test_sorted_append_tables(tmp_path: Path) -> None:
    table = new_table(tmp_path, "a INT, b INT")
    table.append({"a": [3, 1, 2], "b": [1, 1, 0]})
    table.append({"a": [1], "b": [0]})
    table.compact(order_by=["b", "a"])
    assert table.scan(columns=["a", "b"]).to_polars().rows() == [(1, 0), (2, 0), (1, 1), (3, 1)]
    assert files(table) == 1
    table.compact(order_by=["a", "b"], strategy="zorder")
    table.compact(order_by=["a", "b"], strategy="hilbert")
    assert rows(table) == [(1, 0), (1, 1), (2, 0), (3, 1)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"strategy": "zorder"}, InvalidArgument),
        ({"order_by": ["id"], "strategy": "spiral"}, InvalidArgument),
        ({"order_by": "id"}, Unsupported),
        ({"partition": {"id": 1}}, InvalidArgument),
        ({"where": "id = 1"}, InvalidArgument),
    ],
    ids=str,
)
def test_what_is_refused(keyed: morrow.Table, arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        keyed.compact(**arguments)


def test_an_empty_table(tmp_path: Path) -> None:
    assert new_table(tmp_path, "id INT").compact(full=True) is None


FULL = {"bucket": 1, "changelog-producer": "full-compaction", "full-compaction.delta-commits": 2}


def test_every_so_many_numbered_commits_compact_fully(tmp_path: Path) -> None:
    """Only full compactions make a changelog here, each for the rows of two commits."""
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options=FULL)
    with table.writer(commit_user="job") as writer:
        for number in range(4):
            writer.write({"id": [1, number + 2], "v": [number, number]})
            writer.commit(identifier=number)
    kinds = [(s.commit_kind, s.commit_identifier, s.changelog_record_count) for s in table.snapshots()]
    assert kinds == [
        ("APPEND", 0, None),
        ("APPEND", 1, None),
        ("COMPACT", 1, 3),  # three new keys
        ("APPEND", 2, None),
        ("APPEND", 3, None),
        ("COMPACT", 3, 4),  # key 1 before and after, and two new keys
    ]
    assert rows(table) == [(1, 3), (2, 0), (3, 1), (4, 2), (5, 3)]


def test_commits_without_a_number_compact_fully_each(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options=FULL)
    for number in range(2):
        table.upsert({"id": [1], "v": [number]})
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND", "COMPACT"] * 2
    assert files(table) == 1


def test_write_only_tables_wait_for_a_compaction_of_their_own(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, v INT", keys=["id"], options=FULL | {"write-only": True})
    table.upsert({"id": [1], "v": [1]})
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND"]


# `Table.rescale`: the rows of partitions are distributed to another number of buckets.

PARTS = "p STRING, id BIGINT, v INT"


def buckets(table: morrow.Table) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for partition, bucket in table.system("files").to_polars().select("partition", "bucket").rows():
        found.setdefault(partition, set()).add(bucket)
    return found


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make two partitions of 20 keys in one bucket, with updated and deleted rows."""
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
    read = compaction.read_rows_where

    def disturbed(*arguments: Any) -> Any:
        monkeypatch.undo()
        yield from read(*arguments)
        table.upsert({"p": ["a"], "id": [1000], "v": [1]})

    monkeypatch.setattr(compaction, "read_rows_where", disturbed)
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
    with pytest.raises(InvalidArgument, match="'id' is not a partition column"):
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
