"""On-demand compaction of append tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from morrow.engine.errors import CommitConflict, StorageError, Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.filter import parse_filter
from morrow.engine.structs import replace
from morrow.writers.append.compaction import compact_append
from morrow.writers.append.row_level import delete_where
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.target import WriteTarget
from tests.writers.append.tables import append, append_table, commit, data_files, ids, rows

WITH_VECTORS = {"deletion-vectors.enabled": "true"}


def compact(target: WriteTarget, *, full: bool = False) -> list[CommitMessage]:
    return compact_append(target, target.metadata.latest_snapshot(), full=full)


def delete(target: WriteTarget, condition: str) -> None:
    filter = parse_filter(condition, target.schema.fields)
    commit(target, delete_where(target, target.metadata.latest_snapshot(), filter))


def counts(messages: list[CommitMessage]) -> list[tuple[list[int], list[int]]]:
    """List the row counts of the files before and after each compaction."""
    return [([f.row_count for f in m.compact_before], [f.row_count for f in m.compact_after]) for m in messages]


def test_five_small_files_become_one(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    append(target, rows(1), rows(2, 3), rows(4), rows(5))
    assert not compact(target), "compaction.min.file-num is 5"
    append(target, rows(6))

    (message,) = messages = compact(target)
    snapshot = commit(target, messages)

    assert counts(messages) == [([1, 1, 1, 1, 2], [6])], "the smallest first"
    (after,) = message.compact_after
    assert (after.min_sequence_number, after.max_sequence_number, after.file_source) == (0, 5, 1)
    assert (message.bucket, message.total_buckets) == (0, -1)
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.total_record_count) == ("COMPACT", 6)
    assert ids(target) == [1, 2, 3, 4, 5, 6]
    assert not compact(target, full=True)


def test_full_takes_any_two_files(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    append(target, rows(1), rows(2))

    assert counts(compact(target, full=True)) == [([1, 1], [2])]


def test_partitions_are_compacted_by_themselves(tmp_path: Path) -> None:
    target = append_table(tmp_path, {"compaction.min.file-num": "2"}, partitioned=True)
    append(target, rows(1, region=7), rows(2, region=7), rows(3, region=8))

    (message,) = messages = compact(target)
    assert counts(messages) == [([1, 1], [2])]
    assert target.partition_values(message.partition) == (7,)

    chosen = compact_append(target, target.metadata.latest_snapshot(), full=True, partitions=[])
    assert not chosen


def test_large_files_stay(tmp_path: Path) -> None:
    target = append_table(tmp_path, {"compaction.min.file-num": "2", "target-file-size": "3 kb"})
    append(target, rows(*range(3000)), rows(1), rows(2))

    assert counts(compact(target)) == [([1, 1], [2])]


def test_a_pack_is_full_at_twice_the_target_size(tmp_path: Path) -> None:
    options = {"target-file-size": "2 kb", "source.split.open-file-cost": "1 kb", "compaction.min.file-num": "3"}
    target = append_table(tmp_path, options)
    append(target, *(rows(number) for number in range(6)))

    assert counts(compact(target)) == [([1, 1, 1], [3]), ([1, 1, 1], [3])]


def test_write_only_tables_are_compacted_too(tmp_path: Path) -> None:
    target = append_table(tmp_path, {"write-only": "true", "bucket": "1", "bucket-key": "id"})
    append(target, rows(1), rows(2), rows(3))

    assert counts(compact(target, full=True)) == [([1, 1, 1], [3])]


def test_dead_rows_are_left_out_and_their_vectors_go(tmp_path: Path) -> None:
    target = append_table(tmp_path, WITH_VECTORS)
    append(target, rows(1, 2, 3, 4), rows(5, 6))
    delete(target, "id in (1, 3)")

    (message,) = messages = compact(target)
    commit(target, messages)

    assert counts(messages) == [([4], [2])], "a file with a vector is always worth it, one without waits for others"
    assert len(message.compact_deleted_index_files) == 1
    assert not message.compact_new_index_files
    assert ids(target) == [2, 4, 5, 6]


def test_files_whose_vectors_share_an_index_file_are_compacted_together(tmp_path: Path) -> None:
    target = append_table(tmp_path, WITH_VECTORS)
    append(target, rows(1, 2), rows(3, 4), rows(5, 6))
    delete(target, "id = 1")
    delete(target, "id in (3, 5)")

    messages = compact(target)

    assert counts(messages) == [([2, 2, 2], [3])]
    assert len(messages[0].compact_deleted_index_files) == 2


@pytest.mark.parametrize(("dead", "taken"), [("id < 15", False), ("id < 25", True)])
def test_large_files_with_many_dead_rows(tmp_path: Path, dead: str, taken: bool) -> None:
    target = append_table(tmp_path, {**WITH_VECTORS, "target-file-size": "1 kb"})
    append(target, rows(*range(100)))
    delete(target, dead)

    assert bool(compact(target)) == taken, "compaction.delete-ratio-threshold is 0.2"


def test_all_rows_dead(tmp_path: Path) -> None:
    target = append_table(tmp_path, WITH_VECTORS)
    append(target, rows(1, 2))
    delete(target, "id > 0")

    messages = compact(target)
    commit(target, messages)

    assert counts(messages) == [([2], [])]
    assert ids(target) == []


def test_fixed_buckets(tmp_path: Path) -> None:
    target = append_table(tmp_path, {"bucket": "1", "bucket-key": "id", **WITH_VECTORS})
    append(target, rows(1, 2), rows(3))
    delete(target, "id = 1")

    messages = compact(target, full=True)
    commit(target, messages)

    assert counts(messages) == [([2, 1], [2])]
    assert ids(target) == [2, 3]


def test_two_compactions_of_the_same_files(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    append(target, rows(1), rows(2))
    first, second = compact(target, full=True), compact(target, full=True)
    commit(target, first)

    with pytest.raises(CommitConflict):
        commit(target, second)
    assert ids(target) == [1, 2]


def test_an_error_leaves_no_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = append_table(tmp_path, {"compaction.min.file-num": "2"}, partitioned=True)
    append(target, rows(1, region=1), rows(2, region=1), rows(3, region=2), rows(4, region=2))
    before = data_files(target)
    output, calls = LocalStore.output, []

    def failing(store: LocalStore, path: str):  # type: ignore[no-untyped-def]  # like the method it replaces
        calls.append(path)
        if len(calls) == 2:
            raise StorageError("no space left")
        return output(store, path)

    monkeypatch.setattr(LocalStore, "output", failing)
    with pytest.raises(StorageError):
        compact(target)

    assert len(calls) == 2
    assert data_files(target) == before


def test_tables_that_are_not_compacted(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    clustered = replace(target, write=replace(target.write, incremental_clustering=True))

    with pytest.raises(Unsupported):
        compact(clustered)


def test_small_files_beyond_the_limit_of_a_compaction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says how many stay for the next compaction, and why."""
    target = append_table(tmp_path, {"compaction.file-num-limit": "3"})
    append(target, *(rows(number) for number in range(7)))
    reports = []
    while messages := compact(target, full=True):
        commit(target, messages)
        reports.append(re.findall(r": (\d small files) stay for the next compaction: '(.*)' is 3", caplog.text))
        caplog.clear()
    limit = "compaction.file-num-limit"
    assert reports == [[("4 small files", limit)], [("2 small files", limit)], []]
    assert ids(target) == list(range(7))
