"""`morrow.spark.read`: a table as a Spark DataFrame, read by the executors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, Unpack

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.io.resolve import Roots
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.time_travel import TravelArguments, parse_travel
from morrow.scans.arguments import check_columns, expose_travel_arguments
from morrow.scans.system_tables import PackedScan, RowScan, SystemScan
from morrow.scans.table_scan import NestedScan, Scan, plan_with_outlines
from morrow.session import Verify
from morrow.session import open as open_table
from morrow.spark import dataframes
from morrow.spark.expressions import quote_name
from morrow.spark.job.execution import is_local
from morrow.spark.jvm.file_scans import get_scanning
from morrow.spark.reading import choice, distributed
from morrow.spark.reading.file_scans import IN_OBJECT_STORE, place_of
from morrow.spark.reading.manifests import ManifestTasks
from morrow.spark.types import drop_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.tables.table import Table

AnyScan: TypeAlias = Scan | SystemScan

MADE_HERE = "Spark is given rows that the driver makes"


@expose_travel_arguments
def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,  # the same name as in `Table.scan`
    *,
    limit: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
    **at: Unpack[TravelArguments],
) -> DataFrame:
    """Return the table at `path` as a Spark DataFrame. The driver plans the read, executors read the files.

    The DataFrame holds no rows (in local mode, up to 64 MiB of merged rows). The snapshot is fixed now. A query reads
    only the columns that it needs, and Spark pushes its conditions down to files (over Spark Connect: only to files
    that Spark's own scan reads, see `explain`); `filter` prunes by metadata, too. Conditions on partition columns skip
    whole partitions either way.

    Args:
        spark: the session, such as one from `morrow.spark.session`.
        path: the table's folder or URL, valid on every executor, optionally followed by the name of a system table or
            branch: ``warehouse/db.db/orders$snapshots``, ``...$branch_dev``. Rows of system tables of metadata pass
            through the driver; system tables of the table's rows (``$audit_log``, ``$ro``, ...) are read like the table
            (except ``$binlog`` with a filter on its arrays).
        columns, filter, limit: as for `Table.scan`. Columns may be hidden columns, under Java Paimon's names in
            Spark: ``__paimon_partition``, ``__paimon_bucket``, ``__paimon_file_path``, ``__paimon_row_index``.
        as_of, snapshot, tag, timestamp, watermark, version, branch: the state to read, as for `Table.scan`.
        storage_options: as for `morrow.open`; they are sent to the executors, but not in plans.
        allowed_roots: as for `morrow.open`.
        verify: as for `morrow.open`. Spark checks the files that it scans itself; a mismatch fails the job.

    Returns: a DataFrame with the types that `morrow.spark.types` lists, all columns nullable.

    Raises:
        ColumnNotFound, InvalidArgument: wrong arguments; or the metadata of a system table take more than 1 GiB.
        TableNotFound, SnapshotNotFound, SnapshotExpired, TagNotFound, BranchNotFound: no such table or state.
        Unsupported: a column of a type that this version of Spark does not have; exclude it with `columns`.
        CorruptFile, FileMissing, StorageError: metadata, or files needed for masks, cannot be read. Files that
            executors cannot read are an error of the Spark job.
    """
    name = parse_object_name(os.fspath(path))
    name.branch_or(parse_travel(**at).branch)  # the scan opens this branch
    table = open_table(
        name.table,
        branch=name.branch,
        storage_options=storage_options,
        allowed_roots=allowed_roots,
        verify=verify,
    )
    scan: AnyScan
    if (
        name.system is None
        and columns is not None
        and not isinstance(columns, str)
        and set(columns) & distributed.NAMES
    ):
        return _read_with_hidden(table, columns, filter, limit, at, spark)
    if name.system is None:
        scan = table.scan(columns, filter, limit, **at)
    else:
        scan = table.system(name.system, columns, filter, limit, **at)
    return to_dataframe(scan, spark)


def _read_with_hidden(
    table: Table,
    columns: Sequence[str],
    filter: FilterLike | None,
    limit: int | None,
    at: TravelArguments,
    spark: SparkSession,
) -> DataFrame:
    scan = table.scan(None, filter, limit, **at)
    request = scan.request
    known = {field.name for field in distributed.list_hidden_fields(request.schema, request.options)}
    checked = check_columns([name for name in columns if name not in known])
    for name in checked:
        request.schema.column(name)
    return distributed.read_hidden(scan, check_columns(columns), spark)


def to_dataframe(scan: AnyScan, spark: SparkSession, *, limits: bool = True) -> DataFrame:
    """Return the rows of a scan as a DataFrame, as `read` does; `limits` as for `distributed.to_dataframe`."""
    if isinstance(scan, NestedScan):
        paths = (".".join(quote_name(field.name) for field in path) for path in scan.paths)
        frame = to_dataframe(scan.inner, spark, limits=limits)
        return frame.selectExpr(*(f"{text} AS {quote_name(path[-1].name)}" for text, path in zip(paths, scan.paths)))
    rows = _find_row_scan(scan)
    if rows is None:
        assert isinstance(scan, SystemScan)  # other scans return rows themselves
        return dataframes.to_spark(
            scan.to_batches(), drop_not_null(scan.fields), spark, where=scan.title, advice=dataframes.CHOOSE_LESS
        )
    frame = _read_distributed(rows, spark, limits)
    return _pack_values(frame, scan) if isinstance(scan, PackedScan) else frame


def explain(scan: AnyScan) -> str:
    """Explain the read, as `Scan.explain`, and the readers: Spark's own scan, or tasks and why.

    The way in which masks reach Spark's scan depends on the session. This uses the thread's session, if it has one.
    """
    from pyspark.sql import SparkSession

    rows = _find_row_scan(scan)
    if rows is None:
        return MADE_HERE
    spark = SparkSession.getActiveSession()
    planned: list[str] = []
    if spark is None:
        far, join, here = (None if rows.store.is_local else IN_OBJECT_STORE), None, False
    else:
        tasks = ManifestTasks(spark)
        rows, planned = plan_with_outlines(rows, tasks), tasks.told
        way = get_scanning(spark)
        file = next((file for part in rows.plan.parts for file in part.files), None)
        far, join = place_of(rows.store, file, way, spark).obstacle, way.obstacle
        here = join is None and is_local(spark)
    chosen = choice.explain(rows.plan, far, join, here=here)
    return "\n".join([rows.explain(), "", chosen, *(f"manifests: {line}" for line in planned)])


def _find_row_scan(scan: AnyScan) -> Scan | None:
    """Return the scan of the table's files that yields the rows; None if there is none."""
    if isinstance(scan, RowScan):
        return scan.scan
    if isinstance(scan, PackedScan):
        return scan.unpacked
    return scan if isinstance(scan, Scan) else None


def _read_distributed(scan: Scan, spark: SparkSession, limits: bool) -> DataFrame:
    scan = plan_with_outlines(scan, ManifestTasks(spark))
    if scan.plan.columns:
        return distributed.to_dataframe(scan.plan, scan.store, spark, limits=limits)
    # A DataFrame without columns still has rows, so read some column.
    some = next(iter(scan.plan.schema.by_name))
    return distributed.to_dataframe(scan.plan.with_columns((some,)), scan.store, spark, limits=limits).select()


def _pack_values(frame: DataFrame, scan: PackedScan) -> DataFrame:
    """Wrap the values in arrays, as in ``$binlog``."""
    from pyspark.sql.functions import array, col

    from morrow.readers.system.audit_log import PLAIN
    from morrow.spark.expressions import quote_name

    columns = {field.name: col(quote_name(field.name)) for field in scan.fields}
    return frame.select([columns[f.name] if f in PLAIN else array(columns[f.name]).alias(f.name) for f in scan.fields])
