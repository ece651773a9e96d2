"""The tasks of a write, as passed to Spark: rows go to a `TableWriter`, messages come back.

This module imports little: it sets up the executor's process before Polars starts in it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.engine.names import TASK
from morrow.spark.job.tasks import use_cores_of_task

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.spark.job.payload import WriteJob


@dataclass(frozen=True)
class WriteTasks:
    """Writes the rows of a Spark partition. `job` is a pickled `WriteJob`, opened where the task runs."""

    job: bytes = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.spark.writing.work import written

        job: WriteJob = pickle.loads(self.job)
        yield from written(job, batches)


@dataclass(frozen=True)
class Partitioning:
    """Computes the task of each row, where Spark cannot, from the columns that determine it."""

    job: bytes = field(repr=False)
    columns: tuple[str, ...]
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches with the numbers as a last column (Int32)."""
        use_cores_of_task()
        import pyarrow as pa

        from morrow.spark.writing.work import task_numbers

        for batch in batches:
            numbers = task_numbers(self.job, {name: batch.column(name) for name in self.columns}, self.tasks)
            yield pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, TASK])
