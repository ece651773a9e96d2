"""The distribution of rows over tasks, by the bucket mode of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from morrow.engine.names import TASK
from morrow.engine.options.declared.flink import SINK_PARALLELISM
from morrow.spark.job.registry import Work
from morrow.spark.job.run import by_task, mapped
from morrow.spark.sessions import cores
from morrow.spark.versions import rebalanced
from morrow.spark.writing.bucket_sql import bucket_sql
from morrow.spark.writing.work import NumberJob, WriteJob
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.buckets.fixed import FixedRouter
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def shuffled(rows: DataFrame, target: WriteTarget, job: WriteJob) -> DataFrame:
    """Returns the rows, columns by number, so that no two tasks write to one bucket; a column `TASK` may be added.

    =================  ====================================================================================
    fixed buckets      by partition and bucket
    dynamic buckets    by partition: one task assigns the buckets of a partition
    cross-partition    all rows to one task, which knows the place of every key
    postponed          by key, so that one task has all versions of a key
    partition's own    by partition: one task writes all buckets of a partition
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
    return rebalanced(rows, job.numbered(target.schema.partition_keys))


def _alone(rows: DataFrame, _target: WriteTarget, _job: WriteJob) -> DataFrame:
    return rows.repartition(1)


def _repartitioned(rows: DataFrame, target: WriteTarget, job: WriteJob, tasks: int) -> DataFrame:
    """Repartitions by task numbers: as in Java, the buckets of a partition go to consecutive tasks."""
    number = _number_sql(rows, target, job)
    if number is None:
        rows, number = _numbered(rows, job, tasks), TASK
    return by_task(rows, number, tasks)


def _number_sql(rows: DataFrame, target: WriteTarget, job: WriteJob) -> str | None:
    """Returns SQL for a number shared by rows of one partition and bucket; None where Spark cannot compute it."""
    called = dict(zip(job.columns, job.numbers))
    bucket: str | None = "0"
    if bucket_mode(target) is BucketMode.FIXED:
        bucket = bucket_sql(FixedRouter(target), called, rows.schema)
    fields = target.partition_fields
    if bucket is None or any(f.name not in called or f.default_value is not None for f in fields):
        return None
    if not fields:
        return bucket
    return f"(CAST(hash({', '.join(called[f.name] for f in fields)}) AS BIGINT) + {bucket})"


def _numbered(rows: DataFrame, job: WriteJob, tasks: int) -> DataFrame:
    """Returns the rows with their task numbers in the column `TASK`, computed in Python."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    columns = StructType([*rows.schema.fields, StructField(TASK, IntegerType())])
    return mapped(rows, Work.NUMBER, NumberJob(job, tasks), columns)


def _parallelism(rows: DataFrame, target: WriteTarget) -> int:
    """Returns the number of tasks that run at once, unless the table sets the number of tasks."""
    tasks = target.options.given.get(SINK_PARALLELISM)
    if tasks is not None and tasks < 1:
        raise target.options.given.refused(SINK_PARALLELISM, "it is a number of tasks, from 1 on")
    return cores(rows.sparkSession) if tasks is None else tasks


_SHUFFLES: Mapping[BucketMode, Callable[[DataFrame, WriteTarget, WriteJob], DataFrame]] = {
    BucketMode.UNAWARE: _evenly,
    BucketMode.FIXED: _by_place,
    BucketMode.DYNAMIC: _by_place,
    BucketMode.CROSS_PARTITION: _alone,
    BucketMode.POSTPONE: _by_key,
    BucketMode.PARTITION_BUCKETS: _by_place,
}
