"""Overwrites: the files that are removed, whatever was committed in the meantime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import TableMetadata
from tests.support.commits import committer, data_file, live, message, names, partition, table, vectors
from tests.support.table_files import orphans

X, Y, Z = partition("x"), partition("y"), partition("z")


@pytest.fixture
def metadata(tmp_path: Path) -> TableMetadata:
    """Create a table with the file a in partition x, b in y and c in z."""
    metadata = table(tmp_path, partitioned=True)
    committer(metadata).commit(
        [message(data_file(name), place=place, total=-1) for name, place in (("a", X), ("b", Y), ("c", Z))]
    )
    return metadata


@pytest.mark.parametrize(
    ("partitions", "left"),
    [
        ("all", "n"),
        ([X], "bcn"),
        ([X, Z], "bn"),
        ([{"p": "x"}], "bcn"),
        ([{"p": "x"}, {"p": "y"}], "cn"),
        ([{}], "n"),
    ],
)
def test_chosen_partitions_are_replaced(
    metadata: TableMetadata, partitions: Literal["all"] | Sequence[bytes] | Sequence[Mapping[str, str]], left: str
) -> None:
    last = committer(metadata).overwrite(
        [message(data_file("n", rows=3), place=X, total=-1)], partitions=partitions, identifier=5
    )

    assert last is not None
    assert (last.commit_kind, last.commit_identifier) == ("OVERWRITE", 5)
    assert live(metadata) == [(name, 0) for name in left]
    assert last.total_record_count == 10 * (len(left) - 1) + 3


def test_a_dynamic_overwrite_of_nothing_replaces_nothing(metadata: TableMetadata) -> None:
    assert committer(metadata).overwrite([], partitions=[]) is None
    assert len(live(metadata)) == 3


def test_a_file_outside_of_the_partitions_is_refused(metadata: TableMetadata) -> None:
    with pytest.raises(InvalidArgument, match=r"a file for the partition \('y',\) does not belong"):
        committer(metadata).overwrite([message(data_file("n"), place=Y, total=-1)], partitions=[{"p": "x"}])
    with pytest.raises(InvalidArgument, match="'k' is not a partition key; they are: p"):
        committer(metadata).overwrite([], partitions=[{"k": 1}])


def test_truncating_removes_everything(metadata: TableMetadata) -> None:
    last = committer(metadata).truncate()

    assert last is not None
    assert (last.total_record_count, last.delta_record_count, live(metadata)) == (0, -30, [])


def test_dropping_partitions(metadata: TableMetadata) -> None:
    committer(metadata).drop_partitions([{"p": "x"}, {"p": "no such"}])

    assert live(metadata) == [("b", 0), ("c", 0)]
    with pytest.raises(InvalidArgument, match="name the partitions to drop, or truncate the table"):
        committer(metadata).drop_partitions([{}])


def test_overwriting_an_empty_table(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    committer(metadata).overwrite([message(data_file("n"), total=-1)], partitions="all")

    assert live(metadata) == [("n", 0)]


def test_index_files_go_with_their_partitions(tmp_path: Path) -> None:
    metadata = table(tmp_path, partitioned=True, options={"deletion-vectors.enabled": "true"})
    commit = committer(metadata)
    commit.commit([message(data_file(name), place=place, total=-1) for name, place in (("a", X), ("b", Y))])
    commit.commit(
        [
            message(place=place, total=-1, new_index_files=(vectors(f"index-{name}", name),))
            for name, place in (("a", X), ("b", Y))
        ]
    )
    last = commit.overwrite([], partitions=[X])

    assert last is not None
    index = read_index_entries(metadata, last)
    assert index is not None
    assert index["_FILE_NAME"].to_list() == ["index-b"]


# Keyed tables


def test_new_files_that_do_not_overlap_go_to_the_bottom(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    apart = [message(data_file("a", 0, 4), data_file("b", 5, 9)), message(data_file("c", 0, 9), bucket=1)]
    meeting = message(data_file("d", 0, 4), data_file("e", 4, 9), bucket=2)
    committer(metadata).overwrite([*apart, meeting], partitions="all")

    assert live(metadata) == [("a", 5), ("b", 5), ("c", 5), ("d", 0), ("e", 0)]


def test_upgrading_can_be_switched_off(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True, options={"overwrite-upgrade": "false"})
    committer(metadata).overwrite([message(data_file("a"))], partitions="all")

    assert live(metadata) == [("a", 0)]


def test_what_was_overwritten_and_compacted(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    committer(metadata).commit([message(data_file("old"))])
    new = data_file("a")
    last = committer(metadata).overwrite(
        [message(new, compact_before=(new,), compact_after=(new.upgraded(3),))], partitions="all"
    )

    assert last is not None
    assert (metadata.snapshot(2).commit_kind, last.commit_kind) == ("OVERWRITE", "COMPACT")
    assert live(metadata) == [("a", 3)]


def test_changelog_files_are_not_committed(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    log = data_file("log")
    Path(metadata.root, "bucket-0").mkdir()
    Path(metadata.root, "bucket-0", "log").touch()
    last = committer(metadata).overwrite([message(data_file("a"), changelog_files=(log,))], partitions="all")

    assert last is not None
    assert last.changelog_manifest_list is None
    assert names(f"{metadata.root}/bucket-0") == []


@pytest.mark.parametrize(("bucket", "left"), [("-2", []), ("1", ["postponed"])])
def test_rows_that_wait_for_a_bucket(tmp_path: Path, bucket: str, left: list[str]) -> None:
    metadata = table(tmp_path, keyed=True, options={"bucket": bucket})
    committer(metadata).commit([message(data_file("postponed"), bucket=-2, total=-2), message(data_file("a"))])
    committer(metadata).truncate()

    assert [name for name, _ in live(metadata)] == left


@pytest.mark.parametrize("options", [{"merge-engine": "first-row"}, {"deletion-vectors.enabled": "true"}], ids=str)
def test_rows_that_wait_for_compaction_are_replaced_in_one_snapshot(options: dict[str, str], tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table(
        "db.t", schema="id INT, v STRING", primary_keys=["id"], options={"bucket": "1", **options}
    )
    table.upsert([{"id": 1, "v": "a"}, {"id": 2, "v": "a"}])

    last = table.overwrite([{"id": 2, "v": "b"}, {"id": 3, "v": "b"}])

    assert last is not None
    assert last.commit_kind == "OVERWRITE"
    assert last.id == table.snapshots()[-2].id + 1
    assert table.scan().to_polars().rows() == [(2, "b"), (3, "b")]
    assert table.scan().verify() == 1
    assert orphans(table.path) == set()
