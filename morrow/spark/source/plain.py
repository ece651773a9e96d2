"""Values that Spark carries between its processes: partitions to executors, messages back to the driver.

This module imports next to nothing: an executor's process unpickles these before its number of threads is set.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql.datasource import InputPartition, WriterCommitMessage

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's properties of the streaming query and the batch number, for tasks and for the thread that runs a batch."""


@dataclass(frozen=True, init=False)
class Piece(InputPartition):
    """A partition of a read: a `pieces.Work` in bytes, plain data that does not show where Spark prints partitions."""

    work: bytes = field(repr=False)

    def __init__(self, work: bytes) -> None:
        object.__setattr__(self, "work", work)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The message of a task that wrote.

    `run` is in the names of all files that tasks of this job wrote, `messages` is a MessagePack array of
    `CommitMessage`s, `query` the streaming query's id (None in batches).
    """

    run: str
    query: str | None
    messages: bytes = field(repr=False)
