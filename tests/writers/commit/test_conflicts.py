"""The conflict rules of commits: each example gives the table's content and the new messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import CommitConflict, InvalidArgument
from morrow.engine.format.manifest_entries import IndexFileMeta
from morrow.engine.format.snapshot import OVERWRITE
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.writers.commit.conflicts import AlreadyCommitted
from morrow.writers.commit.messages import CommitMessage, make_append_changes
from morrow.writers.commit.snapshot_metadata import SnapshotRequest
from tests.support.commits import committer, data_file, live, message, names, partition, table, vectors
from tests.support.recording_store import RecordingStore

A, B, C = (data_file(name) for name in "abc")


def refused(metadata: TableMetadata, *messages: CommitMessage) -> str:
    """Commit messages that conflict, check that nothing changed, and return the reason."""
    before = metadata.latest_snapshot()
    with pytest.raises(CommitConflict) as caught:
        committer(metadata).commit(messages, check_append_files=True)
    assert metadata.latest_snapshot() == before
    return str(caught.value).split(": ", 1)[1].partition("; ")[0]


# Files


def test_a_file_to_delete_must_be_there(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    committer(metadata).commit([message(A)])
    committer(metadata).commit([message(compact_before=(A,), compact_after=(A.upgraded(5),))])

    assert (
        refused(metadata, message(compact_before=(A,)))
        == "the file a (bucket 0, level 0) is to be deleted and is not there"
    )


def test_a_file_to_add_must_be_new(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    committer(metadata).commit([message(A)])

    with pytest.raises(AlreadyCommitted, match=r"the file a of these messages is in the table"):
        committer(metadata).commit([message(A)], check_append_files=True)


def test_appended_files_are_checked_only_when_asked_for(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    committer(metadata).commit([message(A)])
    last = committer(metadata).commit([message(data_file("b"), total=2)])

    assert last is not None
    assert last.id == 2


def test_one_commit_does_not_add_a_file_twice(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    committer(metadata).commit([message(A)])

    assert refused(metadata, message(B, B)).endswith("is added or deleted twice by one commit")
    assert refused(metadata, message(deleted_files=(A, A))).endswith("is added or deleted twice by one commit")


def test_other_partitions_and_buckets_do_not_matter(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True, partitioned=True, options={"bucket": "2"})
    x, y = partition("x"), partition("y")
    commit = committer(metadata)
    commit.commit([message(A, place=x, total=2), message(A, place=y, bucket=1, total=2)])
    commit.commit([message(place=x, total=2, compact_before=(A,), compact_after=(A.upgraded(5),))])

    assert commit.commit([message(place=y, bucket=1, total=2, compact_before=(A,), compact_after=())]) is not None
    assert "(partition p='y')" in _message(metadata, message(place=y, total=2, compact_before=(A,)))


def _message(metadata: TableMetadata, bad: CommitMessage) -> str:
    with pytest.raises(CommitConflict) as caught:
        committer(metadata).commit([bad])
    return str(caught.value)


# Keys


@pytest.mark.parametrize(
    ("low", "high", "overlaps"),
    [(0, 4, False), (4, 5, True), (5, 5, True), (7, 7, True), (9, 12, True), (10, 12, False), (0, 99, True)],
)
def test_files_of_a_level_do_not_overlap(tmp_path: Path, low: int, high: int, overlaps: bool) -> None:
    metadata = table(tmp_path, keyed=True)
    commit = committer(metadata)
    commit.commit([message(data_file("a", 5, 9, level=5), data_file("b", 20, 30, level=5))])
    added = message(compact_after=(data_file("c", low, high, level=5),))
    if not overlaps:
        assert commit.commit([added]) is not None
    elif high == 99:
        assert "overlap in level 5 of bucket 0" in refused(metadata, added)
    else:
        assert refused(metadata, added) in (
            "the keys of the files a and c overlap in level 5 of bucket 0",
            "the keys of the files c and a overlap in level 5 of bucket 0",
        )


def test_level_0_and_other_levels_may_overlap(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    committer(metadata).commit([message(data_file("a"), data_file("b"), data_file("c", level=1))])
    committer(metadata).commit([message(data_file("d"), compact_after=(data_file("e", level=2),))])

    assert live(metadata) == [("a", 0), ("b", 0), ("c", 1), ("d", 0), ("e", 2)]


def test_a_compaction_replaces_what_it_overlaps(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    old, new = data_file("a", 0, 9, level=5), data_file("b", 0, 20, level=5)
    committer(metadata).commit([message(old)])
    committer(metadata).commit([message(compact_before=(old,), compact_after=(new,))])

    assert live(metadata) == [("b", 5)]


# Buckets


def test_the_number_of_buckets_changes_only_by_overwriting(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True, options={"bucket": "2"})
    committer(metadata).commit([message(A, total=1)])

    assert refused(metadata, message(B, total=2)) == "the number of buckets changed from 1 to 2 without overwriting"
    last = committer(metadata).overwrite([message(B, total=2)], partitions="all")
    assert last is not None
    assert live(metadata) == [("b", 5)]


def test_partitions_may_have_different_numbers_of_buckets(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True, partitioned=True)
    committer(metadata).commit([message(A, place=partition("x"), total=1)])
    last = committer(metadata).commit([message(A, place=partition("y"), total=2)], check_append_files=True)

    assert last is not None


# Deletion vectors of tables without buckets

VECTORS = {"deletion-vectors.enabled": "true"}


def test_a_vector_needs_its_file(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=VECTORS)
    committer(metadata).commit([message(A, B, total=-1)])
    committer(metadata).commit([message(total=-1, compact_before=(A, B), compact_after=(C,))])

    why = refused(metadata, message(total=-1, new_index_files=(vectors("index-0", "a"),)))
    assert why == "the file a, whose rows are to be deleted, is not there"


def test_vectors_of_files_that_are_gone(tmp_path: Path) -> None:
    """pypaimon's overwrites leave them."""
    metadata = table(tmp_path, options=VECTORS)
    left, kept = vectors("index-0", "a", "b"), vectors("index-1", "a", "b")
    committer(metadata).commit([message(A, B, total=-1)])
    committer(metadata).commit([message(total=-1, new_index_files=(left,))])
    changes = make_append_changes([message(total=-1, deleted_files=(A,))])
    committer(metadata)._committer.create(SnapshotRequest(OVERWRITE, 1, changes, check=False))

    _replace_vectors(metadata, left, kept)
    assert _index_names(metadata) == ["index-1"]
    committer(metadata).commit([message(total=-1, deleted_files=(B,), deleted_index_files=(kept,))])
    assert (live(metadata), _index_names(metadata)) == ([], [])


def test_two_deletes_of_the_same_file_meet(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=VECTORS)
    committer(metadata).commit([message(A, B, total=-1)])
    committer(metadata).commit([message(total=-1, new_index_files=(vectors("index-0", "a"),))])

    why = refused(metadata, message(total=-1, new_index_files=(vectors("index-1", "a"),)))
    assert why == "the file a (bucket 0, level 0) is to be deleted and is not there"


def test_deletes_of_different_files_do_not_meet(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=VECTORS)
    committer(metadata).commit([message(A, B, total=-1)])
    committer(metadata).commit([message(total=-1, new_index_files=(vectors("index-0", "a"),))])
    committer(metadata).commit([message(total=-1, new_index_files=(vectors("index-1", "b"),))])

    assert _index_names(metadata) == ["index-0", "index-1"]


def test_a_vector_follows_the_one_it_was_made_from(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=VECTORS)
    first, second, third = (vectors(f"index-{i}", "a", "b") for i in range(3))
    committer(metadata).commit([message(A, B, total=-1)])
    committer(metadata).commit([message(total=-1, new_index_files=(first,))])
    _replace_vectors(metadata, first, second)

    assert _index_names(metadata) == ["index-1"]
    with pytest.raises(CommitConflict):
        _replace_vectors(metadata, first, third)


def test_a_compaction_takes_the_vectors_it_has_seen(tmp_path: Path) -> None:
    metadata = table(tmp_path, options=VECTORS)
    seen = vectors("index-0", "a")
    committer(metadata).commit([message(A, B, total=-1)])
    compaction = {"compact_before": (A, B), "compact_after": (C,)}
    committer(metadata).commit([message(total=-1, new_index_files=(seen,))])

    assert "is to be deleted and is not there" in refused(metadata, message(total=-1, **compaction))
    committer(metadata).commit([message(total=-1, **compaction, compact_deleted_index_files=(seen,))])
    assert (live(metadata), _index_names(metadata)) == ([("c", 0)], [])


def _replace_vectors(metadata: TableMetadata, old: IndexFileMeta, new: IndexFileMeta) -> None:
    committer(metadata).commit([message(total=-1, new_index_files=(new,), deleted_index_files=(old,))])


def _index_names(metadata: TableMetadata) -> list[str]:
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    frame = read_index_entries(metadata, snapshot)
    return [] if frame is None else sorted(frame["_FILE_NAME"].to_list())


# Index files of buckets


def test_a_bucket_has_one_index_file_of_a_kind(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True, options=VECTORS)
    committer(metadata).commit([message(A, bucket=0), message(A, bucket=1)])
    committer(metadata).commit(
        [message(new_index_files=(vectors("index-0", "a"),)), message(bucket=1, new_index_files=(_hashes("hash-1"),))]
    )
    index_2, hash_2 = vectors("index-2", "a"), _hashes("hash-2")
    replaced = (vectors("index-0", "a"),)
    committer(metadata).commit([message(new_index_files=(index_2, hash_2), deleted_index_files=replaced)])
    assert _index_names(metadata) == ["hash-1", "hash-2", "index-2"]

    committer(metadata).commit([message(deleted_index_files=(vectors("index-2", "a"),))])
    assert _index_names(metadata) == ["hash-1", "hash-2"]
    with pytest.raises(InvalidArgument, match=r"two index files for one bucket \(index-3, index-4\)"):
        committer(metadata).commit([message(new_index_files=(vectors("index-3", "a"), vectors("index-4", "a")))])


def test_an_index_file_that_a_writer_has_not_seen(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True, options=VECTORS)
    committer(metadata).commit([message(A)])
    committer(metadata).commit([message(new_index_files=(vectors("index-0", "a"),))])

    for late in (
        message(new_index_files=(vectors("index-1", "a"),)),
        message(new_index_files=(vectors("index-1", "a"),), deleted_index_files=(vectors("index-before", "a"),)),
    ):
        assert "index-0 was written by somebody else" in _why(metadata, late)


def _why(metadata: TableMetadata, late: CommitMessage) -> str:
    with pytest.raises(CommitConflict) as caught:
        committer(metadata).commit([late])
    return str(caught.value)


def _hashes(name: str) -> IndexFileMeta:
    return IndexFileMeta(index_type="HASH", file_name=name, file_size=8, row_count=2)


# Reads of a conflict check


def test_only_what_is_new_is_read_again(tmp_path: Path) -> None:
    store = RecordingStore()
    metadata = table(tmp_path, keyed=True, store=store)
    commit = committer(metadata)
    commit.commit([message(A)])
    commit.commit([message(compact_before=(A,), compact_after=(A.upgraded(5),))])
    old = {name for name in names(f"{metadata.root}/manifest") if not name.startswith("manifest-list")}
    committer(metadata).commit([message(B)])

    METADATA_CACHE.clear()
    store.reads.clear()
    commit.commit([message(compact_before=(B,), compact_after=(B.upgraded(1),))])
    assert old.isdisjoint(store.reads)
    assert live(metadata) == [("a", 5), ("b", 1)]


def test_a_history_that_was_rolled_back_is_read_anew(tmp_path: Path) -> None:
    """The snapshots that this committer remembers are gone, and others have taken their ids."""
    metadata = table(tmp_path, keyed=True)
    commit = committer(metadata)
    commit.commit([message(A)])
    commit.commit([message(compact_before=(A,), compact_after=(A.upgraded(5),))])
    for snapshot_id in (1, 2):
        Path(metadata.paths.snapshot(snapshot_id)).unlink()
    for file in (B, C):
        committer(metadata).commit([message(file)])

    commit.commit([message(compact_before=(B,), compact_after=(B.upgraded(5),))])
    assert live(metadata) == [("b", 5), ("c", 0)]


def test_two_compactions_that_lift_one_file_are_in_conflict(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    committer(metadata).commit([message(A)])
    lift = message(compact_before=(A,), compact_after=(A.upgraded(5),))
    committer(metadata).commit([lift])

    assert refused(metadata, lift) == "the file a (bucket 0, level 5) is to be added and is already there"
