"""``$audit_log``, ``$binlog``, ``$ro`` and ``$row_tracking``: their additional columns and the rows they leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported
from tests.support.table_factory import TableFactory

Rows = list[tuple[Any, ...]]


def keyed(tmp_path: Path, **options: str) -> TableFactory:
    """Make a table with the columns id (key) and v."""
    return TableFactory(tmp_path / "t", [("id", "INT"), ("v", "INT")], ["id"], options=options)


def write(table: TableFactory, *rows: tuple[str, int, int | None], level: int = 0) -> None:
    """Write a file of rows (kind, id, v)."""
    kinds, ids, values = zip(*rows, strict=True)
    table.write_file(
        pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array(values, pa.int32())}), kinds=kinds, level=level
    )


def read(table: TableFactory, name: str, **scan: Any) -> Rows:
    """Read the rows in any order, and check that all ways of reading agree."""
    system = morrow.open(table.path).system(name, **scan)
    rows = sorted(system.to_polars().rows(), key=repr)
    morrow.clear_caches()
    batches = pa.Table.from_batches(system.to_batches(1), system.schema)
    assert sorted((tuple(row.values()) for row in batches.to_pylist()), key=repr) == rows
    assert system.count() == system.to_arrow().num_rows == len(rows)
    return rows


# audit_log


def test_a_deleted_key_has_a_row(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    write(table, ("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 30))
    write(table, ("-D", 1, 10), ("+U", 2, 21))
    table.commit()
    assert read(table, "audit_log") == [("+I", 3, 30), ("+U", 2, 21), ("-D", 1, 10)]
    assert morrow.open(table.path).scan().to_polars().sort("id").rows() == [(2, 21), (3, 30)]


def test_so_has_one_whose_file_overlaps_no_other(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    write(table, ("+I", 1, 10), ("-D", 2, 20))
    table.commit()
    assert read(table, "audit_log") == [("+I", 1, 10), ("-D", 2, 20)]


def test_filters_see_the_kind_and_reach_the_files(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    write(table, ("+I", 1, 10), ("-D", 2, 20))
    write(table, ("-D", 1, 11), ("+I", 5, 50))
    table.commit()
    assert read(table, "audit_log", filter="rowkind = '-D' AND id < 2") == [("-D", 1, 11)]
    assert read(table, "audit_log", columns=["v"], filter="rowkind LIKE '%D'") == [(11,), (20,)]
    assert read(table, "audit_log", columns=["id", "rowkind"], filter="v = 50") == [(5, "+I")]
    assert len(read(table, "audit_log", limit=2)) == 2


def test_rows_of_append_tables_are_insertions(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")])
    table.write_file(pa.table({"id": pa.array([1, 2], pa.int32())}))
    table.commit()
    assert read(table, "audit_log") == [("+I", 1), ("+I", 2)]


def test_the_kind_of_a_merged_row_is_not_that_of_its_newest_version(tmp_path: Path) -> None:
    """Partial-update turns several versions into an insertion or a deletion; a single version keeps its kind."""
    table = keyed(tmp_path, **{"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"})
    write(table, ("+I", 1, 10), ("+I", 2, 20), ("+U", 3, 30))
    write(table, ("+U", 1, None), ("-D", 2, 22))
    table.commit()
    assert read(table, "audit_log") == [("+I", 1, 10), ("+U", 3, 30), ("-D", 2, 22)]
    assert read(table, "audit_log", columns=["rowkind"], filter="id = 2") == [("-D",)]


def test_ignored_deletions_hide_behind_other_versions_only(tmp_path: Path) -> None:
    """Paimon does not merge keys with a single version, so it does not ignore a single deletion either."""
    table = keyed(tmp_path, **{"ignore-delete": "true"})
    write(table, ("+I", 1, 10), ("-D", 2, 20), ("-D", 3, 30), ("+I", 9, 90))
    write(table, ("-D", 1, 11), ("-D", 2, 21), ("+I", 8, 80))
    table.commit()
    assert read(table, "audit_log") == [("+I", 1, 10), ("+I", 8, 80), ("+I", 9, 90), ("-D", 3, 30)]


def test_sequence_numbers_by_option(tmp_path: Path) -> None:
    table = keyed(tmp_path, **{"table-read.sequence-number.enabled": "true"})
    write(table, ("+I", 1, 10), ("+I", 2, 20))
    write(table, ("-D", 1, 10))
    table.commit()
    assert read(table, "audit_log") == [("+I", 1, 2, 20), ("-D", 2, 1, 10)]
    assert read(table, "binlog", filter="_SEQUENCE_NUMBER = 2") == [("-D", 2, [1], [10])]


def test_sequence_numbers_are_for_tables_with_a_key(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT")], options={"table-read.sequence-number.enabled": "true"})
    with pytest.raises(Unsupported, match="sequence numbers of rows without a primary key"):
        morrow.open(table.path).system("audit_log")


def test_a_column_of_that_name_is_in_the_way(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("rowkind", "STRING")])
    with pytest.raises(InvalidArgument, match="has a column 'rowkind' of its own"):
        morrow.open(table.path).system("audit_log")


def test_time_travel(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    write(table, ("+I", 1, 10))
    table.commit()
    write(table, ("-D", 1, 10))
    table.commit()
    assert read(table, "audit_log", as_of=1) == [("+I", 1, 10)]
    assert read(table, "audit_log", snapshot=2) == [("-D", 1, 10)]


# binlog


def test_values_are_arrays_of_one(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    write(table, ("+I", 1, 10), ("-D", 2, None))
    table.commit()
    assert read(table, "binlog") == [("+I", [1], [10]), ("-D", [2], [None])]
    assert read(table, "binlog", columns=["v"], filter="id[1] = 1 AND rowkind = '+I'") == [([10],)]
    assert len(read(table, "binlog", limit=1)) == 1


def test_an_update_between_snapshots_is_one_row(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table(
        "db.t",
        schema="id INT NOT NULL, v INT",
        primary_keys=["id"],
        options={"bucket": "1", "changelog-producer": "input"},
    )
    table.append([{"id": 1, "v": 10}, {"id": 2, "v": 20}])
    changed = {"id": [1, 1, 2, 3], "v": [10, 11, 20, 30], "kind": ["-U", "+U", "-D", "+I"]}
    table.append(pa.table(changed), kinds="kind")

    changes = table.system("binlog", from_snapshot=1)
    assert changes.to_polars().rows() == [("+U", [1, 1], [10, 11]), ("-D", [2], [20]), ("+I", [3], [30])]
    assert [
        tuple(row.values()) for batch in changes.to_batches(1) for row in batch.to_pylist()
    ] == changes.to_polars().rows()
    assert table.system("binlog", ["v"], "rowkind = '+U'", from_snapshot=1).to_polars().rows() == [([10, 11],)]
    plain = table.system("audit_log", from_snapshot=1, to_snapshot=2, limit=2)
    assert plain.to_polars().rows() == [("-U", 1, 10), ("+U", 1, 11)]
    assert plain.to_arrow().schema == table.system("audit_log").schema
    assert table.system("audit_log", ["rowkind"], from_snapshot=0).count() == 6


def test_changes_are_for_tables_that_tell_kinds(tmp_path: Path) -> None:
    table = morrow.open(keyed(tmp_path).path)
    with pytest.raises(InvalidArgument, match=r"\$ro has no changes"):
        table.system("ro", from_snapshot=1)
    with pytest.raises(InvalidArgument, match="leave out as_of"):
        table.system("audit_log", from_snapshot=1, as_of=1)


# ro


@pytest.mark.parametrize(
    ("options", "level"), [({}, 5), ({"num-levels": "3"}, 2), ({"num-sorted-run.compaction-trigger": "2"}, 2)]
)
def test_only_the_top_level_is_read(options: dict[str, str], level: int, tmp_path: Path) -> None:
    table = keyed(tmp_path, **options)
    write(table, ("+I", 1, 10), ("+I", 2, 20), level=level)
    write(table, ("+I", 3, 30), level=level - 1)
    write(table, ("+U", 1, 11))
    table.commit()
    assert read(table, "ro") == [(1, 10), (2, 20)]
    assert read(table, "ro", filter="v > 10") == [(2, 20)]


# row_tracking


@pytest.mark.golden
def test_filters_on_row_ids_and_snapshots(golden_root: Path) -> None:
    table = morrow.open(golden_root / "public" / "row_tracking" / "warehouse" / "db.db" / "t")
    rows = table.system("row_tracking").to_polars()
    wanted = rows.filter((pl.col("_ROW_ID") >= 20) & (pl.col("_SEQUENCE_NUMBER") > 1))
    assert 0 < wanted.height < rows.height
    found = table.system("row_tracking", ["c0", "_ROW_ID"], "_ROW_ID >= 20 AND _SEQUENCE_NUMBER > 1").to_polars()
    assert found.sort("_ROW_ID").equals(wanted.select("c0", "_ROW_ID").sort("_ROW_ID"))
    assert table.system("row_tracking", ["_SEQUENCE_NUMBER"], as_of=1).to_polars()[
        "_SEQUENCE_NUMBER"
    ].unique().to_list() == [1]
    assert table.system("row_tracking", limit=3).to_polars().height == 3


def test_rows_that_are_not_tracked_have_no_ids(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"row-tracking\.enabled"):
        morrow.open(keyed(tmp_path).path).system("row_tracking")
