"""The clauses of a MERGE INTO: checked against the columns of both sides, and compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.names import col
from morrow.writers.operations.expressions import Expression, Value, checked
from morrow.writers.operations.new_versions import check_deletable, check_updatable
from morrow.writers.rows.decoded import plain
from morrow.writers.rows.sources import is_of_pandas, source_of
from morrow.writers.target import WriteTarget

MATCHED, UNMATCHED, UNMATCHED_BY_SOURCE = "matched", "not matched", "not matched by source"
UPDATE, DELETE, INSERT = "update", "delete", "insert"
TARGET, SOURCE = "target", "source"


@dataclass(frozen=True)
class Clause:
    """A clause ``WHEN <when> [AND <condition>] THEN <action>``; `assignments` None: all columns of the source."""

    when: str
    action: str
    assignments: Mapping[str, Value] | None = None
    condition: Value | None = None


@dataclass(frozen=True)
class Step:
    """A clause, compiled: its condition, and the value of each column that it sets."""

    when: str
    action: str
    condition: Expression | None
    values: Mapping[str, Expression]


@dataclass(frozen=True)
class Prepared:
    """A merge that was checked: its source in memory, what it is matched on, its clauses."""

    target: WriteTarget
    source: pa.Table
    on: str | tuple[str, ...]
    steps: tuple[Step, ...]

    def of(self, when: str) -> list[Step]:
        """Returns the clauses for these rows, in order."""
        return [step for step in self.steps if step.when == when]


def prepared(
    target: WriteTarget, given: object, matched_on: str | Sequence[str], clauses: Sequence[Clause]
) -> Prepared:
    """Checks a merge and compiles its clauses; raises as `Merge.execute`."""
    if not clauses:
        raise InvalidArgument("merge: say what to do: when_matched_update, when_not_matched_insert and so on")
    source = _source_table(target, given)
    sides = {TARGET: list(target.schema.by_name), SOURCE: source.column_names}
    on: str | tuple[str, ...]
    if isinstance(matched_on, str) and matched_on not in target.schema.by_name:
        checked("merge on", matched_on, sides)
        on = matched_on
    else:
        on = (matched_on,) if isinstance(matched_on, str) else tuple(matched_on)
        for name in on:
            target.schema.column(name)
            if name not in source.column_names:
                raise ColumnNotFound(f"merge on {name!r}: the source has only {', '.join(source.column_names)}")
        if not on:
            raise InvalidArgument("merge: give the columns or the condition to match on")
    return Prepared(target, source, on, tuple(_step(target, clause, sides, on) for clause in clauses))


def _source_table(target: WriteTarget, data: object) -> pa.Table:
    # Of pandas, floats stand for integers with nulls, and times for dates, where the table has such columns.
    source = source_of(data, target.schema.fields if is_of_pandas(data) else ())
    pieces = [piece if isinstance(piece, pa.Table) else piece.to_arrow() for piece in source.pieces]
    if not pieces:
        return pa.table({name: pa.nulls(0) for name in source.names})
    whole = pa.concat_tables(pieces)
    # Joins and Arrow's `take` do not know all layouts.
    return pa.table({name: _plain(column, name) for name, column in zip(whole.column_names, whole.columns)})


def _plain(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    try:
        return pa.chunked_array([plain(chunk) for chunk in column.chunks or [pa.array([], column.type)]])
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"merge, column {name!r} of the source: {column.type} ({error})") from error


def _step(target: WriteTarget, clause: Clause, sides: Mapping[str, Sequence[str]], on: str | tuple[str, ...]) -> Step:
    visible = {
        MATCHED: sides,
        UNMATCHED: {SOURCE: sides[SOURCE]},
        UNMATCHED_BY_SOURCE: {TARGET: sides[TARGET]},
    }[clause.when]
    what = f"when {clause.when} {clause.action}"
    only_if = None if clause.condition is None else checked(what, clause.condition, visible)
    if clause.action == DELETE:
        check_deletable(target)
        return Step(clause.when, clause.action, only_if, {})
    assignments = clause.assignments
    if assignments is None:
        assignments = {name: col(f"{SOURCE}.{name}") for name in sides[SOURCE]}
        if clause.action == UPDATE and not isinstance(on, str):
            assignments = {name: value for name, value in assignments.items() if name not in on}
    for name in assignments:
        target.schema.column(name)
    compiled = {name: checked(f"{what}, {name}", value, visible) for name, value in assignments.items()}
    if clause.action == UPDATE:
        check_updatable(target, compiled, "a merge that updates")
    return Step(clause.when, clause.action, only_if, compiled)
