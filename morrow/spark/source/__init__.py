"""The data source ``morrow`` for Spark: batch reads and writes, and streams in both directions.

    register(spark)
    spark.read.format("morrow").load("warehouse/db.db/orders")
    frame.write.format("morrow").mode("append").save("warehouse/db.db/orders")
    spark.readStream.format("morrow").option("read.changelog", "true").load("warehouse/db.db/orders")
    frame.writeStream.format("morrow").option("checkpointLocation", "...").start("warehouse/db.db/copy")

In a session that is registered the first two are what `morrow.spark.read` and `morrow.spark.write` do (`faces`):
Spark's own scan reads the files where it can, and rows are shuffled to the tasks that write their buckets. The last
one writes whatever rows a task gets; `sink` shuffles those of a stream, and takes tables of every kind:

    copy = morrow.spark.sink("warehouse/db.db/copy")
    frame.writeStream.foreachBatch(copy).option("checkpointLocation", "...").start()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Without it Spark refuses readers that take filters, as the option ``push-filters`` has them."""


def register(spark: SparkSession) -> None:
    """Make ``format("morrow")`` known to a session; `options` lists what may be given. Repeating it changes nothing."""
    from pyspark.errors import AnalysisException

    from morrow.spark.source.datasource import MorrowDataSource
    from morrow.spark.source.faces import take_over

    spark.conf.set(PUSHDOWN, "true")
    try:
        spark.dataSource.register(MorrowDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        # Spark asks the active session whether there is one of this name, and that is another session.
        with _active(spark):
            spark.dataSource.register(MorrowDataSource)
    take_over(spark)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make the session the active one of this thread."""
    sessions = cast("Any", spark)._get_j_spark_session_class(cast("Any", spark)._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(cast("Any", spark)._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
