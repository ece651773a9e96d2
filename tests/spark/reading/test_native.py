"""Spark's scan of files and masks listed by Morrow: correct in any query plan."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.errors import IllegalArgumentException

import morrow
from morrow.spark.jvm import file_scans
from morrow.spark.reading import choice, native
from morrow.spark.reading.read import explain, read
from tests.spark.conftest import INTERPRETED, settings
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = 3000
SMALL_SPLITS = {"spark.sql.files.maxPartitionBytes": "4000", "spark.sql.files.openCostInBytes": "1"}
BY_ROWS = {"spark.sql.parquet.enableVectorizedReader": "false"}


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> morrow.Table:
    """Make files of several row groups: every third key has two versions, every seventh is deleted."""
    options = {"bucket": "2", "parquet.block.size": "20000", "write-only": "true"}
    table = new_table(tmp_path_factory.mktemp("listed"), "id BIGINT, v STRING, n INT", keys=["id"], options=options)
    for step in (1, 3):
        ids = range(0, KEYS, step)
        table.upsert(pa.table({"id": ids, "v": [f"{i} of {step}" for i in ids], "n": [i * step % 7 for i in ids]}))
    table.delete("id % 7 = 0")
    return table


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, frame.collect()))


def expected_of(table: morrow.Table, columns: list[str]) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.scan(columns).to_arrow().to_pylist()), key=lambda row: row[0])


def expected(table: morrow.Table, snapshot: int | None = None) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(snapshot=snapshot).to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("conf", "least_spread"),
    [
        ({}, native.MIN_SPREAD_BYTES),
        (SMALL_SPLITS | BY_ROWS, native.MIN_SPREAD_BYTES),
        (INTERPRETED, native.MIN_SPREAD_BYTES),
        ({"spark.sql.ansi.enabled": "false"}, native.MIN_SPREAD_BYTES),
        (SMALL_SPLITS, 0),
        (INTERPRETED, 0),
    ],
    ids=["as it is", "row by row", "interpreted", "not ANSI", "broadcast to many tasks", "broadcast, interpreted"],
)
def test_masks_are_of_the_rows_that_they_belong_to(
    spark: SparkSession,
    updated: morrow.Table,
    monkeypatch: pytest.MonkeyPatch,
    conf: Mapping[str, str],
    least_spread: int,
) -> None:
    monkeypatch.setattr(native, "MIN_SPREAD_BYTES", least_spread)
    alive = expected(updated)
    with settings(spark, conf):
        frame = read(spark, updated.path)
        assert rows(frame) == alive
        some = frame.where("n > 3 AND id BETWEEN 500 AND 2500 AND v LIKE '%of 3'")  # skips row groups
        assert rows(some) == [r for r in alive if r[2] > 3 and 500 <= r[0] <= 2500 and r[1].endswith("of 3")]  # type: ignore[operator,attr-defined]
        assert frame.count() == len(alive)


@pytest.mark.parametrize("keys", [[], ["id"]])
def test_nan_is_above_all_numbers_and_the_zeros_are_equal(keys: list[str], spark: SparkSession, tmp_path: Path) -> None:
    """Parquet statistics omit NaN and its dictionaries distinguish -0.0 and 0.0, so Spark must not skip by them."""
    table = new_table(tmp_path, "id INT, f DOUBLE, r ROW<f FLOAT>", keys=keys, options={"bucket": "1"} if keys else {})
    values = [1.0, float("nan"), -0.0, -0.0, 1.0]
    table.append(pa.table({"id": range(5), "f": values, "r": [{"f": value} for value in values]}))
    frame = read(spark, table.path)
    for condition, ids in {"= 'NaN'": [1], "> 100": [1], ">= 'NaN'": [1], "= 0.0": [2, 3], "<=> 0.0": [2, 3]}.items():
        for column in ("f", "r.f"):
            assert rows(frame.where(f"{column} {condition}").select("id")) == [(i,) for i in ids], (column, condition)
    assert "by its own Parquet scan" in explain(table.scan())


def test_scans_with_other_masks_are_other_scans(spark: SparkSession, updated: morrow.Table) -> None:
    """Spark reads, shuffles and caches equal scans only once, so these must not be equal."""
    frames = {at: read(spark, updated.path, snapshot=at) for at in (1, 2, 3)}
    counts = {at: Counter(row[2] for row in expected(updated, at)) for at in frames}
    first, second, third = (frame.groupBy("n").count() for frame in frames.values())
    joined = first.join(second.withColumnRenamed("count", "b"), "n").join(third.withColumnRenamed("count", "c"), "n")
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"}):
        assert rows(joined) == sorted((n, *(counts[at][n] for at in frames)) for n in counts[3])
    frames[2].cache()
    try:
        found = [frame.count() for frame in frames.values()]
    finally:
        frames[2].unpersist()
    assert found == [count.total() for count in counts.values()]
    assert frames[3].alias("a").join(frames[3].alias("b"), "id").count() == counts[3].total()


def test_dead_rows_are_in_no_expression(spark: SparkSession, tmp_path: Path) -> None:
    """An older version has a zero, and dividing by it is an error in ANSI mode."""
    table = new_table(tmp_path, "id BIGINT, n INT", keys=["id"], options={"bucket": "1", "write-only": "true"})
    table.upsert({"id": [1, 2], "n": [0, 5]})
    table.upsert({"id": [1], "n": [4]})
    frame = read(spark, table.path)
    assert rows(frame.where("20 / n > 4").selectExpr("20 / n")) == [(5.0,)]


def test_what_a_join_finds_prunes_files(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, p DECIMAL(3, 1)", by=["p"])
    table.append(pa.table({"id": range(40), "p": pa.array([Decimal(i % 10) for i in range(40)], pa.decimal128(3, 1))}))
    few = spark.range(10).selectExpr("CAST(id AS DECIMAL(3, 1)) AS p", "id * 2 AS twice").where("twice = 6")
    with settings(spark, {"spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": "false"}):
        frame = read(spark, table.path).join(few, "p")
        assert frame.count() == 4
        assert "dynamicpruning" in frame._jdf.queryExecution().executedPlan().toString().lower()


def test_files_that_went_with_their_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    """Planning a query raises the error, unless a tag keeps the files."""
    table = new_table(tmp_path, "id INT, n INT", keys=["id"], options={"bucket": "1"})
    table.upsert({"id": [1, 2], "n": [0, 0]})
    old = read(spark, table.path)
    table.upsert({"id": [1, 2], "n": [1, 2]})
    table.compact(full=True)
    kept = read(spark, table.path)
    table.tags.create("kept")
    table.upsert({"id": [1], "n": [10]})
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(IllegalArgumentException, match=r"SnapshotExpired.*snapshot 1 was removed since"):
        old.where("id > 0").collect()
    assert rows(kept.where("id > 0")) == [(1, 1), (2, 2)]
    assert rows(read(spark, table.path)) == [(1, 10), (2, 2)]


def test_plans_print_no_bits(spark: SparkSession, updated: morrow.Table) -> None:
    text = read(spark, updated.path)._jdf.queryExecution().toString()
    assert max(map(len, text.splitlines())) < 1000


def test_explain_says_how_masks_are_applied(spark: SparkSession, updated: morrow.Table) -> None:
    assert file_scans.get_scanning(spark).obstacle is None
    assert "masks are a filter of the scan" in explain(updated.scan())


def test_a_spark_that_lacks_something_joins_the_masks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    class Connected:
        """A session without access to a JVM."""

    assert file_scans.get_scanning(Connected()).obstacle == file_scans.NO_JVM  # type: ignore[arg-type]
    for name, value in (("CALLS", "NoSuch"), ("TRIAL", "{}")):
        with monkeypatch.context() as patch:
            patch.setattr(file_scans, name, value)
            assert file_scans._try_scanning(spark).obstacle is not None


def test_orc_is_scanned_where_spark_reads_what_morrow_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's ORC reader must not skip by floats or dates.

    ORC statistics omit NaN, too. Before October 1582, Spark's dates differ; the file statistics show if there are any.
    """
    table = new_table(tmp_path, "id INT, v DOUBLE, n ROW<a INT, b STRING>, d DATE", options={"file.format": "orc"})
    values = [float("nan") if i % 3 == 0 else -0.0 if i % 5 == 0 else float(i) for i in range(60)]
    nested = [None if i % 7 == 0 else {"a": i, "b": f"{i} "} for i in range(60)]
    table.append({"id": list(range(60)), "v": values, "n": nested, "d": [datetime(1500, 1, 1).date()] * 60})
    frame = read(spark, table.path, ["id", "v", "n"])
    assert "FileScan orc" in frame._jdf.queryExecution().executedPlan().toString()
    for condition, count in (("v > 1e9", 20), ("v = 0.0", 8), ("n.a > 50 AND n.b LIKE '%5 '", 1), ("n IS NULL", 9)):
        assert frame.where(condition).count() == count, condition
    assert repr(rows(frame)) == repr(rows(read(spark, table.path).select("id", "v", "n")))  # by tasks
    assert "by its own ORC scan" in explain(table.scan(["n", "id"]))
    assert "by tasks: the type DATE of d in an ORC file" in explain(table.scan(["d"]))
    columns = "id INT, t TIMESTAMP(3), z TIMESTAMP_LTZ, m MAP<INT, ARRAY<STRING>>"
    zoned = new_table(tmp_path / "zoned", columns, options={"file.format": "orc"})
    some = {"t": datetime(2024, 3, 10, 2, 30), "z": datetime(2024, 3, 10, tzinfo=UTC), "m": [(2, ["x"]), (1, None)]}
    zoned.append(pa.Table.from_pylist([{"id": 1, **some}], zoned.schema))
    for name, why in {
        "t": "the time zone of each executor",
        "z": "where no instants are stored",
        "m": "takes nulls",
    }.items():
        assert re.search(f"by tasks: the type .* of {name} in an ORC file, .*{why}", explain(zoned.scan([name])))
    assert "by its own ORC scan" in explain(zoned.scan(["id"]))
    assert rows(read(spark, zoned.path).select("id", "t")) == [(1, datetime(2024, 3, 10, 2, 30))]
    assert rows(read(spark, zoned.path, ["id"])) == [(1,)]
    assert rows(read(spark, zoned.path, ["m"])) == [({2: ["x"], 1: None},)]
    monkeypatch.setattr(choice, "OPENS_ORC_INSTANTS", False)  # as before Spark 4.2
    assert "by tasks: z in an ORC file, whose type this version" in explain(zoned.scan(["id"]))
    odd = new_table(tmp_path / "odd", "`a.b` INT, id INT", options={"file.format": "orc"})
    odd.append({"a.b": [1], "id": [2]})
    assert "by tasks: the name of a.b in an ORC file" in explain(odd.scan(["id"]))  # Spark parses unread names
    assert rows(read(spark, odd.path).where("id > 1")) == [(1, 2)]


def test_rows_of_orc_files_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's ORC reader gives no row index; here, a task may read several stripes of a file."""
    options = {"bucket": "1", "file.format": "orc", "orc.stripe.size": "1 kb", "write-only": "true"}
    table = new_table(tmp_path, "id BIGINT, p INT, v STRING, n INT", keys=["id", "p"], by=["p"], options=options)
    for step in (1, 3):
        ids = range(0, KEYS, step)
        values = {"v": [f"{i} of {step}" for i in ids], "n": [i * step % 7 for i in ids]}
        table.upsert(pa.table({"id": ids, "p": [i % 2 for i in ids], **values}))
    table.delete("id % 7 = 0")
    assert max(orc.ORCFile(file.path).nstripes for file in table.scan().plan.files) > 1
    alive = expected(table)
    one = [r for r in alive if r[1] == 1 and r[3] > 3 and r[0] > 500]  # type: ignore[operator]
    for conf in ({}, SMALL_SPLITS, {"spark.sql.orc.enableVectorizedReader": "false"}, INTERPRETED):
        with settings(spark, conf):
            frame = read(spark, table.path)
            assert rows(frame) == alive
            assert rows(frame.where("p = 1 AND n > 3 AND id > 500")) == one
            assert rows(read(spark, table.path, ["id"], "p = 1 AND n > 3 AND id > 500")) == [(r[0],) for r in one]
            assert frame.unionAll(frame).coalesce(1).count() == 2 * len(alive)  # one task counts each file twice
            if conf == SMALL_SPLITS:
                assert frame.where("p = 1").rdd.getNumPartitions() < frame.rdd.getNumPartitions()
    assert frame.where("p > 3").count() == 0
    assert frame.limit(700).distinct().count() == 700
    assert "merge sections by its own ORC scan" in explain(table.scan())


def test_dates_of_orc_are_scanned_where_all_calendars_have_them(spark: SparkSession, tmp_path: Path) -> None:
    """The statistics of each file decide; Spark's dates before 1582 differ, and it must not skip by dates."""
    table = new_table(tmp_path, "id INT, d DATE, p INT, l ARRAY<DATE>", by=["p"], options={"file.format": "orc"})
    days = [date(1583, 1, 1), date(1883, 11, 18), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31), None]
    old = [date(1, 1, 1), date(1000, 3, 1), date(1582, 10, 10), date(1582, 12, 31)]
    for number, some in enumerate((days, [None], *([day, days[0]] for day in old))):
        ids = [10 * number + i for i in range(len(some))]
        table.append(pa.table({"id": ids, "d": some, "p": [number] * len(some), "l": [[day] for day in some]}))
    frame = read(spark, table.path, ["id", "d"])
    assert rows(frame.where("d IS NOT NULL")) == [r for r in expected_of(table, ["id", "d"]) if r[1] is not None]
    for condition, count in (("d = DATE'2024-02-29'", 1), ("d > DATE'1582-10-10'", 10), ("d < DATE'1582-10-11'", 3)):
        assert frame.where(condition).count() == count, condition
    told = explain(table.scan(["d"]))
    assert "2 raw sections by its own ORC scan" in told
    assert "4 raw sections by tasks: the type DATE of d in an ORC file, of which no statistics tell" in told
    assert "6 raw sections by tasks: the type ARRAY<DATE> of l" in explain(table.scan(["l"]))
