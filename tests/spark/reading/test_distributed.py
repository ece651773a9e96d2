"""Hidden columns: the same values in SQL, in `read` and with the data source's options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import morrow
from morrow.engine.errors import ColumnNotFound, Unsupported
from morrow.spark import register
from tests.spark.conftest import INTERPRETED, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION, BUCKET, INDEX = "__paimon_partition", "__paimon_bucket", "__paimon_row_index"


def test_partition_bucket_and_place_of_rows(spark: SparkSession, tmp_path: Path, golden_root: Path) -> None:
    register(spark)
    morrow.spark.catalog(spark, "pm", warehouse=tmp_path, allowed_roots=[str(golden_root)])
    catalog = morrow.Catalog(tmp_path)
    catalog.create_database("db")
    schema = "id BIGINT, `a'b` STRING, `P` INT, `__PAIMON_File_Path` INT"
    keyed = catalog.create_table(
        "db.t", schema=schema, primary_keys=["id", "P"], partition_keys=["P"], options={"bucket": "2"}
    )
    rows = [{"id": n, "a'b": "x", "P": n % 2, "__PAIMON_File_Path": n} for n in range(4)]
    keyed.upsert(rows)
    keyed.upsert(rows[:3])
    logs = catalog.create_table("db.log", schema="id INT", options={"bucket": "3", "bucket-key": "id"})
    logs.append([{"id": n} for n in range(6)])
    tracked = golden_root / "public" / "row_tracking_compacted" / "warehouse" / "db.db" / "t"
    (tmp_path / "db.db" / "tracked").symlink_to(tracked)

    def sql(text: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in spark.sql(text).collect())

    with settings(spark, INTERPRETED):
        found = sql(f"SELECT id, {PARTITION}.P, {BUCKET}, __paimon_file_path FROM pm.db.t WHERE {BUCKET} < 2")
        assert [(id, p, path) for id, p, _, path in found] == [(n, n % 2, n) for n in range(4)]
        buckets = {id: bucket for id, _, bucket, _ in found}
        assert set(buckets.values()) == {0, 1}
        told = morrow.spark.read(spark, keyed.path, [BUCKET, "id", PARTITION], "P = 1")
        assert sorted(map(tuple, told.collect())) == sorted((buckets[n], n, (1,)) for n in (1, 3))
        by_option = spark.read.format("morrow").option("columns", f"id,{BUCKET}").load(keyed.path)
        assert dict(map(tuple, by_option.collect())) == buckets
        assert sql(f"SELECT {BUCKET}, min({INDEX}), max({INDEX}), first({PARTITION}) FROM pm.db.log GROUP BY ALL") == [
            (bucket, 0, 1, ()) for bucket in range(3)
        ]
        assert sql("SELECT count(_ROW_ID), count(_SEQUENCE_NUMBER), count(*) FROM pm.db.tracked") == [(10, 100, 100)]
        with pytest.raises(Exception, match="made of several files"):
            sql(f"SELECT {INDEX} FROM pm.db.t")
        with pytest.raises(Exception, match="hidden columns of changes"):
            sql(f"SELECT {BUCKET} FROM pm.db.t WITH ('incremental-between' = '1,2')")
    with pytest.raises(Unsupported, match="compact the table fully"):
        morrow.spark.read(spark, keyed.path, [INDEX])
    with pytest.raises(ColumnNotFound, match="_ROW_ID"):
        morrow.spark.read(spark, keyed.path, ["_ROW_ID"])
