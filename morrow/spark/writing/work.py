"""The work of the tasks of a write: rows in, files written, messages out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row_encode import hash_rows
from morrow.engine.names import TASK
from morrow.engine.values import replace
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.results import attempt_name, result
from morrow.spark.job.table import TableAccess
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.buckets.fixed import FixedRouter
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.rows import incoming
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class WriteJob:
    """What all tasks of a write share.

    Args:
        columns: the names of the columns of the rows, which are named by their numbers in Spark: there, dots in names
            have another meaning.
        kinds: as for `TableWriter.write`, one for all rows or the name of a column.
        overwrite: ignore the contents of the table.
        compact: fully compact every bucket that is written to.
        adds: only add files: the commit replaces some that a compaction could choose.
    """

    table: TableAccess
    columns: tuple[str, ...]
    kinds: str | None = None
    overwrite: bool = False
    compact: bool = False
    adds: bool = False

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the columns in Spark."""
        return tuple(f"c{number}" for number in range(len(self.columns)))

    def numbered(self, names: Sequence[str]) -> list[str]:
        """Returns the names in Spark of those of these columns that exist."""
        called = dict(zip(self.columns, self.numbers))
        return [called[name] for name in names if name in called]


@dataclass(frozen=True)
class NumberJob:
    """What all tasks share that compute the task of each row: the write, and the number of its tasks."""

    write: WriteJob
    tasks: int


def write(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes these rows and yields the result as one row of `morrow.spark.job.results`; nothing without rows.

    Errors of rows that the table rejects are results as well.
    """
    rows = (batch.rename_columns(list(job.columns)) for batch in batches)
    first = next(rows, None)
    if first is None:
        return
    attempt = attempt_name()
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], rows))
    target = job.table.attempt(attempt)
    yield result(attempt, partial(_written, job, target, reader), final=(InvalidArgument, Unsupported))


def _written(job: WriteJob, target: WriteTarget, rows: pa.RecordBatchReader) -> list[CommitMessage]:
    if job.adds:
        target = replace(target, write=replace(target.write, write_only=True))
    writer = TableWriter(target, overwrite=job.overwrite)
    try:
        writer.write(rows, job.kinds)
        if job.compact:
            writer.compact_written()
        return writer.prepare_commit()
    finally:
        writer.close()


def number(job: NumberJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows with the task of each as a last column (Int32): rows of one partition and bucket have the same.

    As in Java, the buckets of a partition go to consecutive tasks; the partition's hash selects the first.
    """
    target = job.write.table.target()
    for batch in batches:
        numbers = pa.array(_task_numbers(job, target, batch))
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, TASK])


def _task_numbers(job: NumberJob, target: WriteTarget, batch: pa.RecordBatch) -> np.ndarray:
    needed = partitioning_columns(target)
    called = dict(zip(job.write.columns, job.write.numbers))
    # Without these columns, all rows have the same default values; any column will do then.
    given = [name for name in needed if name in called] or job.write.columns[:1]
    data = pa.table({name: batch.column(called[name]) for name in given})
    try:
        frames = list(incoming(target, data, columns=needed, partial=True))
    except InvalidArgument:  # the task that has to write such a row raises it
        frames = []
    rows = pl.concat(frames) if frames else None
    if rows is None or rows.height != data.num_rows:
        return np.zeros(data.num_rows, np.int32)
    numbers = np.zeros(rows.height, np.int64)
    if fields := target.partition_fields:
        numbers += np.abs(hash_rows([rows[f.name] for f in fields], [f.type for f in fields]).astype(np.int64))
    if bucket_mode(target) is BucketMode.FIXED:
        numbers += FixedRouter(target).buckets(rows)
    return (numbers % job.tasks).astype(np.int32)


def partitioning_columns(target: WriteTarget) -> tuple[str, ...]:
    """Returns the columns that determine the partition and bucket of a row."""
    names = target.schema.partition_keys
    if bucket_mode(target) is BucketMode.FIXED:
        names = (*names, *(target.options.bucket_key or target.schema.trimmed_primary_keys))
    return tuple(dict.fromkeys(names))


WORKS: Mapping[Work, Run] = {Work.WRITE: write, Work.NUMBER: number}
