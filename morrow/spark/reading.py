"""`morrow.spark.read`: a table as a Spark DataFrame, read by the executors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from morrow.engine.catalog.names import object_name
from morrow.engine.errors import InvalidArgument
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.time_travel import AsOf, Time
from morrow.packed_scan import PackedScan
from morrow.readers.spark import choice, distributed, handoff
from morrow.readers.spark.types import without_not_null
from morrow.scan import Scan
from morrow.session import open as open_table
from morrow.system_scan import RowScan, SystemScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AnyScan: TypeAlias = Scan | SystemScan

MADE_HERE = "Spark is given rows that the driver makes"


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
        path: the table's folder or URL, as every executor sees it; of a system table or a branch with its name behind:
            ``warehouse/db.db/orders$snapshots``, ``...$branch_dev``. Rows of system tables that are metadata pass
            through the driver; those that are the table's (``$audit_log``, ``$ro``, ...) are read as the table is
            (except of ``$binlog`` where the filter looks into its arrays).
        columns, filter, limit: as for `Table.scan`.
        as_of, snapshot, tag, timestamp, watermark, branch: what is read, as for `Table.scan`.
        storage_options: as for `morrow.open`; they go to the executors, not into plans.

    Returns: the columns in the types that `morrow.readers.spark.types` lists, all nullable.

    Raises:
        ColumnNotFound, InvalidArgument: the call is wrong; or a system table's metadata take more than 1 GiB.
        TableNotFound, SnapshotNotFound, SnapshotExpired, TagNotFound, BranchNotFound: there is nothing to read.
        Unsupported: a column whose type this version of Spark does not have; leave it out by `columns`.
        CorruptFile, FileMissing, StorageError: metadata, or files that masks come from, cannot be read. What
            executors cannot read is an error of the Spark job.
    """
    name = object_name(os.fspath(path))
    if branch is not None and name.branch is not None:
        raise InvalidArgument(f"branch={branch!r}, but the path names the branch {name.branch!r} already")
    table = open_table(name.table, branch=branch or name.branch, storage_options=storage_options)
    scan: AnyScan
    if name.system is None:
        scan = table.scan(
            columns, filter, limit, as_of=as_of, snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark
        )
    else:
        scan = table.system(
            name.system,
            columns,
            filter,
            limit,
            as_of=as_of,
            snapshot=snapshot,
            tag=tag,
            timestamp=timestamp,
            watermark=watermark,
        )
    return to_dataframe(scan, spark)


def to_dataframe(scan: AnyScan, spark: SparkSession) -> DataFrame:
    """The rows of a scan as `read` has them."""
    rows = _rows_of(scan)
    if rows is None:
        assert isinstance(scan, SystemScan)  # others are scans of rows themselves
        return handoff.to_spark(
            scan.to_batches(), without_not_null(scan.fields), spark, where=scan.title, advice=handoff.CHOOSE_LESS
        )
    frame = _distributed(rows, spark)
    return _packed(frame, scan) if isinstance(scan, PackedScan) else frame


def explain(scan: AnyScan) -> str:
    """What will be read, as `Scan.explain`, and by whom: by Spark's own scan, or by tasks and why."""
    rows = _rows_of(scan)
    return MADE_HERE if rows is None else f"{rows.explain()}\n\n{choice.explain(rows.plan, rows.store)}"


def _rows_of(scan: AnyScan) -> Scan | None:
    """The scan of the table's files that gives the rows; None where there is none."""
    if isinstance(scan, RowScan):
        return scan.scan
    if isinstance(scan, PackedScan):
        return scan.unpacked
    return scan if isinstance(scan, Scan) else None


def _distributed(scan: Scan, spark: SparkSession) -> DataFrame:
    if scan.plan.columns:
        return distributed.to_dataframe(scan.plan, scan.store, spark)
    # A DataFrame of no columns still has rows: those of any column.
    some = next(iter(scan.plan.schema.by_name))
    return distributed.to_dataframe(scan.plan.with_columns((some,)), scan.store, spark).select()


def _packed(frame: DataFrame, scan: PackedScan) -> DataFrame:
    """Values in arrays, as ``$binlog`` has them."""
    from pyspark.sql.functions import array, col

    from morrow.readers.spark.native import quoted
    from morrow.readers.system.binlog import PLAIN

    columns = {field.name: col(quoted(field.name)) for field in scan.fields}
    return frame.select([columns[f.name] if f in PLAIN else array(columns[f.name]).alias(f.name) for f in scan.fields])
