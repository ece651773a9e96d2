"""`Table.remove_unexisting_files`: lost data files leave the newest state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from morrow.engine.errors import FileMissing, InvalidArgument
from morrow.writers.operations import unexisting
from tests.support.written import new_table, rows


@pytest.mark.parametrize("keys", [[], ["id"]])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_the_other_rows_can_be_read_again(tmp_path: Path, keys: list[str], vectors: str) -> None:
    options = {"bucket": 1 if keys else -1, "deletion-vectors.enabled": vectors}
    table = new_table(tmp_path, "id BIGINT, v INT", keys=keys, options=options)
    table.append({"id": [1, 2, 3], "v": [1, 2, 3]})
    if keys:
        table.compact(full=True)
    table.append({"id": [2, 4], "v": [5, 6]})
    table.delete("id = 1")
    assert table.remove_unexisting_files() == []
    (lost,) = (p for p in table.system("files").to_polars()["file_path"] if 3 in pl.read_parquet(p)["id"])
    Path(lost).unlink()
    with pytest.raises(FileMissing):
        rows(table)
    count = len(table.snapshots())
    missing = table.remove_unexisting_files()
    assert missing == [lost]
    assert len(table.snapshots()) == count
    assert table.remove_unexisting_files(dry_run=False, parallelism=2) == missing
    assert rows(table) == [(2, 5), (4, 6)]
    assert table.scan().count() == 2
    assert table.snapshots()[-1].commit_kind == "OVERWRITE"
    assert table.remove_unexisting_files(dry_run=False) == []
    table.append({"id": [9], "v": [9]})
    table.scan().verify()


def test_files_that_others_remove_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, "id BIGINT", options={"commit.min-retry-wait": "1 ms"})
    for number in (1, 2):
        table.append({"id": [number]})
    commit = unexisting.commit_once

    def late(*arguments: Any) -> Any:
        monkeypatch.undo()
        table.compact(full=True)
        return commit(*arguments)

    found = unexisting._missing
    monkeypatch.setattr(unexisting, "commit_once", late)
    monkeypatch.setattr(unexisting, "_missing", lambda *given: [*found(*given), *_all(*given)])
    assert table.remove_unexisting_files(dry_run=False) == []  # the second look finds the compacted file
    assert rows(table) == [(1,), (2,)]


@pytest.mark.parametrize("dry_run", [True, False])
def test_files_that_expire_while_they_are_looked_for_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    table = new_table(tmp_path, "id BIGINT", options={"commit.min-retry-wait": "1 ms"})
    for number in (1, 2):
        table.append({"id": [number]})
    listed = unexisting.entries_of

    def late(frame: Any) -> Any:
        monkeypatch.undo()
        table.compact(full=True)
        table.expire_snapshots(retain_max=1, retain_min=1)
        return listed(frame)

    monkeypatch.setattr(unexisting, "entries_of", late)
    assert table.remove_unexisting_files(dry_run=dry_run) == []
    assert rows(table) == [(1,), (2,)]


def _all(target: Any, snapshot: Any, _threads: int) -> Any:
    """Lists every live file, as if the store had lost it."""
    from morrow.engine.format.entry_frames import entries_of
    from morrow.writers.commit.base_entries import live_in_partitions

    entries = entries_of(live_in_partitions(target.metadata, snapshot, target.schema, None))
    return [(entry, unexisting._path(target, entry)) for entry in entries]


def test_arguments(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT")
    assert table.remove_unexisting_files(False) == []
    wrong: tuple[dict[str, Any], ...] = ({"dry_run": "no"}, {"parallelism": 0}, {"parallelism": True})
    for arguments in wrong:
        with pytest.raises(InvalidArgument):
            table.remove_unexisting_files(**arguments)
