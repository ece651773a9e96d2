"""The choice of neighbouring files to compact in a fixed bucket."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import CorruptFile
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.options import WriteOptions
from morrow.writers.append import bucket_compaction
from morrow.writers.append.bucket_compaction import (
    AppendFiles,
    compute_small_size,
    pick_full,
    pick_window,
    rewrite_files,
)
from morrow.writers.append.writer import AppendWriter
from morrow.writers.buckets.routers import BucketState, restore_buckets
from morrow.writers.files.data_files import Placement
from morrow.writers.files.deletion_vectors import DeletionMaintainer
from morrow.writers.target import WriteTarget
from tests.writers.append.tables import append_table, commit, data_files, file, ids, rows

OPTIONS = WriteOptions(target_file_size=1000, append_min_files=4)
PLACE = Placement(bytes(12), 0)


def files(*sizes: int) -> list[DataFileMeta]:
    return [file(f"f{number}", size, first=number) for number, size in enumerate(sizes)]


def names(picked: tuple[DataFileMeta, ...]) -> list[str]:
    return [each.file_name for each in picked]


def test_small_files_are_below_70_percent_of_the_target_size() -> None:
    assert compute_small_size(OPTIONS) == 700
    assert compute_small_size(WriteOptions(target_file_size=1009)) == 706
    assert compute_small_size(WriteOptions(target_file_size=1000, small_file_ratio=0.25)) == 250


@pytest.mark.parametrize(
    ("sizes", "picked", "waiting"),
    [
        ((10, 10, 10), [], ["f0", "f1", "f2"]),
        ((10, 10, 10, 10), ["f0", "f1", "f2", "f3"], []),
        ((10, 10, 10, 10, 10), ["f0", "f1", "f2", "f3"], ["f4"]),
        ((1900, 200, 10, 10, 10), ["f1", "f2", "f3", "f4"], []),  # twice the target size, so the first is dropped
        ((1900, 200, 10), [], ["f1", "f2"]),
        ((2000, 2000, 2000), [], []),
        ((), [], []),
    ],
)
def test_a_window_of_enough_files(sizes: tuple[int, ...], picked: list[str], waiting: list[str]) -> None:
    result = pick_window(files(*sizes), OPTIONS)

    assert (names(result.files), names(result.waiting)) == (picked, waiting)


@pytest.mark.parametrize(
    ("sizes", "picked"),
    [
        ((10, 10), []),  # two files are too few
        ((10, 10, 10), ["f0", "f1", "f2"]),
        ((900, 900, 10, 10, 10), ["f2", "f3", "f4"]),  # the large files at the beginning stay as they are
        ((10, 900, 900, 10), []),  # there are as many large files as small ones
        ((10, 900, 10, 10), ["f0", "f1", "f2", "f3"]),
    ],
)
def test_a_requested_compaction(sizes: tuple[int, ...], picked: list[str]) -> None:
    assert names(pick_full(files(*sizes), OPTIONS, None)) == picked


def test_force_rewrite_all_files() -> None:
    options = WriteOptions(target_file_size=1000, force_rewrite_all=True)

    assert names(pick_full(files(5000, 5000), options, None)) == ["f0", "f1"]


@given(st.lists(st.integers(1, 2500), max_size=20))
def test_a_window_never_has_more_files_than_asked_for(sizes: list[int]) -> None:
    candidates = files(*sizes)

    result = pick_window(candidates, OPTIONS)

    assert len(result.files) in (0, OPTIONS.append_min_files)
    assert not set(names(result.files)) & set(names(result.waiting))
    if result.files:
        start = candidates.index(result.files[0])
        assert list(result.files) == candidates[start : start + OPTIONS.append_min_files], "neighbours"


def write(target: WriteTarget, *numbers: int) -> AppendWriter:
    state = restore_buckets(target, target.metadata.latest_snapshot(), [PLACE])[PLACE]
    writer = AppendWriter(target, PLACE, state)
    writer.write(rows(*numbers))
    return writer


@pytest.fixture
def target(tmp_path: Path) -> WriteTarget:
    options = {"bucket": "1", "bucket-key": "id", "compaction.min.file-num": "3"}
    return append_table(tmp_path, options)


def test_the_third_file_of_a_bucket_is_compacted_with_the_others(target: WriteTarget) -> None:
    for numbers in ((1, 2), (3,)):
        message = write(target, *numbers).prepare_commit()
        assert not message.compact_before
        commit(target, [message])

    message = write(target, 4, 5).prepare_commit()

    assert [(f.min_sequence_number, f.max_sequence_number) for f in message.compact_before] == [(0, 1), (2, 2), (3, 4)]
    (after,) = message.compact_after
    assert (after.min_sequence_number, after.max_sequence_number, after.row_count) == (0, 4, 5)
    assert (after.level, after.file_source) == (0, 1)
    snapshot = commit(target, [message])
    assert snapshot is not None
    assert (snapshot.id, snapshot.commit_kind, snapshot.total_record_count) == (4, "COMPACT", 5)
    assert ids(target) == [1, 2, 3, 4, 5]


def test_a_file_that_was_compacted_twice_between_two_commits_is_not_in_the_message(target: WriteTarget) -> None:
    writer = AppendWriter(target, PLACE, BucketState())
    for number in range(5):
        writer.write(rows(number))
        writer.compact(full=False)
    message = writer.prepare_commit()

    assert len(message.new_files) == 5
    assert {f.file_name for f in message.compact_before} == {f.file_name for f in message.new_files}
    assert [f.row_count for f in message.compact_after] == [5]
    named = {f.file_name for f in (*message.new_files, *message.compact_after)}
    assert data_files(target) == named, "the file in between is gone"


def test_write_only_does_not_compact(tmp_path: Path) -> None:
    options = {"bucket": "1", "bucket-key": "id", "compaction.min.file-num": "2", "write-only": "true"}
    target = append_table(tmp_path, options)
    for number in range(3):
        message = write(target, number).prepare_commit()
        assert not message.compact_before
        commit(target, [message])

    writer = write(target, 4)
    writer.compact(full=True)

    assert not writer.prepare_commit().compact_before


# Data files of append tables, read so that they can be rewritten.


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_rows_come_in_batches_without_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str, batch: int
) -> None:
    monkeypatch.setattr(bucket_compaction, "BATCH_ROWS", batch)
    target = append_table(tmp_path, {"file.format": file_format})
    writer = AppendWriter(target, PLACE, BucketState())
    writer.write(rows(*range(7)))
    (file,) = writer.prepare_commit().new_files
    vectors = DeletionMaintainer(target, PLACE.partition, PLACE.bucket)
    vectors.mark(file.file_name, np.array([0, 4]))

    frames = list(AppendFiles(target, PLACE, (file,), vectors).frames())

    assert [number for frame in frames for number in frame["id"].to_list()] == [1, 2, 3, 5, 6]
    if file_format == "parquet":
        assert len(frames) == -(-7 // batch)


@pytest.mark.parametrize("row_count", [6, 8])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_file_with_another_number_of_rows_is_not_rewritten(tmp_path: Path, file_format: str, row_count: int) -> None:
    target = append_table(tmp_path, {"file.format": file_format})
    writer = AppendWriter(target, PLACE, BucketState())
    writer.write(rows(*range(7)))
    (file,) = writer.prepare_commit().new_files

    with pytest.raises(CorruptFile, match=f"metadata says {row_count}|the {row_count} that its metadata says"):
        rewrite_files(target, PLACE, [msgspec.structs.replace(file, row_count=row_count)])
    assert data_files(target) == {file.file_name}
