"""The results of the tasks of a writing job, and their collection by the driver: all of them, or none.

If Spark runs a task several times, the result of one attempt counts. The attempt log finds the files of all others, and
those of the whole job after an error.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.errors import MorrowError, StorageError
from morrow.spark.job.wire import encoded, messages_in
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.commit.messages import CommitMessage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESULT = "attempt string, messages binary, error binary"
"""One row of a task: its messages, encoded, or the error (pickled)."""
_SCHEMA = pa.schema([("attempt", pa.string()), ("messages", pa.binary()), ("error", pa.binary())])


def result(
    attempt: str, write: Callable[[], Iterable[CommitMessage]], final: tuple[type[MorrowError], ...] = (MorrowError,)
) -> pa.RecordBatch:
    """Returns the row of a task that writes these messages.

    `final` errors are results as well: another attempt would fail in the same way. After errors of the store it may
    succeed.
    """
    try:
        return _row(attempt, messages=encoded(list(write())))
    except StorageError:
        raise
    except final as error:
        return _row(attempt, error=pickle.dumps(error))


def is_error(row: pa.RecordBatch) -> bool:
    return bool(row.column("error")[0].is_valid)


def _row(attempt: str, **values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"attempt": attempt, **values}], _SCHEMA)


def attempt_name() -> str:
    """Returns a name that is unique among the attempts of all tasks of the application."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "driver" if context is None else f"{context.stageId()}.{context.partitionId()}.{context.taskAttemptId()}"


def collected(attempt_log: AttemptLog, frame: Callable[[], DataFrame]) -> list[CommitMessage]:
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
    return [message for row in rows for message in messages_in(bytes(row.messages))]
