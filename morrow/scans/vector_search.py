"""Exact vector search over a table, for `Table.search` and ``vector_search`` in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument
from morrow.engine.names import SCORE
from morrow.engine.options.declarations import parse_whole
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import NOW, Travel
from morrow.scans.arguments import check_columns
from morrow.scans.table_scan import make_scan

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

MAX_BATCH_BYTES = 32 << 20
"""Approximate maximum of the bytes of vectors in a batch, in 64-bit numbers."""


def search_rows(
    metadata: TableMetadata,
    column: str,
    query: object,
    k: object,
    *,
    filter: FilterLike | None = None,
    metric: str = "l2",
    columns: Sequence[str] | None = None,
    travel: Travel = NOW,
) -> pa.Table:
    """Return the rows of a search as an Arrow table; see `Table.search`."""
    from morrow.readers.execution import vector_search

    name = vector_search.check_metric(metric)
    limit = k if isinstance(k, int) and not isinstance(k, bool) else parse_whole(str(k))
    if limit is None or limit < 1:
        raise InvalidArgument(f"the number of rows of a search must be 1 or more, not {k!r}")
    scan = make_scan(metadata, filter=filter, travel=travel)
    wanted = tuple(field.name for field in scan.fields) if columns is None else check_columns(columns)
    read = scan.narrowed(tuple(dict.fromkeys((*wanted, column))))
    if SCORE in wanted:
        raise InvalidArgument(f"{scan.title}: the column {SCORE!r} has the name of the score; rename it")
    field = next(each for each in read.fields if each.name == column)
    vector = vector_search.check_query(query, field)
    batches = read.to_batches(max(MAX_BATCH_BYTES // (8 * len(vector)), 1))
    found = vector_search.find_nearest(batches, read.schema, field, vector, limit, name)
    return found.select([*wanted, SCORE])


def search_table(
    metadata: TableMetadata,
    column: str,
    query: object,
    k: int,
    *,
    filter: FilterLike | None,
    metric: str,
    columns: Sequence[str] | None,
    travel: Travel,
) -> pl.DataFrame:
    """Return the rows of a search as a Polars DataFrame; see `Table.search`."""
    import polars as pl

    from morrow.engine.polars_versions import import_array

    found = search_rows(metadata, column, query, k, filter=filter, metric=metric, columns=columns, travel=travel)
    return pl.DataFrame([import_array(found[name]).alias(name) for name in found.column_names])


def parse_search_options(text: str) -> str:
    """Return the metric that options such as ``metric=cosine`` name.

    Raises:
        InvalidArgument: another option. An exact search has no other one.
    """
    metric = "l2"
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or key.strip().rpartition(".")[2] != "metric":
            raise InvalidArgument(f"{part!r} is not an option of an exact search; write metric=l2")
        metric = value.strip()
    return metric
