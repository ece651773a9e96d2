"""Repair of the hints EARLIEST and LATEST."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import morrow
from morrow.writers.history.hints import RepairedHint, repair_hints
from tests.support.written import new_table

EARLIEST, LATEST = "EARLIEST", "LATEST"


def with_commits(folder: Path, count: int) -> morrow.Table:
    table = new_table(folder, "v INT")
    for value in range(count):
        table.append([{"v": value}])
    repair_hints(table._metadata)  # EARLIEST is written by expiry, not by writers
    return table


def hints(table: morrow.Table, folder: str = "snapshot") -> dict[str, str]:
    place = Path(table._metadata.paths.branch_root) / folder
    return {name: (place / name).read_text() for name in (EARLIEST, LATEST) if (place / name).exists()}


@pytest.mark.parametrize(
    ("case", "changed", "right"),
    [
        ("hints_earliest_stale", {EARLIEST: ("1", 7)}, {EARLIEST: "7", LATEST: "7"}),
        ("hints_garbage", {EARLIEST: ("", 1), LATEST: ("not-a-number", 3)}, {EARLIEST: "1", LATEST: "3"}),
        ("hints_latest_stale", {LATEST: ("2", 6)}, {EARLIEST: "1", LATEST: "6"}),
        ("hints_latest_too_high", {EARLIEST: ("9", 1), LATEST: ("17", 3)}, {EARLIEST: "1", LATEST: "3"}),
        ("hints_missing", {EARLIEST: (None, 6), LATEST: (None, 6)}, {EARLIEST: "6", LATEST: "6"}),
    ],
)
def test_hints_become_what_is_there(
    case: str, changed: dict[str, tuple[str | None, int]], right: dict[str, str], golden_root: Path, tmp_path: Path
) -> None:
    shutil.copytree(golden_root / "public" / case / "warehouse/db.db/t", tmp_path / "t")
    table = morrow.open(tmp_path / "t")
    before = table.scan().count()

    assert repair_hints(table._metadata) == [
        RepairedHint("main", "snapshot", name, *texts) for name, texts in sorted(changed.items())
    ]

    assert hints(table) == right
    assert repair_hints(table._metadata) == []
    assert table.scan().count() == before


def test_an_announced_expiry_stays_announced(tmp_path: Path) -> None:
    """Snapshots before EARLIEST count as expired, even if a killed expiry has left their files."""
    table = with_commits(tmp_path, 3)
    (Path(table._metadata.paths.snapshot_dir) / EARLIEST).write_text("3")
    assert repair_hints(table._metadata) == []
    assert hints(table) == {EARLIEST: "3", LATEST: "3"}


def test_hints_of_an_empty_folder_are_removed(tmp_path: Path) -> None:
    table = new_table(tmp_path, "v INT")
    folder = Path(table._metadata.root) / "changelog"
    folder.mkdir()
    (folder / LATEST).write_text("5")
    assert repair_hints(table._metadata) == [RepairedHint("main", "changelog", LATEST, "5", None)]
    assert hints(table, "changelog") == {}


def test_branches_are_repaired_with_the_main_branch(golden_root: Path, tmp_path: Path) -> None:
    shutil.copytree(golden_root / "public/branches/warehouse/db.db/t", tmp_path / "t")
    table = morrow.open(tmp_path / "t")
    branch = table.on_branch("dev2")
    assert hints(branch) == {}  # made from a tag
    repaired = repair_hints(table._metadata)
    assert {(hint.branch, hint.name, hint.after) for hint in repaired} == {("dev2", EARLIEST, 1), ("dev2", LATEST, 1)}
    assert hints(branch) == {EARLIEST: "1", LATEST: "1"}
    assert repair_hints(branch._metadata) == []
