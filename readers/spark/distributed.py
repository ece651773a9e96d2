"""A plan as a Spark DataFrame: each section is read by Spark's own scan, or by tasks of Morrow's on the executors.

The driver makes the plan and, up to a size, the masks; it holds no rows. `choice` tells who reads what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from morrow.engine.io.store import FileStore
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.expressions.spark import literal
from morrow.readers.file_frames import source_of
from morrow.readers.merges.version_masks import is_folded
from morrow.readers.spark.choice import choices
from morrow.readers.spark.masks import section_masks
from morrow.readers.spark.native import MaskedFile, file_scans, quoted, scan_frame
from morrow.readers.spark.run import Item, run_tasks
from morrow.readers.spark.tasks import Work
from morrow.readers.spark.types import spark_schema, without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BRANCHES = 32
"""Partitions, or groups of them, that tasks are told apart by, so that later filters on them leave tasks out."""

LEAST_BRANCHED_ROWS = 1 << 20
"""Stored rows from which that is worth while: each branch costs the planner some milliseconds."""


def to_dataframe(plan: ScanPlan, store: FileStore, spark: SparkSession, *, tasks_only: bool = False) -> DataFrame:
    """The rows of a plan. Every column is nullable, as Spark has those of files.

    Args:
        plan: what is read.
        store: where its files lie.
        spark: a session whose executors reach the files.
        tasks_only: leave everything to tasks, also what Spark could scan by itself.

    Raises:
        Unsupported: a column whose type this version of Spark does not have.
        CorruptFile, FileMissing, StorageError: the files that masks come from cannot be read.
        SnapshotExpired: they are gone because the snapshot has been removed meanwhile.
    """
    with in_flight(plan, store):
        frames = [frame for part in plan.parts for frame in _part(part, store, spark, tasks_only)]
    if not frames:
        return spark.createDataFrame([], spark_schema(without_not_null(plan.fields)))
    frame = reduce(lambda left, right: left.unionAll(right), frames)
    return frame if plan.limit is None else frame.limit(plan.limit)


def _part(plan: ScanPlan, store: FileStore, spark: SparkSession, tasks_only: bool) -> Iterator[DataFrame]:
    native = [] if tasks_only else [choice.section for choice in choices(plan, store) if choice.is_native]
    if native:
        for file in (file for section in native for file in section.files):
            # Spark tells masked files by their sizes, which therefore have to be what metadata says.
            source_of(file, plan, store)
        masks = section_masks(plan, native, store, spark)
        files = [
            MaskedFile(section, file, mask)
            for section, file_masks in zip(native, masks)
            for file, mask in zip(section.files, file_masks, strict=True)
        ]
        yield from (scan_frame(plan, scan, spark) for scan in file_scans(plan, files))
    scanned = set(map(id, native))
    items = [(Work.ROWS, section) for section in plan.sections if id(section) not in scanned]
    items += [(Work.MERGED, section) for section in native if is_folded(plan, section)]
    for constants, branch in _branches(plan, items):
        yield _task_frame(plan, branch, constants, store, spark)


def _branches(plan: ScanPlan, items: Sequence[Item]) -> Iterator[tuple[tuple[object, ...], list[Item]]]:
    """The items by the values of as many partition keys as tell few enough groups apart, from the first key on."""
    rows = sum(section.row_count for _, section in items)
    keys = 0 if rows < LEAST_BRANCHED_ROWS else len(plan.schema.partition_keys)
    while keys and len({section.partition[:keys] for _, section in items}) > MOST_BRANCHES:
        keys -= 1
    branches: dict[tuple[object, ...], list[Item]] = {}
    for item in items:
        branches.setdefault(item[1].partition[:keys], []).append(item)
    yield from branches.items()


def _task_frame(
    plan: ScanPlan, items: Sequence[Item], constants: Sequence[object], store: FileStore, spark: SparkSession
) -> DataFrame:
    from pyspark.sql.functions import col

    frame = run_tasks(plan, items, store, spark_schema(without_not_null(plan.fields)), spark)
    known = dict(zip(plan.schema.partition_keys, constants))
    if not known.keys() & set(plan.columns):
        return frame
    # As constants, which the planner holds against later filters, where it knows nothing of what tasks give.
    return frame.select(
        [
            literal(known[f.name], f.type, f.name).alias(f.name) if f.name in known else col(quoted(f.name))
            for f in plan.fields
        ]
    )
