"""``morrow tags``, ``tag``, ``branches`` and ``branch``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import morrow
from morrow.engine.io.durability import fsync_disabled
from tests.cli.conftest import Run
from tests.support.written import new_table, rows


@pytest.fixture
def written(tmp_path: Path) -> morrow.Table:
    """Three snapshots, of the rows 1; 1 and 2; 1, 2 and 3."""
    with fsync_disabled():
        made = new_table(tmp_path, "a INT")
        for number in (1, 2, 3):
            made.append([{"a": number}])
    return made


def named(table: morrow.Table) -> dict[str, int]:
    return {tag.name: tag.snapshot.id for tag in table.tags}


def test_tags_are_listed(run: Run, table: Callable[[str], Path]) -> None:
    lines = run("tags", table("tags_time_retained"), "--format", "json").lines
    told = {tag["name"]: tag for tag in map(json.loads, lines)}

    assert [(tag["name"], tag["snapshot"]) for tag in told.values()] == [
        ("keep-1d", 1),
        ("keep-3650d", 2),
        ("plain", 3),
    ]
    assert [tag["time_retained"] for tag in told.values()] == ["PT24H", "PT87600H", None]
    assert told["keep-1d"]["create_time"] is not None
    assert told["plain"]["create_time"] is None


@pytest.mark.parametrize("command", ["tags", "branches"])
@pytest.mark.parametrize("form", ["table", "json", "csv", "arrow"])
def test_lists_take_every_form(run: Run, table: Callable[[str], Path], command: str, form: str) -> None:
    case = {"tags": "tags_basic", "branches": "branches"}[command]
    done = run(command, table(case), "--format", form)
    assert done.code == 0
    assert done.data


def test_tag_a_snapshot(run: Run, written: morrow.Table) -> None:
    second = written.snapshots()[1]

    assert run("tag", written.path, "now").out == "tag now: snapshot 3\n"
    assert run("tag", written.path, "v1", "--snapshot", 1, "--time-retained", "7 d").out == "tag v1: snapshot 1\n"
    assert run("tag", written.path, "v2", "--timestamp", second.time_millis).out == "tag v2: snapshot 2\n"
    assert named(written) == {"v1": 1, "v2": 2, "now": 3}
    assert run("tags", written.path, "-f", "csv").lines[1].endswith(",PT168H")


def test_rename_and_delete_a_tag(run: Run, written: morrow.Table) -> None:
    written.tags.create("v1", 1)

    assert run("tag", written.path, "v1", "--rename", "first").out == "tag v1 renamed to first\n"
    assert named(written) == {"first": 1}
    assert run("tag", written.path, "first", "--delete").out == "tag first deleted\n"
    assert named(written) == {}


def test_tags_of_a_branch(run: Run, written: morrow.Table) -> None:
    written.branches.create("dev", snapshot=2)
    run("tag", written.path, "v2", "--branch", "dev")

    assert named(written) == {}
    assert run("tags", written.path, "--branch", "dev", "-f", "csv").lines[1].startswith("v2,2,")


def test_the_life_of_a_branch(run: Run, written: morrow.Table) -> None:
    written.tags.create("v1", 1)
    path = written.path

    assert run("branch", path, "empty").out == "branch empty made\n"
    run("branch", path, "one", "--tag", "v1")
    run("branch", path, "two", "--snapshot", 2)
    told = [json.loads(line) for line in run("branches", path, "-f", "json").lines]
    assert [(branch["name"], branch["snapshot"], branch["total_records"]) for branch in told] == [
        ("empty", None, None),
        ("one", 1, 1),
        ("two", 2, 2),
    ]

    written.on_branch("empty").append([{"a": 5}])
    assert run("branch", path, "empty", "--merge").out == "main has the rows of the branch empty\n"
    assert rows(written) == [(1,), (2,), (3,), (5,)]
    assert run("branch", path, "empty", "--delete").out == "branch empty deleted\n"
    assert run("branch", path, "one", "--rename", "first").out == "branch one renamed to first\n"
    assert written.branches() == ["first", "two"]

    written.on_branch("two").append([{"a": 9}])
    assert run("branch", path, "two", "--fast-forward").out == "main is what the branch two is\n"
    assert rows(written) == [(1,), (2,), (9,)]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("tag", "v1"), "there is a tag 'v1' already"),
        (("tag", "v2", "--snapshot", 9), "there is no snapshot 9"),
        (("tag", "v2", "--snapshot", 1, "--timestamp", "2024-05-14"), "give only one of snapshot, timestamp"),
        (("tag", "v2", "--time-retained", "soon"), "must be a time span such as 10 s"),
        (("tag", "v1", "--delete", "--snapshot", 1), "--delete, --snapshot: one thing at a time"),
        (("tag", "v1", "--rename", "v2", "--delete"), "--rename, --delete: one thing at a time"),
        (("tag", "v2", "--delete"), "there is no tag 'v2'"),
        (("tag", "v1", "--branch", "nowhere"), "there is no branch 'nowhere'"),
        (("branch", "main"), "the branch 'main' is the table itself"),
        (("branch", "dev", "--fast-forward", "--tag", "v1"), "--fast-forward, --tag: one thing at a time"),
        (("branch", "dev", "--delete"), "there is no branch 'dev'"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_what_is_refused(run: Run, written: morrow.Table, arguments: tuple[object, ...], problem: str) -> None:
    written.tags.create("v1", 1)
    command, *rest = arguments

    done = run(command, written.path, *rest)

    assert (done.code, done.out) == (1, "")
    assert problem in done.err
    assert named(written) == {"v1": 1}
    assert written.branches() == []
