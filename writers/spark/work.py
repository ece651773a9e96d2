"""What a task of a write does: rows in, files written, messages out."""

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
from morrow.writers.buckets import BucketMode, bucket_mode
from morrow.writers.buckets.fixed import FixedRouter
from morrow.writers.rows import incoming
from morrow.writers.spark.ledger import recorded
from morrow.writers.spark.payload import WriteJob
from morrow.writers.spark.results import failed, finished
from morrow.writers.table_writer import TableWriter
from morrow.writers.target import WriteTarget


def written(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write these rows and tell of it in one row, as `morrow.writers.spark.results` has it; no rows, none.

    Rows that the table does not take are told as well: no further attempt would make them better.
    """
    rows = (batch.rename_columns(list(job.columns)) for batch in batches)
    first = next(rows, None)
    if first is None:
        return
    attempt = attempt_name()
    target = job.target(recorded(job.store(), job.ledger, attempt))
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
    """The task of each row, from columns by their numbers: rows of one partition and bucket have the same.

    As in Java, the buckets of a partition go to one task after the other, from one that the partition's hash says.
    """
    job, target = _placing(pickled)
    data = pa.table({name: columns[number] for name, number in zip(job.columns, job.numbers) if number in columns})
    try:
        frames = list(incoming(target, data, columns=placing_columns(target), partial=True))
    except InvalidArgument:  # the task that has to write such a row says so
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
    """A job and its table: kept, since the rows of a task come in many batches."""
    job: WriteJob = pickle.loads(pickled)
    return job, job.target(job.store())


def placing_columns(target: WriteTarget) -> tuple[str, ...]:
    """The columns that say which partition and bucket a row belongs to."""
    names = target.schema.partition_keys
    if bucket_mode(target) is BucketMode.FIXED:
        names = (*names, *(target.options.bucket_key or target.schema.trimmed_primary_keys))
    return tuple(dict.fromkeys(names))


def attempt_name() -> str:
    """What tells this attempt of a task from every other of the application."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "driver" if context is None else f"{context.stageId()}.{context.partitionId()}.{context.taskAttemptId()}"
