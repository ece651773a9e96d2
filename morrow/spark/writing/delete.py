"""`morrow.spark.delete`: deletion of rows by the keys of a DataFrame, or by a condition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import Roots
from morrow.engine.names import reserve_name
from morrow.engine.plan.filter import NO_FILTER, FilterLike, parse_filter
from morrow.spark.expressions import quote_name
from morrow.spark.reading.distributed import to_dataframe
from morrow.spark.writing.assignments import is_column
from morrow.spark.writing.job import Commit
from morrow.spark.writing.job import write as write_job
from morrow.spark.writing.write import Place, check_numbered, open_metadata
from morrow.writers.commit.premise import Premise
from morrow.writers.operations.update import (
    check_deletable,
    delete_matching,
    find_removing_groups,
    is_condition,
    is_of_partitions,
    list_deletion_columns,
    make_not_deleted_error,
    needs_only_key,
)
from morrow.writers.operations.write_session import check_alone, plan_where, run_serially
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SPARK_PRECISION = 6
"""The number of fractional digits in Spark timestamps."""


def delete(
    rows: DataFrame | SparkSession | FilterLike,
    target: Place,
    *,
    where: FilterLike | Column | None = None,
    spark: SparkSession | None = None,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    properties: Mapping[str, str] | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
) -> Snapshot | None:
    """Delete rows, in one commit, as `Table.delete`.

        morrow.spark.delete(gone.select("id"), orders)
        morrow.spark.delete(spark, orders, where="amount > 100")

    Args:
        rows: a DataFrame with (at least) the columns of the primary key; or the session, with the condition `where`; or
            the condition itself, if a session is active. The driver deletes from tables without a primary key, and
            by conditions on partition columns only.
        target: the table's folder or URL, valid on every executor, or a `Table`.
        where: a condition, as the filter of `read`; or a Column, for a table with a primary key.
        spark: the session that reads the rows of a condition; None: the active one.
        Others: as for `write`; if the driver deletes, identifiers and properties are not supported.

    Returns: the last snapshot created, or None if there was nothing to delete or it had been committed before.

    Raises:
        InvalidArgument, Unsupported: as `Table.delete`. Others as `write`.
    """
    check_numbered(commit_user, commit_identifier)
    given, session = _parse_arguments(rows, where, spark)
    into = WriteTarget.of(open_metadata(target, branch, storage_options, allowed_roots), commit_user)
    if is_condition(given):
        if not into.keyed or is_of_partitions(into, parse_filter(given, into.schema.fields)):
            if commit_identifier is not None or properties:
                raise Unsupported(
                    "commit_identifier and properties where the driver deletes by itself",
                    where=into.where,
                    hint="leave them out: to delete by partitions, or rows of a table without a primary key, again "
                    "finds nothing to delete",
                )
            return delete_matching(into, given)
    elif not into.keyed:
        raise InvalidArgument(f"{into.where}: it has no primary key; delete by a condition that is not a Column")
    check_deletable(into)

    def attempt(premise: Premise | None) -> Snapshot | None:
        keys = given
        if is_column(given):
            assert premise is not None  # a condition needs rows
            every = to_dataframe(plan_where(into, premise.read, NO_FILTER), into.store, _get_session(session))
            keys = every.where(cast("Column", given))
        names = into.schema.row_keys if is_column(given) else into.schema.primary_keys
        found = find_deleted_rows(keys, into, session, premise, names)
        commit = Commit(commit_identifier, None, dict(properties or {}), premise=premise)
        return write_job(found, into, "-D", commit)

    if is_condition(given):
        return run_serially(into, parse_filter(given, into.schema.fields), attempt)
    if is_column(given) or not needs_only_key(into):
        return run_serially(into, NO_FILTER, attempt)
    check_alone(into, into.metadata.latest_snapshot(), NO_FILTER)
    return attempt(None)


def _parse_arguments(rows: object, where: object, spark: SparkSession | None) -> tuple[Any, SparkSession | None]:
    """Return the keys or the condition, and the session."""
    if hasattr(rows, "readStream"):  # a session, of either kind
        if where is None:
            raise InvalidArgument("delete: say which rows, by where=...; Table.truncate deletes all")
        if spark is not None:
            raise InvalidArgument("delete: the session is given twice")
        return where, cast("SparkSession", rows)
    if where is not None:
        raise InvalidArgument("delete: where=... goes with a session; give either the keys of the rows or a condition")
    return rows, spark


def _get_session(spark: SparkSession | None) -> SparkSession:
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise InvalidArgument("there is no active SparkSession to read the rows by; give one: spark=...")
    return session


def find_deleted_rows(
    given: DataFrame | FilterLike,
    target: WriteTarget,
    spark: SparkSession | None,
    premise: Premise | None,
    names: Sequence[str],
    padded: bool = False,
) -> DataFrame:
    """Return the rows to delete: identifying columns, or whole rows if the merge engine needs the deleted values.

    Rows are read from the snapshot of the premise. Without a premise the keys are given, and nothing is read.

    Args:
        names: the columns of `given` that identify rows; some may be null.
        padded: whether Spark has padded the CHAR values of the keys.
    """
    from pyspark.sql import functions

    columns = list_deletion_columns(target)
    check_exact(target, columns or list(target.schema.by_name))
    if is_condition(given):
        assert premise is not None  # a condition needs rows
        rows = to_dataframe(
            plan_where(target, premise.read, premise.filter, columns), target.store, _get_session(spark)
        )
    else:
        keys = cast("DataFrame", given).select(*(functions.col(quote_name(name)) for name in names)).distinct()
        if premise is None:
            rows = keys
        else:
            plan = plan_where(target, premise.read, premise.filter, columns)
            wanted = {name: reserve_name("key", number) for number, name in enumerate(names)}
            keys = keys.toDF(*wanted.values())
            rows = to_dataframe(plan, target.store, keys.sparkSession)
            chars = list_char_keys(target, names) if padded else {}
            rows = check_char_keys(target, rows, {name: name for name in names}, chars)
            same = [compare_keys(name, key, trimmed=name in chars) for name, key in wanted.items()]
            rows = rows.join(keys, reduce(and_, same), "left_semi")
    rows = _check_removable(target, rows)
    kind = target.write.rowkind_field
    return rows.withColumn(kind, functions.lit("-D")) if kind in rows.columns else rows


def list_char_keys(target: WriteTarget, names: Iterable[str]) -> dict[str, int]:
    """Return the lengths of CHAR columns of the primary key. Spark pads their values; other writers may not."""
    kinds = {name: target.schema.by_name[name].type for name in names if name in target.schema.primary_keys}
    return {name: kind.length for name, kind in kinds.items() if isinstance(kind, t.CharType)}


def compare_keys(one: str, other: str, *, trimmed: bool) -> Column:
    """Return whether two columns are equal; `trimmed` ignores spaces at the end, as Spark does for CHAR."""
    from pyspark.sql import functions

    left, right = functions.col(quote_name(one)), functions.col(quote_name(other))
    return functions.rtrim(left).eqNullSafe(functions.rtrim(right)) if trimmed else left.eqNullSafe(right)


def check_char_keys(target: WriteTarget, rows: DataFrame, keys: Mapping[str, str], chars: Collection[str]) -> DataFrame:
    """Return rows of a table. The job fails at two keys that differ only in the padding of CHAR values.

    Args:
        keys: the columns of `rows` by the names of the keys.
        chars: the keys whose values Spark has padded.
    """
    from pyspark.sql import Window, functions

    if not chars:
        return rows
    columns = {name: functions.col(quote_name(column)) for name, column in keys.items()}
    alike = Window.partitionBy(*(functions.rtrim(c) if name in chars else c for name, c in columns.items()))
    message = (
        f"Unsupported: {target.where}: changing rows by Spark where two keys differ only in the padding of CHAR "
        "values; use delete, update or merge of morrow.open(path)"
    )
    name = next(iter(chars))
    failed = functions.raise_error(functions.lit(message))
    checked = functions.when(functions.count(functions.lit(1)).over(alike) > 1, failed).otherwise(columns[name])
    return rows.withColumn(keys[name], checked)


def _check_removable(target: WriteTarget, rows: DataFrame) -> DataFrame:
    """Return the rows. As in `check_deletions`, the job fails at the first row that a ``-D`` would not delete."""
    from pyspark.sql import functions

    names = [name for group in find_removing_groups(target) for name in group.sequence]
    if not names:
        return rows
    stays = reduce(and_, (functions.col(quote_name(name)).isNull() for name in names))
    key = target.schema.primary_keys[0]
    failed = functions.raise_error(functions.lit(f"Unsupported: {make_not_deleted_error(target)}"))
    return rows.withColumn(key, functions.when(stays, failed).otherwise(functions.col(quote_name(key))))


def check_exact(target: WriteTarget, columns: Sequence[str]) -> None:
    """Refuse columns with nanoseconds, which Spark truncates.

    Keys would differ from the table's, and with a sequence field a deletion would be older than its row.
    """
    for name in columns:
        kind = target.schema.by_name[name].type
        if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)) and kind.precision > SPARK_PRECISION:
            raise Unsupported(
                f"deleting or updating by Spark when the column {name!r} is {kind}",
                where=target.where,
                hint="use delete, update or merge of morrow.open(path)",
            )
