"""Updates of columns in the rows that match a condition."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import FilterLike, parse_filter
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.writers.append.row_level import update_where
from morrow.writers.commit import tally
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.tally import Operation, recorded
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.committing import commit_once
from morrow.writers.operations.expressions import Expression, Value, checked, values
from morrow.writers.operations.new_versions import check_updatable, new_versions
from morrow.writers.operations.scanning import checked as checked_rows
from morrow.writers.operations.scanning import of_kind, rows_where
from morrow.writers.operations.serial import serially
from morrow.writers.operations.session import WriteSession
from morrow.writers.target import WriteTarget


@recorded(Operation.UPDATE)
def update(target: WriteTarget, assignments: Mapping[str, Value], condition: FilterLike) -> Snapshot | None:
    """Updates columns in the rows for which the condition is true (None: in all rows).

    Raises:
        ColumnNotFound, InvalidArgument: a column that is missing or belongs to the primary key, an expression that
            cannot be computed, values that do not fit their column.
        Unsupported: the merge engine updates no rows, or would produce other rows; see `new_versions`.
        CommitConflict: others changed these rows each time they were read.
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
    how = _upsert if target.keyed else _replace
    return serially(target, filter, partial(how, target, expressions))


def _replace(target: WriteTarget, expressions: Mapping[str, Expression], premise: Premise) -> Snapshot | None:
    tally.count(updated=0)

    def assign(rows: pl.DataFrame) -> pl.DataFrame:
        tally.count(updated=rows.height)
        return checked_rows(target, assigned(target, expressions, to_arrow_table(rows, target.schema.fields)))

    messages = update_where(target, premise.read, assign, premise.filter)
    return commit_once(maintained(target), messages, BATCH_COMMIT_IDENTIFIER, premise=premise)


def _upsert(target: WriteTarget, expressions: Mapping[str, Expression], premise: Premise) -> Snapshot | None:
    tally.count(updated=0)
    session = WriteSession(target)
    try:
        for rows in rows_where(target, premise.read, premise.filter):
            new = new_versions(target, rows, assigned(target, expressions, rows), expressions.keys())
            session.write(of_kind(target, new, "+U"), "+U")
            tally.count(updated=new.num_rows)
        return session.commit(premise=premise)
    finally:
        session.abort()


def assigned(target: WriteTarget, expressions: Mapping[str, Expression], rows: pa.Table) -> pa.Table:
    """Returns the rows with the new values; every expression reads the old ones."""
    new = values(expressions, target.schema.by_name, rows)
    columns = [new.get(name, rows.column(name)) for name in rows.column_names]
    return pa.Table.from_arrays(columns, names=rows.column_names)
