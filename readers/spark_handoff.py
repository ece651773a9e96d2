"""Arrow tables as Spark DataFrames, by createDataFrame. The only module here that knows pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.errors import Unsupported

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def to_spark(table: pa.Table, spark: SparkSession) -> DataFrame:
    """`table` as a Spark DataFrame; Spark 4 takes Arrow as it is.

    Raises:
        Unsupported: a column whose type Spark does not have (TIME, nanosecond timestamps are kept as microseconds).
    """
    return spark.createDataFrame(table.cast(pa.schema([_spark_field(field) for field in table.schema])))


def _spark_field(field: pa.Field) -> pa.Field:
    return field.with_type(_spark_type(field.type, field.name))


def _spark_type(kind: pa.DataType, name: str) -> pa.DataType:
    """The Arrow type that createDataFrame takes for `kind`."""
    if pa.types.is_time(kind):
        raise Unsupported(f"the type {kind} of column {name!r} in Spark", hint="leave the column out, or cast it first")
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return kind
