"""Which task writes which rows, by the mode of buckets of the table."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.spark.payload import WriteJob
from morrow.writers.spark.tasks import TASK, Placing
from morrow.writers.spark.work import placing_columns
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARALLELISM = "sink.parallelism"
"""The table option by which users say how many tasks write."""
UNKNOWN_CORES = 8
"""Where a session does not tell how many tasks run at once (Spark Connect)."""


def shuffled(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    """The rows, columns by number, so that no two tasks write to one bucket; a column `TASK` may have been added.

    =================  ====================================================================================
    fixed buckets      by partition and bucket
    dynamic buckets    by partition: one task gives out the buckets of a partition
    cross-partition    all rows to one task, which knows where every key is
    postponed          by key, so that one task has all versions of a key
    no buckets         evenly, by Spark's rebalance: partitions are kept together, large ones are divided
    =================  ====================================================================================
    """
    return _SHUFFLES[bucket_mode(target)](rows, target, job)


def _by_place(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    tasks = _parallelism(rows, target)
    if not target.partition_fields:
        tasks = min(tasks, target.options.bucket) if bucket_mode(target) is BucketMode.FIXED else 1
    return rows.repartition(1) if tasks == 1 else _repartitioned(rows, target, job, tasks)


def _by_key(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    return rows.repartition(_parallelism(rows, target), *job.numbered(target.schema.primary_keys))


def _evenly(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    from pyspark.sql import functions

    return rows.hint("rebalance", *map(functions.col, job.numbered(target.schema.partition_keys)))


def _alone(rows: DataFrame, _target: WriteTarget, _job: WriteJob) -> DataFrame:
    return rows.repartition(1)


def _repartitioned(rows: DataFrame, target: WriteTarget, job: WriteJob, tasks: int) -> DataFrame:
    """By task numbers. Where Spark can, only the columns that say them leave the JVM."""
    from pyspark.sql import functions
    from pyspark.sql.types import IntegerType, StructField, StructType

    # Rows without any of these columns have their default values there, all the same; any column will do then.
    needed = job.numbered(placing_columns(target)) or [rows.columns[0]]
    placing = Placing(pickle.dumps(job), tuple(needed), tasks)
    if not _numbers_partitions():
        numbered = rows.mapInArrow(placing, StructType([*rows.schema.fields, StructField(TASK, IntegerType())]))
        return numbered.repartition(tasks, TASK)

    def number(*columns: pa.Array) -> pa.Array:
        return placing.numbers(columns)

    number.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    numbering = functions.arrow_udf(number, IntegerType())
    return rows.withColumn(TASK, numbering(*(rows[name] for name in needed))).repartitionById(tasks, TASK)


def _numbers_partitions() -> bool:
    """Whether Spark has functions over Arrow columns, and takes rows to the partition of a number: from 4.1."""
    from pyspark.sql import DataFrame, functions

    return hasattr(functions, "arrow_udf") and hasattr(DataFrame, "repartitionById")


def _parallelism(rows: DataFrame, target: WriteTarget) -> int:
    """As many tasks as run at once, unless the table says how many."""
    from pyspark.errors import PySparkException

    said = target.schema.options.get(PARALLELISM, "")
    if said.isdigit() and int(said):
        return int(said)
    try:
        return max(int(rows.sparkSession.sparkContext.defaultParallelism), 1)
    except PySparkException:
        return UNKNOWN_CORES


_SHUFFLES: Mapping[BucketMode, Callable[[DataFrame, WriteTarget, WriteJob], DataFrame]] = {
    BucketMode.UNAWARE: _evenly,
    BucketMode.FIXED: _by_place,
    BucketMode.DYNAMIC: _by_place,
    BucketMode.CROSS_PARTITION: _alone,
    BucketMode.POSTPONE: _by_key,
}
