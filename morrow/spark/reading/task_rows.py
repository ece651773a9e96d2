"""Rows that tasks of Morrow make: of the columns that a query needs, where Spark's JVM can ask for them.

    Spark plans a query ──columns, filters──▶ the driver's Python ──plan of these──▶ tasks (mapInArrow) ──▶ rows

Where it cannot (Spark Connect), tasks make all columns, since Spark does not see into functions of Python. Filters that
Morrow tests as Spark does leave out partitions, row groups and rows; Spark tests the rows once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from morrow.engine.io.store import FileStore
from morrow.engine.plan.entries import partition_matches
from morrow.engine.plan.filter import Filter, both
from morrow.engine.plan.predicate import ALWAYS, columns, conjunction
from morrow.engine.plan.pruning import projected
from morrow.engine.plan.scan_plan import ScanPlan, Section
from morrow.engine.values import replace
from morrow.readers.files.virtual_columns import virtual_columns
from morrow.spark.job.registry import Work
from morrow.spark.job.sections import run_sections
from morrow.spark.jvm.scanning import Scanning
from morrow.spark.reading.expressions import literal, quoted
from morrow.spark.reading.merged_here import merged_here
from morrow.spark.types.to_spark import no_rows, spark_schema, without_not_null
from morrow.spark.types.told import predicates

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

    def rows(numbers: tuple[int, ...], told: Sequence[Any]) -> DataFrame:
        chosen = tuple(plan.columns[number] for number in numbers)
        some = chosen or (plan.schema.primary_keys or plan.columns)[:1]  # rows without columns are still rows
        narrow = filtered(plan.with_columns(some), told)
        wanted = spark_schema(without_not_null(narrow.fields))
        left = of_partitions(narrow, sections)
        if not left:
            found = no_rows(spark, wanted)
        else:
            by_driver = merged_here(narrow, left, store, scanning, spark) if work is Work.MERGE else None
            found = by_driver or run_sections(work, narrow, left, store, wanted, spark)
        return found if chosen else found.select()

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


def filtered(plan: ScanPlan, told: Sequence[Any]) -> ScanPlan:
    """Returns the plan of the rows that pass filters, as far as Morrow tests them as Spark does."""
    made = {field.name for field in virtual_columns(plan, plan.schema.fields)}
    found = predicates(told, {field.name: field for field in plan.schema.fields if field.name not in made})
    if not found:
        return plan
    predicate = conjunction(*found)
    return replace(plan, filter=both(plan.filter, Filter(predicate, (), columns(predicate), str(predicate))))


def of_partitions(plan: ScanPlan, sections: Sequence[Section]) -> list[Section]:
    """Returns the sections in whose partitions the filter may keep rows."""
    predicate = projected(plan.filter.predicate, frozenset(plan.schema.partition_keys))
    if predicate == ALWAYS or not sections:
        return list(sections)
    partitions = pl.Series("_PARTITION", [section.partition_row for section in sections], dtype=pl.Binary)
    kept = partition_matches(partitions.to_frame(), plan.schema, predicate, plan.table)
    return [section for section, keep in zip(sections, kept) if keep]
