"""The tasks of a compaction, as passed to Spark: units of work go in by their numbers, messages come back.

This module imports little: it sets up the executor's process before Polars starts in it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.spark.job.tasks import use_cores_of_task

if TYPE_CHECKING:
    import pyarrow as pa

    from morrow.spark.maintenance.compaction_units import CompactionJob


@dataclass(frozen=True)
class CompactionTasks:
    """Compacts units. `job` is a pickled `CompactionJob`; each task has encoded units."""

    job: bytes = field(repr=False)
    tasks: Sequence[tuple[bytes, ...]] = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.spark.maintenance.compaction_work import compacted

        job: CompactionJob = pickle.loads(self.job)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from compacted(job, self.tasks[number])


@dataclass(frozen=True)
class PieceTasks:
    """Reads files to be sorted and splits their rows by range. `job` is a pickled `SortJob`."""

    job: bytes = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.spark.maintenance.sort_work import pieces

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from pieces(pickle.loads(self.job), number)


@dataclass(frozen=True)
class SortTasks:
    """Sorts and writes the pieces of groups, which arrive one group after another. `job` is a pickled `SortJob`."""

    job: bytes = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        from morrow.spark.maintenance.sort_work import written

        yield from written(pickle.loads(self.job), batches)
