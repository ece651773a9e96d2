"""The tasks of a write, as Spark is given them: rows go to a `TableWriter`, messages come back.

This module imports little: it sets up the executor's process before Polars starts in it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.readers.spark.tasks import use_cores_of_task

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.writers.spark.payload import WriteJob


@dataclass(frozen=True)
class WriteTasks:
    """Writes the rows of a partition of Spark's. `job` is a pickled `WriteJob`, opened where the task runs."""

    job: bytes = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.writers.spark.work import written

        job: WriteJob = pickle.loads(self.job)
        yield from written(job, batches)


@dataclass(frozen=True)
class Placing:
    """The number of the task that writes each row, where Spark cannot work it out, from the columns that say it."""

    job: bytes = field(repr=False)
    columns: tuple[str, ...]
    tasks: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with the numbers as a last column (Int32)."""
        use_cores_of_task()
        import pyarrow as pa

        from morrow.writers.spark.work import task_numbers

        for batch in batches:
            numbers = task_numbers(self.job, {name: batch.column(name) for name in self.columns}, self.tasks)
            yield pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, TASK])


TASK = "__morrow_task"
"""The column that tells which task writes a row."""
