"""Sorts a partition too large for one task: some tasks split its rows by range, others sort and write the ranges.

It does the same as `append.sort_compaction`, with Spark's shuffle in place of temporary files:

    files ──▶ rows apart by range ──shuffle──▶ groups of neighbouring ranges ──▶ each range sorted, group by group
                                                                                 written to files of the target size

The driver samples the rows to find the bounds of ranges. Rows are shuffled as Arrow IPC, so that Spark's types are not
involved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from morrow.engine.format.data_file_meta import DataFileMeta
from morrow.spark.job.registry import Work
from morrow.spark.job.results import RESULT, collected
from morrow.spark.job.run import by_task, mapped, run_tasks
from morrow.spark.job.table import TableAccess
from morrow.spark.job.wire import encoded
from morrow.spark.maintenance.compaction_units import Compaction, CompactionJob, Held
from morrow.spark.maintenance.sort_work import GROUP, PIECE, PIECES, RANGE, SortedFile, SortedPart, SortJob
from morrow.writers.append.sort_compaction import SHARE, Sorter, range_bounds, sorted_message, stored_rows
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.commit.messages import CommitMessage
from morrow.writers.files import Placement
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECES_AT_ONCE = 16
"""Rows of `PIECES` that Spark passes to a task in one batch; its default of 10,000 would be all there are."""


@dataclass(frozen=True)
class Divided:
    """A partition whose rows are sorted range by range: its state, and the keys at which ranges end."""

    held: Held
    bounds: pl.DataFrame

    @property
    def ranges(self) -> int:
        return self.bounds.height + 1

    def groups(self, target: WriteTarget) -> int:
        """Returns the number of tasks that sort it: each writes about one file of the target size."""
        size = sum(file.file_size for file in self.held.files)
        return min(max(size // target.write.target_file_size, 1), self.ranges)


def divided(target: WriteTarget, held: Held, sorter: Sorter) -> Divided | None:
    """Returns the division of a partition into ranges; None when one task can sort it."""
    if sum(file.file_size for file in held.files) <= target.write.write_buffer // SHARE:
        return None
    bounds = range_bounds(stored_rows(target, held.place, held.state), sorter)
    return None if bounds is None else Divided(held, bounds)


def sorted_in_ranges(
    spark: SparkSession, target: WriteTarget, partitions: Sequence[Divided], how: Compaction
) -> list[CommitMessage]:
    """Sorts these partitions in one job. After an error none of its files stays. Raises as `results.collected`."""
    attempt_log = AttemptLog(target.store, target.metadata.root)
    parts: list[SortedPart] = []
    groups = 0
    for one in partitions:
        count = one.groups(target)
        numbers = tuple(groups + number * count // one.ranges for number in range(one.ranges))
        parts.append(SortedPart(one.held.place, one.bounds, numbers))
        groups += count
    job = SortJob(CompactionJob(TableAccess.of(target, attempt_log.folder), how), tuple(parts))
    files = [[encoded(file)] for part, one in enumerate(partitions) for file in files_of(part, one.held)]

    def frame() -> DataFrame:
        pieces = run_tasks(_session(spark), Work.SPLIT, job, files, PIECES)
        apart = by_task(pieces, GROUP, groups).sortWithinPartitions(GROUP, RANGE, PIECE)
        return mapped(apart, Work.SORT, job, RESULT)

    return _messages(target, partitions, collected(attempt_log, frame))


def files_of(part: int, held: Held) -> Iterator[SortedFile]:
    """Yields the files of a part, each with its deletion vectors."""
    for number, file in enumerate(held.files):
        yield SortedFile(part, number, held.only((file,)))


def _messages(
    target: WriteTarget, partitions: Sequence[Divided], written: Sequence[CommitMessage]
) -> list[CommitMessage]:
    """Returns one message for each partition, with all files written for it."""
    files: dict[Placement, list[DataFileMeta]] = defaultdict(list)
    for message in written:
        files[Placement.of(message)] += message.new_files
    return [sorted_message(target, one.held.place, one.held.state, files[one.held.place]) for one in partitions]


def _session(spark: SparkSession) -> SparkSession:
    """Returns a session of the same application that passes small batches to tasks; the caller's stays unchanged."""
    from pyspark.errors import PySparkException

    try:
        session = spark.newSession()
    except (PySparkException, AttributeError, NotImplementedError):  # Spark Connect
        return spark
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", PIECES_AT_ONCE)
    return session
