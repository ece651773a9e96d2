"""Rows that tasks of Morrow make: of the columns that a query needs, where Spark's JVM can ask for them.

    Spark plans a query ──columns──▶ the driver's Python ──plan of these──▶ tasks (mapInArrow) ──▶ rows

Where it cannot (Spark Connect), tasks make all columns, since Spark does not see into functions of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.spark.job.registry import Work
from morrow.spark.job.sections import run_sections
from morrow.spark.jvm.scanning import Scanning
from morrow.spark.reading.expressions import literal, quoted
from morrow.spark.types.to_spark import spark_schema, without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def task_frame(
    work: Work,
    plan: ScanPlan,
    sections: Sequence[Section],
    constants: Sequence[object],
    store: FileStore,
    scanning: Scanning,
    spark: SparkSession,
) -> DataFrame:
    """Returns the rows of sections, columns `plan.columns`.

    Args:
        work: what tasks do with the sections, `Work.SCAN` or `Work.MERGE`.
        plan: the plan of the sections.
        sections: which of its sections.
        constants: the values of the first partition keys, which all these sections share.
        store: the store of their files.
        scanning: what the session can do.
        spark: the session.
    """
    from pyspark.sql.functions import col

    schema = spark_schema(without_not_null(plan.fields))

    @cache  # Spark asks again where it plans a query in stages
    def rows(numbers: tuple[int, ...]) -> DataFrame:
        columns = tuple(plan.columns[number] for number in numbers)
        some = columns or (plan.schema.primary_keys or plan.columns)[:1]  # rows without columns are still rows
        narrow = plan.with_columns(some)
        found = run_sections(work, narrow, sections, store, spark_schema(without_not_null(narrow.fields)), spark)
        return found if columns else found.select()

    if scanning.obstacle is None:
        size = sum(section.size for section in sections)
        frame = scanning.rows(spark, schema.json(), size, f"MorrowTasks({len(sections):,} sections)", rows)
    else:
        frame = run_sections(work, plan, sections, store, schema, spark)
    known = dict(zip(plan.schema.partition_keys, constants))
    if not known.keys() & set(plan.columns):
        return frame
    # As constants, which the planner checks against later filters; it knows nothing of the rows that tasks return.
    return frame.select(
        [
            literal(known[f.name], f.type, f.name).alias(f.name) if f.name in known else col(quoted(f.name))
            for f in plan.fields
        ]
    )
