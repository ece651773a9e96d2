"""The writer of one bucket: its messages, its files, and the rows that readers see after any history."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.io.local import disable_fsync
from morrow.writers.buckets.routers import BucketState
from morrow.writers.keyed import writer as module
from morrow.writers.keyed.writer import MergeTreeWriter, SortBuffer, compact_bucket
from tests.support.hostile_names import renamings
from tests.writers.keyed.tables import (
    FEWER,
    PLACE,
    commit,
    keyed_table,
    levels,
    names,
    numbered,
    on_disk,
    opened,
    read,
    rows,
    state,
    write,
    writer,
)


def test_rows_go_to_level_zero_with_numbers_that_continue(tmp_path: Path) -> None:
    target = keyed_table(tmp_path)
    write(target, rows(("+I", 2, "b"), ("+I", 1, "a"), ("+U", 2, "c")))
    message = write(target, rows(("-D", 1, "a"), ("+I", 3, "d")))
    (file,) = message.new_files
    assert (file.level, file.row_count, file.delete_row_count) == (0, 2, 1)
    assert (file.min_sequence_number, file.max_sequence_number) == (3, 4)
    assert (message.compact_before, message.compact_after, message.total_buckets) == ((), (), 1)
    assert read(target) == {2: "c", 3: "d"}


def test_a_writer_goes_on_after_a_commit(tmp_path: Path) -> None:
    target = keyed_table(tmp_path)
    bucket = writer(target)
    for value in "abc":
        bucket.write(rows(("+I", 1, value)))
        commit(target, bucket.prepare_commit())
    assert bucket.prepare_commit().is_empty
    assert read(target) == {1: "c"}
    assert [file.min_sequence_number for file in state(target).files] == [0, 1, 2]


def test_what_a_compaction_replaces_was_committed_by_the_append_before_it(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"num-sorted-run.compaction-trigger": "2"})
    first = write(target, numbered(range(5)))
    second = write(target, numbered(range(5, 20)))
    assert names(second.compact_before) == names((*first.new_files, *second.new_files))
    assert [file.level for file in second.compact_after] == [2]
    assert levels(target) == [(2, 20)]


def test_a_file_moved_twice_before_a_commit_is_named_as_it_was_and_as_it_is(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"compaction.force-up-level-0": "true", "num-levels": "6"})
    bucket = writer(target)
    bucket.write(numbered(range(5)))
    bucket.compact(full=False)
    bucket.compact(full=True)
    message = bucket.prepare_commit()
    assert [(file.file_name, file.level) for file in message.compact_before] == [(message.new_files[0].file_name, 0)]
    assert [(file.file_name, file.level) for file in message.compact_after] == [(message.new_files[0].file_name, 5)]
    commit(target, message)
    assert read(target) == {k: f"v{k}" for k in range(5)}


def test_a_file_that_came_and_went_before_a_commit_is_deleted(tmp_path: Path) -> None:
    target = keyed_table(tmp_path)
    bucket = writer(target)
    for value in "ab":
        bucket.write(numbered(range(5), value))
        bucket.compact(full=True)  # the second compaction rewrites the first one's file
    bucket.write(rows(("-D", 0, None)))
    bucket.compact(full=True)
    message = bucket.prepare_commit()
    assert on_disk(target) == names((*message.new_files, *message.compact_after))
    commit(target, message)
    assert read(target) == {k: f"b{k}" for k in range(1, 5)}


def test_closing_deletes_what_was_not_handed_over(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"changelog-producer": "input"})
    write(target, numbered(range(5)))
    before = on_disk(target)
    bucket = writer(target)
    bucket.write(numbered(range(3, 9)))
    bucket.compact(full=True)
    bucket.write(numbered(range(3)))
    bucket.close()
    assert on_disk(target) == before
    assert bucket.prepare_commit().is_empty


def test_the_input_is_the_changelog(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"changelog-producer": "input"})
    message = write(target, rows(("+I", 2, "b"), ("-U", 1, "a"), ("+U", 1, "c")), rows(("-D", 2, "b")))
    (changelog,) = message.changelog_files
    assert (changelog.file_name[:10], changelog.row_count, changelog.level) == ("changelog-", 4, 0)
    assert [file.row_count for file in message.new_files] == [2]


@pytest.mark.parametrize("option", ["ignore-delete", "ignore-update-before"])
def test_kinds_that_the_table_takes_no_notice_of(tmp_path: Path, option: str) -> None:
    target = keyed_table(tmp_path, {option: "true"})
    message = write(target, rows(("-U", 1, "a"), ("+I", 2, "b")))
    assert [(file.row_count, file.max_sequence_number) for file in message.new_files] == [(1, 0)]


def test_a_write_only_table_is_compacted_by_others(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"write-only": "true", "num-sorted-run.compaction-trigger": "2"})
    for _ in range(3):
        write(target, numbered(range(5)))
    assert levels(target) == [(0, 5)] * 3
    with pytest.raises(InvalidArgument, match="write-only"):
        writer(target).compact(full=True)
    commit(target, compact_bucket(target, PLACE, state(target), full=True))
    assert levels(target) == [(2, 5)]


def test_without_waiting_compaction_is_put_off_until_too_many_runs_have_gathered(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"num-sorted-run.compaction-trigger": "2", "num-sorted-run.stop-trigger": "3"})
    bucket = writer(target)
    for _ in range(5):
        assert levels(target) in ([(0, 2)] * n for n in range(5))
        bucket.write(numbered(range(2)))
        commit(target, bucket.prepare_commit(wait_compaction=False))
    assert levels(target) == [(2, 2)]


def test_lookups_do_not_wait_unless_they_may(tmp_path: Path) -> None:
    for folder, wait in (("at once", "true"), ("later", "false")):
        target = keyed_table(tmp_path / folder, {"deletion-vectors.enabled": "true", "lookup-wait": wait})
        bucket = writer(target)
        bucket.write(numbered(range(2)))
        message = bucket.prepare_commit(wait_compaction=False)
        assert bool(message.compact_after) == (wait == "true")


def test_a_buffer_that_may_not_spill_goes_to_level_zero(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"write-buffer-spillable": "false"})
    bucket = writer(target)
    bucket.write(numbered(range(5)))
    assert bucket.buffered_bytes > 0
    bucket.spill()
    assert bucket.buffered_bytes == 0
    bucket.write(numbered(range(5)))
    assert [file.row_count for file in bucket.prepare_commit().new_files] == [5, 5]


def test_an_overwrite_begins_as_if_the_bucket_were_empty(tmp_path: Path) -> None:
    target = keyed_table(tmp_path)
    write(target, numbered(range(5)))
    bucket = MergeTreeWriter(target, PLACE, state(target), ignore_previous=True)
    bucket.write(numbered(range(2)))
    assert bucket.prepare_commit().new_files[0].min_sequence_number == 0


def test_an_empty_bucket_has_the_buckets_of_the_option(tmp_path: Path) -> None:
    target = opened(keyed_table(tmp_path, {"bucket": "3"}).metadata.root)
    assert MergeTreeWriter(target, PLACE, BucketState()).prepare_commit().total_buckets == 3


# --- random histories ---

KIND = st.sampled_from(("+I", "+U", "-D", "-D"))
BATCH = st.lists(st.tuples(KIND, st.integers(0, 12)), max_size=8)
STEP = st.one_of(BATCH, st.sampled_from(("spill", "compact", "full", "commit", "commit")))
TREES = st.fixed_dictionaries(
    {
        "num-sorted-run.compaction-trigger": st.sampled_from(("1", "2", "3")),
        "num-levels": st.sampled_from(("2", "3", "6")),
        "target-file-size": st.sampled_from(("1 b", "128 mb")),
        "compaction.force-up-level-0": st.sampled_from(("true", "false")),
        "write-buffer-spillable": st.sampled_from(("true", "false")),
        "deletion-vectors.enabled": st.sampled_from(("true", "false")),
        "changelog-producer": st.sampled_from(("none", "lookup", "full-compaction")),
    }
).filter(
    lambda options: (options["deletion-vectors.enabled"], options["changelog-producer"]) != ("true", "full-compaction")
)


@FEWER
@given(TREES, st.lists(STEP, max_size=12), renamings("kv"))
def test_after_any_history_a_read_has_what_the_newest_versions_say(
    options: dict[str, str], steps: list[str | list[tuple[str, int]]], columns: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder, disable_fsync():
        target = keyed_table(Path(folder), options, tuple(columns.values()))
        bucket, model = writer(target), {}
        for number, step in enumerate([*steps, "commit"]):
            if step == "commit":
                commit(target, bucket.prepare_commit())
                assert read(target) == model
            elif step == "spill":
                bucket.spill()
            elif step in ("compact", "full"):
                bucket.compact(full=step == "full")
            else:
                bucket.write(rows(*((kind, k, f"{number}") for kind, k in step)).rename(columns))
                for kind, k in step:
                    model[k] = f"{number}" if kind != "-D" else None
                model = {k: v for k, v in model.items() if v is not None}
        assert on_disk(target) >= names(state(target).files)


# Rows before they are written: numbered, sorted, merged, in memory or spilled.


@contextmanager
def tiny_runs() -> Iterator[None]:
    """Limit spilled runs and batches to a few rows, and limit the number of runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_RUN_BYTES", 100)
        patch.setattr(module, "BATCH_BYTES", 60)
        patch.setattr(module, "MIN_AHEAD_BYTES", 100)
        patch.setattr(module, "MAX_RUNS", 5)
        patch.setattr(module, "MERGED_RUNS", 3)
        yield


def content(frames: Iterator[pl.DataFrame]) -> list[tuple[int, str, int, int]]:
    """List the rows as ``(k, v, number, kind)``."""
    return [row for frame in frames for row in frame.select("k", "v", SEQUENCE_NUMBER, VALUE_KIND).rows()]


def test_rows_are_numbered_as_they_arrive_and_the_newest_of_a_key_is_kept(tmp_path: Path) -> None:
    buffer = SortBuffer(keyed_table(tmp_path), next_number=7)
    buffer.add(rows(("+I", 2, "b"), ("+I", 1, "a")))
    buffer.add(rows(("-D", 2, "b"), ("+U", 1, "c")))
    assert content(buffer.versions()) == [(1, "a", 8, 0), (1, "c", 10, 2), (2, "b", 7, 0), (2, "b", 9, 3)]
    assert content(buffer.merged()) == [(1, "c", 10, 2), (2, "b", 9, 3)]
    assert buffer.next_number == 11


@pytest.mark.parametrize("kind", ["+I", "-D"])
def test_rows_of_one_kind_keep_it_and_their_numbers(kind: str, tmp_path: Path) -> None:
    buffer = SortBuffer(keyed_table(tmp_path), next_number=2**40)
    buffer.add(rows(("+I", 9, "dropped")))
    buffer.clear()
    for k in (3, 1, 2):
        buffer.add(rows((kind, k, "v"), (kind, k + 10, "w")))
    expected = [(1, 3), (2, 5), (3, 1), (11, 4), (12, 6), (13, 2)]
    code = rows((kind, 1, ""))[VALUE_KIND].item()
    for content_of in (buffer.merged, buffer.versions):
        found = content(content_of())
        assert [(k, number - 2**40, kind_) for k, _, number, kind_ in found] == [(*each, code) for each in expected]


def test_a_sequence_field_orders_before_arrival(tmp_path: Path) -> None:
    buffer = SortBuffer(keyed_table(tmp_path, {"sequence.field": "v"}), next_number=0)
    buffer.add(rows(("+I", 1, "z"), ("+I", 1, "a"), ("+I", 1, None), ("+I", 2, "a"), ("+I", 2, "a")))
    assert content(buffer.merged()) == [(1, "z", 0, 0), (2, "a", 4, 0)]
    assert [number for _, _, number, _ in content(buffer.versions())] == [2, 1, 0, 3, 4]


def test_first_row_keeps_what_came_first(tmp_path: Path) -> None:
    buffer = SortBuffer(keyed_table(tmp_path, {"merge-engine": "first-row"}), next_number=0)
    buffer.add(rows(("+I", 1, "a"), ("+I", 1, "b")))
    assert content(buffer.merged()) == [(1, "a", 0, 0)]


def test_spilling_gives_memory_back_and_clearing_removes_the_files(tmp_path: Path) -> None:
    with tiny_runs(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        buffer = SortBuffer(keyed_table(tmp_path), next_number=0)
        buffer.add(rows(*(("+I", k, "v") for k in range(100))))
        assert buffer.bytes > 0
        buffer.spill()
        assert (buffer.bytes, buffer.is_empty) == (0, False)
        assert list(tmp_path.glob("morrow-spill-*/*"))
        buffer.clear()
        assert buffer.is_empty
        assert not list(tmp_path.glob("morrow-spill-*"))


GIVEN = st.tuples(st.sampled_from(("+I", "+U", "-D")), st.integers(0, 9), st.sampled_from(("a", "b", None)))


@FEWER
@given(
    st.lists(st.tuples(st.lists(GIVEN, max_size=20), st.booleans()), max_size=6),
    st.sampled_from(({}, {"sequence.field": "v"}, {"sequence.field": "v", "sequence.field.sort-order": "descending"})),
)
def test_spilled_rows_come_to_the_same_as_rows_in_memory(
    batches: list[tuple[list[tuple[str, int, str | None]], bool]], options: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder, tiny_runs():
        target = keyed_table(Path(folder), options)
        spilled, in_memory = SortBuffer(target, 0), SortBuffer(target, 0)
        for batch, spill in batches:
            for buffer in (spilled, in_memory):
                buffer.add(rows(*batch))
            if spill:
                spilled.spill()
        if not in_memory.is_empty:
            assert content(spilled.versions()) == content(in_memory.versions())
            assert content(spilled.merged()) == content(in_memory.merged())
        assert spilled.next_number == in_memory.next_number
        spilled.clear()
