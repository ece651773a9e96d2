"""Writes, overwrites and commits through the interface of pypaimon."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import morrow.compat.pypaimon as pypaimon
from morrow.engine.errors import InvalidArgument
from tests.compat.pypaimon.tables import COLUMNS, DATA, make, read, write


def test_rows_in_all_forms(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, rows=COLUMNS.empty_table())
    builder = table.new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow_batch(DATA.to_batches()[0])
    writer.write_pandas(DATA.to_pandas())
    writer.write_row({"id": 7, "name": "seven", "dt": "c", "at": None})
    messages = writer.prepare_commit()
    builder.new_commit().commit(messages, {"from": "here"})
    assert [row["id"] for row in read(table)] == [1, 1, 2, 2, 3, 3, 7]
    assert table.snapshot_manager().get_latest_snapshot().properties["from"] == "here"


def test_columns_must_be_those_of_the_table(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    for rows in (DATA.drop_columns(["name"]), DATA.append_column("more", pa.array([1, 2, 3]))):
        with pytest.raises(ValueError, match=r"name|more"):
            table.new_batch_write_builder().new_write().write_arrow(rows)


def test_batches_are_committed_once(catalog: pypaimon.Catalog) -> None:
    builder = make(catalog).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    commit.commit(writer.prepare_commit())
    with pytest.raises(RuntimeError, match="new_write"):
        writer.prepare_commit()
    with pytest.raises(RuntimeError, match="new_commit"):
        commit.commit([])


def test_aborted_files_are_gone(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    files = {path for path in Path(table.table_path).rglob("*") if path.is_file()}
    builder = table.new_batch_write_builder()
    writer = builder.new_write()
    writer.write_arrow(DATA)
    messages = writer.prepare_commit()
    assert {path for path in Path(table.table_path).rglob("*") if path.is_file()} > files
    builder.new_commit().abort(messages)
    assert {path for path in Path(table.table_path).rglob("*") if path.is_file()} == files


@pytest.mark.parametrize(
    ("replaced", "options", "left"),
    [
        ({}, {}, [3, 9]),
        ({"dt": "a"}, {}, [3, 9]),
        ({}, {"dynamic-partition-overwrite": "false"}, [9]),
        ({"dt": "a"}, {"dynamic-partition-overwrite": "false"}, [3, 9]),
    ],
)
@pytest.mark.parametrize("keys", [[], ["id", "dt"]])
def test_overwrites(
    catalog: pypaimon.Catalog, keys: list[str], replaced: dict[str, str], options: dict[str, str], left: list[int]
) -> None:
    table = make(catalog, partition_keys=["dt"], primary_keys=keys, options=options)
    write(table, DATA.slice(0, 1).set_column(0, "id", pa.array([9])), replaced)
    assert [row["id"] for row in read(table)] == left
    assert table.snapshot_manager().get_latest_snapshot().commit_kind == "OVERWRITE"


def test_rows_outside_of_an_overwrite_are_refused(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    with pytest.raises(InvalidArgument, match="b"):
        write(table, DATA, {"dt": "a"})
    assert len(read(table)) == 3


def test_truncation(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, partition_keys=["dt"])
    table.new_batch_write_builder().new_commit().truncate_partitions([{"dt": "a"}])
    assert [row["id"] for row in read(table)] == [3]
    catalog.drop_partitions("db.t", [{"dt": "b"}])
    table.new_batch_write_builder().new_commit().truncate_table()
    assert read(table) == []


def test_numbered_commits_are_made_once(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    builder = table.new_stream_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    for number in (0, 1):
        writer.write_arrow(DATA)
        messages = writer.prepare_commit(number)
        commit.commit(messages, number)
        commit.commit(messages, number)
    assert len(read(table)) == 9


def test_rows_of_postponed_buckets(catalog: pypaimon.Catalog) -> None:
    """`new_batch_write_builder` postpones rows, as pypaimon's does; the other builder gives them buckets at once."""
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    rows = pa.table({"id": [1, 2], "v": ["a", "b"]}, columns)
    table = make(catalog, rows=rows, primary_keys=["id"], options={"bucket": "-2"})
    assert read(table) == []
    small = table.copy({"postpone.target-row-num-per-bucket": 1, "postpone.target-size-per-bucket": "1 gb"})
    builder = small.new_postpone_fixed_bucket_write_builder()
    write = builder.new_write()
    write.write_arrow(rows)
    messages = write.prepare_commit()
    assert {message.total_buckets for message in messages} == {2}
    builder.new_commit().commit(messages)
    assert read(table) == rows.to_pylist()
    with pytest.raises(InvalidArgument, match="requires a postpone-bucket table"):
        make(catalog, "db.u").new_postpone_fixed_bucket_write_builder()
