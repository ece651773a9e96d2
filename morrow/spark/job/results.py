"""The results of the tasks of a writing job, and their collection by the driver: all of them, or none.

If Spark runs a task several times, the result of one attempt counts. The attempt log finds the files of all others, and
those of the whole job after an error.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.errors import MorrowError
from morrow.spark.job.payload import decoded, encoded
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.messages import CommitMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

RESULT = "attempt string, messages binary, error binary"
"""One row of a task: its messages, encoded, or the error (pickled)."""
_SCHEMA = pa.schema([("attempt", pa.string()), ("messages", pa.binary()), ("error", pa.binary())])

UNKNOWN_CORES = 8
"""The number of tasks assumed to run at once where a session does not report it (Spark Connect)."""


def finished(attempt: str, messages: Sequence[CommitMessage]) -> pa.RecordBatch:
    """Returns the row of a task that has written these messages."""
    return pa.RecordBatch.from_pylist([{"attempt": attempt, "messages": encoded(messages)}], _SCHEMA)


def failed(attempt: str, error: MorrowError) -> pa.RecordBatch:
    """Returns the row of a task whose error another attempt would not avoid."""
    return pa.RecordBatch.from_pylist([{"attempt": attempt, "error": pickle.dumps(error)}], _SCHEMA)


def run(attempt_log: AttemptLog, frame: Callable[[], DataFrame]) -> list[CommitMessage]:
    """Runs a job, a DataFrame of `RESULT`, whose tasks write through `attempt_log`. Only files of the messages stay.

    Raises:
        MorrowError: the error of the first task that returned one. Spark's own errors, when a task failed too often.
    """
    taken: list[str] = []
    attempt_log.begin()
    try:
        rows = frame().collect()
        error = next((bytes(row.error) for row in rows if row.error), None)
        taken = [] if error else [row.attempt for row in rows]
    finally:
        attempt_log.close(taken)
    if error is not None:
        raise pickle.loads(error)
    return [message for row in rows for message in decoded(bytes(row.messages))]


def cores(spark: SparkSession) -> int:
    """Returns the number of tasks that run at once."""
    from pyspark.errors import PySparkException

    try:
        return max(int(spark.sparkContext.defaultParallelism), 1)
    except PySparkException:
        return UNKNOWN_CORES
