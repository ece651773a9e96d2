"""The result of a commit: snapshots, counts and hints, and nothing at all if it fails."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from morrow.engine.errors import CommitConflict, FileMissing
from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.manifests import list_manifests
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.target import WriteTarget
from tests.support.commits import add_schema, committer, data_file, live, message, names, partition, table, vectors

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def test_the_first_commit(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    snapshot = committer(metadata, "me").commit([message(data_file("a"), data_file("b", rows=5))])

    assert snapshot == metadata.latest_snapshot()
    assert (snapshot.id, snapshot.schema_id, snapshot.commit_kind) == (1, 0, "APPEND")
    assert (snapshot.commit_user, snapshot.commit_identifier) == ("me", BATCH_COMMIT_IDENTIFIER)
    assert (snapshot.total_record_count, snapshot.delta_record_count, snapshot.changelog_record_count) == (15, 15, None)
    assert (snapshot.index_manifest, snapshot.watermark, snapshot.next_row_id) == (None, None, 0)
    assert live(metadata) == [("a", 0), ("b", 0)]
    assert names(metadata.paths.snapshot_dir) == ["LATEST", "snapshot-1"]
    assert Path(metadata.paths.snapshot_dir, "LATEST").read_text() == "1"


def test_files_are_named_as_java_names_them(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    committer(metadata).commit([message(data_file("a"), new_index_files=(vectors("index-0", "a"),))])

    one_uuid = {re.search(UUID, name)[0] for name in names(f"{metadata.root}/manifest")}  # type: ignore[index]  # there is one
    assert len(one_uuid) == 1
    assert [re.sub(UUID, "x", name) for name in names(f"{metadata.root}/manifest")] == [
        "index-manifest-x-0",
        "manifest-x-0",
        "manifest-list-x-0",
        "manifest-list-x-1",
    ]


def test_rows_and_their_compaction_are_two_snapshots(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    commit = committer(metadata)
    commit.commit([message(data_file("a"))], identifier=1)
    new, merged = data_file("b"), data_file("c", level=5, rows=12)
    compaction = {"compact_before": (data_file("a"), new), "compact_after": (merged,)}
    last = commit.commit([message(new, changelog_files=(data_file("l", rows=4),), **compaction)], identifier=2)

    written, compacted = metadata.snapshot(2), metadata.snapshot(3)
    assert (written.commit_kind, compacted.commit_kind) == ("APPEND", "COMPACT")
    assert (written.commit_identifier, compacted.commit_identifier) == (2, 2)
    assert (written.total_record_count, compacted.total_record_count) == (20, 12)
    assert (written.delta_record_count, compacted.delta_record_count) == (10, -8)
    assert (written.changelog_record_count, compacted.changelog_record_count) == (4, None)
    assert written.changelog_manifest_list is not None
    assert last == compacted
    assert live(metadata) == [("c", 5)]


@pytest.mark.parametrize(
    "parts",
    [{"deleted_files": (data_file("a"),)}, {"new_index_files": (vectors("index-0", "a"),)}],
    ids=["deleted file", "deletion vectors"],
)
def test_replacing_rows_is_no_append(tmp_path: Path, parts: dict[str, object]) -> None:
    metadata = table(tmp_path, options={"deletion-vectors.enabled": "true"})
    committer(metadata).commit([message(data_file("a"), total=-1)])
    last = committer(metadata).commit([message(data_file("b"), total=-1, **parts)])

    assert last is not None
    assert last.commit_kind == "OVERWRITE"


def test_nothing_to_commit(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    commit = committer(metadata)

    assert commit.commit([message()]) is None
    assert metadata.latest_snapshot() is None
    kept = commit.commit([], keep_empty=True, watermark=7)
    assert kept is not None
    assert (kept.id, kept.commit_kind, kept.total_record_count, kept.watermark) == (1, "APPEND", 0, 7)


def test_the_watermark_never_falls(tmp_path: Path) -> None:
    commit = committer(table(tmp_path))
    marks = [5, 3, None, 8]
    snapshots = [commit.commit([message(data_file(f"f{i}"))], watermark=mark) for i, mark in enumerate(marks)]

    assert [s.watermark for s in snapshots if s] == [5, 5, 5, 8]


def test_properties_are_those_of_one_commit(tmp_path: Path) -> None:
    commit = committer(table(tmp_path))
    one = commit.commit([message(data_file("a"))], properties={"k": "v"})
    two = commit.commit([message(data_file("b"))])

    assert one is not None
    assert two is not None
    assert (one.properties, two.properties) == ({"k": "v"}, {})


def test_statistics_hold_until_the_schema_changes(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    commit = committer(metadata)
    commit.commit([message(data_file("a"))])
    _analyzed(metadata.paths.snapshot(1), metadata.paths.statistics("stat-0"))

    kept = committer(metadata).commit([message(data_file("b"))])
    add_schema(metadata, 1)
    dropped = commit.commit([message(data_file("c"))])

    assert kept is not None
    assert dropped is not None
    assert (kept.statistics, kept.schema_id) == ("stat-0", 0)
    assert (dropped.statistics, dropped.schema_id) == (None, 1)


def _analyzed(snapshot: str, statistics: str) -> None:
    """Add statistics to a snapshot, as ANALYZE does for new ones."""
    node = json.loads(Path(snapshot).read_text())
    Path(snapshot).write_text(json.dumps(node | {"statistics": "stat-0"}))
    Path(statistics).parent.mkdir()
    Path(statistics).write_text(json.dumps({"snapshotId": 1, "schemaId": 0}))


def test_manifest_lists_describe_their_manifests(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True, partitioned=True, options={"bucket": "4"})
    old = data_file("a", schema_id=0)
    committer(metadata).commit([message(old, place=partition("x"), total=4)])
    snapshot = committer(metadata).commit(
        [
            message(data_file("b", level=2), deleted_files=(old,), place=partition("x"), total=4),
            message(data_file("c", level=3), place=partition("za"), bucket=3, total=4),
        ]
    )
    assert snapshot is not None
    row = list_manifests(metadata, snapshot).row(-1, named=True)

    assert (row["_NUM_ADDED_FILES"], row["_NUM_DELETED_FILES"]) == (2, 1)
    assert (row["_MIN_BUCKET"], row["_MAX_BUCKET"], row["_MIN_LEVEL"], row["_MAX_LEVEL"]) == (0, 3, 0, 3)
    assert row["_PARTITION_STATS"] == {
        "_MIN_VALUES": partition("x"),
        "_MAX_VALUES": partition("za"),
        "_NULL_COUNTS": [0],
    }
    assert (row["_SCHEMA_ID"], row["_MIN_ROW_ID"], row["_MAX_ROW_ID"]) == (0, None, None)


@dataclass
class Maintenance:
    wanted: bool = False
    seen: list[tuple[Snapshot, Sequence[CommitMessage]]] = field(default_factory=list)

    def wants_snapshot(self) -> bool:
        return self.wanted

    def before_commit(self, newest: Snapshot | None) -> None:
        pass

    def after_commit(self, snapshot: Snapshot, messages: Sequence[CommitMessage]) -> None:
        self.seen.append((snapshot, messages))


def test_maintenance_learns_of_each_commit(tmp_path: Path) -> None:
    maintenance = Maintenance()
    commit = TableCommit(WriteTarget.of(table(tmp_path)), maintenance)
    messages = [message(data_file("a"))]
    last = commit.commit(messages)
    commit.commit([message()])

    assert maintenance.seen == [(last, messages)]


def test_maintenance_may_want_an_empty_snapshot_of_a_stream(tmp_path: Path) -> None:
    commit = TableCommit(WriteTarget.of(table(tmp_path)), Maintenance(wanted=True))

    assert commit.commit([message()]) is None
    assert commit.commit([message()], identifier=1) is not None


# Exactly once


def test_a_repeated_commit_is_recognised(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    batches = {i: [message(_written(metadata.root, f"f{i}"))] for i in range(3)}
    committer(metadata, "me").commit(batches[0], identifier=0)
    committer(metadata, "other").commit([message(data_file("g"))], identifier=9)

    assert committer(metadata, "me").filter_and_commit(batches) == 2
    assert committer(metadata, "me").filter_and_commit(batches) == 0
    assert live(metadata) == [("f0", 0), ("f1", 0), ("f2", 0), ("g", 0)]


def test_a_batch_whose_files_are_gone_cannot_be_committed(tmp_path: Path) -> None:
    metadata = table(tmp_path)
    with pytest.raises(FileMissing, match=r"bucket-0/f0: no such file; .* write these rows again"):
        committer(metadata, "me").filter_and_commit({1: [message(data_file("f0"))]})
    assert metadata.latest_snapshot() is None


def _written(root: str, name: str) -> DataFileMeta:
    """Create an empty data file and describe it."""
    path = Path(root, "bucket-0", name)
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return data_file(name)


# Failures


def test_a_failed_commit_leaves_no_manifests(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    committer(metadata).commit([message(data_file("a"))])
    before = names(f"{metadata.root}/manifest")

    with pytest.raises(CommitConflict):
        committer(metadata).commit([message(compact_before=(data_file("gone"),))])
    assert names(f"{metadata.root}/manifest") == before


def test_a_compaction_that_meets_another_is_dropped(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    old = data_file("a")
    committer(metadata).commit([message(old)])
    committer(metadata).commit([message(compact_before=(old,), compact_after=(old.upgraded(5),))])
    new, merged = _written(metadata.root, "b"), _written(metadata.root, "c")

    last = committer(metadata).commit([message(new, compact_before=(old, new), compact_after=(merged,))])

    assert last is not None
    assert last.commit_kind == "APPEND"
    assert live(metadata) == [("a", 5), ("b", 0)]
    assert names(f"{metadata.root}/bucket-0") == ["b"]


def test_aborting_removes_what_was_written(tmp_path: Path) -> None:
    metadata = table(tmp_path, keyed=True)
    kept = _written(metadata.root, "kept")
    new, merged, log = (_written(metadata.root, name) for name in ("new", "merged", "log"))
    index = vectors("index-0", "merged")
    Path(metadata.paths.index("index-0")).parent.mkdir()
    Path(metadata.paths.index("index-0")).touch()

    committer(metadata).abort(
        [
            message(
                new,
                compact_before=(kept,),
                compact_after=(kept.upgraded(5), merged),
                changelog_files=(log,),
                compact_new_index_files=(index,),
            )
        ]
    )
    assert names(f"{metadata.root}/bucket-0") == ["kept"]
    assert names(f"{metadata.root}/index") == []
