"""ORC files with masks, whose rows are numbered by counting: conditions that Spark has later skip whole partitions.

No condition passes below the numbers of rows, which depend on all rows before. So where partitions may be skipped,
Spark asks for the scan when it plans a query, as it does for rows of tasks, and has one of the partitions left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from morrow.engine.plan.scan_plan import ScanPlan
from morrow.spark.jvm.scanning import Scanning
from morrow.spark.reading.choice import ORC
from morrow.spark.reading.file_scans import FileScan, MaskedFile, is_masked
from morrow.spark.reading.task_rows import filtered, of_partitions
from morrow.spark.types.to_spark import no_rows, spark_schema, without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def skips_partitions(plan: ScanPlan, scan: FileScan) -> bool:
    """Returns whether rows of a scan are counted, and of partitions of which later conditions may skip some."""
    partitions = {each.section.partition_row for each in scan.files}
    return (
        scan.format == ORC
        and is_masked(scan.files)
        and len(partitions) > 1
        and not set(plan.schema.partition_keys).isdisjoint(plan.columns)
    )


def asked_frame(
    plan: ScanPlan,
    files: Sequence[MaskedFile],
    frames: Callable[[ScanPlan, Sequence[MaskedFile]], Iterator[DataFrame]],
    scanning: Scanning,
    spark: SparkSession,
) -> DataFrame:
    """Returns the rows of files, columns `plan.columns`, which `frames` yields for a plan of some of the columns."""

    def rows(numbers: tuple[int, ...], told: Sequence[Any]) -> DataFrame:
        chosen = tuple(plan.columns[number] for number in numbers)
        narrow = plan.with_columns(chosen or plan.columns[:1])
        kept = set(map(id, of_partitions(filtered(narrow, told), [each.section for each in files])))
        left = [each for each in files if id(each.section) in kept]
        found = list(frames(narrow, left)) or [no_rows(spark, spark_schema(without_not_null(narrow.fields)))]
        frame = reduce(lambda one, other: one.unionAll(other), found)
        return frame if chosen else frame.select()

    size = sum(each.file.size for each in files)
    schema = spark_schema(without_not_null(plan.fields)).json()
    return scanning.rows(spark, schema, size, f"MorrowScan({len(files):,} ORC files)", rows)
