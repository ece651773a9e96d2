"""The work of the tasks of a compaction: units in, files written, messages out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from morrow.spark.job.registry import Run, Work
from morrow.spark.job.results import attempt_name, result
from morrow.spark.job.wire import decoded, units_in
from morrow.spark.maintenance.compaction_units import Compaction, CompactionJob, Step, Unit
from morrow.writers.append.small_files import compact_append_buckets, compact_pack, compactable, vectors_of
from morrow.writers.append.sort_compaction import Sorter, sort_partition
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.keyed.postpone import compact_postponed
from morrow.writers.keyed.writer import compact_bucket
from morrow.writers.target import WriteTarget

Compact = Callable[[WriteTarget, Unit, Compaction], Iterator[CommitMessage]]


def compact(job: CompactionJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compacts the units of a task and yields the result as one row of `RESULT`. Errors of the table are results."""
    attempt = attempt_name()
    units = [decoded(unit, Unit) for unit in units_in(batches)]
    yield result(attempt, partial(_compacted, job, job.attempt(attempt), units))


def _compacted(job: CompactionJob, target: WriteTarget, units: Sequence[Unit]) -> Iterator[CommitMessage]:
    for unit in units:
        yield from (message for message in _STEPS[unit.step](target, unit, job.how) if not message.is_empty)


def _bucket(target: WriteTarget, unit: Unit, how: Compaction) -> Iterator[CommitMessage]:
    for place, state in unit.states.items():
        yield compact_bucket(target, place, state, full=how.full)


def _postponed(target: WriteTarget, unit: Unit, how: Compaction) -> Iterator[CommitMessage]:
    yield from compact_postponed(target, unit.states, full=how.full)


def _append_bucket(target: WriteTarget, unit: Unit, how: Compaction) -> Iterator[CommitMessage]:
    yield from compact_append_buckets(compactable(target), unit.states.items(), how.full)


def _pack(target: WriteTarget, unit: Unit, _: Compaction) -> Iterator[CommitMessage]:
    target = compactable(target)
    for place, state in unit.states.items():
        yield compact_pack(target, place, state.files, vectors_of(target, place, state.index_files))


def _sorted(target: WriteTarget, unit: Unit, how: Compaction) -> Iterator[CommitMessage]:
    sorter = Sorter.of(target, how.order_by, how.strategy)
    for place, state in unit.states.items():
        yield sort_partition(target, place, state, sorter)


_STEPS: Mapping[Step, Compact] = {
    Step.BUCKET: _bucket,
    Step.POSTPONED: _postponed,
    Step.APPEND_BUCKET: _append_bucket,
    Step.PACK: _pack,
    Step.SORTED: _sorted,
}

WORKS: Mapping[Work, Run] = {Work.COMPACT: compact}
