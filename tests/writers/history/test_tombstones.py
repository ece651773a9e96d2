"""Retired snapshots, tags and branches disappear at once; their files are deleted later, even after a kill."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from morrow.engine.errors import CorruptFile
from morrow.writers.history.tombstones import finish_removals, retire_file
from tests.writers.history.rollback_tables import assert_clean, ids, keys, numbers, put


def test_a_retired_snapshot_is_not_listed_and_its_bytes_are_kept(tmp_path: Path) -> None:
    table = numbers(tmp_path, 3)
    path = Path(table._metadata.paths.snapshot(3))
    data = path.read_bytes()

    assert retire_file(table._metadata, str(path))

    assert (ids(table), keys(table)) == ([1, 2], [1, 2])
    (retired,) = path.parent.glob("retired-snapshot-*")
    assert retired.read_bytes() == data


def test_finishing_removes_what_only_retired_states_need(tmp_path: Path) -> None:
    table = numbers(tmp_path, 3)
    table.tags.create("two", snapshot=2)
    retire_file(table._metadata, table._metadata.paths.snapshot(3))
    retire_file(table._metadata, table._metadata.paths.tag("two"))

    finish_removals(table._metadata)

    assert_clean(table)
    assert keys(table) == [1, 2]


def test_what_is_gone_cannot_be_retired_again(tmp_path: Path) -> None:
    table = numbers(tmp_path, 1)

    assert not retire_file(table._metadata, table._metadata.paths.snapshot(9))


def test_what_was_killed_between_a_copy_and_its_deletion_stays(tmp_path: Path) -> None:
    """Object stores rename by copying and deleting; the original still exists and needs its files."""
    table = numbers(tmp_path, 3)
    path = Path(table._metadata.paths.snapshot(3))
    retire_file(table._metadata, str(path))
    (retired,) = path.parent.glob("retired-snapshot-*")
    shutil.copy(retired, path)

    finish_removals(table._metadata)

    assert keys(table) == [1, 2, 3]
    assert_clean(table)


def test_a_retired_branch_goes_with_all_that_only_it_needs(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    table.branches.create("dev", snapshot=1)
    dev = table.on_branch("dev")
    put(dev, 5, 6)
    dev.tags.create("five", snapshot=2)
    dev.rollback(2)
    retire_file(dev._metadata, dev._metadata.paths.snapshot(2))  # as if killed during another rollback

    retire_file(table._metadata, dev._metadata.paths.branch_root)

    assert list(table.branches) == []
    finish_removals(table._metadata)
    assert_clean(table)
    assert keys(table) == [1, 2]


def test_branches_that_nobody_finished_building_go_after_a_day(tmp_path: Path) -> None:
    table = numbers(tmp_path, 1)
    young, old = (Path(table.path, "branch", f"creating-{digit * 32}") for digit in "ab")
    for folder in (young, old):
        (folder / "schema").mkdir(parents=True)
    yesterday = time.time() - 25 * 60 * 60
    os.utime(old, (yesterday, yesterday))

    finish_removals(table._metadata)

    assert (young.exists(), old.exists()) == (True, False)


def test_a_damaged_retired_file_keeps_everything(tmp_path: Path) -> None:
    table = numbers(tmp_path, 2)
    retire_file(table._metadata, table._metadata.paths.snapshot(2))
    (retired,) = Path(table._metadata.paths.snapshot_dir).glob("retired-snapshot-*")
    retired.write_text("{")

    with pytest.raises(CorruptFile, match=retired.name):
        finish_removals(table._metadata)

    assert retired.exists()
    assert keys(table) == [1]


def test_other_names_are_left_alone(tmp_path: Path) -> None:
    """Only names that `retire_file` creates are removed."""
    table = numbers(tmp_path, 1)
    strange = Path(table._metadata.paths.snapshot_dir, "retired-snapshot-mine")
    strange.write_text("not a snapshot")

    finish_removals(table._metadata)

    assert strange.exists()
