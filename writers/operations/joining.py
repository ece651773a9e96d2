"""Which rows of two tables match."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.readers.expressions.sql import quote_identifier
from morrow.writers.operations.expressions import duckdb_error, session

Rows = npt.NDArray[np.int64]
ROW = "__row"


def matches(target: pa.Table, source: pa.Table, on: str | tuple[str, ...]) -> tuple[Rows, Rows]:
    """The pairs of row numbers for which a SQL condition is true, or in which these columns are equal.

    Nulls equal nothing. Pairs come in the order of the target's rows.

    Raises:
        InvalidArgument: DuckDB cannot compute the condition, or compare the columns.
    """
    if not target.num_rows or not source.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    columns = (quote_identifier(name) for name in on) if isinstance(on, tuple) else ()
    condition = on if isinstance(on, str) else " AND ".join(f"target.{name} = source.{name}" for name in columns)
    cursor = session().cursor()
    try:
        cursor.register("target", _numbered(target))
        cursor.register("source", _numbered(source))
        numbers = f"target.{ROW} AS here, source.{ROW} AS there"
        joined = cursor.sql(f"SELECT {numbers} FROM target JOIN source ON ({condition}\n) ORDER BY ALL")
        pairs = joined.to_arrow_table()
    except duckdb_error() as error:
        raise InvalidArgument(f"merge on {on!r}: {str(error).splitlines()[0]}") from error
    finally:
        cursor.close()
    return pairs["here"].to_numpy(), pairs["there"].to_numpy()


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column(ROW, pa.array(np.arange(table.num_rows)))
