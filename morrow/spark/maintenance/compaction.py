"""Compaction as a Spark job: the driver plans units of work, tasks rewrite files, the driver commits once.

Each unit is one step of the local compaction and runs the same code, so the results are the same. The driver does
small compactions itself, which costs less than a job.
Several tasks sort a partition that is too large for one. This is `append.sort_compaction` with Spark's shuffle
instead of temporary files: some tasks split the rows of files by range, others sort groups of adjacent ranges and
write files of the target size. The driver samples the rows to find the bounds of ranges. Rows are shuffled as Arrow
IPC, which avoids conversions to Spark's types.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from morrow.engine.format.manifest_entries import DataFileMeta
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.snapshot import Snapshot
from morrow.spark.job.execution import map_rows, run_tasks, shuffle_by_task
from morrow.spark.job.sections import TASKS_PER_CORE, spread_units
from morrow.spark.job.tasks import Work
from morrow.spark.job.wire import RESULT, TableAccess, collect_results, encode_value
from morrow.spark.maintenance.compaction_tasks import (
    GROUP,
    PIECE,
    PIECES,
    RANGE,
    Compaction,
    CompactionJob,
    Held,
    SortedFile,
    SortedPart,
    SortJob,
    Step,
    Unit,
)
from morrow.spark.sessions import count_cores
from morrow.writers.append.compaction import enable_compaction, load_vectors, pick_packs
from morrow.writers.append.sort_compaction import (
    ORDER,
    RANGES_PER_WRITE_BUFFER,
    Sorter,
    build_sorted_message,
    choose_range_bounds,
    open_partition_rows,
)
from morrow.writers.append.writer import UNAWARE
from morrow.writers.buckets.routers import filter_bucket_numbers, restore_partitions
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER, CommitMessage
from morrow.writers.commit.premise import guard_compaction
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files.data_files import Placement
from morrow.writers.history.commit_maintenance import commit_compaction
from morrow.writers.operations.compaction import (
    ChosenBuckets,
    check_buckets,
    compact_partitions,
    find_partitions,
    retry_compaction,
)
from morrow.writers.operations.write_session import commit_once
from morrow.writers.target import WriteTarget, override_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIN_DISTRIBUTED_BYTES = 128 << 20
"""The minimum total size of files for a job. Below, starting the job and its Python workers takes most of the time."""

MAX_TASK_BYTES = 4 << 30
"""The maximum bytes of one task, which limits the work that a failed attempt wastes."""


def compact(
    spark: SparkSession,
    target: WriteTarget,
    chosen: ChosenBuckets,
    how: Compaction,
    distributed: bool | None = None,
) -> Snapshot | None:
    """Compact a table in one commit.

    Args:
        distributed: whether executors do the work; None: for `MIN_DISTRIBUTED_BYTES` and more than one unit.

    Returns: the snapshot, or None if nothing was worth compacting.

    Raises:
        InvalidArgument, ColumnNotFound, Unsupported: as `Table.compact`; before any job if possible.
        CommitConflict: other writers compacted the same files on every attempt; nothing was changed.
        Spark's own errors, if a task failed too often; nothing was changed.
    """
    target = override_options(target, how.options)
    sorter = Sorter.of(target, how.order_by, how.strategy) if how.order_by else None
    check_buckets(target, chosen.buckets)
    return retry_compaction(target, partial(_compact_newest, spark, target, chosen, how, sorter, distributed))


def _compact_newest(
    spark: SparkSession,
    target: WriteTarget,
    chosen: ChosenBuckets,
    how: Compaction,
    sorter: Sorter | None,
    distributed: bool | None,
) -> Snapshot | None:
    """Compact the newest snapshot."""
    snapshot = target.metadata.latest_snapshot()
    partitions = find_partitions(target, snapshot, chosen)
    if snapshot is None or partitions == []:
        return None
    if distributed is not False and (sorter is not None or not target.write.incremental_clustering):
        commits = commit_compaction(target)
        with guard_compaction(target.metadata, snapshot):
            held = _list_held(target, snapshot, partitions, chosen.buckets)
            if distributed or _sum_bytes(held) >= MIN_DISTRIBUTED_BYTES:
                units, parts = _plan_units(target, held, how, sorter)
                if distributed or _is_worthwhile(units, parts):
                    messages = _compact_by_tasks(spark, target, units, parts, how, commits)
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


def _sum_bytes(held: Iterable[Held]) -> int:
    return sum(file.file_size for one in held for file in one.files)


def _is_worthwhile(units: Sequence[Unit], parts: Sequence[Divided]) -> bool:
    size = sum(unit.weight() for unit in units) + _sum_bytes(part.held for part in parts)
    return size >= MIN_DISTRIBUTED_BYTES and (len(units) > 1 or bool(parts))


def _compact_by_tasks(
    spark: SparkSession,
    target: WriteTarget,
    units: Sequence[Unit],
    parts: Sequence[Divided],
    how: Compaction,
    commits: TableCommit,
) -> list[CommitMessage]:
    """Return the messages of the tasks. After an error, all of their files are removed."""
    messages = _compact_units(spark, target, units, how) if units else []
    try:
        return messages + (sort_in_ranges(spark, target, parts, how) if parts else [])
    except BaseException:
        commits.abort(messages)
        raise


def _compact_units(
    spark: SparkSession, target: WriteTarget, units: Sequence[Unit], how: Compaction
) -> list[CommitMessage]:
    attempt_log = AttemptLog(target.store, target.metadata.root)
    size = sum(unit.weight() for unit in units)
    groups = spread_units(units, Unit.weight, max(TASKS_PER_CORE * count_cores(spark), -(-size // MAX_TASK_BYTES)))
    work = [[encode_value(unit) for unit in group] for group in groups]
    job = CompactionJob(TableAccess.of(target, attempt_log.folder), how)
    return collect_results(attempt_log, lambda: run_tasks(spark, Work.COMPACT, job, work, RESULT))


# --- selection of files ---


def _list_held(
    target: WriteTarget, snapshot: Snapshot, partitions: Sequence[bytes] | None, buckets: Sequence[range] | None
) -> list[Held]:
    states = filter_bucket_numbers(restore_partitions(target, snapshot, partitions, rewrites=True), buckets)
    return [Held.of(place, state) for place, state in states.items() if state.files]


def _plan_units(
    target: WriteTarget, held: Sequence[Held], how: Compaction, sorter: Sorter | None
) -> tuple[list[Unit], list[Divided]]:
    """Return the units of a compaction, and the partitions whose sorting is divided among tasks."""
    if sorter is not None:
        parts = {number: divide_partition(target, one, sorter) for number, one in enumerate(held)}
        whole = [Unit(Step.SORTED, (held[number],)) for number, part in parts.items() if part is None]
        return whole, [part for part in parts.values() if part is not None]
    if target.options.bucket == POSTPONE_BUCKET:
        return list(_plan_postponed(held)), []
    if target.keyed:
        return [Unit(Step.BUCKET, (one,)) for one in held], []
    target = enable_compaction(target)
    if target.options.bucket != UNAWARE:
        return [Unit(Step.APPEND_BUCKET, (one,)) for one in held], []
    return [unit for one in held for unit in _plan_packs(target, one, how.full)], []


def _plan_postponed(held: Iterable[Held]) -> Iterator[Unit]:
    """Yield one unit for each partition with postponed rows, which may go to any bucket, else one for each bucket."""
    partitions: dict[bytes, list[Held]] = {}
    for one in held:
        partitions.setdefault(one.partition, []).append(one)
    for buckets in partitions.values():
        if any(one.bucket == POSTPONE_BUCKET for one in buckets):
            yield Unit(Step.POSTPONED, tuple(buckets))
        else:
            yield from (Unit(Step.POSTPONED, (one,)) for one in buckets)


def _plan_packs(target: WriteTarget, held: Held, full: bool) -> Iterator[Unit]:
    for files in pick_packs(target, held.state, load_vectors(target, held.place, held.index_files), full):
        yield Unit(Step.PACK, (held.only(files),))


MAX_PIECES_PER_BATCH = 16
"""The rows of `PIECES` that Spark passes to a task in one batch; with Spark's default of 10,000 it would pass all."""


@dataclass(frozen=True)
class Divided:
    """A partition whose rows are sorted range by range: its state, and the keys at which ranges end."""

    held: Held
    bounds: pl.DataFrame

    @property
    def ranges(self) -> int:
        return self.bounds.height + 1

    def groups(self, target: WriteTarget) -> int:
        """Return the number of tasks that sort the partition: each writes about one file of the target size."""
        size = sum(file.file_size for file in self.held.files)
        return min(max(size // target.write.target_file_size, 1), self.ranges)


def divide_partition(target: WriteTarget, held: Held, sorter: Sorter) -> Divided | None:
    """Divide a partition into ranges; return None if one task can sort it."""
    if sum(file.file_size for file in held.files) <= target.write.write_buffer // RANGES_PER_WRITE_BUFFER:
        return None
    bounds = choose_range_bounds(open_partition_rows(target, held.place, held.state), sorter)
    return None if bounds is None else Divided(held, bounds)


def sort_in_ranges(
    spark: SparkSession, target: WriteTarget, partitions: Sequence[Divided], how: Compaction
) -> list[CommitMessage]:
    """Sort these partitions in one job. After an error, all of its files are removed. Raises as `collect_results`."""
    attempt_log = AttemptLog(target.store, target.metadata.root)
    parts: list[SortedPart] = []
    groups = 0
    for one in partitions:
        count = one.groups(target)
        numbers = tuple(groups + number * count // one.ranges for number in range(one.ranges))
        parts.append(SortedPart(one.held.place, one.bounds, numbers))
        groups += count
    job = SortJob(CompactionJob(TableAccess.of(target, attempt_log.folder), how), tuple(parts))
    files = [[encode_value(file)] for part, one in enumerate(partitions) for file in list_files(part, one.held)]

    def frame() -> DataFrame:
        pieces = run_tasks(_make_session(spark), Work.SPLIT, job, files, PIECES)
        apart = shuffle_by_task(pieces, GROUP, groups).sortWithinPartitions(GROUP, RANGE, PIECE)
        return map_rows(apart, Work.SORT, job, RESULT)

    return _merge_messages(target, partitions, collect_results(attempt_log, frame))


def list_files(part: int, held: Held) -> Iterator[SortedFile]:
    """Yield the files of a part, each with its deletion vectors."""
    for number, file in enumerate(held.files):
        yield SortedFile(part, number, held.only((file,)))


def _merge_messages(
    target: WriteTarget, partitions: Sequence[Divided], written: Sequence[CommitMessage]
) -> list[CommitMessage]:
    """Return one message for each partition, with all files written for it."""
    files: dict[Placement, list[DataFileMeta]] = defaultdict(list)
    for message in written:
        files[Placement.of(message)] += message.new_files
    return [build_sorted_message(target, one.held.place, one.held.state, files[one.held.place]) for one in partitions]


def _make_session(spark: SparkSession) -> SparkSession:
    """Return a session of the same application that passes small batches to tasks; leave the caller's unchanged."""
    from pyspark.errors import PySparkException

    try:
        session = spark.newSession()
    except (PySparkException, AttributeError, NotImplementedError):  # Spark Connect
        return spark
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", MAX_PIECES_PER_BATCH)
    return session
