"""The work of the tasks of format tables: files in, rows out; rows in, hidden files out."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.names import cols
from morrow.engine.plan.folder_table import FolderFile
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution.folder_frames import parts
from morrow.readers.expressions.polars import matching
from morrow.readers.files.source import reading
from morrow.readers.files.streaming import batches
from morrow.spark.format_tables.access import ReadJob, WriteJob
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.wire import decoded, encoded, units_in
from morrow.spark.types.to_spark import as_spark, travel_schema, without_not_null
from morrow.writers.operations.format_table import write_files

BATCH_ROWS = 1 << 17
RESULT = "files binary, error binary"
"""One row of a task: its files, encoded, or the error (pickled)."""
_SCHEMA = pa.schema([("files", pa.binary()), ("error", pa.binary())])


def read(job: ReadJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of files."""
    table = job.table.opened()
    fields = [table.schema.by_name[name] for name in job.columns]
    filtered = [each for each in table.fields if each.name in job.columns or each.name in job.filter.columns]
    schema = travel_schema(without_not_null(fields))
    files = [decoded(unit, FolderFile) for unit in units_in(units)]
    for part in parts(table, job.filter, files):
        with reading(table.where):
            frame = matching(job.filter, filtered, part.frame(filtered)).select(cols(job.columns))
            for chunk in batches(frame, BATCH_ROWS):
                for batch in to_arrow_table(chunk, fields).to_batches():
                    yield as_spark(batch, schema)


def write(job: WriteJob, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes these rows to hidden files, and yields their names as one row; nothing without rows.

    Errors of rows that the table rejects are results as well: another attempt would fail in the same way.
    """
    named = (batch.rename_columns(list(job.columns)) for batch in rows)
    first = next(named, None)
    if first is None:
        return
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], named))
    try:
        found = {"files": encoded(write_files(job.table.opened(), reader, job.staging))}
    except (InvalidArgument, Unsupported) as error:
        found = {"error": pickle.dumps(error)}
    yield pa.RecordBatch.from_pylist([found], _SCHEMA)


WORKS: Mapping[Work, Run] = {Work.READ_FOLDER: read, Work.WRITE_FOLDER: write}
