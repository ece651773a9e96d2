"""MERGE, UPDATE and DELETE as DataFrame calls: their effects in one commit, and their errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812 - its usual name

import morrow
import morrow.spark
from morrow.engine.errors import ColumnNotFound, InvalidArgument
from tests.support.written import new_table, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "id BIGINT, v INT, `a.b ``ü` STRING"
NAME = "`a.b ``ü`"
COUNTS = ("rows_added", "rows_updated", "rows_deleted")


def made(folder: Path, options: dict[str, object] | None = None) -> morrow.Table:
    table = new_table(folder, COLUMNS, keys=["id"], options={"bucket": 2, **(options or {})})
    table.upsert({"id": [1, 2, 3, 4], "v": [10, 0, None, 40], "a.b `ü": ["a", "b", "c", None]})
    return table


def commits(table: morrow.Table) -> int:
    return sum(snapshot.commit_kind == "APPEND" for snapshot in table.snapshots())


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": True}, {"changelog-producer": "input"}])
def test_merge_of_all_clauses(spark: SparkSession, tmp_path: Path, options: dict[str, object]) -> None:
    table = made(tmp_path, options)
    source = spark.createDataFrame([(1, 100), (2, None), (5, 50), (6, None), (4, 0)], "ID BIGINT, v BIGINT")
    (
        morrow.spark.merge(source, table, on="id", properties={"by": "merge"})
        .when_not_matched_insert({"id": "source.id", "V": F.col("source.v") + 1}, "v > 0")
        .when_matched_delete(F.col("source.v").isNull())
        .when_matched_update({"v": "1000 / source.v"}, "source.v <> 0")
        .when_not_matched_by_source_update({"v": 7, "a.b `ü": f"upper({NAME})"}, f"target.{NAME} = 'c'")
        .execute()
    )
    assert rows(table) == [(1, 10, "a"), (3, 7, "C"), (4, 40, None), (5, 51, None)]
    assert commits(table) == 2
    assert table.snapshots()[-1].properties["by"] == "merge"
    (told,) = table.history().filter(operation="MERGE").select(*COUNTS).rows()
    assert told == (1, 2, 1)


def test_merge_of_whole_rows_by_conditions(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    stars = spark.createDataFrame([(1, 1, "x"), (9, 9, "y")], COLUMNS)
    merge = morrow.spark.merge(stars, table.path, on="target.id = source.id AND target.v > 5")
    merge.when_matched_update().when_not_matched_insert().when_not_matched_by_source_delete("id < 4").execute()
    assert rows(table) == [(1, 1, "x"), (4, 40, None), (9, 9, "y")]
    on = F.col("target.id") == F.col("source.id")
    assert morrow.spark.merge(stars, table, on=on).when_not_matched_insert().execute() is None
    morrow.spark.merge(stars.withColumn("id", F.col("id") + 1), table, on=on).when_not_matched_insert().execute()
    twice = stars.union(stars)
    morrow.spark.merge(twice, table, on=["id"]).when_matched_delete().execute()
    assert rows(table) == [(2, 1, "x"), (4, 40, None), (10, 9, "y")]
    with pytest.raises(Exception, match="several rows of the source match one row of the table"):
        again = twice.withColumn("id", F.lit(4))
        morrow.spark.merge(again, table, on=["id"]).when_matched_update({"v": 1}, "false").execute()
    with pytest.raises(Exception, match="would change 'id', which is part of the primary key"):
        morrow.spark.merge(stars, table, on="target.id = source.id + 1").when_matched_update().execute()
    assert commits(table) == 4


def test_merge_that_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    table, source = made(tmp_path), spark.createDataFrame([(1, "x")], "id BIGINT, extra STRING")
    merge = morrow.spark.merge(source, table, on="id")
    for error, match, wrong in (
        (InvalidArgument, "say what to do", merge),
        (ColumnNotFound, "no column 'extra'", merge.when_matched_update()),
        (ColumnNotFound, "merge on 'v'", morrow.spark.merge(source, table, on=["v"]).when_matched_delete()),
        (InvalidArgument, "DATA_TYPE.*'v'.*INT", merge.when_matched_update({"v": "source.extra"})),
        (InvalidArgument, "'v' is set twice", merge.when_matched_update({"v": 1, "V": 2})),
        (Exception, "`target`.`v`", merge.when_not_matched_insert({"id": "source.id", "v": "target.v"})),
        (Exception, "`extra`", merge.when_not_matched_by_source_update({"v": "length(extra)"})),
        (Exception, "AMBIGUOUS_REFERENCE", merge.when_matched_delete("id = 1")),
    ):
        with pytest.raises(error, match=match):
            wrong.execute()
    with pytest.raises(InvalidArgument, match="belong to a path"):
        morrow.spark.merge(source, table, on="id", branch="b")
    log = new_table(tmp_path / "log", COLUMNS, options={"bucket": -1})
    insert = morrow.spark.merge(source, log, on="id").when_not_matched_insert({"id": "source.id"})
    insert.execute()
    insert.execute()
    assert rows(log) == [(1, None, None)]
    insert.when_matched_update({"v": "length(source.extra)"}).execute()
    morrow.spark.update(spark, log, set={"v": "v + 1"}, where="id = 1")
    assert rows(log) == [(1, 2, None)]
    assert commits(table) == 1


def test_update_and_delete(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path)
    morrow.spark.update(spark, table, set={"V": "v + 1L", "a.b `ü": F.concat(F.col(NAME), F.lit("!"))}, where="id < 3")
    morrow.spark.update(spark, table.path, {"v": None}, where=F.col("target.id") == 4)
    assert rows(table) == [(1, 11, "a!"), (2, 1, "b!"), (3, None, "c"), (4, None, None)]
    assert morrow.spark.update(spark, table, {"v": 1}, where="id > 4") is None
    for error, match, set in (
        (InvalidArgument, "'id' is part of the primary key", {"id": 1}),
        (InvalidArgument, "nothing to set", {}),
        (InvalidArgument, "DATA_TYPE.*'v'", {"v": F.lit("x")}),
        (Exception, "OVERFLOW", {"v": 1 << 40}),
    ):
        with pytest.raises(error, match=match):
            morrow.spark.update(spark, table, set)
    morrow.spark.delete(spark, table, where=F.col("v").isNull() & (F.col("id") > 3))
    morrow.spark.delete(spark, table.path, where="v = 1")
    with pytest.raises(InvalidArgument, match="say which rows"):
        morrow.spark.delete(spark, table)
    assert rows(table) == [(1, 11, "a!"), (3, None, "c")]
    assert commits(table) == 5
    told = table.history().filter(kind="APPEND").select("operation", *COUNTS).rows()[::-1]
    assert told[1:] == [("UPDATE", 0, 2, 0), ("UPDATE", 0, 1, 0), ("DELETE", 0, 0, 1), ("DELETE", 0, 0, 1)]
