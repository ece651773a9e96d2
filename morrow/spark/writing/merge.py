"""`morrow.spark.merge`: MERGE INTO as a DataFrame call. Spark joins; the changed rows are committed as those of SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import Roots
from morrow.engine.plan.filter import NO_FILTER
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.values import replace
from morrow.spark.writing.assigning import Assignments, Value, by_column, column_of, default_of, is_column
from morrow.spark.writing.merge_rows import Prepared, Step, side, sources_of
from morrow.spark.writing.write import Place, metadata_at
from morrow.writers.operations.merge_clauses import (
    DELETE,
    INSERT,
    MATCHED,
    SOURCE,
    UNMATCHED,
    UNMATCHED_BY_SOURCE,
    UPDATE,
    Clause,
)
from morrow.writers.operations.new_versions import check_deletable, check_updatable
from morrow.writers.operations.serial import serially
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def merge(
    source: DataFrame,
    target: Place,
    on: str | Sequence[str] | Column,
    *,
    properties: Mapping[str, str] | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
) -> Merge:
    """Begins a MERGE INTO: rows of a DataFrame are matched with those of a table; clauses are methods of the result.

        (morrow.spark.merge(changes, orders, on="id")
            .when_matched_delete("source.gone")
            .when_matched_update({"amount": "target.amount + source.amount"})
            .when_not_matched_insert()
            .execute())

    Args:
        source: rows; Spark computes them again where others commit first, so that they should not be random.
        target: the table's folder or URL, as every executor sees it, or a `Table`. It has a primary key, unless rows
            are only inserted.
        on: the column or columns that are equal in both, or a condition on ``target.x`` and ``source.x``: SQL, or a
            Column such as ``F.col("target.id") == F.col("source.id")``.
        properties: stored in the snapshot.
        branch, storage_options, allowed_roots: as for `morrow.open`; of a path only.

    Raises:
        TableNotFound, BranchNotFound: no such table.
    """
    return Merge(metadata_at(target, branch, storage_options, allowed_roots), source, on, dict(properties or {}))


@dataclass(frozen=True)
class Merge:
    """A builder of a MERGE INTO; nothing happens before `execute`. Created by `merge`.

    Clauses are tried in the order in which they were added, and the first whose condition is true applies. Conditions
    and values are SQL of Spark, Columns, or constants that are no text; they name columns as ``target.x`` and
    ``source.x``.
    """

    metadata: TableMetadata
    source: DataFrame
    on: str | Sequence[str] | Column
    properties: Mapping[str, str] = field(default_factory=dict)
    clauses: tuple[Clause, ...] = ()

    def when_matched_update(self, set: Assignments | None = None, condition: Value | None = None) -> Merge:
        """Updates a row of the table that a row of the source matches; `set` None: all columns of the source."""
        return self._with(Clause(MATCHED, UPDATE, set, condition))

    def when_matched_delete(self, condition: Value | None = None) -> Merge:
        """Deletes a row of the table that a row of the source matches."""
        return self._with(Clause(MATCHED, DELETE, None, condition))

    def when_not_matched_insert(self, values: Assignments | None = None, condition: Value | None = None) -> Merge:
        """Inserts a row of the source without a match; `values` None: all its columns. Other columns get defaults."""
        return self._with(Clause(UNMATCHED, INSERT, values, condition))

    def when_not_matched_by_source_update(self, set: Assignments, condition: Value | None = None) -> Merge:
        """Updates a row of the table that no row of the source matches; values can read ``target`` only."""
        return self._with(Clause(UNMATCHED_BY_SOURCE, UPDATE, set, condition))

    def when_not_matched_by_source_delete(self, condition: Value | None = None) -> Merge:
        """Deletes a row of the table that no row of the source matches."""
        return self._with(Clause(UNMATCHED_BY_SOURCE, DELETE, None, condition))

    def _with(self, clause: Clause) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))

    def execute(self) -> Snapshot | None:
        """Runs the merge as jobs of Spark, in one commit.

        Returns: the last snapshot created, None when nothing changed.

        Raises:
            InvalidArgument: no clause, values of types that do not fit their columns.
            ColumnNotFound: a missing column.
            Unsupported: a change that the table's merge engine does not support, or of a table without a primary key.
            CommitConflict: others changed the table each time its rows were read; nothing was changed.
            Spark's own errors: expressions that it cannot compute; a row that several rows of the source match, when
            there is a clause for matched rows; a primary key that a clause would change.
        """
        target = WriteTarget.of(self.metadata)
        prepared = _prepared(self, target)
        return serially(target, NO_FILTER, prepared.attempt)


def _prepared(merge: Merge, target: WriteTarget) -> Prepared:
    if not merge.clauses:
        raise InvalidArgument("merge: say what to do: when_matched_update, when_not_matched_insert and so on")
    spark = merge.source.sparkSession
    known = set(target.schema.by_name)
    on: tuple[str, ...] | Column
    if is_column(merge.on) or (isinstance(merge.on, str) and merge.on not in known):
        on = column_of(merge.on)
    else:
        given = [merge.on] if isinstance(merge.on, str) else list(merge.on)  # type: ignore[arg-type]  # no Column
        on = tuple(by_column(dict.fromkeys(given), target, spark))
        if not on:
            raise InvalidArgument("merge: give the columns or the condition to match on")
        sources_of(merge.source, on)
    changes = [clause for clause in merge.clauses if clause.action != INSERT]
    if changes and not target.keyed:
        raise Unsupported(
            "merge by Spark that changes rows of a table without a primary key",
            where=target.where,
            hint="use merge of morrow.open(path), or insert only",
        )
    for clause in changes:
        if clause.action == DELETE:
            check_deletable(target)
        else:
            check_updatable(target, (), "a merge that updates")
    steps = tuple(_step(clause, merge.source, target, on) for clause in merge.clauses)
    return Prepared(target, merge.source, on, steps, merge.properties)


def _step(clause: Clause, source: DataFrame, target: WriteTarget, on: tuple[str, ...] | Column) -> Step:
    condition = None if clause.condition is None else column_of(clause.condition)
    if clause.action == DELETE:
        return Step(clause.when, clause.action, condition, {})
    given: Assignments
    if clause.assignments is None:
        keys = {name.casefold() for name in on} if clause.action == UPDATE and isinstance(on, tuple) else set()
        names = [name for name in source.columns if name.casefold() not in keys]
        sources_of(source, names)
        given = {name: side(SOURCE, name) for name in names}
    else:
        given = clause.assignments
    values = {n: column_of(v) for n, v in by_column(given, target, source.sparkSession).items()}
    if clause.action == INSERT:
        values = {f.name: values[f.name] if f.name in values else default_of(f) for f in target.schema.fields}
    return Step(clause.when, clause.action, condition, values)
