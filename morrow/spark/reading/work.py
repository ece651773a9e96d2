"""The work of the tasks of a read: sections in; rows, merged rows or masks out, in the Arrow types that Spark takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution import execute
from morrow.readers.execution.section_frames import filtered
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.streaming import batches
from morrow.readers.merges.version_masks import scan_masks
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.sections import ScanJob
from morrow.spark.job.wire import units_in
from morrow.spark.reading.masks import MASK_SCHEMA, packed
from morrow.spark.types.to_spark import as_spark, travel_schema, without_not_null


def scan(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of sections."""
    plan = job.plan_of(units_in(units))
    schema = _schema(plan)
    for batch in execute.to_batches(plan, job.store.store()):
        yield as_spark(batch, schema)


def merge(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of keys whose versions are combined."""
    # Imported here: the functions of merge engines bring libraries along that other tables do not need.
    from morrow.readers.merges.sections import merged_frame

    plan, store = job.plan_of(units_in(units)), job.store.store()
    schema = _schema(plan)
    for section in plan.sections:
        with reading_files(plan, [section], [plan.schema.by_name[name] for name in plan.read_columns], store):
            frame = filtered(plan, merged_frame(plan, section, plan.read_columns, store)).select(cols(plan.columns))
            frame = frame if plan.limit is None else frame.head(plan.limit)
            for chunk in batches(frame, execute.BATCH_ROWS):
                for batch in to_arrow_table(chunk, plan.fields).to_batches():
                    yield as_spark(batch, schema)


def masks(job: ScanJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the live rows of each file."""
    plan, store = job.plan_of(units_in(units)), job.store.store()
    for section in plan.sections:
        for file, mask in zip(section.files, scan_masks(plan, section, store), strict=True):
            yield pa.RecordBatch.from_pydict({"file": [file.path], "mask": [packed(mask)]}, MASK_SCHEMA)


def _schema(plan: ScanPlan) -> pa.Schema:
    return travel_schema(without_not_null(plan.fields))


WORKS: Mapping[Work, Run] = {Work.SCAN: scan, Work.MERGE: merge, Work.MASKS: masks}
