"""Plans run by DuckDB's own reader of Parquet: the statement of `plain_sql`, spilling to disk beyond memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.errors import MorrowError, StorageError, Unsupported
from morrow.engine.forks import in_one_process
from morrow.engine.format.types import arrow_schema
from morrow.engine.io.store import FileStore
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution.plain_sql import plain_sql
from morrow.readers.expressions.library import check_duckdb, query_errors, read_stream, run_query
from morrow.readers.files.file_errors import fail_alone
from morrow.readers.files.file_frames import source_of
from morrow.readers.files.source import first_line

if TYPE_CHECKING:
    import duckdb

IO_ERRORS = ("IO Error", "Out of Memory Error")
"""How messages of a stream begin for which the machine is to blame: Arrow passes on no class."""


def to_batches(plan: ScanPlan, store: FileStore, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a plan, with exactly its columns and types.

    Raises:
        Unsupported: what SQL cannot say, a table that is not on the local disk, or a forked process.
        FileMissing, CorruptFile, SnapshotExpired: a file cannot be read. StorageError: as DuckDB says.
    """
    return in_one_process(_to_batches(plan, store, batch_rows))


def _to_batches(plan: ScanPlan, store: FileStore, batch_rows: int) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(plan.fields)
    text = _statement(plan, store)
    with _running(plan, store) as connection:
        stream = run_query(connection, lambda: connection.sql(text).to_arrow_reader(batch_rows))
        for batch in read_stream(connection, stream):
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def count(plan: ScanPlan, store: FileStore) -> int:
    """Returns the number of rows of a plan. Raises as `to_batches`."""
    text = _statement(plan, store)
    with _running(plan, store) as connection:
        counted = connection.sql(f"SELECT count(*) FROM (\n{text}\n)")
        return int(run_query(connection, counted.fetchall)[0][0])


def _statement(plan: ScanPlan, store: FileStore) -> str:
    if not store.is_local:
        raise Unsupported("a read of an object store by DuckDB's engine", where=plan.table)
    return plain_sql(plan, store)


@contextmanager
def _running(plan: ScanPlan, store: FileStore) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    check_duckdb()
    with TemporaryDirectory(prefix="morrow-duckdb-") as folder, in_flight(plan, store):
        settings = {"temp_directory": folder, "python_enable_replacements": "false"}
        connection = duckdb.connect(":memory:", config=dict(settings))
        try:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
        except query_errors() as error:
            if isinstance(error, MorrowError):
                raise
            if not isinstance(error, _of_the_statement()):
                _check_files(plan, store)
            if isinstance(error, duckdb.OperationalError) or str(error).startswith(IO_ERRORS):
                raise StorageError(f"{plan.table}: DuckDB cannot read it: {first_line(error)}") from error
            raise Unsupported(f"this read by DuckDB ({first_line(error)})", where=plan.table) from error
        finally:
            connection.close()


def _of_the_statement() -> tuple[type[Exception], ...]:
    """Returns the errors of DuckDB for which no file is to blame."""
    import duckdb

    return (
        *(duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.DataError),
        *(duckdb.NotSupportedError, duckdb.OutOfMemoryException, duckdb.InterruptException),
    )


def _check_files(plan: ScanPlan, store: FileStore) -> None:
    """Raises the error of the first file that cannot be read: DuckDB does not always name it."""
    for part in plan.parts:
        for section in part.sections:
            for file in section.files:
                source_of(file, part, store)
    for part in plan.parts:
        fail_alone(part, part.sections, tuple(part.schema.by_name[name] for name in part.read_columns), store)
