"""`morrow.spark.compact` and `remove_orphan_files`, and the statistics of columns that ANALYZE TABLE commits."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.manifest_entries import ColumnFacts
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import Roots, resolve, resolve_roots
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.structs import replace
from morrow.readers.execution.statistics import has_length, to_column_facts
from morrow.scans.arguments import Age, to_epoch_millis
from morrow.spark.expressions import quote_name
from morrow.spark.maintenance.compaction import compact as compact_by_tasks
from morrow.spark.maintenance.compaction_tasks import Compaction
from morrow.spark.maintenance.orphan_files import remove_orphan_files as remove_by_tasks
from morrow.spark.reading.distributed import to_dataframe
from morrow.spark.versions import to_arrow
from morrow.writers.history.orphan_files import OrphanFiles
from morrow.writers.operations.compaction import ChosenBuckets, parse_sort_columns
from morrow.writers.operations.table_maintenance import analyze_table
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def compact(
    spark: SparkSession,
    path: str | os.PathLike[str],
    full: bool = False,
    *,
    partition: Mapping[str, object] | Sequence[Mapping[str, object]] = (),
    where: FilterLike | None = None,
    order_by: str | Sequence[str] | None = None,
    strategy: str | None = None,
    idle: dt.timedelta | None = None,
    buckets: Sequence[range] | None = None,
    options: Mapping[str, object] | None = None,
    distributed: bool | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
) -> Snapshot | None:
    """Compact files, in one commit, as `Table.compact`, in Spark tasks. The result is the same.

    A full compaction also rewrites the files with deletion vectors.

    Args:
        spark: the session; its executors reach the table by the same path.
        path: the table's folder or URL.
        full, where, order_by, strategy: as for `Table.compact`.
        partition: only partitions with these values of partition columns; for several mappings, with any of them.
        idle: only partitions without a new file for this long.
        buckets: only the buckets with these numbers, in a table with a fixed number of them.
        options: table options overridden for this call, such as ``{"target-file-size": "512 mb"}``.
        distributed: whether executors compact; None: only from 128 MB of files on, since the driver is faster below.
        branch, storage_options, allowed_roots: as for `morrow.open`.

    Returns: the snapshot, or None if nothing was worth compacting.

    Raises:
        TableNotFound, BranchNotFound. InvalidArgument, ColumnNotFound, Unsupported: as `Table.compact`.
        CommitConflict: another commit compacted the same files; nothing was changed. Spark's own errors, if a task
            failed too often; nothing was changed.
    """
    metadata = TableMetadata(*resolve(os.fspath(path), storage_options), allowed_roots=resolve_roots(allowed_roots))
    metadata = metadata if branch is None else metadata.on_branch(branch)
    columns = parse_sort_columns(order_by, strategy)
    if columns is not None and idle is not None:
        raise InvalidArgument("compact: order_by sorts whole partitions; it does not go with idle")
    if columns is not None and buckets is not None:
        raise InvalidArgument("compact: order_by sorts whole partitions; it does not go with buckets")
    specs = (partition,) if isinstance(partition, Mapping) else tuple(partition)
    texts = {key: _format_option(value) for key, value in (options or {}).items()}
    how = Compaction(full, tuple(columns or ()), (strategy or "order") if columns else "", texts)
    return compact_by_tasks(
        spark, WriteTarget.of(metadata), ChosenBuckets(specs, where, idle, buckets), how, distributed
    )


def remove_orphan_files(
    spark: SparkSession,
    path: str | os.PathLike[str],
    older_than: Age | None = None,
    dry_run: bool = True,
    *,
    parallelism: int | None = None,
    distributed: bool | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
) -> OrphanFiles:
    """Find and remove orphan files, as `Table.remove_orphan_files`; tasks list the folders.

    The driver decides which files are orphans; it holds 8 bytes for each file of the table.

    Args:
        spark: the session; its executors reach the table by the same path.
        path: the table's folder or URL.
        older_than, dry_run: as for `Table.remove_orphan_files`.
        parallelism: the maximum number of listing tasks.
        distributed: whether tasks list; None: from 256 folders of partitions and buckets on.
        storage_options, allowed_roots: as for `morrow.open`.

    Raises: as `Table.remove_orphan_files`. Spark's own errors, if a task failed too often; nothing was removed.
    """
    if not isinstance(dry_run, bool):
        raise InvalidArgument(f"dry_run is True or False, not {dry_run!r}; nothing was removed")
    if parallelism is not None and (
        not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1
    ):
        raise InvalidArgument(f"parallelism is a number of tasks, not {parallelism!r}; nothing was removed")
    metadata = TableMetadata(*resolve(os.fspath(path), storage_options), allowed_roots=resolve_roots(allowed_roots))
    return remove_by_tasks(
        spark,
        metadata,
        older_than_millis=to_epoch_millis(older_than),
        dry_run=dry_run,
        parallelism=parallelism,
        distributed=distributed,
    )


def _format_option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def analyze_by_job(target: WriteTarget, columns: Sequence[str], spark: SparkSession) -> Snapshot | None:
    """Measure the newest snapshot in one Spark job, and commit the statistics; otherwise as `Table.analyze`."""

    def measure(plan: ScanPlan, fields: Sequence[t.DataField]) -> tuple[int, Mapping[str, ColumnFacts]]:
        names = tuple(field.name for field in fields) or tuple(plan.columns[:1])
        rows = to_dataframe(replace(plan, columns=names), target.store, spark)
        if not fields:
            return rows.count(), {}
        asked = [each for i, field in enumerate(fields) for each in _build_aggregates(field, i)]
        found = pl.DataFrame(to_arrow(rows.agg(*asked)))
        # All instants are text in UTC, whatever the session's zone.
        found = found.with_columns(cs.datetime(time_zone="*").dt.convert_time_zone("UTC"))
        count = int(found["rows"].item())
        return count, {field.name: to_column_facts(field, i, count, found) for i, field in enumerate(fields)}

    return analyze_table(target, columns, measure)


def _build_aggregates(field: t.DataField, i: int) -> list[Column]:
    from pyspark.sql import functions

    column = functions.col(quote_name(field.name))
    asked = [
        functions.count(column).alias(f"count{i}"),
        functions.approx_count_distinct(column).alias(f"distinct{i}"),
    ]
    if i == 0:
        asked.insert(0, functions.count(functions.lit(1)).alias("rows"))
    if not has_length(field):
        return [*asked, functions.min(column).alias(f"min{i}"), functions.max(column).alias(f"max{i}")]
    is_bytes = isinstance(field.type, (t.BinaryType, t.VarBinaryType))
    length = functions.octet_length(column) if is_bytes else functions.char_length(column)
    return [
        *asked,
        functions.ceil(functions.avg(length)).alias(f"average{i}"),
        functions.max(length).alias(f"longest{i}"),
    ]
