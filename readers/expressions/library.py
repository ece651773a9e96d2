"""DuckDB as Morrow needs it."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument, MorrowError, StorageError, Unsupported
from morrow.engine.telling import redacted

LEAST_VERSION = 2
WITHIN_FUNCTION = "Python exception occurred while executing the UDF: "
"""DuckDB's words before the class and message of an error that a Python function raised."""
WITHIN_ROWS = "failed: Unknown error: "
"""Its words before the message of an error that rows handed to it raised."""
TRACE = ". Detail: Python exception"


def check_duckdb() -> None:
    """Raises `Unsupported` for a DuckDB that is too old: the first major version would end the process."""
    import duckdb

    if int(duckdb.__version__.split(".")[0]) < LEAST_VERSION:
        raise Unsupported(f"DuckDB {duckdb.__version__}", hint=f"run: pip install 'duckdb>={LEAST_VERSION}'")


def of_query(error: Exception) -> MorrowError:
    """Returns our error, in one line, for one of DuckDB's: of the query, or of a file that it cannot read.

    DuckDB quotes the query; of damaged metadata of Parquet it tells neither the file nor the kind of error.
    """
    import duckdb

    text, _, _ = str(error).partition("\nLINE ")
    _, _, message = text.partition(TRACE)[0].rpartition(WITHIN_FUNCTION)
    before, of_rows, within = message.partition(WITHIN_ROWS)
    told = " ".join(redacted(within if of_rows else before).split())
    if of_rows:
        return StorageError(f"the query: {told}")
    if isinstance(error, duckdb.IOException) or type(error) is duckdb.Error:
        return StorageError(f"the query: a file cannot be read: {told}; Scan.verify finds the damaged files of a table")
    return InvalidArgument(f"the query: {told}")
