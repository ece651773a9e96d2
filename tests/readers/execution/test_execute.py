"""Execution of plans: limits, batches, counts, and filters that reach the files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, SnapshotExpired
from morrow.engine.format import types as t
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute, strategy
from morrow.readers.execution.execute import to_lazy
from morrow.readers.execution.strategy import is_arrow_only, is_complete
from morrow.scans.table_scan import Scan
from tests.support.recording_store import RecordingStore
from tests.support.table_factory import DataFile, TableFactory
from tests.support.written import new_table

FILES, ROWS = 5, 1_000


@pytest.fixture
def append(tmp_path: Path) -> TableFactory:
    """Make five partitions, each with an ORC file (read through the store) of 1,000 rows; x counts from 0."""
    table = TableFactory(tmp_path / "append", [("p", "INT"), ("x", "INT")], partition_keys=["p"])
    for p in range(FILES):
        table.write_file(pa.table({"x": range(p * ROWS, (p + 1) * ROWS)}), partition={"p": p}, format="orc")
    table.commit()
    return table


@pytest.fixture
def merged(tmp_path: Path) -> TableFactory:
    """Make ids 0 to 9,999 with v = id, and update 100 to 199 to v = -1, in Parquet row groups of 1,000 rows."""
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
    monkeypatch.setattr(execute, "MAX_GROUP_SECTIONS", grouped)
    scan = morrow.open(append.path).scan()
    batches = list(scan.to_batches(300))
    assert max(batch.num_rows for batch in batches) <= 300
    assert sorted(pa.Table.from_batches(batches)["x"].to_pylist()) == list(range(FILES * ROWS))
    assert all(batch.schema == scan.schema for batch in batches)


def test_a_stream_that_is_not_read_to_its_end_reads_only_what_it_gave(
    append: TableFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "MAX_GROUP_SECTIONS", 1)
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
    monkeypatch.setattr(execute, "MIN_PIECEWISE_ROWS", 0)
    for _ in ("masks are known", "nothing is known"):
        made = scan.to_arrow()
        assert made.schema.equals(whole.schema, check_metadata=True)
        assert made.equals(whole)
        morrow.clear_caches()


@pytest.mark.parametrize("columns", [None, ["v"]])
@pytest.mark.parametrize("piece", [71, 250])
def test_a_stream_reads_large_files_in_pieces(
    merged: TableFactory, columns: list[str] | None, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = morrow.open(merged.path).scan(columns)
    whole = pa.Table.from_batches(scan.to_batches())
    monkeypatch.setattr(strategy, "MAX_SMALL_ROWS", 0)
    monkeypatch.setattr(strategy, "PIECE_ROWS", piece)
    made = list(scan.to_batches())
    assert len(made) > 1 and max(batch.num_rows for batch in made) <= piece
    order = [(name, "ascending") for name in whole.column_names]
    assert pa.Table.from_batches(made).sort_by(order).equals(whole.sort_by(order))
    monkeypatch.setattr(execute, "MIN_PIECEWISE_ROWS", 0)
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
    # On a local disk the vector is compared with the cardinality in the manifest.
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
    plan = to_lazy(scan.plan, scan.store).explain()
    assert plan.count("Parquet SCAN") == 1
    assert 'SELECTION: col("v") > 9000' in plan


def test_columns_selected_from_the_lazy_frame_reach_the_files(merged: TableFactory) -> None:
    scan = morrow.open(merged.path).scan()
    plan = to_lazy(scan.plan, scan.store).select("id").explain()
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


# --- files that do not match their metadata ---


@pytest.mark.parametrize("read", ["to_arrow", "to_polars", "count", "to_batches"])
def test_a_shortened_data_file_is_an_error_and_never_fewer_rows(merged: TableFactory, read: str) -> None:
    for file in merged.folder((), 0).iterdir():
        file.write_bytes(file.read_bytes()[:-20])
    scan = morrow.open(merged.path).scan(filter="v >= 0")
    with pytest.raises(CorruptFile, match="data-"):
        list(getattr(scan, read)())


# ORC tables become Arrow tables without Polars, with the same rows and schema; other reads use Polars.

FIELDS = [("id", "INT"), ("v", "STRING")]
VECTORS = {"deletion-vectors.enabled": "true"}


def orc(table: TableFactory, rows: dict[str, Any], **options: Any) -> DataFile:
    return table.write_file(pa.table(rows), format="orc", **options)


def read(path: Path, **request: Any) -> list[dict[str, Any]]:
    """Read the rows ordered by id, and check that Polars reads the same rows in exactly the same types."""
    scan = morrow.open(path).scan(**request)
    assert is_arrow_only(scan.plan)
    table = scan.to_arrow()
    table.validate(full=True)
    by_polars = to_arrow_table(scan.to_polars(), scan.plan.fields)
    assert table.schema.equals(by_polars.schema, check_metadata=True)
    assert table.sort_by("id").equals(by_polars.sort_by("id"))
    return table.sort_by("id").to_pylist()


def test_newest_versions(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS, ["id"])
    orc(table, {"id": [1, 2, 3, 4], "v": ["a", "b", "c", None]}, level=5)
    orc(table, {"id": [2, 3, 5], "v": ["B", "C", "E"]}, kinds=["+U", "-D", "+I"])
    table.commit()
    expected = [{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 4, "v": None}, {"id": 5, "v": "E"}]
    assert read(tmp_path) == expected
    assert read(tmp_path) == expected, "with masks that are cached"
    assert read(tmp_path, columns=["v", "id"])[0] == {"v": "a", "id": 1}


def test_deletion_vectors_and_retractions_of_files_that_nothing_merges(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS, ["id"], options=VECTORS)
    dead = orc(table, {"id": [1, 2, 3], "v": ["a", "b", "c"]}, level=5)
    table.deletion_vector(dead, [1])
    orc(table, {"id": [4, 5, 6], "v": ["d", "e", "f"]}, level=5, kinds=["+I", "-D", "+U"])
    both = orc(table, {"id": [7, 8, 9], "v": ["g", "h", "i"]}, level=5, kinds=["-U", "+I", "+I"])
    table.deletion_vector(both, [2])
    table.commit("COMPACT")
    assert [row["id"] for row in read(tmp_path)] == [1, 3, 4, 6, 8]


def test_several_stripes_each_have_their_part_of_the_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = po.write_table
    monkeypatch.setattr(po, "write_table", lambda *each, **o: write(*each, **o, stripe_size=1, batch_size=1024))
    table = TableFactory(tmp_path, FIELDS, ["id"], options=VECTORS)
    ids = range(50_000)
    file = orc(table, {"id": ids, "v": [str(id * 7919) for id in ids]}, level=5)
    table.deletion_vector(file, ids[::3])
    table.commit("COMPACT")
    (path,) = tmp_path.rglob("*.orc")
    assert po.ORCFile(path).nstripes > 1
    assert [row["id"] for row in read(tmp_path)] == [id for id in ids if id % 3]


def test_partition_columns_are_constants_of_their_files(tmp_path: Path) -> None:
    keys = [("day", "DATE"), ("price", "DECIMAL(10, 2)"), ("label", "STRING")]
    table = TableFactory(tmp_path, [("id", "INT"), *keys], partition_keys=[name for name, _ in keys])
    first = {"day": dt.date(2024, 2, 29), "price": Decimal("1.50"), "label": "a b"}
    second = {"day": dt.date(1969, 7, 20), "price": None, "label": None}
    orc(table, {"id": [1, 2]}, partition=first)
    orc(table, {"id": [3]}, partition=second)
    table.commit()
    assert read(tmp_path) == [{"id": 1, **first}, {"id": 2, **first}, {"id": 3, **second}]
    assert morrow.open(tmp_path).scan(columns=["label"]).to_arrow()["label"].to_pylist().count("a b") == 2


def test_renamed_and_added_columns(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS)
    orc(table, {"id": [1], "v": ["a"]})
    added = t.DataField(2, "list", t.ArrayType(element=t.IntType(nullable=False)), description="since May")
    table.alter(fields=[t.DataField(1, "w", t.VarCharType()), added, t.DataField(0, "id", t.IntType())])
    orc(table, {"w": ["b"], "list": [[1, 2]], "id": [2]})
    table.commit()
    assert read(tmp_path) == [{"w": "a", "list": None, "id": 1}, {"w": "b", "list": [1, 2], "id": 2}]


def test_types_are_exactly_those_of_the_schema(tmp_path: Path) -> None:
    point = t.RowType(fields=(t.DataField(20, "x", t.IntType(nullable=False)), t.DataField(21, "s", t.CharType(3))))
    kinds = {
        "c": t.CharType(length=3),
        "seconds": t.TimestampType(precision=0),
        "millis": t.TimestampType(precision=3),
        "instant": t.LocalZonedTimestampType(precision=6),
        "time": t.TimeType(),
        "point": point,
        "map": t.MapType(key=t.VarCharType(), value=t.IntType(nullable=False)),
        "required": t.BigIntType(nullable=False),
    }
    fields = [t.DataField(0, "id", t.IntType()), *(t.DataField(i, n, k) for i, (n, k) in enumerate(kinds.items(), 1))]
    value = {
        "c": "ab",
        "seconds": dt.datetime(1960, 1, 1, 1),
        "millis": dt.datetime(2024, 1, 1, 1, 1, 1, 5000),
        "instant": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        "time": dt.time(1, 2, 3, 4000),
        "point": {"x": 1, "s": "ab"},
        "map": [("k", 1)],
        "required": 7,
    }
    table = TableFactory(tmp_path, fields)
    rows = [{"id": 1, **value}, {"id": 2, **dict.fromkeys(kinds), "required": 8}]
    table.write_file(pa.Table.from_pylist(rows, t.to_arrow_schema(fields)), format="orc")
    table.commit()
    assert read(tmp_path) == rows


def test_a_table_without_files_has_a_schema(tmp_path: Path) -> None:
    TableFactory(tmp_path, FIELDS, ["id"])
    assert read(tmp_path) == []


# --- reads through Polars ---


def goes_through_polars(scan: Scan) -> bool:
    return not (is_complete(scan.plan) and is_arrow_only(scan.plan))


def test_filters_limits_casts_and_folds_go_through_polars(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "cast", FIELDS)
    orc(table, {"id": [1, 2], "v": ["a", "b"]})
    table.commit()
    cast = morrow.open(table.path)
    assert goes_through_polars(cast.scan(filter="id > 1"))
    assert goes_through_polars(cast.scan(limit=1))
    table.alter(fields=[("id", "BIGINT"), ("v", "STRING")])
    assert goes_through_polars(morrow.open(table.path).scan())
    assert not goes_through_polars(morrow.open(table.path).scan(columns=["v"]))
    assert morrow.open(table.path).scan().to_arrow().to_pydict() == {"id": [1, 2], "v": ["a", "b"]}

    folded = TableFactory(tmp_path / "fold", FIELDS, ["id"], options={"merge-engine": "partial-update"})
    orc(folded, {"id": [1], "v": ["a"]})
    orc(folded, {"id": [1], "v": [None]})
    folded.commit()
    assert goes_through_polars(morrow.open(folded.path).scan())
    assert morrow.open(folded.path).scan().to_arrow().to_pylist() == [{"id": 1, "v": "a"}]


def test_one_file_of_another_format_sends_all_through_polars(tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS)
    orc(table, {"id": [1], "v": ["a"]})
    table.write_file(pa.table({"id": [2], "v": ["b"]}))
    table.commit()
    assert goes_through_polars(morrow.open(tmp_path).scan())
    assert morrow.open(tmp_path).scan().to_arrow().num_rows == 2


# --- damage ---


def append_arrow_tables(path: Path) -> tuple[Scan, Path]:
    """Make a table with one file of two rows."""
    table = TableFactory(path, FIELDS)
    file = orc(table, {"id": [1, 2], "v": ["a", "b"]})
    table.commit()
    return morrow.open(path).scan(), table.folder((), 0) / file.name


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    scan, file = append_arrow_tables(tmp_path)
    content = file.read_bytes()
    file.write_bytes(content[:-20] + b"\xff" * 20)
    with pytest.raises(CorruptFile, match=file.name):
        scan.to_arrow()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    scan, file = append_arrow_tables(tmp_path)
    file.unlink()
    with pytest.raises(FileMissing, match=file.name):
        scan.to_arrow()


def test_rows_are_held_against_the_manifest(tmp_path: Path) -> None:
    scan, file = append_arrow_tables(tmp_path)
    other = TableFactory(tmp_path / "other", FIELDS)
    orc(other, {"id": [1, 2, 3], "v": ["a", "b", "c"]})
    (three,) = (tmp_path / "other").rglob("*.orc")
    file.write_bytes(three.read_bytes())

    class SameSize(RecordingStore):
        def size(self, path: str) -> int | None:
            (entry,) = scan.plan.files
            return entry.size if super().size(path) else None

    with pytest.raises(CorruptFile, match="has 3 rows where metadata says 2"):
        execute.to_arrow(scan.plan, SameSize())


# Filters on users' LazyFrames: filter errors and file errors are kept apart, and panics of Polars are handled.


@pytest.fixture
def table(tmp_path: Path) -> morrow.Table:
    table = new_table(tmp_path, "k STRING, n INT")
    for n in range(2):
        table.append({"k": ["a", "b"], "n": [n, n + 10]})
    return table


@pytest.mark.parametrize(
    "probe", [pl.col("k").is_in([None, "a"], nulls_equal=True), pl.col("n").is_in([None, 0, 1], nulls_equal=True)]
)
def test_a_filter_that_panics_in_the_scan_of_files_is_tested_above_it(table: morrow.Table, probe: pl.Expr) -> None:
    assert sorted(table.scan().lazy().filter(probe).collect().rows()) == [("a", 0), ("a", 1)]
    assert sorted(table.scan().lazy().filter(probe).select("n").collect()["n"]) == [0, 1]
    assert table.scan().lazy().filter(probe).select(pl.len()).collect().item() == 2


def test_rows_that_came_before_a_failure_come_once(table: morrow.Table) -> None:
    """A strict cast fails at the last row; Polars' error for the expression is raised, not an error of a file."""
    table.append({"k": ["7", "x"], "n": [7, 8]})
    frame = table.scan().lazy().filter(pl.col("k").cast(pl.Int64) == 7)
    with pytest.raises(pl.exceptions.InvalidOperationError, match="conversion from `str` to `i64` failed"):
        frame.collect()


def test_a_filter_that_polars_cannot_evaluate_at_all(table: morrow.Table) -> None:
    def panics(_: pl.Series) -> pl.Series:
        raise pl.exceptions.PanicException("called `Option::unwrap()`")

    frame = table.scan().lazy().filter(pl.col("n").map_batches(panics, return_dtype=pl.Boolean, is_elementwise=True))
    with pytest.raises(InvalidArgument, match=r"Polars cannot evaluate .*Option::unwrap"):
        frame.collect()


def test_a_damaged_file_is_named_with_or_without_a_filter(table: morrow.Table) -> None:
    (file, *_) = Path(table.path).rglob("*.parquet")
    damaged = bytearray(file.read_bytes())
    damaged[-12:-4] = b"\xff" * 8
    frame = table.scan().lazy()
    file.write_bytes(damaged)
    for query in (frame, frame.filter(pl.col("n") > 3), frame.select(pl.col("n").sum())):
        with pytest.raises(CorruptFile, match=file.name):
            query.collect()


def test_a_snapshot_that_expires_before_the_frame_is_collected(table: morrow.Table) -> None:
    frame = table.scan().lazy()
    table.overwrite({"k": ["c"], "n": [1]})
    table.expire_snapshots(1, 1)
    with pytest.raises(SnapshotExpired):
        frame.filter(pl.col("n") > 3).collect()


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_what_polars_hands_down(table: morrow.Table, engine: Literal["in-memory", "streaming"]) -> None:
    frame = table.scan().lazy()
    assert frame.head(3).collect(engine=engine).height == 3
    assert frame.head(3).filter(pl.col("k") == "a").collect(engine=engine).height == 2
    assert frame.filter(pl.col("k") == "a").head(1).collect(engine=engine).rows() == [("a", 0)]
    assert frame.slice(1, 2).collect(engine=engine).height == 2
    assert frame.select(pl.len()).collect(engine=engine).item() == 4
    assert frame.join(frame, on="k").select(pl.len()).collect(engine=engine).item() == 8
    assert table.scan([]).lazy().select(pl.len()).collect(engine=engine).item() == 4


def test_columns_filters_and_limits_set_later_plan_the_read_of_a_merged_table(tmp_path: Path) -> None:
    """Files that they exclude may even be missing."""
    table = new_table(tmp_path, "day INT, id INT, text STRING", keys=["day", "id"], by=["day"])
    for text in "ab":
        table.upsert({"day": [1, 2], "id": [7, 7], "text": [text, text]})
    frame = table.scan().lazy()
    for file in Path(table.path).glob("day=2/**/*.parquet"):
        file.unlink()
    assert frame.filter(pl.col("day") == 1).collect().rows() == [(1, 7, "b")]
    assert frame.filter(pl.col("day") < 2, pl.col("text").str.contains("b")).select("id").collect().rows() == [(7,)]
    assert frame.filter((pl.col("day") == 1) & (pl.col("text") == "a")).collect().is_empty()
    with pytest.raises(FileMissing):
        frame.filter(pl.col("id") == 7).collect(engine="streaming")
