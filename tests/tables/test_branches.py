"""The face of branches: a collection of names that can be changed."""

from __future__ import annotations

from pathlib import Path

import morrow
from morrow.tables.branches import Branches
from tests.support.written import new_table, rows


def test_it_is_a_collection_of_names(tmp_path: Path) -> None:
    table = new_table(tmp_path, "k INT")
    table.branches.create("b")
    table.branches.create("a")

    assert isinstance(table.branches, Branches)
    assert table.branches.list() == table.branches() == list(table.branches) == ["a", "b"]
    assert "a" in table.branches
    assert "main" not in table.branches
    assert (len(table.branches), repr(table.branches)) == (2, "a\nb")


def test_a_table_without_branches_says_so(tmp_path: Path) -> None:
    assert repr(new_table(tmp_path, "k INT").branches) == "no branches"


def test_a_change_is_tried_on_a_branch_and_taken_over(tmp_path: Path) -> None:
    table = new_table(tmp_path, "k INT NOT NULL, v STRING", keys=["k"], options={"bucket": "1"})
    table.upsert([{"k": 1, "v": "old"}])
    table.tags.create("v1")

    table.branches.create("fix", tag="v1")
    table.on_branch("fix").upsert([{"k": 1, "v": "new"}])
    assert rows(table) == [(1, "old")]
    table.branches.fast_forward("fix")
    table.branches.delete("fix")

    assert rows(morrow.open(table.path)) == [(1, "new")]
    table.rollback(tag="v1")
    assert rows(table) == [(1, "old")]
