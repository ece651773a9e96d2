"""The Python data source under a name of its own, for sessions whose JVM has the format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.spark.source import PUSHDOWN, register_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BY_SOURCE = "morrow-in-python"


def register_by_source(spark: SparkSession) -> None:
    """Register the data source of Spark Connect under the name `BY_SOURCE`."""
    from morrow.spark.source.datasource import MorrowDataSource

    class BySource(MorrowDataSource):  # a local class, so that executors get it by value
        @classmethod
        def name(cls) -> str:
            return BY_SOURCE

    spark.conf.set(PUSHDOWN, "true")
    register_source(spark, BySource)
