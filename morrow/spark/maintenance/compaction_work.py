"""The work of a task of a compaction: units in, files written, messages out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from morrow.engine.errors import MorrowError, StorageError
from morrow.spark.job.results import failed, finished
from morrow.spark.maintenance.compaction_units import Compaction, CompactionJob, Unit, Work, decoded
from morrow.spark.writing.work import attempt_name
from morrow.writers.append.small_files import compact_append_buckets, compact_pack, compactable, vectors_of
from morrow.writers.append.sort_compaction import Sorter, sort_partition
from morrow.writers.commit.attempt_log import recorded
from morrow.writers.merge_tree.postpone import compact_postponed
from morrow.writers.merge_tree.writer import compact_bucket
from morrow.writers.messages import CommitMessage
from morrow.writers.target import WriteTarget

Run = Callable[[WriteTarget, Unit, Compaction], Iterator[CommitMessage]]


def compacted(job: CompactionJob, units: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Compacts these units and yields the result as one row of `RESULT`.

    Errors of the table are results, too: another attempt would fail in the same way. After errors of the store it may
    succeed.
    """
    attempt = attempt_name()
    target = job.target(recorded(job.table.store(), job.table.attempt_log, attempt))
    messages: list[CommitMessage] = []
    try:
        for unit in map(decoded, units):
            messages += (message for message in _WORKS[unit.work](target, unit, job.how) if not message.is_empty)
    except StorageError:
        raise
    except MorrowError as error:
        yield failed(attempt, error)
        return
    yield finished(attempt, messages)


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


_WORKS: Mapping[Work, Run] = {
    Work.BUCKET: _bucket,
    Work.POSTPONED: _postponed,
    Work.APPEND_BUCKET: _append_bucket,
    Work.PACK: _pack,
    Work.SORTED: _sorted,
}
