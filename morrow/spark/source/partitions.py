"""The partitions of a read, made by the planner and read on the executors, and the tasks that read changes."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format.schema import ROWKIND
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.incremental import ROWKIND_FIELD, Changes, Difference, FileChanges, FullRows
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.structs import replace
from morrow.readers.execution import changelog as reader
from morrow.readers.execution.section_pieces import OPENING_BYTES, compute_weight, pack_units, split_section
from morrow.spark.job.sections import ScanJob, compute_task_bytes, pack_sections
from morrow.spark.job.tasks import Run, Tasks, Work
from morrow.spark.job.wire import StoreAccess, extract_units
from morrow.spark.sessions import UNKNOWN_CORES
from morrow.spark.source.messages import Piece
from morrow.spark.types import drop_not_null, to_spark_rows, to_travel_schema

MIN_TASK_BYTES = 8 * OPENING_BYTES
"""The minimum bytes for a separate task."""


def divide_plan(plan: ScanPlan, store: FileStore) -> list[Piece]:
    """Divide a plan into partitions."""
    made = []
    for part in plan.parts:
        job = ScanJob.of(part, store)
        tasks = Tasks.of(Work.SCAN, job)
        made += [Piece(tasks, job.units(sections)) for sections in _group_sections(part.sections)]
    return made


def make_change_pieces(
    parts: Sequence[Changes], fields: tuple[DataField, ...], store: FileStore, *, with_kinds: bool
) -> list[Piece]:
    """Divide ordered changes into partitions that read these columns.

    Changes of a key keep their order: one task reads all changes of a bucket, snapshot after snapshot.
    """
    tasks = Tasks.of(Work.CHANGES, ChangesJob(fields, StoreAccess.of(store), with_kinds))
    return [Piece(tasks, [encode_changes(group)]) for group in divide_changes(parts)]


def divide_changes(parts: Sequence[Changes]) -> Iterator[Sequence[Changes]]:
    """Yield the changes for each task."""
    if any(isinstance(part, Difference) for part in parts):
        # A difference is computed as a whole, in order with the preceding and following changes.
        yield parts
        return
    for plan in (plan for part in parts if isinstance(part, FullRows) for plan in part.plan.parts):
        yield from ([FullRows(_narrow_plan(plan, sections))] for sections in _group_sections(plan.sections))
    yield from _group_by_bucket([part for part in parts if isinstance(part, FileChanges)])


def _group_sections(sections: Sequence[Section]) -> Iterator[list[Section]]:
    return pack_sections(sections, _limit(sections))


def _group_by_bucket(parts: Sequence[FileChanges]) -> Iterator[list[FileChanges]]:
    """Yield the changed files for each task; in tables with a key, one task gets all files of a bucket."""
    limit = _limit([section for part in parts for section in part.plan.sections])
    units: dict[Hashable, list[FileChanges]] = {}
    for part in parts:
        keyed = bool(part.plan.schema.primary_keys)
        for section in part.plan.sections:
            for piece in [section] if keyed else split_section(section, limit):
                key = (section.partition_row, section.bucket) if keyed else id(piece)
                units.setdefault(key, []).append(FileChanges(_narrow_plan(part.plan, [piece])))
    for group in pack_units(units.values(), _compute_weight, limit):
        yield [part for unit in group for part in unit]


def _narrow_plan(plan: ScanPlan, sections: Sequence[Section]) -> ScanPlan:
    return replace(plan, sections=tuple(sections), steps=(), fallback=None)


def _compute_weight(parts: Sequence[FileChanges]) -> int:
    return sum(compute_weight(section) for part in parts for section in part.plan.sections)


def _limit(sections: Sequence[Section]) -> int:
    # The planner's process does not know how many tasks run at once.
    return compute_task_bytes(sections, UNKNOWN_CORES, MIN_TASK_BYTES)


RETRACTIONS = pa.array(["-U", "-D"])


@dataclass(frozen=True)
class ChangesJob:
    """The data shared by all tasks that read changes: the columns and the store.

    `with_kinds`: rows have their kinds as first column; otherwise retractions are left out.
    """

    fields: tuple[DataField, ...]
    store: StoreAccess
    with_kinds: bool


def encode_changes(parts: Sequence[Changes]) -> bytes:
    """Encode changes that one task reads in this order as a unit of work."""
    return pickle.dumps(tuple(parts))


def produce_changes(job: ChangesJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of changes, in order."""
    schema = to_travel_schema(drop_not_null((ROWKIND_FIELD, *job.fields) if job.with_kinds else job.fields))
    parts: list[Changes] = [part for data in extract_units(units) for part in pickle.loads(data)]
    for batch in reader.to_batches(parts, job.fields, job.store.store()):
        yield to_spark_rows(batch if job.with_kinds else _drop_retractions(batch), schema)


def _drop_retractions(batch: pa.RecordBatch) -> pa.RecordBatch:
    kept = batch.filter(pc.invert(pc.is_in(batch[ROWKIND], value_set=RETRACTIONS)))
    return kept.drop_columns([ROWKIND])


WORKS: Mapping[Work, Run] = {Work.CHANGES: produce_changes}
