"""Reads through the interface of pypaimon: forms of rows, splits, shards, slices and limits."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import morrow.compat.pypaimon as pypaimon
from morrow.engine.errors import ColumnNotFound, InvalidArgument
from tests.compat.pypaimon.tables import COLUMNS, DATA, make, read, read_by, write


def test_all_forms_of_rows(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    builder = table.new_read_builder().with_projection(["name", "id"])
    splits, reader = builder.new_scan().plan().splits(), builder.new_read()
    rows = pa.table({"name": ["apple", None, "a%b"], "id": [1, 2, 3]})
    assert len(splits) == 2
    assert reader.to_arrow(splits) == rows
    assert reader.to_arrow_batch_reader(splits).read_all() == rows
    assert [row.get_field(1) for row in reader.to_iterator(splits)] == [1, 2, 3]
    assert reader.to_pandas(splits)["id"].tolist() == [1, 2, 3]
    assert reader.to_duckdb(splits, "rows").sql("SELECT sum(id) FROM rows").fetchall() == [(6,)]
    connection = duckdb.connect()
    assert reader.to_duckdb(splits, "rows", connection) is connection


def test_splits_are_read_elsewhere(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    builder = table.new_read_builder()
    splits = pickle.loads(pickle.dumps(builder.new_scan().plan().splits()))
    assert [(split.partition.to_dict(), split.bucket, split.row_count) for split in splits] == [
        ({"dt": "a"}, 0, 2),
        ({"dt": "b"}, 0, 1),
    ]
    assert all(split.raw_convertible and split.merged_row_count() == split.row_count for split in splits)
    assert all(Path(path).is_file() for split in splits for path in split.file_paths)
    write(table, DATA)  # later rows are not in the splits
    assert [builder.new_read().to_arrow([split]).num_rows for split in splits] == [2, 1]
    assert builder.new_read().to_arrow(splits[::-1])["id"].to_pylist() == [3, 1, 2]
    assert builder.new_read().to_arrow([]) == COLUMNS.empty_table()


@pytest.mark.parametrize("keys", [[], ["id"]])
@pytest.mark.parametrize("shards", [3])
def test_shards_are_all_rows_once(catalog: pypaimon.Catalog, keys: list[str], shards: int) -> None:
    options = {"bucket": "4", "bucket-key": "id", "source.split.target-size": "1 b", "write-only": "true"}
    table = make(catalog, primary_keys=keys, options=options)
    for start in (10, 20, 2):
        write(table, DATA.set_column(0, "id", pa.array(range(start, start + 3), pa.int64())))
    builder = table.new_read_builder()
    found = [
        row["id"]
        for shard in range(shards)
        for row in builder.new_read().to_arrow(builder.new_scan().with_shard(shard, shards).plan().splits()).to_pylist()
    ]
    assert sorted(found) == sorted(row["id"] for row in read(table))
    assert len(found) == (10 if keys else 12)


@pytest.mark.parametrize("evolving", [False, True])
def test_shards_of_tables_without_keys_have_as_many_stored_rows(catalog: pypaimon.Catalog, evolving: bool) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"} if evolving else {}
    table = make(catalog, options=options)
    for start in (4, 7, 10):
        write(table, DATA.set_column(0, "id", pa.array(range(start, start + 3), pa.int64())))
    builder = table.new_read_builder()
    condition = builder.new_predicate_builder().greater_or_equal("id", 3)

    def read_shard(number: int) -> list[int]:
        splits = builder.new_scan().with_shard(number, 5).plan().splits()
        return builder.new_read().to_arrow(splits)["id"].to_pylist()

    assert [read_shard(number) for number in range(5)] == [[1, 2, 3], [4, 5, 6], [7, 8], [9, 10], [11, 12]]
    builder.with_filter(condition)  # positions are those of stored rows
    assert read_shard(0) == [3]


def test_members_of_rows(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    assert read(table, lambda b: b.with_projection(["at.x", "id"])) == [
        {"at_x": 1, "id": 1}, {"at_x": None, "id": 2}, {"at_x": 3, "id": 3},
    ]  # fmt: skip
    assert read(table, lambda b: b.with_projection({"x": "at.x", "id": "id"}).with_limit(1)) == [{"x": 1, "id": 1}]

    def keep_three(builder: Any) -> Any:
        builder.with_projection(["id", "at.x"])
        return builder.with_filter(builder.new_predicate_builder().equal("at_x", 3))

    assert read(table, keep_three) == [{"id": 3, "at_x": 3}]
    with pytest.raises(ColumnNotFound, match="none"):
        table.new_read_builder().with_projection(["none"])


@pytest.mark.parametrize("limit", [0, 1, 2, 9])
def test_limits(catalog: pypaimon.Catalog, limit: int) -> None:
    table = make(catalog, partition_keys=["dt"])
    assert len(read(table, lambda builder: builder.with_limit(limit))) == min(limit, 3)


@pytest.mark.golden
def test_row_ids_are_columns(golden_root: Path) -> None:
    folder = golden_root / "public/row_tracking/warehouse/db.db/t"
    table = pypaimon.FileStoreTable.from_path(str(folder))
    ids = [pypaimon.SpecialFields.ROW_ID.name, pypaimon.SpecialFields.SEQUENCE_NUMBER.name]
    builder = table.new_read_builder().with_projection(ids)
    builder.with_filter(builder.new_predicate_builder().less_than(ids[0], 3))
    assert read_by(builder) == [dict(zip(ids, (n, 1))) for n in range(3)]
    assert not set(ids).intersection(table.new_read_builder().new_read().to_arrow([]).schema.names)


def test_filters_reach_the_plan(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    builder = table.new_read_builder()
    builder.with_partition_filter(builder.new_predicate_builder().equal("dt", "b"))
    builder.with_filter(builder.new_predicate_builder().is_not_null("name"))
    (split,) = builder.new_scan().plan().splits()
    assert split.partition.values == ["b"]
    assert "dt" in builder.explain()


def test_slices_are_rows_by_position(catalog: pypaimon.Catalog) -> None:
    builder = make(catalog).new_read_builder()
    slices = [builder.new_scan().with_slice(*at).plan().splits() for at in ((0, 1), (1, 9))]
    found = [builder.new_read().to_arrow(splits)["id"].to_pylist() for splits in slices]
    assert found[0] + found[1] == builder.new_read().to_arrow(builder.new_scan().plan().splits())["id"].to_pylist()
    assert len(found[0]) == 1
    with pytest.raises(InvalidArgument, match="simultaneously"):
        builder.new_scan().with_shard(0, 2).with_slice(0, 1)
