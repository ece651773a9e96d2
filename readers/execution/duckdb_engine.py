"""Plans run by DuckDB's own reader of Parquet: the statement of `plain_sql`, spilling to disk beyond memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.errors import StorageError, Unsupported
from morrow.engine.format.types import arrow_schema
from morrow.engine.io.store import FileStore
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution.plain_sql import plain_sql
from morrow.readers.expressions.library import check_duckdb

if TYPE_CHECKING:
    import duckdb


def to_batches(plan: ScanPlan, store: FileStore, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a plan, with exactly its columns and types.

    Raises:
        Unsupported: what SQL cannot say, or a table that is not on the local disk. StorageError: a file that DuckDB
            cannot read.
    """
    schema = arrow_schema(plan.fields)
    text = _statement(plan, store)
    with _running(plan, store) as connection:
        for batch in connection.sql(text).to_arrow_reader(batch_rows):
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def count(plan: ScanPlan, store: FileStore) -> int:
    """Returns the number of rows of a plan. Raises as `to_batches`."""
    text = _statement(plan, store)
    with _running(plan, store) as connection:
        return int(connection.sql(f"SELECT count(*) FROM (\n{text}\n)").fetchall()[0][0])


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
        except duckdb.IOException as error:
            raise StorageError(f"{plan.table}: DuckDB cannot read it: {_first_line(error)}") from error
        except duckdb.Error as error:
            raise Unsupported(f"this read by DuckDB ({_first_line(error)})", where=plan.table) from error
        finally:
            connection.close()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
