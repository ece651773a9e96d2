"""Batch writes to tables with ``bucket`` = -2: rows are visible at once, in the bucket count of their partition."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.manifest_entries import EMPTY_STATS, SimpleStats
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.buckets.routers import BucketState, restore_buckets, restore_partitions
from morrow.writers.files.data_files import Placement
from morrow.writers.target import WriteTarget
from tests.support.commits import committer, data_file, message, partition, table, vectors
from tests.support.written import new_table, rows

FIXED = "postpone.batch-write-fixed-bucket"
DEFAULT = "postpone.default-bucket-num"


def postponed(path: Path, **options: object) -> morrow.Table:
    chosen = {"bucket": -2, **{key.replace("_", "-"): value for key, value in options.items()}}
    return new_table(path, "id INT, p STRING, v INT", keys=["id", "p"], by=["p"], options=chosen)


def layout(table: morrow.Table) -> dict[str, set[str]]:
    """List the non-empty buckets of each partition."""
    found: dict[str, set[str]] = {}
    for path in Path(table.path).glob("p=*/bucket-*"):
        if any(path.iterdir()):
            found.setdefault(path.parent.name, set()).add(path.name)
    return found


def many(partition: str, v: int) -> dict[str, list[object]]:
    return {"id": list(range(50)), "p": [partition] * 50, "v": [v] * 50}


def test_rows_of_a_batch_are_there_at_once(tmp_path: Path) -> None:
    table = postponed(tmp_path)
    table.upsert({"id": [1, 2], "p": ["a", "b"], "v": [1, 2]})
    table.upsert({"id": [1], "p": ["a"], "v": [3]})
    assert rows(table) == [(1, "a", 3), (2, "b", 2)]
    assert layout(table) == {"p=a": {"bucket-0"}, "p=b": {"bucket-0"}}
    table.update({"v": "v + 10"}, "id = 1")
    table.delete("id = 2")
    assert rows(table) == [(1, "a", 13)]


def test_a_partition_keeps_its_number_of_buckets_until_it_is_overwritten(tmp_path: Path) -> None:
    table = postponed(tmp_path, **{DEFAULT: 2})
    table.upsert(many("a", 1))
    table.alter.set_options({DEFAULT: 4})
    table.upsert(many("a", 2))
    table.upsert(many("b", 2))
    four = {f"bucket-{number}" for number in range(4)}
    assert layout(table) == {"p=a": {"bucket-0", "bucket-1"}, "p=b": four}
    assert rows(table, filter="p = 'a' AND id = 7") == [(7, "a", 2)]
    table.overwrite(many("a", 3))
    assert rows(table) == sorted([(i, p, 3 if p == "a" else 2) for i in range(50) for p in "ab"])
    assert layout(table)["p=a"] == four
    table.upsert(many("a", 4))
    assert rows(table, filter="p = 'a'") == [(i, "a", 4) for i in range(50)]


@pytest.mark.parametrize(
    ("options", "buckets"),
    [
        ({"postpone.target-row-num-per-bucket": 20}, 4),  # 3 are needed: a power of two
        ({"postpone.target-row-num-per-bucket": 1, f"{FIXED}.max-parallelism": 5}, 5),
        ({"postpone.target-row-num-per-bucket": 20, DEFAULT: 2}, 2),
        ({"postpone.target-size-per-bucket": "1 b", f"{FIXED}.max-parallelism": 2}, 2),
        ({}, 1),
    ],
)
def test_a_new_partition_gets_the_buckets_that_its_rows_need(
    tmp_path: Path, options: dict[str, object], buckets: int
) -> None:
    table = postponed(tmp_path, **options)
    table.upsert(many("a", 1))
    table.upsert({"id": [1], "p": ["a"], "v": [2]})
    assert layout(table) == {"p=a": {f"bucket-{number}" for number in range(buckets)}}
    assert rows(table) == [(i, "a", 1 + (i == 1)) for i in range(50)]


@pytest.mark.parametrize("option", ["postpone.target-row-num-per-bucket", f"{FIXED}.max-parallelism", DEFAULT])
def test_a_number_of_rows_or_buckets_that_is_not_positive_is_refused(tmp_path: Path, option: str) -> None:
    table = postponed(tmp_path, **{option: 0})
    with pytest.raises(InvalidArgument, match=rf"'{option}'.*positive"):
        table.upsert(many("a", 1))


def test_rows_that_wait_go_on_waiting(tmp_path: Path) -> None:
    table = postponed(tmp_path, **{FIXED: False, DEFAULT: 3})
    table.upsert(many("a", 1))
    assert rows(table) == []
    table.alter.set_options({FIXED: True})
    table.upsert({"id": [99], "p": ["a"], "v": [2]})
    assert rows(table) == [(99, "a", 2)]
    table.compact()
    assert rows(table) == [*((i, "a", 1) for i in range(50)), (99, "a", 2)]


def test_a_stream_of_commits_waits(tmp_path: Path) -> None:
    """A writer with a commit user makes many small commits, so its rows wait in the postponed bucket."""
    table = postponed(tmp_path)
    with table.writer(commit_user="stream") as writer:
        writer.write({"id": [1], "p": ["a"], "v": [1]})
        writer.commit(1)
    assert rows(table) == []
    with table.writer() as writer:
        writer.write({"id": [2], "p": ["a"], "v": [1]})
    assert rows(table) == [(2, "a", 1)]
    table.compact()
    assert rows(table) == [(1, "a", 1), (2, "a", 1)]


# The state of buckets at the beginning of a write

X, Y, Z = partition("x"), partition("y"), partition("z")
STATS = SimpleStats(b"\0\0\0\1", b"\0\0\0\1", (0,))


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    """Create two buckets in x, one of them compacted and with vectors, and one of four buckets in y."""
    metadata = table(tmp_path, keyed=True, partitioned=True, options={"bucket": "2"})
    a, b, c, d = (data_file(name, max_sequence_number=i, value_stats=STATS) for i, name in enumerate("abcd"))
    commit = committer(metadata)
    commit.commit([message(a, b, place=X, total=2), message(c, place=X, bucket=1, total=2)])
    commit.commit([message(place=X, total=2, compact_before=(a, b), compact_after=(b.upgraded(5),))])
    commit.commit([message(place=X, total=2, new_index_files=(vectors("index-0", "b"),))])
    commit.commit([message(d, place=Y, bucket=3, total=4)])
    return metadata


def names(state: BucketState) -> list[tuple[str, int]]:
    return [(file.file_name, file.level) for file in state.files]


def test_the_state_of_some_buckets(metadata: TableMetadata) -> None:
    places = [Placement(X, 0), Placement(Y, 0), Placement(Z, 1)]
    states = restore_buckets(WriteTarget.of(metadata), metadata.latest_snapshot(), places)

    assert list(states) == places
    compacted, empty, new = states.values()
    assert names(compacted) == [("b", 5)]
    assert [file.file_name for file in compacted.index_files] == ["index-0"]
    assert (compacted.total_buckets, compacted.snapshot_id, compacted.max_sequence_number) == (2, 4, 1)
    assert (empty.files, empty.total_buckets, empty.max_sequence_number) == ((), 4, -1)
    assert (new.files, new.total_buckets, new.snapshot_id) == ((), None, 4)


def test_files_come_in_the_order_of_commits(tmp_path: Path) -> None:
    metadata = table(tmp_path, options={"manifest.merge-min-count": "2"})
    for name in "cab":
        committer(metadata).commit([message(data_file(name), data_file(name + name), total=-1)])
    (state,) = restore_partitions(WriteTarget.of(metadata), metadata.latest_snapshot(), None).values()

    assert names(state) == [(name, 0) for name in ("c", "cc", "a", "aa", "b", "bb")]


def test_every_bucket_of_some_partitions(metadata: TableMetadata) -> None:
    target, snapshot = WriteTarget.of(metadata), metadata.latest_snapshot()

    assert set(restore_partitions(target, snapshot, [X])) == {Placement(X, 0), Placement(X, 1)}
    assert set(restore_partitions(target, snapshot, None)) == {Placement(X, 0), Placement(X, 1), Placement(Y, 3)}
    assert restore_partitions(target, snapshot, [Z]) == {}


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    target = WriteTarget.of(table(tmp_path))
    place = Placement(bytes(12), 0)

    assert restore_buckets(target, None, [place]) == {place: BucketState()}
    assert restore_partitions(target, None, None) == {}


@pytest.mark.parametrize("dropped", [False, True])
def test_statistics_of_values_are_left_behind_when_deletes_have_none(tmp_path: Path, dropped: bool) -> None:
    metadata = table(tmp_path, options={"manifest.delete-file-drop-stats": str(dropped).lower()})
    committer(metadata).commit([message(data_file("a", value_stats=STATS), total=-1)])
    (state,) = restore_partitions(WriteTarget.of(metadata), metadata.latest_snapshot(), None).values()

    assert state.files[0].value_stats == (EMPTY_STATS if dropped else STATS)
    assert state.files[0].value_stats_cols == (() if dropped else None)
