"""Opening a table."""

from __future__ import annotations

import os
import re
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import BranchNotFound, ColumnNotFound, CorruptFile, InvalidArgument, TableNotFound
from morrow.engine.plan.metadata import METADATA_CACHE
from morrow.readers.masks.section_cache import SECTIONS
from tests.support.table_factory import TableFactory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = TableFactory(tmp_path / "db.db" / "t", [("id", "INT")], ["id"])
    for ids in ([1, 2], [2, 3]):
        table.write_file(pa.table({"id": ids}))
    table.commit()
    return table.path


def test_a_folder_in_every_spelling(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    for spelling in (path, str(path), f"{path}/", "t", "./t", f"file://{path}"):
        table = morrow.open(spelling)
        assert (table.name, os.path.normpath(table.path)) == ("t", str(path))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="nowhere"):
        morrow.open(tmp_path / "nowhere")


def test_a_folder_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    with pytest.raises(TableNotFound, match=str(tmp_path)):
        morrow.open(tmp_path)


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(TableNotFound, match="file"):
        morrow.open(tmp_path / "file")


@pytest.mark.parametrize("location", ["", "gopher://host/table"])
def test_what_is_no_location(location: str) -> None:
    with pytest.raises(InvalidArgument):
        morrow.open(location)


def test_an_unknown_branch(path: Path) -> None:
    with pytest.raises(BranchNotFound, match="b1"):
        morrow.open(path, branch="b1")


def test_the_branch_main(path: Path) -> None:
    assert morrow.open(path, branch="main").branch == morrow.open(path).branch == "main"


def test_a_schema_that_cannot_be_read(path: Path) -> None:
    (path / "schema" / "schema-0").write_text('{"version": 3, "id": 0')
    with pytest.raises(CorruptFile, match="schema-0"):
        morrow.open(path)


def test_clear_caches_drops_masks_and_metadata(path: Path) -> None:
    assert morrow.open(path).scan().count() == 3
    assert SECTIONS.held > 0
    assert METADATA_CACHE.held > 0
    morrow.clear_caches()
    assert (SECTIONS.held, METADATA_CACHE.held) == (0, 0)
    assert morrow.open(path).scan().count() == 3


def test_rows_by_path(path: Path) -> None:
    assert sorted(morrow.read(path, filter="id < 3", snapshot=1)["id"]) == [1, 2]
    assert sorted(morrow.scan(path).filter(pl.col("id") > 2).collect()["id"]) == [3]
    assert morrow.read(f"{path}$snapshots", ["snapshot_id"]).rows() == [(1,)]
    with pytest.raises(ColumnNotFound, match="idd"):
        morrow.scan(path, ["idd"])


def test_rows_of_an_open_table(path: Path) -> None:
    table = morrow.open(path)
    assert sorted(table.to_polars(["id"], "id > 1")["id"]) == [2, 3]
    assert table.to_arrow(limit=2).num_rows == table.head(2, snapshot=1).height == table.count("id > 1") == 2
    assert sum(batch.num_rows for batch in table.scan()) == 3


def test_history(path: Path) -> None:
    table = morrow.open(path)
    told = table.history()
    assert told.select("snapshot_id", "kind", "stored_rows", "stored_rows_change").rows() == [(1, "APPEND", 4, 4)]
    assert told["time"].to_list() == [table.snapshots()[0].time]
    assert told.select("rows_added", "rows_written", "files_added", "files_removed").rows()[0][2:] == (2, 0)
    empty = morrow.Catalog(path.parent.parent).create_table("db.none", schema="id INT").history()
    assert empty.schema == told.schema
    assert empty.is_empty()


def test_history_tells_what_was_done(tmp_path: Path) -> None:
    made = morrow.Catalog(tmp_path).create_table("db.a", schema="id INT", options={"bucket": -1})
    made.append([{"id": i} for i in range(5)])
    made.append([{"id": 9}])
    made.compact(full=True)
    made.overwrite([{"id": 1}])
    counts = ("rows_added", "rows_deleted", "rows_written", "files_added", "files_removed")
    told = made.history().sort("snapshot_id").select("kind", "operation", *counts).rows()
    assert told == [
        ("APPEND", "WRITE", 5, 0, 5, 1, 0),
        ("APPEND", "WRITE", 1, 0, 1, 1, 0),
        ("COMPACT", "COMPACT", 0, 0, 0, 1, 2),
        ("OVERWRITE", "OVERWRITE", None, None, 1, 1, 1),
    ]
    assert made.history(limit=1)["snapshot_id"].to_list() == [4]

    keyed = morrow.Catalog(tmp_path).create_table("db.k", schema="id INT", primary_keys=["id"], options={"bucket": 1})
    keyed.append([{"id": 1}, {"id": 2}])
    keyed.delete("id = 1")
    newest, oldest = keyed.history().select("rows_added", "rows_deleted", "rows_written", "deletions_written").rows()
    assert newest == (0, 1, 0, 1)
    assert oldest == (None, None, 2, 0)


@pytest.mark.parametrize("keys", [["id"], []])
def test_history_counts_the_rows_of_operations(tmp_path: Path, keys: list[str]) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT, v INT", primary_keys=keys)
    table.append([{"id": i, "v": i} for i in range(5)], properties={"job": "1"})
    table.update({"v": "0"}, "id > 2")
    merge = table.merge([{"id": 1, "v": 7}, {"id": 9, "v": 9}], "id")
    merge.when_matched_update().when_not_matched_insert().execute()
    table.delete("id = 0")
    table.truncate()
    told = table.history().sort("snapshot_id").filter(pl.col("kind") != "COMPACT")
    assert told.select("operation", "rows_updated", "rows_deleted").rows() == [
        ("WRITE", None, None if keys else 0),
        ("UPDATE", 2, 0),
        ("MERGE", 1, 0),
        ("DELETE", 0, 1),
        ("TRUNCATE", None, None if keys else 5),
    ]
    assert told["rows_added"].to_list()[1:4] == [0, 1, 0]
    assert all(0 <= each < 600_000 for each in told["duration_ms"])
    assert dict(table.snapshots()[0].properties)["job"] == "1"


def test_logs_worth_reading(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", primary_keys=["id"], options={"bucket": 1})
    with caplog.at_level("INFO", logger="morrow"):
        made.append([{"id": 1}, {"id": 2}])
        made.append([{"id": 3}])
        made.compact(full=True)
        made.to_polars(filter="id = 9")
        made.expire_snapshots(retain_max=1, retain_min=1)
    where = made.path
    told = [
        re.sub(r"\d+\.\d\d s$", "S", record.getMessage()) for record in caplog.records if record.levelname == "INFO"
    ]
    assert told == [
        f"{where}: committed snapshot 1 (APPEND), +2 stored rows, in S",
        f"{where}: committed snapshot 2 (APPEND), +1 stored rows, in S",
        f"{where}: compacted, in snapshot 3 (COMPACT), +0 stored rows, in S",
        f"{where}: opened snapshot 3, planned 0 of 1 file, 0 B, in S",
        f"{where}: expired 2 snapshots",
    ]
