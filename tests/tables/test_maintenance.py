"""Maintenance of a table as users call it: arguments, and errors for wrong ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, SnapshotExpired
from tests.support.written import new_table, rows


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make three snapshots with one row each."""
    table = new_table(tmp_path, "a INT")
    for number in range(3):
        table.append([{"a": number}])
    return table


def test_snapshots_expire_by_age_or_by_a_moment(table: morrow.Table) -> None:
    second = table.snapshots()[1]

    for age in (dt.timedelta(days=1), "1 day", "24h"):
        assert table.expire_snapshots(older_than=age, retain_min=1) == 0
    assert table.expire_snapshots(older_than=second.time, retain_min=1) == 1
    assert table.expire_snapshots(older_than=dt.timedelta(), retain_min=1) == 1
    assert rows(table) == [(0,), (1,), (2,)]


CALLS: dict[str, Callable[[morrow.Table, Any], object]] = {
    "expire_snapshots": lambda table, age: table.expire_snapshots(older_than=age),
    "expire_changelogs": lambda table, age: table.expire_changelogs(older_than=age),
    "remove_orphan_files": lambda table, age: table.remove_orphan_files(older_than=age),
    "purge": lambda table, age: table.purge(older_than=age),
    "tags.expire": lambda table, age: table.tags.expire(older_than=age),
}


@pytest.mark.parametrize("age", ["1 fortnight", "soon", dt.timedelta.max, dt.timedelta(days=-1), [1]], ids=repr)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_neither_an_age_nor_a_time(table: morrow.Table, call: str, age: object) -> None:
    with pytest.raises(InvalidArgument, match=r"older_than = .* is neither an age, .*, nor a time"):
        CALLS[call](table, age)
    assert len(table.snapshots()) == 3


@pytest.mark.parametrize("name", ["retain_max", "retain_min", "max_deletes"])
@pytest.mark.parametrize("count", ["2", 2.0, True])
def test_what_is_no_number(table: morrow.Table, name: str, count: Any) -> None:
    for expire in (table.expire_snapshots, table.expire_changelogs):
        with pytest.raises(InvalidArgument, match=f"{name} must be a whole number"):
            expire(**{name: count})
    assert len(table.snapshots()) == 3


def test_only_a_clear_word_removes_files(table: morrow.Table) -> None:
    with pytest.raises(InvalidArgument, match="dry_run is True or False"):
        table.remove_orphan_files(dry_run=None)  # type: ignore[arg-type]


def test_consumers_tell_who_they_are(table: morrow.Table) -> None:
    assert repr(table.consumers) == "none"
    table.consumers.record("dashboard", 2)
    assert repr(table.consumers) == "dashboard: snapshot 2 is next"
    for wrong in (-1, "2", True, None):
        with pytest.raises(InvalidArgument, match="the id of a snapshot"):
            table.consumers.record("dashboard", wrong)  # type: ignore[arg-type]  # each is wrong on purpose


@pytest.mark.parametrize("by", ["to", "snapshot"])
def test_rollback_to_one_of_the_snapshots(table: morrow.Table, by: str) -> None:
    second = table.snapshots()[1]

    assert table.rollback(**{by: second}) == second  # type: ignore[arg-type]  # the name varies
    assert rows(table) == [(0,), (1,)]


def test_rollback_to_an_expired_snapshot_that_a_tag_keeps(table: morrow.Table) -> None:
    first, second, _ = table.snapshots()
    table.tags.create("kept", first)
    table.expire_snapshots(retain_max=1, retain_min=1)

    with pytest.raises(SnapshotExpired):
        table.rollback(second)
    assert table.rollback(first).id == 1
    assert rows(table) == [(0,)]


def test_a_snapshot_is_itself_and_not_another_of_its_id(table: morrow.Table) -> None:
    third = table.snapshots()[2]
    table.rollback(2)
    table.append([{"a": 9}])
    table.append([{"a": 10}])

    with pytest.raises(SnapshotExpired, match="snapshot 3 has expired"):
        table.rollback(third)
    assert rows(table) == [(0,), (1,), (9,), (10,)]


def test_rollback_to_two_things(table: morrow.Table) -> None:
    with pytest.raises(InvalidArgument, match="give only one of as_of, tag"):
        table.rollback(table.snapshots()[0], tag="v1")
    assert len(table.snapshots()) == 3
