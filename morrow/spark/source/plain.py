"""What Spark carries between its processes: partitions to executors, messages back to the driver.

This module imports next to nothing: an executor's process opens these before it is told how many threads to use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql.datasource import InputPartition, WriterCommitMessage

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""Where Spark tells tasks, and the thread that runs a batch, the streaming query and the number of the batch."""


@dataclass(frozen=True, init=False)
class Piece(InputPartition):
    """Part of a read, as `pieces.Work` in bytes: plain data, and nothing of it where Spark prints partitions."""

    work: bytes = field(repr=False)

    def __init__(self, work: bytes) -> None:
        object.__setattr__(self, "work", work)


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task wrote.

    `run` is in the names of all files that tasks of this job wrote, `messages` is a MessagePack array of
    `CommitMessage`s, `query` the streaming query's id (None in batches).
    """

    run: str
    query: str | None
    messages: bytes = field(repr=False)
