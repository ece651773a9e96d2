"""MERGE INTO: rows of a source are matched with those of the table, then updated, deleted or inserted by clauses.

The table is read in batches; each is joined with the source, which is held in memory. For every matched pair, and for
every row of either side without a match, the first clause whose condition is true applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.predicate import ALWAYS, conjunction
from morrow.engine.values import replace
from morrow.writers.commit import tally
from morrow.writers.commit.premise import Premise
from morrow.writers.commit.tally import Operation, recorded
from morrow.writers.operations.delete import bounds_of
from morrow.writers.operations.expressions import JOIN, Value, condition, values
from morrow.writers.operations.joining import matches
from morrow.writers.operations.merge_clauses import (
    DELETE,
    INSERT,
    MATCHED,
    SOURCE,
    TARGET,
    UNMATCHED,
    UNMATCHED_BY_SOURCE,
    UPDATE,
    Clause,
    Prepared,
    Step,
    prepared,
)
from morrow.writers.operations.merge_sink import MergeSink, sink_for
from morrow.writers.operations.new_versions import check_deletions, check_updatable, new_versions
from morrow.writers.operations.serial import serially
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class Merge:
    """A builder of a MERGE INTO; nothing happens before `execute`.

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
        """Updates a row of the table that a row of the source matches; `set` None: all columns of the source."""
        return self._with(Clause(MATCHED, UPDATE, set, condition))

    def when_matched_delete(self, condition: Value | None = None) -> Merge:
        """Deletes a row of the table that a row of the source matches."""
        return self._with(Clause(MATCHED, DELETE, None, condition))

    def when_not_matched_insert(
        self, values: Mapping[str, Value] | None = None, condition: Value | None = None
    ) -> Merge:
        """Inserts a row of the source without a match; `values` None: all its columns. Other columns get defaults."""
        return self._with(Clause(UNMATCHED, INSERT, values, condition))

    def when_not_matched_by_source_update(self, set: Mapping[str, Value], condition: Value | None = None) -> Merge:
        """Updates a row of the table that no row of the source matches; values can read ``target`` only."""
        return self._with(Clause(UNMATCHED_BY_SOURCE, UPDATE, set, condition))

    def when_not_matched_by_source_delete(self, condition: Value | None = None) -> Merge:
        """Deletes a row of the table that no row of the source matches."""
        return self._with(Clause(UNMATCHED_BY_SOURCE, DELETE, None, condition))

    def _with(self, clause: Clause) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))

    @recorded(Operation.MERGE)
    def execute(self) -> Snapshot | None:
        """Runs the merge in one commit.

        Returns: the last snapshot created, None when nothing changed.

        Raises:
            InvalidArgument: no clause, a row of the table that several rows of the source match (when there is a clause
                for matched rows), expressions that cannot be computed, values that do not fit their column.
            ColumnNotFound: a missing column.
            Unsupported: a change that the table's merge engine does not support.
            CommitConflict: others changed the table each time its rows were read; nothing was changed.
        """
        return _run(prepared(self.target, self.source, self.on, self.clauses))


def _run(merge: Prepared) -> Snapshot | None:
    if merge.target.keyed:
        check_updatable(merge.target, (), "a merge")
    return serially(merge.target, _reading(merge), partial(_attempt, merge))


def _attempt(merge: Prepared, premise: Premise) -> Snapshot | None:
    target, source = merge.target, merge.source
    matched = np.zeros(source.num_rows, bool)
    tally.count(inserted=0, updated=0, deleted=0)
    with sink_for(target, premise) as sink:
        for rows, take in sink.read():
            _of_batch(merge, rows, take, matched, sink)
        fresh = source.filter(pa.array(~matched))
        for step, chosen in _chosen(merge.of(UNMATCHED), {SOURCE: fresh}):
            new = _new_rows(target, step, {SOURCE: fresh.take(chosen)}, None)
            sink.insert(new)
            tally.count(inserted=new.num_rows)
        return sink.commit()


def _reading(merge: Prepared) -> Filter:
    """Returns the filter of the rows to read: without rows that cannot match, unless a clause applies to them."""
    if merge.of(UNMATCHED_BY_SOURCE) or isinstance(merge.on, str):
        return NO_FILTER
    columns = (_key_column(merge, name) for name in merge.on)
    bounds = conjunction(*(part for column in columns if column is not None for part in bounds_of(column)))
    return NO_FILTER if bounds == ALWAYS else Filter(bounds, (), frozenset(merge.on), str(bounds))


def _key_column(merge: Prepared, name: str) -> pl.Series | None:
    column = pl.Series(name, pl.from_arrow(merge.source.column(name)))
    wanted = pl.Series(pa.array([], merge.target.schema.by_name[name].type.arrow())).dtype
    return column if column.dtype == wanted else None


def _of_batch(
    merge: Prepared,
    rows: pa.Table,
    take: Callable[[pa.Array], object],
    matched: npt.NDArray[np.bool_],
    sink: MergeSink,
) -> None:
    """Applies the clauses to a batch of the table's rows."""
    here, there = matches(rows, merge.source, merge.on)
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
        _act(merge, steps, sides, here, take, sink)
    steps = merge.of(UNMATCHED_BY_SOURCE)
    if steps:
        alone = np.setdiff1d(np.arange(rows.num_rows), here)
        _act(merge, steps, {TARGET: rows.take(pa.array(alone))}, alone, take, sink)


def _act(
    merge: Prepared,
    steps: Sequence[Step],
    sides: Mapping[str, pa.Table],
    numbers: npt.NDArray[np.int64],
    take: Callable[[pa.Array], object],
    sink: MergeSink,
) -> None:
    for step, chosen in _chosen(steps, sides):
        part = {side: table.take(chosen) for side, table in sides.items()}
        found = take(pa.array(numbers[chosen.to_numpy()]))
        if step.action == DELETE:
            check_deletions(merge.target, part[TARGET])
            sink.delete(part[TARGET], found)
            tally.count(deleted=part[TARGET].num_rows)
        else:
            sink.update(_new_rows(merge.target, step, part, part[TARGET]), found)
            tally.count(updated=part[TARGET].num_rows)


def _chosen(steps: Sequence[Step], sides: Mapping[str, pa.Table]) -> Iterator[tuple[Step, pa.Array]]:
    """Yields each clause with the numbers of the rows to which it is the first to apply."""
    height = next(iter(sides.values())).num_rows
    left = np.ones(height, bool)
    joined = _joined(sides) if any(step.condition is not None for step in steps) else None
    for step in steps:
        mine = left.copy()
        if step.condition is not None and joined is not None and height:
            mine &= condition(step.condition, joined).to_numpy()
        left &= ~mine
        if mine.any():
            yield step, pa.array(np.flatnonzero(mine))


def _new_rows(target: WriteTarget, step: Step, sides: Mapping[str, pa.Table], old: pa.Table | None) -> pa.Table:
    """Returns the rows that a clause produces: the columns that it sets, and the others of the old row."""
    made = values(step.values, target.schema.by_name, _joined(sides))
    if old is None:
        height = next(iter(sides.values())).num_rows
        return pa.table({**_unknown(target, made, height), **made})
    names = old.column_names
    new = pa.Table.from_arrays([made.get(name, old.column(name)) for name in names], names=names)
    return new_versions(target, old, new, step.values.keys())


def _unknown(target: WriteTarget, given: Iterable[str], height: int) -> dict[str, pa.Array]:
    """Returns nulls for the columns that an insert does not set, except those with a default value."""
    absent = (f for f in target.schema.fields if f.name not in given and f.default_value is None and f.type.nullable)
    return {f.name: pa.nulls(height, f.type.arrow()) for f in absent}


def _joined(sides: Mapping[str, pa.Table]) -> pa.Table:
    """Returns the rows of a join as a table with a struct column for each side."""
    return pa.table({side: _struct(table) for side, table in sides.items()}).replace_schema_metadata(JOIN)


def _struct(table: pa.Table) -> pa.Array:
    arrays = [pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type) for c in table.columns]
    return pa.StructArray.from_arrays(arrays, names=table.column_names)
