"""Values that Spark sends between processes: partitions to executors, and messages back to the driver. Also names.

This module imports almost nothing: an executor's process unpickles the values before its thread count is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.spark.job.tasks import Tasks, use_cores_of_task
from morrow.spark.versions import InputPartition, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "morrow"
ALIAS = "paimon"
"""The second name of the format, unless a jar has registered it."""
STREAMS_BY_NAME = "morrow-streams-by-name"
"""The internal format name for streams of a catalog's tables."""

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's properties of the streaming query and the batch number, in tasks and in the thread that runs a batch."""


@dataclass(frozen=True, init=False)
class Piece(InputPartition):
    """A partition of a read: the units of one task. It holds plain data, which Spark does not print with partitions."""

    tasks: Tasks
    units: tuple[bytes, ...] = field(repr=False)

    def __init__(self, tasks: Tasks, units: Sequence[bytes]) -> None:
        object.__setattr__(self, "tasks", tasks)
        object.__setattr__(self, "units", tuple(units))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the Arrow types that Spark takes.

        Raises:
            CorruptFile, FileMissing, StorageError: a file cannot be read.
        """
        use_cores_of_task()
        from morrow.spark.job.wire import make_unit_batch

        yield from self.tasks([make_unit_batch(self.units)])


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The message of a writing task.

    `run` is part of the names of all files written by tasks of this job, `messages` is a MessagePack array of
    `CommitMessage`s, `query` the streaming query's id (None in batches).
    """

    run: str
    query: str | None
    messages: bytes = field(repr=False)
