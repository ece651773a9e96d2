"""Deletes by a condition or by keys, and updates of columns in the rows that match a condition.

An update of a keyed table writes new versions of rows, which the merge engine merges into the old ones. A version is
written so that the merge gives the updated row. An update that no version can express is refused. For partial-update a
null leaves the value unchanged, an aggregate function adds to the old value, and a version with a smaller sequence is
older.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import ROW_ID, ROW_ID_FIELD, TRACKED, VALUE_KIND
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.library_versions import export_frame, import_array
from morrow.engine.merge.spec import ColumnMerge, MergeSpec, SequenceGroup
from morrow.engine.names import ROW, clear_pattern_name, col, cols, join_by_names, reserve_name
from morrow.engine.options.declarations import ChangelogProducer
from morrow.engine.options.declared.table import ROW_TRACKING_ENABLED
from morrow.engine.plan.filter import NO_FILTER, Filter, FilterLike, parse_filter
from morrow.engine.plan.predicate import ALWAYS, Leaf, Op, Or, Predicate, combine_predicates
from morrow.engine.plan.scan_plan import list_tracked_fields
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.masks.ordering import to_sortable
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode
from morrow.writers.commit import messages as tally
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage, Operation, record_operation
from morrow.writers.commit.premise import Premise
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.ingest.conversion import cast_lossless, convert_rows
from morrow.writers.ingest.sources import open_source
from morrow.writers.operations.expressions import Expression, Value, check_expression, evaluate_expressions
from morrow.writers.operations.partition_filters import find_matching_partitions
from morrow.writers.operations.write_session import (
    WriteSession,
    check_alone,
    check_rows,
    commit_once,
    read_rows_where,
    run_serially,
    set_row_kind,
)
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

    `keys`: rows with all columns of the primary key, as for `append`; their other columns are ignored.

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
    """Return the columns that a ``-D`` row needs, or None for all columns.

    Engines that combine versions only get the columns that identify and order the row, and columns that must not be
    null. They restart a deleted row from its ``-D``, and a row that is inserted later with this key should not get old
    values.
    """
    keys, merge = target.schema.row_keys, target.merge
    ordering = {*target.options.sequence_fields}
    if merge is not None:
        ordering |= {name for group in merge.groups for name in group.sequence}
    others = (field for field in target.schema.fields if field.name not in keys)
    needed = (*keys, *(field.name for field in others if field.name in ordering or not field.type.nullable))
    if (
        target.write.changelog_producer is ChangelogProducer.INPUT
        or target.write.rowkind_field is not None
        or any(name not in keys for name in target.options.bucket_key)
        or (needed != keys and not (merge is not None and merge.folds))
    ):
        return None
    return needed


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


@record_operation(Operation.UPDATE)
def update_rows(target: WriteTarget, assignments: Mapping[str, Value], condition: FilterLike) -> Snapshot | None:
    """Update columns in the rows for which the condition is true (None: in all rows).

    Raises:
        ColumnNotFound, InvalidArgument: a column that is missing or belongs to the primary key, an expression that
            cannot be computed, values that do not fit their column.
        Unsupported: the merge engine cannot update rows, or would produce other rows; see `build_new_versions`.
        CommitConflict: other commits changed these rows each time they were read.
    """
    if not isinstance(assignments, Mapping) or not assignments:
        raise InvalidArgument("update: give the columns to set, such as {'amount': 'amount * 2'}")
    fields = (*target.schema.fields, *list_tracked_fields(target.schema, target.options))
    names = dict.fromkeys(f.name for f in fields)
    expressions = {name: check_expression(f"set {name}", value, names) for name, value in assignments.items()}
    for name in expressions:
        target.schema.column(name)
    check_updatable(target, expressions, "an update")
    filter = parse_filter(condition, fields)
    how = _upsert_rows if target.keyed else _replace_rows
    return run_serially(target, filter, partial(how, target, expressions), list_read_columns(expressions))


def list_read_columns(expressions: Mapping[str, Expression]) -> frozenset[str] | None:
    """Return the columns that are set, or read for that; None: all."""
    read = [expression.columns for expression in expressions.values()]
    known = [each for each in read if each is not None]
    return frozenset(expressions).union(*known) if len(known) == len(read) else None


def _replace_rows(target: WriteTarget, expressions: Mapping[str, Expression], premise: Premise) -> Snapshot | None:
    tally.count(updated=0)
    named = frozenset[str]().union(*(expression.columns or () for expression in expressions.values()))
    tracked = [field for field in list_tracked_fields(target.schema, target.options) if field.name in named]

    def assign(rows: pl.DataFrame) -> pl.DataFrame:
        tally.count(updated=rows.height)
        new = assign_values(target, expressions, to_arrow_table(rows, (*target.schema.fields, *tracked)))
        return check_rows(target, new.drop_columns([field.name for field in tracked]))

    from morrow.writers.append.row_level import update_where

    known = all(expression.columns is not None for expression in expressions.values())
    read = named if known else None
    messages = update_where(target, premise.read, assign, premise.filter, expressions.keys(), read)
    return commit_once(commit_with_maintenance(target), messages, BATCH_COMMIT_IDENTIFIER, premise=premise)


@record_operation(Operation.UPDATE)
def update_rows_by_id(target: WriteTarget, data: object) -> Snapshot | None:
    """Update rows of a table with row tracking: ``_ROW_ID`` selects the row, all other columns are set.

    Raises:
        InvalidArgument: no row tracking, no column to set, an id that is null, given twice, or not a row's id.
        ColumnNotFound, Unsupported, CommitConflict: as `update_rows`.
    """
    rows = read_row_values(target, data)
    if not rows.height:
        return None
    filter = build_row_filter(rows)
    columns = frozenset(rows.columns) - {ROW_ID}

    def attempt(premise: Premise) -> Snapshot | None:
        tally.count(updated=rows.height)
        messages = set_row_values(target, premise.read, rows)
        return commit_once(commit_with_maintenance(target), messages, BATCH_COMMIT_IDENTIFIER, premise=premise)

    return run_serially(target, filter, attempt, columns)


def read_row_values(target: WriteTarget, data: object) -> pl.DataFrame:
    """Return the rows to set, sorted by `ROW_ID`, in the columns that the data has. Raises as `update_rows_by_id`."""
    if not list_tracked_fields(target.schema, target.options):
        raise InvalidArgument(f"{target.where}: its rows have no ids; set {ROW_TRACKING_ENABLED} when it is created")
    source = open_source(data, (*target.schema.fields, ROW_ID_FIELD))
    if ROW_ID not in source.names:
        raise InvalidArgument(f"{target.where}: update by row ids: the rows lack the {ROW_ID} column")
    names = [name for name in source.names if name not in {field.name for field in TRACKED}]
    if not names:
        raise InvalidArgument(f"{target.where}: update by row ids: the rows have no column to set")
    pieces = [piece if isinstance(piece, pa.Table) else export_frame(piece) for piece in source.pieces]
    whole = pa.concat_tables(pieces) if pieces else pa.table({name: pa.nulls(0) for name in source.names})
    ids = import_array(cast_lossless(whole.column(ROW_ID), ROW_ID_FIELD, 0)).alias(ROW_ID)
    if ids.null_count():
        raise InvalidArgument(f"{target.where}: update by row ids: {ROW_ID} is null")
    frames = list(convert_rows(target, whole.select(names), columns=names, partial=True))
    rows = pl.concat(frames) if frames else pl.DataFrame(schema=dict.fromkeys(names, pl.Null))
    rows = rows.hstack([ids])
    if not ids.is_sorted():
        rows = rows.sort(ROW_ID)
    ordered = rows[ROW_ID].to_numpy()
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise InvalidArgument(f"{target.where}: update by row ids: the duplicate {ROW_ID} {ordered[twice[0]]}")
    return rows


def build_row_filter(rows: pl.DataFrame) -> Filter:
    """Return a filter that is true for the rows with these ids, and for few others."""
    bounds = combine_predicates(Leaf(ROW_ID, Op.GE, (rows[ROW_ID][0],)), Leaf(ROW_ID, Op.LE, (rows[ROW_ID][-1],)))
    return Filter(bounds, (), frozenset((ROW_ID,)), str(bounds))


def set_row_values(target: WriteTarget, snapshot: Snapshot | None, rows: pl.DataFrame) -> list[CommitMessage]:
    """Set the columns of rows, which are sorted by `ROW_ID`; return the messages. Raises as `update_rows_by_id`."""
    from morrow.writers.append.row_level import RowChanges

    ids, names = rows[ROW_ID].to_numpy(), [name for name in rows.columns if name != ROW_ID]
    keys = target.schema.partition_keys
    # Files of columns hold the new values alone; other files hold whole rows.
    read = (*keys, *names[:1]) if target.options.data_evolution else tuple(target.schema.by_name)
    found = np.zeros(rows.height, bool)
    with RowChanges(target, snapshot) as changes:
        for old in changes.matching(build_row_filter(rows), tuple(dict.fromkeys(read))):
            at = np.searchsorted(ids, old.rows[ROW_ID].to_numpy())
            hit = np.flatnonzero(ids[np.minimum(at, len(ids) - 1)] == old.rows[ROW_ID].to_numpy())
            found[at[hit]] = True
            chosen = replace(old, rows=old.rows[hit])
            new = chosen.rows.select(cols(name for name in old.rows.columns if name in target.schema.by_name))
            values = rows[at[hit]]
            changes.replace(chosen, new.with_columns(values.get_columns()).drop(ROW_ID), names)
        if not found.all():
            raise InvalidArgument(f"{target.where}: there is no row with the {ROW_ID} {ids[int(np.argmin(found))]}")
        return changes.messages()


def _upsert_rows(target: WriteTarget, expressions: Mapping[str, Expression], premise: Premise) -> Snapshot | None:
    tally.count(updated=0)
    session = WriteSession(target)
    try:
        for rows in read_rows_where(target, premise.read, premise.filter):
            new = build_new_versions(target, rows, assign_values(target, expressions, rows), expressions.keys())
            session.write(set_row_kind(target, new, "+U"), "+U")
            tally.count(updated=new.num_rows)
        return session.commit(premise=premise)
    finally:
        session.abort()


def assign_values(target: WriteTarget, expressions: Mapping[str, Expression], rows: pa.Table) -> pa.Table:
    """Return the rows with the new values; every expression reads the old ones."""
    new = evaluate_expressions(expressions, target.schema.by_name, rows)
    columns = [new.get(name, rows.column(name)) for name in rows.column_names]
    return pa.Table.from_arrays(columns, names=rows.column_names)


REPLACING = ("last_value", "last_non_null_value")
"""Aggregate functions that replace the old value by the new one."""
KEEPS_NULL = "last_value"
"""The function that treats null as a value."""

OVERWRITE = "overwrite the table with the rows that are wanted"
"""Advice for changes that a new version of a row cannot express."""


def instead_of_update(target: WriteTarget) -> str:
    """Return advice for an update of a key, which depends on whether the merge engine can delete rows."""
    is_deletable = not target.options.ignore_delete and (target.merge is None or target.merge.undeletable is None)
    return "delete the row and insert another" if is_deletable else OVERWRITE


def check_deletable(target: WriteTarget) -> None:
    """Raise `Unsupported` if a ``-D`` row would not remove the row of its key."""
    if target.merge is None:
        return
    if target.options.ignore_delete:
        raise Unsupported("deleting rows of a table with ignore-delete", where=target.where)
    if target.merge.undeletable is not None:
        raise Unsupported(
            f"deleting rows of a table with the merge engine {target.merge.engine}",
            where=target.where,
            hint=target.merge.undeletable,
        )


def needs_rewriting(target: WriteTarget) -> bool:
    """Return whether rows of a table are deleted by rewriting files, since its merge engine has no deletions."""
    return target.merge is not None and not target.options.ignore_delete and target.merge.undeletable is not None


def check_updatable(target: WriteTarget, columns: Iterable[str], operation: str) -> None:
    """Check that these columns can be updated.

    Raises:
        Unsupported: a new version of a row would not replace the values. InvalidArgument: a column of the primary key.
    """
    if target.merge is None:
        return
    if not target.merge.updatable:
        raise Unsupported(
            f"{operation} of a table with the merge engine {target.merge.engine}",
            where=target.where,
            hint="write new rows with Table.upsert, or overwrite",
        )
    columns = tuple(columns)
    keys = [name for name in columns if name in target.schema.primary_keys]
    if keys:
        raise InvalidArgument(
            f"{target.where}: {keys[0]!r} is part of the primary key, which cannot be updated; "
            f"{instead_of_update(target)}"
        )
    check_assignable(target, set(columns), operation)


def check_assignable(target: WriteTarget, columns: Collection[str], operation: str) -> None:
    """Raise `Unsupported` for columns that an update of this table can never set."""
    spec = target.merge
    if spec is None or not spec.folds:
        return
    for column in spec.columns:
        if column.name in columns and column.call is not None and column.call.function not in REPLACING:
            raise Unsupported(
                f"{operation} of the column {column.name!r}, whose values the function {column.call.function} combines",
                where=target.where,
                hint="write the value to combine with Table.upsert, or overwrite the rows",
            )
    moved = [name for name in target.schema.partition_keys if name in columns]
    if moved and target.schema.cross_partition:
        raise make_partition_error(target, moved[0], operation)


def has_moving_rows(target: WriteTarget) -> bool:
    """Return whether a new version of a row removes the row of its key from another partition."""
    folds = target.merge is not None and target.merge.folds
    return determine_bucket_mode(target) is BucketMode.CROSS_PARTITION and not folds


def make_partition_error(target: WriteTarget, column: str, operation: str) -> Unsupported:
    """Return the error for an update of a partition column that would leave the old row in its partition."""
    return Unsupported(
        f"{operation} of the partition column {column!r}, which would not move the row,",
        where=target.where,
        hint=instead_of_update(target),
    )


def build_new_versions(target: WriteTarget, old: pa.Table, new: pa.Table, columns: Collection[str]) -> pa.Table:
    """Return the versions to write so that the rows `old` become `new`.

    `columns`: the columns that are set; the others are the same in both.

    Raises `Unsupported`: the table's merge engine would produce other rows.
    """
    spec = target.merge
    if spec is None or not old.num_rows:
        return new
    _check_sequence(target, spec.sequence, old, new, columns, descending=spec.descending)
    if not has_moving_rows(target):
        for name in target.schema.partition_keys:
            if name in columns and bool(_to_series(old, name).ne_missing(_to_series(new, name)).any()):
                raise make_partition_error(target, name, "an update")
    if not spec.folds:
        return new
    for column in spec.columns:
        if column.name in columns:
            _check_folded(target, spec, column, old, new)
    for group in spec.groups:
        _check_sequence(target, group.sequence, old, new, columns)
        _check_kept(target, group, old, new)
    return _neutralize_columns(target, spec, new, columns)


def check_deletions(target: WriteTarget, rows: pa.Table) -> None:
    """Raise `Unsupported` for rows that a ``-D`` would not delete: the sequences of all removing groups are null."""
    removing = find_removing_groups(target)
    if not removing or not all(name in rows.column_names for group in removing for name in group.sequence):
        return
    unordered = [_is_unordered(rows, group) for group in removing]
    left = unordered[0]
    for other in unordered[1:]:
        left = left & other
    if left.any():
        raise make_not_deleted_error(target)


def find_removing_groups(target: WriteTarget) -> list[SequenceGroup]:
    """Return the sequence groups for which a ``-D`` removes the row if its sequence is not null."""
    return [group for group in (target.merge.groups if target.merge else ()) if group.removes_record]


def make_not_deleted_error(target: WriteTarget) -> Unsupported:
    """Return the error for a row that a ``-D`` would not delete, since the sequences of all removing groups are
    null."""
    return Unsupported(
        f"deleting a row whose sequence {' and '.join(map(str, find_removing_groups(target)))} is null: it would stay",
        where=target.where,
        hint="upsert a value of the sequence first",
    )


def _check_folded(target: WriteTarget, spec: MergeSpec, column: ColumnMerge, old: pa.Table, new: pa.Table) -> None:
    before, after = _to_series(old, column.name), _to_series(new, column.name)
    takes_null = column.group is not None and (column.call is None or column.call.function == KEEPS_NULL)
    if not takes_null and bool((before.is_not_null() & after.is_null()).any()):
        raise Unsupported(
            f"an update that makes {column.name!r} null in a table with the merge engine {spec.engine}, where a null "
            "leaves the value as it is",
            where=target.where,
            hint="overwrite the rows, or put the column into a sequence group, where nulls count",
        )
    if column.group is None:
        return
    group = spec.groups[column.group]
    if column.name in group.sequence:
        return
    changed = before.to_frame("before").with_columns(after=after).select(pl.col("before").ne_missing(pl.col("after")))
    if bool((_is_unordered(new, group) & changed.to_series()).any()):
        raise Unsupported(
            f"an update of {column.name!r} where its sequence group {group} is null: such a version is left out",
            where=target.where,
            hint=f"set {group.sequence[0]!r} as well",
        )


def _check_kept(target: WriteTarget, group: SequenceGroup, old: pa.Table, new: pa.Table) -> None:
    """Raise `Unsupported` if protected values of the old version would be lost for rows with null sequences."""
    unordered = _is_unordered(new, group)
    for name in group.protected:
        if bool((unordered & _to_series(old, name).is_not_null()).any()):
            raise Unsupported(
                f"an update of a row whose sequence group {group} is null: the value of {name!r} would be lost",
                where=target.where,
                hint=f"set {group.sequence[0]!r} as well",
            )


def _check_sequence(
    target: WriteTarget,
    sequence: Sequence[str],
    old: pa.Table,
    new: pa.Table,
    columns: Collection[str],
    *,
    descending: bool = False,
) -> None:
    """Raise `Unsupported` for versions that are older than the versions they should replace."""
    if not any(name in columns for name in sequence):
        return
    names = [(reserve_name("before", i), reserve_name("after", i)) for i in range(len(sequence))]
    frame = pl.DataFrame(
        [
            to_sortable(_to_series(table, name)).alias(alias)
            for name, aliases in zip(sequence, names)
            for table, alias in zip((old, new), aliases)
        ]
    )
    older: pl.Expr = pl.lit(False)
    same: pl.Expr = pl.lit(True)
    for before, after in names:
        first, second = (before, after) if descending else (after, before)
        # Null is the oldest value.
        less = (col(first) < col(second)).fill_null(col(after).is_null() & col(before).is_not_null())
        older = older | (same & less)
        same = same & col(before).eq_missing(col(after))
    if bool(frame.select(older.any()).item()):
        raise Unsupported(
            f"an update that sets back the sequence ({', '.join(sequence)}): the row would stay as it is",
            where=target.where,
            # A row inserted after a delete would be older than the delete.
            hint=OVERWRITE,
        )


def _neutralize_columns(target: WriteTarget, spec: MergeSpec, new: pa.Table, columns: Collection[str]) -> pa.Table:
    """Return the versions with null in columns whose unchanged value a function would add again."""
    for column in spec.columns:
        if column.call is None or column.call.function in REPLACING or column.name in columns:
            continue
        field = target.schema.by_name[column.name]
        if not field.type.nullable:
            raise Unsupported(
                f"an update of a table whose column {column.name!r} is NOT NULL and folded by {column.call.function}",
                where=target.where,
                hint="make the column nullable, or overwrite the rows",
            )
        new = new.set_column(
            new.column_names.index(column.name), column.name, pa.nulls(new.num_rows, field.type.arrow())
        )
    return new


def _is_unordered(rows: pa.Table, group: SequenceGroup) -> pl.Series:
    """Return for each row whether all sequence columns of a group are null."""
    frame = pl.DataFrame([_to_series(rows, name).is_null().alias(str(i)) for i, name in enumerate(group.sequence)])
    return frame.select(pl.all_horizontal(pl.all())).to_series()


def _to_series(rows: pa.Table, name: str) -> pl.Series:
    return import_array(rows.column(name)).alias("")
