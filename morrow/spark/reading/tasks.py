"""Sections read by tasks: those of a task are packed by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.spark.job.packing import packed_sections, task_bytes
from morrow.spark.job.registry import Work
from morrow.spark.job.run import run_tasks
from morrow.spark.job.sections import ScanJob
from morrow.spark.sessions import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def run_sections(
    work: Work,
    plan: ScanPlan,
    sections: Sequence[Section],
    store: FileStore,
    columns: StructType | str,
    spark: SparkSession,
) -> DataFrame:
    """Returns a DataFrame of the work's results for these sections, `columns` of it; each section is processed once."""
    job = ScanJob.of(plan, store)
    groups = packed_sections(sections, task_bytes(sections, cores(spark)))
    return run_tasks(spark, work, job, [job.units(group) for group in groups], columns)
