"""Branches removed and renamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import AlreadyExists, BranchNotFound, InvalidArgument, Unsupported
from morrow.engine.io.local import LocalStore
from morrow.tables.table import Table
from tests.support.written import made_once
from tests.writers.history.rollback.tables import assert_clean, keys, killed_everywhere, numbers, put, through


class Bucket(LocalStore):
    """A store that moves no folders, like an object store."""

    is_local = False

    def move_folder(self, source: str, target: str) -> None:
        raise Unsupported("moving a folder", where=f"{source} to {target}")


STORES = pytest.mark.parametrize("store", [LocalStore(), Bucket()], ids=["disk", "bucket"])


def with_branch(folder: Path) -> Table:
    """Makes a table: main has 1 to 3, dev (from 2, with the tag `ten`) 1, 2, 10, 20."""

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
    """Without it the table could not be read."""
    table = with_branch(tmp_path)
    table.alter.set_options({"scan.fallback-branch": "dev"})

    with pytest.raises(InvalidArgument, match=r"'scan\.fallback-branch' names it"):
        table.branches.delete("dev")
    with pytest.raises(InvalidArgument, match=r"'scan\.fallback-branch' names it"):
        table.branches.rename("dev", "other")

    table.alter.unset_options("scan.fallback-branch")
    table.branches.delete("dev")


@pytest.mark.parametrize("store", [LocalStore, Bucket], ids=["disk", "bucket"])
def test_a_removal_that_was_killed_is_completed(store: type[LocalStore], tmp_path: Path) -> None:
    """On a disk by any maintenance, in a bucket by removing the branch again, if it is still there."""
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
