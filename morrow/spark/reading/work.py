"""The output of a task for sections: rows, merged rows, or masks, in the Arrow types that Spark takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from morrow.engine.names import cols
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers import execute
from morrow.readers.dtypes import to_arrow_table
from morrow.readers.file_errors import reading_files
from morrow.readers.merges.version_masks import scan_masks
from morrow.readers.section_frames import filtered
from morrow.readers.streaming import batches
from morrow.spark.job.kinds import Work
from morrow.spark.job.sections import Job
from morrow.spark.reading.mask_bits import MASK_SCHEMA, packed
from morrow.spark.types.to_spark import as_spark, travel_schema, without_not_null

Run = Callable[[Job, Sequence[bytes]], Iterator[pa.RecordBatch]]


def _rows(job: Job, sections: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    plan = job.plan_of(sections)
    schema = _schema(plan)
    for batch in execute.to_batches(plan, job.store()):
        yield as_spark(batch, schema)


def _merged(job: Job, sections: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    # Imported here: the functions of merge engines bring libraries along that other tables do not need.
    from morrow.readers.merges.sections import merged_frame

    plan, store = job.plan_of(sections), job.store()
    schema = _schema(plan)
    for section in plan.sections:
        with reading_files(plan, [section], [plan.schema.by_name[name] for name in plan.read_columns], store):
            frame = filtered(plan, merged_frame(plan, section, plan.read_columns, store)).select(cols(plan.columns))
            frame = frame if plan.limit is None else frame.head(plan.limit)
            for chunk in batches(frame, execute.BATCH_ROWS):
                for batch in to_arrow_table(chunk, plan.fields).to_batches():
                    yield as_spark(batch, schema)


def _masks(job: Job, sections: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    plan, store = job.plan_of(sections), job.store()
    for section in plan.sections:
        masks = scan_masks(plan, section, store)
        for file, mask in zip(section.files, masks, strict=True):
            yield pa.RecordBatch.from_pydict({"file": [file.path], "mask": [packed(mask)]}, MASK_SCHEMA)


def _schema(plan: ScanPlan) -> pa.Schema:
    return travel_schema(without_not_null(plan.fields))


WORKS: Mapping[Work, Run] = {Work.ROWS: _rows, Work.MERGED: _merged, Work.MASKS: _masks}
