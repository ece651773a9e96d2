"""``readStream.table`` and ``writeStream.toTable`` through the catalog."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions

import morrow
import morrow.spark
from tests.spark.catalogs.conftest import Sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.engine.format.snapshot import Snapshot

COLUMNS = "id BIGINT NOT NULL, `ü.``v` VARCHAR(9), at TIMESTAMP"


def made(warehouse: Path, name: str, **options: object) -> morrow.Table:
    return morrow.Catalog(warehouse).create_table(
        f"db.{name}", schema="id BIGINT, v STRING", primary_keys=["id"], options=options
    )


def run(stream: DataFrame, name: str, checkpoint: Path, mode: str = "append", **options: Any) -> None:
    writer = stream.writeStream.outputMode(mode).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).options(**options).toTable(name)
    query.awaitTermination()


def commits(table: morrow.Table) -> list[Snapshot]:
    return [snapshot for snapshot in table.snapshots() if snapshot.commit_kind != "COMPACT"]


def test_a_stream_from_table_to_table(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    source = made(tmp_path, "s", bucket=1, **{"changelog-producer": "input"})
    target = made(tmp_path, "t", bucket=-1)
    source.upsert({"id": [1, 2], "v": ["a", "b"]})
    for turn in range(2):
        run(spark.readStream.table("pm.db.s"), "pm.db.t", tmp_path / "c")
        assert sql("SELECT * FROM pm.db.t ORDER BY id") == [(1, "a"), (2, "b"), *[(3, "c")][:turn]]
        source.upsert({"id": [3], "v": ["c"]})
    forget_last_batch(tmp_path / "c")
    before = len(commits(target))
    run(spark.readStream.table("pm.db.s"), "pm.db.t", tmp_path / "c")
    assert len(commits(target)) == before + 1  # only the following batch is new


@pytest.mark.parametrize("by", ["name", "path"])
def test_a_dataframe_of_other_columns_ends_the_query(by: str, sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    """Spark matches a batch's columns by position."""
    morrow.spark.register(spark)
    source = made(tmp_path, "s", bucket=1)

    def stream() -> DataFrame:
        return (
            spark.readStream.table("pm.db.s") if by == "name" else spark.readStream.format("morrow").load(source.path)
        )

    before = stream()
    source.alter.add_column("first", "BIGINT", first=True)
    morrow.open(source.path).append({"id": [1], "v": ["a"], "first": [7]})
    with pytest.raises(Exception, match="its columns have changed since the stream was made"):
        run(before, "pm.db.before", tmp_path / "c")
    run(stream(), "pm.db.after", tmp_path / "c")
    assert sql("SELECT * FROM pm.db.after") == [(7, 1, "a")]


def forget_last_batch(checkpoint: Path) -> None:
    """Rewind the checkpoint, as if the query was killed after its commit to the table."""
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def test_states_of_queries_survive_batches_that_are_repeated(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    source = morrow.Catalog(tmp_path).create_table("db.s", schema="id BIGINT, v STRING", options={"bucket": -1})
    counts = made(tmp_path, "counts", bucket=1)
    for turn in range(2):
        source.append({"id": [1, turn], "v": ["a", "b"]})
        sums = spark.readStream.table("pm.db.s").groupBy("id").agg(functions.count("v").cast("string").alias("v"))
        run(sums, "pm.db.counts", tmp_path / "c", "update")
        if not turn:
            forget_last_batch(tmp_path / "c")
    assert sql("SELECT * FROM pm.db.counts ORDER BY id") == [(0, "1"), (1, "3")]
    run(sums.where("id = 1"), "pm.db.counts", tmp_path / "c2", "complete")
    assert sql("SELECT * FROM pm.db.counts") == [(1, "3")]
    assert commits(counts)[-1].commit_kind == "OVERWRITE"
    with pytest.raises(Exception, match=r"(?i)SupportsStreamingUpdate|update"):
        run(sums, "pm.db.s", tmp_path / "c3", "update")


def test_kinds_of_rows_and_types(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    warehouse, kind = morrow.Catalog(tmp_path), {"primary_keys": ["id"], "options": {"bucket": 1}}
    source = warehouse.create_table("db.s", schema=COLUMNS, **kind)
    warehouse.create_table("db.t", schema=COLUMNS, **kind)
    source.upsert({"id": [1, 2], "ü.`v": ["a", None], "at": [datetime(2024, 1, 1), None]})
    run(spark.readStream.table("pm.db.`s$audit_log`"), "pm.db.t", tmp_path / "c", kinds="rowkind")
    assert sql("SELECT * FROM pm.db.t ORDER BY id") == [(1, "a", datetime(2024, 1, 1)), (2, None, None)]
    source.delete("id = 1")
    run(spark.readStream.table("pm.db.`s$audit_log`"), "pm.db.t", tmp_path / "c", kinds="rowkind")
    assert sql("SELECT id, `ü.``v` FROM pm.db.t") == [(2, None)]
    latest = spark.readStream.option("scan.mode", "latest").table("pm.db.s")
    run(latest, "pm.db.t", tmp_path / "latest")
    assert sql("SELECT count(*) FROM pm.db.t") == [(1,)]


def test_what_streams_refuse(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    made(tmp_path, "t", bucket=1).upsert({"id": [1], "v": ["a"]})
    for options, match in (
        ({"read.changelog": "true"}, r"read `table\$audit_log` for row kinds"),
        ({"columns": "id"}, "select the columns afterwards"),
        ({"path": "/x"}, "'path' of a stream by name"),
        ({"scan.mode": "nowhere"}, "scan.mode"),
        ({"hello": "1"}, "no option 'hello'"),
        ({"versionAsOf": "1"}, "'versionAsOf' of a stream, which goes on .* is not supported; say where it begins"),
        ({"timestampAsOf": "2020-01-01"}, "'timestampAsOf' of a stream"),
        ({"scan.tag-name": "x"}, "'scan.tag-name' of a stream"),
    ):
        with pytest.raises(Exception, match=match):
            run(spark.readStream.options(**options).table("pm.db.t"), "pm.db.t", tmp_path / "c")
    run(spark.readStream.option("scan.timestamp", "2020-01-01").table("pm.db.t"), "pm.db.copy", tmp_path / "b")
    assert sql("SELECT * FROM pm.db.copy") == [(1, "a")]  # begins before the oldest snapshot
    with pytest.raises(Exception, match="option 'bucket' of a write"):
        run(spark.readStream.table("pm.db.t"), "pm.db.t", tmp_path / "d", bucket=2)
    with pytest.raises(Exception, match=r"does not support .*micro-batch"):
        spark.readStream.table("pm.db.`t$files`").writeStream.format("noop").start()
    with pytest.raises(Exception, match="extra"):
        run(spark.readStream.table("pm.db.t").selectExpr("id", "v AS extra"), "pm.db.t", tmp_path / "e")
    assert sql("SELECT * FROM pm.db.t") == [(1, "a")]
