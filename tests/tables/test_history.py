"""The tags of a table: ``table.tags``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import AlreadyExists, InvalidArgument, SnapshotExpired, SnapshotNotFound, TagNotFound
from morrow.engine.io.local import disable_fsync
from morrow.tables.history import Branches
from tests.support.tags import add_snapshot, moment, tags
from tests.support.written import new_table, rows


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Make three snapshots with the rows 1; 1 and 2; 1, 2 and 3."""
    with disable_fsync():
        made = new_table(tmp_path, "a INT")
        for number in (1, 2, 3):
            made.append([{"a": number}])
    return made


def named(table: morrow.Table) -> dict[str, int]:
    return {tag.name: tag.snapshot.id for tag in table.tags}


def test_a_tag_keeps_a_state(table: morrow.Table) -> None:
    table.tags.create("v1", 1)
    table.tags.create("v2", table.snapshots()[1])
    table.tags.create("now")

    assert named(table) == {"v1": 1, "v2": 2, "now": 3}
    assert rows(table, tag="v2") == rows(table, as_of="v2") == [(1,), (2,)]
    assert table.tags.get("v1").snapshot == table.snapshots()[0]


def test_looking_at_tags(table: morrow.Table) -> None:
    assert repr(table.tags) == "no tags"
    assert (len(table.tags), table.tags.names) == (0, ())

    table.tags.create("b", 1, time_retained="1 d")
    table.tags.create("a", 2)

    assert repr(table.tags) == "b: snapshot 1\na: snapshot 2"
    assert (len(table.tags), table.tags.names, "a" in table.tags, "c" in table.tags) == (2, ("a", "b"), True, False)
    page = table.tags._repr_html_()
    assert page.count("<tr>") == 3
    assert "<td>1 day</td>" in page


def test_the_tags_before_and_after_by_commit_time(table: morrow.Table) -> None:
    for name, snapshot in (("one", 1), ("too", 1), ("two", 2), ("three", 3)):
        table.tags.create(name, snapshot)

    def name(tag: Any) -> str | None:
        return tag and tag.name

    assert [name(table.tags.previous(n)) for n in ("one", "too", "two", "three")] == [None, None, "too", "two"]
    assert [name(table.tags.next(n)) for n in ("one", "too", "two", "three")] == ["two", "two", "three", None]
    with pytest.raises(TagNotFound):
        table.tags.next("four")


@pytest.mark.parametrize("retained", [dt.timedelta(hours=1), 3600, 3600.0, "1 h", "60 min"])
def test_how_long_a_tag_stays(table: morrow.Table, retained: Any) -> None:
    assert table.tags.create("v1", time_retained=retained).time_retained == dt.timedelta(hours=1)


@pytest.mark.parametrize("retained", [0, -1, "soon", "0 s", True, float("inf"), float("nan"), [1]])
def test_what_is_no_time(table: morrow.Table, retained: Any) -> None:
    with pytest.raises(InvalidArgument):
        table.tags.create("v1", time_retained=retained)
    assert len(table.tags) == 0


def test_a_tag_of_a_time(table: morrow.Table) -> None:
    second = table.snapshots()[1]

    table.tags.create("until", timestamp=second.time)
    table.tags.create_from_timestamp("since", second.time)
    table.tags.create_from_timestamp("after", second.time_millis + 1, "1 d")

    assert named(table) == {"until": 2, "since": 2, "after": 3}
    with pytest.raises(SnapshotNotFound):
        table.tags.create_from_timestamp("late", "2222-01-01")
    with pytest.raises(InvalidArgument, match="give only one of snapshot, timestamp"):
        table.tags.create("both", 1, timestamp=second.time)


def test_changing_and_deleting(table: morrow.Table) -> None:
    table.tags.create("v1", 1)

    assert table.tags.create("v1", 2, ignore_if_exists=True).snapshot.id == 1
    with pytest.raises(AlreadyExists):
        table.tags.create("v1", 2)
    table.tags.rename("v1", "first")
    table.tags.replace("first", 2, time_retained="7 d")
    assert named(table) == {"first": 2}
    assert table.tags.delete("first")
    assert not table.tags.delete("first", ignore_if_not_exists=True)
    with pytest.raises(TagNotFound):
        table.tags.delete("first")


def test_expiring(table: morrow.Table) -> None:
    table.tags.create("short", time_retained=1e-6)
    table.tags.create("long", time_retained="1 d")
    table.tags.create("ever")

    assert table.tags.expire() == ["short"]
    assert table.tags.expire(older_than=dt.timedelta(hours=1)) == []
    assert table.tags.expire(older_than="2222-01-01") == ["ever", "long"]
    with pytest.raises(InvalidArgument, match="neither an age nor a time"):
        table.tags.expire(older_than=2**60)


def test_expired_snapshots_live_on_in_their_tags(table: morrow.Table) -> None:
    table.tags.create("v1", 1)
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert [s.id for s in table.snapshots()] == [3]
    assert rows(table, tag="v1") == [(1,)]
    table.tags.create("too", 1)  # v1 keeps the snapshot
    with pytest.raises(SnapshotExpired):
        table.tags.create("v2", 2)
    with pytest.raises(SnapshotNotFound):
        table.tags.create("v9", 9)
    assert named(table) == {"v1": 1, "too": 1}


def test_a_branch_has_tags_of_its_own(tmp_path: Path) -> None:
    table = new_table(tmp_path, "a INT")
    table.append([{"a": 1}])
    table.tags.create("base")
    table.branches.create("dev", tag="base")
    branch = table.on_branch("dev")
    branch.append([{"a": 2}])

    branch.tags.create("mine")

    assert (named(table), named(branch)) == ({"base": 1}, {"base": 1, "mine": 2})
    assert rows(branch, tag="mine") == [(1,), (2,)]
    branch.tags.delete("mine")
    assert rows(branch) == [(1,), (2,)]


def test_commits_make_the_tags_that_are_due(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
    table = new_table(tmp_path, "a INT", options=options)
    table.append([{"a": 1}])
    table.append([{"a": 2}])

    assert list(named(table).values()) == [1]


def test_the_end_of_a_batch_is_a_tag(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "nightly"}
    table = new_table(tmp_path, "a INT", options=options)
    table.append([{"a": 1}])
    table.append([{"a": 2}])

    assert named(table) == {"nightly": 2}


def test_a_table_that_stands_still_is_tagged_by_the_clock(tmp_path: Path) -> None:
    options = {"tag.create-time": "02:30", "tag.create-interval": "1 d", "sink.process-time-zone": "UTC"}
    table = new_table(tmp_path, "a INT", options=options)
    add_snapshot(table._metadata, 1, "2024-05-13T12:00")

    assert [tag.name for tag in table.tags.create_due(dt.datetime(2024, 5, 13, 13))] == ["2024-05-12"]
    assert table.tags.create_due(moment("2024-05-14T02:29")) == []
    assert tags(table._metadata) == {"2024-05-12": 1}


@pytest.mark.parametrize("now", ["2024-05-13", dt.date(2024, 5, 13)])
def test_the_clock_shows_a_datetime(tmp_path: Path, now: Any) -> None:
    with pytest.raises(InvalidArgument, match="now must be a datetime"):
        new_table(tmp_path, "a INT").tags.create_due(now)


def test_settings_that_contradict_each_other_are_refused_when_they_are_set(tmp_path: Path) -> None:
    table = new_table(tmp_path, "a INT", options={"tag.create-time": "02:30"})

    with pytest.raises(InvalidArgument, match="say the same thing twice"):
        table.alter.set_options({"tag.creation-delay": "1 h"})
    with pytest.raises(InvalidArgument, match="it must be a time of day"):
        new_table(tmp_path, "a INT", options={"tag.create-time": "noon"}, name="u")


# Branches are a collection of names that can be changed.


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
