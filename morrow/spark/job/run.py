"""Assignment of sections to tasks, and the DataFrame that runs the tasks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.spark.job.kinds import Work
from morrow.spark.job.sections import Job, encoded
from morrow.spark.job.tasks import Task, Tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Item: TypeAlias = tuple[Work, Section]

MOST_TASK_BYTES = 64 << 20
"""Bytes of files that a task is given together; a section that merges is never split."""

OPENING_BYTES = 1 << 20
"""The cost of a file besides its bytes, in bytes."""

UNKNOWN_CORES = 8
"""Parallel tasks, where a session does not give their number (Spark Connect)."""


def run_tasks(
    plan: ScanPlan, items: Sequence[Item], store: FileStore, columns: StructType | str, spark: SparkSession
) -> DataFrame:
    """Returns a DataFrame of the work's results for these sections, `columns` of it; each section is processed once."""
    limit = _task_bytes([section for _, section in items], spark)
    tasks = [
        Task(work, tuple(encoded(section, plan) for section in sections)) for work, sections in _packed(items, limit)
    ]
    run = Tasks(pickle.dumps(Job.of(plan, store)), tasks)
    # A range of n numbers in n partitions: one task each, and nothing is shuffled.
    return spark.range(0, len(tasks), numPartitions=len(tasks)).mapInArrow(run, columns)


def _packed(items: Sequence[Item], limit: int) -> Iterator[tuple[Work, list[Section]]]:
    """Groups the sections by about `limit` bytes, those of one kind of work together."""
    for work, group in groupby(items, key=lambda item: item[0]):
        held: list[Section] = []
        size = 0
        for section in (piece for _, whole in group for piece in _pieces(whole, limit)):
            if held and size + _weight(section) > limit:
                yield work, held
                held, size = [], 0
            held.append(section)
            size += _weight(section)
        yield work, held


def _pieces(section: Section, limit: int) -> Iterator[Section]:
    """Splits sections: files that are read one by one need not be read by one task."""
    if section.kind is not SectionKind.RAW or _weight(section) <= limit:
        yield section
        return
    held: list[DataFile] = []
    size = 0
    for file in section.files:
        if held and size + file.size + OPENING_BYTES > limit:
            yield msgspec.structs.replace(section, files=tuple(held))
            held, size = [], 0
        held.append(file)
        size += file.size + OPENING_BYTES
    yield msgspec.structs.replace(section, files=tuple(held))


def _weight(section: Section) -> int:
    return section.size + len(section.files) * OPENING_BYTES


def _task_bytes(sections: Sequence[Section], spark: SparkSession) -> int:
    """Returns the bytes per task that give every core one task, within bounds."""
    each = sum(map(_weight, sections)) // _cores(spark)
    return min(MOST_TASK_BYTES, max(each, OPENING_BYTES))


def _cores(spark: SparkSession) -> int:
    from pyspark.errors import PySparkException

    try:
        return max(int(spark.sparkContext.defaultParallelism), 1)
    except PySparkException:
        return UNKNOWN_CORES
