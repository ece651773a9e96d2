"""The tasks of a compaction: they compact units of work, or split and sort ranges, and return commit messages.

Units are plain data and independent of each other:
=============  =================================================================================================
bucket         one bucket of a table with a primary key
postponed      buckets of one partition with postponed rows (``bucket`` = -2), or with rows that were postponed
append bucket  one fixed bucket of an append table
pack           files of a table without buckets that become one, with the index files of their deletion vectors
sorted         all files of a partition, whose rows are sorted
=============  =================================================================================================
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import MorrowError, StorageError
from morrow.engine.format.deletion_vectors import INDEX_TYPE
from morrow.engine.format.manifest_entries import DataFileMeta, IndexFileMeta
from morrow.spark.job import wire
from morrow.spark.job.tasks import Run, Work
from morrow.writers.append.compaction import compact_append_buckets, compact_pack, enable_compaction, load_vectors
from morrow.writers.append.sort_compaction import (
    Sorter,
    open_partition_rows,
    sort_partition,
    split_by_range,
    write_sorted,
)
from morrow.writers.buckets.routers import BucketState
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files.data_files import Placement
from morrow.writers.keyed.postpone_bucket import compact_postponed
from morrow.writers.keyed.writer import compact_bucket
from morrow.writers.target import WriteTarget, override_options


class Step(StrEnum):
    """The step of the local compaction that a unit performs."""

    BUCKET = "bucket"
    POSTPONED = "postponed"
    APPEND_BUCKET = "append bucket"
    PACK = "pack"
    SORTED = "sorted"


class Held(msgspec.Struct, frozen=True, array_like=True):
    """The files of a bucket: a `BucketState` and its place."""

    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    total_buckets: int | None
    index_files: tuple[IndexFileMeta, ...]
    snapshot_id: int | None

    @classmethod
    def of(cls, place: Placement, state: BucketState) -> Held:
        return cls(
            place.partition, place.bucket, state.files, state.total_buckets, state.index_files, state.snapshot_id
        )

    def only(self, files: tuple[DataFileMeta, ...]) -> Held:
        """Select some of the files, with the index files of their deletion vectors."""
        names = {file.file_name for file in files}
        return msgspec.structs.replace(
            self, files=files, index_files=tuple(index for index in self.index_files if _has_one(index, names))
        )

    @property
    def place(self) -> Placement:
        return Placement(self.partition, self.bucket)

    @property
    def state(self) -> BucketState:
        return BucketState(self.files, self.total_buckets, self.index_files, self.snapshot_id)


def _has_one(index: IndexFileMeta, names: set[str]) -> bool:
    """Return whether an index file has the deletion vector of one of these data files."""
    return index.index_type == INDEX_TYPE and any(entry.data_file in names for entry in index.deletion_ranges or ())


class Unit(msgspec.Struct, frozen=True, array_like=True):
    """Work that one task does from beginning to end."""

    step: Step
    held: tuple[Held, ...]

    @property
    def states(self) -> Mapping[Placement, BucketState]:
        return {one.place: one.state for one in self.held}

    def weight(self) -> int:
        """Return the total size of the unit's files in bytes."""
        return sum(file.file_size for one in self.held for file in one.files)


@dataclass(frozen=True)
class Compaction:
    """The settings of a compaction.

    Args:
        full: as for `Table.compact`.
        order_by, strategy: the order of rows; without columns, rows are not sorted.
        options: overrides of table options for this compaction.
    """

    full: bool = False
    order_by: tuple[str, ...] = ()
    strategy: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CompactionJob:
    """The data shared by all tasks of a compaction: the table and the settings."""

    table: wire.TableAccess
    how: Compaction

    def target(self) -> WriteTarget:
        """Return the table at the schema that the driver saw, with the options of this compaction."""
        return override_options(self.table.target(), self.how.options)

    def attempt(self, name: str) -> WriteTarget:
        """Return the table as `target`, for the writes of one attempt of a task."""
        return override_options(self.table.attempt(name), self.how.options)


RANGE, GROUP, PIECE, ROWS = "range", "group", "piece", "rows"
PIECES = f"{GROUP} int, {RANGE} int, {PIECE} bigint, {ROWS} binary"
"""Rows of a sort in the shuffle: the group of ranges that one task sorts, the range, the position in the order of the
files, and the rows themselves as Arrow IPC, which keeps every type unchanged.
"""
Piece: TypeAlias = tuple[int, int, bytes]
"""The group, the range, and the rows of a piece."""

_SCHEMA = pa.schema([(GROUP, pa.int32()), (RANGE, pa.int32()), (PIECE, pa.int64()), (ROWS, pa.binary())])
FAILED = -1
"""The range of an error, sorted before all others of a group: its rows are the pickled error of the splitting task."""
FILE_BITS = 32
"""The low bits of a piece's number, for the batch in its file; the high bits are the file. They order equal rows."""


class SortedFile(msgspec.Struct, frozen=True, array_like=True):
    """A unit of work: a file to sort, the number of its part, and its own number in the order of the part's files."""

    part: int
    number: int
    held: Held


@dataclass(frozen=True)
class SortedPart:
    """A `Divided` in the form for tasks: its place, the keys at which ranges end, and the group of each range."""

    place: Placement
    bounds: pl.DataFrame = field(repr=False)
    groups: tuple[int, ...]


@dataclass(frozen=True)
class SortJob:
    """The data shared by all tasks of a sort."""

    compaction: CompactionJob
    parts: tuple[SortedPart, ...]


def split(job: SortJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, split by range, or the error of a file. Spark retries after errors of the store."""
    for unit in wire.extract_units(units):
        file = wire.decode_value(unit, SortedFile)
        groups = job.parts[file.part].groups
        try:
            for chosen, batch, rows in _split_ranges(job, file):
                yield _make_piece(groups[chosen], chosen, (file.number << FILE_BITS) + batch, wire.encode_frame(rows))
        except StorageError:
            raise
        except MorrowError as error:
            yield _make_piece(groups[0], FAILED, file.number << FILE_BITS, pickle.dumps(error))


def _split_ranges(job: SortJob, file: SortedFile) -> Iterator[tuple[int, int, pl.DataFrame]]:
    """Yield the number of a range, the number of a batch in the file, and the batch's rows in the range."""
    target, how = job.compaction.target(), job.compaction.how
    sorter, bounds = Sorter.of(target, how.order_by, how.strategy), job.parts[file.part].bounds
    for batch, rows in enumerate(open_partition_rows(target, file.held.place, file.held.state).frames()):
        for chosen, piece in split_by_range(rows, sorter, bounds):
            yield chosen, batch, piece


def _make_piece(group: int, chosen: int, place: int, rows: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([[group], [chosen], [place], [rows]], schema=_SCHEMA)


def sort(job: SortJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sort and write the arriving groups, one after another, and yield one row of `RESULT` for each."""
    attempt = wire.get_attempt_name()
    target, how = job.compaction.attempt(attempt), job.compaction.how
    sorter = Sorter.of(target, how.order_by, how.strategy)
    place_of = {group: part.place for part in job.parts for group in part.groups}
    for group, found in groupby(_read(batches), key=itemgetter(0)):
        row = wire.build_result(attempt, partial(_group, target, place_of[group], found, sorter))
        yield row
        if wire.is_error(row):
            return


def _group(target: WriteTarget, place: Placement, found: Iterable[Piece], sorter: Sorter) -> Iterator[CommitMessage]:
    frames = (
        sorter.sorted(pl.concat([_unpack_piece(chosen, rows) for _, _, rows in same]))
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


def _unpack_piece(chosen: int, rows: bytes) -> pl.DataFrame:
    if chosen == FAILED:
        error: MorrowError = pickle.loads(rows)
        raise error
    return wire.decode_frame(rows)


Compact = Callable[[WriteTarget, Unit, Compaction], Iterator[CommitMessage]]


def compact(job: CompactionJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compact the units of a task and yield one row of `RESULT`. Errors of the table are returned as results."""
    attempt = wire.get_attempt_name()
    units = [wire.decode_value(unit, Unit) for unit in wire.extract_units(batches)]
    yield wire.build_result(attempt, partial(_run_units, job, job.attempt(attempt), units))


def _run_units(job: CompactionJob, target: WriteTarget, units: Sequence[Unit]) -> Iterator[CommitMessage]:
    for unit in units:
        yield from (message for message in _STEPS[unit.step](target, unit, job.how) if not message.is_empty)


def _compact_bucket(target: WriteTarget, unit: Unit, how: Compaction) -> Iterator[CommitMessage]:
    for place, state in unit.states.items():
        yield compact_bucket(target, place, state, full=how.full)


def _compact_postponed(target: WriteTarget, unit: Unit, how: Compaction) -> Iterator[CommitMessage]:
    yield from compact_postponed(target, unit.states, full=how.full)


def _append_bucket(target: WriteTarget, unit: Unit, how: Compaction) -> Iterator[CommitMessage]:
    yield from compact_append_buckets(enable_compaction(target), unit.states.items(), how.full)


def _pack(target: WriteTarget, unit: Unit, _: Compaction) -> Iterator[CommitMessage]:
    target = enable_compaction(target)
    for place, state in unit.states.items():
        yield compact_pack(target, place, state.files, load_vectors(target, place, state.index_files))


def _sort_files(target: WriteTarget, unit: Unit, how: Compaction) -> Iterator[CommitMessage]:
    sorter = Sorter.of(target, how.order_by, how.strategy)
    for place, state in unit.states.items():
        yield sort_partition(target, place, state, sorter)


_STEPS: Mapping[Step, Compact] = {
    Step.BUCKET: _compact_bucket,
    Step.POSTPONED: _compact_postponed,
    Step.APPEND_BUCKET: _append_bucket,
    Step.PACK: _pack,
    Step.SORTED: _sort_files,
}

WORKS: Mapping[Work, Run] = {Work.COMPACT: compact, Work.SPLIT: split, Work.SORT: sort}
