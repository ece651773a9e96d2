"""What the tasks of a job give back that writes, and how the driver takes it: all of it, or none.

Of a task that Spark runs several times the result of one attempt counts. The ledger finds the files of all others, and
those of the whole job when something is wrong.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.errors import MorrowError
from morrow.writers.messages import CommitMessage
from morrow.writers.spark.ledger import Ledger
from morrow.writers.spark.payload import decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

RESULT = "attempt string, messages binary, error binary"
"""One row of a task: what it has written as encoded messages, or the error (pickled) that says what is wrong."""
_SCHEMA = pa.schema([("attempt", pa.string()), ("messages", pa.binary()), ("error", pa.binary())])

UNKNOWN_CORES = 8
"""Where a session does not tell how many tasks run at once (Spark Connect)."""


def finished(attempt: str, messages: Sequence[CommitMessage]) -> pa.RecordBatch:
    """The row of a task that has written these."""
    return pa.RecordBatch.from_pylist([{"attempt": attempt, "messages": encoded(messages)}], _SCHEMA)


def failed(attempt: str, error: MorrowError) -> pa.RecordBatch:
    """The row of a task that no further attempt would make better."""
    return pa.RecordBatch.from_pylist([{"attempt": attempt, "error": pickle.dumps(error)}], _SCHEMA)


def run(ledger: Ledger, frame: Callable[[], DataFrame]) -> list[CommitMessage]:
    """Run a job, a DataFrame of `RESULT`, whose tasks write through `ledger`. Only the files of the messages stay.

    Raises:
        MorrowError: what the first task tells of that failed so. Spark's own errors, when a task failed too often.
    """
    taken: list[str] = []
    ledger.begin()
    try:
        rows = frame().collect()
        error = next((bytes(row.error) for row in rows if row.error), None)
        taken = [] if error else [row.attempt for row in rows]
    finally:
        ledger.close(taken)
    if error is not None:
        raise pickle.loads(error)
    return [message for row in rows for message in decoded(bytes(row.messages))]


def cores(spark: SparkSession) -> int:
    """How many tasks run at once."""
    from pyspark.errors import PySparkException

    try:
        return max(int(spark.sparkContext.defaultParallelism), 1)
    except PySparkException:
        return UNKNOWN_CORES
