"""``morrow rollback``, ``expire``, ``orphans`` and ``repair``."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import morrow
from morrow.engine.io.durability import fsync_disabled
from tests.cli.conftest import Run
from tests.support.written import new_table, rows

DAYS = 86_400


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    """Four snapshots of a row each."""
    with fsync_disabled():
        made = new_table(tmp_path, "a INT")
        for number in (1, 2, 3, 4):
            made.append([{"a": number}])
    return made


def ids(table: morrow.Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


@pytest.mark.parametrize("by", ["--snapshot", "--tag", "--timestamp"])
def test_rollback(run: Run, table: morrow.Table, by: str) -> None:
    table.tags.create("v2", 2)
    goal = {"--snapshot": 2, "--tag": "v2", "--timestamp": table.snapshots()[1].time.isoformat()}[by]

    assert run("rollback", table.path, by, goal).out == "snapshot 2 (APPEND): 2 stored rows\n"
    assert rows(table) == [(1,), (2,)]


def test_rollback_of_a_branch(run: Run, table: morrow.Table) -> None:
    table.branches.create("dev", snapshot=2)
    dev = table.on_branch("dev")
    dev.append([{"a": 9}])

    run("rollback", table.path, "--snapshot", 2, "--branch", "dev")
    assert rows(dev) == [(1,), (2,)]
    assert ids(table) == [1, 2, 3, 4]


def test_expire_by_number(run: Run, table: morrow.Table) -> None:
    limits = ("--retain-max", 2, "--retain-min", 1)
    assert run("expire", table.path, *limits, "--max-deletes", 1).out == "1 snapshot removed\n"
    assert run("expire", table.path, *limits).out == "1 snapshot removed\n"
    assert run("expire", table.path, *limits).out == "nothing to do\n"
    assert ids(table) == [3, 4]


def test_what_is_left_and_why(run: Run, table: morrow.Table) -> None:
    assert run("expire", table.path).err == "4 snapshots left: retain_min keeps 10\n"
    table.consumers.record("job", 3)
    for more, removed in ((["--dry-run"], "would remove 2 snapshots"), ([], "2 snapshots removed")):
        done = run("expire", table.path, "--retain-max", 1, *more)
        assert done.out.startswith(removed)
        assert done.err == "2 snapshots left: consumer 'job' needs 3\n"


def test_expire_by_age_or_time(run: Run, table: morrow.Table) -> None:
    def expire(older_than: object) -> str:
        return run("expire", table.path, "--retain-min", 1, "--older-than", older_than).out

    second = table.snapshots()[1]
    # A bare number is a moment, long ago, and no age of five milliseconds.
    assert [expire("1 d"), expire("5")] == ["nothing to do\n"] * 2
    assert expire(second.time.isoformat()) == "1 snapshot removed\n"
    assert expire("0 ms") == "2 snapshots removed\n"
    assert ids(table) == [4]


def test_orphans_are_listed_and_removed_on_demand(run: Run, table: morrow.Table) -> None:
    orphan = Path(table.path) / "bucket-0" / "data-of-nobody.parquet"
    orphan.write_bytes(b"x" * 2000)
    os.utime(orphan, (time.time() - 2 * DAYS,) * 2)

    assert run("orphans", table.path, "--older-than", "3 d", "-f", "json").data == b""
    listed = run("orphans", table.path, "-f", "json")
    assert [json.loads(line) for line in listed.lines] == [{"path": str(orphan)}]
    assert listed.err == "2,000 bytes, not removed: give --delete\n"
    assert orphan.exists()

    assert run("orphans", table.path, "--delete").err == "2,000 bytes, removed\n"
    assert not orphan.exists()
    assert run("orphans", table.path).lines[-1] == "0 rows"


def test_repair(run: Run, table: morrow.Table) -> None:
    hint = Path(table.path) / "snapshot" / "LATEST"
    hint.write_text("99")

    lines = run("repair", table.path, "-f", "csv").lines
    assert lines == ["branch,folder,name,before,after", "main,snapshot,EARLIEST,,1", "main,snapshot,LATEST,99,4"]
    assert hint.read_text() == "4"
    assert run("repair", table.path).lines[-1] == "0 rows"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("rollback",), 1, "say what to roll back to"),
        (("rollback", "--snapshot", 1, "--tag", "v1"), 1, "give only one of snapshot, tag"),
        (("rollback", "--snapshot", 9), 1, "there is no snapshot 9"),
        (("rollback", "--snapshot", "new"), 2, "--snapshot"),
        (("expire", "--older-than", "soon"), 1, "--older-than 'soon' is neither an age such as '7 d'"),
        (("expire", "--retain-max", 1, "--retain-min", 2), 1, "the most that are retained (1) must not be less than"),
        (("orphans", "--older-than", "soon", "--delete"), 1, "--older-than 'soon' is neither"),
        (("orphans", "--older-than", "2999-01-01", "--delete"), 1, "older_than must be past"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_what_is_refused(run: Run, table: morrow.Table, arguments: tuple[object, ...], code: int, problem: str) -> None:
    command, *rest = arguments

    done = run(command, table.path, *rest)

    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert ids(table) == [1, 2, 3, 4]


def test_orphans_outside_are_those_of_folders_that_are_named(run: Run, table: morrow.Table, tmp_path: Path) -> None:
    outside = tmp_path / "outside/bucket-0/data-x.parquet"
    outside.parent.mkdir(parents=True)
    outside.write_bytes(b"1")
    os.utime(outside, (time.time() - 9 * DAYS,) * 2)
    table.alter.set_options({"data-file.external-paths": str(tmp_path / "outside")})

    done = run("orphans", table.path, "--delete", "--format", "csv")
    assert (done.lines, outside.exists()) == (["path"], True)
    assert done.err == (
        f"not looked at: {tmp_path}/outside; give its folder, morrow --allowed-root FOLDER orphans PATH\n"
    )

    done = run("--allowed-root", tmp_path / "outside", "orphans", table.path, "--delete", "--format", "csv")
    assert (done.lines, outside.exists()) == (["path", str(outside)], False)
