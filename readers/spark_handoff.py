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
    # Unsafe as far as nanoseconds go: they are cut off.
    return spark.createDataFrame(table.cast(pa.schema([_spark_field(field) for field in table.schema]), safe=False))


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
    if pa.types.is_struct(kind):
        return pa.struct([_spark_field(member) for member in kind])
    if pa.types.is_map(kind):
        return pa.map_(_spark_field(kind.key_field), _spark_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_spark_field(kind.value_field))
    return kind
