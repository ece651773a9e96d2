"""The work of the tasks that read changes: plans of changes in, rows out, in the Arrow types that Spark takes."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format.schema import ROWKIND
from morrow.engine.format.types import DataField
from morrow.engine.plan.changes import ROWKIND_FIELD, Changes
from morrow.readers.execution import changes as reader
from morrow.spark.job.registry import Run, Work
from morrow.spark.job.wire import StoreAccess, units_in
from morrow.spark.types.to_spark import as_spark, travel_schema, without_not_null

RETRACTIONS = pa.array(["-U", "-D"])


@dataclass(frozen=True)
class ChangesJob:
    """What all tasks share that read changes: the columns, and the store.

    `with_kinds`: rows are led by their kinds; otherwise retractions are left out.
    """

    fields: tuple[DataField, ...]
    store: StoreAccess
    with_kinds: bool


def unit(parts: Sequence[Changes]) -> bytes:
    """Returns changes, which one task reads in this order, as a unit of work."""
    return pickle.dumps(tuple(parts))


def changes(job: ChangesJob, units: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of changes, in order."""
    schema = travel_schema(without_not_null((ROWKIND_FIELD, *job.fields) if job.with_kinds else job.fields))
    parts: list[Changes] = [part for data in units_in(units) for part in pickle.loads(data)]
    for batch in reader.to_batches(parts, job.fields, job.store.store()):
        yield as_spark(batch if job.with_kinds else _without_retractions(batch), schema)


def _without_retractions(batch: pa.RecordBatch) -> pa.RecordBatch:
    kept = batch.filter(pc.invert(pc.is_in(batch[ROWKIND], value_set=RETRACTIONS)))
    return kept.drop_columns([ROWKIND])


WORKS: Mapping[Work, Run] = {Work.CHANGES: changes}
