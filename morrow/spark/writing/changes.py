"""Changes of rows that Spark has derived from one snapshot of a table: DELETE, UPDATE and MERGE, in one commit.

`update` sets columns by Spark expressions. In an append table, rows are deleted by position and new rows are
added: executors compute the rows once and write the new ones. The driver gets the positions of deleted rows, eight
bytes each, and makes deletion vectors, or files with the remaining rows. It commits everything at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from morrow.engine.errors import CommitConflict, InvalidArgument, Unsupported
from morrow.engine.format.schema import ROW_ID
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import Roots
from morrow.engine.names import FAILED, KIND, ROW_PARTITION, SPARKS_OLD_KEY, TARGET, reserve_name
from morrow.engine.plan.filter import NO_FILTER, FilterLike, parse_filter
from morrow.engine.plan.predicate import Leaf, Op, Or, Predicate, combine_predicates
from morrow.engine.plan.scan_plan import list_tracked_fields
from morrow.scans.table_scan import Scan
from morrow.spark.expressions import list_paddings, quote_name
from morrow.spark.job.execution import map_rows
from morrow.spark.job.tasks import Work
from morrow.spark.job.wire import TableAccess
from morrow.spark.reading.distributed import list_carried, list_places, list_row_id, read_hidden, to_dataframe
from morrow.spark.versions import to_arrow
from morrow.spark.writing.assignments import Assignments, assign_columns, is_column, resolve_columns, to_column
from morrow.spark.writing.delete import (
    check_char_keys,
    check_exact,
    compare_keys,
    find_deleted_rows,
    list_char_keys,
)
from morrow.spark.writing.job import Commit, update_files, write_files
from morrow.spark.writing.job import write as write_job
from morrow.spark.writing.tasks import DELETED, INSERTED, UPDATED, VersionJob, group_by_file, name_new, name_old
from morrow.spark.writing.write import Place, open_metadata
from morrow.writers.append.row_level import RowChanges
from morrow.writers.commit import messages as tally
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.premise import ADVICE, Premise, make_request
from morrow.writers.history.commit_maintenance import commit_with_maintenance
from morrow.writers.operations.erasure import delete_by_rewriting
from morrow.writers.operations.update import (
    OVERWRITE,
    check_deletable,
    check_updatable,
    has_moving_rows,
    instead_of_update,
    list_deletion_columns,
    make_partition_error,
    needs_rewriting,
)
from morrow.writers.operations.write_session import (
    check_alone,
    commit_once,
    find_hidden_buckets,
    find_readable_snapshot,
    plan_where,
    run_serially,
)
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DELETE = "DELETE"
OPERATIONS: Mapping[int, str] = {DELETED: "-D", UPDATED: "+U", INSERTED: "+I"}
"""The row kind for each operation."""
MAX_REWRITTEN_KEYS = 1_000
"""The limit of keys of several columns that one DELETE by rewriting takes: they become one condition per file."""
NO_PROPERTIES: Mapping[str, str] = {}


def insert(
    rows: DataFrame, target: WriteTarget, premise: Premise, properties: Mapping[str, str] = NO_PROPERTIES
) -> Snapshot | None:
    """Write rows that were derived from the table's own rows. Raises as `change`."""
    check_premise(target, premise)
    return write_job(rows, target, None, Commit(properties=properties, premise=premise))


def change(
    rows: DataFrame,
    target: WriteTarget,
    command: str,
    premise: Premise,
    properties: Mapping[str, str] = NO_PROPERTIES,
    columns: Collection[str] | None = None,
) -> Snapshot | None:
    """Write the rows of a Spark ``WriteDelta``, which sets these `columns` of updated rows (None: all).

    Columns are the operation (INT), then for ``DELETE`` the key of each row; for ``UPDATE`` and ``MERGE`` all columns
    (for deleted rows only the key) and the old keys. Instead of keys, rows of append tables have the columns of
    `list_places` and `list_carried`.

    Returns: the last snapshot created, or None if nothing changed.

    Raises:
        Unsupported: the merge engine cannot express the changes of the statement.
        CommitConflict: others have changed rows of the premise, or the rows have only now been compacted.
        Others: as `morrow.spark.writing.job.write`.
    """
    with tally.count_rows_of(tally.Operation(command)):
        return _change(rows, target, command, premise, properties, columns)


def _change(
    rows: DataFrame,
    target: WriteTarget,
    command: str,
    premise: Premise,
    properties: Mapping[str, str],
    columns: Collection[str] | None,
) -> Snapshot | None:
    if command == DELETE and needs_rewriting(target):
        check_premise(target, premise)
        return _delete_keys_by_rewriting(rows, target, premise)
    if command == DELETE:
        check_deletable(target)
    else:
        _check_updatable(target, command)
    check_premise(target, premise)
    if not target.keyed:
        return change_places(rows, target, premise, properties, columns)
    commit = Commit(properties=properties, premise=premise)
    if command == DELETE:
        given = list_row_id(target.schema, target.options)
        numbered = {name: f"k{at}" for at, name in enumerate(given)}
        identified = _find_old_keys(target, numbered)
        keys = rows.toDF(KIND, *numbered.values()).select(*(column.alias(name) for name, column in identified.items()))
        is_enough = list_deletion_columns(target) == tuple(identified) and not list_char_keys(target, identified)
        found = find_deleted_rows(keys, target, None, None if is_enough else premise, tuple(identified), padded=True)
        return write_job(found, target, "-D", commit)
    return write_job(_add_kinds(rows, target, command, premise), target, KIND, commit)


def _delete_keys_by_rewriting(rows: DataFrame, target: WriteTarget, premise: Premise) -> Snapshot | None:
    """Delete the rows of keys from a table whose merge engine has no deletions. Raises as `delete_by_rewriting`."""
    keys = pl.DataFrame(to_arrow(rows)).drop(rows.columns[0])
    names = list_row_id(target.schema, target.options)
    if not len(keys):
        return None
    lengths = list_char_keys(target, names)
    if len(names) == 1:
        wanted: Predicate = _is_key(names[0], keys.to_series().unique().to_list(), lengths)
    elif len(keys) > MAX_REWRITTEN_KEYS:
        raise Unsupported(
            f"deleting {len(keys)} keys of several columns with the merge engine {target.options.merge_engine}",
            where=target.where,
            hint=f"delete at most {MAX_REWRITTEN_KEYS} at a time, or by a condition without a subquery",
        )
    else:
        each = (
            combine_predicates(*(_is_key(name, [value], lengths) for name, value in zip(names, key, strict=True)))
            for key in keys.unique().iter_rows()
        )
        wanted = Or(tuple(each))
    return delete_by_rewriting(target, parse_filter(wanted, target.schema.fields), premise)


def list_identifying(target: WriteTarget) -> dict[str, str]:
    """Return the columns that identify old rows, by their names in the rows that `change` takes."""
    if target.keyed:
        return {name: f"{SPARKS_OLD_KEY}{name}" for name in target.schema.row_keys}
    return {name: name for name in (*list_places(target.options), *list_carried(target.options))}


def read_identified(target: WriteTarget, premise: Premise, spark: SparkSession) -> DataFrame:
    """Return the rows of a premise, with the columns that identify them."""
    columns = tuple(dict.fromkeys((*target.schema.by_name, *list_identifying(target))))
    if target.keyed:
        return to_dataframe(plan_where(target, premise.read, premise.filter), target.store, spark)
    request = make_request(target, premise.read, tuple(target.schema.by_name), premise.filter)
    return read_hidden(Scan(target.metadata, request), columns, spark)


def _is_key(name: str, values: Sequence[Any], lengths: Mapping[str, int]) -> Leaf:
    """Return the condition that a key has one of the values. Spark has padded them to the lengths of CHAR columns."""
    return Leaf(name, Op.IN, list_paddings(values, lengths[name]) if name in lengths else tuple(values))


def check_premise(target: WriteTarget, premise: Premise) -> None:
    """Check that the rows of a premise were the complete rows of the table.

    Raises:
        CommitConflict: reads did not see rows that were waiting for compaction. They have been compacted now.
        Unsupported: rows come from a fallback branch.
    """
    check_alone(target, premise.read, premise.filter)
    if premise.read is not None and find_hidden_buckets(target, premise.read):
        find_readable_snapshot(target)
        raise CommitConflict(f"{target.where}: rows were compacted only after the table was read; {ADVICE}")


def _check_updatable(target: WriteTarget, command: str) -> None:
    check_updatable(target, (), command)
    check_exact(target, tuple(target.schema.by_name))


def _add_kinds(rows: DataFrame, target: WriteTarget, command: str, premise: Premise) -> DataFrame:
    """Return complete rows, with their kinds in the column `KIND`."""
    from pyspark.sql import functions

    names = tuple(target.schema.by_name)
    olds = tuple(name.removeprefix(SPARKS_OLD_KEY) for name in rows.columns[1 + len(names) :])
    number = {name: name_new(at) for at, name in enumerate(names)}
    every = {name: f"k{at}" for at, name in enumerate(olds)}
    changed = rows.toDF(KIND, *number.values(), *every.values())
    # Spark adds all hidden columns if a statement names one of them.
    numbered = {name: column for name, column in every.items() if name in list_row_id(target.schema, target.options)}
    operation = functions.col(KIND)
    identified = _find_old_keys(target, numbered)
    for name, old in identified.items():
        new = updated = functions.col(number[name])
        if name in target.schema.primary_keys or not has_moving_rows(target):
            failed = functions.raise_error(functions.lit(_describe_key_error(target, command, name)))
            updated = functions.when(old.eqNullSafe(new), old).otherwise(failed)
        deleted = functions.coalesce(new, old)  # Spark passes one of the two
        fixed = functions.when(operation == UPDATED, updated).when(operation == DELETED, deleted).otherwise(new)
        changed = changed.withColumn(number[name], fixed)
    folds = target.merge is not None and target.merge.folds
    needed = list_deletion_columns(target) or names
    if folds or list_char_keys(target, names) or not {*needed} <= {*target.schema.primary_keys, *identified}:
        changed = _join_old(changed, target, number, premise, identified)
    kind = functions.when(operation == DELETED, _get_deleted_kind(target))
    for value in (UPDATED, INSERTED):
        kind = kind.when(operation == value, functions.lit(OPERATIONS[value]))
    changed = changed.withColumn(KIND, kind.otherwise(functions.raise_error(functions.lit("an unknown operation"))))
    if folds:
        changed = _to_versions(changed, target, command)
    field = target.write.rowkind_field
    if field in number:
        changed = changed.withColumn(number[field], functions.col(KIND))
    return changed.select(KIND, *number.values()).toDF(KIND, *names)


def _find_old_keys(target: WriteTarget, columns: Mapping[str, str]) -> dict[str, Column]:
    """Return the old values of row keys by name, from columns with the keys, or with the partition as a struct."""
    from pyspark.sql import functions

    found: dict[str, Column] = {}
    for name, column in columns.items():
        if name == ROW_PARTITION:
            found |= {key: functions.col(column).getField(key) for key in target.schema.partition_keys}
        else:
            found[name] = functions.col(column)
    return found


def _describe_key_error(target: WriteTarget, command: str, name: str) -> str:
    if name not in target.schema.primary_keys:
        return f"Unsupported: {make_partition_error(target, name, command)}"
    return (
        f"InvalidArgument: {target.where}: {command} would change {name!r}, which is part of the primary key; delete "
        "the row and insert another"
    )


def _get_deleted_kind(target: WriteTarget) -> Column:
    """Return the kind of deleted rows. If the table cannot delete, the first deleted row raises the error."""
    from pyspark.sql import functions

    try:
        check_deletable(target)
    except Unsupported as error:
        return functions.raise_error(functions.lit(f"Unsupported: {error}"))
    return functions.lit(OPERATIONS[DELETED])


def _join_old(
    changed: DataFrame, target: WriteTarget, number: Mapping[str, str], premise: Premise, identified: Collection[str]
) -> DataFrame:
    """Join each row with its old version.

    Deleted rows get all their old values if the merge engine needs them, and CHAR keys of old rows their stored
    padding. An update that sets back the sequence raises an error, since the old version would win.
    """
    from pyspark.sql import functions

    plan = plan_where(target, premise.read, premise.filter)
    old = {name: name_old(at) for at, name in enumerate(number)}
    stored = to_dataframe(plan, target.store, changed.sparkSession).toDF(*old.values())
    keys = [key for key in target.schema.row_keys if key in target.schema.primary_keys or key in identified]
    chars = list_char_keys(target, keys)
    stored = check_char_keys(target, stored, {key: old[key] for key in keys}, chars)
    same = [compare_keys(number[key], old[key], trimmed=key in chars) for key in keys]
    joined = changed.join(stored, reduce(lambda left, right: left & right, same), "left")
    operation = functions.col(KIND)
    complete = {name: functions.col(c) for name, c in number.items()}
    for name in list_deletion_columns(target) or old:
        deleted = functions.when(operation == DELETED, functions.col(old[name]))
        complete[name] = deleted.otherwise(complete[name])
    for name in chars:  # as stored: Spark has padded it
        kept = functions.when(operation != INSERTED, functions.col(old[name]))
        complete[name] = functions.coalesce(kept, complete[name])
    sequence = target.options.sequence_fields
    if sequence:
        error = (
            f"Unsupported: {target.where}: an update that sets back the sequence ({', '.join(sequence)}): the row "
            f"would stay as it is; {OVERWRITE}"
        )
        is_older = (operation == UPDATED) & _is_older(target, number, old)
        key = target.schema.primary_keys[0]
        failed = functions.raise_error(functions.lit(error))
        complete[key] = functions.when(is_older, failed).otherwise(complete[key])
    return joined.select(KIND, *(value.alias(number[name]) for name, value in complete.items()), *old.values())


def _to_versions(changed: DataFrame, target: WriteTarget, command: str) -> DataFrame:
    """Return the versions to write for the rows of `_join_old`. Rows that no version can produce raise an error.

    Unchanged columns with an aggregate function are null, so that they are not added again. A column that ignores nulls
    cannot be set to null.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    names = tuple(target.schema.by_name)
    numbers = [name_new(at) for at in range(len(names))]
    types = {field.name: field.dataType for field in changed.schema.fields}
    columns = [StructField(name, types[name]) for name in (KIND, *numbers)]
    job = VersionJob(TableAccess.of(target), names, command)
    made = map_rows(changed, Work.VERSIONS, job, StructType([*columns, StructField(FAILED, StringType())]))
    failed = functions.raise_error(functions.col(FAILED))
    kind = functions.when(functions.col(FAILED).isNotNull(), failed).otherwise(functions.col(KIND))
    return made.select(kind.alias(KIND), *numbers)


def _is_older(target: WriteTarget, new: Mapping[str, str], old: Mapping[str, str]) -> Column:
    """Return whether the new sequence is less than the old one. A null is the oldest."""
    from pyspark.sql import functions

    descending = target.merge is not None and target.merge.descending
    older, same = functions.lit(False), functions.lit(True)
    for name in target.options.sequence_fields:
        before, after = functions.col(old[name]), functions.col(new[name])
        less = after > before if descending else after < before
        less = functions.when(before.isNull(), False).when(after.isNull(), True).otherwise(less)
        older, same = older | (same & less), same & before.eqNullSafe(after)
    return older


DELETING, ADDING = (DELETED, UPDATED), (UPDATED, INSERTED)
"""Operations that remove a row, and operations that add a row."""


def change_places(
    rows: DataFrame,
    target: WriteTarget,
    premise: Premise,
    properties: Mapping[str, str],
    columns: Collection[str] | None = None,
) -> Snapshot | None:
    """Commit changed rows: the operation (INT), columns of the table, `list_places` and `list_carried` of old rows.

    With row tracking, updated rows keep their ids. With data evolution, only `columns` of them are written (None: all).

    Raises:
        Unsupported: data evolution, and deleted rows without deletion vectors, or rows that move to another partition.
        CommitConflict: others have changed rows of the premise. Others: as `morrow.spark.writing.job.write_files`.
    """
    from pyspark.sql import functions

    names = [name for name in target.schema.by_name if name in rows.columns]
    is_whole = len(names) == len(target.schema.by_name)  # a DELETE has only the places
    is_tracked, is_evolving = target.options.row_tracking and is_whole, target.options.data_evolution
    is_rewriting = is_tracked and not is_evolving and not target.write.deletion_vectors
    held = rows.toDF(KIND, *rows.columns[1:]).localCheckpoint()  # deleted and added rows come from the same run
    places = list_places(target.options)
    counts = _count_changes(held, places)

    def choose(operations: Collection[int], wanted: Collection[str]) -> DataFrame:
        return held.where(functions.col(KIND).isin(*operations)).select(*map(quote_name, wanted))

    deleting = (DELETED,) if is_evolving else () if is_rewriting else DELETING
    commits, added = commit_with_maintenance(target), list[CommitMessage]()
    try:
        written = [name for name in names if columns is None or not is_evolving or name in columns]
        if is_tracked and written:
            updated = (KIND, *written, *places, *list_carried(target.options))
            added += update_files(choose(DELETING if is_rewriting else (UPDATED,), updated), target, premise)
        if is_whole:
            added += write_files(choose((INSERTED,) if is_tracked else ADDING, names), target, None, adds=True)
        messages = _delete_places(choose(deleting, places), target, premise) if deleting else []
    except BaseException:
        commits.abort(added)
        raise
    changed = [*messages, *added]
    tally.begin_tally()  # tasks have counted what they wrote, also rows that were updated
    tally.count(**counts)
    return commit_once(commits, changed, BATCH_COMMIT_IDENTIFIER, properties=properties, premise=premise)


def _count_changes(held: DataFrame, places: Collection[str]) -> dict[str, int]:
    """Count the changed rows by operation. A row that several source rows delete counts once."""
    from pyspark.sql import functions

    place = functions.struct(*map(quote_name, places))
    found = held.groupBy(KIND).agg(functions.count(functions.lit(1)), functions.countDistinct(place)).collect()
    rows = {kind: (every, distinct) for kind, every, distinct in found}
    none = (0, 0)
    return {
        "inserted": rows.get(INSERTED, none)[0],
        "updated": rows.get(UPDATED, none)[1],
        "deleted": rows.get(DELETED, none)[1],
    }


def _delete_places(rows: DataFrame, target: WriteTarget, premise: Premise) -> list[CommitMessage]:
    """Delete rows by their columns of `list_places`, which come to the driver."""
    places = cast("pl.DataFrame", pl.from_arrow(to_arrow(rows)))
    with RowChanges(target, premise.read) as changes:
        if not target.options.data_evolution:
            changes.delete_at(group_by_file(places), premise.filter)
        elif places.height:
            changes.delete_ids(places[ROW_ID].to_numpy(), premise.filter)
        return changes.messages()


def update(
    spark: SparkSession,
    target: Place,
    set: Assignments,
    where: FilterLike | Column | None = None,
    *,
    properties: Mapping[str, str] | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
) -> Snapshot | None:
    """Update columns of rows by Spark jobs, in one commit.

        morrow.spark.update(spark, orders, set={"amount": "amount * 2", "note": F.lit("doubled")}, where="id < 10")

    Args:
        spark: the session whose executors read and write the rows.
        target: the table's folder or URL, valid on every executor, or a `Table`.
        set: new values by column: Spark SQL over the old row, a Column, or a constant other than text (None: null).
            Values are cast to their columns as Spark's SQL assigns them.
        where: the condition of rows to update, as the filter of `read`, or a Column; None: all rows.
        properties: stored in the snapshot.
        branch, storage_options, allowed_roots: as for `morrow.open`; only with a path.

    Returns: the last snapshot created, or None if no row matched.

    Raises:
        TableNotFound, BranchNotFound: no such table. ColumnNotFound: a missing column.
        InvalidArgument: nothing to set, a value of the wrong type, or a column of the primary key.
        Unsupported: the merge engine would change the meaning of this update.
        CommitConflict: others changed these rows each time they were read; nothing was changed.
        Spark's own errors: expressions that Spark cannot compute.
    """
    into = WriteTarget.of(open_metadata(target, branch, storage_options, allowed_roots))
    values = {name: to_column(value) for name, value in resolve_columns(set, into, spark).items()}
    if not values:
        raise InvalidArgument(f"{into.where}: update: there is nothing to set")
    check_updatable(into, (), "an update")
    wrong = next((name for name in values if name in into.schema.primary_keys), None)
    if wrong is not None:
        raise InvalidArgument(
            f"{into.where}: {wrong!r} is part of the primary key, which cannot be updated; {instead_of_update(into)}"
        )
    condition = cast("Column", where) if is_column(where) else None
    fields, names = into.schema.fields, tuple(into.schema.by_name)
    known = (*fields, *list_tracked_fields(into.schema, into.options))
    filter = NO_FILTER if where is None or condition is not None else parse_filter(cast("Any", where), known)

    def attempt(premise: Premise) -> Snapshot | None:
        from pyspark.sql import functions

        rows = read_identified(into, premise, spark).alias(TARGET)
        if condition is not None:
            rows = rows.where(condition)
        ids = list_identifying(into)
        old = {name: reserve_name("old", name) for name in dict.fromkeys((*into.schema.by_name, *ids))}
        new = {reserve_name("set", name): into.schema.by_name[name] for name in values}
        rows = rows.select(
            *(functions.col(quote_name(name)).alias(copy) for name, copy in old.items()),
            *(value.alias(reserve_name("set", name)) for name, value in values.items()),
        )
        rows = assign_columns(rows, new, old.values())
        changed = rows.select(
            functions.lit(UPDATED).alias(KIND),
            *(functions.col(quote_name(reserve_name("set", n) if n in values else old[n])).alias(n) for n in names),
            *(functions.col(quote_name(old[name])).alias(given) for name, given in ids.items()),
        )
        return change(changed, into, "UPDATE", premise, dict(properties or {}), values)

    return run_serially(into, filter, attempt)
