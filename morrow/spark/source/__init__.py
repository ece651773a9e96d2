"""The data source ``morrow`` for Spark: batch reads and writes, and streams in both directions.

    register(spark)
    spark.read.format("morrow").load("warehouse/db.db/orders")
    frame.write.format("morrow").mode("append").save("warehouse/db.db/orders")
    spark.readStream.format("morrow").option("read.changelog", "true").load("warehouse/db.db/orders")
    frame.writeStream.format("morrow").option("checkpointLocation", "...").start("warehouse/db.db/copy")

`morrow.spark.read` and `morrow.spark.write` do the same in batches and are faster: Spark's own scan reads the files
where it can, and rows are shuffled to the tasks that write their buckets. In a stream that goes into foreachBatch:

    def upsert(batch, number):
        morrow.spark.write(batch, "warehouse/db.db/copy", commit_user="orders to copy", commit_identifier=number)

    frame.writeStream.foreachBatch(upsert).option("checkpointLocation", "...").start()

A commit user belongs to one checkpoint: numbers of batches grow, and what is not above the last one was committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Without it Spark refuses readers that take filters, as the option ``push-filters`` has them."""


def register(spark: SparkSession) -> None:
    """Make ``format("morrow")`` known to a session; `options` lists what may be given."""
    from morrow.spark.source.datasource import MorrowDataSource

    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(MorrowDataSource)
