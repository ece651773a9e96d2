"""The work of the tasks of a divided sort: splits the rows of files by range; sorts and writes ranges."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import MorrowError, StorageError
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.results import attempt_name, is_error, result
from morrow.spark.job.wire import decoded, frame_bytes, frame_of, units_in
from morrow.spark.maintenance.compaction_units import CompactionJob, Held
from morrow.writers.append.sort_compaction import Sorter, ranges_apart, stored_rows, write_sorted
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files import Placement
from morrow.writers.target import WriteTarget

RANGE, GROUP, PIECE, ROWS = "range", "group", "piece", "rows"
PIECES = f"{GROUP} int, {RANGE} int, {PIECE} bigint, {ROWS} binary"
"""Rows of a sort in the shuffle: the group of ranges that one task sorts, the range, the position in the order of the
files, and the rows themselves as Arrow IPC, which keeps every type unchanged.
"""
Piece: TypeAlias = tuple[int, int, bytes]
"""The group, the range, and the rows."""

_SCHEMA = pa.schema([(GROUP, pa.int32()), (RANGE, pa.int32()), (PIECE, pa.int64()), (ROWS, pa.binary())])
FAILED = -1
"""The range, sorted before all others of a group, whose rows are the error (pickled) of the task that read a file."""
FILE_BITS = 32
"""The bits of a piece's number below its file, for the batch of rows in it: the order of equal rows."""


class SortedFile(msgspec.Struct, frozen=True, array_like=True):
    """A unit of work: a file to be sorted, the number of its part, and its own number in the order of that."""

    part: int
    number: int
    held: Held


@dataclass(frozen=True)
class SortedPart:
    """A `Divided` as sent to tasks: its place, the keys at which ranges end, and the group of each range."""

    place: Placement
    bounds: pl.DataFrame = field(repr=False)
    groups: tuple[int, ...]


@dataclass(frozen=True)
class SortJob:
    """What all tasks of a sort share."""

    compaction: CompactionJob
    parts: tuple[SortedPart, ...]


def split(job: SortJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of files, split by range, or the error of one. Spark retries after errors of the store."""
    for unit in units_in(units):
        file = decoded(unit, SortedFile)
        groups = job.parts[file.part].groups
        try:
            for chosen, batch, rows in _ranges(job, file):
                yield _piece(groups[chosen], chosen, (file.number << FILE_BITS) + batch, frame_bytes(rows))
        except StorageError:
            raise
        except MorrowError as error:
            yield _piece(groups[0], FAILED, file.number << FILE_BITS, pickle.dumps(error))


def _ranges(job: SortJob, file: SortedFile) -> Iterator[tuple[int, int, pl.DataFrame]]:
    """Yields the number of a range, the number of a batch of the file, and the rows of both."""
    target, how = job.compaction.target(), job.compaction.how
    sorter, bounds = Sorter.of(target, how.order_by, how.strategy), job.parts[file.part].bounds
    for batch, rows in enumerate(stored_rows(target, file.held.place, file.held.state).frames()):
        for chosen, piece in ranges_apart(rows, sorter, bounds):
            yield chosen, batch, piece


def _piece(group: int, chosen: int, place: int, rows: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([[group], [chosen], [place], [rows]], schema=_SCHEMA)


def sort(job: SortJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sorts and writes the groups that arrive, one after another, and yields one row of `RESULT` for each."""
    attempt = attempt_name()
    target, how = job.compaction.attempt(attempt), job.compaction.how
    sorter = Sorter.of(target, how.order_by, how.strategy)
    place_of = {group: part.place for part in job.parts for group in part.groups}
    for group, found in groupby(_read(batches), key=itemgetter(0)):
        row = result(attempt, partial(_group, target, place_of[group], found, sorter))
        yield row
        if is_error(row):
            return


def _group(target: WriteTarget, place: Placement, found: Iterable[Piece], sorter: Sorter) -> Iterator[CommitMessage]:
    frames = (
        sorter.sorted(pl.concat([_unpacked(chosen, rows) for _, _, rows in same]))
        for chosen, same in groupby(found, key=itemgetter(1))
    )
    files = write_sorted(target, place, frames)
    yield CommitMessage(
        partition=place.partition, bucket=place.bucket, total_buckets=target.options.bucket, new_files=tuple(files)
    )


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
    for batch in batches:
        groups, ranges = batch.column(GROUP).to_pylist(), batch.column(RANGE).to_pylist()
        yield from zip(groups, ranges, (rows.as_py() for rows in batch.column(ROWS)))


def _unpacked(chosen: int, rows: bytes) -> pl.DataFrame:
    if chosen == FAILED:
        error: MorrowError = pickle.loads(rows)
        raise error
    return frame_of(rows)


WORKS: Mapping[Work, Run] = {Work.SPLIT: split, Work.SORT: sort}
