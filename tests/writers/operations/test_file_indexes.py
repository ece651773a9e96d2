"""`Table.rewrite_file_index`: indexes of existing data files as the options ask for by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import CommitConflict, StorageError
from morrow.engine.io.durability import fsync_disabled
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.operations import file_indexes
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.written import data_files, new_table, rows

INDEXED = {"file-index.bitmap.columns": "name,n,m[x]", "file-index.bloom-filter.columns": "id"}


@pytest.fixture(params=[[], ["id"]], ids=["append", "keyed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> morrow.Table:
    """Two files without indexes; then a column was renamed, and one got another type."""
    options = {"bucket": 1 if request.param else -1, "deletion-vectors.enabled": "true"}
    made = new_table(tmp_path, "id BIGINT, old STRING, n INT, m MAP<STRING, INT>", keys=request.param, options=options)
    made.append({"id": [1, 2, 3], "old": ["a", "c", None], "n": [1, 2, 3], "m": [{"x": 1}, {}, None]})
    made.append({"id": [4], "old": ["d"], "n": [1], "m": [{"y": 1}]})
    made.delete("id = 2")
    made.alter.rename_column("old", "name")
    made.alter.set_type("n", "BIGINT")
    return made


def index_files(table: morrow.Table) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*.index")}


def pruned(table: morrow.Table, filter: str) -> bool:
    """Tells whether indexes leave out every file that statistics would have read."""
    return "by index: kept 0 of" in str(table.scan(filter=filter).explain())


def test_old_files_are_pruned_by_new_indexes(table: morrow.Table) -> None:
    before = rows(table)
    assert table.rewrite_file_index() == file_indexes.RewrittenIndexes(0, 0, None)
    table.alter.set_options(INDEXED)
    assert not pruned(table, "name = 'b'")  # between the bounds of the first file
    done = table.rewrite_file_index()
    assert (done.partitions, done.files) == (1, len(table.system("files").to_polars()))
    assert done.snapshot is not None
    assert done.snapshot.commit_kind == "COMPACT"
    assert pruned(table, "name = 'b'")
    assert rows(table) == before
    assert rows(table, filter="name = 'a'") == [row for row in before if row[1] == "a"]
    assert rows(table, filter="n = 1 AND id > 1") == [row for row in before if row[0] == 4]
    assert table.rewrite_file_index().files == 0
    table.scan().verify()


def test_former_indexes_go_with_their_snapshots(table: morrow.Table) -> None:
    before = rows(table)
    table.alter.set_options({**INDEXED, "file-index.in-manifest-threshold": "1 b"})
    table.rewrite_file_index()
    first = index_files(table)
    table.alter.unset_options("file-index.bloom-filter.columns")
    table.rewrite_file_index()
    second = index_files(table) - first
    assert len(first) == len(second) > 0
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert index_files(table) == second
    table.alter.unset_options(*INDEXED)
    table.rewrite_file_index()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert index_files(table) == set()
    assert rows(table) == before


def test_a_lost_index_is_made_anew(table: morrow.Table) -> None:
    table.alter.set_options({**INDEXED, "file-index.in-manifest-threshold": "1 b"})
    files = table.rewrite_file_index().files
    for path in Path(table.path).rglob("*.index"):
        path.unlink()
    assert table.rewrite_file_index().files == files
    assert len(rows(table, filter="name = 'a'")) == 1


def test_others_commit_meanwhile(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.alter.set_options({**INDEXED, "file-index.in-manifest-threshold": "1 b", "commit.min-retry-wait": "1 ms"})
    commit, times = file_indexes.commit_once, []

    def late(*arguments: Any) -> Any:
        times.append(1)
        if len(times) == 1:
            table.compact(full=True)
        return commit(*arguments)

    monkeypatch.setattr(file_indexes, "commit_once", late)
    before = rows(table)
    table.rewrite_file_index()
    assert len(times) == 2
    assert rows(table) == before
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(index_files(table)) == len(table.system("files").to_polars())


def test_what_a_conflict_leaves(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.alter.set_options({**INDEXED, "file-index.in-manifest-threshold": "1 b", "commit.max-retries": "0"})
    commit = file_indexes.commit_once

    def late(*arguments: Any) -> Any:
        table.compact(full=True)
        return commit(*arguments)

    monkeypatch.setattr(file_indexes, "commit_once", late)
    with pytest.raises(CommitConflict):
        table.rewrite_file_index()
    assert len(index_files(table)) == 1  # of the compacted file


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT")
    table.append({"id": [1]})
    table.alter.set_options({"file-index.bitmap.columns": "id", "file-index.in-manifest-threshold": "1 b"})
    files, number = data_files(Path(table.path)), 0
    while True:
        store = FaultyStore(LocalStore(), Fault(number, FaultKind.NO_SPACE))
        with fsync_disabled():
            try:
                morrow.Table(TableMetadata(store, table.path)).rewrite_file_index()
            except StorageError:
                assert data_files(Path(table.path)) == files
            if table.snapshots()[-1].id > 1:
                break
        number += 1
    assert number > 2
    assert len(index_files(table)) == 1
    assert rows(table) == [(1,)]
