"""The writer of one bucket of an append table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.writers.append import writer as buffer
from morrow.writers.append.writer import AppendWriter, FrameStream
from morrow.writers.buckets.routers import BucketState
from morrow.writers.files.data_files import Placement
from tests.writers.append.tables import append_table, commit, data_files, file, ids, read, rows

PLACE = Placement(bytes(12), 0)


def sequences(files: tuple[DataFileMeta, ...]) -> list[tuple[int, int]]:
    return [(each.min_sequence_number, each.max_sequence_number) for each in files]


def test_one_file_of_all_rows(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    writer = AppendWriter(target, PLACE, BucketState())
    writer.write(rows(1, 2))
    writer.write(rows(3))
    message = writer.prepare_commit()

    (written,) = message.new_files
    assert (written.row_count, written.level, written.file_source, written.delete_row_count) == (3, 0, 0, 0)
    assert (message.bucket, message.total_buckets) == (0, -1)
    commit(target, [message])
    assert read(target).equals(rows(1, 2, 3))


def test_without_buckets_sequence_numbers_begin_with_0_in_every_writer(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    state = BucketState(files=(file("old", 10, row_count=100),), total_buckets=-1)
    writer = AppendWriter(target, PLACE, state)
    writer.write(rows(1, 2))
    first = writer.prepare_commit()
    writer.write(rows(3))
    second = writer.prepare_commit()

    assert sequences(first.new_files) == [(0, 1)]
    assert sequences(second.new_files) == [(2, 2)]


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, 100),
        ({"write-only": "true"}, 100),
        ({"bucket-append-ordered": "false"}, 100),
        ({"bucket-append-ordered": "false", "write-only": "true"}, 0),
    ],
)
def test_in_fixed_buckets_they_go_on(tmp_path: Path, options: dict[str, str], first: int) -> None:
    target = append_table(tmp_path, {"bucket": "1", "bucket-key": "id", **options})
    state = BucketState(files=(file("old", 10, row_count=100),), total_buckets=1)
    writer = AppendWriter(target, PLACE, state)
    writer.write(rows(1, 2))

    assert sequences(writer.prepare_commit().new_files) == [(first, first + 1)]


def test_nothing_written_is_an_empty_message(tmp_path: Path) -> None:
    writer = AppendWriter(append_table(tmp_path), PLACE, BucketState())
    writer.write(rows())

    assert writer.prepare_commit().is_empty


def test_spilled_rows_keep_their_order(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    writer = AppendWriter(target, PLACE, BucketState())
    for number in range(6):
        writer.write(rows(number))
        if number % 2:
            assert writer.buffered_bytes > 0
            writer.spill()
            assert writer.buffered_bytes == 0
    message = writer.prepare_commit()
    commit(target, [message])

    (written,) = message.new_files
    path = next(tmp_path.rglob(written.file_name))
    assert pl.read_parquet(path)["id"].to_list() == list(range(6))


def test_many_rows_go_straight_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MIN_STREAM_BYTES", 100)
    target = append_table(tmp_path)
    writer = AppendWriter(target, PLACE, BucketState())
    for number in range(20):
        writer.write(rows(number))
    assert writer.buffered_bytes == 0
    writer.spill()
    commit(target, [writer.prepare_commit()])

    assert ids(target) == list(range(20))


def test_only_some_buckets_write_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MIN_STREAM_BYTES", 1)
    target = append_table(tmp_path)
    writers = [AppendWriter(target, PLACE, BucketState()) for _ in range(buffer.MAX_STREAMS + 2)]
    for writer in writers:
        writer.write(rows(1))
    waiting = [writer.buffered_bytes > 0 for writer in writers]
    for writer in writers:
        writer.close()

    assert waiting == [False] * buffer.MAX_STREAMS + [True, True]
    assert not data_files(target)


def test_files_are_rolled_at_the_target_size(tmp_path: Path) -> None:
    target = append_table(tmp_path, {"target-file-size": "4 kb"})
    writer = AppendWriter(target, PLACE, BucketState())
    for start in range(0, 20_000, 2_000):
        writer.write(rows(*range(start, start + 2_000)))
    message = writer.prepare_commit()

    ends = [each.max_sequence_number + 1 for each in message.new_files]
    assert len(ends) > 2
    assert [each.min_sequence_number for each in message.new_files] == [0, *ends[:-1]]
    assert ends[-1] == 20_000


@pytest.mark.parametrize("stream_bytes", [1, 1 << 30])
def test_closing_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream_bytes: int) -> None:
    monkeypatch.setattr(buffer, "MIN_STREAM_BYTES", stream_bytes)
    target = append_table(tmp_path)
    writer = AppendWriter(target, PLACE, BucketState())
    writer.write(rows(1))
    writer.compact(full=False)
    writer.write(rows(2))
    writer.spill()
    writer.write(rows(3))
    writer.close()

    assert not data_files(target)


def test_files_of_a_prepared_message_stay(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    writer = AppendWriter(target, PLACE, BucketState())
    writer.write(rows(1))
    message = writer.prepare_commit()
    writer.close()

    assert data_files(target) == {each.file_name for each in message.new_files}


# Frames handed to a writer that runs in its own thread.


def frame(number: int) -> pl.DataFrame:
    return pl.DataFrame({"a": [number]})


def test_the_writer_sees_all_frames_in_their_order() -> None:
    stream = FrameStream(lambda frames: [each["a"].item() for each in frames])
    for number in range(10):
        stream.put(frame(number))

    assert stream.finish() == list(range(10))


def test_what_the_writer_raises_is_raised_where_frames_are_put() -> None:
    def fails(frames: Iterator[pl.DataFrame]) -> None:
        next(frames)
        raise OSError("disk full")

    stream = FrameStream(fails)

    with pytest.raises(OSError, match="disk full"):
        for number in range(100):
            stream.put(frame(number))
    with pytest.raises(OSError, match="disk full"):
        stream.finish()


def test_few_frames_wait() -> None:
    taken: list[int] = []

    def slow(frames: Iterator[pl.DataFrame]) -> None:
        for each in frames:
            taken.append(each["a"].item())
            time.sleep(0.01)

    stream = FrameStream(slow)
    for number in range(10):
        stream.put(frame(number))
        assert number - len(taken) <= 3
    stream.finish()


def test_an_abandoned_writer_fails_and_cleans_up() -> None:
    cleaned: list[bool] = []

    def writer(frames: Iterator[pl.DataFrame]) -> None:
        try:
            for _ in frames:
                pass
        except BaseException:
            cleaned.append(True)
            raise

    stream = FrameStream(writer)
    stream.put(frame(0))
    stream.abandon()

    assert cleaned == [True]
