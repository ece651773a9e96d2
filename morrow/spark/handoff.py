"""Rows as a Spark DataFrame by createDataFrame from Arrow: for results that fit the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import DataField
from morrow.spark.job.sizes import sized
from morrow.spark.types.to_spark import as_spark, spark_schema, travel_schema, with_nullable_members
from morrow.spark.versions import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BYTES = 1 << 30
"""Bytes of Arrow rows to hand over at most, unless the caller says otherwise: they pass through driver and JVM."""

DISTRIBUTE = "read the table with morrow.spark.read, which leaves the rows to the executors"
CHOOSE_LESS = "choose fewer by columns=[...] and filter=..."


def to_spark(
    batches: Iterable[pa.RecordBatch],
    fields: Sequence[DataField],
    spark: SparkSession,
    *,
    where: str,
    most_bytes: int | None = None,
    advice: str = DISTRIBUTE,
) -> DataFrame:
    """Converts record batches, columns `fields`, to a Spark DataFrame in the types of `morrow.spark.types.to_spark`.

    Reading ends as soon as the limit is exceeded; batches are transferred one by one. Errors name `where` and a remedy
    for too many rows.

    Raises:
        Unsupported: a column whose type this version of Spark does not have.
        InvalidArgument: the rows take more than `most_bytes` (`MOST_BYTES` unless given) as Arrow.
    """
    if not hasattr(spark, "createDataFrame"):
        raise InvalidArgument(f"spark is a SparkSession, such as morrow.spark.session() makes, not {spark!r}")
    most_bytes = MOST_BYTES if most_bytes is None else most_bytes
    given = with_nullable_members(fields)
    schema, travel = spark_schema(given), travel_schema(given)
    held, rows, size = [], 0, 0
    for batch in batches:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size > most_bytes:
            raise InvalidArgument(
                f"{where}: {rows:,} rows and more take over {most_bytes >> 20:,} MiB, too much to hand over through "
                f"the driver; {advice}"
            )
        held.append(as_spark(batch, travel))
    # createDataFrame localises timestamps chunk by chunk, and fails without any chunk.
    held = held or [pa.RecordBatch.from_arrays([pa.array([], field.type) for field in travel], schema=travel)]
    # Spark rejects an INSERT into a projection clearly; for plain rows its message may look like an internal error.
    return sized(from_arrow(spark, pa.Table.from_batches(held, travel), schema), size).select("*")
