"""Rows of tables with row tracking keep their ids, whatever rewrites their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.manifest_entries import (
    EMPTY_ROW,
    INDEX_COLUMNS,
    EntryKind,
    IndexEntry,
    IndexFileMeta,
    index_frame,
)
from morrow.readers.execution import section_frames
from morrow.writers.append import row_level
from morrow.writers.commit import conflicts
from morrow.writers.operations import compaction
from morrow.writers.target import WriteTarget
from tests.support.commits import data_file

TRACKING = {"row-tracking.enabled": "true"}
EVOLUTION = {**TRACKING, "data-evolution.enabled": "true"}
KINDS = (TRACKING, EVOLUTION)
COLUMNS = {"id": "BIGINT", "v": "STRING", "p": "INT"}


def tracked(path: Path, options: Mapping[str, str] = TRACKING, partition_keys: Sequence[str] = ()) -> morrow.Table:
    catalog = morrow.Catalog(path)
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table("db.t", COLUMNS, partition_keys=partition_keys, options=options)


def make_rows(*ids: int, v: str | None = "a") -> pl.DataFrame:
    frame = pl.DataFrame({"id": ids}, schema={"id": pl.Int64})
    return frame.with_columns(v=pl.lit(v, pl.String), p=(pl.col("id") % 2).cast(pl.Int32))


def read(table: morrow.Table) -> list[tuple[int, str, int, int]]:
    """Return the rows in the order of their ids: id, v, ``_ROW_ID`` and ``_SEQUENCE_NUMBER``."""
    return table.to_polars(["id", "v", "_ROW_ID", "_SEQUENCE_NUMBER"]).sort("_ROW_ID").rows()


@pytest.mark.parametrize("options", KINDS)
def test_appended_rows_have_ids_and_the_number_of_their_snapshot(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = tracked(tmp_path, options)
    table.append(make_rows(7, 8))
    table.append(make_rows(9))

    assert read(table) == [(7, "a", 0, 1), (8, "a", 1, 1), (9, "a", 2, 2)]
    assert table.to_polars(filter="_ROW_ID >= 1 AND _SEQUENCE_NUMBER = 1")["id"].to_list() == [8]
    assert table.scan(filter="_ROW_ID IN (0, 2)").count() == 2
    assert table.scan().schema.names == list(COLUMNS)


@pytest.mark.parametrize("options", KINDS)
def test_every_file_of_an_append_has_the_number_of_the_snapshot(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = tracked(tmp_path, {**options, "target-file-size": "1 b", "file.block-size": "1 kb"})
    table.append(make_rows(*range(5000)))

    assert table.system("files").to_polars().height > 1
    assert set(table.to_polars(["_SEQUENCE_NUMBER"])["_SEQUENCE_NUMBER"]) == {1}
    assert table.to_polars(["id"], filter="_ROW_ID = 4250")["id"].to_list() == [4250]


@pytest.mark.parametrize("grouped", ["true", "false"])
def test_rows_of_a_partition_have_consecutive_ids(tmp_path: Path, grouped: str) -> None:
    table = tracked(tmp_path, {**TRACKING, "row-tracking.partition-group-on-commit": grouped}, ["p"])
    with table.writer() as writer:
        writer.write(make_rows(3, 2))
        writer.write(make_rows(1, 0))
        writer.commit()

    found = table.to_polars(["p", "_ROW_ID"]).group_by("p").agg(pl.col("_ROW_ID").sort().diff().drop_nulls())
    assert found["_ROW_ID"].to_list() == [[1], [1]]


@pytest.mark.parametrize("options", KINDS)
def test_ids_are_never_given_twice(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = tracked(tmp_path, options, ["p"])
    table.append(make_rows(0, 1))
    table.overwrite(make_rows(3), partition={"p": 1})
    assert [(id, row_id) for id, _, row_id, _ in read(table)] == [(0, 0), (3, 2)]

    table.truncate()
    table.compact_manifests()
    table.analyze()
    table.append(make_rows(4))
    assert [(id, row_id) for id, _, row_id, _ in read(table)] == [(4, 3)]


def test_row_ids_in_lazy_frames_and_duckdb(tmp_path: Path) -> None:
    table = tracked(tmp_path)
    table.append(make_rows(5, 6, 7))

    lazy = table.scan(["id", "_ROW_ID"]).lazy().filter(pl.col("_ROW_ID") > 0)
    assert lazy.select("id").collect()["id"].to_list() == [6, 7]
    relation = table.scan(["id", "_ROW_ID"]).to_duckdb()
    assert relation.filter("_ROW_ID = 2").aggregate("max(id), min(_ROW_ID)").fetchall() == [(7, 2)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM db.t WHERE _ROW_ID = 1", [(6, "a", 0)]),
        ("SELECT _row_id, id FROM db.t WHERE _ROW_ID > 1", [(2, 7)]),
        ("SELECT t.*, _SEQUENCE_NUMBER FROM db.t t WHERE id = 5", [(5, "a", 1, 1)]),
        ("SELECT * EXCLUDE (v, p) FROM db.t WHERE _ROW_ID = 0", [(5,)]),
        ("SELECT a.id, b._ROW_ID FROM db.t a JOIN db.t b USING (_ROW_ID) WHERE b.id = 6", [(6, 1)]),
        ("WITH c AS (SELECT id, _ROW_ID AS r FROM db.t) SELECT * FROM c WHERE r = 2", [(7, 2)]),
        ("SELECT * FROM (SELECT id, _ROW_ID FROM db.t) WHERE _ROW_ID = 2", [(7, 2)]),
        ("SELECT max(_ROW_ID), count(*) FROM db.t", [(2, 3)]),
        ('SELECT _ROW_ID FROM db."t$row_tracking" WHERE id = 7', [(2,)]),
        ('SELECT * FROM db."t$row_tracking" WHERE _ROW_ID = 2', [(7, "a", 1, 2, 1)]),
    ],
)
def test_queries_name_row_ids(tmp_path: Path, query: str, expected: Sequence[object]) -> None:
    tracked(tmp_path).append(make_rows(5, 6, 7))
    assert morrow.Catalog(tmp_path).sql(query).fetchall() == expected


def test_tables_without_row_tracking_have_no_row_ids(tmp_path: Path) -> None:
    table = tracked(tmp_path, {})
    table.append(make_rows(1))
    with pytest.raises(ColumnNotFound, match="_ROW_ID"):
        table.scan(["_ROW_ID"])
    with pytest.raises(InvalidArgument, match="_ROW_ID"):
        morrow.Catalog(tmp_path).sql("SELECT _ROW_ID FROM db.t")


@pytest.mark.parametrize("options", KINDS)
def test_columns_of_tracked_tables_change(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = tracked(tmp_path, options)
    table.append(make_rows(1))
    table.alter.add_column("n", "INT")
    table.alter.rename_column("v", "w")
    table.alter.set_type("p", "BIGINT")
    table.alter.set_options({"write-only": "true"})
    table.append([{"id": 2, "w": "b", "p": 0, "n": 3}])

    assert table.to_polars(["w", "n", "_ROW_ID"]).sort("_ROW_ID").rows() == [("a", None, 0), ("b", 3, 1)]
    assert WriteTarget.of(table._metadata).options.row_tracking


# --- changes of rows ---

VECTORS = {"deletion-vectors.enabled": "true"}
CHANGED = (TRACKING, {**TRACKING, **VECTORS}, {**EVOLUTION, **VECTORS})


@pytest.fixture(params=CHANGED, ids=("tracking", "tracking with vectors", "evolution"))
def five(tmp_path: Path, request: pytest.FixtureRequest) -> morrow.Table:
    """Return a table of rows 1 to 5, whose row ids are one less, in two files."""
    table = tracked(tmp_path, request.param)
    table.append(make_rows(1, 2, 3))
    table.append(make_rows(4, 5))
    return table


def list_ids(table: morrow.Table) -> dict[int, int]:
    return {id: row_id for id, _, row_id, _ in read(table)}


def test_updated_rows_keep_their_ids(five: morrow.Table) -> None:
    five.update({"v": "v || _ROW_ID"}, "id IN (2, 4)")
    assert [(id, v, row_id) for id, v, row_id, _ in read(five)] == [
        *[(1, "a", 0), (2, "a1", 1), (3, "a", 2), (4, "a3", 3), (5, "a", 4)]
    ]
    assert dict(five.to_polars(["id", "_SEQUENCE_NUMBER"]).rows())[2] == 3


def test_only_changed_rows_get_the_number_of_the_snapshot(tmp_path: Path) -> None:
    """With data evolution, all rows of a changed file do."""
    table = tracked(tmp_path)
    table.append(make_rows(1, 2, 3))
    table.update({"v": "'b'"}, "id = 2")
    assert read(table) == [(1, "a", 0, 1), (2, "b", 1, 2), (3, "a", 2, 1)]
    assert table.scan().verify() == 1
    table.append(make_rows(4))
    table.delete("id = 3")
    assert read(table) == [(1, "a", 0, 1), (2, "b", 1, 2), (4, "a", 3, 3)]


def test_rows_beside_deleted_ones_keep_their_ids(five: morrow.Table) -> None:
    five.delete("id = 2 OR _ROW_ID = 4")
    assert list_ids(five) == {1: 0, 3: 2, 4: 3}
    five.update({"p": "7"}, "id > 2")
    five.delete("id = 3")
    assert five.to_polars(["id", "p", "_ROW_ID"]).sort("id").rows() == [(1, 1, 0), (4, 7, 3)]


def test_a_merge_updates_deletes_and_inserts(five: morrow.Table) -> None:
    source = [{"id": 1, "v": "x"}, {"id": 4, "v": None}, {"id": 9, "v": "new"}]
    (
        five.merge(source, on="id")
        .when_matched_delete("source.v IS NULL")
        .when_matched_update({"v": "source.v"})
        .when_not_matched_insert({"id": "source.id", "v": "source.v", "p": "0"})
        .execute()
    )
    assert [(id, v, row_id) for id, v, row_id, _ in read(five)] == [
        *[(1, "x", 0), (2, "a", 1), (3, "a", 2), (5, "a", 4), (9, "new", 5)]
    ]


def test_a_merge_on_row_ids(five: morrow.Table) -> None:
    five.merge([{"_ROW_ID": 1, "v": "x"}, {"_ROW_ID": 77, "v": "y"}], on="_ROW_ID").when_matched_update().execute()
    assert [v for _, v, _, _ in read(five)] == ["a", "x", "a", "a", "a"]


@pytest.mark.parametrize("options", CHANGED[:2])
def test_compacted_and_sorted_rows_keep_ids_and_numbers(tmp_path: Path, options: Mapping[str, str]) -> None:
    table = tracked(tmp_path, options)
    for number in range(1, 4):
        table.append(make_rows(number, 10 - number))
    table.update({"v": "'b'"}, "id = 2")
    table.delete("id = 9")
    before = read(table)

    assert table.compact(full=True) is not None
    assert read(table) == before
    table.compact(order_by="id")
    assert read(table) == before
    table.append(make_rows(99))
    assert read(table) == [*before, (99, "a", 6, table.snapshots()[-1].id)]


def test_columns_of_rows_are_files_of_their_own(tmp_path: Path) -> None:
    """An update of a column writes this column of all rows of the file, and nothing else."""
    table = tracked(tmp_path, EVOLUTION, ["p"])
    table.append(make_rows(1, 2, 3))
    table.update({"v": "'b'"}, "id = 3")
    files = table.system("files").to_polars().sort("min_sequence_number", "first_row_id")

    assert files.select("record_count", "first_row_id", pl.col("write_cols").list.join(",")).rows() == [
        *[(1, 0, None), (2, 1, None), (2, 1, "v")]
    ]
    assert table.snapshots()[-1].commit_kind == "APPEND"
    table.alter.add_column("n", "INT")
    table.update({"n": "id + 1"}, "id <> 1")
    assert table.to_polars(["id", "v", "n"]).sort("id").rows() == [(1, "a", None), (2, "a", 3), (3, "b", 4)]


def test_changes_that_data_evolution_refuses(tmp_path: Path) -> None:
    table = tracked(tmp_path, EVOLUTION, ["p"])
    table.append(make_rows(1, 2))
    with pytest.raises(Unsupported, match=r"'deletion-vectors\.enabled' = true first"):
        table.delete("id = 1")
    with pytest.raises(Unsupported, match=r"the partition column 'p' with data evolution"):
        table.update({"p": "5"})
    with pytest.raises(Unsupported, match="rewriting files of a table with data evolution"):
        table.compact(order_by="v")
    table.delete("p = 1")
    assert list_ids(table) == {2: 0}


def test_writers_of_different_columns_all_succeed(tmp_path: Path) -> None:
    columns = {"id": "BIGINT", **{f"c{i}": "INT" for i in range(8)}}
    table = morrow.Catalog(tmp_path).create_table("db.t", columns, options=EVOLUTION)
    table.append([{"id": i} for i in range(100)])
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(morrow.open(table.path).update, {f"c{i}": f"id + {i}"}) for i in range(8)]
        for each in done:
            each.result()

    rows = table.to_polars()
    assert all((rows[f"c{i}"] == rows["id"] + i).all() for i in range(8))


@pytest.mark.parametrize(
    ("set", "condition", "is_repeated"),
    [
        ({"p": "p + 1"}, "id > 0", False),
        ({"v": "'c'"}, "id > 0", True),
        ({"p": "length(v)"}, "id > 0", True),
        ({"p": "p + 1"}, "v IN ('a', 'b')", True),
        ({"p": pl.max_horizontal(pl.all().exclude("v")).cast(pl.Int32)}, "id > 0", True),
    ],
)
def test_an_update_is_repeated_if_its_columns_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set: Mapping[str, object], condition: str, is_repeated: bool
) -> None:
    """Another writer sets v of all rows after the update has read them."""
    table = tracked(tmp_path, EVOLUTION)
    table.append(make_rows(1, 2))
    calls: list[int] = []
    prepare = row_level.RowChanges.messages

    def overtaken(self: row_level.RowChanges) -> object:
        calls.append(1)
        if len(calls) == 1:
            morrow.open(table.path).update({"v": "'b'"})
        return prepare(self)

    monkeypatch.setattr(row_level.RowChanges, "messages", overtaken)
    table.update(set, condition)
    assert len(calls) - 1 == 1 + is_repeated
    if "v" not in set:
        assert {v for _, v, _, _ in read(table)} == {"b"}


def describe_files(table: morrow.Table) -> list[tuple[int, int, int, int, str | None]]:
    """Return first row id, rows, sequence numbers and columns of each file."""
    files = table.system("files").to_polars().sort("first_row_id", "max_sequence_number")
    names = ("first_row_id", "record_count", "min_sequence_number", "max_sequence_number")
    return files.select(*names, pl.col("write_cols").list.join(",")).rows()


def test_a_compaction_joins_columns_and_neighbours(tmp_path: Path) -> None:
    """Deleted rows stay in the file, since positions are row ids, and their vector moves."""
    table = tracked(tmp_path, {**EVOLUTION, **VECTORS})
    table.append(make_rows(1, 2))
    table.append(make_rows(3, 4))
    table.update({"v": "'b'"}, "id < 4")
    table.delete("id IN (2, 3)")
    before = [row[:3] for row in read(table)]

    assert table.compact(full=True).commit_kind == "COMPACT"
    assert [row[:3] for row in read(table)] == before == [(1, "b", 0), (4, "a", 3)]
    assert describe_files(table) == [(0, 4, 1, 3, None)]
    table.delete("id = 4")
    table.update({"v": "'c'"})
    assert [row[:3] for row in read(table)] == [(1, "c", 0)]
    assert table.scan().verify() == 2
    assert table.compact(full=True) is not None
    assert table.compact(full=True) is None


def test_a_compaction_joins_files_of_blobs(tmp_path: Path) -> None:
    options = {**EVOLUTION, "blob-compaction.enabled": "true"}
    table = morrow.Catalog(tmp_path).create_table("db.t", "id INT, b BLOB, c ARRAY<BLOB>", options=options)
    for start in (0, 3, 6):
        table.append(
            [{"id": i, "b": b"b%d" % i, "c": None if i % 2 else [b"c", None]} for i in range(start, start + 3)]
        )
    table.update({"b": "CAST('new' AS BLOB)"}, "id IN (1, 4)")
    before = table.to_polars().sort("id")

    table.compact(full=True)
    assert table.system("files").to_polars()["record_count"].to_list() == [9, 9, 9]
    assert table.to_polars().sort("id").equals(before)
    assert table.compact(full=True) is None


def test_a_compaction_joins_files_of_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows have vectors in data files from before the option, too. New vectors of others are not lost."""
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", "id INT, e VECTOR<FLOAT, 1>", options=EVOLUTION)
    table.append([{"id": 1, "e": [1.0]}])
    table.alter.set_options({"vector.file.format": "parquet"})
    table.append([{"id": 2, "e": [2.0]}, {"id": 3, "e": None}])
    table.append([{"id": 4, "e": [4.0]}])
    calls: list[int] = []
    compact = compaction.compact_append

    def overtaken(*args: Any, **named: Any) -> object:
        calls.append(1)
        found = compact(*args, **named)
        if len(calls) == 1:
            morrow.open(table.path).update_rows({"_ROW_ID": [3], "e": [[5.0]]})
        return found

    monkeypatch.setattr(compaction, "compact_append", overtaken)
    table.compact(full=True)
    assert table.system("files").to_polars().select("record_count", "write_cols").rows() == [(4, ["id"]), (4, ["e"])]
    assert table.to_polars().sort("id").rows() == [(1, [1.0]), (2, [2.0]), (3, None), (4, [5.0])]
    assert len(calls) == 2
    assert table.compact(full=True) is None


def test_a_compaction_keeps_apart_what_is_apart(tmp_path: Path) -> None:
    """Row ids of a partition with a gap, and columns that no file holds, do not become one file's."""
    table = tracked(tmp_path, EVOLUTION, ["p"])
    for number in range(3):
        table.append(make_rows(number))
    table.alter.add_column("n", "INT")
    table.update({"v": "'b'"}, "id = 0")
    table.compact(full=True)
    assert describe_files(table) == [(0, 1, 1, 4, "id,v,p"), (1, 1, 2, 2, None), (2, 1, 3, 3, None)]
    table.update({"n": "id"})
    table.compact(full=True)
    assert table.to_polars(["v", "n", "_ROW_ID"]).sort("_ROW_ID").rows() == [("b", 0, 0), ("a", 1, 1), ("a", 2, 2)]


def test_small_groups_wait_for_enough_files(tmp_path: Path) -> None:
    table = tracked(tmp_path, {**EVOLUTION, "compaction.min.file-num": "3"})
    table.append(make_rows(1))
    table.append(make_rows(2))
    assert table.compact() is None
    table.append(make_rows(3))
    assert table.compact() is not None
    assert describe_files(table) == [(0, 3, 1, 3, None)]


def test_an_update_does_not_survive_a_compaction_that_it_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of columns has the row ids of a group that is gone; so the update runs again."""
    table = tracked(tmp_path, EVOLUTION)
    table.append(make_rows(1))
    table.append(make_rows(2))
    calls: list[int] = []
    prepare = row_level.RowChanges.messages

    def overtaken(self: row_level.RowChanges) -> object:
        calls.append(1)
        if len(calls) == 1:
            morrow.open(table.path).compact(full=True)
        return prepare(self)

    monkeypatch.setattr(row_level.RowChanges, "messages", overtaken)
    table.update({"v": "'b'"}, "id = 2")
    assert [row[:3] for row in read(table)] == [(1, "a", 0), (2, "b", 1)]
    assert len(calls) == 2


def test_indexes_of_files_of_columns(tmp_path: Path) -> None:
    """Only columns that a file holds are indexed."""
    table = tracked(tmp_path, {**EVOLUTION, "file-index.bloom-filter.columns": "v"})
    table.append(make_rows(1, 2))
    table.update({"p": "5"})
    table.update({"v": "'b'"}, "id = 2")
    table.compact(full=True)
    assert table.to_polars(["id"], filter="v = 'b'")["id"].to_list() == [2]


# --- updates by row id ---


def test_rows_are_updated_by_their_ids(five: morrow.Table) -> None:
    changed = five.to_polars(["_ROW_ID", "v"], filter="id IN (2, 5)").with_columns(v=pl.col("v") + "!")
    five.update_rows(changed)
    five.update_rows([{"_ROW_ID": 0, "v": None, "id": 10}])
    assert [row[:3] for row in read(five)] == [(10, None, 0), (2, "a!", 1), (3, "a", 2), (4, "a", 3), (5, "a!", 4)]
    assert five.update_rows(changed.clear()) is None


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"_ROW_ID": 77, "v": "b"}], "no row with the _ROW_ID 77"),
        ([{"_ROW_ID": 1, "v": "b"}], "no row with the _ROW_ID 1"),
        ([{"_ROW_ID": None, "v": "b"}], "_ROW_ID is null"),
        ([{"_ROW_ID": 0, "v": "b"}, {"_ROW_ID": 0, "v": "c"}], "the duplicate _ROW_ID 0"),
        ([{"_ROW_ID": 0}], "no column to set"),
        ([{"v": "b"}], "lack the _ROW_ID column"),
        ([{"_ROW_ID": 0, "x": "b"}], "no column 'x'"),
        ([{"_ROW_ID": 0, "p": "b"}], "column 'p'"),
    ],
)
def test_rows_that_cannot_be_updated(five: morrow.Table, rows: object, problem: str) -> None:
    """The row with the id 1 is deleted."""
    five.delete("_ROW_ID = 1")
    before = read(five)
    with pytest.raises((InvalidArgument, ColumnNotFound), match=problem):
        five.update_rows(rows)
    assert read(five) == before


def test_tables_without_ids_have_no_rows_to_update(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="its rows have no ids"):
        tracked(tmp_path, {}).update_rows([{"_ROW_ID": 0, "v": "b"}])


@pytest.mark.parametrize("options", [{}, *CHANGED])
def test_upserts_by_columns(tmp_path: Path, options: Mapping[str, str]) -> None:
    """The last of equal rows wins, and null equals nothing."""
    table = tracked(tmp_path, options)
    table.append(make_rows(1, 2))
    table.upsert([{"id": 2, "v": "x"}, {"id": 2, "v": "y"}, {"id": 3, "v": "z"}], key="id")
    table.upsert([{"id": None, "v": "n"}, {"id": None, "v": "m"}], key=["id"])
    rows = table.to_polars(["id", "v", "p"]).sort("id", "v", nulls_last=True).rows()
    assert rows == [(1, "a", 1), (2, "y", 0), (3, "z", None), (None, "m", None), (None, "n", None)]
    with pytest.raises(InvalidArgument, match=r"no primary key to upsert by; give key=\[\.\.\.\]"):
        table.upsert([{"id": 2}])
    with pytest.raises(ColumnNotFound, match="upsert by 'p'"):
        table.upsert([{"id": 2}], key=["id", "p"])


# --- pruning, indexes ---


@pytest.mark.parametrize(
    ("filter", "files"),
    [
        ("v = 'b'", 2),
        ("v = 'c'", 0),
        ("v = 'c' AND p = 1 AND id = 1", 0),
        ("p > 100", 2),
        ("p = 7", 1),
        ("p < 5", 2),
        ("id = 1 AND p = 1", 2),
        ("id = 2 AND v = 'a'", 2),
        ("id > 2 OR p = 1", 5),
        ("_ROW_ID = 3", 2),
        ("_ROW_ID IN (0, 1)", 2),
        ("p = 7 AND _ROW_ID < 4", 0),
    ],
)
def test_groups_are_pruned_by_the_newest_values(tmp_path: Path, filter: str, files: int) -> None:
    """Statistics of old values neither drop a group, nor keep one."""
    table = tracked(tmp_path, EVOLUTION)
    table.append(make_rows(1, 2))
    table.append(make_rows(3, 4))
    table.append(pl.DataFrame({"id": [5], "v": ["a"], "p": [7]}, schema_overrides={"p": pl.Int32}))
    table.alter.rename_column("p", "q")
    table.update({"v": "'b'"}, "id = 1")
    table.update({"q": "q + 200"}, "id > 2 AND id < 5")
    table.alter.rename_column("q", "p")

    scan = table.scan(["id"], filter=filter)
    assert len(scan.plan.files) == files
    everything = table.to_polars(["id", "v", "p", "_ROW_ID"])
    expected = pl.SQLContext(t=everything).execute(f"SELECT id FROM t WHERE {filter}").collect()
    assert set(scan.to_polars()["id"]) == set(expected["id"])


def test_columns_are_read_between_the_first_and_the_last_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter is evaluated on its own file first, if a group is large."""
    monkeypatch.setattr(section_frames, "MIN_SEARCHED_ROWS", 0)
    table = tracked(tmp_path, {**EVOLUTION, **VECTORS})
    table.append(make_rows(*range(20)))
    table.update({"v": "'b'"}, "id IN (4, 6, 9)")
    table.delete("id = 4")
    names = ["id", "p", "_ROW_ID"]
    assert table.to_polars(names, filter="v = 'b'").rows() == [(6, 0, 6), (9, 1, 9)]
    assert table.to_polars(names, filter="v = 'b' AND id > 6 AND _ROW_ID < 19").rows() == [(9, 1, 9)]
    assert table.to_polars(names, filter="v = 'aa'").rows() == []
    assert table.scan(filter="v = 'b'").count() == 2


@pytest.mark.parametrize("partition", [EMPTY_ROW, b"other"])
@pytest.mark.parametrize("action", ["throw_error", "drop_partition_index", "ignore"])
def test_updates_of_indexed_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, partition: bytes
) -> None:
    """Other programs would find rows by their old values."""
    table = tracked(tmp_path, {**EVOLUTION, "global-index.column-update-action": action})
    table.append(make_rows(1, 2))
    target = WriteTarget.of(table._metadata)
    entry = IndexEntry(
        EntryKind.ADD, partition, 0, IndexFileMeta(index_type="btree", file_name="i", file_size=1, row_count=2)
    )
    members = {
        "_ROW_RANGE_START": 0,
        "_ROW_RANGE_END": 1,
        "_INDEX_FIELD_ID": 7,
        "_EXTRA_FIELD_IDS": [1],
        "_INDEX_META": b"",
    }
    index = index_frame([entry]).with_columns(pl.Series("_GLOBAL_INDEX", [members], INDEX_COLUMNS["_GLOBAL_INDEX"]))
    monkeypatch.setattr(conflicts, "read_index_entries", lambda *_: index)

    def find(*names: str) -> list[IndexEntry]:
        changed = data_file("c", write_cols=names)
        return conflicts.find_stale_indexes(target, target.metadata.latest_snapshot(), [(EMPTY_ROW, changed)])

    assert find("id", "p") == []
    if action == "throw_error" and partition == EMPTY_ROW:
        with pytest.raises(Unsupported, match="a column with a global index"):
            find("v")
    else:
        dropped = action == "drop_partition_index" and partition == EMPTY_ROW
        assert [each.file.file_name for each in find("v", "p")] == ["i"] * dropped


def test_erased_rows_leave_ids_to_the_others(tmp_path: Path) -> None:
    table = tracked(tmp_path)
    table.append(make_rows(1, 2, 3))
    table.update({"v": "'b'"}, "id = 3")
    before = read(table)
    table.erase("id = 1")
    assert read(table) == before[1:]


# --- deleted rows leave the files ---


def test_materialized_vectors_give_rows_new_ids(tmp_path: Path) -> None:
    """Groups without deleted rows stay as they are."""
    table = tracked(tmp_path, {**EVOLUTION, **VECTORS})
    table.append(make_rows(1, 2, 3))
    table.append(make_rows(4))
    table.update({"v": "'b'"}, "id > 1")
    table.delete("id = 2")

    call = "CALL sys.materialize_deletion_vectors('db.t', options => 'target-file-size=1 gb')"
    assert morrow.sql(call, tmp_path).fetchall() == [(True,)]
    assert table.snapshots()[-1].commit_kind == "COMPACT"
    assert [row[:3] for row in read(table)] == [(4, "b", 3), (1, "a", 4), (3, "b", 5)]
    assert table.system("table_indexes").to_polars().height == 0
    assert table.materialize_deletion_vectors() is None
    table.append(make_rows(5))
    assert list_ids(table)[5] == 6


def test_columns_are_not_lost_to_a_materialization_that_missed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of columns was added to the group meanwhile, so the rows are read again."""
    table = tracked(tmp_path, {**EVOLUTION, **VECTORS})
    table.append(make_rows(1, 2))
    table.delete("id = 2")
    calls: list[int] = []
    materialize = compaction.materialize_append

    def overtaken(*args: Any) -> object:
        calls.append(1)
        found = materialize(*args)
        if len(calls) == 1:
            morrow.open(table.path).update({"v": "'b'"})
        return found

    monkeypatch.setattr(compaction, "materialize_append", overtaken)
    table.materialize_deletion_vectors()
    assert [row[:2] for row in read(table)] == [(1, "b")]
    assert len(calls) == 2


def test_other_tables_have_no_vectors_to_materialize(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"Table\.compact removes deleted rows"):
        tracked(tmp_path, {**TRACKING, **VECTORS}).materialize_deletion_vectors()


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("UPDATE db.t SET v = 'b' WHERE _ROW_ID = 1", ["a", "b", "a"]),
        ("UPDATE db.t SET v = v || _ROW_ID WHERE id > 1", ["a", "a1", "a2"]),
        ("DELETE FROM db.t WHERE _ROW_ID IN (0, 2)", ["a"]),
        (
            "MERGE INTO db.t USING (SELECT 2 AS r) s ON _ROW_ID = s.r WHEN MATCHED THEN UPDATE SET v = 'm'",
            ["a", "a", "m"],
        ),
        (
            "MERGE INTO db.t t USING (SELECT _ROW_ID, 'm' AS v FROM db.t WHERE id = 1) s ON t._ROW_ID = s._ROW_ID "
            "WHEN MATCHED AND t._SEQUENCE_NUMBER = 1 THEN UPDATE SET v = s.v",
            ["m", "a", "a"],
        ),
    ],
)
def test_statements_name_row_ids(tmp_path: Path, statement: str, values: Sequence[str]) -> None:
    table = tracked(tmp_path, {**EVOLUTION, **VECTORS})
    table.append(make_rows(1, 2, 3))
    morrow.Catalog(tmp_path).sql(statement)
    assert [v for _, v, _, _ in read(table)] == values
