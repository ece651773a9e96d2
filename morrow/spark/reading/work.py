"""The work of the tasks of a read: sections in; rows, merged rows or masks out, in the Arrow types that Spark takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import polars as pl
import pyarrow as pa

from morrow.engine.format.row_kinds import RETRACT_BIT
from morrow.engine.format.schema import VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.io.store import FileStore
from morrow.engine.names import FILE_PATH, POSITION, ROW_BUCKET, ROW_INDEX, cols
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.engine.values import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute
from morrow.readers.execution.section_frames import filtered
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.files.streaming import batches
from morrow.readers.masks import live_masks
from morrow.readers.masks.bits import packed
from morrow.readers.merges.version_masks import scan_masks
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.sections import ScanJob
from morrow.spark.job.wire import units_in
from morrow.spark.reading.masks import MASK_SCHEMA
from morrow.spark.types.to_spark import as_spark, travel_schema, without_not_null

_Placed: TypeAlias = tuple[pa.Table, pa.Scalar, pa.Array]
"""Rows, the path of their file, and their positions in it."""

PLACE_FIELDS = (pa.field(FILE_PATH, pa.string()), pa.field(ROW_INDEX, pa.int64()), pa.field(ROW_BUCKET, pa.int32()))


def scan(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of sections."""
    schema, store = _schema(job.plan), job.store.store()
    for plan in job.plans_of(units_in(units)):
        for batch in execute.to_batches(plan, store):
            yield as_spark(batch, schema)


def merge(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of keys whose versions are combined."""
    # Imported here: the functions of merge engines bring libraries along that other tables do not need.
    from morrow.readers.merges.sections import merged_frame

    schema, store = _schema(job.plan), job.store.store()
    for plan, section in _sections(job, units):
        read = [plan.schema.by_name[name] for name in plan.read_columns]
        with in_flight(plan, store), reading_files(plan, [section], read, store):
            frame = filtered(plan, merged_frame(plan, section, plan.read_columns, store)).select(cols(plan.columns))
            frame = frame if plan.limit is None else frame.head(plan.limit)
            for chunk in batches(frame, execute.BATCH_ROWS):
                for batch in to_arrow_table(chunk, plan.fields).to_batches():
                    yield as_spark(batch, schema)


def masks(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the live rows of each file; of a section that is cut, those of its keys."""
    store = job.store.store()
    for plan, section in _sections(job, units):
        with in_flight(plan, store):
            found = scan_masks(plan, section, store)
        for file, mask in zip(section.files, found, strict=True):
            yield pa.RecordBatch.from_pydict({"file": [file.path], "mask": [packed(mask)]}, MASK_SCHEMA)


def places(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields rows, then the path of the file of each, its position there (both null where files merge), its bucket."""
    store, rows_schema = job.store.store(), _schema(job.plan)
    schema = pa.schema([*rows_schema, *PLACE_FIELDS])
    for plan, section in _sections(job, units):
        raw = section.kind is SectionKind.RAW
        for rows, path, positions in _placed(plan, section, store) if raw else _unplaced(plan, section, store):
            placed = [
                pa.repeat(path, len(rows)),
                positions,
                pa.repeat(pa.scalar(section.bucket, pa.int32()), len(rows)),
            ]
            yield from pa.Table.from_arrays([*as_spark(rows, rows_schema).columns, *placed], schema=schema).to_batches()


def _placed(plan: ScanPlan, section: Section, store: FileStore) -> Iterator[_Placed]:
    """Yields rows of files that are read one by one."""
    read = [plan.schema.by_name[name] for name in plan.read_columns]
    with in_flight(plan, store):
        found = live_masks(plan, section, store)
    for file, mask in zip(section.files, found, strict=True):
        kinds = [VALUE_KIND_FIELD] if plan.drops_retractions and file.may_hold_retractions else []
        with in_flight(plan, store), reading_files(plan, [section], read, store):
            frame = file_frame(plan, section, [file], [*read, *kinds], store, position=True, live=mask)
            frame = filtered(plan, frame)
            frame = frame.filter((pl.col(VALUE_KIND) & RETRACT_BIT) == 0) if kinds else frame
            frame = frame if mask is None else frame.filter(pl.lit(mask).gather(pl.col(POSITION)))
            for chunk in batches(frame.select(*cols(plan.columns), POSITION), execute.BATCH_ROWS):
                rows = to_arrow_table(chunk.drop(POSITION), plan.fields)
                yield rows, pa.scalar(file.path), chunk[POSITION].cast(pl.Int64).to_arrow()


def _unplaced(plan: ScanPlan, section: Section, store: FileStore) -> Iterator[_Placed]:
    """Yields rows of files that are read together."""
    for batch in execute.to_batches(replace(plan, sections=(section,)), store):
        yield pa.Table.from_batches([batch]), pa.scalar(None, pa.string()), pa.nulls(len(batch), pa.int64())


def _sections(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[tuple[ScanPlan, Section]]:
    """Yields each section with its plan."""
    yield from ((plan, section) for plan in job.plans_of(units_in(units)) for section in plan.sections)


def _schema(plan: ScanPlan) -> pa.Schema:
    return travel_schema(without_not_null(plan.fields))


WORKS: Mapping[Work, Run] = {Work.SCAN: scan, Work.MERGE: merge, Work.PLACES: places, Work.MASKS: masks}
