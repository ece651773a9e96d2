"""Building and dropping of global indexes, and writes to tables that have them."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import CommitConflict, InvalidArgument, Unsupported
from morrow.engine.format.manifest_entries import index_entries_of
from morrow.engine.plan import global_indexes
from morrow.engine.plan.manifests import read_index_entries
from morrow.engine.structs import replace
from morrow.writers.commit.messages import CommitMessage
from tests.support.global_indexes import OPTIONS, draw_filter, unpack

ROWS = pl.DataFrame({"id": range(40), "s": [None, "a", "b", "ab"] * 10, "p": [0, 1] * 20}).cast({"p": pl.Int32})


@pytest.fixture(autouse=True)
def skip_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_indexes, "MIN_SKIPPED_ROWS", 2)


def make(path: Path, partition_keys: tuple[str, ...] = (), **options: str) -> morrow.Table:
    catalog = morrow.Catalog(path)
    catalog.create_database("db", ignore_if_exists=True)
    columns = {"id": "BIGINT", "s": "STRING", "p": "INT"}
    given = {**OPTIONS, **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}}
    table = catalog.create_table("db.t", columns, partition_keys=partition_keys, options=given)
    table.append(ROWS)
    return table


def read_ids(table: morrow.Table, condition: str) -> list[int]:
    """Return the ids of matching rows, after a comparison with a read without indexes."""
    found = table.to_polars(["id"], filter=condition)["id"].sort().to_list()
    without = table.with_options({"global-index.enabled": "false"})
    assert found == without.to_polars(["id"], filter=condition)["id"].sort().to_list()
    return found


def list_indexes(table: morrow.Table) -> list[tuple[str, int, int]]:
    rows = table.system("table_indexes").to_polars().filter(pl.col("index_type") != "DELETION_VECTORS")
    return sorted(rows.select("index_field_name", "row_range_start", "row_range_end").rows())


def uses_index(table: morrow.Table, condition: str) -> bool:
    return "global index" in str(table.scan(filter=condition).explain())


@pytest.mark.parametrize("index_type", ["btree", "bitmap"])
def test_an_index_is_built_used_extended_and_dropped(tmp_path: Path, index_type: str) -> None:
    table = make(tmp_path)

    assert table.create_global_index("id", index_type).files == 1
    assert table.create_global_index("id", index_type).snapshot is None
    assert read_ids(table, "id = 7 OR id > 37") == [7, 38, 39]
    assert "rows by global index (2 ranges): kept 3 of 40" in str(table.scan(filter="id = 7 OR id > 37").explain())

    table.append(ROWS.with_columns(pl.col("id") + 40))
    assert read_ids(table, "id = 50") == [50]
    table.create_global_index("id", index_type, options={"sorted-index.records-per-range": 30})
    assert list_indexes(table) == [("id", 0, 39), ("id", 40, 69), ("id", 70, 79)]
    assert read_ids(table, "id IN (1, 50, 79)") == [1, 50, 79]

    assert table.drop_global_index("id", index_type, dry_run=True).files == 3
    assert table.drop_global_index("id", index_type).files == 3
    assert list_indexes(table) == []
    assert table.drop_global_index("id", index_type).snapshot is None


def test_partitions_are_indexed_alone_or_together(tmp_path: Path) -> None:
    table = make(tmp_path, ("p",))

    table.create_global_index("id", partition={"p": 1})
    assert list_indexes(table) == [("id", 20, 39)]
    assert read_ids(table, "id < 4") == [0, 1, 2, 3]
    table.create_global_index("id")
    assert list_indexes(table) == [("id", 0, 19), ("id", 20, 39)]
    assert table.drop_global_index("id", partition={"p": 0}).files == 1
    assert read_ids(table, "id < 4 AND p = 1") == [1, 3]


def test_random_filters_return_the_same_rows_as_without(tmp_path: Path) -> None:
    table = make(tmp_path, deletion_vectors__enabled="true", global_index__column_update_action="ignore")
    for column in ("id", "s"):
        table.create_global_index(column)
    table.create_global_index("s", "bitmap")
    table.append(ROWS.with_columns(pl.col("id") + 20))
    table.delete("id = 3 OR id = 21")
    table.update({"s": "'new'"}, "id = 5")

    rows = table.to_polars().drop("p")
    for seed in range(25):
        read_ids(table, draw_filter(rows, seed))
    assert read_ids(table, "s = 'new'") == [5]


def test_an_update_of_an_indexed_column_is_refused_or_drops_the_index(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.create_global_index("s")
    table.update({"p": "5"}, "id = 1")  # another column
    assert uses_index(table, "s = 'a'")

    with pytest.raises(Unsupported, match="a column with a global index"):
        table.update({"s": "'x'"}, "id = 1")
    table.alter.set_options({"global-index.column-update-action": "drop_partition_index"})
    table.update({"s": "'x'"}, "id = 1")
    assert list_indexes(table) == []
    assert read_ids(table, "s = 'x'") == [1]


def test_rows_changed_since_the_index_was_built_are_read_until_it_is_built_again(tmp_path: Path) -> None:
    table = make(tmp_path, global_index__column_update_action="ignore")
    table.append(ROWS.with_columns(pl.col("id") + 40))
    table.create_global_index("s", options={"sorted-index.records-per-range": 40})
    table.update({"s": "'x'"}, "id = 5")

    assert read_ids(table, "s = 'x'") == [5]
    assert table.create_global_index("s").files == 1
    assert list_indexes(table) == [("s", 0, 39), ("s", 40, 79)]
    assert "rows by global index (1 range): kept 1 of 40" in str(table.scan(filter="s = 'x'").explain())


def test_deletes_overwrites_and_compactions_keep_answers_right(tmp_path: Path) -> None:
    table = make(tmp_path, deletion_vectors__enabled="true")
    table.append(ROWS.with_columns(pl.col("id") + 40))
    table.create_global_index("id")

    table.delete("id < 10")
    assert read_ids(table, "id < 12") == [10, 11]
    table.compact(full=True)
    assert read_ids(table, "id IN (9, 10, 79)") == [10, 79]
    table.materialize_deletion_vectors()
    assert list_indexes(table) == []
    assert read_ids(table, "id IN (9, 10, 79)") == [10, 79]
    table.create_global_index("id")
    table.overwrite(ROWS)
    assert list_indexes(table) == []
    assert read_ids(table, "id IN (9, 10, 79)") == [9, 10]


def test_files_of_an_index_are_kept_with_their_metadata_by_later_commits(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.create_global_index("id")
    metadata = table._metadata
    before = read_index_entries(metadata, metadata.latest_snapshot())  # type: ignore[arg-type]  # there is one
    table.append(ROWS)
    table.compact_manifests()
    after = read_index_entries(metadata, metadata.latest_snapshot())  # type: ignore[arg-type]  # there is one

    assert before is not None
    assert after is not None
    assert before.rows() == after.rows()
    assert before["_GLOBAL_INDEX"].struct.field("_SOURCE_META")[0] == b"DEIX\0\0\0\1" + (1).to_bytes(8)


@pytest.mark.parametrize(
    "change",
    ["UPDATE", "OVERWRITE", "INDEX"],
)
def test_changes_of_others_while_rows_are_indexed_are_conflicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    from morrow.writers.operations import global_indexes as building

    table = make(tmp_path, commit__max_retries="0")
    other = morrow.open(tmp_path / "db.db/t")
    commit_once = building.commit_once

    def commit_later(*args: object, **kwargs: object) -> object:
        monkeypatch.setattr(building, "commit_once", commit_once)
        if change == "UPDATE":
            other.update({"s": "'x'"}, "id = 1")
        elif change == "OVERWRITE":
            other.overwrite(ROWS)
        else:
            other.create_global_index("s")
        return commit_once(*args, **kwargs)  # type: ignore[arg-type]  # its own arguments

    monkeypatch.setattr(building, "commit_once", commit_later)
    with pytest.raises(CommitConflict, match="indexed"):
        table.create_global_index("s")
    files = list((tmp_path / "db.db/t/index").glob("*")) if (tmp_path / "db.db/t/index").exists() else []
    assert len(files) == (change == "INDEX")


def test_other_indexes_are_refused_with_the_remedy(tmp_path: Path) -> None:
    table = make(tmp_path, ("p",))

    with pytest.raises(Unsupported, match="index a column of VECTOR"):
        table.create_global_index("s", "ivf-flat")
    with pytest.raises(Unsupported, match="index a column of STRING"):
        table.create_global_index("id", "full-text")
    with pytest.raises(Unsupported, match=r"choose one of btree, bitmap, ivf-flat, .*, full-text"):
        table.create_global_index("s", "hash")
    with pytest.raises(Unsupported, match="several columns"):
        table.create_global_index("s,id")
    with pytest.raises(InvalidArgument, match="partition column"):
        table.create_global_index("p")
    with pytest.raises(Unsupported, match="set it to none"):
        table.create_global_index("s", options={"btree-index.compression": "zstd"})
    plain = morrow.Catalog(tmp_path).create_table("db.plain", {"id": "INT"})
    with pytest.raises(Unsupported, match=r"row-tracking\.enabled"):
        plain.create_global_index("id")


def test_tables_with_an_index_are_read_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("paimon_vindex", "paimon_ftindex"):
        monkeypatch.setitem(sys.modules, module, None)
    table = morrow.open(unpack(tmp_path) / "db.db/search")

    assert table.append([{"id": 70, "v": [0.0] * 4, "s": "n70"}]) is not None
    assert table.to_polars(filter="s LIKE '%n70'")["id"].to_list() == [70]
    assert table.search("v", [0.0] * 4, 1)["id"].to_list() == [70]
    with pytest.raises(Unsupported, match=r"pip install 'morrow\[vindex\]'"):
        table.search("v", [0.0] * 4, 1, exact=False)
    with pytest.raises(Unsupported, match=r"pip install 'morrow\[full-text\]'"):
        table.search_text("s", "lake", 1)
    assert table.drop_global_index("v", "ivf-pq").files == 2


def test_the_procedures_build_and_drop(tmp_path: Path) -> None:
    table, catalog = make(tmp_path), morrow.Catalog(tmp_path)

    built = catalog.sql("CALL sys.create_global_index(`table` => 'db.t', index_column => 's', index_type => 'bitmap')")
    assert built.fetchall() == [(True,)]
    assert list_indexes(table) == [("s", 0, 39)]
    dropped = catalog.sql("CALL sys.drop_global_index('db.t', 's', 'bitmap')")
    assert dropped.fetchall() == [(True, 1)]
    assert list_indexes(table) == []


def test_bitmap_indexes_of_paimon_1_4_are_ignored_and_dropped(tmp_path: Path) -> None:
    """They lack the first and last key, and have the format of data file indexes."""
    table = make(tmp_path)
    table.create_global_index("id", "bitmap")
    snapshot = table._metadata.latest_snapshot()
    assert snapshot is not None
    entries = read_index_entries(table._metadata, snapshot)
    assert entries is not None
    (entry,) = index_entries_of(entries)
    assert entry.file.global_index is not None
    old = replace(entry.file, global_index=replace(entry.file.global_index, index_meta=None))
    message = CommitMessage(
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=-1,
        new_index_files=(old,),
        deleted_index_files=(entry.file,),
    )
    table.committer("paimon 1.4").commit([message])

    assert read_ids(table, "id = 7 OR id IS NULL") == [7]
    assert not uses_index(table, "id = 7")
    assert table.create_global_index("id", "bitmap").files == 1
    assert uses_index(table, "id = 7")
    assert table.drop_global_index("id", "bitmap").files == 2
