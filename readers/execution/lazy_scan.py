"""Scans as the LazyFrames that users go on with: Polars asks for batches, and errors of files are Morrow's.

A frame is planned when it is collected, by the columns, the filter and the number of rows that Polars hands down. What
a filter says exactly prunes files and is tested before the mask; the rest of it is tested on the rows, as part of the
query over the files. Where that fails, the files are read without it: so the blame falls on a file or on the filter,
and filters that fail or panic only on the way into a file still give their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import polars as pl
from polars.io.plugins import register_io_source

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format.polars_types import polars_schema
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.filter.terms import shortened
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution import execute
from morrow.readers.files.streaming import batches

FAILURES = (MorrowError, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)

MakePlan: TypeAlias = Callable[[Sequence[str] | None, pl.Expr | None, int | None], tuple[ScanPlan, pl.Expr | None]]
"""Plans a read of these columns (None: all), rows for which the expression is true, and so many rows at most.

It returns the plan, and the expression if rows of the plan are still to be tested by it.
"""


def lazy_scan(fields: Sequence[DataField], make_plan: MakePlan, store: FileStore, title: str) -> pl.LazyFrame:
    """Returns the rows of these columns as a Polars LazyFrame; plan and masks are made, and data is read, on collect.

    Collecting raises:
        CorruptFile, FileMissing, SnapshotExpired, StorageError, Unsupported: as reading does.
        InvalidArgument: Polars panics when it evaluates a filter that was added to the frame.
    """
    if not fields:
        return execute.lazy(make_plan(None, None, None)[0], store)  # a height and no columns, which batches would lose

    def generate(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        plan, condition = make_plan(with_columns, predicate, n_rows)
        if condition is None:
            yield from _read(plan, store, batch_size)
        else:
            yield from _filtered(plan, store, condition, batch_size)

    return register_io_source(generate, schema=polars_schema(fields), explain_name=f"Morrow {title}")


def _read(plan: ScanPlan, store: FileStore, batch_size: int | None) -> Iterator[pl.DataFrame]:
    with execute.reading_plan(plan, store):
        yield from execute.frames(plan, store, batch_size)


def _filtered(plan: ScanPlan, store: FileStore, condition: pl.Expr, batch_size: int | None) -> Iterator[pl.DataFrame]:
    """Yields the rows for which the condition is true; the plan has all columns that it reads."""
    given = 0
    try:
        for batch in batches(execute.lazy(plan, store).filter(condition), batch_size):
            yield batch
            given += batch.height
        return
    except FAILURES:
        pass
    for batch in _read(plan, store, batch_size):
        kept = _kept(batch, condition)
        new, given = kept[given:], max(given - kept.height, 0)
        if new.height:
            yield new


def _kept(rows: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    try:
        return rows.filter(condition)
    except pl.exceptions.PanicException as error:
        raise InvalidArgument(f"filter: Polars cannot evaluate {shortened(str(condition))!r}: {error}") from error
