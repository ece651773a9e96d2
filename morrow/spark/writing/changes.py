"""Changes of rows that Spark has derived from one state of a table: DELETE, UPDATE and MERGE, in one commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from morrow.engine.errors import CommitConflict, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import FAILED, KIND, ROW_PARTITION, SPARKS_OLD_KEY
from morrow.spark.job.registry import Work
from morrow.spark.job.run import mapped
from morrow.spark.job.table import TableAccess
from morrow.spark.reading.distributed import to_dataframe
from morrow.spark.reading.hidden import row_id
from morrow.spark.writing.delete import check_exact, rows_to_delete
from morrow.spark.writing.job import Commit
from morrow.spark.writing.job import write as write_job
from morrow.spark.writing.row_changes import change_places
from morrow.spark.writing.version_work import VersionJob, new_name, old_name
from morrow.writers.commit.premise import ADVICE, Premise
from morrow.writers.operations.delete import columns_of_deletion
from morrow.writers.operations.new_versions import (
    OVERWRITE,
    check_deletable,
    check_updatable,
    moves_rows,
    stays_in_partition,
)
from morrow.writers.operations.scanning import plan_where
from morrow.writers.operations.serial import check_alone, hidden_places, readable
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELETE = "DELETE"
OPERATIONS: Mapping[int, str] = {1: "-D", 2: "+U", 3: "+I"}
"""The row kinds of Spark's ``RowDeltaUtils``."""
DELETED, UPDATED, INSERTED = OPERATIONS
NO_PROPERTIES: Mapping[str, str] = {}


def insert(
    rows: DataFrame, target: WriteTarget, premise: Premise, properties: Mapping[str, str] = NO_PROPERTIES
) -> Snapshot | None:
    """Writes rows that were derived from the table's own. Raises as `change`."""
    check_premise(target, premise)
    return write_job(rows, target, None, Commit(properties=properties, premise=premise))


def change(
    rows: DataFrame, target: WriteTarget, command: str, premise: Premise, properties: Mapping[str, str] = NO_PROPERTIES
) -> Snapshot | None:
    """Writes the rows of a ``WriteDelta`` of Spark: the operation (INT), then the key of each row (``DELETE``), or all
    columns (``UPDATE`` and ``MERGE``; of deleted rows the key alone) and the old keys. In the place of keys, rows of
    append tables have where they lie: `FILE_PATH` and `ROW_INDEX`.

    Returns: the last snapshot created, None when nothing changed.

    Raises:
        Unsupported: the merge engine does not make of such changes what the statement says.
        CommitConflict: others have changed rows of the premise, or compacted them only now.
        Others: as `morrow.spark.writing.job.write`.
    """
    if command == DELETE:
        check_deletable(target)
    else:
        _check_updatable(target, command)
    check_premise(target, premise)
    if not target.keyed:
        return change_places(rows, target, premise, properties)
    commit = Commit(properties=properties, premise=premise)
    if command == DELETE:
        given = row_id(target.schema, target.options)
        numbered = {name: f"k{at}" for at, name in enumerate(given)}
        identified = _identified(target, numbered)
        keys = rows.toDF(KIND, *numbered.values()).select(*(column.alias(name) for name, column in identified.items()))
        is_enough = columns_of_deletion(target) == tuple(identified)
        found = rows_to_delete(keys, target, None, None if is_enough else premise, tuple(identified))
        return write_job(found, target, "-D", commit)
    return write_job(_of_kinds(rows, target, command, premise), target, KIND, commit)


def check_premise(target: WriteTarget, premise: Premise) -> None:
    """Checks that the rows of a premise were all rows there are.

    Raises:
        CommitConflict: reads saw no rows that were waiting for their compaction; they are compacted now.
        Unsupported: rows are read from a fallback branch.
    """
    check_alone(target, premise.read, premise.filter)
    if premise.read is not None and hidden_places(target, premise.read):
        readable(target)
        raise CommitConflict(f"{target.where}: rows were compacted only after the table was read; {ADVICE}")


def _check_updatable(target: WriteTarget, command: str) -> None:
    check_updatable(target, (), command)
    check_exact(target, tuple(target.schema.by_name))


def _of_kinds(rows: DataFrame, target: WriteTarget, command: str, premise: Premise) -> DataFrame:
    """Returns complete rows, with their kinds in the column `KIND`."""
    from pyspark.sql import functions

    names = tuple(target.schema.by_name)
    olds = tuple(name.removeprefix(SPARKS_OLD_KEY) for name in rows.columns[1 + len(names) :])
    number = {name: new_name(at) for at, name in enumerate(names)}
    numbered = {name: f"k{at}" for at, name in enumerate(olds)}
    changed = rows.toDF(KIND, *number.values(), *numbered.values())
    operation = functions.col(KIND)
    identified = _identified(target, numbered)
    for name, old in identified.items():
        new = updated = functions.col(number[name])
        if name in target.schema.primary_keys or not moves_rows(target):
            failed = functions.raise_error(functions.lit(_of_key(target, command, name)))
            updated = functions.when(old.eqNullSafe(new), old).otherwise(failed)
        deleted = functions.coalesce(new, old)  # Spark gives either
        fixed = functions.when(operation == UPDATED, updated).when(operation == DELETED, deleted).otherwise(new)
        changed = changed.withColumn(number[name], fixed)
    folds = target.merge is not None and target.merge.folds
    needed = columns_of_deletion(target) or names
    if folds or not {*needed} <= {*target.schema.primary_keys, *identified}:
        changed = _with_old(changed, target, number, premise, identified)
    kind = functions.when(operation == DELETED, _deleted_kind(target))
    for value in (UPDATED, INSERTED):
        kind = kind.when(operation == value, functions.lit(OPERATIONS[value]))
    changed = changed.withColumn(KIND, kind.otherwise(functions.raise_error(functions.lit("an unknown operation"))))
    if folds:
        changed = _as_versions(changed, target, command)
    field = target.write.rowkind_field
    if field in number:
        changed = changed.withColumn(number[field], functions.col(KIND))
    return changed.select(KIND, *number.values()).toDF(KIND, *names)


def _identified(target: WriteTarget, columns: Mapping[str, str]) -> dict[str, Column]:
    """Returns the old values of row keys, by name, of columns that hold them, or the partition as a struct."""
    from pyspark.sql import functions

    found: dict[str, Column] = {}
    for name, column in columns.items():
        if name == ROW_PARTITION:
            found |= {key: functions.col(column).getField(key) for key in target.schema.partition_keys}
        else:
            found[name] = functions.col(column)
    return found


def _of_key(target: WriteTarget, command: str, name: str) -> str:
    if name not in target.schema.primary_keys:
        return f"Unsupported: {stays_in_partition(target, name, command)}"
    return (
        f"InvalidArgument: {target.where}: {command} would change {name!r}, which is part of the primary key; delete "
        "the row and insert another"
    )


def _deleted_kind(target: WriteTarget) -> Column:
    """Returns the kind of deleted rows, or the error of a table that deletes none, for the first such row."""
    from pyspark.sql import functions

    try:
        check_deletable(target)
    except Unsupported as error:
        return functions.raise_error(functions.lit(f"Unsupported: {error}"))
    return functions.lit(OPERATIONS[DELETED])


def _with_old(
    changed: DataFrame, target: WriteTarget, number: Mapping[str, str], premise: Premise, identified: Collection[str]
) -> DataFrame:
    """Returns the rows, and beside them those they were; deleted ones with all their values, where their engine needs
    them; and an error for versions older than those they should replace.
    """
    from pyspark.sql import functions

    plan = plan_where(target, premise.read, premise.filter)
    old = {name: old_name(at) for at, name in enumerate(number)}
    stored = to_dataframe(plan, target.store, changed.sparkSession).toDF(*old.values())
    keys = (key for key in target.schema.row_keys if key in target.schema.primary_keys or key in identified)
    same = [functions.col(number[key]).eqNullSafe(functions.col(old[key])) for key in keys]
    joined = changed.join(stored, reduce(lambda left, right: left & right, same), "left")
    operation = functions.col(KIND)
    complete = {name: functions.col(c) for name, c in number.items()}
    for name in columns_of_deletion(target) or old:
        deleted = functions.when(operation == DELETED, functions.col(old[name]))
        complete[name] = deleted.otherwise(complete[name])
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


def _as_versions(changed: DataFrame, target: WriteTarget, command: str) -> DataFrame:
    """Returns the versions to write of the rows of `_with_old`; an error for rows that no version makes.

    What a function combines is null in them, and a value that a null would leave as it is cannot be made null.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import StringType, StructField, StructType

    names = tuple(target.schema.by_name)
    numbers = [new_name(at) for at in range(len(names))]
    types = {field.name: field.dataType for field in changed.schema.fields}
    columns = [StructField(name, types[name]) for name in (KIND, *numbers)]
    job = VersionJob(TableAccess.of(target), names, command)
    made = mapped(changed, Work.VERSIONS, job, StructType([*columns, StructField(FAILED, StringType())]))
    failed = functions.raise_error(functions.col(FAILED))
    kind = functions.when(functions.col(FAILED).isNotNull(), failed).otherwise(functions.col(KIND))
    return made.select(kind.alias(KIND), *numbers)


def _is_older(target: WriteTarget, new: Mapping[str, str], old: Mapping[str, str]) -> Column:
    """Returns whether the new sequence is less than the old one. A null is the oldest."""
    from pyspark.sql import functions

    descending = target.merge is not None and target.merge.descending
    older, same = functions.lit(False), functions.lit(True)
    for name in target.options.sequence_fields:
        before, after = functions.col(old[name]), functions.col(new[name])
        less = after > before if descending else after < before
        less = functions.when(before.isNull(), False).when(after.isNull(), True).otherwise(less)
        older, same = older | (same & less), same & before.eqNullSafe(after)
    return older
