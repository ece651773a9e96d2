"""A plan as a Spark DataFrame: each section is read by Spark's own scan, or by a task of Morrow's on an executor.

Spark's scan is taken where it gives the same rows (`native.is_native`); what has to be merged, cast or decoded otherwise
goes to tasks. The driver makes the plan and, for sections of Spark's, the masks; it holds no rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from morrow.engine.format.types import arrow_schema
from morrow.engine.io.store import FileStore
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.readers.merges.version_masks import is_folded, scan_masks
from morrow.readers.spark.native import MaskedFile, is_native, native_frame
from morrow.readers.spark.types import spark_arrow, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def to_dataframe(plan: ScanPlan, store: FileStore, spark: SparkSession) -> DataFrame:
    frames = [frame for part in plan.parts for frame in _part(part, store, spark)]
    schema = spark_arrow(arrow_schema(plan.fields))
    if not frames:
        return spark.createDataFrame(schema.empty_table(), schema=spark_ddl(schema))
    frame = reduce(lambda left, right: left.unionAll(right), frames)
    return frame if plan.limit is None else frame.limit(plan.limit)


def _part(plan: ScanPlan, store: FileStore, spark: SparkSession) -> Iterator[DataFrame]:
    filtered = plan.filter.predicate != ALWAYS or bool(plan.filter.residuals)
    native = [s for s in plan.sections if store.is_local and not filtered and is_native(plan, s, plan.fields)]
    if native:
        files = [
            MaskedFile(s, f, m) for s in native for f, m in zip(s.files, scan_masks(plan, s, store))
            if m is None or m.any()
        ]
        if files:
            yield native_frame(plan, files, plan.fields, spark)
    others = [section for section in plan.sections if section not in native]
    tasks = [(section, False) for section in others] + [(s, True) for s in native if is_folded(plan, s)]
    if tasks:
        yield task_frame(plan, tasks, store, spark)


def task_frame(
    plan: ScanPlan, tasks: Sequence[tuple[Section, bool]], store: FileStore, spark: SparkSession
) -> DataFrame:
    schema = spark_arrow(arrow_schema(plan.fields))
    common = replace(plan, sections=(), steps=(), fallback=None)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from morrow.readers.spark.tasks import rows_of

        for batch in batches:
            for task in batch.column(0).to_pylist():
                section, merged_only = pickle.loads(task)
                yield from rows_of(replace(common, sections=(section,)), store, schema, merged_only=merged_only)

    relation = pa.table({"task": pa.array([pickle.dumps(task) for task in tasks], pa.binary())})
    frame = spark.createDataFrame(relation).repartition(len(tasks))
    return frame.mapInArrow(run, spark_ddl(schema))
