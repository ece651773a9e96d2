"""Compaction as a Spark job: the driver plans units of work, tasks rewrite files, the driver commits once.

Each unit is one step of the local compaction and runs the same code, so the results are the same. Small compactions are
done by the driver itself, which costs less than a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.spark.job.packing import TASKS_PER_CORE, dealt
from morrow.spark.job.registry import Work
from morrow.spark.job.results import RESULT, collected
from morrow.spark.job.run import run_tasks
from morrow.spark.job.table import TableAccess
from morrow.spark.job.wire import encoded
from morrow.spark.maintenance.compaction_units import (
    Compaction,
    CompactionJob,
    Held,
    Step,
    Unit,
)
from morrow.spark.maintenance.sorting import Divided, divided, sorted_in_ranges
from morrow.spark.sessions import cores
from morrow.writers.append.small_files import compactable, packs, vectors_of
from morrow.writers.append.sort_compaction import ORDER, Sorter
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.restored import of_buckets, restored_partitions
from morrow.writers.commit import TableCommit
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.commit.expired_base import compacting
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.choosing import Chosen, check_buckets, partitions_of
from morrow.writers.operations.committing import commit_once
from morrow.writers.operations.compact import compact_partitions, made_anew
from morrow.writers.operations.overriding import with_options
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_BYTES = 128 << 20
"""The total size of files from which a job pays off: below, most time goes into starting it and its Python workers."""

MOST_TASK_BYTES = 4 << 30
"""The most bytes of a task: a failed attempt wastes no more work than this."""


def compact(
    spark: SparkSession,
    target: WriteTarget,
    chosen: Chosen,
    how: Compaction,
    distributed: bool | None = None,
) -> Snapshot | None:
    """Compacts a table in one commit.

    Args:
        distributed: whether executors do the work; None: if there are `LEAST_BYTES` and more than one unit.

    Returns: the snapshot, None when there was nothing worth compacting.

    Raises:
        InvalidArgument, ColumnNotFound, Unsupported: as `Table.compact`; before any job where possible.
        CommitConflict: other writers compacted the same files on every attempt; nothing was changed.
        Spark's own errors, when a task failed too often; nothing was changed.
    """
    target = with_options(target, how.options)
    sorter = Sorter.of(target, how.order_by, how.strategy) if how.order_by else None
    check_buckets(target, chosen.buckets)
    return made_anew(target, partial(_newest, spark, target, chosen, how, sorter, distributed))


def _newest(
    spark: SparkSession,
    target: WriteTarget,
    chosen: Chosen,
    how: Compaction,
    sorter: Sorter | None,
    distributed: bool | None,
) -> Snapshot | None:
    """Compacts the newest snapshot."""
    snapshot = target.metadata.latest_snapshot()
    partitions = partitions_of(target, snapshot, chosen)
    if snapshot is None or partitions == []:
        return None
    if distributed is not False:
        commits = maintained(target)
        with compacting(target.metadata, snapshot):
            held = _held(target, snapshot, partitions, chosen.buckets)
            if distributed or _bytes(held) >= LEAST_BYTES:
                units, parts = _planned(target, held, how, sorter)
                if distributed or _pays_off(units, parts):
                    messages = _compacted(spark, target, units, parts, how, commits)
                    return commit_once(commits, messages, BATCH_COMMIT_IDENTIFIER)
    order_by = list(how.order_by) or None
    return compact_partitions(
        target,
        snapshot,
        partitions,
        full=how.full,
        order_by=order_by,
        strategy=how.strategy or ORDER,
        buckets=chosen.buckets,
    )


def _bytes(held: Iterable[Held]) -> int:
    return sum(file.file_size for one in held for file in one.files)


def _pays_off(units: Sequence[Unit], parts: Sequence[Divided]) -> bool:
    size = sum(unit.weight() for unit in units) + _bytes(part.held for part in parts)
    return size >= LEAST_BYTES and (len(units) > 1 or bool(parts))


def _compacted(
    spark: SparkSession,
    target: WriteTarget,
    units: Sequence[Unit],
    parts: Sequence[Divided],
    how: Compaction,
    commits: TableCommit,
) -> list[CommitMessage]:
    """Returns the messages of the tasks; after an error none of their files stays."""
    messages = _in_units(spark, target, units, how) if units else []
    try:
        return messages + (sorted_in_ranges(spark, target, parts, how) if parts else [])
    except BaseException:
        commits.abort(messages)
        raise


def _in_units(spark: SparkSession, target: WriteTarget, units: Sequence[Unit], how: Compaction) -> list[CommitMessage]:
    attempt_log = AttemptLog(target.store, target.metadata.root)
    size = sum(unit.weight() for unit in units)
    groups = dealt(units, Unit.weight, max(TASKS_PER_CORE * cores(spark), -(-size // MOST_TASK_BYTES)))
    work = [[encoded(unit) for unit in group] for group in groups]
    job = CompactionJob(TableAccess.of(target, attempt_log.folder), how)
    return collected(attempt_log, lambda: run_tasks(spark, Work.COMPACT, job, work, RESULT))


# --- which files ---


def _held(
    target: WriteTarget, snapshot: Snapshot, partitions: Sequence[bytes] | None, buckets: Sequence[range] | None
) -> list[Held]:
    states = of_buckets(restored_partitions(target, snapshot, partitions), buckets)
    return [Held.of(place, state) for place, state in states.items() if state.files]


def _planned(
    target: WriteTarget, held: Sequence[Held], how: Compaction, sorter: Sorter | None
) -> tuple[list[Unit], list[Divided]]:
    """Returns the units of a compaction, and the partitions whose sorting is divided among tasks."""
    if sorter is not None:
        parts = {number: divided(target, one, sorter) for number, one in enumerate(held)}
        whole = [Unit(Step.SORTED, (held[number],)) for number, part in parts.items() if part is None]
        return whole, [part for part in parts.values() if part is not None]
    if target.options.bucket == POSTPONE_BUCKET:
        return list(_postponed(held)), []
    if target.keyed:
        return [Unit(Step.BUCKET, (one,)) for one in held], []
    target = compactable(target)
    if target.options.bucket != UNAWARE:
        return [Unit(Step.APPEND_BUCKET, (one,)) for one in held], []
    return [unit for one in held for unit in _packs(target, one, how.full)], []


def _postponed(held: Iterable[Held]) -> Iterator[Unit]:
    """Yields one unit for all buckets of a partition with postponed rows, which may go to any; else one per bucket."""
    partitions: dict[bytes, list[Held]] = {}
    for one in held:
        partitions.setdefault(one.partition, []).append(one)
    for buckets in partitions.values():
        if any(one.bucket == POSTPONE_BUCKET for one in buckets):
            yield Unit(Step.POSTPONED, tuple(buckets))
        else:
            yield from (Unit(Step.POSTPONED, (one,)) for one in buckets)


def _packs(target: WriteTarget, held: Held, full: bool) -> Iterator[Unit]:
    for files in packs(target, held.state, vectors_of(target, held.place, held.index_files), full):
        yield Unit(Step.PACK, (held.only(files),))
