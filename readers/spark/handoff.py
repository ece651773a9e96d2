"""Arrow tables as Spark DataFrames, by createDataFrame: for results that fit the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.readers.spark.types import spark_arrow, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BYTES = 1 << 30
"""Of an Arrow table that is handed over whole, unless the caller says otherwise: it passes through driver and JVM."""


def to_spark(table: pa.Table, spark: SparkSession, most_bytes: int = MOST_BYTES) -> DataFrame:
    """`table` as a Spark DataFrame; timestamps without a zone are TIMESTAMP_NTZ.

    Raises:
        Unsupported: a column whose type Spark does not have (TIME). Nanoseconds are cut off to microseconds.
        InvalidArgument: the rows take more than `most_bytes` as Arrow.
    """
    if table.nbytes > most_bytes:
        raise InvalidArgument(
            f"{table.num_rows:,} rows of {table.nbytes >> 20:,} MiB are too many to hand over through the driver "
            f"(at most {most_bytes >> 20:,} MiB); read them with morrow.spark.read, which leaves them to the executors"
        )
    schema = spark_arrow(table.schema)
    # Unsafe as far as nanoseconds go: they are cut off. Chunks stay as they are and travel one by one.
    # Without a schema Spark would take timestamps without a zone for instants in the session's zone.
    return spark.createDataFrame(table.cast(schema, safe=False), schema=spark_ddl(schema))
