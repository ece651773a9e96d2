"""Rows that Morrow's tasks produce for a query, or the driver, for a few rows in local mode.

If the JVM can be reached, Spark passes the columns and filters when it plans a query, and tasks read only these. Over
Spark Connect, tasks read all columns, since Spark cannot look into Python functions. Filters that Morrow tests
as Spark does skip partitions, row groups and rows; Spark tests the rows again.
To make the masks of other rows, the driver has already read the keys. Tasks would read them again, in processes
with their own caches, so the driver itself merges keys with several versions if they have few rows.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from morrow.engine.errors import MorrowError
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.entries import mask_partitions
from morrow.engine.plan.filter import Filter, combine_filters
from morrow.engine.plan.manifests import guard_read
from morrow.engine.plan.predicate import ALWAYS, combine_predicates
from morrow.engine.plan.pruning import project_predicate
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_table, to_polars_dtype
from morrow.readers.execution.execute import MASK_WORKERS
from morrow.readers.execution.section_frames import filter_frame
from morrow.readers.files.file_frames import list_virtual_columns, translate_file_errors
from morrow.readers.merges.version_masks import compute_version_masks
from morrow.spark.expressions import make_literal, parse_predicates, quote_name
from morrow.spark.job.execution import INLINE_LOCK, is_local
from morrow.spark.job.sections import run_sections
from morrow.spark.job.tasks import Work
from morrow.spark.jvm.file_scans import Scanning
from morrow.spark.reading.tasks import is_for_driver
from morrow.spark.sessions import count_cores
from morrow.spark.types import drop_not_null, make_empty_frame, to_spark_rows, to_spark_schema, to_travel_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def make_task_frame(
    work: Work,
    plan: ScanPlan,
    sections: Sequence[Section],
    constants: Sequence[object],
    store: FileStore,
    scanning: Scanning,
    spark: SparkSession,
) -> DataFrame:
    """Return the rows of sections, columns `plan.columns`.

    Args:
        work: what tasks do with the sections, `Work.SCAN` or `Work.MERGE`.
        plan: the plan of the sections.
        sections: the sections to read.
        constants: the values of the first partition keys, which all these sections share.
        store: the store of their files.
        scanning: the abilities of the session.
        spark: the session.
    """
    from pyspark.sql.functions import col

    schema = to_spark_schema(drop_not_null(plan.fields))

    def rows(numbers: tuple[int, ...], told: Sequence[Any]) -> DataFrame:
        chosen = tuple(plan.columns[number] for number in numbers)
        some = chosen or (plan.schema.primary_keys or plan.columns)[:1]  # a DataFrame without columns still has rows
        narrow = apply_filters(plan.with_columns(some), told)
        wanted = to_spark_schema(drop_not_null(narrow.fields))
        left = select_sections(narrow, sections)
        if not left:
            found = make_empty_frame(spark, wanted)
        else:
            by_driver = merge_on_driver(narrow, left, store, scanning, spark) if work is Work.MERGE else None
            found = by_driver or run_sections(work, narrow, left, store, wanted, spark)
        return found if chosen else found.select()

    if scanning.obstacle is None:
        size = sum(section.size for section in sections)
        frame = scanning.rows(spark, schema.json(), size, f"MorrowTasks({len(sections):,} sections)", rows)
    else:
        frame = run_sections(work, plan, sections, store, schema, spark)
    known = dict(zip(plan.schema.partition_keys, constants))
    if not known.keys() & set(plan.columns):
        return frame
    # Partition keys are added as constants, which the planner checks against later filters; it cannot see tasks' rows.
    return frame.select(
        [
            make_literal(known[f.name], f.type, f.name).alias(f.name) if f.name in known else col(quote_name(f.name))
            for f in plan.fields
        ]
    )


def apply_filters(plan: ScanPlan, told: Sequence[Any]) -> ScanPlan:
    """Return the plan with filters added, as far as Morrow tests them as Spark does."""
    made = {field.name for field in list_virtual_columns(plan, plan.schema.fields)}
    found = parse_predicates(told, {field.name: field for field in plan.schema.fields if field.name not in made})
    if not found:
        return plan
    predicate = combine_predicates(*found)
    return replace(plan, filter=combine_filters(plan.filter, Filter.of_predicate(predicate)))


def select_sections(plan: ScanPlan, sections: Sequence[Section]) -> list[Section]:
    """Return the sections whose partitions may contain rows that the filter keeps."""
    predicate = project_predicate(plan.filter.predicate, frozenset(plan.schema.partition_keys))
    if predicate == ALWAYS or not sections:
        return list(sections)
    partitions = pl.Series("_PARTITION", [section.partition_row for section in sections], dtype=pl.Binary)
    kept = mask_partitions(partitions.to_frame(), plan.schema, predicate, plan.table)
    return [section for section, keep in zip(sections, kept) if keep]


MAX_MERGED_BYTES = 64 << 20
"""The maximum bytes of merged rows that the driver merges: its JVM holds them for the lifetime of the DataFrame."""

NUMBER_BYTES, DECIMAL_BYTES, TEXT_BYTES, NESTED_BYTES = 8, 16, 32, 128
"""The estimated bytes of a value, by kind of type."""

MIN_PARTITION_ROWS = 1 << 14
"""The minimum rows of a partition whose task only passes rows on."""


def merge_on_driver(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, scanning: Scanning, spark: SparkSession
) -> DataFrame | None:
    """Return the merged rows of sections, columns `plan.columns`; None if tasks have to merge them.

    Tasks merge outside of local mode, for many rows, and for damaged files: the task reports the error.
    """
    if not is_local(spark) or not is_for_driver(sum(section.row_count for section in sections), spark):
        return None
    try:
        with guard_read(plan, store):
            if _count_keys(plan, sections, store) * _estimate_row_bytes(plan) > MAX_MERGED_BYTES:
                return None
            rows = _merge_rows(plan, sections, store)
    except MorrowError:
        return None
    schema = to_spark_schema(drop_not_null(plan.fields))
    if not len(rows):
        return make_empty_frame(spark, schema)
    return None if rows.nbytes > 2 * MAX_MERGED_BYTES else _make_dataframe(rows, schema.json(), scanning, spark)


def _count_keys(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> int:
    """Count the keys with several versions, or their rows if the keys are not counted."""
    most = 0
    for section in sections:
        masks = compute_version_masks(plan, section, store)
        shared = (int(mask.sum()) for mask in masks.shared if mask is not None)
        most += sum(shared) if masks.keys is None else masks.keys
    return most


def _estimate_row_bytes(plan: ScanPlan) -> int:
    return sum(_estimate_value_bytes(to_polars_dtype(field.type)) for field in plan.fields)


def _estimate_value_bytes(dtype: pl.DataType) -> int:
    if dtype.is_nested():
        return NESTED_BYTES
    return TEXT_BYTES if dtype in (pl.String, pl.Binary) else DECIMAL_BYTES if dtype.is_decimal() else NUMBER_BYTES


def _merge_rows(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> pa.Table:
    """Return the merged rows that the filter keeps, in the Arrow types that Spark takes."""
    # Imported here: the functions of merge engines import libraries that other tables do not need.
    from morrow.readers.merges.sections import scan_merged

    read = [plan.schema.by_name[name] for name in plan.read_columns]

    def rows(section: Section) -> pl.DataFrame:
        with translate_file_errors(plan, [section], read, store):
            frame = filter_frame(plan, scan_merged(plan, section, plan.read_columns, store)).select(cols(plan.columns))
            return (frame if plan.limit is None else frame.head(plan.limit)).collect()

    with ThreadPoolExecutor(MASK_WORKERS) as pool:
        found = pl.concat(pool.map(rows, sections))
    return to_spark_rows(to_arrow_table(found, plan.fields), to_travel_schema(drop_not_null(plan.fields)))


def _make_dataframe(rows: pa.Table, schema: str, scanning: Scanning, spark: SparkSession) -> DataFrame | None:
    """Return rows as a DataFrame with about one partition per core; None if the session's types are wider."""
    each = max(-(-len(rows) // count_cores(spark)), MIN_PARTITION_ROWS)
    number, path = tempfile.mkstemp(prefix="morrow-rows-")
    try:
        with os.fdopen(number, "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows.combine_chunks(), each)
        with INLINE_LOCK:
            return scanning.given(spark, path, schema)
    finally:
        Path(path).unlink()
