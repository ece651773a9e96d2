"""Overwrites of partitions that match a condition."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import IllegalArgumentException

import morrow
import morrow.spark
from morrow.engine.errors import InvalidArgument
from morrow.spark.writing import job
from tests.support.written import new_table, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_partitions_by_a_condition(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, "id BIGINT, `d.y ``` STRING", by=["d.y `"], options={"bucket": -1})
    table.append({"id": [1, 2, 3, 4], "d.y `": ["a", "b", "c", None]})
    new = spark.sql("SELECT 9L AS id, 'a' AS `d.y ```")
    condition = "\"d.y `\" < 'c'"
    morrow.spark.write(new, table.path, "overwrite", replace_where=condition)
    assert sorted(rows(table), key=str) == [(3, "c"), (4, None), (9, "a")]
    morrow.spark.register(spark)
    writer = new.selectExpr("id + 1 AS id", "'z' AS `d.y ```").write.format("morrow").mode("overwrite")
    writer.option("replaceWhere", "\"d.y `\" IN ('z', 'c')").save(table.path)
    assert sorted(rows(table), key=str) == [(10, "z"), (4, None), (9, "a")]
    before = len(table.snapshots())
    for wrong, match in ((condition.replace("<", ">"), "the data has rows of the partition"), ("id = 9", "'id' is no")):
        with pytest.raises(InvalidArgument, match=match):
            morrow.spark.write(new, table, "overwrite", replace_where=wrong)
    with pytest.raises(InvalidArgument, match="belong to mode='overwrite'"):
        morrow.spark.write(new, table, replace_where=condition)
    with pytest.raises(IllegalArgumentException, match=r"InvalidArgument: .*belongs to"):
        new.write.format("morrow").mode("append").option("replaceWhere", condition).save(table.path)
    assert len(table.snapshots()) == before

    replacing, others = job.replace_matching, [{"id": [7], "d.y `": ["b"]}]

    def meanwhile(target, messages, condition, replaced):  # type: ignore[no-untyped-def]  # like `replace_matching`
        def late(**arguments):  # type: ignore[no-untyped-def]
            if others:
                table.append(others.pop())
            return replaced(**arguments)

        return replacing(target, messages, condition, late)

    monkeypatch.setattr(job, "replace_matching", meanwhile)
    morrow.spark.write(new.limit(0), table, "overwrite", replace_where=condition)
    assert sorted(rows(table), key=str) == [(10, "z"), (4, None)]
