"""Which task writes which rows, by the mode of buckets of the table."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.murmur import hash_words
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.buckets.fixed import FixedRouter
from morrow.writers.spark.bucket_sql import bucket_sql
from morrow.writers.spark.payload import WriteJob
from morrow.writers.spark.results import cores
from morrow.writers.spark.tasks import TASK, Placing
from morrow.writers.spark.work import placing_columns
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARALLELISM = "sink.parallelism"
"""The table option by which users say how many tasks write."""


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
    """By task numbers: as in Java, the buckets of a partition go to one task after the other."""
    from pyspark.sql import functions

    number = _number_sql(rows, target, job)
    if number is None:
        rows, number = _numbered(rows, target, job, tasks), TASK
    # Spark sends rows where the hash of an integer says: to each task by one that is sent there.
    listed = ", ".join(map(str, tokens(tasks)))
    return rows.repartition(tasks, functions.expr(f"get(array({listed}), CAST(pmod({number}, {tasks}) AS INT))"))


def _number_sql(rows: DataFrame, target: WriteTarget, job: WriteJob) -> str | None:
    """A number that rows of one partition and bucket share, as SQL; None where Spark cannot work it out."""
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


def _numbered(rows: DataFrame, target: WriteTarget, job: WriteJob, tasks: int) -> DataFrame:
    """The rows with the number of the task of each in the column `TASK`, by a visit to Python."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    # Rows without any of these columns have their default values there, all the same; any column will do then.
    needed = job.numbered(placing_columns(target)) or [rows.columns[0]]
    placing = Placing(pickle.dumps(job), tuple(needed), tasks)
    return rows.mapInArrow(placing, StructType([*rows.schema.fields, StructField(TASK, IntegerType())]))


def tokens(tasks: int) -> list[int]:
    """For each number of a task an integer whose hash, by which Spark chooses among partitions, is that modulo tasks.

    Of ``tasks * (ln(tasks) + 10)`` integers all but one in 20,000 times have one; for what lacks one any will do.
    """
    candidates = np.arange(int(tasks * (math.log(tasks) + 10)), dtype=np.uint32)
    ones = np.ones(len(candidates), np.int64)
    places = hash_words(candidates, np.arange(len(candidates)), ones).astype(np.int64) % tasks
    found = dict(zip(places.tolist(), candidates.tolist()))
    return [found.get(number, number) for number in range(tasks)]


def _parallelism(rows: DataFrame, target: WriteTarget) -> int:
    """As many tasks as run at once, unless the table says how many."""
    said = target.schema.options.get(PARALLELISM)
    if said is None:
        return cores(rows.sparkSession)
    if not said.isascii() or not said.isdigit() or int(said) < 1:
        raise InvalidArgument(
            f"{target.where}: the option {PARALLELISM!r} is {said!r}; it is a number of tasks, from 1 on"
        )
    return int(said)


_SHUFFLES: Mapping[BucketMode, Callable[[DataFrame, WriteTarget, WriteJob], DataFrame]] = {
    BucketMode.UNAWARE: _evenly,
    BucketMode.FIXED: _by_place,
    BucketMode.DYNAMIC: _by_place,
    BucketMode.CROSS_PARTITION: _alone,
    BucketMode.POSTPONE: _by_key,
}
