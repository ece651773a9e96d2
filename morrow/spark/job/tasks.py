"""The tasks of a read, in the form Spark takes: a function from the numbers of tasks to rows.

This module imports little: it sets up the executor's process before Polars starts in it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.spark.job.kinds import Work

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.spark.job.sections import Job

LEAST_THREADS = 2


@dataclass(frozen=True)
class Task:
    """Encoded sections that one Spark task processes."""

    work: Work
    sections: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Tasks:
    """The function that Spark runs on batches of task numbers. `job` is a pickled `Job`, opened where the task runs."""

    job: bytes = field(repr=False)
    tasks: Sequence[Task] = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.spark.reading.work import WORKS

        job: Job = pickle.loads(self.job)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task = self.tasks[number]
                yield from WORKS[task.work](job, task.sections)


def use_cores_of_task() -> None:
    """Limits Polars to the cores of a task: it would use every core of the machine in each concurrent task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    cores = LEAST_THREADS if context is None else max(context.cpus(), LEAST_THREADS)
    os.environ.setdefault("POLARS_MAX_THREADS", str(cores))
