"""Deletes: by a condition or by keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import ROW, clear_pattern_name, join_by_names
from morrow.engine.options.declarations import ChangelogProducer
from morrow.engine.plan.filter import NO_FILTER, Filter, FilterLike, parse_filter
from morrow.engine.plan.predicate import ALWAYS, Leaf, Op, Or, Predicate, combine_predicates
from morrow.engine.plan.scan_plan import list_tracked_fields
from morrow.engine.polars_versions import export_frame
from morrow.writers.commit import messages as tally
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, Operation, record_operation
from morrow.writers.commit.premise import Premise
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.ingest.conversion import convert_rows
from morrow.writers.operations.isolation import check_alone, check_rows, read_rows_where, run_serially, set_row_kind
from morrow.writers.operations.partition_filters import find_matching_partitions
from morrow.writers.operations.update import check_deletable, check_deletions
from morrow.writers.operations.write_session import WriteSession, commit_once
from morrow.writers.target import WriteTarget

MAX_LISTED_KEYS = 1_000
"""Maximum keys to filter a scan by their list. Beyond it, the scan is filtered by their bounds."""


@record_operation(Operation.DELETE)
def delete_matching(target: WriteTarget, condition: FilterLike) -> Snapshot | None:
    """Delete the rows for which the condition is true.

    A condition on partition columns alone drops partitions, whatever the merge engine, unless
    ``delete.force-produce-changelog`` requires the deleted rows.

    Raises:
        InvalidArgument: no condition, or a condition that `parse_filter` refuses.
        Unsupported: the merge engine cannot delete rows.
    """
    if condition is None:
        raise InvalidArgument("delete: give a condition or keys; Table.truncate removes all rows")
    filter = parse_filter(condition, (*target.schema.fields, *list_tracked_fields(target.schema, target.options)))
    if is_of_partitions(target, filter):
        return run_serially(target, filter, partial(_drop_matching, target))
    if not target.keyed:
        return run_serially(target, filter, partial(_delete_rows, target), frozenset())
    check_deletable(target)
    columns = list_deletion_columns(target)
    return run_serially(
        target,
        filter,
        lambda premise: _retract(target, read_rows_where(target, premise.read, filter, columns), premise),
    )


def _delete_rows(target: WriteTarget, premise: Premise) -> Snapshot | None:
    from morrow.writers.append.row_level import delete_where

    tally.count(deleted=0)
    messages = delete_where(target, premise.read, premise.filter, lambda rows: tally.count(deleted=rows))
    return commit_once(commit_with_maintenance(target), messages, BATCH_COMMIT_IDENTIFIER, premise=premise)


@record_operation(Operation.DELETE)
def delete_keys(target: WriteTarget, keys: object) -> Snapshot | None:
    """Delete the rows with these primary keys; keys that are not in the table are ignored.

    Args:
        keys: rows with all columns of the primary key, as for `append`; their other columns are ignored.

    Raises:
        InvalidArgument: an append table, or incomplete keys.
        Unsupported: the merge engine cannot delete rows.
    """
    if not target.keyed:
        raise InvalidArgument(f"{target.where}: it has no primary key; delete by a condition")
    check_deletable(target)
    names = target.schema.primary_keys
    wanted = [frame.drop(VALUE_KIND) for frame in convert_rows(target, keys, columns=names)]
    if not wanted:
        return None
    unique = pl.concat(wanted).unique(maintain_order=True)
    filter = _build_key_filter(unique)
    if needs_only_key(target):
        check_alone(target, target.metadata.latest_snapshot(), filter)
        return retry_on_conflict(target, lambda: _retract(target, iter([export_frame(unique)])))
    return run_serially(target, filter, lambda premise: _retract(target, _read_rows(target, unique, premise), premise))


def needs_only_key(target: WriteTarget) -> bool:
    """Return whether a ``-D`` row only needs the primary key, so that rows need not be read."""
    return list_deletion_columns(target) == target.schema.primary_keys


def list_deletion_columns(target: WriteTarget) -> tuple[str, ...] | None:
    """Return the columns that a ``-D`` row needs: the columns that identify the row, or None for all columns.

    Engines that combine versions only get the identifying columns. They restart a deleted row from its ``-D``, and a
    row that is inserted later with this key should not get old values.
    """
    keys = target.schema.row_keys
    others = (f for f in target.schema.fields if f.name not in keys)
    enough = (
        not target.options.sequence_fields
        and not (target.merge is not None and target.merge.groups)
        and target.write.changelog_producer is not ChangelogProducer.INPUT
        and target.write.rowkind_field is None
        and all(f.type.nullable for f in others)
        and not any(name not in keys for name in target.options.bucket_key)
    )
    return keys if enough else None


def _build_key_filter(keys: pl.DataFrame) -> Filter:
    """Return a filter that is true for the rows with these keys, and for few others."""
    bounds = combine_predicates(*(part for name in keys.columns for part in build_bounds(keys[name])))
    return Filter(bounds, (), frozenset(keys.columns), str(bounds)) if bounds != ALWAYS else NO_FILTER


def _read_rows(target: WriteTarget, keys: pl.DataFrame, premise: Premise) -> Iterator[pa.Table]:
    """Yield the rows with these keys."""
    for rows in read_rows_where(target, premise.read, premise.filter, list_deletion_columns(target)):
        given = check_rows(target, rows).with_row_index(ROW)
        found = join_by_names(given, keys, keys.columns, how="semi", maintain_order="left")
        if found.height:
            yield rows.take(found[ROW].to_arrow())


def build_bounds(column: pl.Series) -> Sequence[Predicate]:
    """Return scan predicates that are true for the values: a list if there are few, otherwise their bounds."""
    dtype = column.dtype
    if not (dtype.is_integer() or dtype in (pl.String, pl.Date)):
        return ()
    distinct = clear_pattern_name(column).drop_nulls().unique()
    if not len(distinct):
        return (Or(()),)
    if len(distinct) <= MAX_LISTED_KEYS:
        return (Leaf(column.name, Op.IN, tuple(distinct.sort().to_list())),)
    low, high = distinct.min(), distinct.max()
    return (Leaf(column.name, Op.GE, (low,)), Leaf(column.name, Op.LE, (high,)))  # type: ignore[arg-type]  # of the dtypes above


def _retract(target: WriteTarget, parts: Iterator[pa.Table], premise: Premise | None = None) -> Snapshot | None:
    tally.count(deleted=0)
    session = WriteSession(target)
    try:
        for rows in parts:
            check_deletions(target, rows)
            session.write(set_row_kind(target, rows, "-D"), "-D")
            tally.count(deleted=rows.num_rows)
        return session.commit(premise=premise)
    finally:
        session.abort()


def is_of_partitions(target: WriteTarget, filter: Filter) -> bool:
    """Return whether a deletion drops partitions: its filter reads only their columns, and no changelog is forced."""
    columns = filter.columns
    forced = target.write.delete_rows_for_changelog
    return bool(columns) and columns <= set(target.schema.partition_keys) and not forced


def _drop_matching(target: WriteTarget, premise: Premise) -> Snapshot | None:
    partitions = [] if premise.read is None else find_matching_partitions(target, premise.read, premise.filter)
    return commit_with_maintenance(target).overwrite((), partitions=partitions, premise=premise) if partitions else None


def is_condition(given: object) -> bool:
    """Return whether the argument of a delete is a condition rather than keys."""
    import pyarrow.compute as pc

    return given is None or isinstance(given, (str, pl.Expr, pc.Expression, *_PREDICATES))


_PREDICATES = (Leaf, Or, type(ALWAYS))
