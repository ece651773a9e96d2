"""Sort compaction of whole partitions of append tables."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import ColumnNotFound, CommitConflict, InvalidArgument, Unsupported
from morrow.engine.format.types import ArrayType, DataField, DataType, IntType, parse_atomic
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.filter import parse_filter
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.writers.append import bucket_compaction as stored_files
from morrow.writers.append import sort_compaction
from morrow.writers.append.row_level import delete_where
from morrow.writers.append.sort_compaction import (
    Sorter,
    check_sortable,
    compute_hilbert_order,
    compute_z_order,
    interleave_bits,
    sort_compact,
)
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.target import WriteTarget
from tests.support.written import new_table
from tests.writers.append.tables import append, append_table, commit, ids, read, rows

SCHEMA = "x INT, y DOUBLE, text STRING, region INT"
SMALL_FILES = {"target-file-size": "30 kb"}


def points(count: int, seed: int, region: int = 0) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    x, y = random.integers(-1000, 1000, count), random.random(count)
    text = [f"row {number}" if number % 10 else None for number in range(count)]
    data = {"x": x, "y": y, "text": text, "region": [region] * count}
    return pl.DataFrame(data, schema={"x": pl.Int32, "y": pl.Float64, "text": pl.String, "region": pl.Int32})


def sort(target: WriteTarget, *order_by: str, strategy: str = "order") -> list[CommitMessage]:
    return sort_compact(target, target.metadata.latest_snapshot(), order_by, strategy)


def stored(target: WriteTarget, messages: list[CommitMessage]) -> pl.DataFrame:
    """Read the rows of the new files in file order."""
    paths = [next(Path(target.metadata.root).rglob(f.file_name)) for m in messages for f in m.new_files]
    return pl.concat([pl.read_parquet(path) for path in paths])


def everything(target: WriteTarget) -> pl.DataFrame:
    return morrow.open(target.metadata.root).scan().to_polars().sort(pl.all())


def test_order(tmp_path: Path) -> None:
    target = append_table(tmp_path, schema=SCHEMA)
    append(target, points(500, 1), points(500, 2))
    before = everything(target)

    (message,) = messages = sort(target, "x", "y")
    snapshot = commit(target, messages)

    assert len(message.deleted_files) == 2
    assert [(f.row_count, f.min_sequence_number, f.file_source) for f in message.new_files] == [(1000, 0, 0)]
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.total_record_count) == ("OVERWRITE", 1000)
    assert everything(target).equals(before)
    found = stored(target, messages)
    assert found.equals(found.sort("x", "y"))


@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
@pytest.mark.parametrize(("memory", "ranges"), [("256 mb", "quantity"), ("600 kb", "size")])
def test_the_rows_stay_and_files_become_narrow(tmp_path: Path, strategy: str, memory: str, ranges: str) -> None:
    options = {**SMALL_FILES, "write-buffer-size": memory, "sort-compaction.range-strategy": ranges}
    target = append_table(tmp_path, options, schema=SCHEMA)
    append(target, points(10_000, 1), points(10_000, 2))
    before = everything(target)
    condition = "x between 0 and 100 and y < 0.1"
    unsorted = morrow.open(target.metadata.root).scan(filter=condition)

    commit(target, sort(target, "x", "y", strategy=strategy))

    assert everything(target).equals(before)
    found = morrow.open(target.metadata.root).scan(filter=condition)
    assert found.to_polars().height == unsorted.to_polars().height > 0
    assert len(found.plan.files) < len(unsorted.plan.files)
    assert len(found.plan.files) <= 3


@pytest.mark.parametrize("by_ranges", [False, True])
def test_both_ways_give_the_same_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_ranges: bool) -> None:
    monkeypatch.setattr(stored_files, "BATCH_ROWS", 300)
    monkeypatch.setattr(sort_compaction, "SAMPLE_ROWS", 10)
    target = append_table(tmp_path, {"write-buffer-size": "20 kb"} if by_ranges else {}, schema=SCHEMA)
    append(target, points(2_000, 1), points(10, 2))

    found = stored(target, sort(target, "text", "x"))

    assert found.height == 2_010
    assert found.equals(found.sort("text", "x", maintain_order=True, nulls_last=False))


def test_only_the_partitions_asked_for(tmp_path: Path) -> None:
    target = append_table(tmp_path, partitioned=True)
    append(target, rows(3, 1, region=1), rows(4, 2, region=2))
    chosen = next(m for m in sort(target, "id") if target.partition_values(m.partition) == (2,))

    (message,) = sort_compact(target, target.metadata.latest_snapshot(), ["id"], partitions=[chosen.partition])

    assert target.partition_values(message.partition) == (2,)


def test_dead_rows_are_left_out(tmp_path: Path) -> None:
    target = append_table(tmp_path, {"deletion-vectors.enabled": "true"})
    append(target, rows(3, 1, 2))
    filter = parse_filter("id = 1", target.schema.fields)
    commit(target, delete_where(target, target.metadata.latest_snapshot(), filter))

    (message,) = messages = sort(target, "id")
    commit(target, messages)

    assert len(message.deleted_index_files) == 1
    assert read(target)["id"].to_list() == [2, 3]


def test_rows_that_come_meanwhile_stay(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    append(target, rows(2, 1))
    messages = sort(target, "id")
    append(target, rows(3))
    commit(target, messages)

    assert ids(target) == [1, 2, 3]


def test_files_that_change_meanwhile_are_a_conflict(tmp_path: Path) -> None:
    target = append_table(tmp_path)
    append(target, rows(2, 1))
    first, second = sort(target, "id"), sort(target, "id")
    commit(target, first)

    with pytest.raises(CommitConflict):
        commit(target, second)
    assert ids(target) == [1, 2]


def test_an_empty_table(tmp_path: Path) -> None:
    assert sort(append_table(tmp_path), "id") == []


@pytest.mark.parametrize(
    ("options", "order_by", "strategy", "error", "says"),
    [
        ({}, ["id"], "peano", InvalidArgument, "order, zorder, hilbert"),
        ({}, [], "order", InvalidArgument, "at least 1 column"),
        ({}, ["id"], "hilbert", InvalidArgument, "at least 2 column"),
        ({}, ["nothing"], "order", ColumnNotFound, "'nothing'"),
        ({}, ["region"], "order", InvalidArgument, "partition key"),
        ({"bucket": "1", "bucket-key": "id"}, ["id"], "order", Unsupported, "fixed buckets"),
    ],
)
def test_refusals(
    tmp_path: Path, options: dict[str, str], order_by: list[str], strategy: str, error: type, says: str
) -> None:
    target = append_table(tmp_path, options, partitioned=True)

    with pytest.raises(error, match=says):
        sort_compact(target, None, order_by, strategy)


# Positions on space-filling curves.

BIGINT, INT = parse_atomic("BIGINT"), parse_atomic("INT")


def column(type_text: str, values: list[Any]) -> tuple[pl.Series, DataType]:
    kind = parse_atomic(type_text)
    return pl.Series(values, dtype=to_polars_dtype(kind)), kind


def walked(places: pl.Series, *axes: np.ndarray[Any, Any]) -> list[int]:
    """Compute each step's length along the curve, summed over the axes."""
    order = places.arg_sort().to_numpy()
    steps = [np.abs(np.diff(axis[order])) for axis in axes]
    return np.sum(steps, axis=0).tolist()  # type: ignore[no-any-return]  # an array of integers


def test_bits_are_taken_in_turns() -> None:
    one, other = np.array([[0b1111_0000]], np.uint8), np.array([[0b0101_0101]], np.uint8)

    assert interleave_bits([one, other]).tolist() == [[0b10111011, 0b00010001]]


def test_a_shorter_column_drops_out() -> None:
    one, other = np.array([[0b1010_1010]], np.uint8), np.array([[0xFF, 0xFF]], np.uint8)

    assert interleave_bits([one, other]).tolist() == [[0b11011101, 0b11011101, 0xFF]]


def test_z_order_is_the_one_of_java() -> None:
    # Expected bytes from ZIndexer of Paimon 1.4.2, first with 8 bytes of text, then with 3 bytes for text and INT.
    long, int_ = pl.Series([1, None, -(2**63)]), pl.Series([-1, 0, 2**31 - 1], dtype=pl.Int32)
    words = pl.Series(["ab", "a longer text", None])
    text = parse_atomic("STRING")

    assert [place.hex() for place in compute_z_order([long, int_, words], [BIGINT, INT, text])] == [
        "8da4934da49a492492492492492492492492492492492496",
        "448001008000048240048249048248048049048041049008",
        "400000000000000000000000092492492492492492492492",
    ]
    assert [place.hex() for place in compute_z_order([words, int_], [text, INT], 3)] == [
        "3d577d5d5555ffffffffff",
        "6802080028a00000000000",
        "400000000000007fffffff",
    ]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_neighbours_on_the_hilbert_curve_are_neighbours_in_space(dimensions: int) -> None:
    axes = [axis.ravel() for axis in np.meshgrid(*[np.arange(8)] * dimensions)]

    places = compute_hilbert_order([pl.Series(axis) for axis in axes], [BIGINT] * dimensions)

    assert places.n_unique() == 8**dimensions
    assert set(walked(places, *axes)) == {1}


@pytest.mark.parametrize(
    ("type_text", "ascending"),
    [
        ("BOOLEAN", [None, False, True]),
        ("TINYINT", [None, -128, -1, 0, 127]),
        ("BIGINT", [None, -(2**63) + 1, -1, 0, 1, 2**63 - 1]),
        ("DOUBLE", [None, float("-inf"), -1.5, -1e-300, 0.0, 1e-300, 2.0, float("inf"), float("nan")]),
        ("FLOAT", [None, -2.0, 0.0, 0.5]),
        ("DECIMAL(10, 2)", [None, Decimal("-300.00"), Decimal("-0.01"), Decimal("2.56"), Decimal("2.57")]),
        ("DECIMAL(38, 2)", [None, Decimal("-1e20"), Decimal(0), Decimal("1e20")]),
        ("DATE", [None, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 1, 1)]),
        ("TIMESTAMP(6)", [None, dt.datetime(1969, 12, 31), dt.datetime(1970, 1, 1), dt.datetime(2024, 1, 1)]),
        ("STRING", [None, "a", "ab", "b", "zebra"]),
        ("BYTES", [None, b"\x01", b"\x01\x01", b"\xff"]),
    ],
)
def test_along_one_column_the_curve_is_its_order(type_text: str, ascending: list[Any]) -> None:
    series, kind = column(type_text, ascending)
    shuffled = series.gather(list(reversed(range(len(ascending)))))

    order = compute_z_order([shuffled], [kind]).arg_sort()

    assert shuffled.gather(order).equals(series)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_both_curves_tell_points_apart(points: list[tuple[int, int]]) -> None:
    axes = [pl.Series([point[i] for point in points]) for i in range(2)]

    for curve in (compute_z_order, compute_hilbert_order):
        assert curve(axes, [BIGINT, BIGINT]).n_unique() == len(set(points))


def test_nested_values_have_no_order() -> None:
    with pytest.raises(Unsupported, match="'a' of type ARRAY"):
        check_sortable([DataField(0, "a", ArrayType(element=IntType()))], "t")


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({"clustering.columns": "a"}, "order"),
        ({"clustering.columns": "p,a,b"}, "zorder"),
        ({"clustering.columns": "a,b", "clustering.strategy": "order"}, "order"),
        ({"clustering.columns": "a,b", "clustering.strategy": "hilbert", "write-buffer-size": "4 kb"}, "hilbert"),
    ],
    ids=str,
)
def test_commits_are_sorted_by_the_clustering_columns(tmp_path: Path, options: dict[str, str], order: str) -> None:
    table = new_table(tmp_path, "p INT, a INT, b INT", by=["p"], options=options)
    given = pl.DataFrame({"p": [0, 1] * 500, "a": range(1000, 0, -1), "b": range(0, 7000, 7)})
    given = given.with_columns(pl.col("b") % 100).cast(pl.Int32)
    table.append(given)
    table.append(given)
    assert table.scan().to_polars().sort(pl.all()).equals(pl.concat([given, given]).sort(pl.all()))
    names = [name for name in options["clustering.columns"].split(",") if name != "p"]
    sorter = Sorter.of(WriteTarget.of(TableMetadata(LocalStore(), table.path)), names, order)
    for section in table.scan().plan.sections:
        for file in section.files:
            stored = pl.read_parquet(file.path).select("a", "b")
            assert sorter.sorted(stored).equals(stored)
    assert len(list(Path(table.path).rglob("data-*"))) == len(table.scan().plan.files)


def test_incremental_clustering(tmp_path: Path) -> None:
    """Compactions sort the files that universal compaction picks, into files of a higher level; no row is lost."""
    options = {
        "clustering.incremental": True,
        "clustering.columns": "x",
        "num-sorted-run.compaction-trigger": 3,
        "deletion-vectors.enabled": True,
    }
    table = morrow.Catalog(tmp_path).create_table("db.t", "x INT, y DOUBLE, text STRING, region INT", options=options)
    levels = []
    for number in range(7):
        table.append(points(50, number))
        if number == 3:
            table.delete("x > 500")
        snapshot = table.compact()
        assert snapshot is None or snapshot.commit_kind == "COMPACT"
        files = table.system("files").to_polars()
        levels.append([(row["level"], row["record_count"]) for row in files.iter_rows(named=True)])
    assert levels[1] == [(0, 50), (0, 50)]
    assert levels[2] == [(3, 150)]
    assert {level for level, _ in levels[-1]} > {3} or len(levels[-1]) > 1
    expected = pl.concat([points(50, number) for number in range(7)])
    kept = pl.concat([expected[:200].filter(pl.col("x") <= 500), expected[200:]])
    assert table.scan().to_polars().sort(pl.all()).equals(kept.sort(pl.all()))

    assert table.compact(full=True) is not None
    assert table.compact(full=True) is None  # one sorted run at the highest level
    found = table.scan().to_polars()
    assert found["x"].is_sorted()
    assert found.sort(pl.all()).equals(kept.sort(pl.all()))

    table.alter.set_options({"clustering.columns": "y"})
    assert (again := morrow.open(table.path)).compact(full=True) is not None
    assert again.scan().to_polars()["y"].is_sorted()


def test_incremental_clustering_by_partition(tmp_path: Path) -> None:
    """Only partitions with enough runs are sorted."""
    options = {"clustering.incremental": True, "clustering.columns": "x,y", "num-sorted-run.compaction-trigger": 2}
    catalog = morrow.Catalog(tmp_path)
    table = catalog.create_table("db.t", SCHEMA, partition_keys=["region"], options=options)
    table.append(pl.concat([points(20, 0, 1), points(20, 1, 2)]))
    table.append(points(20, 2, 1))
    assert table.compact() is not None
    files = table.system("files").to_polars().sort("partition")
    assert files["level"].to_list() == [2, 0]
    assert catalog.sql("CALL sys.compact('db.t')") is not None  # all files
    assert table.system("files").to_polars()["level"].to_list() == [2, 2]
    assert table.count() == 60


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"bucket": 2, "bucket-key": "x", "bucket-append-ordered": False}, "fixed buckets"),
        ({"clustering.columns": ""}, "without columns"),
    ],
)
def test_tables_that_are_not_clustered_incrementally(tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    given = {"clustering.incremental": True, "clustering.columns": "x", **options}
    table = morrow.Catalog(tmp_path).create_table("db.t", SCHEMA, options=given)
    table.append(points(10, 0))
    with pytest.raises(Unsupported, match=problem):
        table.compact(full=True)
    assert table.count() == 10
