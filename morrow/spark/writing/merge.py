"""`morrow.spark.merge`: MERGE INTO as a DataFrame call.

Spark joins both sides. The first clause that applies to a pair of rows is executed, and the changed rows are
committed as for MERGE INTO in SQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import Roots
from morrow.engine.names import KIND, OWN_PREFIX, SOURCE, TARGET, reserve_name
from morrow.engine.plan.filter import NO_FILTER
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import list_tracked_fields
from morrow.engine.structs import replace
from morrow.spark.expressions import quote_name
from morrow.spark.writing.assignments import (
    Assignments,
    Value,
    assign_columns,
    default_of,
    is_column,
    resolve_columns,
    to_column,
)
from morrow.spark.writing.changes import change, insert, list_identifying, read_identified
from morrow.spark.writing.tasks import DELETED, INSERTED, UPDATED
from morrow.spark.writing.write import Place, is_case_sensitive, open_metadata
from morrow.writers.commit import messages as tally
from morrow.writers.commit.premise import Premise
from morrow.writers.operations.merge import (
    DELETE,
    INSERT,
    MATCHED,
    UNMATCHED,
    UNMATCHED_BY_SOURCE,
    UPDATE,
    Clause,
)
from morrow.writers.operations.update import check_deletable, check_updatable
from morrow.writers.operations.write_session import run_serially
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
    """Begin a MERGE INTO of a DataFrame into a table. The clauses are methods of the result.

        (morrow.spark.merge(changes, orders, on="id")
            .when_matched_delete("source.gone")
            .when_matched_update({"amount": "target.amount + source.amount"})
            .when_not_matched_insert()
            .execute())

    Args:
        source: rows. Spark computes them again if others commit first, so they should not be random.
        target: the table's folder or URL, valid on every executor, or a `Table`.
        on: the column or columns that are equal in both, or a condition on ``target.x`` and ``source.x``: SQL, or a
            Column such as ``F.col("target.id") == F.col("source.id")``.
        properties: stored in the snapshot.
        branch, storage_options, allowed_roots: as for `morrow.open`; only with a path.

    Raises:
        TableNotFound, BranchNotFound: no such table.
    """
    return Merge(open_metadata(target, branch, storage_options, allowed_roots), source, on, dict(properties or {}))


@dataclass(frozen=True)
class Merge:
    """A builder of a MERGE INTO; nothing happens before `execute`. Created by `merge`.

    Clauses are tried in the order in which they were added; the first whose condition is true applies. Conditions
    and values are Spark SQL, Columns, or constants other than text; they name columns as ``target.x`` and
    ``source.x``.
    """

    metadata: TableMetadata
    source: DataFrame
    on: str | Sequence[str] | Column
    properties: Mapping[str, str] = field(default_factory=dict)
    clauses: tuple[Clause, ...] = ()

    def when_matched_update(self, set: Assignments | None = None, condition: Value | None = None) -> Merge:
        """Update a row of the table that a row of the source matches. `set` None: all columns of the source."""
        return self._with(Clause(MATCHED, UPDATE, set, condition))

    def when_matched_delete(self, condition: Value | None = None) -> Merge:
        """Delete a row of the table that a row of the source matches."""
        return self._with(Clause(MATCHED, DELETE, None, condition))

    def when_not_matched_insert(self, values: Assignments | None = None, condition: Value | None = None) -> Merge:
        """Insert a row of the source without a match.

        `values` None: all its columns. Other columns get their defaults.
        """
        return self._with(Clause(UNMATCHED, INSERT, values, condition))

    def when_not_matched_by_source_update(self, set: Assignments, condition: Value | None = None) -> Merge:
        """Update a row of the table that no row of the source matches. Values can read only ``target``."""
        return self._with(Clause(UNMATCHED_BY_SOURCE, UPDATE, set, condition))

    def when_not_matched_by_source_delete(self, condition: Value | None = None) -> Merge:
        """Delete a row of the table that no row of the source matches."""
        return self._with(Clause(UNMATCHED_BY_SOURCE, DELETE, None, condition))

    def _with(self, clause: Clause) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))

    def execute(self) -> Snapshot | None:
        """Run the merge by Spark jobs, in one commit.

        Returns: the last snapshot created, or None if nothing changed.

        Raises:
            InvalidArgument: no clause, or values of the wrong types.
            ColumnNotFound: a missing column.
            Unsupported: a change that the table's merge engine does not support.
            CommitConflict: others changed the table each time its rows were read; nothing was changed.
            Spark's own errors: expressions that Spark cannot compute; a row that several rows of the source match, if
            there is a clause for matched rows; a primary key that a clause would change.
        """
        target = WriteTarget.of(self.metadata)
        prepared = _prepare(self, target)
        return run_serially(target, NO_FILTER, prepared.attempt)


def _prepare(merge: Merge, target: WriteTarget) -> Prepared:
    if not merge.clauses:
        raise InvalidArgument("merge: say what to do: when_matched_update, when_not_matched_insert and so on")
    spark = merge.source.sparkSession
    tracked = [field.name for field in list_tracked_fields(target.schema, target.options)]
    known = {*target.schema.by_name, *tracked}
    on: tuple[str, ...] | Column
    if is_column(merge.on) or (isinstance(merge.on, str) and merge.on not in known):
        on = to_column(merge.on)
    else:
        given = [merge.on] if isinstance(merge.on, str) else list(merge.on)  # type: ignore[arg-type]  # not a Column
        on = tuple(resolve_columns(dict.fromkeys(given), target, spark, tracked))
        if not on:
            raise InvalidArgument("merge: give the columns or the condition to match on")
        find_source_columns(merge.source, on)
    for clause in merge.clauses:
        if clause.action == DELETE:
            check_deletable(target)
        elif clause.action == UPDATE:
            check_updatable(target, (), "a merge that updates")
    steps = tuple(_step(clause, merge.source, target, on) for clause in merge.clauses)
    return Prepared(target, merge.source, on, steps, merge.properties)


def _step(clause: Clause, source: DataFrame, target: WriteTarget, on: tuple[str, ...] | Column) -> Step:
    condition = None if clause.condition is None else to_column(clause.condition)
    if clause.action == DELETE:
        return Step(clause.when, clause.action, condition, {})
    given: Assignments
    if clause.assignments is None:
        keys = {name.casefold() for name in on} if clause.action == UPDATE and isinstance(on, tuple) else set()
        names = [name for name in source.columns if name.casefold() not in keys]
        find_source_columns(source, names)
        given = {name: make_side_column(SOURCE, name) for name in names}
    else:
        given = clause.assignments
    values = {n: to_column(v) for n, v in resolve_columns(given, target, source.sparkSession).items()}
    if clause.action == INSERT:
        values = {f.name: values[f.name] if f.name in values else default_of(f) for f in target.schema.fields}
    return Step(clause.when, clause.action, condition, values)


HERE, THERE = reserve_name("in_source"), reserve_name("in_target")
"""Columns that are true in rows of the source and of the table, and null for the missing side of an outer join."""
CLAUSE, PAIR = reserve_name("clause"), reserve_name("pair")
OPERATIONS: Mapping[str, int] = {DELETE: DELETED, UPDATE: UPDATED, INSERT: INSERTED}
JOINS: Mapping[tuple[bool, bool], str] = {
    (False, False): "inner",
    (True, False): "right",
    (False, True): "left",
    (True, True): "full",
}
"""The join type by whether to keep unmatched rows of the source, and of the table. The table is the left side."""


@dataclass(frozen=True)
class Step:
    """A clause, with the value of each column that it sets."""

    when: str
    action: str
    condition: Column | None
    values: Mapping[str, Column]


@dataclass(frozen=True)
class Prepared:
    """A merge that has been checked."""

    target: WriteTarget
    source: DataFrame
    on: tuple[str, ...] | Column
    steps: tuple[Step, ...]
    properties: Mapping[str, str]

    def attempt(self, premise: Premise) -> Snapshot | None:
        rows = _build_changes(self, premise)
        names = list(self.target.schema.by_name)
        if all(step.action == INSERT for step in self.steps):
            with tally.count_rows_of(tally.Operation.MERGE):
                return insert(rows.select(*map(quote_name, names)), self.target, premise, self.properties)
        columns = {name for step in self.steps if step.action == UPDATE for name in step.values}
        return change(rows, self.target, "MERGE", premise, self.properties, columns)


def _build_changes(merge: Prepared, premise: Premise) -> DataFrame:
    """Return the changed rows as `change` takes them: the operation, the columns of the table, the old key."""
    from pyspark.sql import functions

    fields = merge.target.schema.by_name
    rows = _join_sides(merge, premise)
    for when, visible in _VISIBLE.items():
        steps = {number: step for number, step in enumerate(merge.steps) if step.when == when}
        if steps:
            rows = _add_values(visible(rows, merge.target), when, steps)
    rows = _select_changed(rows, merge)
    values = {_name_value(number, n): fields[n] for number, step in enumerate(merge.steps) for n in step.values}
    ids = list_identifying(merge.target)
    rows = assign_columns(rows, values, [CLAUSE, *map(_name_old, _list_old(merge.target))])
    operation = functions.lit(None).cast("int")
    columns = {name: functions.col(quote_name(_name_old(name))) for name in fields}
    for number, step in enumerate(merge.steps):
        applies = functions.col(CLAUSE) == number
        operation = functions.when(applies, OPERATIONS[step.action]).otherwise(operation)
        for name in step.values:
            columns[name] = functions.when(applies, functions.col(quote_name(_name_value(number, name)))).otherwise(
                columns[name]
            )
    return rows.select(
        operation.alias(KIND),
        *(column.alias(name) for name, column in columns.items()),
        *(functions.col(quote_name(_name_old(name))).alias(given) for name, given in ids.items()),
    )


def _name_old(column: str) -> str:
    """Return the name for a copy of a column of the table, which is hidden from expressions."""
    return reserve_name("old", column)


def _name_value(clause: int, column: str) -> str:
    return reserve_name("set", clause, column)


def _name_clause(when: str) -> str:
    """Return the name of the column with the number of the clause of this kind that applies."""
    return reserve_name("clause", when)


def _join_sides(merge: Prepared, premise: Premise) -> DataFrame:
    """Return the pairs of rows, and unmatched rows of either side if there is a clause for them."""
    from pyspark.sql import functions

    target = merge.target
    stored = read_identified(target, premise, merge.source.sparkSession)
    left = stored.withColumn(THERE, functions.lit(True)).alias(TARGET)
    right = merge.source.withColumn(HERE, functions.lit(True)).alias(SOURCE)
    if isinstance(merge.on, tuple):
        there = find_source_columns(merge.source, merge.on)
        equal = [make_side_column(TARGET, name) == make_side_column(SOURCE, there[name]) for name in merge.on]
        on = reduce(lambda one, other: one & other, equal)
    else:
        on = merge.on
    whens = {step.when for step in merge.steps}
    pairs = left.join(right, on, JOINS[UNMATCHED in whens, UNMATCHED_BY_SOURCE in whens])
    return pairs.select("*", *(make_side_column(TARGET, name).alias(_name_old(name)) for name in _list_old(target)))


def _list_old(target: WriteTarget) -> tuple[str, ...]:
    """Return the columns of the table, and the others that identify its rows."""
    return tuple(dict.fromkeys((*target.schema.by_name, *list_identifying(target))))


# The columns visible to expressions: the sides from which a kind of clause has rows, without Morrow's own columns.


def _keep_both(rows: DataFrame, _target: WriteTarget) -> DataFrame:
    return rows


def _select_source(rows: DataFrame, _target: WriteTarget) -> DataFrame:
    return rows.select(f"{SOURCE}.*", *(quote_name(name) for name in _own(rows) if name != HERE))


def _select_target(rows: DataFrame, target: WriteTarget) -> DataFrame:
    from pyspark.sql import functions

    columns = (functions.col(quote_name(_name_old(name))).alias(name) for name in _list_old(target))
    return rows.select(*columns, *map(quote_name, _own(rows))).alias(TARGET)


_VISIBLE = {MATCHED: _keep_both, UNMATCHED: _select_source, UNMATCHED_BY_SOURCE: _select_target}
"""Functions that select the visible columns, by the kind of a clause. Their order matters: hidden columns stay
hidden."""


def _own(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name.startswith(OWN_PREFIX)]


def _add_values(rows: DataFrame, when: str, steps: Mapping[int, Step]) -> DataFrame:
    """Add the number of the first clause that applies, and the values of this clause; others are not computed."""
    from pyspark.sql import functions

    here, there = functions.col(HERE).isNotNull(), functions.col(THERE).isNotNull()
    concerned = {MATCHED: here & there, UNMATCHED: here & ~there, UNMATCHED_BY_SOURCE: there & ~here}[when]
    chosen = functions.lit(None).cast("int")
    for number, step in reversed(list(steps.items())):
        applies = functions.lit(True) if step.condition is None else step.condition
        chosen = functions.when(applies, number).otherwise(chosen)
    rows = rows.select("*", functions.when(concerned, chosen).alias(_name_clause(when)))
    mine = functions.col(quote_name(_name_clause(when)))
    return rows.select(
        "*",
        *(
            functions.when(mine == number, value).alias(_name_value(number, name))
            for number, step in steps.items()
            for name, value in step.values.items()
        ),
    )


def _select_changed(rows: DataFrame, merge: Prepared) -> DataFrame:
    """Return the rows to which a clause applies: only Morrow's own columns, with the clause's number as `CLAUSE`."""
    from pyspark.sql import Window, functions

    columns = [functions.col(quote_name(name)) for name in _own(rows)]
    whens = dict.fromkeys(step.when for step in merge.steps)
    clause = functions.coalesce(*(functions.col(quote_name(_name_clause(when))) for when in whens))
    rows = rows.select(*columns, clause.alias(CLAUSE))
    applies = functions.col(CLAUSE).isNotNull()
    if not _is_ambiguous(merge):
        return rows.where(applies)
    pair = functions.col(HERE) & functions.col(THERE)
    # Rows without a match must not form a group, so each gets its own number.
    number = functions.when(functions.coalesce(pair, functions.lit(False)), None)
    rows = rows.select("*", number.otherwise(functions.monotonically_increasing_id()).alias(PAIR)).where(pair | applies)
    keys = [functions.col(quote_name(_name_old(name))) for name in list_identifying(merge.target)]
    several = functions.count(functions.lit(1)).over(Window.partitionBy(*keys, PAIR)) > 1
    failed = functions.raise_error(functions.lit(_describe_duplicate(merge.target)))
    clause = functions.when(several, failed.cast("int")).otherwise(functions.col(CLAUSE))
    rows = rows.select(
        *(functions.col(quote_name(n)) for n in _own(rows) if n not in (CLAUSE, PAIR)), clause.alias(CLAUSE)
    )
    return rows.where(applies)


def _is_ambiguous(merge: Prepared) -> bool:
    """Return whether several source rows for one row are an error. They are not if every matched row is deleted."""
    matched = [step for step in merge.steps if step.when == MATCHED]
    return bool(matched) and (matched[0].action != DELETE or matched[0].condition is not None)


def _describe_duplicate(target: WriteTarget) -> str:
    return (
        f"InvalidArgument: {target.where}: merge: several rows of the source match one row of the table; make the "
        "source unique in what it is matched on"
    )


def find_source_columns(source: DataFrame, names: Sequence[str]) -> dict[str, str]:
    """Return the columns of the source with these names. Raises `ColumnNotFound`, `InvalidArgument`."""
    folds = not is_case_sensitive(source.sparkSession)
    found: dict[str, str] = {}
    for name in names:
        same = [c for c in source.columns if c == name or (folds and c.casefold() == name.casefold())]
        if not same:
            raise ColumnNotFound(f"merge on {name!r}: the source has only {', '.join(source.columns)}")
        if len(same) > 1:
            raise InvalidArgument(f"merge: the source has several columns {name!r}")
        found[name] = same[0]
    return found


def make_side_column(side: str, name: str) -> Column:
    from pyspark.sql import functions

    return functions.col(f"{side}.{quote_name(name)}")
