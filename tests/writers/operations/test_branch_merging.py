"""`Branches.merge`: the appended rows of another branch are added to a branch."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import BranchNotFound, InvalidArgument, SnapshotNotFound, Unsupported
from tests.support.written import new_table, rows


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make a table with the row 1, and an empty branch ``dev``."""
    made = new_table(tmp_path, "id BIGINT")
    made.append({"id": [1]})
    made.branches.create("dev")
    return made


def test_each_file_is_merged_once(table: morrow.Table) -> None:
    dev = table.on_branch("dev")
    dev.append({"id": [2]})
    dev.append({"id": [3]})
    done = table.branches.merge("dev")
    assert done is not None
    assert (done.commit_kind, done.delta_record_count) == ("APPEND", 2)
    assert table.branches.merge("dev") is None
    assert dev.branches.merge("main") is not None
    assert rows(table) == rows(dev) == [(1,), (2,), (3,)]
    dev.compact(full=True)
    dev.expire_snapshots(retain_max=1, retain_min=1)
    assert rows(table) == [(1,), (2,), (3,)]
    table.branches.delete("dev")
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert rows(table) == [(1,), (2,), (3,)]


def test_what_is_not_merged(table: morrow.Table, tmp_path: Path) -> None:
    with pytest.raises(BranchNotFound):
        table.branches.merge("none")
    with pytest.raises(InvalidArgument, match="into itself"):
        table.branches.merge("main")
    with pytest.raises(SnapshotNotFound):
        table.branches.merge("dev")
    dev = table.on_branch("dev")
    dev.append({"id": [2]})
    dev.alter.add_column("v", "INT")
    with pytest.raises(InvalidArgument, match="other columns"):
        table.branches.merge("dev")
    table.alter.add_column("v", "INT", comment="of main")
    with pytest.raises(InvalidArgument, match="other columns"):
        table.branches.merge("dev")
    table.truncate()
    with pytest.raises(InvalidArgument, match="is OVERWRITE"):
        table.branches.merge("dev")
    keyed = new_table(tmp_path, "id BIGINT", keys=["id"], name="keyed")
    keyed.branches.create("dev")
    with pytest.raises(Unsupported, match="primary key"):
        keyed.branches.merge("dev")
    assert len(table.snapshots()) == 2
