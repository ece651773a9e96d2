"""The state of buckets at the beginning of a write."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.format.manifest_entries import EMPTY_STATS, SimpleStats
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.buckets.routers import BucketState, restore_buckets, restore_partitions
from morrow.writers.files.data_files import Placement
from morrow.writers.target import WriteTarget
from tests.support.commits import committer, data_file, message, partition, table, vectors

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
