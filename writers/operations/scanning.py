"""Rows of the table as an operation reads them: one snapshot, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.planner import ScanRequest, make_plan
from morrow.readers import execute
from morrow.writers.rows import incoming
from morrow.writers.target import WriteTarget


def rows_where(
    target: WriteTarget, snapshot: Snapshot | None, filter: Filter, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows for which the filter is true, all columns unless given, in bounded memory."""
    names = tuple(target.schema.by_name) if columns is None else tuple(columns)
    plan = make_plan(target.metadata, ScanRequest(target.schema, target.options, snapshot, names, filter))
    for batch in execute.to_batches(plan, target.store):
        yield pa.Table.from_batches([batch])


def checked(target: WriteTarget, rows: pa.Table) -> pl.DataFrame:
    """Rows as `writers.rows.incoming` gives them, in one frame of the table's columns (keyed tables: and kinds);
    columns that a statement does not name take their default value or null."""
    return pl.concat(incoming(target, rows, partial=True))


def of_kind(target: WriteTarget, rows: pa.Table, kind: str) -> pa.Table:
    """The rows with this kind in the column ``rowkind.field``, which would overrule it."""
    name = target.write.rowkind_field
    if name is None or name not in rows.column_names:
        return rows
    column = pa.repeat(pa.scalar(kind, target.schema.by_name[name].type.arrow()), rows.num_rows)
    return rows.set_column(rows.column_names.index(name), name, column)
