"""System tables of tables that are made here, for features that the golden tables lack."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, TableNotFound
from morrow.readers.casts.dtypes import to_polars_schema
from morrow.readers.system.base import MetadataTable, TableState
from morrow.readers.system.files import BUCKETS, FILES, PARTITIONS
from morrow.readers.system.registry import (
    AGGREGATION_FIELDS,
    BRANCHES,
    OPTIONS,
    SCHEMAS,
    SNAPSHOTS,
    SYSTEM_TABLES,
    find_system_table,
)
from tests.support.written import new_table

METADATA = [table for table in SYSTEM_TABLES.values() if isinstance(table, MetadataTable)]


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    catalog = morrow.Catalog(tmp_path)
    return catalog.create_table(
        "db.sales",
        schema="dt STRING, id BIGINT, amount INT COMMENT 'in cents'",
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={
            "bucket": 1,
            "merge-engine": "aggregation",
            "fields.amount.aggregate-function": "sum",
            "fields.amount.ignore-retract": True,
        },
    )


def state(table: morrow.Table) -> TableState:
    return TableState(table._metadata)


def upsert(table: morrow.Table, *rows: tuple[str, int, int]) -> None:
    table.upsert(pl.DataFrame(rows, schema={"dt": pl.String, "id": pl.Int64, "amount": pl.Int32}, orient="row"))


@pytest.mark.parametrize("system", METADATA, ids=lambda system: system.name)
def test_a_table_without_snapshots_has_empty_system_tables_of_the_right_types(
    system: MetadataTable, table: morrow.Table
) -> None:
    rows = system.rows(state(table))
    assert rows.schema == to_polars_schema(system.columns)
    assert bool(rows.height) == (system in (SCHEMAS, OPTIONS, AGGREGATION_FIELDS))


@pytest.mark.parametrize("system", METADATA, ids=lambda system: system.name)
def test_the_rows_have_the_types_of_the_fields_whatever_columns_are_asked_for(
    system: MetadataTable, table: morrow.Table
) -> None:
    upsert(table, ("d1", 1, 5))
    now = state(table)
    assert system.rows(now).schema == to_polars_schema(system.columns)
    for column in system.columns:
        assert system.rows(now, [column.name]).schema == to_polars_schema([column])


def test_aggregation_fields_tell_the_functions_with_their_options(table: morrow.Table) -> None:
    rows = AGGREGATION_FIELDS.rows(state(table)).rows()
    assert rows[2] == (
        "amount",
        "INT",
        "[sum, true]",
        "[fields.amount.aggregate-function, fields.amount.ignore-retract]",
        "in cents",
    )
    assert rows[0] == ("dt", "STRING NOT NULL", "[]", "[]", None)


def test_partitions_and_buckets_count_what_is_left(table: morrow.Table) -> None:
    """Rows are counted before they are merged: two files in d1 share one key."""
    upsert(table, ("d1", 1, 5), ("d2", 1, 5))
    upsert(table, ("d1", 1, 6), ("d1", 2, 7))
    counted = ["partition", "record_count", "file_count"]
    assert PARTITIONS.rows(state(table), counted).rows() == [("dt=d1", 3, 2), ("dt=d2", 1, 1)]
    assert BUCKETS.rows(state(table), ["partition", "bucket", "record_count"]).rows() == [
        ("{d1}", 0, 3),
        ("{d2}", 0, 1),
    ]

    table.compact(full=True)
    assert PARTITIONS.rows(state(table), counted).rows() == [("dt=d1", 2, 1), ("dt=d2", 1, 1)]


def test_files_lie_where_the_table_was_opened(table: morrow.Table) -> None:
    upsert(table, ("d1", 1, 5))
    (path,) = FILES.rows(state(table), ["file_path"])["file_path"]
    assert path.startswith(f"{table.path}/dt=d1/bucket-0/")
    assert Path(path).is_file()


def test_a_branch_was_made_when_its_folder_changed(table: morrow.Table) -> None:
    folder = Path(table.path) / "branch" / "branch-dev" / "schema"
    folder.mkdir(parents=True)
    ((name, created),) = BRANCHES.rows(state(table)).rows()
    changed = dt.datetime.fromtimestamp(folder.parent.stat().st_mtime)
    assert name == "dev"
    assert abs(created - changed) < dt.timedelta(milliseconds=1)


def test_a_state_answers_all_questions_about_one_snapshot(table: morrow.Table) -> None:
    upsert(table, ("d1", 1, 5))
    before = state(table)
    assert before.snapshot is not None
    upsert(table, ("d1", 2, 5))
    assert FILES.rows(before).height == 1
    assert SNAPSHOTS.rows(state(table))["snapshot_id"].to_list() == [1, 2]


def test_names_are_found_in_any_case_and_wrong_ones_are_errors(table: morrow.Table) -> None:
    assert find_system_table("FILES") is FILES
    with pytest.raises(TableNotFound, match=r"no system table 'file'.*snapshots"):
        find_system_table("file")
    with pytest.raises(ColumnNotFound, match=r"\$files has no column 'size'.*file_size_in_bytes"):
        FILES.rows(state(table), ["size"])


def test_columns_of_paimon_2(tmp_path: Path) -> None:
    lake = morrow.Catalog(tmp_path)
    options = {"bucket": 2, "deletion-vectors.enabled": True}
    columns = "p INT NOT NULL, id INT NOT NULL"
    table = lake.create_table("db.t", schema=columns, primary_keys=["p", "id"], partition_keys=["p"], options=options)
    table.upsert({"p": [1, 1, 1, 2], "id": [1, 2, 3, 4]})
    table.delete("id IN (1, 2)")
    names = ["partition", "total_buckets", "done", "deleted_record_count"]
    dead = table.system("partitions").to_polars()["deleted_record_count"].sum()
    assert table.system("partitions", names[:3]).to_polars().rows() == [("p=1", 2, False), ("p=2", 2, False)]
    vectors = table.system("table_indexes", ["dv_ranges"]).to_polars()["dv_ranges"].explode()
    assert dead == vectors.struct.field("_CARDINALITY").sum()
    assert table.system("partitions", names[-1:]).to_polars().to_series().null_count() == 0
    assert "WRITE" in table.system("snapshots", ["operation"]).to_polars()["operation"].to_list()
    written = table.system("table_indexes", ["row_range_start", "index_field_id", "index_field_name"]).to_polars()
    assert written.null_count().row(0) == (written.height,) * 3


@pytest.mark.parametrize("storage", ["EMBEDDED", "FILE"])
def test_file_indexes(tmp_path: Path, storage: str) -> None:
    options = {"file-index.bitmap.columns": "a,b", "file-index.bloom-filter.columns": "a"}
    options["file-index.in-manifest-threshold"] = "1 b" if storage == "FILE" else "1 mb"
    table = new_table(tmp_path, "a INT, b INT, p INT", by=["p"], options=options)
    table.append({"a": [1, 2], "b": [None, None], "p": [1, 1]})
    found = table.system("file_indexes").to_polars()
    named = (
        found.select("partition", "record_count", "column_name", "index_type", "storage_type").unique().sort(pl.all())
    )
    assert named.rows() == [
        ("{1}", 2, "a", "bitmap", storage),
        ("{1}", 2, "a", "bloom-filter", storage),
        ("{1}", 2, "b", "bitmap", storage),
    ]
    file = found["file_path"][0]
    assert set(found["index_file_path"]) == ({f"{file}.index"} if storage == "FILE" else {None})
    assert found["index_container_size_in_bytes"].n_unique() == 1
    assert found["index_size_in_bytes"].sum() < found["index_container_size_in_bytes"][0]
    assert table.system("file_indexes", as_of=1).count() == 3
