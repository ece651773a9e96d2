"""A table's metadata on disk: existing files count, and hints and damaged neighbours do not matter."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from morrow.engine.errors import (
    BranchNotFound,
    CorruptFile,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    TableNotFound,
    TagNotFound,
    UnsafePath,
    Unsupported,
)
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStatus
from morrow.engine.plan.metadata import TableMetadata
from tests.support.table_factory import TableFactory


@pytest.fixture
def table(tmp_path: Path) -> TableFactory:
    """Make a table with the snapshots 1, 2 and 3."""
    table = TableFactory(tmp_path / "t", [("id", "INT")])
    for i in range(3):
        table.write_file(pa.table({"id": [i]}))
        table.commit()
    return table


def metadata(table: TableFactory, branch: str = "main") -> TableMetadata:
    return TableMetadata(LocalStore(), str(table.path), branch)


def tag(table: TableFactory, name: str, snapshot: int) -> None:
    (table.path / "tag").mkdir(exist_ok=True)
    shutil.copy(table.path / f"snapshot/snapshot-{snapshot}", table.path / f"tag/tag-{name}")


HINTS = {"missing": None, "stale": "1", "too high": "9", "garbage": "newest", "empty": "", "superscript": "³"}


@pytest.mark.parametrize("hint", HINTS.values(), ids=HINTS)
def test_hints_are_only_hints(table: TableFactory, hint: str | None) -> None:
    for name in ("LATEST", "EARLIEST"):
        path = table.path / "snapshot" / name
        path.unlink() if hint is None else path.write_text(hint)
    latest = metadata(table).latest_snapshot()

    assert latest is not None
    assert latest.id == 3
    assert metadata(table).earliest_snapshot_id() == 1
    assert [snapshot.id for snapshot in metadata(table).snapshots()] == [1, 2, 3]


def test_an_earliest_hint_that_is_stale_after_expiry(table: TableFactory) -> None:
    (table.path / "snapshot/snapshot-1").unlink()

    assert (table.path / "snapshot/EARLIEST").read_text() == "1"
    assert metadata(table).earliest_snapshot_id() == 2


def test_snapshots_before_the_earliest_hint_are_going(table: TableFactory) -> None:
    (table.path / "snapshot/EARLIEST").write_text("2")
    found = metadata(table)

    assert found.earliest_snapshot_id() == 2
    assert [snapshot.id for snapshot in found.snapshots()] == found.living_snapshot_ids() == [2, 3]
    assert found.snapshot_ids() == [1, 2, 3]
    assert found.snapshot(1).id == 1


def test_where_each_read_is_a_request_many_are_made_at_once(table: TableFactory) -> None:
    class Remote(LocalStore):
        is_local = False
        together = threading.Barrier(3, timeout=30)

        def read(self, path: str) -> bytes:
            if not path.endswith("EARLIEST"):
                self.together.wait()
            return super().read(path)

    tag(table, "c", 3), tag(table, "b", 2), tag(table, "a", 1)
    remote = TableMetadata(Remote(), str(table.path))

    assert [snapshot.id for snapshot in remote.snapshots()] == [1, 2, 3]
    assert [one.name for one in remote.tags()] == ["a", "b", "c"]


def test_other_files_among_the_snapshots_are_no_snapshots(table: TableFactory) -> None:
    for name in ("snapshot-", "snapshot-x", "snapshot-٣", "snapshot-4.tmp", "changelog-9"):
        (table.path / "snapshot" / name).touch()
    (table.path / "snapshot" / "snapshot-7").mkdir()

    assert metadata(table).snapshot_ids() == [1, 2, 3]


def test_a_table_without_a_commit(tmp_path: Path) -> None:
    empty = metadata(TableFactory(tmp_path, [("id", "INT")]))

    assert empty.latest_snapshot() is None
    assert empty.earliest_snapshot_id() is None
    assert list(empty.snapshots()) == []
    with pytest.raises(SnapshotNotFound, match="no snapshot 1; the table has no snapshots"):
        empty.snapshot(1)


def test_a_snapshot_that_expired_and_one_that_never_was(table: TableFactory) -> None:
    (table.path / "snapshot/snapshot-1").unlink()

    with pytest.raises(SnapshotExpired, match="snapshot 1 has expired; the snapshots are 2 to 3, tags keep older"):
        metadata(table).snapshot(1)
    for never in (0, -1, 4):
        with pytest.raises(SnapshotNotFound, match=f"no snapshot {never}; the snapshots are 2 to 3") as caught:
            metadata(table).snapshot(never)
        assert not isinstance(caught.value, SnapshotExpired)


def test_a_damaged_snapshot_is_an_error_and_not_skipped(table: TableFactory) -> None:
    (table.path / "snapshot/snapshot-3").write_text("{")

    with pytest.raises(CorruptFile, match="snapshot-3"):
        metadata(table).latest_snapshot()


def test_schemas(table: TableFactory) -> None:
    table.alter(fields=[("id", "INT"), ("v", "STRING")])
    found = metadata(table)

    assert found.schema_ids() == [0, 1]
    assert [list(schema.by_name) for schema in found.schemas()] == [["id"], ["id", "v"]]
    assert found.latest_schema() is found.schema(1)


def test_a_table_that_was_dropped_and_made_anew_has_its_new_schema(table: TableFactory) -> None:
    assert list(metadata(table).latest_schema().by_name) == ["id"]
    shutil.rmtree(table.path)

    assert list(metadata(TableFactory(table.path, [("ix", "INT")])).latest_schema().by_name) == ["ix"]


def test_a_folder_that_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="the folder holds no Paimon schema"):
        TableMetadata(LocalStore(), str(tmp_path)).latest_schema()
    with pytest.raises(
        TableNotFound, match="nope: the folder does not exist, or is not a folder; give the folder of a table"
    ):
        TableMetadata(LocalStore(), str(tmp_path / "nope")).latest_schema()


def test_a_folder_that_is_not_there_has_near_names(tmp_path: Path) -> None:
    (tmp_path / "shop.db" / "orders" / "schema").mkdir(parents=True)
    for path, near in (
        ("shop.db/ordrs", "is not a folder; did you mean 'orders'? give"),
        ("shp.db/orders", "is not a folder; did you mean 'shop.db'? give"),
        ("shop.db/x", "is not a folder; give"),
        ("a/b/c", "is not a folder; give"),
    ):
        with pytest.raises(TableNotFound, match=re.escape(near)):
            TableMetadata(LocalStore(), str(tmp_path / path)).latest_schema()


def test_tags_are_ordered_by_snapshot(table: TableFactory) -> None:
    for name, snapshot in (("z", 1), ("b", 2), ("a", 2), ("2024-05-14", 3)):
        tag(table, name, snapshot)
    found = metadata(table)

    assert found.tag_names() == ["2024-05-14", "a", "b", "z"]
    assert [(one.name, one.snapshot.id) for one in found.tags()] == [("z", 1), ("a", 2), ("b", 2), ("2024-05-14", 3)]
    with pytest.raises(TagNotFound, match="no tag 'c'; the tags are: 2024-05-14, a, b, z"):
        found.tag("c")


def test_branches_have_their_own_snapshots(table: TableFactory) -> None:
    branch = table.path / "branch/branch-b1"
    shutil.copytree(table.path / "schema", branch / "schema")
    (branch / "snapshot").mkdir()
    shutil.copy(table.path / "snapshot/snapshot-1", branch / "snapshot")
    found = metadata(table).on_branch("b1")

    assert metadata(table).branch_names() == ["b1"]
    assert found.snapshot_ids() == [1]
    assert found.where == f"{table.path} (branch b1)"
    assert found.on_branch("main").snapshot_ids() == [1, 2, 3]
    with pytest.raises(BranchNotFound, match="no branch 'b2'; the branches are main, b1"):
        found.on_branch("b2")
    shutil.rmtree(branch / "schema")
    with pytest.raises(BranchNotFound, match=r"branch 'b1' has no schema; .*table\.branches\.delete"):
        metadata(table).on_branch("b1")


def test_names_of_tags_and_branches_stay_in_their_folder(table: TableFactory) -> None:
    with pytest.raises(InvalidArgument, match="is not a tag name"):
        metadata(table).tag("../../snapshot/snapshot-1")
    with pytest.raises(UnsafePath):
        metadata(table).on_branch("../x")


@pytest.mark.parametrize("name", [None, 3, " "])
def test_names_are_text(table: TableFactory, name: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not a tag name"):
        metadata(table).tag(name)
    with pytest.raises(InvalidArgument, match="is not a branch name"):
        metadata(table).on_branch(name)


def test_a_snapshot_that_disappears_during_a_listing_is_left_out(table: TableFactory) -> None:
    class Racing(LocalStore):
        def list(self, folder: str) -> list[FileStatus]:
            listed = super().list(folder)
            (table.path / "snapshot/snapshot-1").unlink(missing_ok=True)
            return listed

    racing = TableMetadata(Racing(), str(table.path))
    assert [snapshot.id for snapshot in racing.snapshots()] == [2, 3]


def test_an_unknown_schema_version_is_not_read(table: TableFactory) -> None:
    path = table.path / "schema/schema-0"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))

    with pytest.raises(Unsupported, match="schema version 99 is not supported"):
        metadata(table).latest_schema()
