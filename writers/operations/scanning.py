"""Reads of one snapshot by operations, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.planner import make_plan
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution import execute
from morrow.writers.commit.expired_base import reading
from morrow.writers.rows import incoming
from morrow.writers.target import WriteTarget


def plan_where(
    target: WriteTarget, snapshot: Snapshot | None, filter: Filter, columns: Sequence[str] | None = None
) -> ScanPlan:
    """Returns the plan of the rows of `snapshot` for which the filter is true, all columns unless given.

    Options of time travel and a fallback branch are ignored: operations change the newest state of this branch.
    """
    names = tuple(target.schema.by_name) if columns is None else tuple(columns)
    return make_plan(target.metadata, ScanRequest(target.schema, target.options, snapshot, names, filter))


def rows_where(
    target: WriteTarget, snapshot: Snapshot | None, filter: Filter, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yields the rows for which the filter is true, all columns unless given, in bounded memory.

    Raises:
        CommitConflict: others have changed the table, and the snapshot has expired. Others: as reading does.
    """
    with reading(target.metadata, snapshot):
        for batch in execute.to_batches(plan_where(target, snapshot, filter, columns), target.store):
            yield pa.Table.from_batches([batch])


def checked(target: WriteTarget, rows: pa.Table) -> pl.DataFrame:
    """Returns rows as `writers.rows.incoming` yields them, in one frame of the table's columns (keyed tables: and
    kinds); columns that a statement does not name get their default value or null."""
    return pl.concat(incoming(target, rows, partial=True, stored=True))


def of_kind(target: WriteTarget, rows: pa.Table, kind: str) -> pa.Table:
    """Returns the rows with this kind in the column ``rowkind.field``, which would overrule it."""
    name = target.write.rowkind_field
    if name is None or name not in rows.column_names:
        return rows
    column = pa.repeat(pa.scalar(kind, target.schema.by_name[name].type.arrow()), rows.num_rows)
    return rows.set_column(rows.column_names.index(name), name, column)
