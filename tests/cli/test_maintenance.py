"""``morrow rollback``, ``expire``, ``orphans`` and ``repair``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import BranchNotFound
from morrow.engine.io.cache_folder import FOLDER, SWITCH, CacheFolder, compute_digest
from morrow.engine.io.local import disable_fsync
from tests.cli.conftest import Run
from tests.support.written import new_table, rows

DAYS = 86_400


@pytest.fixture
def small_table(tmp_path: Path) -> morrow.Table:
    """Make four snapshots with one row each."""
    with disable_fsync():
        made = new_table(tmp_path, "a INT")
        for number in (1, 2, 3, 4):
            made.append([{"a": number}])
    return made


def ids(table: morrow.Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


@pytest.mark.parametrize("by", ["--snapshot", "--tag", "--timestamp"])
def test_rollback(run: Run, small_table: morrow.Table, by: str) -> None:
    small_table.tags.create("v2", 2)
    goal = {"--snapshot": 2, "--tag": "v2", "--timestamp": small_table.snapshots()[1].time.isoformat()}[by]

    assert run("rollback", "--yes", small_table.path, by, goal).out == "snapshot 2 (APPEND): 2 stored rows\n"
    assert rows(small_table) == [(1,), (2,)]


def test_rollback_of_a_branch(run: Run, small_table: morrow.Table) -> None:
    small_table.branches.create("dev", snapshot=2)
    dev = small_table.on_branch("dev")
    dev.append([{"a": 9}])

    run("rollback", "--yes", small_table.path, "--snapshot", 2, "--branch", "dev")
    assert rows(dev) == [(1,), (2,)]
    assert ids(small_table) == [1, 2, 3, 4]


def test_expire_by_number(run: Run, small_table: morrow.Table) -> None:
    limits = ("--retain-max", 2, "--retain-min", 1)
    assert run("expire", "--yes", small_table.path, *limits, "--max-deletes", 1).out == "1 snapshot removed\n"
    assert run("expire", "--yes", small_table.path, *limits).out == "1 snapshot removed\n"
    assert run("expire", "--yes", small_table.path, *limits).out == "nothing to do\n"
    assert ids(small_table) == [3, 4]


def test_what_is_left_and_why(run: Run, small_table: morrow.Table) -> None:
    assert run("expire", "--yes", small_table.path).err == "4 snapshots left: retain_min keeps 10\n"
    small_table.consumers.record("job", 3)
    for more, removed in ((["--dry-run"], "would remove 2 snapshots"), ([], "2 snapshots removed")):
        done = run("expire", "--yes", small_table.path, "--retain-max", 1, *more)
        assert done.out.startswith(removed)
        assert done.err == "2 snapshots left: consumer 'job' needs 3\n"


def test_expire_by_age_or_time(run: Run, small_table: morrow.Table) -> None:
    def expire(older_than: object) -> str:
        return run("expire", "--yes", small_table.path, "--retain-min", 1, "--older-than", older_than).out

    second = small_table.snapshots()[1]
    # A bare number is a time in the past, not an age of five milliseconds.
    assert [expire("1 d"), expire("5")] == ["nothing to do\n"] * 2
    assert expire(second.time.isoformat()) == "1 snapshot removed\n"
    assert expire("0 ms") == "2 snapshots removed\n"
    assert ids(small_table) == [4]


def test_orphans_are_listed_and_removed_on_demand(run: Run, small_table: morrow.Table) -> None:
    orphan = Path(small_table.path) / "bucket-0" / "data-of-nobody.parquet"
    orphan.write_bytes(b"x" * 2000)
    os.utime(orphan, (time.time() - 2 * DAYS,) * 2)

    assert run("orphans", small_table.path, "--older-than", "3 d", "-f", "json").data == b""
    listed = run("orphans", small_table.path, "-f", "json")
    assert [json.loads(line) for line in listed.lines] == [{"path": str(orphan)}]
    assert listed.err == "2,000 bytes, not removed: give --delete\n"
    assert orphan.exists()

    assert run("orphans", small_table.path, "--delete", "--yes").err == "2,000 bytes, removed\n"
    assert not orphan.exists()
    assert run("orphans", small_table.path).lines[-1] == "0 rows"


def test_repair(run: Run, small_table: morrow.Table) -> None:
    hint = Path(small_table.path) / "snapshot" / "LATEST"
    hint.write_text("99")

    lines = run("repair", small_table.path, "-f", "csv").lines
    assert lines == ["branch,folder,name,before,after", "main,snapshot,EARLIEST,,1", "main,snapshot,LATEST,99,4"]
    assert hint.read_text() == "4"
    assert run("repair", small_table.path).lines[-1] == "0 rows"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("rollback", "-y"), 1, "say what to roll back to"),
        (("rollback", "-y", "--snapshot", 1, "--tag", "v1"), 1, "give only one of snapshot, tag"),
        (("rollback", "-y", "--snapshot", 9), 1, "there is no snapshot 9"),
        (("rollback", "--snapshot", "new"), 2, "--snapshot"),
        (("expire", "--older-than", "soon"), 1, "--older-than 'soon' is neither an age such as '7 d'"),
        (("expire", "--retain-max", 1, "--retain-min", 2), 1, "the most that are retained (1) must not be less than"),
        (("orphans", "--older-than", "soon", "--delete"), 1, "--older-than 'soon' is neither"),
        (("orphans", "--older-than", "2999-01-01", "--delete", "-y"), 1, "older_than must be past"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_what_is_refused(
    run: Run, small_table: morrow.Table, arguments: tuple[object, ...], code: int, problem: str
) -> None:
    command, *rest = arguments

    done = run(command, small_table.path, *rest)

    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert ids(small_table) == [1, 2, 3, 4]


def test_orphans_outside_are_those_of_folders_that_are_named(
    run: Run, small_table: morrow.Table, tmp_path: Path
) -> None:
    outside = tmp_path / "outside/bucket-0/data-x.parquet"
    outside.parent.mkdir(parents=True)
    outside.write_bytes(b"1")
    os.utime(outside, (time.time() - 9 * DAYS,) * 2)
    small_table.alter.set_options({"data-file.external-paths": str(tmp_path / "outside")})

    done = run("orphans", small_table.path, "--delete", "--yes", "--format", "csv")
    assert (done.lines, outside.exists()) == (["path"], True)
    assert done.err == (
        f"not looked at: {tmp_path}/outside; give its folder, morrow --allowed-root FOLDER orphans PATH\n"
    )

    done = run(
        "--allowed-root", tmp_path / "outside", "orphans", small_table.path, "--delete", "--yes", "--format", "csv"
    )
    assert (done.lines, outside.exists()) == (["path", str(outside)], False)


# ``morrow tags``, ``tag``, ``branches`` and ``branch``.


@pytest.fixture
def written(tmp_path: Path) -> morrow.Table:
    """Make three snapshots with the rows 1; 1 and 2; 1, 2 and 3."""
    with disable_fsync():
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
    assert run("tag", written.path, "first", "--delete", "--yes").out == "tag first deleted\n"
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
    assert run("branch", path, "empty", "--delete", "--yes").out == "branch empty deleted\n"
    assert run("branch", path, "one", "--rename", "first").out == "branch one renamed to first\n"
    assert written.branches() == ["first", "two"]

    written.on_branch("two").append([{"a": 9}])
    assert run("branch", path, "two", "--fast-forward", "--yes").out == "main is what the branch two is\n"
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
        (("branch", "dev", "--delete", "-y"), "there is no branch 'dev'"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_what_is_refused_names(run: Run, written: morrow.Table, arguments: tuple[object, ...], problem: str) -> None:
    written.tags.create("v1", 1)
    command, *rest = arguments

    done = run(command, written.path, *rest)

    assert (done.code, done.out) == (1, "")
    assert problem in done.err
    assert named(written) == {"v1": 1}
    assert written.branches() == []


# ``morrow cache``: the contents of the cache folder, and how to empty it.


def test_the_folder_is_shown_and_emptied(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(*more: str) -> dict[str, object]:
        return json.loads(run("cache", "--format", "json", *more).out)  # type: ignore[no-any-return]  # a line of JSON

    assert (shown()["path"], shown()["state"]) == (None, "off (MORROW_CACHE)")
    monkeypatch.setenv(SWITCH, "on")
    monkeypatch.setenv(FOLDER, str(tmp_path / "c"))
    folder = CacheFolder(tmp_path / "c", 1 << 30)
    folder.put(compute_digest(1), b"value")
    folder.get(compute_digest(1))
    found = shown()
    assert (found["path"], found["entries"], found["hits"], found["state"]) == (str(tmp_path / "c"), 1, 1, "in use")
    assert shown("--clear")["entries"] == 0
    (tmp_path / "c").chmod(0o777)
    assert str(shown()["state"]).startswith("not usable")


def test_erase_needs_a_yes_without_a_terminal(run: Run, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, name STRING")
    table.append([{"id": 7, "name": "Ada"}, {"id": 8, "name": "Ben"}])
    table.tags.create("one")
    found = run("erase", table.path, "-w", "id = 7", "--history", "--dry-run", "--format", "csv")
    assert (found.code, found.lines[1]) == (0, 'found,tag,main,one,1,1,0,""')
    refused = run("erase", table.path, "-w", "id = 7")
    assert (refused.code, rows(table, filter="id = 7")) == (1, [(7, "Ada")])
    assert "give --yes or --dry-run; nothing was erased" in refused.err
    assert (
        "branch main, tag one: 1 file, 1 stored row (history=True removes it)"
        in run("erase", table.path, "-w", "id = 7", "--yes").out
    )
    done = run("erase", table.path, "-w", "id = 7", "--yes", "--history")
    assert (done.code, done.lines[-1]) == (0, "no file of the table holds such rows")
    assert (rows(table), table.tags.names) == ([(8, "Ben")], ())


def test_a_long_listing_shows_rows_and_bytes(run: Run, small_table: morrow.Table) -> None:
    small_table.tags.create("one")
    head, line = run("ls", Path(small_table.path).parents[1], "--long", "--format", "csv").lines
    row = dict(zip(head.split(","), line.split(","), strict=True))
    counts = {"rows": "4", "files": "4", "history_bytes": "0", "snapshots": "4", "tags": "1", "branches": "0"}
    assert counts.items() <= row.items()
    assert int(row["live_bytes"]) > 0


def test_a_tag_is_deleted_beside_a_damaged_one(small_table: morrow.Table, caplog: pytest.LogCaptureFixture) -> None:
    for name, snapshot in (("one", 1), ("two", 2)):
        small_table.tags.create(name, snapshot)
    small_table.expire_snapshots(retain_max=1, retain_min=1)
    small_table.tags.create("three")
    damaged = small_table.tags.get("one").snapshot
    (Path(small_table.path) / "manifest" / damaged.delta_manifest_list).unlink()
    morrow.clear_caches()
    assert small_table.tags.delete("two") is True
    assert small_table.tags.names == ("one", "three")
    assert "their files stay until this is repaired" in caplog.text


def test_a_branch_without_a_schema_is_named(small_table: morrow.Table) -> None:
    (Path(small_table.path) / "branch" / "branch-b1").mkdir(parents=True)
    with pytest.raises(BranchNotFound, match=r"'b1' has no schema; .*table\.branches\.delete\('b1'\)"):
        small_table.on_branch("b1")
    small_table.branches.delete("b1")
    assert small_table.branches.list() == []
