"""`morrow.spark.update`: columns of rows set by expressions of Spark, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import Roots
from morrow.engine.names import KIND, SPARKS_OLD_KEY, own
from morrow.engine.plan.filter import NO_FILTER, FilterLike, parse_filter
from morrow.spark.reading.distributed import to_dataframe
from morrow.spark.reading.expressions import quoted
from morrow.spark.writing.assigning import Assignments, assigned, by_column, column_of, is_column
from morrow.spark.writing.changes import UPDATED, change
from morrow.spark.writing.write import Place, metadata_at
from morrow.writers.commit.premise import Premise
from morrow.writers.operations.merge_clauses import TARGET
from morrow.writers.operations.new_versions import check_updatable, instead_of_update
from morrow.writers.operations.scanning import plan_where
from morrow.writers.operations.serial import serially
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


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
    """Updates columns of rows, as jobs of Spark, in one commit.

        morrow.spark.update(spark, orders, set={"amount": "amount * 2", "note": F.lit("doubled")}, where="id < 10")

    Args:
        spark: the session whose executors read and write the rows.
        target: the table's folder or URL, as every executor sees it, or a `Table`. It has a primary key.
        set: column -> new value: SQL of Spark over the old row, a Column, or a constant that is no text (None: null).
            Values are cast to their columns as Spark's SQL assigns them.
        where: the rows to update: a condition as the filter of `read`, or a Column; None: all.
        properties: stored in the snapshot.
        branch, storage_options, allowed_roots: as for `morrow.open`; of a path only.

    Returns: the last snapshot created, None when no row matched.

    Raises:
        TableNotFound, BranchNotFound: no such table. ColumnNotFound: a missing column.
        InvalidArgument: nothing to set, a value of a type that does not fit its column, a column of the primary key.
        Unsupported: the merge engine would change the meaning of this update, or there is no primary key.
        CommitConflict: others changed these rows each time they were read; nothing was changed.
        Spark's own errors: expressions that it cannot compute.
    """
    into = WriteTarget.of(metadata_at(target, branch, storage_options, allowed_roots))
    values = {name: column_of(value) for name, value in by_column(set, into, spark).items()}
    if not values:
        raise InvalidArgument(f"{into.where}: update: there is nothing to set")
    if not into.keyed:
        raise Unsupported(
            "update by Spark of a table without a primary key", where=into.where, hint="use update of morrow.open(path)"
        )
    check_updatable(into, (), "an update")
    wrong = next((name for name in values if name in into.schema.primary_keys), None)
    if wrong is not None:
        raise InvalidArgument(
            f"{into.where}: {wrong!r} is part of the primary key, which cannot be updated; {instead_of_update(into)}"
        )
    condition = cast("Column", where) if is_column(where) else None
    fields = into.schema.fields
    filter = NO_FILTER if where is None or condition is not None else parse_filter(cast("Any", where), fields)

    def attempt(premise: Premise) -> Snapshot | None:
        from pyspark.sql import functions

        rows = to_dataframe(plan_where(into, premise.read, premise.filter), into.store, spark).alias(TARGET)
        if condition is not None:
            rows = rows.where(condition)
        old = {f.name: own("old", f.name) for f in fields}
        new = {own("set", name): into.schema.by_name[name] for name in values}
        rows = rows.select(
            *(functions.col(quoted(name)).alias(copy) for name, copy in old.items()),
            *(value.alias(own("set", name)) for name, value in values.items()),
        )
        rows = assigned(rows, new, old.values())
        changed = rows.select(
            functions.lit(UPDATED).alias(KIND),
            *(functions.col(quoted(own("set", n) if n in values else c)).alias(n) for n, c in old.items()),
            *(functions.col(quoted(old[k])).alias(f"{SPARKS_OLD_KEY}{k}") for k in into.schema.row_keys),
        )
        return change(changed, into, "UPDATE", premise, dict(properties or {}))

    return serially(into, filter, attempt)
