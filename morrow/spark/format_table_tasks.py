"""The tasks of format tables: they read files to rows, and write rows to hidden files."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.names import cols
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.folder_table import FolderFile, FolderTable
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution.format_tables import read_parts
from morrow.readers.expressions.polars import filter_rows
from morrow.readers.files.file_frames import collect_batches
from morrow.readers.files.source import translate_errors
from morrow.spark.job.tasks import Run, Work
from morrow.spark.job.wire import StoreAccess, decode_value, encode_value, extract_units
from morrow.spark.types import drop_not_null, to_spark_rows, to_travel_schema
from morrow.writers.operations.format_table import write_format_files

BATCH_ROWS = 1 << 17
RESULT = "files binary, error binary"
"""The row that a task returns: its files, encoded, or the error (pickled)."""
_SCHEMA = pa.schema([("files", pa.binary()), ("error", pa.binary())])


def read(job: ReadJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files."""
    table = job.table.opened()
    fields = [table.schema.by_name[name] for name in job.columns]
    filtered = [each for each in table.fields if each.name in job.columns or each.name in job.filter.columns]
    schema = to_travel_schema(drop_not_null(fields))
    files = [decode_value(unit, FolderFile) for unit in extract_units(units)]
    for part in read_parts(table, job.filter, files):
        with translate_errors(table.where):
            frame = filter_rows(job.filter, filtered, part.frame(filtered)).select(cols(job.columns))
            for chunk in collect_batches(frame, BATCH_ROWS):
                for batch in to_arrow_table(chunk, fields).to_batches():
                    yield to_spark_rows(batch, schema)


def write(job: WriteJob, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write rows to hidden files, and yield their names as one row. Without rows, yield nothing.

    Errors of rejected rows are returned as results: another attempt would fail in the same way.
    """
    named = (batch.rename_columns(list(job.columns)) for batch in rows)
    first = next(named, None)
    if first is None:
        return
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], named))
    try:
        found = {"files": encode_value(write_format_files(job.table.opened(), reader, job.staging))}
    except (InvalidArgument, Unsupported) as error:
        found = {"error": pickle.dumps(error)}
    yield pa.RecordBatch.from_pylist([found], _SCHEMA)


WORKS: Mapping[Work, Run] = {Work.READ_FOLDER: read, Work.WRITE_FOLDER: write}


@dataclass(frozen=True)
class FolderAccess:
    """A format table in the form that is sent to tasks."""

    store: StoreAccess
    kind: str
    schema: TableSchema
    where: str
    is_hives: bool

    @classmethod
    def of(cls, table: FolderTable) -> FolderAccess:
        return cls(StoreAccess.of(table.store, table.root), table.kind, table.schema, table.where, table.is_hives)

    def opened(self) -> FolderTable:
        """Open the table."""
        return FolderTable(*self.store.opened(), self.kind, self.schema, self.where, self.is_hives)


@dataclass(frozen=True)
class ReadJob:
    """A read: the table, the columns, and the filter, which may be applied incompletely."""

    table: FolderAccess
    columns: tuple[str, ...]
    filter: Filter


@dataclass(frozen=True)
class WriteJob:
    """A write: the table, its hidden folder for new files, and the column names of the rows."""

    table: FolderAccess
    staging: str
    columns: tuple[str, ...]
