"""Joins that find the matching rows of two tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.names import ROW, apart
from morrow.readers.expressions.duckdb_names import rows_apart
from morrow.readers.expressions.library import run_query
from morrow.readers.expressions.sql import quote_identifier
from morrow.writers.operations.expressions import duckdb_error, session

Rows = npt.NDArray[np.int64]


def matches(target: pa.Table, source: pa.Table, on: str | tuple[str, ...]) -> tuple[Rows, Rows]:
    """Returns the pairs of row numbers for which a SQL condition is true, or whose rows are equal in these columns.

    Nulls equal nothing. Pairs are in the order of the target's rows.

    Raises:
        InvalidArgument: DuckDB cannot compute the condition, or compare the columns.
    """
    if not target.num_rows or not source.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if isinstance(on, tuple):  # by number: DuckDB takes names that differ in case only for one
        names = [f"c{i}" for i in range(len(on))]
        target, source = (table.select(on).rename_columns(names) for table in (target, source))
        condition = " AND ".join(f"target.{name} = source.{name}" for name in names)
    else:
        condition = on
    cursor = session().cursor()

    def run() -> pa.Table:
        row = apart(ROW, [*target.column_names, *source.column_names])
        cursor.register("target", _numbered(rows_apart(target), row))
        cursor.register("source", _numbered(rows_apart(source), row))
        numbers = f"target.{quote_identifier(row)} AS here, source.{quote_identifier(row)} AS there"
        return cursor.sql(f"SELECT {numbers} FROM target JOIN source ON ({condition}\n) ORDER BY ALL").to_arrow_table()

    try:
        pairs = run_query(cursor, run)
    except duckdb_error() as error:
        raise InvalidArgument(f"merge on {on!r}: {str(error).splitlines()[0]}") from error
    finally:
        cursor.close()
    return pairs["here"].to_numpy(), pairs["there"].to_numpy()


def _numbered(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, pa.array(np.arange(table.num_rows)))
