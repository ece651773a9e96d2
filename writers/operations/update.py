"""Updates: columns of the rows that match a condition get new values."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import Filter, FilterLike, parse_filter
from morrow.readers.dtypes import to_arrow_table
from morrow.writers.append.row_level import update_where
from morrow.writers.expiry.automatic import maintained
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.operations.expressions import Expression, Value, checked, values
from morrow.writers.operations.rules import check_updatable
from morrow.writers.operations.scanning import checked as checked_rows
from morrow.writers.operations.scanning import of_kind, rows_where
from morrow.writers.operations.session import WriteSession, commit_once
from morrow.writers.target import WriteTarget


def update(target: WriteTarget, assignments: Mapping[str, Value], condition: FilterLike) -> Snapshot | None:
    """Give columns new values in the rows for which the condition is true (None: in all rows).

    Raises:
        ColumnNotFound, InvalidArgument: a column that is not there or belongs to the primary key, an expression that
            cannot be computed, values that do not fit their column.
        Unsupported: the merge engine updates no rows.
    """
    if not isinstance(assignments, Mapping) or not assignments:
        raise InvalidArgument("update: give the columns to set, such as {'amount': 'amount * 2'}")
    fields = target.schema.fields
    names = dict.fromkeys(f.name for f in fields)
    expressions = {name: checked(f"set {name}", value, names) for name, value in assignments.items()}
    for name in expressions:
        target.schema.column(name)
    check_updatable(target, expressions, "an update")
    filter = parse_filter(condition, fields)
    snapshot = target.metadata.latest_snapshot()
    if target.keyed:
        return _upsert(target, expressions, snapshot, filter)

    def assign(rows: pl.DataFrame) -> pl.DataFrame:
        return checked_rows(target, assigned(target, expressions, to_arrow_table(rows, fields)))

    messages = update_where(target, snapshot, assign, filter)
    return commit_once(maintained(target), messages, BATCH_COMMIT_IDENTIFIER)


def _upsert(
    target: WriteTarget, expressions: Mapping[str, Expression], snapshot: Snapshot | None, filter: Filter
) -> Snapshot | None:
    session = WriteSession(target)
    try:
        for rows in rows_where(target, snapshot, filter):
            session.write(of_kind(target, assigned(target, expressions, rows), "+U"), "+U")
        return session.commit()
    finally:
        session.abort()


def assigned(target: WriteTarget, expressions: Mapping[str, Expression], rows: pa.Table) -> pa.Table:
    """The rows with the new values; every expression sees the old ones."""
    new = values(expressions, target.schema.by_name, rows)
    columns = [new.get(name, rows.column(name)) for name in rows.column_names]
    return pa.Table.from_arrays(columns, names=rows.column_names)
