"""Merges of manifests: when they happen, which manifests they take, and that the table stays the same."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.local import disable_fsync
from morrow.engine.plan.manifests import list_manifests
from morrow.engine.plan.metadata import TableMetadata
from tests.support.commits import committer, data_file, live, live_frame, message, names, partition, table


def listed(metadata: TableMetadata) -> list[tuple[int, int]]:
    """Count the files added and deleted by each manifest of the newest snapshot."""
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    frame = list_manifests(metadata, snapshot)
    return list(zip(frame["_NUM_ADDED_FILES"].to_list(), frame["_NUM_DELETED_FILES"].to_list(), strict=True))


def long_names(count: int) -> list[str]:
    """Build file names that barely compress."""
    return [f"data-{i}-{sha256(b'%d' % i).hexdigest()}" for i in range(count)]


def append(metadata: TableMetadata, *files: str) -> None:
    committer(metadata).commit([message(data_file(file), total=-1) for file in files])


def replace(metadata: TableMetadata, old: str, new: str) -> None:
    committer(metadata).commit([message(total=-1, compact_before=(data_file(old),), compact_after=(data_file(new),))])


def test_small_manifests_are_merged_when_there_are_many(tmp_path: Path) -> None:
    metadata = table(tmp_path, options={"manifest.merge-min-count": "3"})
    for file in "abc":
        append(metadata, file)
    assert listed(metadata) == [(1, 0)] * 3

    append(metadata, "d")
    assert listed(metadata) == [(3, 0), (1, 0)]
    append(metadata, "e", "f")
    assert listed(metadata) == [(3, 0), (1, 0), (2, 0)]
    append(metadata, "g")
    assert listed(metadata) == [(6, 0), (1, 0)]


def test_thirty_manifests_are_many(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    for i in range(31):
        append(metadata, f"f{i}")

    assert listed(metadata) == [(30, 0), (1, 0)]


def test_added_and_deleted_files_cancel_out(tmp_path: Path) -> None:
    metadata = table(tmp_path, options={"manifest.merge-min-count": "2"})
    append(metadata, "a", "b")
    replace(metadata, "a", "c")
    append(metadata, "d")

    assert listed(metadata) == [(2, 0), (1, 0)]
    assert live(metadata) == [("b", 0), ("c", 0), ("d", 0)]


def test_a_merge_that_leaves_nothing_writes_nothing(tmp_path: Path) -> None:
    metadata = table(tmp_path, options={"manifest.merge-min-count": "2"})
    append(metadata, "a")
    committer(metadata).truncate()
    append(metadata, "b")

    assert listed(metadata) == [(1, 0)]


def test_a_delete_of_an_older_manifest_stays(tmp_path: Path) -> None:
    """The first commit's manifest has reached the target size, so it is not merged with the others."""
    options = {"manifest.merge-min-count": "2", "manifest.target-file-size": "8 kb"}
    metadata = table(tmp_path, options=options)
    append(metadata, *long_names(1000))
    replace(metadata, long_names(8)[-1], "new")
    append(metadata, "a")
    append(metadata, "b")

    assert listed(metadata) == [(1000, 0), (2, 1), (1, 0)]
    assert live_frame(metadata).height == 1002


def test_manifests_are_rolled_at_the_target_size(tmp_path: Path) -> None:
    metadata = table(tmp_path, options={"manifest.target-file-size": "8 kb"})
    append(metadata, *long_names(3500))

    assert [added for added, _ in listed(metadata)] == [1000, 1000, 1000, 500]
    assert live_frame(metadata)["_FILE_NAME"].n_unique() == 3500


def test_everything_is_rewritten_when_enough_has_come_together(tmp_path: Path) -> None:
    """The first manifest is large enough to be skipped, but one of its files was deleted."""
    options = {"manifest.target-file-size": "2 kb", "manifest.full-compaction-threshold-size": "3 kb"}
    metadata = table(tmp_path, options=options)
    append(metadata, *long_names(600))
    replace(metadata, long_names(1)[0], "new")
    assert listed(metadata) == [(600, 0), (1, 1)]

    append(metadata, "b")
    assert listed(metadata)[-1] == (1, 0)
    append(metadata, "c")
    assert [deleted for _, deleted in listed(metadata)] == [0] * len(listed(metadata))
    assert live_frame(metadata).height == 602


def test_large_manifests_of_other_partitions_are_left_alone(tmp_path: Path) -> None:
    options = {"manifest.target-file-size": "2 kb", "manifest.full-compaction-threshold-size": "3 kb"}
    metadata = table(tmp_path, partitioned=True, options=options)
    commit = committer(metadata)
    for place in "xy":
        files = [data_file(f"{place}-{name}") for name in long_names(600)]
        commit.commit([message(*files, place=partition(place), total=-1)])
    first, second = list_manifests(metadata, metadata.snapshot(2))["_FILE_NAME"].to_list()
    commit.commit(
        [
            message(
                place=partition("x"), total=-1, compact_before=(data_file(f"x-{long_names(1)[0]}"),), compact_after=()
            )
        ]
    )
    commit.commit([message(data_file("b"), place=partition("x"), total=-1)])
    commit.commit([message(data_file("c"), place=partition("x"), total=-1)])

    now = list_manifests(metadata, metadata.snapshot(5))["_FILE_NAME"].to_list()
    assert second in now
    assert first not in now
    assert live_frame(metadata).height == 1201


def test_a_threshold_of_zero_is_refused(tmp_path: Path) -> None:
    metadata = table(tmp_path, options={"manifest.full-compaction-threshold-size": "0 b"})
    with pytest.raises(InvalidArgument, match=r"'manifest\.full-compaction-threshold-size' must be greater than 0"):
        append(metadata, "a")
    assert names(f"{metadata.root}/manifest") == []


@settings(max_examples=settings().max_examples // 2)
@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8),
    merge_count=st.integers(1, 4),
    target=st.sampled_from(["1 kb", "4 kb", "8 mb"]),
    threshold=st.sampled_from(["1 kb", "4 kb", "16 mb"]),
)
def test_merging_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    merge_count: int,
    target: str,
    threshold: str,
) -> None:
    """Each step adds some files and deletes some of the oldest."""
    options = {
        "manifest.merge-min-count": str(merge_count),
        "manifest.target-file-size": target,
        "manifest.full-compaction-threshold-size": threshold,
    }
    metadata = table(tmp_path_factory.mktemp("merging"), options=options)
    commit = committer(metadata)
    there: list[str] = []
    with disable_fsync():
        for number, (added, deleted) in enumerate(steps):
            new, old = [f"f{number}-{i}" for i in range(added)], there[:deleted]
            there = there[deleted:] + new
            parts = {"compact_before": _files(old), "compact_after": _files(new)}
            if commit.commit([message(total=-1, **parts)]) is not None:
                assert sorted(there) == [name for name, _ in live(metadata)]
                _check_manifests(metadata)


def _files(files: list[str]) -> tuple[object, ...]:
    return tuple(map(data_file, files))


def _check_manifests(metadata: TableMetadata) -> None:
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    frame = list_manifests(metadata, snapshot)
    assert frame["_FILE_NAME"].n_unique() == frame.height
    added = frame.select(pl.col("_NUM_ADDED_FILES").sum() - pl.col("_NUM_DELETED_FILES").sum()).item()
    assert added == live_frame(metadata).height
