"""Execution of jobs: the DataFrame that runs tasks, and the check that workers can import Morrow.

Units of work are the rows of the DataFrame: each task gets its own units, and the data shared by all tasks.
Spark starts the ``python3`` on the path unless PYSPARK_PYTHON or ``spark.pyspark.python`` name another one. In
local mode the driver's Python is used; on a cluster, a short job checks the executors once.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row_encoder import hash_words
from morrow.engine.names import TASK
from morrow.engine.redaction import clean_text
from morrow.spark.dataframes import set_mapped_size
from morrow.spark.job.tasks import Tasks, Work
from morrow.spark.job.wire import UNITS, make_unit_batch
from morrow.spark.sessions import is_connect, use_session
from morrow.spark.versions import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

INLINE_SETTING = "spark.sql.execution.arrow.localRelationThreshold"
"""The setting for the size in bytes below which Spark plans given rows as values, divided by the cores. Above,
each Arrow batch is a partition."""

INLINE_LOCK = Lock()
"""A lock that is held while the setting differs from the user's value."""


def run_tasks(
    spark: SparkSession,
    work: Work,
    shared: object,
    groups: Iterable[Sequence[bytes]],
    columns: StructType | str,
    size: int | None = None,
) -> DataFrame:
    """Return a DataFrame with the results of work, `columns`. Each task processes one group of units, one by one.

    `size`: the size of the results in bytes for Spark's planner, if known.
    """
    units = make_units_frame(spark, groups)
    if size is not None:
        units = set_mapped_size(units, columns, size)
    return map_rows(units, work, shared, columns)


def map_rows(rows: DataFrame, work: Work, shared: object, columns: StructType | str) -> DataFrame:
    """Return a DataFrame with the results, `columns`, of work on the rows of each task.

    Raises `Unsupported`: the workers' Python cannot import Morrow.
    """
    check_workers(rows.sparkSession)
    return rows.mapInArrow(Tasks.of(work, shared), columns)


def shuffle_by_task(rows: DataFrame, number: str, tasks: int) -> DataFrame:
    """Shuffle rows to `tasks` tasks. `number` is SQL for an integer; its remainder is the number of the row's task."""
    from pyspark.sql import functions

    # Spark partitions by the hash of an integer, so each task gets an integer whose hash selects it.
    listed = ", ".join(map(str, find_tokens(tasks)))
    return rows.repartition(tasks, functions.expr(f"get(array({listed}), CAST(pmod({number}, {tasks}) AS INT))"))


def find_tokens(tasks: int) -> list[int]:
    """Return for each task number an integer whose hash, by which Spark chooses partitions, equals it modulo `tasks`.

    Among ``tasks * (ln(tasks) + 10)`` integers there is one for every task number, except in one case of 20,000;
    a task number without one gets any integer.
    """
    candidates = np.arange(int(tasks * (math.log(tasks) + 10)), dtype=np.uint32)
    ones = np.ones(len(candidates), np.int64)
    places = hash_words(candidates, np.arange(len(candidates)), ones).astype(np.int64) % tasks
    found = dict(zip(places.tolist(), candidates.tolist()))
    return [found.get(number, number) for number in range(tasks)]


def make_units_frame(spark: SparkSession, groups: Iterable[Sequence[bytes]]) -> DataFrame:
    """Return units of work as a DataFrame with one partition for each group."""
    batches = [make_unit_batch(group) for group in groups]
    units = pa.Table.from_batches(batches, UNITS)
    if is_connect(spark):
        # Spark Connect: the server divides given rows by its own rules.
        numbers = np.repeat(np.arange(len(batches), dtype=np.int32), [len(batch) for batch in batches])
        return shuffle_by_task(from_arrow(spark, units.append_column(TASK, pa.array(numbers))), TASK, len(batches))
    with use_session(spark), _split_batches(spark):
        return from_arrow(spark, units)


@contextmanager
def _split_batches(spark: SparkSession) -> Iterator[None]:
    """Make Spark create one partition for each Arrow batch of given rows."""
    with INLINE_LOCK:
        before = spark.conf.get(INLINE_SETTING, None)
        spark.conf.set(INLINE_SETTING, "0")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(INLINE_SETTING)
            else:
                spark.conf.set(INLINE_SETTING, before)


VARIABLE, SETTING = "PYSPARK_PYTHON", "spark.pyspark.python"
LOCAL = ("local", "local[")
"""Prefixes of masters whose executors run in the driver's process; ``local-cluster[...]`` starts other processes."""

REMEDY = "set PYSPARK_PYTHON to a Python with Morrow before the session starts, or start it by morrow.spark.session"

NEEDED = ("morrow", "pyarrow", "polars", "msgspec")
"""Packages that every task imports. In a checkout, Morrow itself may be found without the others."""

_CHECKED: WeakSet[Any] = WeakSet()
"""The contexts whose workers have passed the check."""


def check_workers(spark: SparkSession) -> None:
    """Make the workers of a session in local mode run this Python, unless the user has chosen one.

    Raises `Unsupported`: they run a Python of another version, or one that cannot import Morrow.
    """
    if is_connect(spark) or spark.sparkContext in _CHECKED:
        return
    context: Any = spark.sparkContext
    if is_local(spark) and not (bool(os.environ.get(VARIABLE)) or context.getConf().get(SETTING, None) is not None):
        context.pythonExec = sys.executable
    if context.pythonExec != sys.executable:
        _ask(context)
    _CHECKED.add(context)


def is_local(spark: SparkSession) -> bool:
    """Return whether the executors run in the driver's process; False for Spark Connect."""
    master: str = cast("Any", spark.sparkContext).master
    return master == LOCAL[0] or master.startswith(LOCAL[1])


def _ask(context: Any) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        found = context.parallelize([0], 1).mapPartitions(_make_probe()).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise Unsupported(
            f"the workers' Python, {context.pythonExec} ({_find_error_line(error)}),", hint=REMEDY
        ) from error
    if found:
        missing = "Morrow" if found[0] == NEEDED[0] else found[0]
        raise Unsupported(f"the workers' Python, {context.pythonExec}, without {missing}", hint=REMEDY)


def _make_probe() -> Callable[[Iterator[int]], list[str]]:
    """Return a function that is pickled by value: the workers might be unable to import a function of this module."""
    names = NEEDED

    def look(_rows: Iterator[int]) -> list[str]:
        from importlib.util import find_spec

        return [name for name in names if find_spec(name) is None]

    return look


def _find_error_line(error: Exception) -> str:
    """Return the worker's error message: the line above the JVM's own stack trace."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "...", "File ", "Traceback"))]
    python = [line for line in said if "Error" in line and not line.startswith("py4j")]
    return clean_text((python or said or [type(error).__name__])[-1])
