"""Plans run: limits, batches, counts, filters that reach the files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
from morrow.engine.errors import CorruptFile
from morrow.readers.execution import execute, section_frames
from morrow.readers.execution.execute import lazy
from tests.support.recording_store import RecordingStore
from tests.support.table_factory import TableFactory

FILES, ROWS = 5, 1_000


@pytest.fixture
def append(tmp_path: Path) -> TableFactory:
    """Five ORC files (which are read through the store) of 1,000 rows in a partition each: x counts from 0."""
    table = TableFactory(tmp_path / "append", [("p", "INT"), ("x", "INT")], partition_keys=["p"])
    for p in range(FILES):
        table.write_file(pa.table({"x": range(p * ROWS, (p + 1) * ROWS)}), partition={"p": p}, format="orc")
    table.commit()
    return table


@pytest.fixture
def merged(tmp_path: Path) -> TableFactory:
    """id 0 to 9,999 with v = id; 100 to 199 updated to v = -1; Parquet with row groups of 1,000 rows."""
    table = TableFactory(tmp_path / "merged", [("id", "INT"), ("v", "INT")], ["id"])
    table.write_file(pa.table({"id": range(10_000), "v": range(10_000)}), level=5, row_group_size=1_000)
    table.write_file(pa.table({"id": range(100, 200), "v": [-1] * 100}))
    table.commit()
    return table


# --- limits and batches ---


def test_a_limit_opens_no_more_files_than_it_needs(append: TableFactory) -> None:
    store = RecordingStore()
    plan = morrow.open(append.path).scan(limit=10).plan
    assert sum(batch.num_rows for batch in execute.to_batches(plan, store)) == 10
    assert len(set(store.reads)) == 1


def test_a_limit_over_several_groups_of_sections(append: TableFactory) -> None:
    store = RecordingStore()
    plan = morrow.open(append.path).scan(limit=ROWS + 1).plan
    assert [batch.num_rows for batch in execute.to_batches(plan, store)] == [ROWS, 1]
    assert len(set(store.scans) | set(store.reads)) == 2


def test_a_limit_of_no_rows_opens_nothing(append: TableFactory) -> None:
    store = RecordingStore()
    assert list(execute.to_batches(morrow.open(append.path).scan(limit=0).plan, store)) == []
    assert store.reads == []


@pytest.mark.parametrize("limit", [0, 1, 9_899, 9_900, 10_000, 20_000])
def test_a_limit_counts_merged_rows(merged: TableFactory, limit: int) -> None:
    scan = morrow.open(merged.path).scan(filter="v >= 0", limit=limit)
    expected = min(limit, 9_900)
    assert scan.to_arrow().num_rows == scan.to_polars().height == scan.count() == expected
    assert sum(batch.num_rows for batch in scan.to_batches(500)) == expected


@pytest.mark.parametrize("grouped", [1, 64])
def test_batches_have_at_most_the_rows_asked_for(
    append: TableFactory, monkeypatch: pytest.MonkeyPatch, grouped: int
) -> None:
    monkeypatch.setattr(execute, "MOST_GROUPED", grouped)
    scan = morrow.open(append.path).scan()
    batches = list(scan.to_batches(300))
    assert max(batch.num_rows for batch in batches) <= 300
    assert sorted(pa.Table.from_batches(batches)["x"].to_pylist()) == list(range(FILES * ROWS))
    assert all(batch.schema == scan.schema for batch in batches)


def test_a_stream_that_is_not_read_to_its_end_reads_only_what_it_gave(
    append: TableFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "MOST_GROUPED", 1)
    store = RecordingStore()
    batches = execute.to_batches(morrow.open(append.path).scan().plan, store)
    next(batches)
    assert len(set(store.reads)) == 1


@pytest.mark.parametrize("condition", [None, "v < 0", "v % 2 = 1", "id < 0"])
def test_a_large_table_of_arrow_is_made_piece_by_piece(
    merged: TableFactory, condition: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = morrow.open(merged.path).scan(filter=condition)
    whole = scan.to_arrow()
    monkeypatch.setattr(execute, "PIECEWISE_ROWS", 0)
    for _ in ("masks are known", "nothing is known"):
        made = scan.to_arrow()
        assert made.schema.equals(whole.schema, check_metadata=True)
        assert made.equals(whole)
        morrow.clear_caches()


@pytest.mark.parametrize("columns", [None, ["v"]])
@pytest.mark.parametrize("piece", [7, 250])
def test_a_stream_reads_large_files_in_pieces(
    merged: TableFactory, columns: list[str] | None, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = morrow.open(merged.path).scan(columns)
    whole = pa.Table.from_batches(scan.to_batches())
    monkeypatch.setattr(section_frames, "SMALL_ROWS", 0)
    monkeypatch.setattr(section_frames, "PIECE_ROWS", piece)
    made = list(scan.to_batches())
    assert len(made) > 1 and max(batch.num_rows for batch in made) <= piece
    order = [(name, "ascending") for name in whole.column_names]
    assert pa.Table.from_batches(made).sort_by(order).equals(whole.sort_by(order))
    monkeypatch.setattr(execute, "PIECEWISE_ROWS", 0)
    assert scan.to_arrow().equals(pa.Table.from_batches(made))


def test_a_reader_knows_its_schema_before_the_first_batch(append: TableFactory) -> None:
    reader = morrow.open(append.path).scan(["x"]).to_reader()
    assert reader.schema == pa.schema([("x", pa.int32())])
    assert reader.read_all().num_rows == FILES * ROWS


# --- empty tables, no columns ---


def test_a_table_without_a_snapshot_is_empty(tmp_path: Path) -> None:
    TableFactory(tmp_path / "t", [("x", "INT"), ("m", "STRING")])
    scan = morrow.open(tmp_path / "t").scan(filter="x > 1")
    assert scan.to_arrow() == pa.table({"x": pa.array([], pa.int32()), "m": pa.array([], pa.string())})
    assert scan.to_polars().schema == {"x": pl.Int32, "m": pl.String}
    assert list(scan.to_batches()) == []
    assert scan.count() == 0


@pytest.mark.parametrize("condition", [None, "v = -1", "id >= 0 AND v < 0", "upper(v::TEXT) = '-1'"])
def test_rows_without_columns_still_count(merged: TableFactory, condition: str | None) -> None:
    scan = morrow.open(merged.path).scan(columns=[], filter=condition)
    expected = 10_000 if condition is None else 100
    assert scan.count() == expected
    assert (scan.to_arrow().num_rows, scan.to_arrow().num_columns) == (expected, 0)
    assert (scan.to_polars().height, scan.lazy().collect().height) == (expected, expected)
    assert sum(batch.num_rows for batch in scan.to_batches(64)) == expected


# --- counts ---


def test_count_opens_no_data_file_of_append_tables(append: TableFactory) -> None:
    store = RecordingStore()
    assert execute.count(morrow.open(append.path).scan().plan, store) == FILES * ROWS
    assert execute.count(morrow.open(append.path).scan(filter="p = 3").plan, store) <= ROWS
    assert execute.count(morrow.open(append.path).scan(limit=7).plan, RecordingStore()) == 7


def test_count_without_a_filter_touches_no_data_file(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("x", "INT")], options={"deletion-vectors.enabled": "true"})
    table.deletion_vector(table.write_file(pa.table({"x": range(100)})), range(0, 100, 4))
    table.commit()
    store = RecordingStore()
    assert execute.count(morrow.open(table.path).scan().plan, store) == 75
    # The vector is held against the cardinality that the manifest gives, on a local disk.
    assert ([name.partition("-")[0] for name in store.reads], store.scans) == (["index"], [])


def test_count_of_merged_tables_reads_keys_alone(merged: TableFactory) -> None:
    assert morrow.open(merged.path).scan().count() == 10_000
    assert morrow.open(merged.path).scan(filter="v = -1").count() == 100


def test_count_leaves_out_retractions_of_compacted_files(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "INT")], ["id"])
    table.write_file(pa.table({"id": [1, 2, 3], "v": [0] * 3}), kinds=["+I", "-D", "+U"])
    table.commit()
    scan = morrow.open(table.path).scan()
    assert scan.count() == scan.to_arrow().num_rows == 2


# --- filters ---


def test_filters_on_other_columns_than_the_key_reach_the_files_of_merged_tables(merged: TableFactory) -> None:
    scan = morrow.open(merged.path).scan(["id"], filter="v > 9000")
    plan = lazy(scan.plan, scan.store).explain()
    assert plan.count("Parquet SCAN") == 1
    assert 'SELECTION: col("v") > 9000' in plan


def test_columns_selected_from_the_lazy_frame_reach_the_files(merged: TableFactory) -> None:
    scan = morrow.open(merged.path).scan()
    plan = lazy(scan.plan, scan.store).select("id").explain()
    assert plan.count("PROJECT 1/2 COLUMNS") == plan.count("Parquet SCAN") > 0


def test_an_updated_row_does_not_come_back_by_its_old_values(merged: TableFactory) -> None:
    table = morrow.open(merged.path)
    assert table.scan(filter="v BETWEEN 150 AND 160").to_arrow().num_rows == 0
    assert sorted(table.scan(["id"], filter="v = -1 AND id > 197").to_arrow()["id"].to_pylist()) == [198, 199]


def test_what_cannot_be_pushed_is_applied_to_the_rows(merged: TableFactory) -> None:
    scan = morrow.open(merged.path).scan(["id"], filter="v % 1000 = 7 AND id < 3000")
    assert "after" in scan.explain()
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [7, 1007, 2007]


def test_a_filter_column_need_not_be_in_the_output(merged: TableFactory) -> None:
    scan = morrow.open(merged.path).scan(["v"], filter=pc.field("id") == 150)
    assert scan.to_arrow().to_pydict() == {"v": [-1]}


# --- files that are not what metadata says ---


@pytest.mark.parametrize("read", ["to_arrow", "to_polars", "count", "to_batches"])
def test_a_shortened_data_file_is_an_error_and_never_fewer_rows(merged: TableFactory, read: str) -> None:
    for file in merged.folder((), 0).iterdir():
        file.write_bytes(file.read_bytes()[:-20])
    scan = morrow.open(merged.path).scan(filter="v >= 0")
    with pytest.raises(CorruptFile, match="data-"):
        list(getattr(scan, read)())
