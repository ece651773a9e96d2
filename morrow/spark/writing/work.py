"""The work of a task of a write: rows in, files written, messages out."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row_encode import hash_rows
from morrow.spark.job.payload import WriteJob
from morrow.spark.job.results import failed, finished
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.buckets.fixed import FixedRouter
from morrow.writers.commit.attempt_log import recorded
from morrow.writers.rows import incoming
from morrow.writers.table_writer import TableWriter
from morrow.writers.target import WriteTarget


def written(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes these rows and yields the result as one row of `morrow.spark.job.results`; nothing without rows.

    Errors of rows that the table rejects are results as well: another attempt would fail in the same way.
    """
    rows = (batch.rename_columns(list(job.columns)) for batch in batches)
    first = next(rows, None)
    if first is None:
        return
    attempt = attempt_name()
    target = job.target(recorded(job.store(), job.attempt_log, attempt))
    writer = TableWriter(target, overwrite=job.overwrite)
    try:
        writer.write(pa.RecordBatchReader.from_batches(first.schema, chain([first], rows)), job.kinds)
        if job.compact:
            writer.compact_written()
        yield finished(attempt, writer.prepare_commit())
    except (InvalidArgument, Unsupported) as error:
        yield failed(attempt, error)
    finally:
        writer.close()


def task_numbers(pickled: bytes, columns: Mapping[str, pa.Array], tasks: int) -> pa.Array:
    """Returns the task of each row, from columns by number: rows of one partition and bucket have the same.

    As in Java, the buckets of a partition go to consecutive tasks; the partition's hash selects the first.
    """
    job, target = _placing(pickled)
    data = pa.table({name: columns[number] for name, number in zip(job.columns, job.numbers) if number in columns})
    try:
        frames = list(incoming(target, data, columns=partitioning_columns(target), partial=True))
    except InvalidArgument:  # the task that has to write such a row raises it
        frames = []
    rows = pl.concat(frames) if frames else None
    if rows is None or rows.height != data.num_rows:
        return pa.array(np.zeros(data.num_rows, np.int32))
    numbers = np.zeros(rows.height, np.int64)
    if fields := target.partition_fields:
        numbers += np.abs(hash_rows([rows[f.name] for f in fields], [f.type for f in fields]).astype(np.int64))
    if bucket_mode(target) is BucketMode.FIXED:
        numbers += FixedRouter(target).buckets(rows)
    return pa.array((numbers % tasks).astype(np.int32))


@lru_cache(maxsize=8)
def _placing(pickled: bytes) -> tuple[WriteJob, WriteTarget]:
    """Returns a job and its table: cached, since the rows of a task arrive in many batches."""
    job: WriteJob = pickle.loads(pickled)
    return job, job.target(job.store())


def partitioning_columns(target: WriteTarget) -> tuple[str, ...]:
    """Returns the columns that determine the partition and bucket of a row."""
    names = target.schema.partition_keys
    if bucket_mode(target) is BucketMode.FIXED:
        names = (*names, *(target.options.bucket_key or target.schema.trimmed_primary_keys))
    return tuple(dict.fromkeys(names))


def attempt_name() -> str:
    """Returns a name that is unique among the attempts of all tasks of the application."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "driver" if context is None else f"{context.stageId()}.{context.partitionId()}.{context.taskAttemptId()}"
