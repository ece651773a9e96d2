"""Branches made: empty, from a tag, from a snapshot."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from morrow.engine.errors import (
    AlreadyExists,
    BranchNotFound,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    TagNotFound,
)
from morrow.engine.io.local import LocalStore
from morrow.tables.table import Table
from tests.writers.history.rollback.tables import assert_clean, ids, keys, killed_everywhere, numbers, put, through


def test_an_empty_one_has_the_schemas_and_no_rows(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.alter.add_column("x", "INT")

    table.branches.create("empty")

    empty = table.on_branch("empty")
    assert (empty.schema.names, ids(empty), keys(empty)) == (["k", "v", "x"], [], [])
    assert table.branches.list() == ["empty"]


def test_from_a_tag_it_has_the_tag_its_snapshot_and_the_schemas_up_to_it(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.tags.create("base", snapshot=2)
    table.alter.add_column("x", "INT")
    put(table, 3)

    table.branches.create("dev", tag="base")

    dev = table.on_branch("dev")
    assert (dev.schema.names, ids(dev), dev.tags.names, keys(dev)) == (["k", "v"], [2], ("base",), [1, 2])


def test_from_a_snapshot(tmp_path: Path) -> None:
    table = numbers(tmp_path, 3)

    table.branches.create("dev", snapshot=2)

    dev = table.on_branch("dev")
    assert (ids(dev), dev.tags.names, keys(dev)) == ([2], (), [1, 2])

    table.branches.create("same", snapshot=table.snapshots()[1])
    assert ids(table.on_branch("same")) == [2]


@pytest.mark.parametrize("source", [{"tag": "base"}, {"snapshot": 2}], ids=["tag", "snapshot"])
def test_from_an_expired_snapshot_that_a_tag_keeps(source: dict[str, object], tmp_path: Path) -> None:
    """Java cannot: it copies the file of the snapshot."""
    table = numbers(tmp_path, 4)
    table.tags.create("base", snapshot=2)
    table.expire_snapshots(retain_max=1, retain_min=1)

    table.branches.create("dev", **source)  # type: ignore[arg-type]  # each case has its own

    assert keys(table.on_branch("dev")) == [1, 2]
    table.tags.delete("base")
    assert keys(table.on_branch("dev")) == [1, 2]
    assert_clean(table)


def test_of_a_branch(tmp_path: Path) -> None:
    """As in Java: it has what that branch has, and lies beside it."""
    table = numbers(tmp_path, 2)
    table.branches.create("dev", snapshot=1)
    dev = table.on_branch("dev")
    put(dev, 10)

    dev.branches.create("dev2", snapshot=2)

    assert list(table.branches) == ["dev", "dev2"]
    assert keys(table.on_branch("dev2")) == [1, 10]


def test_both_sides_commit_by_themselves(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.branches.create("dev", snapshot=2)
    dev = table.on_branch("dev")

    put(table, 3)
    put(dev, 30)

    assert (keys(table), keys(dev)) == ([1, 2, 3], [1, 2, 30])
    assert ids(table) == [1, 2, 3]
    assert ids(dev) == [2, 3]


@pytest.mark.parametrize("name", ["main", "", "  ", "12", "a/b", "..", ".", "a\\b", "a\0b", "١٢", None], ids=repr)
def test_names_that_are_refused(name: str, tmp_path: Path) -> None:
    table = numbers(tmp_path, 1)

    with pytest.raises(InvalidArgument):
        table.branches.create(name)

    assert list(table.branches) == []
    assert not Path(table.path, "branch").exists()


@pytest.mark.parametrize("name", ["v1.2", "feature-x", "Ä ö", "branch-", "12a", "a$b"])
def test_names_that_are_taken(name: str, tmp_path: Path) -> None:
    table = numbers(tmp_path, 1)

    table.branches.create(name, snapshot=1)

    assert keys(table.on_branch(name)) == [1]


def test_a_name_is_given_once(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.branches.create("dev", snapshot=1)

    with pytest.raises(AlreadyExists, match="'dev'"):
        table.branches.create("dev", snapshot=2)
    table.branches.create("dev", snapshot=2, ignore_if_exists=True)

    assert keys(table.on_branch("dev")) == [1]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ({"tag": "none"}, TagNotFound),
        ({"snapshot": 9}, SnapshotNotFound),
        ({"snapshot": 1}, SnapshotExpired),
        ({"snapshot": 4, "tag": "none"}, InvalidArgument),
        ({"snapshot": "4"}, InvalidArgument),
    ],
    ids=str,
)
def test_from_what_is_not_there(source: dict[str, object], error: type[Exception], tmp_path: Path) -> None:
    table = numbers(tmp_path, 4)
    table.expire_snapshots(retain_max=2, retain_min=1)

    with pytest.raises(error):
        table.branches.create("dev", **source)  # type: ignore[arg-type]  # each case has its own

    assert list(table.branches) == []


def test_when_expiry_was_faster_the_branch_goes_again(tmp_path: Path) -> None:
    """Expiry announced the snapshot while the branch was being made, and did not see the branch."""
    table = numbers(tmp_path, 3)

    class Late(LocalStore):
        def move_folder(self, source: str, target: str) -> None:
            super().move_folder(source, target)
            Path(table._metadata.paths.snapshot_dir, "EARLIEST").write_text("3")

    with pytest.raises(SnapshotExpired, match="snapshot 2"):
        through(table, Late()).branches.create("dev", snapshot=2)

    assert list(table.branches) == []
    with pytest.raises(BranchNotFound):
        table.on_branch("dev")


class Bucket(LocalStore):
    """A store that moves no folders, like an object store."""

    is_local = False

    def move_folder(self, source: str, target: str) -> None:
        raise AssertionError(f"there are no folders to move, such as {source} to {target}")


@pytest.mark.parametrize("store", [LocalStore(), Bucket()], ids=["disk", "bucket"])
def test_of_several_callers_one_makes_the_branch(store: LocalStore, tmp_path: Path) -> None:
    table = through(numbers(tmp_path, 4), store)
    outcomes: list[str] = []

    def create(snapshot: int) -> None:
        try:
            table.branches.create("dev", snapshot=snapshot)
            outcomes.append(f"made {snapshot}")
        except AlreadyExists:
            outcomes.append("too late")

    threads = [threading.Thread(target=create, args=(snapshot,)) for snapshot in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (made,) = (outcome for outcome in outcomes if outcome != "too late")
    assert ids(table.on_branch("dev")) == [int(made[-1])]


@pytest.mark.parametrize("store", [LocalStore, Bucket], ids=["disk", "bucket"])
def test_killed_anywhere_there_is_a_branch_or_none(store: type[LocalStore], tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.tags.create("base", snapshot=2)

    def create(killed: Table) -> None:
        killed._metadata.store.inner = store()  # type: ignore[attr-defined]  # a FaultyStore
        killed.branches.create("dev", tag="base")

    for left in killed_everywhere(table, create, tmp_path):
        if store is LocalStore:
            assert all(keys(left.on_branch(name)) == [1, 2] for name in left.branches)
        else:
            assert all(keys(left.on_branch(name)) in ([], [1, 2]) for name in left.branches)
        for name in left.branches:
            left.branches.delete(name)
        left.branches.create("dev", tag="base")
        assert keys(left.on_branch("dev")) == [1, 2]
