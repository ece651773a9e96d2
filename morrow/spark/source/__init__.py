"""The format ``morrow``: its options and streams, and a Python data source for sessions without a reachable JVM.

    morrow.spark.register(spark)
    spark.read.format("morrow").load("warehouse/db.db/orders")
    frame.write.format("morrow").mode("append").save("warehouse/db.db/orders")
    spark.readStream.format("morrow").option("read.changelog", "true").load("warehouse/db.db/orders")
    frame.writeStream.format("morrow").option("checkpointLocation", "...").start("warehouse/db.db/copy")

From Spark 4.0 on, a Java class is the format (`morrow.spark.catalogs.by_path`), and uses this data source for
streams only. Over Spark Connect, and before, methods of PySpark's classes are replaced, so that the first two do what
`morrow.spark.read` and `morrow.spark.write` do (`dataframe_io`). There, the last one writes rows without a
shuffle. `sinks.sink` shuffles the rows of a stream, and supports tables of every kind:

    copy = morrow.spark.sink("warehouse/db.db/copy")
    frame.writeStream.foreachBatch(copy).option("checkpointLocation", "...").start()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""The setting that Spark requires for readers that accept filters, as with the option ``push-filters``."""
EXISTS = "DATA_SOURCE_ALREADY_EXISTS"


def register_replacing(spark: SparkSession) -> None:
    """Register the format, also as ``paimon``, in a session without a reachable JVM or before Spark 4.0.

    Replaces methods of PySpark's classes where a Python data source is limited. Repeating it changes nothing.
    """
    from morrow.spark.source import dataframe_io, refusals, replaced_methods
    from morrow.spark.source.replaced_methods import take_over
    from morrow.spark.versions import HAS_SOURCES

    if HAS_SOURCES:
        from morrow.spark.source.datasource import MorrowDataSource, PaimonDataSource

        spark.conf.set(PUSHDOWN, "true")
        register_source(spark, MorrowDataSource)
        _register_alias(spark, PaimonDataSource)
    take_over(
        spark,
        (
            *dataframe_io.REPLACEMENTS,
            *refusals.TABLE_REPLACEMENTS,
            *refusals.SQL_REPLACEMENTS,
            *replaced_methods.list_replacements(),  # before replacements that refuse less
            *(replaced_methods.STREAM_REPLACEMENTS if HAS_SOURCES else ()),
        ),
    )


def _register_alias(spark: SparkSession, source: type[DataSource]) -> None:
    """Register the format under its other name, unless a jar has registered that name."""
    from pyspark.errors import AnalysisException

    from morrow.spark.source.replaced_methods import HAS_ALIAS

    try:
        register_source(spark, source)
    except AnalysisException as error:
        if error.getCondition() != EXISTS:
            raise
        return
    spark.conf.set(HAS_ALIAS, "true")


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source under its name, replacing another of that name."""
    from pyspark.errors import AnalysisException

    from morrow.spark.job.execution import check_workers
    from morrow.spark.sessions import use_session

    check_workers(spark)
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != EXISTS:
            raise
        # Spark looks up the name in the active session, which may be a different session.
        with use_session(spark):
            spark.dataSource.register(source)
