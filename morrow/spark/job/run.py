"""The DataFrame that runs the tasks of a job.

Units of work travel as its rows: each task is sent its own units, and what all tasks share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from morrow.engine.format.murmur import hash_words
from morrow.engine.names import TASK
from morrow.spark.job.registry import Work
from morrow.spark.job.sizes import sized_for
from morrow.spark.job.tasks import Tasks
from morrow.spark.job.wire import UNITS, unit_batch
from morrow.spark.sessions import active, is_connect
from morrow.spark.versions import from_arrow
from morrow.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

INLINED = "spark.sql.execution.arrow.localRelationThreshold"
"""The setting for the bytes below which Spark plans given rows as values, divided by the number of cores. Above them
each Arrow batch is a partition."""

BATCHES_APART = Lock()
"""Held while the setting is another one than the user's."""


def run_tasks(
    spark: SparkSession,
    work: Work,
    shared: object,
    groups: Iterable[Sequence[bytes]],
    columns: StructType | str,
    size: int | None = None,
) -> DataFrame:
    """Returns a DataFrame of the results of work, `columns` of it; each group of units is one task's, taken one by one.

    `size` is that of the results in bytes, for Spark's planner, where it is known.
    """
    units = units_frame(spark, groups)
    if size is not None:
        units = sized_for(units, columns, size)
    return mapped(units, work, shared, columns)


def mapped(rows: DataFrame, work: Work, shared: object, columns: StructType | str) -> DataFrame:
    """Returns the results, `columns`, of work on the rows of each task.

    Raises:
        Unsupported: the workers' Python has no Morrow.
    """
    check_workers(rows.sparkSession)
    return rows.mapInArrow(Tasks.of(work, shared), columns)


def by_task(rows: DataFrame, number: str, tasks: int) -> DataFrame:
    """Shuffles rows to so many tasks, by the SQL of an integer whose remainder is the number of the task."""
    from pyspark.sql import functions

    # Spark partitions by the hash of an integer, so each task has an integer whose hash selects it.
    listed = ", ".join(map(str, tokens(tasks)))
    return rows.repartition(tasks, functions.expr(f"get(array({listed}), CAST(pmod({number}, {tasks}) AS INT))"))


def tokens(tasks: int) -> list[int]:
    """Returns for each task number an integer whose hash, by which Spark chooses partitions, equals it modulo `tasks`.

    Among ``tasks * (ln(tasks) + 10)`` integers there is one for every task number, except in one of 20,000 cases;
    a number without one takes any.
    """
    candidates = np.arange(int(tasks * (math.log(tasks) + 10)), dtype=np.uint32)
    ones = np.ones(len(candidates), np.int64)
    places = hash_words(candidates, np.arange(len(candidates)), ones).astype(np.int64) % tasks
    found = dict(zip(places.tolist(), candidates.tolist()))
    return [found.get(number, number) for number in range(tasks)]


def units_frame(spark: SparkSession, groups: Iterable[Sequence[bytes]]) -> DataFrame:
    """Returns units of work as a DataFrame with one partition for each group."""
    batches = [unit_batch(group) for group in groups]
    units = pa.Table.from_batches(batches, UNITS)
    if is_connect(spark):
        # The server divides given rows as it does.
        numbers = np.repeat(np.arange(len(batches), dtype=np.int32), [len(batch) for batch in batches])
        return by_task(from_arrow(spark, units.append_column(TASK, pa.array(numbers))), TASK, len(batches))
    with active(spark), _batches_apart(spark):
        return from_arrow(spark, units)


@contextmanager
def _batches_apart(spark: SparkSession) -> Iterator[None]:
    """Has Spark make a partition of each Arrow batch of rows given to it."""
    with BATCHES_APART:
        before = spark.conf.get(INLINED, None)
        spark.conf.set(INLINED, "0")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(INLINED)
            else:
                spark.conf.set(INLINED, before)
