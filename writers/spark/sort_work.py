"""What the tasks of a divided sort do: rows of files are told apart by range; ranges are sorted and written."""

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
from morrow.writers.append.sort_compaction import Sorter, ranges_apart, stored_rows, write_sorted
from morrow.writers.messages import CommitMessage
from morrow.writers.restored import BucketState
from morrow.writers.spark.compaction_tasks import GROUP, PIECE, RANGE, ROWS
from morrow.writers.spark.ledger import recorded
from morrow.writers.spark.results import failed, finished
from morrow.writers.spark.sorting import SortJob
from morrow.writers.spark.work import attempt_name
from morrow.writers.target import WriteTarget

Piece: TypeAlias = tuple[int, int, bytes]
"""Its group, its range, and its rows."""

_SCHEMA = pa.schema([(GROUP, pa.int32()), (RANGE, pa.int32()), (PIECE, pa.int64()), (ROWS, pa.binary())])
FAILED = -1
"""The range, before all others of a group, whose rows are the error (pickled) of the task that read a file."""
FILE_BITS = 32
"""A piece is numbered by its file, above so many bits, and the batch of rows in it: the order of equal rows."""


def pieces(job: SortJob, number: int) -> Iterator[pa.RecordBatch]:
    """The rows of one file, apart by range; or what is wrong with it. A store that fails is tried again by Spark."""
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
    """Number of a range, of a batch of the file, and the rows of both."""
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
    """Sort and write the groups that come, and tell of each in one row of `RESULT`."""
    attempt = attempt_name()
    compaction = job.compaction
    target = compaction.target(recorded(compaction.table.store(), compaction.table.ledger, attempt))
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
