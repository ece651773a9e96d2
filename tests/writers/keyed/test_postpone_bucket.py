"""Rows in the postponed bucket, and the compaction that moves them to a bucket."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.format.manifest_entries import EMPTY_ROW, EMPTY_STATS
from morrow.writers.buckets.routers import BucketState, restore_partitions
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files.data_files import Placement
from morrow.writers.keyed.postpone_bucket import PostponeWriter, compact_postponed, read_postponed_rows
from morrow.writers.target import WriteTarget
from tests.writers.keyed.tables import commit, keyed_table, names, numbered, on_disk, read, rows

WAITING = Placement(EMPTY_ROW, -2)


def postpone_table(folder: Path, **options: str) -> WriteTarget:
    return keyed_table(folder, {"bucket": "-2", **options})


def wait(target: WriteTarget, *frames: pl.DataFrame) -> CommitMessage:
    """Write rows to the postponed bucket in one commit."""
    writer = PostponeWriter(target, WAITING, BucketState())
    for frame in frames:
        writer.write(frame)
    message = writer.prepare_commit()
    commit(target, message)
    return message


def compact(target: WriteTarget, *, full: bool = False) -> list[CommitMessage]:
    states = restore_partitions(target, target.metadata.latest_snapshot(), None)
    messages = list(compact_postponed(target, states, full=full))
    commit(target, *messages)
    return messages


def test_rows_wait_as_they_came_in_files_named_for_their_writer(tmp_path: Path) -> None:
    target = postpone_table(tmp_path)
    message = wait(target, rows(("+I", 2, "b"), ("+I", 1, "a")), rows(("-D", 2, "b")))
    (file,) = message.new_files
    assert re.fullmatch(rf"data--u-{target.commit_user}-s-\d+-w-[0-9a-f-]{{36}}-0\.avro", file.file_name)
    assert (message.bucket, message.total_buckets, file.level, file.row_count) == (-2, -2, 0, 3)
    assert (file.min_sequence_number, file.max_sequence_number, file.delete_row_count) == (-1, -1, 1)
    assert file.value_stats == EMPTY_STATS
    kept = pl.concat(read_postponed_rows(target, WAITING, [file]))
    assert kept.equals(rows(("+I", 2, "b"), ("+I", 1, "a"), ("-D", 2, "b")))
    assert read(target) == {}


def test_a_compaction_gives_rows_their_buckets_in_one_compact_snapshot(tmp_path: Path) -> None:
    target = postpone_table(tmp_path, **{"postpone.default-bucket-num": "3"})
    waited = [wait(target, numbered(range(50), value)) for value in "ab"]
    wait(target, rows(("-D", 7, None)))
    messages = compact(target)
    assert {(m.bucket, m.total_buckets) for m in messages} == {(0, 3), (1, 3), (2, 3), (-2, -2)}
    assert all(not m.new_files for m in messages)
    assert names(f for m in messages for f in m.compact_before) >= names(f for m in waited for f in m.new_files)
    assert read(target) == {k: f"b{k}" for k in range(50) if k != 7}
    latest = target.metadata.latest_snapshot()
    assert latest is not None
    assert (latest.id, str(latest.commit_kind)) == (4, "COMPACT")


def test_a_compaction_gives_a_partition_the_buckets_that_its_rows_need(tmp_path: Path) -> None:
    target = postpone_table(tmp_path, **{"postpone.target-row-num-per-bucket": "20"})
    wait(target, numbered(range(50)))
    assert {m.total_buckets for m in compact(target)} == {3, -2}


def test_a_partition_keeps_its_number_of_buckets(tmp_path: Path) -> None:
    target = postpone_table(tmp_path, **{"postpone.default-bucket-num": "2"})
    wait(target, numbered(range(20)))
    compact(target)
    wait(target, numbered(range(10, 30), "w"))
    more = postpone_table(tmp_path, **{"postpone.default-bucket-num": "5"})
    assert {m.total_buckets for m in compact(more)} == {2, -2}
    assert read(target) == {**{k: f"v{k}" for k in range(10)}, **{k: f"w{k}" for k in range(10, 30)}}


def test_files_that_come_and_go_in_a_compaction_leave_nothing(tmp_path: Path) -> None:
    target = postpone_table(tmp_path, **{"num-sorted-run.compaction-trigger": "1"})
    for value in "abc":
        wait(target, numbered(range(5), value), rows(("-D", 1, None)))
        compact(target)
    states = restore_partitions(target, target.metadata.latest_snapshot(), None)
    assert read(target) == {k: f"c{k}" for k in (0, 2, 3, 4)}
    assert names(f for s in states.values() for f in s.files) <= on_disk(target)


def levels(target: WriteTarget) -> list[int]:
    states = restore_partitions(target, target.metadata.latest_snapshot(), None)
    return sorted(file.level for state in states.values() for file in state.files)


def test_a_full_compaction_leaves_one_run_of_every_bucket(tmp_path: Path) -> None:
    target = postpone_table(tmp_path, **{"write-only": "true"})
    for value in "ab":
        wait(target, numbered(range(20), value))
        compact(target)
    assert levels(target) == [0, 0]
    compact(target, full=True)  # there are no rows to move
    assert levels(target) == [5]
    wait(target, numbered(range(10), "c"))
    compact(target, full=True)
    assert levels(target) == [5]
    assert read(target) == {**{k: f"b{k}" for k in range(20)}, **{k: f"c{k}" for k in range(10)}}


def test_a_write_only_table_compacts_as_the_options_say(tmp_path: Path) -> None:
    target = postpone_table(tmp_path, **{"write-only": "true", "num-sorted-run.compaction-trigger": "2"})
    for value in "ab":
        wait(target, numbered(range(20), value))
        compact(target)
    (level,) = levels(target)
    assert level > 0


def test_a_retraction_that_the_engine_has_no_meaning_for_is_refused_now(tmp_path: Path) -> None:
    target = postpone_table(tmp_path, **{"merge-engine": "partial-update"})
    writer = PostponeWriter(target, WAITING, BucketState())
    with pytest.raises(Unsupported, match="retraction"):
        writer.write(rows(("-D", 1, "a")))


def test_closing_deletes_what_was_not_handed_over(tmp_path: Path) -> None:
    target = postpone_table(tmp_path)
    writer = PostponeWriter(target, WAITING, BucketState())
    writer.write(numbered(range(5)))
    assert writer.buffered_bytes > 0
    writer.spill()
    assert writer.buffered_bytes == 0
    assert on_disk(target)
    writer.close()
    assert not on_disk(target)


def test_batches_are_postponed_if_reads_merge_postponed_rows(tmp_path: Path) -> None:
    """A row in a bucket would be older than the postponed row of its key."""
    target = postpone_table(tmp_path, **{"postpone.merge-on-read": "true"})
    wait(target, rows(("+I", 1, "a")))
    table = morrow.open(target.metadata.root)
    table.upsert([{"k": 1, "v": "b"}])
    assert read(target) == {1: "b"}
    assert table.with_options({"postpone.merge-on-read": False}).count() == 0
