"""The work of the tasks of a divided sort: splits the rows of files by range; sorts and writes ranges."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import polars as pl
import pyarrow as pa

from morrow.engine.errors import MorrowError, StorageError
from morrow.spark.job.results import failed, finished
from morrow.spark.maintenance.sort_job import GROUP, PIECE, RANGE, ROWS, SortJob
from morrow.spark.writing.work import attempt_name
from morrow.writers.append.sort_compaction import Sorter, ranges_apart, stored_rows, write_sorted
from morrow.writers.commit.attempt_log import recorded
from morrow.writers.messages import CommitMessage
from morrow.writers.restored import BucketState
from morrow.writers.target import WriteTarget

Piece: TypeAlias = tuple[int, int, bytes]
"""The group, the range, and the rows."""

_SCHEMA = pa.schema([(GROUP, pa.int32()), (RANGE, pa.int32()), (PIECE, pa.int64()), (ROWS, pa.binary())])
FAILED = -1
"""The range, sorted before all others of a group, whose rows are the error (pickled) of the task that read a file."""
FILE_BITS = 32
"""The bits of a piece's number below its file, for the batch of rows in it: the order of equal rows."""


def pieces(job: SortJob, number: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one file, split by range, or its error. Spark retries after errors of the store."""
    part, file = job.files[number]
    groups = job.parts[part].groups
    try:
        for chosen, batch, rows in _ranges(job, part, file):
            yield _piece(groups[chosen], chosen, (file << FILE_BITS) + batch, _packed(rows))
    except StorageError:
        raise
    except MorrowError as error:
        yield _piece(groups[0], FAILED, file << FILE_BITS, pickle.dumps(error))


def _ranges(job: SortJob, part: int, file: int) -> Iterator[tuple[int, int, pl.DataFrame]]:
    """Yields the number of a range, the number of a batch of the file, and the rows of both."""
    target = job.compaction.target(job.compaction.table.store())
    sorter = Sorter.of(target, job.compaction.how.order_by, job.compaction.how.strategy)
    held, bounds = job.held(part), job.parts[part].bounds
    one = BucketState((held.files[file],), held.total_buckets, held.index_files, held.snapshot_id)
    for batch, rows in enumerate(stored_rows(target, held.place, one).frames()):
        for chosen, piece in ranges_apart(rows, sorter, bounds):
            yield chosen, batch, piece


def _piece(group: int, chosen: int, place: int, rows: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([[group], [chosen], [place], [rows]], schema=_SCHEMA)


def written(job: SortJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sorts and writes the groups that arrive, and yields one row of `RESULT` for each."""
    attempt = attempt_name()
    compaction = job.compaction
    target = compaction.target(recorded(compaction.table.store(), compaction.table.attempt_log, attempt))
    sorter = Sorter.of(target, compaction.how.order_by, compaction.how.strategy)
    part_of = {group: number for number, part in enumerate(job.parts) for group in part.groups}
    for group, found in groupby(_read(batches), key=itemgetter(0)):
        try:
            message = _group(target, job, part_of[group], found, sorter)
        except StorageError:
            raise
        except MorrowError as error:
            yield failed(attempt, error)
            return
        yield finished(attempt, [message])


def _group(target: WriteTarget, job: SortJob, part: int, found: Iterable[Piece], sorter: Sorter) -> CommitMessage:
    held = job.held(part)
    frames = (
        sorter.sorted(pl.concat([_unpacked(chosen, rows) for _, _, rows in same]))
        for chosen, same in groupby(found, key=itemgetter(1))
    )
    files = write_sorted(target, held.place, frames)
    return CommitMessage(
        partition=held.partition, bucket=held.bucket, total_buckets=target.options.bucket, new_files=tuple(files)
    )


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    for batch in batches:
        groups, ranges = batch.column(GROUP).to_pylist(), batch.column(RANGE).to_pylist()
        yield from zip(groups, ranges, (rows.as_py() for rows in batch.column(ROWS)))


def _unpacked(chosen: int, rows: bytes) -> pl.DataFrame:
    if chosen == FAILED:
        error: MorrowError = pickle.loads(rows)
        raise error
    return pl.read_ipc(io.BytesIO(rows))


def _packed(rows: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    rows.write_ipc(buffer, compression="lz4")
    return buffer.getvalue()
