"""The function that Spark runs in the tasks of a job.

This module imports little: it sets up the executor's process before Polars starts in it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.spark.job.registry import Work, runner

if TYPE_CHECKING:
    import pyarrow as pa

LEAST_THREADS = 2


@dataclass(frozen=True)
class Tasks:
    """A job of one kind of work, called by each task with the batches of its rows or units.

    `shared` is what all tasks share, pickled: it is opened where a task runs.
    """

    work: Work
    shared: bytes = field(repr=False)

    @classmethod
    def of(cls, work: Work, shared: object) -> Tasks:
        return cls(work, pickle.dumps(shared))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        yield from runner(self.work)(pickle.loads(self.shared), batches)


def use_cores_of_task() -> None:
    """Limits Polars to the cores of a task: it would use every core of the machine in each concurrent task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    cores = LEAST_THREADS if context is None else max(context.cpus(), LEAST_THREADS)
    os.environ.setdefault("POLARS_MAX_THREADS", str(cores))
