"""Erasure: afterwards no file of the table holds a row, whether live, deleted, superseded or in the history."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.orc as orc
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, MorrowError, Unsupported
from morrow.engine.io.local import LocalStore, disable_fsync
from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.manifests import list_manifests, read_manifest_entries
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.predicate import Leaf, Op
from morrow.tables.table import Table
from morrow.writers.operations import erasure
from morrow.writers.operations.erasure import Erasure
from tests.support.faulty_store import Fault, FaultKind, FaultyStore
from tests.support.written import made_once, new_table, rows

NOW = dt.timedelta(0)
CHANGELOG = {"changelog-producer": "input", "changelog.num-retained.max": 20, "changelog.num-retained.min": 20}
KINDS: dict[str, dict[str, Any]] = {
    "append": {"by": ["p"], "options": {"file-index.bloom-filter.columns": "name", "file-index.bitmap.columns": "id"}},
    "append-vectors": {"options": {"deletion-vectors.enabled": True}},
    "keyed": {"keys": ["id"], "options": {"bucket": 1, **CHANGELOG}},
    "keyed-orc": {"keys": ["id", "p"], "by": ["p"], "options": {"bucket": 1, "file.format": "orc"}},
    "keyed-vectors": {"keys": ["id"], "options": {"bucket": 1, "deletion-vectors.enabled": True}},
    "postponed": {"keys": ["id"], "options": {"bucket": -2}},
    "partial-update": {"keys": ["id"], "options": {"bucket": 1, "merge-engine": "partial-update"}},
    "first-row": {"keys": ["id"], "options": {"bucket": 1, "merge-engine": "first-row"}},
}


def make(kind: str, folder: Path) -> morrow.Table:
    """Make a table with snapshots, a tag, a branch, and deleted and replaced rows of id 7."""

    def write(template: Path) -> morrow.Table:
        table = new_table(template, "id BIGINT NOT NULL, p INT, name STRING", **KINDS[kind])
        table.append([{"id": i, "p": i % 2, "name": f"name {i}"} for i in range(1, 10)])
        table.tags.create("first")
        table.branches.create("dev", snapshot=1)
        if kind not in ("partial-update", "first-row"):
            table.delete("id IN (7, 8)")
        table.append([{"id": i, "p": i % 2, "name": f"again {i}"} for i in (2, 7)])
        table.on_branch("dev").append([{"id": 7, "p": 1, "name": "dev 7"}])
        if "append" not in kind:
            table.analyze(("id",))
        return table

    return made_once(f"erasable, {kind}", folder, write)


def stored(folder: Path) -> pl.DataFrame:
    """Decode all data and changelog files below a folder, whether anything names them or not."""
    read: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".parquet": pl.read_parquet,
        ".orc": lambda path: pl.DataFrame(orc.read_table(path)),
    }
    files = [read[path.suffix](path) for path in folder.rglob("*") if path.suffix in read]
    return pl.concat([file.select("id", "name") for file in files])


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_holds_erased_rows(kind: str, tmp_path: Path) -> None:
    table = make(kind, tmp_path)
    others = {name: rows(table.on_branch(name), filter="id <> 7") for name in ("main", "dev")}
    assert stored(tmp_path).filter(pl.col("id") == 7).height > 2

    receipt = table.erase("id = 7", history=True, older_than=NOW)

    assert receipt.complete, receipt
    assert stored(tmp_path).filter(pl.col("id") == 7).is_empty()
    for name, expected in others.items():
        branch = table.on_branch(name)
        if kind != "postponed":  # its rows were not visible before
            assert rows(branch) == expected
        metadata = branch._metadata
        snapshot = metadata.latest_snapshot()
        assert snapshot is not None
        assert snapshot.statistics is None
        for entries in read_manifest_entries(metadata, list_manifests(metadata, snapshot)):
            assert set(entries["_KIND"]) <= {0}, "no manifest names a removed file, with its bounds"
    assert not table.tags.names
    assert [finding for finding in table.doctor(data=True).findings if finding.severity == "error"] == []

    again = table.erase("id = 7", history=True)
    assert (again.found, again.rewritten, again.expired) == ((), 0, 0)
    assert again.complete


def test_no_folder_is_named_like_an_erased_value(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, name STRING", by=["name"])
    table.append([{"id": 1, "name": "Ada"}, {"id": 2, "name": "Ben"}])
    assert table.erase("name = 'Ada'", history=True).complete
    assert [each.name for each in tmp_path.rglob("name=*")] == ["name=Ben"]


def test_a_dry_run_names_what_holds_rows(tmp_path: Path) -> None:
    table = make("keyed", tmp_path)
    before = sorted(tmp_path.rglob("*"))
    found = table.erase("id = 7", history=True, dry_run=True)

    assert sorted(tmp_path.rglob("*")) == before
    assert (found.dry_run, found.complete, found.rows) == (True, False, 0)
    held = {(each.kind.value, each.branch, each.name): each.rows for each in found.found}
    assert held["tag", "main", "first"] == 1
    assert held["newest snapshot", "dev", "2"] == 2
    assert {name for kind, _, name in held if kind == "snapshot"} >= {"1", "2", "3"}
    assert str(found).splitlines()[:3] == [
        "Would erase rows where id = 7",
        "held by:",
        "  branch main, tag first: 1 file, 1 stored row",
    ]
    frame = found.to_polars().filter(pl.col("holder") == "tag")
    assert frame.select("state", "branch", "name", "files", "stored_rows").rows() == [("found", "main", "first", 1, 1)]


def test_without_history_the_receipt_names_what_is_left(tmp_path: Path) -> None:
    table = make("append-vectors", tmp_path)
    receipt = table.erase("id = 7")

    assert rows(table, filter="id = 7") == rows(table.on_branch("dev"), filter="id = 7") == []
    assert receipt.rows == 3
    assert receipt.snapshots == {"main": 4, "dev": 3}
    assert not receipt.complete
    assert {(each.kind.value, each.reason) for each in receipt.remaining} == {
        ("tag", "history=True removes it"),
        ("snapshot", "history=True removes it"),
    }
    assert rows(table, tag="first", filter="id = 7") == [(7, 1, "name 7")]
    assert table.history()["operation"][0] == "DELETE"
    assert table.erase("id = 7", history=True, older_than=NOW).complete


def test_tags_and_snapshots_without_such_rows_stay(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT")
    table.append([{"id": 7}])
    table.delete("id = 7")
    table.append([{"id": 8}])
    table.append([{"id": 9}])
    table.tags.create("named")  # its manifests hold the bounds of the removed file
    table.compact_manifests()
    table.tags.create("clean")
    receipt = table.erase("id = 7", history=True, older_than=NOW)

    assert receipt.complete, receipt
    assert (receipt.rewritten, table.tags.names) == (0, ("clean",))
    assert rows(table, tag="clean") == rows(table) == [(8,), (9,)]
    assert stored_ids(tmp_path) == [8, 9]


def stored_ids(folder: Path) -> list[int]:
    return sorted(pl.concat([pl.read_parquet(path) for path in folder.rglob("*.parquet")])["id"])


def test_merged_rows_match_although_no_stored_version_does(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, a INT, b INT", keys=["id"], options=KINDS["partial-update"]["options"])
    table.append({"id": [1, 2], "a": [5, 6]})
    table.append({"id": [1, 2], "b": [7, 8]})
    receipt = table.erase("a = 5 AND b = 7", history=True, older_than=NOW)

    assert (receipt.rows, receipt.complete) == (1, True)
    assert rows(table) == [(2, 6, 8)]
    assert stored_ids(tmp_path) == [2]


def test_replaced_versions_go_and_the_row_stays(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, mail STRING", keys=["id"], options={"bucket": 1})
    table.append([{"id": 1, "mail": "old"}, {"id": 2, "mail": "x"}])
    table.append([{"id": 1, "mail": "new"}])
    receipt = table.erase("mail = 'old'", history=True, older_than=NOW)

    assert (receipt.rows, receipt.rewritten) == (0, 2)
    assert rows(table) == [(1, "new"), (2, "x")]
    assert "old" not in pl.concat([pl.read_parquet(path) for path in tmp_path.rglob("*.parquet")])["mail"]


def test_consumers_keep_their_snapshots(tmp_path: Path) -> None:
    table = make("keyed", tmp_path)
    Consumers(table._metadata).record("job", 2)
    receipt = table.erase("id = 7", history=True, older_than=NOW)

    left = {(each.kind.value, each.branch): each.reason for each in receipt.remaining}
    assert left["snapshot", "main"] == "consumer 'job' needs 2"
    assert rows(table, filter="id = 7") == []
    assert rows(table, as_of=3, filter="id = 7") == [(7, 1, "again 7")]

    table.consumers.delete("job")
    assert table.erase("id = 7", history=True, older_than=NOW).complete


def test_young_unreferenced_files_are_named(tmp_path: Path) -> None:
    table = make("append", tmp_path)
    (file, *_) = tmp_path.rglob("*.parquet")
    shutil.copy(file, file.with_name("data-0d4d3b4c-8dbb-4fdc-b5b9-6f2b5b7b3d52-0.parquet"))
    receipt = table.erase("id = 7", history=True)

    (left,) = receipt.remaining
    assert left.kind == "unreferenced files"
    assert "older_than" in left.reason
    assert table.erase("id = 7", history=True, older_than=NOW).complete
    assert stored(tmp_path).filter(pl.col("id") == 7).is_empty()


@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
def test_another_call_completes_an_interrupted_one(share: float, tmp_path: Path) -> None:
    table = make("keyed", tmp_path)
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "db.db", whole / "db.db")
    store = FaultyStore(LocalStore())
    with disable_fsync():
        erase(store, whole)
        METADATA_CACHE.clear()
        broken = FaultyStore(LocalStore(), Fault(int(len(store.asked) * share), FaultKind.BAD_DISK, lasting=True))
        with pytest.raises(MorrowError):
            erase(broken, tmp_path)
        METADATA_CACHE.clear()
        shutil.rmtree(whole)

        assert erase(LocalStore(), tmp_path).complete
    assert stored(tmp_path).filter(pl.col("id") == 7).is_empty()
    assert len(rows(table)) == len(rows(table.on_branch("dev"))) + 1 - 2 == 7


def erase(store: Any, folder: Path) -> Erasure:
    return Table(TableMetadata(store, str(folder / "db.db" / "t"))).erase("id = 7", history=True, older_than=NOW)


EVOLUTION = {"row-tracking.enabled": True, "data-evolution.enabled": True, "deletion-vectors.enabled": True}
MEDIA = {**EVOLUTION, "vector.file.format": "parquet", "global-index.column-update-action": "drop_partition_index"}
COLUMNS = "id BIGINT, p INT, name STRING, file BLOB, more ARRAY<BLOB>, e VECTOR<FLOAT, 2>"


def find_texts(table: morrow.Table, *texts: str) -> list[str]:
    """Return the texts whose bytes are in any file of a table, if its files are neither compressed nor encoded."""
    held = b"".join(path.read_bytes() for path in Path(table.path).rglob("*") if path.is_file())
    return [text for text in texts if text.encode() in held]


def test_rows_with_columns_in_several_files(tmp_path: Path) -> None:
    """Old values of columns, BLOBs, vectors and indexes leave with the rows, also those of deleted rows."""
    plain = {"file.compression": "none", "btree-index.compression": "none", "bitmap-index.compression": "none"}
    options = {**MEDIA, **plain, "parquet.enable.dictionary": "false"}
    table = morrow.Catalog(tmp_path).create_table("db.t", COLUMNS, partition_keys=["p"], options=options)

    def make(i: int) -> dict[str, Any]:
        more = [f"first of {i}.".encode(), f"second of {i}.".encode()]
        return {
            "id": i,
            "p": i % 2,
            "name": f"name of {i}.",
            "file": f"file of {i}.".encode(),
            "more": more,
            "e": [i, i],
        }

    table.append([make(i) for i in range(1, 7)])
    table.append([make(7), make(8)])
    table.tags.create("all")
    table.branches.create("dev", snapshot=1)
    table.update({"name": "'newer of ' || id || '.'"}, "id IN (2, 7)")
    table.update({"file": "CAST('newer file of 2.' AS BLOB)"}, "id = 2")
    table.delete("id IN (3, 7)")
    table.create_global_index("name", "btree")
    table.create_global_index("id", "bitmap")
    before = {i: row for i, *row in rows(table)}
    texts = [f"{what} of {i}." for i in (2, 3, 7) for what in ("name", "file", "first", "second")]
    texts += ["newer of 2.", "newer file of 2.", "newer of 7."]
    assert find_texts(table, *texts) == texts

    found = table.erase("id IN (2, 7)", history=True, dry_run=True)
    assert sum(path.rpartition("/")[0].endswith("/index") for each in found.found for path in each.files) >= 2
    receipt = table.erase("id IN (2, 7)", history=True, older_than=NOW)

    assert (receipt.complete, receipt.rows) == (True, 2), receipt  # of main and dev; 7 was deleted
    assert find_texts(table, *[text for text in texts if "of 3." not in text]) == []
    assert {i: row for i, *row in rows(table)} == {i: before[i] for i in (1, 4, 5, 6, 8)}
    assert sorted(row[0] for row in rows(table.on_branch("dev"))) == [1, 3, 4, 5, 6]
    assert table.erase("id IN (2, 7)", history=True).found == ()
    assert table.erase("name = 'name of 3.'", history=True, older_than=NOW).complete
    assert find_texts(table, *texts) == []
    assert [each for each in table.doctor(data=True).findings if each.severity == "error"] == []


def test_old_values_of_columns_leave_and_the_row_stays(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, name STRING, b BLOB", options=EVOLUTION)
    table.append([{"id": 1, "name": "old", "b": b"1"}, {"id": 2, "name": "x", "b": b"2"}])
    table.update({"name": "'new'"}, "id = 1")
    receipt = table.erase("name = 'old' AND b = CAST('1' AS BLOB)", history=True, older_than=NOW)

    assert (receipt.rows, receipt.rewritten, receipt.complete) == (0, 3, True)
    assert rows(table) == [(1, "new", b"1"), (2, "x", b"2")]


def test_columns_are_not_lost_to_an_erasure_that_missed_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, "id BIGINT, name STRING, b BLOB", options=EVOLUTION)
    table.append([{"id": i, "name": "old", "b": b"old"} for i in (1, 2)])
    changes = iter([{"name": "'new'"}, {"b": "CAST('new' AS BLOB)"}])
    rewrite = erasure.rewrite_live_rows

    def overtaken(*args: Any) -> object:
        found = rewrite(*args)
        for change in itertools.islice(changes, 1):
            morrow.open(table.path).update(change)
        return found

    monkeypatch.setattr(erasure, "rewrite_live_rows", overtaken)
    table.erase("id = 1")
    assert rows(table) == [(2, "new", b"new")]


def test_refusals(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT", name="u")
    table.append([{"id": 7}])
    table.branches.create("old", snapshot=1)
    table.alter.add_column("name", "STRING")
    with pytest.raises(InvalidArgument, match="give a condition"):
        table.erase(None)
    with pytest.raises(ColumnNotFound, match="nme"):
        table.erase("nme = 'x'")
    with pytest.raises(ColumnNotFound, match="branch 'old'"):
        table.erase("name = 'x'")
    with pytest.raises(InvalidArgument, match="older_than counts only with history=True"):
        table.erase("id = 7", older_than=NOW)
    with pytest.raises(InvalidArgument, match="history is True or False"):
        table.erase("id = 7", history=1)  # type: ignore[arg-type]
    assert rows(table) == [(7, None)]
    assert table.erase(Leaf("id", Op.EQ, (7,)), history=True, older_than=NOW).complete


def test_files_with_copied_values_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, name STRING")
    table.alter.set_options({"metadata.iceberg.storage": "table-location"})
    with pytest.raises(Unsupported, match="Iceberg metadata, which has bounds of columns"):
        table.erase("id = 7")

    table = morrow.Catalog(tmp_path).create_table("db.w", "id BIGINT", options={"row-tracking.enabled": True})
    table.append([{"id": 7}, {"id": 8}])
    table.create_global_index("id", "btree")
    with pytest.raises(Unsupported, match="a global index, which has the values of a column"):
        table.erase("id = 7")
    table.drop_global_index("id", "btree")
    assert table.erase("id = 7", history=True, older_than=NOW).complete


def test_blobs_of_rows_with_keys(tmp_path: Path) -> None:
    """A file of BLOBs has values of many rows, also of rows that were deleted before."""
    options = {"bucket": "2", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    for name, given, ids in (("a", {"bucket": "2"}, [0, 1, 2, 4, 5, 6]), ("b", options, [0, 1, 2, 4, 5, 6, 8])):
        table = morrow.Catalog(tmp_path).create_table(
            f"db.{name}", "id INT, b BLOB", primary_keys=["id"], options=given
        )
        table.upsert({"id": [*range(9)], "b": [f"blob of {i}".encode() for i in range(9)]})
        table.delete({"id": [3]})
        table.compact(full=True)
        table.tags.create("kept")
        table.upsert({"id": [7, 8], "b": [b"blob of 7 again", None]})
        assert table.erase("id = 3", history=True, older_than=NOW).complete
        assert table.erase("id = 7", history=True, older_than=NOW).rows == 1
        assert {i: b for i, b in rows(table) if b} == {i: f"blob of {i}".encode() for i in ids}
        held = b"".join(path.read_bytes() for path in Path(table.path).rglob("*") if path.is_file())
        assert [i for i in range(9) if f"blob of {i}".encode() in held] == ids


def test_the_receipt_is_written_nowhere(tmp_path: Path) -> None:
    """The condition identifies a person: neither snapshots nor tags record it."""
    table = make("keyed", tmp_path)
    table.erase("name = 'again 7'", history=True, properties={"ticket": "GDPR-1"}, older_than=NOW)
    texts = [path.read_text() for path in (tmp_path / "db.db" / "t" / "snapshot").glob("snapshot-*")]
    assert all("again 7" not in text for text in texts)
    assert json.loads(texts[0])["properties"]["ticket"] == "GDPR-1"
