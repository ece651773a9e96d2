"""MERGE INTO: rows of a source are matched with rows of the table, then updated, deleted or inserted by clauses.

The clauses are checked against the columns of both sides, and compiled. The table is read in batches; each is joined
with the source, which is held in memory. For every matched pair, and for every row of either side without a match, the
first clause whose condition is true applies. The changes are row kinds in keyed tables, and row-level changes in append
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.schema import TRACKED
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.library_versions import export_frame, import_array
from morrow.engine.names import POSITION, ROW, SOURCE, TARGET, col, find_free_name
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.predicate import ALWAYS, combine_predicates
from morrow.engine.plan.scan_plan import list_tracked_fields
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.expressions.sql import open_session, quote_identifier, rename_row_columns, run_query
from morrow.writers.append.row_level import MatchingRows, RowChanges
from morrow.writers.commit import messages as tally
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage, Operation, record_operation
from morrow.writers.commit.premise import Premise
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.ingest.sources import is_of_pandas, open_source
from morrow.writers.ingest.validation import check_values, to_plain
from morrow.writers.operations.expressions import (
    JOIN,
    Expression,
    Value,
    check_expression,
    evaluate_condition,
    evaluate_expressions,
    import_duckdb_error,
)
from morrow.writers.operations.update import (
    build_bounds,
    build_new_versions,
    check_deletable,
    check_deletions,
    check_updatable,
    list_deletion_columns,
    list_read_columns,
)
from morrow.writers.operations.write_session import (
    WriteSession,
    check_rows,
    commit_once,
    read_rows_where,
    run_serially,
    set_row_kind,
)
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class Merge:
    """Builder of a MERGE INTO; nothing happens before `execute`.

        (t.merge(changes, on="id")
          .when_matched_delete("source.gone")
          .when_matched_update({"amount": "target.amount + source.amount"})
          .when_not_matched_insert()
          .execute())

    Clauses are tried in the order in which they were added. In SQL the columns are ``target.x`` and ``source.x``, in
    Polars expressions ``pl.col("target.x")``. Values as in `Table.update`. Created by `Table.merge`.
    """

    target: WriteTarget
    source: object
    on: str | Sequence[str]
    clauses: tuple[Clause, ...] = field(default=())

    def when_matched_update(self, set: Mapping[str, Value] | None = None, condition: Value | None = None) -> Merge:
        """Update a row of the table that a row of the source matches. If `set` is None, all source columns are set."""
        return self._with(Clause(MATCHED, UPDATE, set, condition))

    def when_matched_delete(self, condition: Value | None = None) -> Merge:
        """Delete a row of the table that a row of the source matches."""
        return self._with(Clause(MATCHED, DELETE, None, condition))

    def when_not_matched_insert(
        self, values: Mapping[str, Value] | None = None, condition: Value | None = None
    ) -> Merge:
        """Insert a row of the source without a match; `values` None: all its columns. Missing columns get defaults."""
        return self._with(Clause(UNMATCHED, INSERT, values, condition))

    def when_not_matched_by_source_update(self, set: Mapping[str, Value], condition: Value | None = None) -> Merge:
        """Update a row of the table that no row of the source matches; values can read ``target`` only."""
        return self._with(Clause(UNMATCHED_BY_SOURCE, UPDATE, set, condition))

    def when_not_matched_by_source_delete(self, condition: Value | None = None) -> Merge:
        """Delete a row of the table that no row of the source matches."""
        return self._with(Clause(UNMATCHED_BY_SOURCE, DELETE, None, condition))

    def _with(self, clause: Clause) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))

    @record_operation(Operation.MERGE)
    def execute(self) -> Snapshot | None:
        """Run the merge in one commit.

        Returns: the last snapshot created, None if nothing changed.

        Raises:
            InvalidArgument: no clauses, a row of the table that several rows of the source match (if there is a clause
                for matched rows), expressions that cannot be computed, values that do not fit their column.
            ColumnNotFound: a column does not exist.
            Unsupported: the table's merge engine does not support a change.
            CommitConflict: other commits changed the table each time its rows were read; nothing was changed.
        """
        return _run(compile_merge(self.target, self.source, self.on, self.clauses))


def _run(merge: CompiledMerge) -> Snapshot | None:
    if merge.target.keyed:
        check_updatable(merge.target, (), "a merge")
    return run_serially(merge.target, _build_filter(merge), partial(_try_merge, merge), _list_columns(merge))


def _list_columns(merge: CompiledMerge) -> frozenset[str] | None:
    """Return the columns of the table that a merge reads or updates; None: all."""
    found = [merge.read]
    for step in merge.steps:
        found.append(frozenset() if step.condition is None else step.condition.columns)
        found.append(list_read_columns(step.values) if step.action != INSERT else frozenset())
    known = [each for each in found if each is not None]
    return frozenset[str]().union(*known) if len(known) == len(found) else None


def _try_merge(merge: CompiledMerge, premise: Premise) -> Snapshot | None:
    with make_sink(merge.target, premise, _list_columns(merge)) as sink:
        _fill_sink(merge, sink)
        return sink.commit()


def prepare_merge(merge: CompiledMerge, snapshot: Snapshot | None) -> list[CommitMessage]:
    """Return the changes of a merge of an append table as messages. Raises as `Merge.execute`."""
    with _AppendSink(merge.target, Premise(snapshot, _build_filter(merge)), _list_columns(merge)) as sink:
        _fill_sink(merge, sink)
        return sink.messages()


def _fill_sink(merge: CompiledMerge, sink: MergeSink) -> None:
    target, source = merge.target, merge.source
    matched = np.zeros(source.num_rows, bool)
    tally.count(inserted=0, updated=0, deleted=0)
    for rows, take in sink.read():
        _merge_batch(merge, rows, take, matched, sink)
    fresh = source.filter(pa.array(~matched))
    for step, chosen in _choose_rows(merge.of(UNMATCHED), {SOURCE: fresh}):
        new = _build_new_rows(target, step, {SOURCE: fresh.take(chosen)}, None)
        sink.insert(new)
        tally.count(inserted=new.num_rows)


def _build_filter(merge: CompiledMerge) -> Filter:
    """Return a filter that skips rows that cannot match, unless a clause applies to rows without a match."""
    if merge.of(UNMATCHED_BY_SOURCE) or isinstance(merge.on, str):
        return NO_FILTER
    columns = (_find_key_column(merge, name) for name in merge.on)
    bounds = combine_predicates(*(part for column in columns if column is not None for part in build_bounds(column)))
    return NO_FILTER if bounds == ALWAYS else Filter(bounds, (), frozenset(merge.on), str(bounds))


def _find_key_column(merge: CompiledMerge, name: str) -> pl.Series | None:
    column = import_array(merge.source.column(name)).alias(name)
    known = {field.name: field for field in (*merge.target.schema.fields, *TRACKED)}
    wanted = import_array(pa.array([], known[name].type.arrow())).dtype
    if column.dtype != wanted:
        return None
    check_values(column, known[name], 0)  # Polars panics for dates that Python lacks
    return column


def _merge_batch(
    merge: CompiledMerge,
    rows: pa.Table,
    take: Callable[[pa.Array], object],
    matched: npt.NDArray[np.bool_],
    sink: MergeSink,
) -> None:
    """Apply the clauses to a batch of the table's rows."""
    here, there = find_matches(rows, merge.source, merge.on)
    matched[there] = True
    steps = merge.of(MATCHED)
    if steps and len(np.unique(here)) < len(here):
        twice = int(here[np.flatnonzero(np.bincount(here)[here] > 1)[0]])
        shown = rows.slice(twice, 1).to_pylist()[0]
        raise InvalidArgument(
            f"merge: several rows of the source match one row of the table ({shown}); make the source unique in what "
            "it is matched on"
        )
    if steps and len(here):
        sides = {TARGET: rows.take(pa.array(here)), SOURCE: merge.source.take(pa.array(there))}
        _apply_clauses(merge, steps, sides, here, take, sink)
    steps = merge.of(UNMATCHED_BY_SOURCE)
    if steps:
        alone = np.setdiff1d(np.arange(rows.num_rows), here)
        _apply_clauses(merge, steps, {TARGET: rows.take(pa.array(alone))}, alone, take, sink)


def _apply_clauses(
    merge: CompiledMerge,
    steps: Sequence[Step],
    sides: Mapping[str, pa.Table],
    numbers: npt.NDArray[np.int64],
    take: Callable[[pa.Array], object],
    sink: MergeSink,
) -> None:
    for step, chosen in _choose_rows(steps, sides):
        part = {side: table.take(chosen) for side, table in sides.items()}
        found = take(pa.array(numbers[chosen.to_numpy()]))
        if step.action == DELETE:
            check_deletions(merge.target, part[TARGET])
            sink.delete(part[TARGET], found)
            tally.count(deleted=part[TARGET].num_rows)
        else:
            sink.update(_build_new_rows(merge.target, step, part, part[TARGET]), found, step.values.keys())
            tally.count(updated=part[TARGET].num_rows)


def _choose_rows(steps: Sequence[Step], sides: Mapping[str, pa.Table]) -> Iterator[tuple[Step, pa.Array]]:
    """Yield each clause with the numbers of the rows for which it is the first clause to apply."""
    height = next(iter(sides.values())).num_rows
    left = np.ones(height, bool)
    joined = _join_sides(sides) if any(step.condition is not None for step in steps) else None
    for step in steps:
        mine = left.copy()
        if step.condition is not None and joined is not None and height:
            mine &= evaluate_condition(step.condition, joined).to_numpy()
        left &= ~mine
        if mine.any():
            yield step, pa.array(np.flatnonzero(mine))


def _build_new_rows(target: WriteTarget, step: Step, sides: Mapping[str, pa.Table], old: pa.Table | None) -> pa.Table:
    """Return the rows that a clause produces: its columns, and the remaining columns of the old row."""
    made = evaluate_expressions(step.values, target.schema.by_name, _join_sides(sides))
    if old is None:
        height = next(iter(sides.values())).num_rows
        return pa.table({**_fill_nulls(target, made, height), **made})
    names = old.column_names
    new = pa.Table.from_arrays([made.get(name, old.column(name)) for name in names], names=names)
    return build_new_versions(target, old, new, step.values.keys())


def _fill_nulls(target: WriteTarget, given: Iterable[str], height: int) -> dict[str, pa.Array]:
    """Return nulls for the columns that an insert does not set, except those with a default value."""
    absent = (f for f in target.schema.fields if f.name not in given and f.default_value is None and f.type.nullable)
    return {f.name: pa.nulls(height, f.type.arrow()) for f in absent}


def _join_sides(sides: Mapping[str, pa.Table]) -> pa.Table:
    """Return the rows of a join as a table with a struct column for each side."""
    return pa.table({side: _to_struct(table) for side, table in sides.items()}).replace_schema_metadata(JOIN)


def _to_struct(table: pa.Table) -> pa.Array:
    arrays = [pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type) for c in table.columns]
    return pa.StructArray.from_arrays(arrays, names=table.column_names)


MATCHED, UNMATCHED, UNMATCHED_BY_SOURCE = "matched", "not matched", "not matched by source"
UPDATE, DELETE, INSERT = "update", "delete", "insert"


@dataclass(frozen=True)
class Clause:
    """A clause ``WHEN <when> [AND <condition>] THEN <action>``; `assignments` None: all columns of the source."""

    when: str
    action: str
    assignments: Mapping[str, Value] | None = None
    condition: Value | None = None


@dataclass(frozen=True)
class Step:
    """A compiled clause: its condition, and the value of each column that it sets."""

    when: str
    action: str
    condition: Expression | None
    values: Mapping[str, Expression]


@dataclass(frozen=True)
class CompiledMerge:
    """A checked merge: its source in memory, the columns or condition to match on, and its clauses."""

    target: WriteTarget
    source: pa.Table
    on: str | tuple[str, ...]
    steps: tuple[Step, ...]
    read: frozenset[str] | None = None
    """The columns of the table that rows are matched on; None: unknown."""

    def of(self, when: str) -> list[Step]:
        """Return the clauses for these rows, in order."""
        return [step for step in self.steps if step.when == when]


def compile_merge(
    target: WriteTarget, given: object, matched_on: str | Sequence[str], clauses: Sequence[Clause]
) -> CompiledMerge:
    """Check a merge and compile its clauses; raise as `Merge.execute`."""
    if not clauses:
        raise InvalidArgument("merge: say what to do: when_matched_update, when_not_matched_insert and so on")
    source = read_source(target, given)
    fields = {
        field.name: field for field in (*target.schema.fields, *list_tracked_fields(target.schema, target.options))
    }
    sides = {TARGET: list(fields), SOURCE: source.column_names}
    on: str | tuple[str, ...]
    if isinstance(matched_on, str) and matched_on not in fields:
        read = check_expression("merge on", matched_on, sides).columns
        on = matched_on
    else:
        on = (matched_on,) if isinstance(matched_on, str) else tuple(matched_on)
        read = frozenset(on)
        for name in on:
            if name not in fields:
                target.schema.column(name)
            if name not in source.column_names:
                raise ColumnNotFound(f"merge on {name!r}: the source has only {', '.join(source.column_names)}")
        if not on:
            raise InvalidArgument("merge: give the columns or the condition to match on")
    steps = tuple(_compile_step(target, clause, sides, on) for clause in clauses)
    return CompiledMerge(target, source, on, steps, read)


def read_source(target: WriteTarget, data: object) -> pa.Table:
    # In pandas, floats may be integers with nulls, and timestamps may be dates, as the table's columns say.
    source = open_source(data, target.schema.fields if is_of_pandas(data) else ())
    pieces = [piece if isinstance(piece, pa.Table) else export_frame(piece) for piece in source.pieces]
    if not pieces:
        return pa.table({name: pa.nulls(0) for name in source.names})
    whole = pa.concat_tables(pieces)
    # Joins and Arrow's `take` do not support all layouts.
    return pa.table({name: _to_plain(column, name) for name, column in zip(whole.column_names, whole.columns)})


def _to_plain(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    try:
        return pa.chunked_array([to_plain(chunk) for chunk in column.chunks or [pa.array([], column.type)]])
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"merge, column {name!r} of the source: {column.type} ({error})") from error


def _compile_step(
    target: WriteTarget, clause: Clause, sides: Mapping[str, Sequence[str]], on: str | tuple[str, ...]
) -> Step:
    visible = {
        MATCHED: sides,
        UNMATCHED: {SOURCE: sides[SOURCE]},
        UNMATCHED_BY_SOURCE: {TARGET: sides[TARGET]},
    }[clause.when]
    what = f"when {clause.when} {clause.action}"
    only_if = None if clause.condition is None else check_expression(what, clause.condition, visible)
    if clause.action == DELETE:
        check_deletable(target)
        return Step(clause.when, clause.action, only_if, {})
    assignments = clause.assignments
    if assignments is None:
        tracked = {field.name for field in list_tracked_fields(target.schema, target.options)}
        assignments = {name: col(f"{SOURCE}.{name}") for name in sides[SOURCE] if name not in tracked}
        if clause.action == UPDATE and not isinstance(on, str):
            assignments = {name: value for name, value in assignments.items() if name not in on}
    for name in assignments:
        target.schema.column(name)
    compiled = {name: check_expression(f"{what}, {name}", value, visible) for name, value in assignments.items()}
    if clause.action == UPDATE:
        check_updatable(target, compiled, "a merge that updates")
    return Step(clause.when, clause.action, only_if, compiled)


Batch = tuple[pa.Table, Callable[[pa.Array], object]]
"""Rows of the table, and a function from row numbers to a handle of those rows."""


class MergeSink(Protocol):
    """Reader of a table's rows and writer of their changes. A context manager that removes files without a commit."""

    def read(self) -> Iterator[Batch]: ...
    def insert(self, rows: pa.Table) -> None: ...
    def update(self, rows: pa.Table, found: object, columns: Collection[str]) -> None: ...
    def delete(self, rows: pa.Table, found: object) -> None: ...
    def commit(self) -> Snapshot | None: ...
    def __enter__(self) -> MergeSink: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_sink(target: WriteTarget, premise: Premise, read: Collection[str] | None = None) -> MergeSink:
    """Return the sink of a table, which reads the rows of the premise and commits under it."""
    return _KeyedSink(target, premise) if target.keyed else _AppendSink(target, premise, read)


class _KeyedSink:
    def __init__(self, target: WriteTarget, premise: Premise) -> None:
        self._target, self._premise = target, premise
        self._session = WriteSession(target)

    def read(self) -> Iterator[Batch]:
        for rows in read_rows_where(self._target, self._premise.read, self._premise.filter):
            yield rows, lambda _numbers: None

    def insert(self, rows: pa.Table) -> None:
        self._write(rows, "+I")

    def update(self, rows: pa.Table, found: object, columns: Collection[str]) -> None:  # noqa: ARG002 - the key finds them
        self._write(rows, "+U")

    def delete(self, rows: pa.Table, found: object) -> None:  # noqa: ARG002
        needed = list_deletion_columns(self._target)
        self._write(rows if needed is None else rows.select(needed), "-D")

    def commit(self) -> Snapshot | None:
        return self._session.commit(premise=self._premise)

    def __enter__(self) -> _KeyedSink:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.abort()

    def _write(self, rows: pa.Table, kind: str) -> None:
        self._session.write(set_row_kind(self._target, rows, kind), kind)


class _AppendSink:
    def __init__(self, target: WriteTarget, premise: Premise, read: Collection[str] | None) -> None:
        self._target, self._premise, self._read = target, premise, read
        self._changes = RowChanges(target, premise.read)
        self._tracked = list_tracked_fields(target.schema, target.options)

    def read(self) -> Iterator[Batch]:
        fields = (*self._target.schema.fields, *self._tracked)
        for found in self._changes.matching(self._premise.filter, tuple(self._target.schema.by_name), self._read):
            rows = to_arrow_table(found.rows.drop(POSITION), fields)
            yield rows, partial(_take_rows, found)

    def insert(self, rows: pa.Table) -> None:
        self._changes.append(check_rows(self._target, rows))

    def update(self, rows: pa.Table, found: object, columns: Collection[str]) -> None:
        assert isinstance(found, MatchingRows)
        own = rows.drop_columns([field.name for field in self._tracked])
        self._changes.replace(found, check_rows(self._target, own), columns)

    def delete(self, rows: pa.Table, found: object) -> None:  # noqa: ARG002 - positions find them
        assert isinstance(found, MatchingRows)
        self._changes.delete(found)

    def messages(self) -> list[CommitMessage]:
        return self._changes.messages()

    def commit(self) -> Snapshot | None:
        commits, identifier = commit_with_maintenance(self._target), BATCH_COMMIT_IDENTIFIER
        return commit_once(commits, self.messages(), identifier, premise=self._premise)

    def __enter__(self) -> _AppendSink:
        self._changes.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._changes.close()


def _take_rows(found: MatchingRows, numbers: pa.Array) -> MatchingRows:
    return replace(found, rows=found.rows[np.asarray(numbers)])


Rows = npt.NDArray[np.int64]


def find_matches(target: pa.Table, source: pa.Table, on: str | tuple[str, ...]) -> tuple[Rows, Rows]:
    """Return the pairs of row numbers for which a SQL condition is true, or whose rows are equal in these columns.

    Nulls never match. Pairs are in the order of the target's rows.

    Raises `InvalidArgument`: DuckDB cannot compute the condition, or compare the columns.
    """
    if not target.num_rows or not source.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if isinstance(on, tuple):  # by number: DuckDB ignores the case of names
        names = [f"c{i}" for i in range(len(on))]
        target, source = (table.select(on).rename_columns(names) for table in (target, source))
        condition = " AND ".join(f"target.{name} = source.{name}" for name in names)
    else:
        condition = on
    cursor = open_session().cursor()

    def run() -> pa.Table:
        row = find_free_name(ROW, [*target.column_names, *source.column_names])
        cursor.register("target", _add_row_numbers(rename_row_columns(target), row))
        cursor.register("source", _add_row_numbers(rename_row_columns(source), row))
        numbers = f"target.{quote_identifier(row)} AS here, source.{quote_identifier(row)} AS there"
        return cursor.sql(f"SELECT {numbers} FROM target JOIN source ON ({condition}\n) ORDER BY ALL").to_arrow_table()

    try:
        pairs = run_query(cursor, run)
    except import_duckdb_error() as error:
        raise InvalidArgument(f"merge on {on!r}: {str(error).splitlines()[0]}") from error
    finally:
        cursor.close()
    return pairs["here"].to_numpy(), pairs["there"].to_numpy()


def _add_row_numbers(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, pa.array(np.arange(table.num_rows)))
