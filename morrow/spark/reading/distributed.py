"""A plan as a Spark DataFrame, whose sections are read by Spark's own scan or Morrow's tasks; and hidden columns.

The driver makes the plan and the masks of small sections. `choice` selects the reader of each section.
Hidden columns are the partition and the bucket of a row, its file, its position there, and its row id. They have
the names of Java Paimon's metadata columns in Spark. Partitions are structs of columns that are read anyway, tasks
add buckets, files and positions, and row ids are columns of the read itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row_encoder import encode_row
from morrow.engine.format.schema import ROW_ID, TRACKED, TableSchema
from morrow.engine.format.types import BigIntType, DataField, DataType, IntType, RowType, VarCharType
from morrow.engine.io.store import FileStore
from morrow.engine.names import FILE_PATH, ROW_BUCKET, ROW_INDEX, ROW_PARTITION, VIEW
from morrow.engine.options import TableOptions
from morrow.engine.plan.manifests import guard_read
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind, list_tracked_fields
from morrow.engine.structs import replace
from morrow.readers.execution.strategy import limit_sections
from morrow.readers.files.file_frames import make_source
from morrow.scans.table_scan import Scan, plan_with_outlines
from morrow.spark.job.sections import run_sections
from morrow.spark.job.tasks import Work
from morrow.spark.jvm.file_scans import Scanning, get_scanning
from morrow.spark.reading.choice import choose_readers
from morrow.spark.reading.file_scans import MaskedFile, group_scans, place_of
from morrow.spark.reading.manifests import ManifestTasks
from morrow.spark.reading.native import scan_frame, scan_listed
from morrow.spark.reading.task_rows import make_task_frame
from morrow.spark.reading.tasks import make_masks
from morrow.spark.types import drop_not_null, make_empty_frame, to_spark_schema
from morrow.writers.buckets.modes import DYNAMIC_BUCKET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BY_CHOICE = "the caller chose it"

MAX_BRANCHES = 32
"""The maximum partitions, or groups of them, with separate tasks, so that later filters on partitions skip tasks."""

MIN_BRANCHED_ROWS = 1 << 20
"""The minimum stored rows for separate tasks: each branch costs the planner some milliseconds."""


def to_dataframe(
    plan: ScanPlan,
    store: FileStore,
    spark: SparkSession,
    *,
    tasks_only: bool = False,
    joins: bool = False,
    limits: bool = True,
) -> DataFrame:
    """Return the rows of a plan. All columns are nullable, as in Spark's own scans.

    Args:
        plan: the plan to read.
        store: the store of its files.
        spark: a session whose executors reach the files.
        tasks_only: leave all sections to tasks, even those that Spark could scan itself.
        joins: join masks, even if they could be a filter.
        limits: apply the plan's limit exactly; otherwise it is a hint, and Spark has to apply it.

    Raises:
        Unsupported: a column whose type this version of Spark does not have.
        CorruptFile, FileMissing, StorageError: files needed for masks cannot be read.
        SnapshotExpired: the files are gone because the snapshot has since expired.
    """
    way = Scanning(obstacle=BY_CHOICE) if joins or tasks_only else get_scanning(spark)
    with guard_read(plan, store):
        frames = [frame for part in plan.parts for frame in _read_part(part, store, spark, way, tasks_only)]
    if not frames:
        frames = [make_empty_frame(spark, to_spark_schema(drop_not_null(plan.fields)))]
    frame = reduce(lambda left, right: left.unionAll(right), frames)
    return make_read_only(frame if plan.limit is None or not limits else frame.limit(plan.limit), way)


def make_read_only(frame: DataFrame, way: Scanning) -> DataFrame:
    """Return the same rows under the alias `VIEW`, to which Spark refuses to write.

    INSERT into a view whose plan is just a scan of a folder or file writes to that folder or file: an overwrite would
    replace the table's data file. Spark refuses to write to a projection, and its optimiser removes it from queries.
    """
    return frame.select("*").alias(VIEW) if way.obstacle else way.named(frame, VIEW)


def _read_part(
    plan: ScanPlan, store: FileStore, spark: SparkSession, way: Scanning, tasks_only: bool
) -> Iterator[DataFrame]:
    plan = plan if plan.limit is None else replace(plan, sections=tuple(limit_sections(plan, plan.sections)))
    listed = way.obstacle is None
    first = next((file for section in plan.sections for file in section.files), None)
    place = place_of(store, first, way, spark)
    chosen = [] if tasks_only else choose_readers(plan, far=place.obstacle, listed=listed)
    native = [each.section for each in chosen if each.is_native]
    if native:
        for file in (file for section in native for file in section.files):
            # File sizes are in the file index, or identify masked files, so they have to match the metadata.
            make_source(file, plan, store)
        masks = make_masks(plan, native, store, spark)
        files = [
            MaskedFile(section, file, mask)
            for section, file_masks in zip(native, masks)
            for file, mask in zip(section.files, file_masks, strict=True)
        ]
        if listed:
            yield from scan_listed(plan, files, place, way, spark, checks_pages=store.checks_pages)
        else:
            checks = store.checks_pages
            yield from (scan_frame(plan, scan, spark, checks_pages=checks) for scan in group_scans(plan, files))
    scanned = set(map(id, native))
    read = [section for section in plan.sections if id(section) not in scanned]
    merged = [section for section in native if plan.folds(section)]
    for work, sections in ((Work.SCAN, read), (Work.MERGE, merged)):
        for constants, branch in _group_branches(plan, sections):
            yield make_task_frame(work, plan, branch, constants, store, way, spark)


def _group_branches(plan: ScanPlan, sections: Sequence[Section]) -> Iterator[tuple[tuple[object, ...], list[Section]]]:
    """Group the sections by the longest prefix of partition keys that gives few enough groups."""
    rows = sum(section.row_count for section in sections)
    keys = 0 if rows < MIN_BRANCHED_ROWS else len(plan.schema.partition_keys)
    types = [plan.schema.by_name[name].type for name in plan.schema.partition_keys]
    while (branches := _group_by_keys(sections, types[:keys], whole=keys == len(types))) is None:
        keys -= 1
    yield from ((branch[0].partition[:keys], branch) for branch in branches)


def _group_by_keys(
    sections: Sequence[Section], types: Sequence[DataType], *, whole: bool
) -> Collection[list[Section]] | None:
    """Group the sections by the first partition keys, all of them if `whole`; None if there are too many groups."""
    if not types:
        return [list(sections)] if sections else []
    branches: dict[bytes, list[Section]] = {}
    for section in sections:
        row = section.partition_row if whole else encode_row(section.partition[: len(types)], types)
        branches.setdefault(row, []).append(section)
        if len(branches) > MAX_BRANCHES:
            return None
    return branches.values()


NAMES = frozenset((FILE_PATH, ROW_INDEX, ROW_PARTITION, ROW_BUCKET, *(field.name for field in TRACKED)))

PLACES = (FILE_PATH, ROW_INDEX)
"""Columns that identify a row, in tables where each row comes from a single file."""


def list_places(options: TableOptions) -> tuple[str, ...]:
    """Return the hidden columns that identify rows of a table without a primary key in changes by Spark."""
    return (ROW_ID,) if options.data_evolution else PLACES


def list_carried(options: TableOptions) -> tuple[str, ...]:
    """Return the hidden columns that new versions of rows keep, besides `list_places`."""
    return (ROW_ID,) if options.row_tracking and not options.data_evolution else ()


def list_row_id(schema: TableSchema, options: TableOptions) -> tuple[str, ...]:
    """Return the columns that identify rows of a keyed table in changes by Spark: the key, and the partition if rows
    of several partitions may have the same key. Spark requires columns that are not null, as the partition struct is.
    """
    is_apart = schema.cross_partition and options.bucket != DYNAMIC_BUCKET
    return (*schema.primary_keys, *((ROW_PARTITION,) if is_apart else ()))


def list_hidden_fields(schema: TableSchema, options: TableOptions) -> tuple[DataField, ...]:
    """Return the hidden columns of a table. A column of the table hides a hidden column of the same name, in any case.
    With data evolution, the columns of a row may come from several files.

    All are nullable except the columns that identify rows in changes: row ids are null in files without row tracking.
    """
    ids = list_row_id(schema, options) if schema.primary_keys else list_places(options)
    keys = tuple(schema.by_name[name] for name in schema.partition_keys)
    places = (DataField(-1, FILE_PATH, VarCharType()), DataField(-1, ROW_INDEX, BigIntType()))
    found = [
        *(() if options.data_evolution else places),
        DataField(-1, ROW_PARTITION, RowType(fields=keys)),
        DataField(-1, ROW_BUCKET, IntType()),
        *list_tracked_fields(schema, options),
    ]
    taken = {name.casefold() for name in schema.by_name}
    typed = (replace(f, type=f.type.with_nullable(f.name not in ids)) for f in drop_not_null(found))
    return tuple(field for field in typed if field.name.casefold() not in taken)


def read_hidden(scan: Scan, columns: Sequence[str], spark: SparkSession) -> DataFrame:
    """Return columns of a scan's rows, including hidden columns, in this order.

    Raises `Unsupported`: places of rows that are merged from several files. Others: as `distributed.to_dataframe`.
    """
    request = scan.request
    hidden = {f.name: f for f in list_hidden_fields(request.schema, request.options) if f.name in columns}
    tracked = tuple(field for field in TRACKED if field.name in hidden)
    keys = request.schema.partition_keys if ROW_PARTITION in hidden else ()
    stored = dict.fromkeys([*(name for name in columns if name not in hidden), *keys, *(f.name for f in tracked)])
    some = tuple(stored) or tuple(request.schema.by_name)[:1]  # a DataFrame without columns still has rows
    wide = scan.adapted(lambda each: replace(each, columns=some, extra=tuple(dict.fromkeys((*each.extra, *tracked)))))
    wide = plan_with_outlines(wide, ManifestTasks(spark))
    if hidden.keys() <= {ROW_PARTITION, *(field.name for field in tracked)}:
        rows, names = to_dataframe(wide.plan, wide.store, spark), some
    else:
        rows = _read_with_places(wide.plan, wide.store, spark, placed=not hidden.keys().isdisjoint(PLACES))
        names = (*some, FILE_PATH, ROW_INDEX, ROW_BUCKET)
    chosen = _select_columns(rows, names, columns, keys if ROW_PARTITION in hidden else None)
    return make_read_only(chosen, get_scanning(spark))


def _select_columns(
    rows: DataFrame, names: Sequence[str], columns: Sequence[str], keys: Sequence[str] | None
) -> DataFrame:
    """Select columns of rows with these names, and add the partition made of its keys, if there are any."""
    from pyspark.sql.functions import col, struct

    # By number: Spark considers names equal if they differ only in case.
    numbers = {name: str(number) for number, name in enumerate(names)}
    found = {name: col(number).alias(name) for name, number in numbers.items()}
    if keys is not None:
        found[ROW_PARTITION] = struct([col(numbers[key]).alias(key) for key in keys]).alias(ROW_PARTITION)
    return rows.toDF(*numbers.values()).select([found[name] for name in columns])


def _read_with_places(plan: ScanPlan, store: FileStore, spark: SparkSession, *, placed: bool) -> DataFrame:
    """Return rows with `FILE_PATH`, `ROW_INDEX` and `ROW_BUCKET`; `placed` requires that the first two are known."""
    from pyspark.sql.types import IntegerType, LongType, StringType

    columns = to_spark_schema(drop_not_null(plan.fields)).add(FILE_PATH, StringType()).add(ROW_INDEX, LongType())
    columns = columns.add(ROW_BUCKET, IntegerType())
    with guard_read(plan, store):
        parts = [part for part in plan.parts if part.sections]
        if placed and any(each.kind is not SectionKind.RAW for part in parts for each in part.sections):
            raise Unsupported(
                f"{FILE_PATH} and {ROW_INDEX} of rows that are made of several files",
                where=plan.table,
                hint="compact the table fully",
            )
        frames = [run_sections(Work.PLACES, part, part.sections, store, columns, spark) for part in parts]
    frame = reduce(lambda left, right: left.unionAll(right), frames or [spark.createDataFrame([], columns)])
    return frame if plan.limit is None else frame.limit(plan.limit)
