"""Branches are created empty, from a tag, or from a snapshot."""

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
    Unsupported,
)
from morrow.engine.io.local import LocalStore
from morrow.tables.table import Table
from tests.support.written import made_once, rows
from tests.writers.history.rollback_tables import (
    assert_clean,
    hint,
    ids,
    keys,
    killed_everywhere,
    numbers,
    put,
    through,
)


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
    """Java fails here because it copies the snapshot file."""
    table = numbers(tmp_path, 4)
    table.tags.create("base", snapshot=2)
    table.expire_snapshots(retain_max=1, retain_min=1)

    table.branches.create("dev", **source)  # type: ignore[arg-type]  # differs by case

    assert keys(table.on_branch("dev")) == [1, 2]
    table.tags.delete("base")
    assert keys(table.on_branch("dev")) == [1, 2]
    assert_clean(table)


def test_of_a_branch(tmp_path: Path) -> None:
    """As in Java, the new branch has the other branch's content and lies beside it."""
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
        table.branches.create("dev", **source)  # type: ignore[arg-type]  # differs by case

    assert list(table.branches) == []


def test_when_expiry_was_faster_the_branch_goes_again(tmp_path: Path) -> None:
    """Expiry announces that the snapshot expires while the branch is created, and does not see the branch."""
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
    """A store that cannot move folders, like an object store."""

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


# Deletion and renaming of branches.


class BucketChanging(LocalStore):
    """A store that cannot move folders, like an object store."""

    is_local = False

    def move_folder(self, source: str, target: str) -> None:
        raise Unsupported("moving a folder", where=f"{source} to {target}")


STORES = pytest.mark.parametrize("store", [LocalStore(), BucketChanging()], ids=["disk", "bucket"])


def with_branch(folder: Path) -> Table:
    """Make a table: main has the rows 1 to 3; dev (from 2, with the tag `ten`) has 1, 2, 10 and 20."""

    def make(template: Path) -> Table:
        table = numbers(template, 3)
        table.branches.create("dev", snapshot=2)
        dev = table.on_branch("dev")
        put(dev, 10)
        dev.tags.create("ten")
        put(dev, 20)
        return table

    return made_once("numbers with a branch", folder, make)


@STORES
def test_removal_takes_what_only_the_branch_needs(store: LocalStore, tmp_path: Path) -> None:
    table = through(with_branch(tmp_path), store)

    table.branches.delete("dev")

    assert "dev" not in table.branches
    assert keys(table) == [1, 2, 3]
    assert_clean(table)


def test_what_another_branch_needs_stays(tmp_path: Path) -> None:
    table = with_branch(tmp_path)
    table.on_branch("dev").branches.create("other", tag="ten")

    table.branches.delete("dev")

    assert keys(table.on_branch("other")) == [1, 2, 10]
    assert_clean(table)


def test_what_main_has_forgotten_and_the_branch_needs_goes_with_the_branch(tmp_path: Path) -> None:
    table = with_branch(tmp_path)
    table.rollback(1)
    assert keys(table.on_branch("dev")) == [1, 2, 10, 20]

    table.branches.delete("dev")

    assert_clean(table)


@STORES
def test_renaming_keeps_everything(store: LocalStore, tmp_path: Path) -> None:
    table = through(with_branch(tmp_path), store)

    table.branches.rename("dev", "next")

    renamed = table.on_branch("next")
    assert list(table.branches) == ["next"]
    assert (keys(renamed), renamed.tags.names) == ([1, 2, 10, 20], ("ten",))
    assert_clean(table)


def test_what_is_not_there_can_be_neither_removed_nor_renamed(tmp_path: Path) -> None:
    table = with_branch(tmp_path)

    with pytest.raises(BranchNotFound, match="the branches are main, dev"):
        table.branches.delete("none")
    with pytest.raises(BranchNotFound):
        table.branches.rename("none", "other")


@pytest.mark.parametrize("name", ["main", "../..", "..", "", "a/b"])
def test_neither_main_nor_any_other_folder_can_be_removed(name: str, tmp_path: Path) -> None:
    table = with_branch(tmp_path)

    with pytest.raises(InvalidArgument):
        table.branches.delete(name)
    with pytest.raises(InvalidArgument):
        table.branches.rename(name, "other")

    assert keys(table) == [1, 2, 3]


@pytest.mark.parametrize("new_name", ["main", "12", " ", "a/b"])
def test_new_names_are_held_to_the_same_rules(new_name: str, tmp_path: Path) -> None:
    table = with_branch(tmp_path)

    with pytest.raises(InvalidArgument):
        table.branches.rename("dev", new_name)

    assert list(table.branches) == ["dev"]


def test_a_name_is_not_given_twice(tmp_path: Path) -> None:
    table = with_branch(tmp_path)
    table.branches.create("other")

    with pytest.raises(AlreadyExists):
        table.branches.rename("dev", "other")

    assert keys(table.on_branch("dev")) == [1, 2, 10, 20]


def test_a_branch_that_an_option_names_stays(tmp_path: Path) -> None:
    """Otherwise the table could not be read."""
    table = with_branch(tmp_path)
    table.alter.set_options({"scan.fallback-branch": "dev"})

    with pytest.raises(InvalidArgument, match=r"'scan\.fallback-branch' names it"):
        table.branches.delete("dev")
    with pytest.raises(InvalidArgument, match=r"'scan\.fallback-branch' names it"):
        table.branches.rename("dev", "other")

    table.alter.unset_options("scan.fallback-branch")
    table.branches.delete("dev")


@pytest.mark.parametrize("store", [LocalStore, BucketChanging], ids=["disk", "bucket"])
def test_a_removal_that_was_killed_is_completed(store: type[LocalStore], tmp_path: Path) -> None:
    """On a disk, any maintenance completes it; in a bucket, another deletion does if the branch still exists."""
    table = with_branch(tmp_path)

    def delete(killed: Table) -> None:
        killed._metadata.store.inner = store()  # type: ignore[attr-defined]  # a FaultyStore
        killed.branches.delete("dev")

    for left in killed_everywhere(table, delete, tmp_path):
        if "dev" in left.branches and store is LocalStore:
            assert keys(left.on_branch("dev")) == [1, 2, 10, 20]
        if "dev" in left.branches:
            left.branches.delete("dev")
        else:
            left.rollback(3)
        assert keys(left) == [1, 2, 3]
        assert_clean(left)


# Fast-forward: main gets the content of a branch.


def test_the_snapshots_of_the_branch_take_the_place_of_those_of_main(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.branches.create("dev", snapshot=2)
    put(table, 3, 4, 5)
    put(table.on_branch("dev"), 30, 40)

    table.branches.fast_forward("dev")

    assert (ids(table), keys(table)) == ([1, 2, 3, 4], [1, 2, 30, 40])
    assert hint(table, "LATEST") == 4
    assert keys(table.on_branch("dev")) == [1, 2, 30, 40]
    assert_clean(table)


def test_tags_of_the_branch_take_the_place_of_later_tags_of_main(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.tags.create("one", snapshot=1)
    table.tags.create("base", snapshot=2)
    table.branches.create("dev", tag="base")
    put(table, 3)
    table.tags.create("lost")
    table.tags.create("same")
    dev = table.on_branch("dev")
    put(dev, 30)
    dev.tags.create("same")

    table.branches.fast_forward("dev")

    assert table.tags.names == ("base", "one", "same")
    assert (keys(table, tag="same"), keys(table, tag="one")) == ([1, 2, 30], [1])
    assert_clean(table)


def test_schemas_of_the_branch_take_the_place_of_those_of_main(tmp_path: Path) -> None:
    """Both branches have a schema 1; main's is forgotten together with the snapshot that used it."""
    table = numbers(tmp_path, 1)
    table.branches.create("dev", snapshot=1)
    table.alter.add_column("of_main", "INT")
    put(table, 2)
    dev = table.on_branch("dev")
    dev.alter.add_column("of_dev", "INT")
    put(dev, 20)

    table.branches.fast_forward("dev")

    assert table.schema.names == ["k", "v", "of_dev"]
    assert rows(table) == [(1, 1, None), (20, 20, None)]
    assert_clean(table)


def test_an_older_schema_of_the_branch_takes_the_place_of_a_newer_one(tmp_path: Path) -> None:
    table = numbers(tmp_path, 1)
    table.branches.create("dev", snapshot=1)
    table.alter.add_column("of_main", "INT")
    put(table.on_branch("dev"), 20)

    table.branches.fast_forward("dev")

    assert table.schema.names == ["k", "v"]


def test_a_branch_of_an_expired_tag_is_where_the_table_begins(tmp_path: Path) -> None:
    table = numbers(tmp_path, 5)
    table.tags.create("base", snapshot=2)
    table.branches.create("dev", tag="base")
    table.expire_snapshots(retain_max=2, retain_min=1)
    put(table.on_branch("dev"), 30)

    table.branches.fast_forward("dev")

    assert (ids(table), keys(table)) == ([2, 3], [1, 2, 30])
    assert (hint(table, "EARLIEST"), hint(table, "LATEST")) == (2, 3)
    assert_clean(table)


def test_a_branch_that_began_empty_replaces_everything(tmp_path: Path) -> None:
    table = numbers(tmp_path, 3)
    table.branches.create("anew")
    put(table.on_branch("anew"), 7)

    table.branches.fast_forward("anew")

    assert (ids(table), keys(table)) == ([1], [7])
    assert_clean(table)


def test_snapshots_that_do_not_lead_to_the_branch_go(tmp_path: Path) -> None:
    """The branch begins at snapshot 4, and main's own snapshot 3 is not an ancestor of it."""
    table = numbers(tmp_path, 2)
    table.branches.create("dev", snapshot=2)
    put(table, 3)
    dev = table.on_branch("dev")
    put(dev, 30, 40, 50)
    dev.expire_snapshots(retain_max=2, retain_min=1)
    assert ids(dev) == [4, 5]

    table.branches.fast_forward("dev")

    assert (ids(table), keys(table)) == ([4, 5], [1, 2, 30, 40, 50])
    assert_clean(table)


def test_snapshots_that_lead_to_the_branch_stay_though_main_lacks_its_first(tmp_path: Path) -> None:
    table = numbers(tmp_path, 3)
    table.branches.create("dev", snapshot=3)
    table.rollback(2)

    table.branches.fast_forward("dev")

    assert (ids(table), keys(table)) == ([1, 2, 3], [1, 2, 3])
    assert_clean(table)


def test_a_branch_can_take_in_another(tmp_path: Path) -> None:
    table = numbers(tmp_path, 1)
    table.branches.create("dev", snapshot=1)
    table.branches.create("test", snapshot=1)
    put(table.on_branch("dev"), 2)

    table.on_branch("test").branches.fast_forward("dev")

    assert keys(table.on_branch("test")) == [1, 2]
    assert keys(table) == [1]
    assert_clean(table)


def test_again_changes_nothing(tmp_path: Path) -> None:
    table = numbers(tmp_path, 1)
    table.branches.create("dev", snapshot=1)
    put(table.on_branch("dev"), 2)

    table.branches.fast_forward("dev")
    table.branches.fast_forward("dev")

    assert (ids(table), keys(table)) == ([1, 2], [1, 2])
    assert_clean(table)


def test_afterwards_both_go_their_own_ways(tmp_path: Path) -> None:
    """They share files: a file that one of them drops is still there for the other."""
    table = numbers(tmp_path, 1)
    table.branches.create("dev", snapshot=1)
    dev = table.on_branch("dev")
    put(dev, 2, 3)
    table.branches.fast_forward("dev")

    table.rollback(1)
    assert keys(dev) == [1, 2, 3]
    table.branches.fast_forward("dev")
    table.branches.delete("dev")

    assert keys(table) == [1, 2, 3]
    assert_clean(table)


def test_what_cannot_be_taken_in(tmp_path: Path) -> None:
    table = numbers(tmp_path, 1)
    table.branches.create("empty")

    with pytest.raises(InvalidArgument, match="has no snapshot"):
        table.branches.fast_forward("empty")
    with pytest.raises(InvalidArgument, match="'main'"):
        table.branches.fast_forward("main")
    with pytest.raises(InvalidArgument, match="to itself"):
        table.on_branch("empty").branches.fast_forward("empty")
    with pytest.raises(BranchNotFound):
        table.branches.fast_forward("none")

    assert keys(table) == [1]


def test_killed_anywhere_it_leaves_a_state_of_one_of_both_and_is_completed(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.branches.create("dev", snapshot=1)
    dev = table.on_branch("dev")
    dev.alter.add_column("of_dev", "INT")
    put(dev, 20, 30)
    dev.tags.create("there")
    table.alter.add_column("of_main", "INT")
    put(table, 3)
    states = [[1, 2, 3], [1, 2], [1], [1, 20], [1, 20, 30]]

    for left in killed_everywhere(table, lambda t: t.branches.fast_forward("dev"), tmp_path):
        assert keys(left) in states
        left.branches.fast_forward("dev")
        assert (keys(left), ids(left), left.tags.names) == ([1, 20, 30], [1, 2, 3], ("there",))
        assert left.schema.names == ["k", "v", "of_dev"]
        assert_clean(left)


def test_killed_where_nothing_is_in_common(tmp_path: Path) -> None:
    """Until the fast-forward is complete, a read gets the right columns or fails."""
    from morrow.engine.errors import NotFound

    table = numbers(tmp_path, 1)
    table.branches.create("dev", snapshot=1)
    dev = table.on_branch("dev")
    for line, name in ((table, "of_main"), (dev, "of_dev")):
        line.alter.add_column(name, "INT")
        put(line, 2, 3)
        line.expire_snapshots(retain_max=1, retain_min=1)
    put(dev, 4)

    for left in killed_everywhere(table, lambda t: t.branches.fast_forward("dev"), tmp_path):
        try:
            found = left.scan().to_polars()
        except NotFound:
            pass
        else:
            ours = found.columns == ["k", "v", "of_main"] and sorted(found["k"]) == [1, 2, 3]
            theirs = found.columns == ["k", "v", "of_dev"] and sorted(found["k"]) in ([1, 2, 3], [1, 2, 3, 4])
            assert ours or theirs
        left.branches.fast_forward("dev")
        assert (keys(left), left.schema.names) == ([1, 2, 3, 4], ["k", "v", "of_dev"])
        assert_clean(left)
