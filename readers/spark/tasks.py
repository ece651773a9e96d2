"""The tasks of a read, as Spark is given them: a function from the numbers of tasks to rows.

This module imports little: it sets up the executor's process before Polars starts in it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.readers.spark.payload import Job

LEAST_THREADS = 2


class Work(StrEnum):
    """What is made of sections."""

    ROWS = "rows"
    """All their rows."""
    MERGED = "merged"
    """The rows of keys whose versions are combined."""
    MASKS = "masks"
    """For each file, the rows that are rows of the table as they are stored."""


@dataclass(frozen=True)
class Task:
    """Encoded sections that one task of Spark's works on."""

    work: Work
    sections: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Tasks:
    """What Spark runs on batches of task numbers. `job` is a pickled `Job`, opened where the task runs."""

    job: bytes = field(repr=False)
    tasks: Sequence[Task] = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.readers.spark.work import WORKS

        job: Job = pickle.loads(self.job)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task = self.tasks[number]
                yield from WORKS[task.work](job, task.sections)


def use_cores_of_task() -> None:
    """Polars would use every core of the machine in each of the tasks that run beside one another."""
    from pyspark import TaskContext

    context = TaskContext.get()
    cores = LEAST_THREADS if context is None else max(context.cpus(), LEAST_THREADS)
    os.environ.setdefault("POLARS_MAX_THREADS", str(cores))
