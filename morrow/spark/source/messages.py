"""Values that Spark carries between its processes: partitions to executors, messages back to the driver; names.

This module imports next to nothing: an executor's process unpickles these before its number of threads is set.
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
"""The names of the format; the second unless a jar has it."""
STREAMS_BY_NAME = "morrow-streams-by-name"
"""The name of the format of streams of a catalog's tables, which nobody else needs."""

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's properties of the streaming query and the batch number, for tasks and for the thread that runs a batch."""


@dataclass(frozen=True, init=False)
class Piece(InputPartition):
    """A partition of a read: the units of one task, plain data that does not show where Spark prints partitions."""

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
    """The message of a task that wrote.

    `run` is in the names of all files that tasks of this job wrote, `messages` is a MessagePack array of
    `CommitMessage`s, `query` the streaming query's id (None in batches).
    """

    run: str
    query: str | None
    messages: bytes = field(repr=False)
