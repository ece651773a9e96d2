"""The Python data source, in batches: reads equal Morrow's own, writes are committed once.

Sessions with a JVM use other code; `test_source_faces` compares both.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNull,
    LessThan,
    Not,
    StringEndsWith,
    StringStartsWith,
)

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.filter import parse_filter
from morrow.spark.expressions import translate_filter
from morrow.spark.source.options import Options
from morrow.spark.source.sinks import abort_tasks, commit_tasks, write_task
from tests.support.by_source import BY_SOURCE, register_by_source
from tests.support.golden import reads
from tests.support.spark_rows import assert_reads_alike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READS = {str(read): read for read in reads() if read.error is None and read.id == "latest"}
ONE_IN = 24
"""Every n-th golden table is read here. `test_golden_read` reads the others with the same file readers."""
GOLDEN = [name for name in READS if name.startswith("public/")][::ONE_IN]


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    register_by_source(spark)
    return spark


def load(spark: SparkSession, path: Path | str, **options: object) -> DataFrame:
    return spark.read.format(BY_SOURCE).options(**{k.replace("_", "-"): v for k, v in options.items()}).load(str(path))


# --- reading ---


@pytest.mark.golden
@pytest.mark.parametrize("name", GOLDEN)
def test_rows_are_those_of_the_local_reader(name: str, source: SparkSession, golden_root: Path) -> None:
    read = READS[name]
    path = read.table(golden_root)
    assert_reads_alike(load(source, path), morrow.open(str(path)).scan(), read.set_columns)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Make two snapshots; the second changes the item of order 2."""
    table = morrow.Catalog(tmp_path).create_table(
        "db.orders", schema="id INT, item STRING, day DATE", primary_keys=["id", "day"], partition_keys=["day"]
    )
    days = [dt.date(2024, 5, 14), dt.date(2024, 5, 15)]
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "item": ["a", "b", None], "day": [*days, days[1]]}))
    table.append(pa.table({"id": pa.array([2], pa.int32()), "item": ["B"], "day": [days[1]]}))
    return tmp_path / "db.db" / "orders"


def test_filters_and_columns_reach_the_plan(source: SparkSession, orders: Path) -> None:
    frame = load(source, orders, columns="item,id", push_filters="true").filter(
        "id > 1 AND item IS NOT NULL AND item LIKE '%B'"
    )
    assert frame.collect() == [("B", 2)]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "EndsWith" in plan and "isnotnull" not in plan  # Spark evaluates only the filters that Morrow did not take


def test_queries_of_one_frame_do_not_share_filters(source: SparkSession, orders: Path) -> None:
    """Spark 4.3 would share them if it passed them on."""
    frame = load(source, orders)
    assert frame.filter("id = 1").count() == 1
    assert frame.count() == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"snapshots": "1"}, "no option 'snapshots'"),
        ({"snapshot": "1.5"}, "'snapshot' cannot be '1.5': give a whole number"),
        ({"scan.tag-name": "a", "tag": "b"}, "'tag' is given twice"),
        ({"read.changelog": "true"}, "no option 'read.changelog'"),
    ],
)
def test_options_that_are_none(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Options({"path": "t", **options}).read()


FLOORS = [None, "", "a", "ab", "b"]


@pytest.mark.parametrize(
    ("filter", "kept"),
    [
        (EqualTo(("s",), "a"), ["a"]),
        (Not(EqualTo(("s",), "a")), ["", "ab", "b"]),
        (EqualNullSafe(("s",), "a"), ["a"]),
        (EqualNullSafe(("s",), None), [None]),
        (Not(EqualNullSafe(("s",), "a")), [None, "", "ab", "b"]),
        (GreaterThan(("s",), "a"), ["ab", "b"]),
        (Not(LessThan(("s",), "a")), ["a", "ab", "b"]),
        (In(("s",), ("a", None)), ["a"]),
        (Not(In(("s",), ("a", None))), []),
        (Not(In(("s",), ("a", "b"))), ["", "ab"]),
        (IsNull(("s",)), [None]),
        (StringStartsWith(("s",), "a"), ["a", "ab"]),
        (Not(StringStartsWith(("s",), "a")), ["", "b"]),
    ],
    ids=str,
)
def test_filters_keep_the_rows_that_spark_keeps(filter: Filter, kept: list[str | None], tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="s STRING")
    table.append({"s": FLOORS})
    fields = {"s": table.schemas()[0].fields[0]}
    predicate = translate_filter(filter, fields)
    assert predicate is not None and not parse_filter(predicate, list(fields.values())).residuals
    assert table.scan(filter=predicate).to_arrow()["s"].to_pylist() == kept


@pytest.mark.parametrize(
    "filter",
    [
        StringEndsWith(("s",), "a"),
        EqualTo(("r", "s"), "a"),  # a member of a struct
        EqualTo(("nanos",), dt.datetime(2024, 5, 14)),  # Spark only sees microseconds
        EqualTo(("instant",), dt.datetime(2024, 5, 14)),  # the time zone is unknown
        EqualTo(("s",), 1),
    ],
    ids=str,
)
def test_other_filters_stay_sparks(filter: Filter, tmp_path: Path) -> None:
    schema = "s STRING, r ROW<s STRING>, nanos TIMESTAMP(9), instant TIMESTAMP_LTZ(6)"
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=schema)
    assert translate_filter(filter, {field.name: field for field in table.schemas()[0].fields}) is None


# --- writing ---


def batches(**columns: list[object]) -> Iterator[pa.RecordBatch]:
    return iter(pa.table(columns).to_batches())


@pytest.fixture
def vectors(tmp_path: Path) -> dict[str, str]:
    """Make a table with deletion vectors, and return its options."""
    options = {"bucket": 1, "deletion-vectors.enabled": True}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id BIGINT", primary_keys=["id"], options=options)
    return {"path": table.path}


def data_files(options: dict[str, str]) -> set[str]:
    return {file.name for file in Path(options["path"]).glob("bucket-*/*")}


def test_rows_of_several_tasks_are_read_at_once_where_reads_wait_for_compaction(vectors: dict[str, str]) -> None:
    tasks = [write_task(vectors, "run1", batches(id=ids), overwrite=False) for ids in ([1, 2], [2, 3])]
    commit_tasks(vectors, tasks, overwrite=False)
    table = morrow.open(vectors["path"])
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND", "COMPACT"]


def test_files_of_attempts_that_no_message_names_are_removed(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id BIGINT")
    options = {"path": table.path}
    write_task(options, "run0", batches(id=[0]), overwrite=False)  # an uncommitted write of another job
    others = data_files(options)
    write_task(options, "run1", batches(id=[1]), overwrite=False)  # an attempt whose executor died afterwards
    commit_tasks(options, [write_task(options, "run1", batches(id=[1]), overwrite=False)], overwrite=False)
    assert table.scan().to_arrow()["id"].to_pylist() == [1]
    assert others < data_files(options) and len(data_files(options)) == len(others) + 1


def test_a_batch_that_is_repeated_is_committed_once(vectors: dict[str, str]) -> None:
    options = {**vectors, "commit-user": "a query"}
    for run in ("run1", "run2"):
        commit_tasks(options, [write_task(options, run, batches(id=[1]), overwrite=False)], overwrite=False, batch_id=4)
    assert [s.commit_identifier for s in morrow.open(vectors["path"]).snapshots()] == [4, 4]  # rows and compaction
    assert not any("run2" in name for name in data_files(vectors))


def test_an_overwrite_that_is_repeated_is_committed_once(tmp_path: Path) -> None:
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id BIGINT")
    options = {"path": table.path, "commit-user": "a query"}
    for run in ("run1", "run2"):
        commit_tasks(options, [write_task(options, run, batches(id=[1]), overwrite=True)], overwrite=True, batch_id=4)
    assert len(table.snapshots()) == 1 and table.scan().to_arrow()["id"].to_pylist() == [1]


def test_abort_leaves_alone_what_a_commit_may_have_committed(vectors: dict[str, str]) -> None:
    done = write_task(vectors, "run1", batches(id=[1]), overwrite=False)
    commit_tasks(vectors, [done], overwrite=False)
    abort_tasks(vectors, [done])  # Spark does this if a failure follows the commit
    assert morrow.open(vectors["path"]).scan().to_arrow()["id"].to_pylist() == [1]


def test_abort_removes_files_of_tasks_beside_one_that_failed(vectors: dict[str, str]) -> None:
    abort_tasks(vectors, [write_task(vectors, "run1", batches(id=[1]), overwrite=False), None])
    assert data_files(vectors) == set()


def test_tables_that_take_one_writer(source: SparkSession, tmp_path: Path) -> None:
    options = {"bucket": -1}
    table = morrow.Catalog(tmp_path).create_table("db.t", schema="id BIGINT", primary_keys=["id"], options=options)
    frame = source.range(10)
    with pytest.raises(Exception, match="several tasks that write to a table whose keys are given buckets"):
        frame.repartition(2).write.format(BY_SOURCE).mode("append").save(table.path)
    frame.coalesce(1).write.format(BY_SOURCE).mode("append").save(table.path)
    assert table.scan().count() == 10
