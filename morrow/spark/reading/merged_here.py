"""Rows of keys of several versions that the driver merges itself: few ones, where it runs the tasks in any case.

The driver has read the keys already, for the masks of all other rows. Tasks would read them once more, each in a
process that has its own caches.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from morrow.engine.errors import MorrowError
from morrow.engine.io.store import FileStore
from morrow.engine.names import cols
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.casts.dtypes import polars_dtype, to_arrow_table
from morrow.readers.execution.execute import MASK_WORKERS
from morrow.readers.execution.section_frames import filtered
from morrow.readers.files.file_errors import reading_files
from morrow.readers.merges.version_masks import shared_keys, version_masks
from morrow.spark.job.run import BATCHES_APART
from morrow.spark.jvm.scanning import Scanning
from morrow.spark.reading.masks import is_for_driver
from morrow.spark.sessions import cores
from morrow.spark.types.to_spark import as_spark, no_rows, spark_schema, travel_schema, without_not_null
from morrow.spark.workers import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BYTES = 64 << 20
"""Of merged rows, which the driver's JVM holds as long as the query is there; tasks merge more."""

NUMBER_BYTES, DECIMAL_BYTES, TEXT_BYTES, NESTED_BYTES = 8, 16, 32, 128
"""What a value is expected to take."""

LEAST_ROWS = 1 << 14
"""Of a task that only hands rows on."""


def merged_here(
    plan: ScanPlan, sections: Sequence[Section], store: FileStore, scanning: Scanning, spark: SparkSession
) -> DataFrame | None:
    """Returns the merged rows of sections, columns `plan.columns`; None where tasks have to merge them.

    They have to where other processes than the driver's run them, where rows are many, and where files are damaged: a
    task says what is wrong.
    """
    if not is_local(spark) or not is_for_driver(sum(section.row_count for section in sections), spark):
        return None
    try:
        with in_flight(plan, store):
            if _most_keys(plan, sections, store) * _row_bytes(plan) > MOST_BYTES:
                return None
            rows = _merged(plan, sections, store)
    except MorrowError:
        return None
    schema = spark_schema(without_not_null(plan.fields))
    if not len(rows):
        return no_rows(spark, schema)
    return None if rows.nbytes > 2 * MOST_BYTES else _handed(rows, schema.json(), scanning, spark)


def _most_keys(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> int:
    """Counts the keys of several versions, or in place of them their rows."""
    most = 0
    for section in sections:
        masks = version_masks(plan, section, store)
        keys = shared_keys(plan, section, store)
        most += sum(int(mask.sum()) for mask in masks.shared if mask is not None) if keys is None else keys
    return most


def _row_bytes(plan: ScanPlan) -> int:
    return sum(_value_bytes(polars_dtype(field.type)) for field in plan.fields)


def _value_bytes(dtype: pl.DataType) -> int:
    if dtype.is_nested():
        return NESTED_BYTES
    return TEXT_BYTES if dtype in (pl.String, pl.Binary) else DECIMAL_BYTES if dtype.is_decimal() else NUMBER_BYTES


def _merged(plan: ScanPlan, sections: Sequence[Section], store: FileStore) -> pa.Table:
    """Returns the merged rows that the filter keeps, in the Arrow types that Spark takes."""
    # Imported here: the functions of merge engines bring libraries along that other tables do not need.
    from morrow.readers.merges.sections import merged_frame

    read = [plan.schema.by_name[name] for name in plan.read_columns]

    def rows(section: Section) -> pl.DataFrame:
        with reading_files(plan, [section], read, store):
            frame = filtered(plan, merged_frame(plan, section, plan.read_columns, store)).select(cols(plan.columns))
            return (frame if plan.limit is None else frame.head(plan.limit)).collect()

    with ThreadPoolExecutor(MASK_WORKERS) as pool:
        found = pl.concat(pool.map(rows, sections))
    return as_spark(to_arrow_table(found, plan.fields), travel_schema(without_not_null(plan.fields)))


def _handed(rows: pa.Table, schema: str, scanning: Scanning, spark: SparkSession) -> DataFrame | None:
    """Returns rows as a DataFrame, in about as many partitions as tasks run at once; None where Spark wants others."""
    each = max(-(-len(rows) // cores(spark)), LEAST_ROWS)
    number, path = tempfile.mkstemp(prefix="morrow-rows-")
    try:
        with os.fdopen(number, "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows.combine_chunks(), each)
        with BATCHES_APART:
            return scanning.given(spark, path, schema)
    finally:
        Path(path).unlink()
