"""DuckDB queries: interrupts by Ctrl-C, streams of results, and translation of errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from morrow.engine.errors import InvalidArgument, MorrowError, StorageError, Unsupported, find_remembered, remember
from morrow.engine.plugins import parse_version
from morrow.engine.polars_threads import check_process
from morrow.engine.redaction import redact_text

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

MIN_QUERY_VERSION = 2
"""The first major version for queries over tables; filters and expressions are evaluated by older versions as well."""
INTERRUPT_SECONDS = 0.02
"""Time to wait for an interrupted query to end before interrupting it again, since it may not have begun."""
SIGNAL_SECONDS = 0.1
"""Interval at which a thread that waits for a query checks for Ctrl-C."""
WITHIN_FUNCTION = "Python exception occurred while executing the UDF: "
"""DuckDB's text before the class and message of an error that a Python function raised."""
WITHIN_ROWS = "failed: Unknown error: "
"""DuckDB's text before the message of an error raised by rows passed to it."""
OPENING = "Cannot open file "
"""DuckDB's text for a file that it can neither read nor create."""
TRACE = ". Detail: Python exception"


def check_duckdb() -> None:
    """Raise `Unsupported` for a DuckDB without hidden databases and relations that can be derived from."""
    import duckdb

    if parse_version(duckdb.__version__)[0] < MIN_QUERY_VERSION:
        hint = f"run: pip install 'duckdb>={MIN_QUERY_VERSION}', or read the table as Arrow or Polars"
        raise Unsupported(f"a query of tables by DuckDB {duckdb.__version__}", hint=hint)


def run_query(connection: duckdb.DuckDBPyConnection, query: Callable[[], T]) -> T:
    """Return the result of a query that `connection` runs; Ctrl-C ends the query and raises KeyboardInterrupt.

    DuckDB itself answers Ctrl-C late and with a RuntimeError, and only in the main thread. So in the main thread the
    query runs in a thread of its own, and the main thread waits.
    """
    check_process()
    if threading.current_thread() is not threading.main_thread():
        return query()
    cancelled, busy = threading.Event(), threading.Lock()

    def run() -> T:
        with busy:
            if cancelled.is_set():
                raise CancelledError
            return query()

    thread = ThreadPoolExecutor(1, "morrow-duckdb")
    try:
        result = thread.submit(run)
        while not result.done():  # a signal delivered to another thread does not end a wait without timeout
            wait((result,), SIGNAL_SECONDS)
        return result.result()
    except KeyboardInterrupt:  # it may come at any time: before the query begins, or when it has ended
        cancelled.set()
        while not busy.acquire(timeout=INTERRUPT_SECONDS):
            connection.interrupt()
        busy.release()
        raise
    finally:
        thread.shutdown(wait=False)


def open_stream(relation: duckdb.DuckDBPyRelation, rows: int) -> pa.RecordBatchReader:
    """Return the rows of a relation as batches; DuckDB before 1.5 has only the older name of the method."""
    stream = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return stream(rows)


def read_stream(connection: duckdb.DuckDBPyConnection, stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream that `connection` computes; Arrow raises its own errors for DuckDB's."""
    while (batch := run_query(connection, lambda: next(stream, None))) is not None:
        yield batch


def wrap_stream(stream: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a stream that remembers its errors, for a library that would copy their traces and causes as text."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from stream
        except MorrowError as error:
            raise remember(error) from None

    return pa.RecordBatchReader.from_batches(stream.schema, batches())


def query_errors() -> tuple[type[Exception], ...]:
    """Return the error classes of a query: DuckDB's, and Arrow's for streamed rows."""
    import duckdb

    return duckdb.Error, pa.ArrowException, OSError


def to_morrow_error(error: Exception) -> MorrowError:
    """Return Morrow's error, in one line, for an error of a query, of the rows passed to it, or of an unreadable file.

    DuckDB's message quotes the query; for damaged Parquet metadata it names neither the file nor the kind of error.
    """
    import duckdb

    if isinstance(error, MorrowError):
        return error
    whole = str(error)
    original = find_remembered(whole)
    if original is not None:
        return original
    text, _, _ = whole.partition("\nLINE ")
    _, _, message = text.partition(TRACE)[0].rpartition(WITHIN_FUNCTION)
    before, of_rows, within = message.partition(WITHIN_ROWS)
    told = " ".join(redact_text(within if of_rows else before).split())
    if of_rows:
        return StorageError(f"the query: {told}")
    if OPENING in told:
        return StorageError(f"the query: {told}")
    if isinstance(error, duckdb.IOException) or type(error) is duckdb.Error or before.startswith("IO Error"):
        return StorageError(f"the query: a file cannot be read: {told}; Scan.verify finds the damaged files of a table")
    return InvalidArgument(f"the query: {told}")
