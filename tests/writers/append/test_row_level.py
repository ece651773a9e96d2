"""Deletes and updates of single rows in append tables, by deletion vectors or by rewriting files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow.engine.errors import CommitConflict, InvalidArgument, StorageError
from morrow.engine.plan.filter import parse_filter
from morrow.engine.structs import replace
from morrow.writers.append import row_level
from morrow.writers.append.compaction import compact_append
from morrow.writers.append.row_level import RowChanges, delete_where, update_where
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget
from tests.writers.append.tables import append, append_table, commit, data_files, ids, read, rows

BY_VECTORS = {"deletion-vectors.enabled": "true"}
FIXED = {"bucket": "2", "bucket-key": "id"}
KINDS = {"rewrite": {}, "vectors": BY_VECTORS, "fixed": FIXED, "fixed vectors": {**FIXED, **BY_VECTORS}}
KIND = pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)


def delete(target: WriteTarget, condition: str) -> list[CommitMessage]:
    filter = parse_filter(condition, target.schema.fields)
    return delete_where(target, target.metadata.latest_snapshot(), filter)


def update(target: WriteTarget, condition: str, **values: pl.Expr) -> list[CommitMessage]:
    filter = parse_filter(condition, target.schema.fields)
    snapshot = target.metadata.latest_snapshot()
    return update_where(target, snapshot, lambda frame: frame.with_columns(**values), filter, values)


@KIND
def test_delete_and_update(tmp_path: Path, options: dict[str, str]) -> None:
    target = append_table(tmp_path, options)
    append(target, rows(1, 2, 3), rows(4, 5))

    commit(target, delete(target, "id in (2, 5)"))
    assert ids(target) == [1, 3, 4]

    commit(target, update(target, "id >= 3", name=pl.col("name") + "!", region=pl.lit(9, pl.Int32)))
    assert read(target).rows() == [(1, "name 1", 0), (3, "name 3!", 9), (4, "name 4!", 9)]


def test_vectors_mark_positions(tmp_path: Path) -> None:
    target = append_table(tmp_path, BY_VECTORS)
    append(target, rows(1, 2, 3), rows(4, 5))

    (message,) = messages = delete(target, "id in (2, 3)")
    snapshot = commit(target, messages)

    assert not message.new_files
    assert not message.deleted_files
    (index,) = message.new_index_files
    (entry,) = index.deletion_ranges or ()
    assert entry.cardinality == 2
    vectors = DeletionMaintainer(target, message.partition, message.bucket, [index])
    found = vectors.vector(entry.data_file)
    assert found is not None
    assert found.positions().tolist() == [1, 2]
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.total_record_count) == ("OVERWRITE", 5), "rows in files, as Java counts"


def test_vectors_grow(tmp_path: Path) -> None:
    target = append_table(tmp_path, BY_VECTORS)
    append(target, rows(1, 2, 3))
    commit(target, delete(target, "id = 1"))

    (message,) = messages = delete(target, "id = 3")
    commit(target, messages)

    assert len(message.deleted_index_files) == 1
    assert [e.cardinality for f in message.new_index_files for e in f.deletion_ranges or ()] == [2]
    assert ids(target) == [2]


def test_without_vectors_only_files_with_matches_are_rewritten(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    append(target, rows(1, 2, 3), rows(4, 5), rows(6))

    (message,) = messages = delete(target, "id in (2, 6)")
    snapshot = commit(target, messages)

    assert sorted(f.row_count for f in message.deleted_files) == [1, 3]
    assert [(f.row_count, f.file_source) for f in message.new_files] == [(2, 0)]
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.total_record_count) == ("OVERWRITE", 4)


def test_nothing_matches(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    assert delete(target, "id = 1") == []
    append(target, rows(1))

    assert delete(target, "id = 2") == []
    assert delete(target, "name = 'name 2'") == []


@KIND
def test_an_update_may_move_rows_to_another_partition(tmp_path: Path, options: dict[str, str]) -> None:
    target = append_table(tmp_path, options, partitioned=True)
    append(target, rows(1, 2, region=1), rows(3, region=2))

    commit(target, update(target, "id < 3", region=pl.col("id").cast(pl.Int32) + 1))

    assert read(target)["region"].to_list() == [2, 3, 2]


def test_conditions_that_only_rows_can_tell(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    append(target, rows(1, 2, 3, 4))

    commit(target, delete(target, "id % 2 = 0 and length(name) = 6"))

    assert ids(target) == [1, 3]


def test_a_merge_deletes_some_of_the_rows_found(tmp_path: Path) -> None:
    target = append_table(tmp_path, BY_VECTORS)
    append(target, rows(1, 2, 3, 4))
    filter = parse_filter("id > 1", target.schema.fields)

    with RowChanges(target, target.metadata.latest_snapshot()) as changes:
        for found in changes.matching(filter, ("id",)):
            changes.delete(found.where(found.rows["id"] == 3))
        changes.append(rows(9))
        commit(target, changes.messages())

    assert ids(target) == [1, 2, 4, 9]


@pytest.mark.parametrize("at_once", [1, 5, 1000])
def test_files_are_looked_through_at_once_or_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(row_level, "MAX_SEARCH_ROWS", at_once)
    target = append_table(tmp_path, BY_VECTORS)
    append(target, rows(1, 2, 3), rows(4), rows(5, 6), rows(7, 8, 9, 10, 11, 12))

    commit(target, delete(target, "id % 2 = 0"))

    assert ids(target) == [1, 3, 5, 7, 9, 11]


def test_after_a_change_of_buckets_rows_can_be_deleted_but_not_added(tmp_path: Path) -> None:
    target = append_table(tmp_path, FIXED)
    append(target, rows(1, 2, 3, 4))
    target = replace(target, options=replace(target.options, bucket=3))

    with pytest.raises(InvalidArgument, match="written with 2 buckets"):
        update(target, "id = 1", name=pl.lit("new"))
    (message,) = delete(target, "id = 1")
    assert message.total_buckets == 2


@given(data=st.data())
@settings(max_examples=settings().max_examples // 5, deadline=None)
@pytest.mark.parametrize("kind", KINDS)
def test_any_history(kind: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = append_table(Path(folder), KINDS[kind], partitioned=data.draw(st.booleans()))
        model: list[tuple[int, str, int]] = []
        for step in data.draw(st.lists(st.sampled_from(["append", "delete", "update", "compact"]), max_size=6)):
            low = data.draw(st.integers(0, 20))
            high = low + data.draw(st.integers(0, 10))
            if step == "append":
                new = rows(*range(low, high), region=low % 2)
                append(target, new)
                model += new.rows()
            elif step == "delete":
                commit(target, delete(target, f"id between {low} and {high}"))
                model = [row for row in model if not low <= row[0] <= high]
            elif step == "update":
                commit(target, update(target, f"id between {low} and {high}", name=pl.col("name") + "'"))
                model = [(i, n + "'" if low <= i <= high else n, r) for i, n, r in model]
            else:
                snapshot = target.metadata.latest_snapshot()
                commit(target, compact_append(target, snapshot, full=True))
            assert sorted(read(target).rows()) == sorted(model), step


@KIND
def test_two_changes_of_the_same_rows(tmp_path: Path, options: dict[str, str]) -> None:
    target = append_table(tmp_path, options)
    append(target, rows(1, 2))
    first, second = delete(target, "id = 1"), update(target, "id = 1", name=pl.lit("late"))
    commit(target, first)

    with pytest.raises(CommitConflict):
        commit(target, second)
    assert ids(target) == [2]


@KIND
def test_what_no_message_names_is_removed(
    tmp_path: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = append_table(tmp_path, options)
    append(target, rows(1, 2, 3))
    before = data_files(target), {path.name for path in tmp_path.rglob("index-*")}

    def failing(_: DeletionMaintainer) -> None:
        raise StorageError("no space left")

    def failing_assignment(_: pl.DataFrame) -> pl.DataFrame:
        raise InvalidArgument("division by zero")

    filter = parse_filter("id > 1", target.schema.fields)
    with pytest.raises(InvalidArgument):
        update_where(target, target.metadata.latest_snapshot(), failing_assignment, filter, ())
    if "deletion-vectors.enabled" in options:
        monkeypatch.setattr(DeletionMaintainer, "write", failing)
        with pytest.raises(StorageError):
            update(target, "id > 1", name=pl.lit("new"))

    assert (data_files(target), {path.name for path in tmp_path.rglob("index-*")}) == before
