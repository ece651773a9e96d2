"""A plan as a Spark DataFrame: each section is read by Spark's own scan, or by tasks of Morrow's on the executors.

The driver makes the plan and, up to a size, the masks. `choice` assigns the reader of each section.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from morrow.engine.format.binary_row_encode import encode_row
from morrow.engine.format.types import DataType
from morrow.engine.io.store import FileStore
from morrow.engine.names import VIEW
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.values import replace
from morrow.readers.execution.counting import enough
from morrow.readers.files.file_frames import source_of
from morrow.readers.merges.version_masks import is_folded
from morrow.spark.job.registry import Work
from morrow.spark.jvm.scanning import Scanning, scanning
from morrow.spark.reading.choice import choices
from morrow.spark.reading.file_scans import MaskedFile, file_scans
from morrow.spark.reading.listed import listed_frames
from morrow.spark.reading.masks import section_masks
from morrow.spark.reading.native import scan_frame
from morrow.spark.reading.places import place_of
from morrow.spark.reading.task_rows import task_frame
from morrow.spark.types.to_spark import no_rows, spark_schema, without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BY_CHOICE = "the caller chose it"

MOST_BRANCHES = 32
"""Partitions, or groups of them, that get separate tasks, so that later filters on them skip tasks."""

LEAST_BRANCHED_ROWS = 1 << 20
"""Stored rows from which separate tasks pay off: each branch costs the planner some milliseconds."""


def to_dataframe(
    plan: ScanPlan,
    store: FileStore,
    spark: SparkSession,
    *,
    tasks_only: bool = False,
    joins: bool = False,
    limits: bool = True,
) -> DataFrame:
    """Returns the rows of a plan. Every column is nullable, as Spark has those of files.

    Args:
        plan: the plan to read.
        store: the store of its files.
        spark: a session whose executors reach the files.
        tasks_only: leave all sections to tasks, even those that Spark could scan itself.
        joins: have masks joined, even where they could be a filter.
        limits: keep to the plan's limit; else it only says how many rows are enough, and Spark cuts them off.

    Raises:
        Unsupported: a column whose type this version of Spark does not have.
        CorruptFile, FileMissing, StorageError: the files that masks come from cannot be read.
        SnapshotExpired: the files are gone because the snapshot has been removed meanwhile.
    """
    way = Scanning(obstacle=BY_CHOICE) if joins or tasks_only else scanning(spark)
    with in_flight(plan, store):
        frames = [frame for part in plan.parts for frame in _part(part, store, spark, way, tasks_only)]
    if not frames:
        frames = [no_rows(spark, spark_schema(without_not_null(plan.fields)))]
    frame = reduce(lambda left, right: left.unionAll(right), frames)
    return not_writable(frame if plan.limit is None or not limits else frame.limit(plan.limit), way)


def not_writable(frame: DataFrame, way: Scanning) -> DataFrame:
    """Returns the same rows under the name `VIEW`, to which Spark refuses to write.

    INSERT into a view whose plan is a scan of one folder or file, and nothing else, writes there: an overwrite would
    replace the table's data file. A projection of all columns is refused; the optimiser takes it out of queries.
    """
    return frame.select("*").alias(VIEW) if way.obstacle else way.named(frame, VIEW)


def _part(
    plan: ScanPlan, store: FileStore, spark: SparkSession, way: Scanning, tasks_only: bool
) -> Iterator[DataFrame]:
    plan = plan if plan.limit is None else replace(plan, sections=tuple(enough(plan, plan.sections)))
    listed = way.obstacle is None
    first = next((file for section in plan.sections for file in section.files), None)
    place = place_of(store, first, way, spark)
    chosen = [] if tasks_only else choices(plan, far=place.obstacle, listed=listed)
    native = [each.section for each in chosen if each.is_native]
    if native:
        for file in (file for section in native for file in section.files):
            # The file index has their sizes, or identifies masked files by them; they have to match the metadata.
            source_of(file, plan, store)
        masks = section_masks(plan, native, store, spark)
        files = [
            MaskedFile(section, file, mask)
            for section, file_masks in zip(native, masks)
            for file, mask in zip(section.files, file_masks, strict=True)
        ]
        if listed:
            yield from listed_frames(plan, files, place, way, spark, checks_pages=store.checks_pages)
        else:
            checks = store.checks_pages
            yield from (scan_frame(plan, scan, spark, checks_pages=checks) for scan in file_scans(plan, files))
    scanned = set(map(id, native))
    read = [section for section in plan.sections if id(section) not in scanned]
    merged = [section for section in native if is_folded(plan, section)]
    for work, sections in ((Work.SCAN, read), (Work.MERGE, merged)):
        for constants, branch in _branches(plan, sections):
            yield task_frame(work, plan, branch, constants, store, way, spark)


def _branches(plan: ScanPlan, sections: Sequence[Section]) -> Iterator[tuple[tuple[object, ...], list[Section]]]:
    """Groups the sections by as many leading partition keys as give few enough groups."""
    rows = sum(section.row_count for section in sections)
    keys = 0 if rows < LEAST_BRANCHED_ROWS else len(plan.schema.partition_keys)
    types = [plan.schema.by_name[name].type for name in plan.schema.partition_keys]
    while (branches := _by_keys(sections, types[:keys], whole=keys == len(types))) is None:
        keys -= 1
    yield from ((branch[0].partition[:keys], branch) for branch in branches)


def _by_keys(
    sections: Sequence[Section], types: Sequence[DataType], *, whole: bool
) -> Collection[list[Section]] | None:
    """Groups the sections by the first partition keys, or by the `whole` of them; None where that gives too many."""
    if not types:
        return [list(sections)] if sections else []
    branches: dict[bytes, list[Section]] = {}
    for section in sections:
        row = section.partition_row if whole else encode_row(section.partition[: len(types)], types)
        branches.setdefault(row, []).append(section)
        if len(branches) > MOST_BRANCHES:
            return None
    return branches.values()
