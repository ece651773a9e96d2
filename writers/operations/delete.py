"""Deletes: by a condition or by keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import VALUE_KIND
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options.writing import ChangelogProducer
from morrow.engine.plan.filter import NO_FILTER, Filter, FilterLike, parse_filter
from morrow.engine.plan.predicate import ALWAYS, Leaf, Op, Or, Predicate, conjunction
from morrow.writers.append.row_level import delete_where
from morrow.writers.expiry.automatic import maintained
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.operations.partitions import matching_partitions
from morrow.writers.operations.rules import check_deletable
from morrow.writers.operations.scanning import checked, of_kind, rows_where
from morrow.writers.operations.session import WriteSession, commit_once
from morrow.writers.rows import incoming
from morrow.writers.target import WriteTarget

ROW = "__row"
MOST_LISTED = 1_000
"""Keys that a scan is told one by one; of more it is told the bounds."""


def delete_matching(target: WriteTarget, condition: FilterLike) -> Snapshot | None:
    """Delete the rows for which the condition is true.

    A condition on partition columns alone drops partitions, whatever the merge engine, unless
    ``delete.force-produce-changelog`` asks for the rows.

    Raises:
        InvalidArgument: no condition, or one that `parse_filter` refuses.
        Unsupported: the merge engine deletes no rows.
    """
    if condition is None:
        raise InvalidArgument("delete: give a condition or keys; Table.truncate removes all rows")
    filter = parse_filter(condition, target.schema.fields)
    if of_partitions(target, filter):
        return _drop_matching(target, filter)
    snapshot = target.metadata.latest_snapshot()
    if not target.keyed:
        return commit_once(maintained(target), delete_where(target, snapshot, filter), BATCH_COMMIT_IDENTIFIER)
    check_deletable(target)
    columns = target.schema.primary_keys if needs_key_alone(target) else None
    return _retract(target, rows_where(target, snapshot, filter, columns))


def delete_keys(target: WriteTarget, keys: object) -> Snapshot | None:
    """Delete the rows with these primary keys; keys that are not there are left out.

    Args:
        keys: rows with all columns of the primary key, as for `append`; their other columns are not looked at.

    Raises:
        InvalidArgument: an append table, or keys that are not complete.
        Unsupported: the merge engine deletes no rows.
    """
    if not target.keyed:
        raise InvalidArgument(f"{target.where}: it has no primary key; delete by a condition")
    check_deletable(target)
    names = target.schema.primary_keys
    wanted = [frame.drop(VALUE_KIND) for frame in incoming(target, keys, columns=names)]
    if not wanted:
        return None
    unique = pl.concat(wanted).unique(maintain_order=True)
    if needs_key_alone(target):
        return _retract(target, iter([unique.to_arrow()]))
    return _retract(target, _rows_of(target, unique))


def needs_key_alone(target: WriteTarget) -> bool:
    """Whether a ``-D`` row is complete without the values of the row it deletes.

    Where engines combine versions it is better off without: a deleted row starts anew from its ``-D``, and whoever
    inserts the key again does not expect the old values.
    """
    others = (f for f in target.schema.fields if f.name not in target.schema.primary_keys)
    return (
        not target.options.sequence_fields
        and not (target.merge is not None and target.merge.groups)
        and not target.schema.cross_partition
        and target.write.changelog_producer is not ChangelogProducer.INPUT
        and target.write.rowkind_field is None
        and all(f.type.nullable for f in others)
        and not any(name not in target.schema.primary_keys for name in target.options.bucket_key)
    )


def _rows_of(target: WriteTarget, keys: pl.DataFrame) -> Iterator[pa.Table]:
    """The rows with these keys."""
    bounds = conjunction(*(part for name in keys.columns for part in bounds_of(keys[name])))
    filter = Filter(bounds, (), frozenset(keys.columns), str(bounds)) if bounds != ALWAYS else NO_FILTER
    for rows in rows_where(target, target.metadata.latest_snapshot(), filter):
        found = checked(target, rows).with_row_index(ROW).join(keys, on=keys.columns, how="semi", maintain_order="left")
        if found.height:
            yield rows.take(found[ROW].to_arrow())


def bounds_of(column: pl.Series) -> Sequence[Predicate]:
    """What a scan may know of the values it looks for: all of a few, the least and greatest of many."""
    dtype = column.dtype
    if not (dtype.is_integer() or dtype in (pl.String, pl.Date)):
        return ()
    distinct = column.drop_nulls().unique()
    if not len(distinct):
        return (Or(()),)
    if len(distinct) <= MOST_LISTED:
        return (Leaf(column.name, Op.IN, tuple(distinct.sort().to_list())),)
    low, high = distinct.min(), distinct.max()
    return (Leaf(column.name, Op.GE, (low,)), Leaf(column.name, Op.LE, (high,)))  # type: ignore[arg-type]  # of the dtypes above


def _retract(target: WriteTarget, parts: Iterator[pa.Table]) -> Snapshot | None:
    session = WriteSession(target)
    try:
        for rows in parts:
            session.write(of_kind(target, rows, "-D"), "-D")
        return session.commit()
    finally:
        session.abort()


def of_partitions(target: WriteTarget, filter: Filter) -> bool:
    """Whether a deletion drops partitions: its condition has their columns alone, and nobody wants the rows."""
    columns = filter.columns
    forced = target.write.delete_rows_for_changelog
    return bool(columns) and columns <= set(target.schema.partition_keys) and not forced


def _drop_matching(target: WriteTarget, filter: Filter) -> Snapshot | None:
    snapshot = target.metadata.latest_snapshot()
    partitions = [] if snapshot is None else matching_partitions(target, snapshot, filter)
    return maintained(target).overwrite((), partitions=partitions) if partitions else None


def is_condition(given: object) -> bool:
    """Whether what is given to a delete is a condition, and not keys."""
    import pyarrow.compute as pc

    return given is None or isinstance(given, (str, pl.Expr, pc.Expression, *_PREDICATES))


_PREDICATES = (Leaf, Or, type(ALWAYS))
