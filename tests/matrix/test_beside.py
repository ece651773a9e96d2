"""Morrow beside pypaimon in one environment: each reads what the other writes. Runs in the cell `pypaimon`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import morrow

pypaimon = pytest.importorskip("pypaimon", reason="runs beside pypaimon: make test-matrix ARGS=pypaimon")

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", None, "c"]})


def test_pypaimon_reads_what_morrow_writes(tmp_path: Path) -> None:
    lake = morrow.Catalog(tmp_path)
    lake.create_database("db")
    lake.create_table("db.t", schema=ROWS.schema).append(ROWS)

    table = pypaimon.CatalogFactory.create({"warehouse": str(tmp_path)}).get_table("db.t")
    builder = table.new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())

    assert found.sort_by("id").to_pylist() == ROWS.to_pylist()


def test_morrow_reads_what_pypaimon_writes(tmp_path: Path) -> None:
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("db", True)
    catalog.create_table("db.t", pypaimon.Schema.from_pyarrow_schema(ROWS.schema), False)
    builder = catalog.get_table("db.t").new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(ROWS)
    commit.commit(write.prepare_commit())

    assert morrow.open(tmp_path / "db.db" / "t").scan().to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()
