"""Fast-forward: main becomes what a branch is."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import BranchNotFound, InvalidArgument
from tests.support.written import rows
from tests.writers.history.rollback.tables import assert_clean, hint, ids, keys, killed_everywhere, numbers, put


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
    """Both have a schema 1; main's is forgotten with the snapshot that used it."""
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
    """The branch has expired up to 4, and main's own 3 is no ancestor of that."""
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
    """They share files; what one of them forgets, the other still has."""
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
    """Until it is done the table can be read with the right columns, or not at all."""
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
