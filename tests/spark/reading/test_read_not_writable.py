"""Views of `read` results are read-only: Spark refuses to write to them, for any kind of table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

import morrow
from morrow.spark.reading.read import read
from morrow.spark.views import attach, detach
from tests.support.written import new_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = {"id": [1, 2], "v": ["a", "b"], "p": ["x", "x"]}
COLUMNS = "id BIGINT, v STRING, p STRING"
VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true"}


def keyed(path: Path, **options: str) -> morrow.Table:
    return new_table(path, COLUMNS, keys=["id"], options={"bucket": "1"} | options)


def with_later_column(path: Path) -> morrow.Table:
    table = new_table(path, "id BIGINT, v STRING")
    table.append({"id": [1, 2], "v": ["a", "b"]})
    table.alter.add_column("p", "STRING")
    return table


def masked(path: Path) -> morrow.Table:
    table = keyed(path, **VECTORS)
    table.append({"id": [1, 2, 3], "v": ["a", "b", "c"], "p": ["x", "x", "y"]})
    table.delete("id = 3")
    return table


TABLES: dict[str, Callable[[Path], morrow.Table]] = {
    "append": lambda path: new_table(path, COLUMNS),
    "orc": lambda path: new_table(path, COLUMNS, options={"file.format": "orc"}),
    "partition": lambda path: new_table(path, COLUMNS, by=["p"]),
    "key": keyed,
    "partial-update": lambda path: keyed(path, **{"merge-engine": "partial-update"}),
    "first-row": lambda path: keyed(path, **{"merge-engine": "first-row"}),
    "later column": with_later_column,
    "vectors": masked,
}
READS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "all": read,
    "columns": lambda spark, path: read(spark, path, ["v", "id"]),
    "filter": lambda spark, path: read(spark, path, filter="id > 0"),
    "limit": lambda spark, path: read(spark, path, limit=1),
    "read-optimized": lambda spark, path: read(spark, path + "$ro"),
    "audit log": lambda spark, path: read(spark, path + "$audit_log"),
    "files": lambda spark, path: read(spark, path + "$files"),
    "handed over": lambda spark, path: morrow.open(path).scan().to_spark(spark),
}


def insertable(frame: DataFrame) -> bool:
    """Return whether the view's plan is a single leaf, the only kind that Spark writes to."""
    plan = frame._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() == "SubqueryAlias":  # Spark looks through aliases
        plan = plan.child()
    return bool(plan.children().isEmpty())


@pytest.mark.parametrize("kind", TABLES)
def test_no_plan_is_a_bare_relation(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Check a table without files, with one file, and with several, which mean masks or merges for some kinds."""
    table = TABLES[kind](tmp_path)
    assert not insertable(read(spark, table.path))
    table.append(ROWS)
    assert [name for name, reading in READS.items() if insertable(reading(spark, table.path))] == []
    table.append(ROWS)
    assert not insertable(read(spark, table.path))


REFUSALS = AnalysisException, Py4JJavaError
"""DELETE raises the second error, since Spark's planner lacks a message for it."""

WRITES: dict[str, Callable[[SparkSession, str], object]] = {
    "into": lambda spark, view: spark.sql(f"INSERT INTO {view} VALUES (9L, 'z', 'x')"),
    "overwrite": lambda spark, view: spark.sql(f"INSERT OVERWRITE {view} VALUES (9L, 'z', 'x')"),
    "partition": lambda spark, view: spark.sql(f"INSERT OVERWRITE {view} PARTITION (p = 'x') VALUES (9L, 'z')"),
    "where": lambda spark, view: spark.sql(f"INSERT INTO {view} REPLACE WHERE id = 1 VALUES (9L, 'z', 'x')"),
    "insertInto": lambda spark, view: spark.table(view).limit(1).write.insertInto(view, overwrite=True),
    "append": lambda spark, view: spark.table(view).limit(1).writeTo(view).append(),
    "replace": lambda spark, view: spark.table(view).limit(1).writeTo(view).overwritePartitions(),
    "truncate": lambda spark, view: spark.sql(f"TRUNCATE TABLE {view}"),
    "delete": lambda spark, view: spark.sql(f"DELETE FROM {view}"),
}


@pytest.mark.parametrize("cached", [False, True])
def test_spark_writes_to_no_view(cached: bool, spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, name="t")
    table.append(ROWS)
    files = {file: file.stat().st_mtime_ns for file in Path(table.path).rglob("*")}
    read(spark, table.path).createOrReplaceTempView("refuses")
    read(spark, table.path).createOrReplaceGlobalTempView("refuses")
    spark.table("refuses").createOrReplaceTempView("refuses_too")
    views = ["refuses", "global_temp.refuses", "refuses_too", attach(spark, tmp_path, "wh")["db.t"]]
    try:
        for view in views:
            if cached:
                spark.catalog.cacheTable(view)
            for write in WRITES.values():
                with pytest.raises(REFUSALS):
                    write(spark, view)
            assert spark.table(view).count() == 2
    finally:
        spark.catalog.clearCache()
        spark.catalog.dropGlobalTempView("refuses")
        for view in ("refuses", "refuses_too"):
            spark.catalog.dropTempView(view)
        detach(spark, "wh")
    assert {file: file.stat().st_mtime_ns for file in Path(table.path).rglob("*")} == files
    assert table.scan().to_arrow().to_pydict() == ROWS
