"""The driver process of `test_cluster`: ``python cluster_driver.py <master> <folder> <golden tables>``.

It reads golden tables, writes a table, and prints a line of JSON with the executors that took part; a wrong row is an
error. Then it writes while failures are injected (`failures`), until it kills itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

import morrow
import morrow.spark
from morrow.spark.reading import manifests
from tests.spark import failures
from tests.support.spark_cluster import LOOPBACK, SHORT_LIVED, Cluster
from tests.support.spark_rows import assert_reads_alike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ = ("pk_dedup_b4", "pu_random_seqgroup", "dv_pk_partitioned", "fmt_orc_zstd", "evolve_casts")
"""Merges by masks and by tasks, deletion vectors in partitions, ORC, casts."""

ROWS, UPDATED_FROM, BUCKETS = 120_000, 50_000, 12
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.cores.max": 2,
    # Jobs begin after both executors have registered.
    "spark.scheduler.minRegisteredResourcesRatio": 1.0,
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.locality.wait": 0,
    # Three write tasks per executor, so that some are still waiting when an executor is killed.
    "spark.default.parallelism": 6,
    "spark.task.maxFailures": 4,
    "spark.speculation": True,
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": 0.5,
    "spark.ui.enabled": False,
    "spark.ui.showConsoleProgress": False,
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
}


def main(master: str, folder: Path, golden: Path) -> None:
    cloudpickle.register_pickle_by_value(failures)  # workers cannot import the tests
    spark = morrow.spark.session("cluster test", master, **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    cluster, table = Cluster(master, folder), folder / "table"
    read(spark, golden)
    write(spark, table)
    Killer(cluster, table).during(lambda: update(spark, table))
    print(json.dumps({"read": READ, "executors": cluster.launched()}), flush=True)
    failures.run_until_killed(spark, folder)


def read(spark: SparkSession, golden: Path) -> None:
    """Compare tables with Morrow's local reads; executors decode even the smallest manifests."""
    manifests.MIN_ENTRIES = 0
    for case in READ:
        path = str(golden / "public" / case / "warehouse" / "db.db" / "t")
        assert_reads_alike(morrow.spark.read(spark, path), morrow.open(path).scan())
    morrow.clear_caches()
    told = morrow.spark.explain(morrow.open(path).scan())
    assert told.endswith(" by 1 task"), told


def write(spark: SparkSession, path: Path) -> None:
    """Make a table of `id` and the `round` that wrote it, with deletion vectors, so tasks compact while writing."""
    options = {"bucket": BUCKETS, "deletion-vectors.enabled": True}
    morrow.spark.write(numbers(spark, 0, ROWS, 1), path, create={"primary_keys": "id", "options": options})


def update(spark: SparkSession, path: Path) -> None:
    """Replace some rows, and insert as many."""
    morrow.spark.upsert(numbers(spark, UPDATED_FROM, UPDATED_FROM + ROWS, 2), path)


def numbers(spark: SparkSession, first: int, last: int, number: int) -> DataFrame:
    return spark.range(first, last, numPartitions=4).selectExpr("id", f"{number} AS round", "repeat('x', 200) AS text")


class Killer:
    """A thread that kills an executor when some but not all files of a write exist."""

    def __init__(self, cluster: Cluster, table: Path) -> None:
        self._cluster, self._table = cluster, table
        self._ended = threading.Event()
        self._killed = False

    def during(self, write: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._kill, args=(self._files(),))
        thread.start()
        try:
            write()
        finally:
            self._ended.set()
            thread.join()
        assert self._killed, "the write was over before an executor was killed"

    def _kill(self, before: set[Path]) -> None:
        while not self._ended.is_set():
            if self._files() - before:
                os.kill(self._cluster.executors()[0], signal.SIGKILL)
                self._killed = True
                return
            time.sleep(0.005)

    def _files(self) -> set[Path]:
        return set(self._table.glob("bucket-*/data-*"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
