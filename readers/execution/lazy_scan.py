"""Scans as the LazyFrames that users go on with: Polars asks for batches, and errors of files are Morrow's.

The filter that Polars hands down is the user's, and part of the query over the files. Where that fails, the files are
read without the filter, which is then tested on the rows: so the blame falls on a file or on the filter, and filters
that fail or panic only on the way into a file still give their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
from polars.io.plugins import register_io_source

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.filter.terms import shortened
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution import execute
from morrow.readers.files.streaming import batches

FAILURES = (MorrowError, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def lazy_scan(plan: ScanPlan, store: FileStore) -> pl.LazyFrame:
    """Returns the plan as a Polars LazyFrame; masks are computed now, data is read on collect.

    Collecting raises:
        CorruptFile, FileMissing, SnapshotExpired, StorageError, Unsupported: as reading does.
        InvalidArgument: Polars panics when it evaluates a filter that was added to the frame.
    """
    frame = execute.lazy(plan, store)
    if not plan.columns:
        return frame  # a height and no columns, which batches would lose

    def generate(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        rows = frame if n_rows is None else frame.head(n_rows)
        if predicate is None:
            yield from _read(plan, store, rows if with_columns is None else rows.select(cols(with_columns)), batch_size)
        else:
            yield from _filtered(plan, store, rows, predicate, with_columns, batch_size)

    return register_io_source(generate, schema=frame.collect_schema(), explain_name=f"Morrow {plan.table}")


def _read(plan: ScanPlan, store: FileStore, rows: pl.LazyFrame, batch_size: int | None) -> Iterator[pl.DataFrame]:
    with execute.reading_plan(plan, store):
        yield from batches(rows, batch_size)


def _filtered(
    plan: ScanPlan,
    store: FileStore,
    rows: pl.LazyFrame,
    predicate: pl.Expr,
    names: Sequence[str] | None,
    batch_size: int | None,
) -> Iterator[pl.DataFrame]:
    """Yields the rows for which the predicate is true, in the columns `names` (None: all), to which its own belong."""
    selected = cols(rows.collect_schema().names() if names is None else names)
    given = 0
    try:
        for batch in batches(rows.filter(predicate).select(selected), batch_size):
            yield batch
            given += batch.height
        return
    except FAILURES:
        pass
    for batch in _read(plan, store, rows.select(selected), batch_size):
        kept = _kept(batch, predicate)
        new, given = kept[given:], max(given - kept.height, 0)
        if new.height:
            yield new


def _kept(rows: pl.DataFrame, predicate: pl.Expr) -> pl.DataFrame:
    try:
        return rows.filter(predicate)
    except pl.exceptions.PanicException as error:
        raise InvalidArgument(f"filter: Polars cannot evaluate {shortened(str(predicate))!r}: {error}") from error
