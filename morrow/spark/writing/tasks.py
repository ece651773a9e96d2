"""The tasks of a write: they write rows to files and return commit messages, or turn updated rows into versions.

The merge engine merges the versions of an updated row to exactly this row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import InvalidArgument, UnsafePath, Unsupported
from morrow.engine.format.binary_row_encoder import hash_rows
from morrow.engine.format.schema import ROW_ID
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.library_versions import import_array
from morrow.engine.names import FAILED, FILE_PATH, KIND, ROW_INDEX, TASK
from morrow.engine.plan.filter import Filter
from morrow.engine.structs import replace
from morrow.spark.job.tasks import Run, Work
from morrow.spark.job.wire import TableAccess, build_result, get_attempt_name
from morrow.writers.append.row_level import RowChanges
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode
from morrow.writers.buckets.routers import FixedRouter
from morrow.writers.commit import messages as tally
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.operations.table_writer import TableWriter
from morrow.writers.operations.update import (
    build_new_versions,
    check_assignable,
    check_deletions,
    read_row_values,
    set_row_values,
)
from morrow.writers.operations.write_session import check_rows
from morrow.writers.target import WriteTarget

UPDATE, DELETE = "+U", "-D"
COUNTED: Mapping[str, str] = {"+I": "inserted", UPDATE: "updated"}
"""Row kinds -> counts of a tally."""
DELETED, UPDATED, INSERTED = 1, 2, 3
"""The operations of ``RowDeltaUtils`` in Spark."""


@dataclass(frozen=True)
class VersionJob:
    """The data shared by all tasks: the table, its columns in the order of the rows, and the name of the statement."""

    table: TableAccess
    columns: tuple[str, ...]
    command: str


def name_new(number: int) -> str:
    """Return the name of a column's new value in Spark."""
    return f"c{number}"


def name_old(number: int) -> str:
    """Return the name of a column's old value in Spark."""
    return f"o{number}"


def make_versions(job: VersionJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the kind of each row and its new values. `FAILED` is the error if no version can express the update."""
    target = job.table.target()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        kinds = rows.column(KIND)
        others = rows.filter(pc.not_equal(kinds, UPDATE))
        updated = rows.filter(pc.equal(kinds, UPDATE))
        columns = {name_new(at): name for at, name in enumerate(job.columns)}
        try:
            check_deletions(target, _rename_columns(others.filter(pc.equal(others.column(KIND), DELETE)), columns))
            made = _fold_rows(job, target, updated, columns)
            failed = None
        except (InvalidArgument, Unsupported) as error:
            made, failed = updated, f"{type(error).__name__}: {error}"
        kept = [KIND, *columns]
        for part in (others.select(kept), made.select(kept)):
            yield from part.append_column(FAILED, pa.repeat(pa.scalar(failed, pa.string()), len(part))).to_batches()


def _fold_rows(job: VersionJob, target: WriteTarget, rows: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    before = _rename_columns(rows, {name_old(at): name for at, name in enumerate(job.columns)})
    after = _rename_columns(rows, columns)
    changed = {name for name in job.columns if _is_different(before.column(name), after.column(name))}
    check_assignable(target, changed, job.command)
    made = build_new_versions(target, before, after, changed)
    for at, name in enumerate(job.columns):
        place = rows.column_names.index(name_new(at))
        rows = rows.set_column(place, rows.schema.field(place), made.column(name).cast(rows.schema.field(place).type))
    return rows


def _rename_columns(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return rows.select(list(names)).rename_columns(list(names.values()))


def _is_different(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    """Return whether any values at the same position differ; two nulls are equal."""
    one, other = (import_array(each).alias("") for each in (before, after))
    return bool(one.ne_missing(other).any())


@dataclass(frozen=True)
class WriteJob:
    """The data shared by all tasks of a write.

    Args:
        columns: the column names of the rows. In Spark, columns are named by number, since dots in names
            have a special meaning.
        kinds: as for `TableWriter.write`, one for all rows or the name of a column.
        overwrite: ignore the contents of the table.
        compact: fully compact every bucket that is written to.
        adds: only add files, without compaction: it could choose files that the commit replaces.
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
        """Return the names in Spark of the given columns, without missing columns."""
        called = dict(zip(self.columns, self.numbers))
        return [called[name] for name in names if name in called]


@dataclass(frozen=True)
class NumberJob:
    """The data shared by all tasks that compute the task of each row: the write, and the number of its tasks."""

    write: WriteJob
    tasks: int


FINAL = (InvalidArgument, Unsupported, UnsafePath)
"""The errors that a task returns as its result: another attempt would raise them again."""


def write(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write rows and yield the result as one row of `morrow.spark.job.wire`. Without rows, yield nothing.

    The errors of `FINAL` are returned as results.
    """
    rows = (batch.rename_columns(list(job.columns)) for batch in batches)
    first = next(rows, None)
    if first is None:
        return
    attempt = get_attempt_name()
    counted = map(partial(_count_rows, job), chain([first], rows))  # counts while `build_result` runs
    reader = pa.RecordBatchReader.from_batches(first.schema, counted)
    target = job.table.attempt(attempt)
    yield build_result(attempt, partial(_write_files, job, target, reader), final=FINAL)


def _count_rows(job: WriteJob, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Count the rows that are inserted or updated; the driver counts deleted ones by the files."""
    if job.kinds is None:
        tally.count(inserted=rows.num_rows)
    elif job.kinds in job.columns:
        found = pc.value_counts(rows.column(job.kinds)).to_pylist()
        counts = {kind["values"]: kind["counts"] for kind in found}
        tally.count(**{name: counts.get(kind, 0) for kind, name in COUNTED.items()})
    return rows


def _write_files(job: WriteJob, target: WriteTarget, rows: pa.RecordBatchReader) -> list[CommitMessage]:
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
    """Yield the rows with their tasks as last column (Int32). Rows of one partition and bucket have the same task.

    As in Java, the buckets of a partition go to consecutive tasks; the partition's hash selects the first task.
    """
    target = job.write.table.target()
    for batch in batches:
        numbers = pa.array(_compute_task_numbers(job, target, batch))
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, TASK])


def _compute_task_numbers(job: NumberJob, target: WriteTarget, batch: pa.RecordBatch) -> np.ndarray:
    needed = list_partitioning_columns(target)
    called = dict(zip(job.write.columns, job.write.numbers))
    # Without these columns, all rows have the same default values; any column will do then.
    given = [name for name in needed if name in called] or job.write.columns[:1]
    data = pa.table({name: batch.column(called[name]) for name in given})
    try:
        frames = list(convert_rows(target, data, columns=needed, partial=True))
    except InvalidArgument:  # the task that writes such a row raises the error
        frames = []
    rows = pl.concat(frames) if frames else None
    if rows is None or rows.height != data.num_rows:
        return np.zeros(data.num_rows, np.int32)
    numbers = np.zeros(rows.height, np.int64)
    if fields := target.partition_fields:
        numbers += np.abs(hash_rows([rows[f.name] for f in fields], [f.type for f in fields]).astype(np.int64))
    if determine_bucket_mode(target) is BucketMode.FIXED:
        numbers += FixedRouter(target).buckets(rows)
    return (numbers % job.tasks).astype(np.int32)


def list_partitioning_columns(target: WriteTarget) -> tuple[str, ...]:
    """Return the columns that determine the partition and bucket of a row."""
    names = target.schema.partition_keys
    if determine_bucket_mode(target) is BucketMode.FIXED:
        names = (*names, *(target.options.bucket_key or target.schema.trimmed_primary_keys))
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class UpdateJob:
    """The data shared by all tasks of an update of tracked rows.

    Args:
        columns: the names of the rows' columns: columns of the table, `list_places` and `list_carried`.
        read: the snapshot that the rows were derived from.
        filter: the filter by which they were read.
    """

    table: TableAccess
    columns: tuple[str, ...]
    read: Snapshot | None
    filter: Filter


def update(job: UpdateJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write new versions of rows and yield the result, as `write`. A task has all rows of a file."""
    rows = [batch.rename_columns([KIND, *job.columns]) for batch in batches if batch.num_rows]
    if rows:
        attempt = get_attempt_name()
        made = partial(_write_versions, job, job.table.attempt(attempt), pa.Table.from_batches(rows))
        yield build_result(attempt, made, final=FINAL)


def _write_versions(job: UpdateJob, target: WriteTarget, rows: pa.Table) -> list[CommitMessage]:
    if target.options.data_evolution:
        return set_row_values(target, job.read, read_row_values(target, rows.drop_columns([KIND])))
    new = rows.filter(pc.equal(rows.column(KIND), UPDATED))
    with RowChanges(target, job.read) as changes:
        if not target.write.deletion_vectors:
            changes.delete_at(group_by_file(pl.DataFrame(rows.select([FILE_PATH, ROW_INDEX]))), job.filter)
        if len(new):
            versions = check_rows(target, new.select(list(target.schema.by_name)))
            changes.append_versions(versions, import_array(new.column(ROW_ID)))
        return changes.messages()


def group_by_file(places: pl.DataFrame) -> dict[str, np.ndarray]:
    """Return the positions of rows by their file, from the columns `FILE_PATH` and `ROW_INDEX`."""
    parts = places.partition_by(FILE_PATH, as_dict=True)
    return {str(path): part[ROW_INDEX].to_numpy() for (path,), part in parts.items()}


WORKS: Mapping[Work, Run] = {
    Work.WRITE: write,
    Work.UPDATE: update,
    Work.NUMBER: number,
    Work.VERSIONS: make_versions,
}
