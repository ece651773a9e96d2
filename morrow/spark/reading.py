"""`morrow.spark.read`: a table as a Spark DataFrame, read by the executors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.time_travel import AsOf, Time
from morrow.readers.spark import choice, distributed
from morrow.scan import Scan
from morrow.session import open as open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,  # the name that `Table.scan` has
    as_of: AsOf | None = None,
    snapshot: int | None = None,
    tag: str | None = None,
    timestamp: Time | None = None,
    branch: str | None = None,
    *,
    watermark: int | None = None,
    limit: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The table at `path` as a Spark DataFrame, read by the executors; the driver makes the plan and holds no rows.

    The snapshot is fixed now. Columns and conditions that Spark chooses later reach the files where Spark scans them
    by itself (`explain` tells where that is); `columns` and `filter` reach all files, and `filter` prunes by metadata.
    Conditions on partition columns leave out whole partitions either way.

    Args:
        spark: the session, such as `morrow.spark.session` makes.
        path: the table's folder or URL, as every executor sees it.
        columns, filter, limit: as for `Table.scan`.
        as_of, snapshot, tag, timestamp, watermark, branch: what is read, as for `Table.scan`.
        storage_options: as for `morrow.open`; they go to the executors, not into plans.

    Returns: the columns in the types that `morrow.readers.spark.types` lists, all nullable.

    Raises:
        ColumnNotFound, InvalidArgument: the call is wrong.
        TableNotFound, SnapshotNotFound, SnapshotExpired, TagNotFound, BranchNotFound: there is nothing to read.
        Unsupported: a column whose type this version of Spark does not have; leave it out by `columns`.
        CorruptFile, FileMissing, StorageError: metadata, or files that masks come from, cannot be read. What
            executors cannot read is an error of the Spark job.
    """
    table = open_table(path, branch=branch, storage_options=storage_options)
    scan = table.scan(
        columns, filter, limit, as_of=as_of, snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark
    )
    return to_dataframe(scan, spark)


def to_dataframe(scan: Scan, spark: SparkSession) -> DataFrame:
    """The rows of a scan as `read` has them."""
    if scan.plan.columns:
        return distributed.to_dataframe(scan.plan, scan.store, spark)
    # A DataFrame of no columns still has rows: those of any column.
    some = next(iter(scan.plan.schema.by_name))
    return distributed.to_dataframe(scan.plan.with_columns((some,)), scan.store, spark).select()


def explain(scan: Scan) -> str:
    """What will be read, as `Scan.explain`, and by whom: by Spark's own scan, or by tasks and why."""
    return f"{scan.explain()}\n\n{choice.explain(scan.plan, scan.store)}"
