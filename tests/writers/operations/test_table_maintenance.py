"""`Table.rewrite_file_index`: existing data files get the indexes of the current options."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest

import morrow
from morrow.engine.errors import CommitConflict, FileMissing, InvalidArgument, StorageError, Unsupported
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.operations import table_maintenance
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.written import data_files, new_table, rows

INDEXED = {"file-index.bitmap.columns": "name,n,m[x]", "file-index.bloom-filter.columns": "id"}


@pytest.fixture(params=[[], ["id"]], ids=["append", "keyed"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> morrow.Table:
    """Make two files without indexes, then rename a column and change a type."""
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
    """Return whether the indexes exclude every file that the statistics let through."""
    return "by index: kept 0 of" in str(table.scan(filter=filter).explain())


def test_old_files_are_pruned_by_new_indexes(table: morrow.Table) -> None:
    before = rows(table)
    assert table.rewrite_file_index() == table_maintenance.RewrittenIndexes(0, 0, None)
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
    commit, times = table_maintenance.commit_once, []

    def late(*arguments: Any) -> Any:
        times.append(1)
        if len(times) == 1:
            table.compact(full=True)
        return commit(*arguments)

    monkeypatch.setattr(table_maintenance, "commit_once", late)
    before = rows(table)
    table.rewrite_file_index()
    assert len(times) == 2
    assert rows(table) == before
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert len(index_files(table)) == len(table.system("files").to_polars())


def test_what_a_conflict_leaves(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.alter.set_options({**INDEXED, "file-index.in-manifest-threshold": "1 b", "commit.max-retries": "0"})
    commit = table_maintenance.commit_once

    def late(*arguments: Any) -> Any:
        table.compact(full=True)
        return commit(*arguments)

    monkeypatch.setattr(table_maintenance, "commit_once", late)
    with pytest.raises(CommitConflict):
        table.rewrite_file_index()
    assert len(index_files(table)) == 1  # the compacted file's index


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT")
    table.append({"id": [1]})
    table.alter.set_options({"file-index.bitmap.columns": "id", "file-index.in-manifest-threshold": "1 b"})
    files, number = data_files(Path(table.path)), 0
    while True:
        store = FaultyStore(LocalStore(), Fault(number, FaultKind.NO_SPACE))
        with disable_fsync():
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


# `Table.remove_unexisting_files`: lost data files are removed from the newest snapshot.


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
    commit = table_maintenance.commit_once

    def late(*arguments: Any) -> Any:
        monkeypatch.undo()
        table.compact(full=True)
        return commit(*arguments)

    found = table_maintenance._find_missing
    monkeypatch.setattr(table_maintenance, "commit_once", late)
    monkeypatch.setattr(table_maintenance, "_find_missing", lambda *given: [*found(*given), *_all(*given)])
    assert table.remove_unexisting_files(dry_run=False) == []  # the second look finds the compacted file
    assert rows(table) == [(1,), (2,)]


@pytest.mark.parametrize("dry_run", [True, False])
def test_files_that_expire_while_they_are_looked_for_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    table = new_table(tmp_path, "id BIGINT", options={"commit.min-retry-wait": "1 ms"})
    for number in (1, 2):
        table.append({"id": [number]})
    listed = table_maintenance.to_entries

    def late(frame: Any) -> Any:
        monkeypatch.undo()
        table.compact(full=True)
        table.expire_snapshots(retain_max=1, retain_min=1)
        return listed(frame)

    monkeypatch.setattr(table_maintenance, "to_entries", late)
    assert table.remove_unexisting_files(dry_run=dry_run) == []
    assert rows(table) == [(1,), (2,)]


def _all(target: Any, snapshot: Any, _threads: int) -> Any:
    """List every live file as missing."""
    from morrow.engine.format.manifest_entries import to_entries
    from morrow.writers.commit.manifests import read_live_entries

    entries = to_entries(read_live_entries(target.metadata, snapshot, target.schema, None))
    return [(entry, table_maintenance._build_path(target, entry)) for entry in entries]


def test_arguments(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT")
    assert table.remove_unexisting_files(False) == []
    wrong: tuple[dict[str, Any], ...] = ({"dry_run": "no"}, {"parallelism": 0}, {"parallelism": True})
    for arguments in wrong:
        with pytest.raises(InvalidArgument):
            table.remove_unexisting_files(**arguments)


# `Table.mark_partition_done`: a file ``_SUCCESS`` in the folder of a partition.


def test_success_files(tmp_path: Path) -> None:
    table = new_table(tmp_path, "d DATE, h STRING, v INT", by=["d", "h"])
    day = dt.date(2024, 1, 2)
    table.append({"d": [day], "h": ["ü/=%"], "v": [1]})
    (folder,) = Path(table.path).glob("d=*/h=*")
    assert table.mark_partition_done({"d": "2024-01-02", "h": "ü/=%"}, {"d": day}) == [
        f"{folder}/_SUCCESS",
        f"{folder.parent}/_SUCCESS",
    ]
    made = json.loads((folder / "_SUCCESS").read_text())
    assert made["creationTime"] == made["modificationTime"]
    table.mark_partition_done({"d": day, "h": "ü/=%"})
    again = json.loads((folder / "_SUCCESS").read_text())
    assert again["creationTime"] == made["creationTime"] <= again["modificationTime"]
    table.remove_orphan_files(dry_run=False)
    assert (folder / "_SUCCESS").exists()
    assert rows(table) == [(day, "ü/=%", 1)]

    for partition, problem in (
        ({"h": "1"}, "names no folder"),
        ({}, "names no folder"),
        ({"x": 1}, "'x' is not a partition column"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            table.mark_partition_done({"d": day}, partition)
    with pytest.raises(InvalidArgument, match="name the partitions"):
        table.mark_partition_done()
    for action, problem in (
        ("done-partition", "a catalog that keeps no partitions"),
        ("mark-event", "a catalog that keeps no partitions"),
        ("custom", "'custom' is not supported; Morrow has success-file, "),
    ):
        table.alter.set_options({"partition.mark-done-action": action})
        with pytest.raises(Unsupported, match=problem):
            table.mark_partition_done({"d": day})
    table.alter.set_options({"partition.mark-done-action": "http-report"})
    with pytest.raises(InvalidArgument, match="needs an address of http, the option"):
        table.mark_partition_done({"d": day})


def test_an_action_that_fails_after_a_commit_leaves_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {
        "partition.end-input-to-done": "true",
        "partition.mark-done-action": "http-report,success-file",
        "partition.mark-done-action.http.url": "http://127.0.0.1:1/x",
    }
    table = new_table(tmp_path, "d STRING, v INT", by=["d"], options=options)
    table.append({"d": ["a"], "v": [1]})
    assert "http-report does not mark the partitions as done" in caplog.text
    assert Path(table.path, "d=a/_SUCCESS").exists()
    assert rows(table) == [("a", 1)]


@pytest.mark.parametrize(("answer", "problem"), [("success", None), ("FAILED", "expected SUCCESS, got 'FAILED'")])
def test_partitions_that_are_done_are_reported_by_http(tmp_path: Path, answer: str, problem: str | None) -> None:
    """The report has Paimon's members, and the server says whether it took it."""
    reports: list[dict[str, str | None]] = []

    class Hears(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps({"result": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hears) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        action = {"": "http-report", ".http.url": f"http://127.0.0.1:{server.server_port}/x", ".http.params": "of me"}
        table = new_table(tmp_path, "d STRING, v INT", by=["d"])
        table.append({"d": ["a"], "v": [1]})
        table.alter.set_options({f"partition.mark-done-action{key}": value for key, value in action.items()})
        with nullcontext() if problem is None else pytest.raises(StorageError, match=problem):
            assert table.mark_partition_done({"d": "a"}) == []
        server.shutdown()
    path = Path(table.path)
    name = f"{path.parent.name.removesuffix('.db')}.{path.name}"
    assert reports == [{"params": "of me", "table": name, "path": table.path, "partition": "d=a"}]
