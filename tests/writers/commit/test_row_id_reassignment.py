"""New row ids by partition: the same rows, with consecutive ids, through metadata alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.compat.pypaimon import CatalogFactory
from morrow.engine.errors import CommitConflict, Unsupported

OPTIONS = {"row-tracking.enabled": True, "data-evolution.enabled": True, "bucket": -1, "deletion-vectors.enabled": True}


def scattered(folder: Path, **options: object) -> morrow.Table:
    """Return a table whose partitions a and b were written in turns, with updated and deleted rows."""
    table = morrow.Catalog(folder).create_table(
        "db.t", schema="id INT, p STRING, v INT, pic BLOB", partition_keys=["p"], options={**OPTIONS, **options}
    )
    for first in (0, 10, 20):
        rows = [{"id": first + n, "p": "ab"[n % 2], "v": n, "pic": bytes([n])} for n in range(4)]
        table.append(rows)
    table.update({"v": "100 + id"}, "id IN (1, 12)")
    table.delete("id = 21")
    return table


def read(table: morrow.Table, *columns: str, **how: Any) -> pl.DataFrame:
    return table.scan(["id", *columns], **how).to_polars().sort("id")


def test_rows_stay_and_ids_become_consecutive(tmp_path: Path) -> None:
    table = scattered(tmp_path)
    before, files = read(table, "p", "v", "pic"), set(tmp_path.rglob("*.parquet"))

    snapshot = table.reassign_row_ids()

    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.next_row_id) == ("OVERWRITE", 24)
    assert read(table, "p", "v", "pic").equals(before)
    assert set(tmp_path.rglob("*.parquet")) == files
    ids = read(table, "p", "_ROW_ID").sort("p", "id")["_ROW_ID"].to_list()
    assert ids == [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23]  # the row 21 is deleted
    assert table.reassign_row_ids() is None
    assert table.doctor(data=True).healthy


def test_the_rows_are_changed_and_read_on(tmp_path: Path) -> None:
    table = scattered(tmp_path)
    old = table.snapshots()[-1].id
    table.reassign_row_ids(where="p = 'a'")

    table.update({"v": "-1"}, "id = 22")
    table.delete("_ROW_ID = 12")
    table.append([{"id": 99, "p": "a", "v": 9, "pic": None}])
    table.compact(full=True)

    assert read(table, "v", filter="p = 'a'").rows() == [(2, 2), (10, 0), (12, 112), (20, 0), (22, -1), (99, 9)]
    assert read(table, "_ROW_ID", filter="id = 99").rows() == [(99, 18)]
    assert read(table, "_ROW_ID", filter="p = 'a'", snapshot=old)["_ROW_ID"].to_list() == [0, 1, 4, 5, 8, 9]


def test_global_indexes_move_with_their_rows(tmp_path: Path) -> None:
    table = scattered(tmp_path)
    table.create_global_index("id", "btree")

    [(message,)] = morrow.sql("CALL sys.reassign_row_id('db.t', 'p=a')", tmp_path).fetchall()

    assert "nextRowId 12 -> 18, files=" in message
    assert [table.count(f"id = {n}") for n in (0, 1, 12, 21, 22)] == [1, 1, 1, 0, 1]
    assert "global index (btree of id)" in str(table.scan(filter="id = 3").explain())


def test_an_update_prepared_before_is_a_conflict(tmp_path: Path) -> None:
    table = scattered(tmp_path)
    builder = CatalogFactory.create({"warehouse": str(tmp_path)}).get_table("db.t").new_batch_write_builder()
    update = builder.new_update().with_update_type(["v"])
    messages = update.update_by_arrow_with_row_id(pa.table({"v": pa.array([7], pa.int32()), "_ROW_ID": [4]}))
    commit = builder.new_commit()
    table.reassign_row_ids()

    with pytest.raises(CommitConflict):
        commit.commit(messages)
    assert 7 not in read(table, "v")["v"]


def test_long_runs_keep_their_ids(tmp_path: Path) -> None:
    assert scattered(tmp_path, **{"data-evolution.reassign.skip-contiguous-row-count": 1}).reassign_row_ids() is None


def test_other_tables(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT")
    with pytest.raises(Unsupported, match="new row ids without data evolution"):
        table.reassign_row_ids()
