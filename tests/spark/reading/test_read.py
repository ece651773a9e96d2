"""`morrow.spark.read`: pushdown to files, the choice of readers, and correct rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import morrow
from morrow.engine.errors import BranchNotFound, ColumnNotFound, CorruptFile, FileMissing, TableNotFound
from morrow.engine.format.types import DataField, LocalZonedTimestampType, parse_atomic
from morrow.readers.execution import section_pieces
from morrow.readers.masks.section_cache import SECTIONS
from morrow.spark.expressions import make_literal
from morrow.spark.job import execution, sections
from morrow.spark.reading import choice, distributed, task_rows, tasks
from morrow.spark.reading.distributed import to_dataframe
from morrow.spark.reading.read import explain, read
from tests.engine.plan.test_planner import Branched
from tests.spark.conftest import settings
from tests.support.spark_rows import assert_reads_alike
from tests.support.table_factory import TableFactory
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = [("id", "INT"), ("v", "STRING"), ("n", "BIGINT")]


def keyed(path: Path, engine: str = "deduplicate", format: str = "parquet") -> TableFactory:
    """Make a table with one version of the keys 1 and 3, and two versions of 2."""
    table = TableFactory(path / "t", FIELDS, ["id"], options={"merge-engine": engine})
    table.write_file(pa.table({"id": [1, 2], "v": ["a", "b"], "n": [10, 20]}), format=format)
    table.write_file(pa.table({"id": [2, 3], "v": ["B", "c"], "n": [None, 30]}), format=format)
    table.commit()
    return table


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


def plan_of(frame: DataFrame) -> str:
    """Return the physical plan as text."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_the_newest_versions_are_read(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path)
    assert rows(read(spark, table.path)) == [(1, "a", 10), (2, "B", None), (3, "c", 30)]


def test_spark_scans_what_it_reads_as_morrow_does(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, keyed(tmp_path).path)
    assert "FileScan parquet" in plan_of(frame)
    assert "MorrowTasks" not in plan_of(frame)


def test_columns_chosen_later_are_all_that_is_scanned(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(read(spark, keyed(tmp_path).path).select("n"))
    assert "ReadSchema: struct<n:bigint" in plan


def test_conditions_of_either_side_reach_the_files(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path)
    for frame in (read(spark, table.path, filter="n >= 20"), read(spark, table.path).where("n >= 20")):
        assert rows(frame) == [(3, "c", 30)]
        assert "GreaterThanOrEqual(n,20)" in plan_of(frame)


def test_columns_filter_and_limit(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path)
    assert rows(read(spark, table.path, columns=["v"], filter="id = 2")) == [("B",)]
    assert read(spark, table.path, limit=2).count() == 2
    assert read(spark, table.path, columns=[]).count() == 3


@pytest.mark.parametrize(
    "filter",
    ["length(v) = 1 AND id > 1", pl.col("v").str.to_lowercase() == "b", pc.utf8_length(pc.field("v")) == 1],
    ids=["sql", "polars", "arrow"],
)
def test_conditions_that_spark_does_not_have_go_to_tasks(spark: SparkSession, tmp_path: Path, filter: Any) -> None:
    table = keyed(tmp_path)
    scan = morrow.open(table.path).scan(filter=filter)
    assert_reads_alike(read(spark, table.path, filter=filter), scan)
    assert "by tasks: the filter" in explain(scan)


@pytest.mark.parametrize("here", [True, False], ids=["by the driver", "by tasks"])
def test_keys_of_several_versions_are_merged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    """In local mode, the driver merges a few keys itself, without a Morrow task."""
    table = keyed(tmp_path, "partial-update")
    if here:
        monkeypatch.setattr(task_rows, "run_sections", None)
    else:
        monkeypatch.setattr(task_rows, "MAX_MERGED_BYTES", 0)
    frame = read(spark, table.path)
    assert rows(frame) == [(1, "a", 10), (2, "B", 20), (3, "c", 30)]
    assert rows(frame.where("n > 10 AND v < 'c'").select("v")) == [("B",)]
    assert frame.count() == 3
    assert rows(read(spark, table.path, filter="n = 20")) == [(2, "B", 20)]
    assert len(rows(read(spark, table.path, limit=2))) == 2
    assert "own Parquet scan, keys of several versions by the driver or" in explain(morrow.open(table.path).scan())


def test_what_the_driver_fails_to_merge_is_left_to_tasks_which_say_why(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> pa.Table:
        raise CorruptFile("x.parquet", "as this test has it")

    monkeypatch.setattr(task_rows, "_merge_rows", fails)
    table = keyed(tmp_path, "partial-update")
    assert rows(read(spark, table.path)) == [(1, "a", 10), (2, "B", 20), (3, "c", 30)]


def test_rows_of_the_driver_are_as_wide_as_the_session_says(spark: SparkSession, tmp_path: Path) -> None:
    """If the session uses 64-bit text offsets, tasks merge."""
    table = keyed(tmp_path, "partial-update")
    with settings(spark, {"spark.sql.execution.arrow.useLargeVarTypes": "true", execution.INLINE_SETTING: "7"}):
        assert rows(read(spark, table.path)) == [(1, "a", 10), (2, "B", 20), (3, "c", 30)]
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
        assert rows(read(spark, table.path)) == [(1, "a", 10), (2, "B", 20), (3, "c", 30)]
        assert spark.conf.get(execution.INLINE_SETTING) == "7"


def test_other_formats_are_read_by_tasks(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "ORC", "")  # stands for any format that Spark does not scan
    table = keyed(tmp_path, format="orc")
    frame = read(spark, table.path, columns=["id", "v"])
    assert rows(frame) == [(1, "a"), (2, "B"), (3, "c")]
    assert "by tasks: the files are orc" in explain(morrow.open(table.path).scan())


def test_a_deletion_vector_is_a_mask(spark: SparkSession, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", FIELDS, options={"deletion-vectors.enabled": "true"})
    file = table.write_file(pa.table({"id": range(200), "v": ["x"] * 200, "n": range(200)}))
    table.deletion_vector(file, [0, 64, 199])
    table.commit()
    frame = read(spark, table.path)
    assert {row.id for row in frame.collect()} == set(range(200)) - {0, 64, 199}
    assert "Join" not in plan_of(frame)


@pytest.mark.parametrize("prefix", ["my data-", "_", "ü#?%20,"])
def test_files_of_any_name_are_scanned(spark: SparkSession, tmp_path: Path, prefix: str) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id INT", options={"data-file.prefix": prefix})
    table.append({"id": [1, 2]})
    frame = read(spark, table.path)
    assert rows(frame) == [(1,), (2,)]
    assert "MorrowTasks" not in plan_of(frame)
    assert [unquote(file) for file in frame.inputFiles()] == [f"file:{file.path}" for file in table.scan().plan.files]


# --- partitions ---


def test_a_constant_instant_of_nanoseconds_is_in_utc(spark: SparkSession) -> None:
    """The session has another time zone here."""
    value = np.datetime64("1970-01-01T00:00:01.000000001", "ns")
    instant = make_literal(value, LocalZonedTimestampType(precision=9), "p")
    assert spark.range(1).select(instant.cast("bigint")).collect() == [(1,)]


def partitioned(path: Path, key: str, values: list[Any], format: str = "parquet") -> TableFactory:
    """Make a table with one row per partition, whose number is its `id`."""
    table = TableFactory(path / "t", [("id", "INT"), ("p", key)], partition_keys=["p"])
    for number, value in enumerate(values):
        table.write_file(pa.table({"id": [number]}), partition={"p": value}, format=format)
    table.commit()
    return table


@pytest.mark.parametrize(
    ("key", "values", "condition"),
    [
        ("STRING", ["1", "b c%:=", "ü"], "p = 'b c%:='"),
        ("INT", [-1, 0, 7], "p = 0"),
        ("DATE", [dt.date(1969, 12, 31), dt.date(2024, 1, 2), dt.date(2024, 1, 3)], "p = DATE '2024-01-02'"),
    ],
)
def test_a_later_condition_on_the_partition_prunes_folders(
    spark: SparkSession, tmp_path: Path, key: str, values: list[Any], condition: str
) -> None:
    table = partitioned(tmp_path, key, values)
    frame = read(spark, table.path)
    assert rows(frame) == list(enumerate(values))
    pruned = frame.where(condition)
    assert rows(pruned) == [(1, values[1])]
    assert rows(read(spark, table.path, columns=["id"], filter=condition)) == [(1,)]
    assert plan_of(frame).count("FileScan") == 1
    assert "PartitionFilters: [isnotnull(p#" in plan_of(pruned)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("STRING", [None, "a", "a=b/ü%"]),
        ("STRING", ["", "\n", "__HIVE_DEFAULT_PARTITION__"]),
        ("DECIMAL(5, 2)", [Decimal("1.50"), Decimal("-2.00"), None]),
        ("BOOLEAN", [True, False, None]),
        ("DOUBLE", [1.5, -0.25, float("inf"), None]),
        ("DATE", [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        ("TIMESTAMP(6)", [dt.datetime(1500, 1, 1, 1, 2, 3, 4), None]),
    ],
)
def test_partitions_are_constants_of_their_files(
    spark: SparkSession, tmp_path: Path, key: str, values: list[Any]
) -> None:
    table = new_table(tmp_path, f"id INT, p {key}", by=["p"])
    table.append(pa.table({"id": range(len(values)), "p": pa.array(values, parse_atomic(key).arrow())}))
    frame = read(spark, table.path)
    assert rows(frame) == sorted(enumerate(values), key=repr)
    assert plan_of(frame).count("FileScan") == 1
    nulls = frame.where("p IS NULL")
    assert rows(nulls) == [(number, None) for number, value in enumerate(values) if value is None]
    files = nulls._jdf.queryExecution().executedPlan().collectLeaves().head().metrics().get("numFiles").get()
    assert files.value() == values.count(None)


def test_tasks_are_pruned_by_partition_where_that_is_worth_while(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "MIN_BRANCHED_ROWS", 0)
    monkeypatch.setattr(choice, "ORC", "")  # stands for any format that Spark does not scan
    table = partitioned(tmp_path, "STRING", ["a", "b", "c"], "orc")
    frame = read(spark, table.path)
    assert rows(frame) == [(0, "a"), (1, "b"), (2, "c")]
    assert plan_of(frame.where("p = 'b'")).count("MorrowTasks") == 1


# --- memory ---


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_masks_of_large_sections_are_made_by_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    table = keyed(tmp_path, engine)
    SECTIONS.clear()
    monkeypatch.setattr(tasks, "DRIVER_ROWS", 3)
    monkeypatch.setattr(tasks, "ALONE_ROWS", 3)
    # The driver must not read the files.
    monkeypatch.setattr(tasks, "scan_masks", None)
    scan = morrow.open(table.path).scan()
    asked: list[str] = []

    def run_sections(*args: Any) -> DataFrame:
        asked.append("job")
        return sections.run_sections(*args)

    monkeypatch.setattr(tasks, "run_sections", run_sections)
    for _ in range(2):
        assert_reads_alike(to_dataframe(scan.plan, scan.store, spark), scan)
    assert asked == ["job"]


@pytest.mark.parametrize(
    ("bound", "most", "said"),
    [("MAX_MASKED_ROWS", 3, "holds masks of 3 rows at most"), ("MAX_FILES", 1, "names 1 files at most")],
)
def test_what_is_too_much_for_the_driver_is_left_to_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, said: str
) -> None:
    monkeypatch.setattr(choice, bound, most)
    table = keyed(tmp_path)
    assert rows(read(spark, table.path)) == [(1, "a", 10), (2, "B", None), (3, "c", 30)]
    assert said in explain(morrow.open(table.path).scan())


def test_files_that_need_no_merge_are_shared_among_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "OPENING_BYTES", 1)
    monkeypatch.setattr(section_pieces, "OPENING_BYTES", 1)
    monkeypatch.setattr(sections, "MAX_TASK_BYTES", 1)
    monkeypatch.setattr(choice, "ORC", "")
    table = TableFactory(tmp_path / "t", FIELDS)
    for number in range(5):
        table.write_file(pa.table({"id": [number], "v": ["x"], "n": [number]}), format="orc")
    table.commit()
    frame = read(spark, table.path)
    assert frame.rdd.getNumPartitions() == 5
    assert [row[0] for row in rows(frame)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_one_large_bucket_is_merged_by_several_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """Tasks read ORC completely; for Parquet, they compute the masks and merge keys of several versions."""
    for name in ("OPENING_BYTES", "MIN_CUT_ROWS"):
        monkeypatch.setattr(section_pieces, name, 1)
    for name in ("OPENING_BYTES", "MAX_TASK_BYTES"):
        monkeypatch.setattr(sections, name, 1)
    monkeypatch.setattr(tasks, "DRIVER_ROWS", 0)
    monkeypatch.setattr(tasks, "ALONE_ROWS", 0)
    monkeypatch.setattr(choice, "ORC", "")
    options = {"merge-engine": "partial-update"}
    table = TableFactory(tmp_path / "t", FIELDS, ["id"], options=options)
    for start in (0, 5):
        ids = list(range(start, start + 10))
        table.write_file(pa.table({"id": ids, "v": [f"v{start}"] * 10, "n": ids}), format=format)
    table.commit()
    scan = morrow.open(table.path).scan()
    frame = to_dataframe(scan.plan, scan.store, spark)
    assert_reads_alike(frame, scan)
    assert frame.where("n >= 0").rdd.getNumPartitions() > 5


# --- errors ---


def test_wrong_calls_fail_before_a_job(spark: SparkSession, tmp_path: Path) -> None:
    path = keyed(tmp_path).path
    with pytest.raises(ColumnNotFound):
        read(spark, path, columns=["x"])
    with pytest.raises(BranchNotFound):
        read(spark, path, branch="b")
    with pytest.raises(TableNotFound):
        read(spark, tmp_path / "none")


def test_a_table_without_rows_has_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", FIELDS, ["id"])
    table.commit()
    frame = read(spark, table.path)
    assert frame.count() == 0
    assert frame.schema.simpleString() == "struct<id:int,v:string,n:bigint>"


def test_a_missing_file_is_an_error_whatever_the_session_says(spark: SparkSession, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", FIELDS)
    table.write_file(pa.table({"id": [1], "v": ["a"], "n": [1]}))
    table.commit()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        frame = read(spark, table.path)
        next((table.path).glob("bucket-0/*.parquet")).unlink()
        with pytest.raises(Exception, match="FILE_NOT_EXIST"):
            frame.collect()
        with pytest.raises(FileMissing):
            read(spark, table.path)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


# --- evolution, branches ---


def test_renamed_and_added_columns_are_scanned_and_casts_left_to_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", FIELDS)
    table.write_file(pa.table({"id": [1], "v": ["a"], "n": [10]}))
    table.commit()
    kinds = {"id": parse_atomic("INT"), "text": parse_atomic("STRING"), "n": parse_atomic("BIGINT")}
    table.alter(fields=[*(DataField(i, *f) for i, f in enumerate(kinds.items())), DataField(3, "v", kinds["n"])])
    table.write_file(pa.table({"id": [2], "text": ["b"], "n": [20], "v": [200]}))
    table.commit()
    frame = read(spark, table.path)
    assert rows(frame) == [(1, "a", 10, None), (2, "b", 20, 200)]
    assert rows(read(spark, table.path, filter="text = 'a'")) == [(1, "a", 10, None)]
    assert rows(read(spark, table.path, columns=["v"], filter="text = 'a'")) == [(None,)]  # v was once text
    assert "MorrowTasks" not in plan_of(frame)

    table.alter(fields=[DataField(0, "id", parse_atomic("BIGINT")), DataField(1, "text", kinds["text"])])
    table.commit()
    assert rows(read(spark, table.path)) == [(1, "a"), (2, "b")]
    assert "by tasks: id was written as INT" in explain(morrow.open(table.path).scan())
    assert "MorrowTasks" not in plan_of(read(spark, table.path, columns=["text"]))


def test_filters_on_floats_know_nan_and_both_zeros(spark: SparkSession, tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("f", "DOUBLE")])
    table.write_file(pa.table({"id": [1, 2, 3, 4, 5], "f": [1.0, float("nan"), -0.0, 0.0, None]}))
    table.commit()
    conditions = ("f > 1", "f >= 1", "f <> 1", "f = 0", "f IN (0, 1)", "f NOT IN (0)", "f < 1", "f = 'NaN'::DOUBLE")
    for condition in conditions:
        scan = morrow.open(table.path).scan(filter=condition)
        assert rows(read(spark, table.path, columns=["id"], filter=condition)) == [
            (number,) for number in sorted(scan.to_arrow()["id"].to_pylist())
        ], condition


def test_a_file_of_another_size_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    table = keyed(tmp_path)
    with next(table.path.glob("bucket-0/*.parquet")).open("ab") as file:
        file.write(b"x")
    with pytest.raises(CorruptFile):
        read(spark, table.path)


def test_partitions_of_a_fallback_branch_are_read_as_that_branch_has_them(spark: SparkSession, tmp_path: Path) -> None:
    table = Branched(tmp_path)
    table.commit("main", "a", [1])
    table.commit("stream", "a", [2])
    table.commit("stream", "b", [3, 4])
    table.commit("stream", "b", [4])
    frame = read(spark, table.path)
    assert rows(frame) == [("a", 1, "main1"), ("b", 3, "stream3"), ("b", 4, "stream4")]
    assert rows(read(spark, table.path, filter="dt = 'b'", columns=["id"])) == [(3,), (4,)]
