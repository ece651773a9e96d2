"""The function that Spark runs in the tasks of a job, the kinds of work, and the modules that do them.

This module imports little: it sets up the executor's process before Polars starts there. The module of a kind of
work in `HOMES` is imported in the task, and has a mapping `WORKS` from its kinds to functions. They take the data
shared by all tasks of a job, and the record batches of one task.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

MIN_THREADS = 2


@dataclass(frozen=True)
class Tasks:
    """A job of one kind of work, called by each task with the batches of its rows or units.

    `shared` is the data shared by all tasks, pickled. Each task unpickles it.
    """

    work: Work
    shared: bytes = field(repr=False)

    @classmethod
    def of(cls, work: Work, shared: object) -> Tasks:
        return cls(work, pickle.dumps(shared))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_cores_of_task()
        yield from find_runner(self.work)(pickle.loads(self.shared), batches)


def use_cores_of_task() -> None:
    """Limit Polars to the cores of a task; by default it would use all cores of the machine in each concurrent task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    cores = MIN_THREADS if context is None else max(context.cpus(), MIN_THREADS)
    os.environ.setdefault("POLARS_MAX_THREADS", str(cores))


Run: TypeAlias = "Callable[[Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""A function from the shared data of a job and the batches of one task to the task's results."""


class Work(StrEnum):
    """A kind of work: its input, and its output."""

    SCAN = "scan"
    """Sections of a plan: their rows."""
    MERGE = "merge"
    """Sections of a plan: the rows of keys whose versions are combined."""
    MASKS = "masks"
    """Sections of a plan: for each file, the live rows as they are stored."""
    ENTRIES = "entries"
    """Manifests: their entries, as a plan needs them."""
    PLACES = "places"
    """Sections of a plan: their rows, with bucket, and with file and position if a row comes from a single file."""
    CHANGES = "changes"
    """Changes between snapshots: their rows."""
    WRITE = "write"
    """Rows of a DataFrame: the messages of the files written."""
    UPDATE = "update"
    """Changed rows of a table with row tracking: the messages of the files with their new versions."""
    NUMBER = "number"
    """Rows of a DataFrame: the same rows, with the task that writes each."""
    VERSIONS = "versions"
    """Changed rows and their old versions: the rows to write, so that merging them gives the result of the
    statement."""
    COMPACT = "compact"
    """Units of a compaction: the messages of the files written."""
    SPLIT = "split"
    """Files of a partition to be sorted: their rows, split by range."""
    SORT = "sort"
    """Rows split by range: the messages of the files written."""
    LIST = "list"
    """Folders: hashes of the names in them."""
    FIND = "find"
    """Folders: the files whose names have given hashes."""
    READ_FOLDER = "read folder"
    """Files of a format table: their rows."""
    WRITE_FOLDER = "write folder"
    """Rows of a DataFrame: the files of a format table written."""


HOMES: Mapping[Work, str] = {
    Work.SCAN: "morrow.spark.reading.tasks",
    Work.MERGE: "morrow.spark.reading.tasks",
    Work.MASKS: "morrow.spark.reading.tasks",
    Work.PLACES: "morrow.spark.reading.tasks",
    Work.ENTRIES: "morrow.spark.reading.manifests",
    Work.CHANGES: "morrow.spark.source.partitions",
    Work.WRITE: "morrow.spark.writing.tasks",
    Work.UPDATE: "morrow.spark.writing.tasks",
    Work.NUMBER: "morrow.spark.writing.tasks",
    Work.VERSIONS: "morrow.spark.writing.tasks",
    Work.COMPACT: "morrow.spark.maintenance.compaction_tasks",
    Work.SPLIT: "morrow.spark.maintenance.compaction_tasks",
    Work.SORT: "morrow.spark.maintenance.compaction_tasks",
    Work.LIST: "morrow.spark.maintenance.orphan_files",
    Work.FIND: "morrow.spark.maintenance.orphan_files",
    Work.READ_FOLDER: "morrow.spark.format_table_tasks",
    Work.WRITE_FOLDER: "morrow.spark.format_table_tasks",
}


def find_runner(work: Work) -> Run:
    """Return the function that does a kind of work."""
    run: Run = import_module(HOMES[work]).WORKS[work]
    return run
