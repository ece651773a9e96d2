"""Changes of a table as a Spark DataFrame, read by tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from morrow.engine.plan.changes import ROWKIND_FIELD
from morrow.scans.changes import Changes
from morrow.spark.job.registry import Work
from morrow.spark.job.run import run_tasks
from morrow.spark.job.wire import StoreAccess
from morrow.spark.source.pieces import divided
from morrow.spark.source.work import ChangesJob, unit
from morrow.spark.types.to_spark import no_rows, spark_schema, without_not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def to_dataframe(changes: Changes, spark: SparkSession, *, with_kinds: bool) -> DataFrame:
    """Returns changed rows, led by their kinds; without kinds, retractions (-U, -D) are left out.

    Raises `Unsupported`: a column whose type this version of Spark does not have.
    """
    fields = changes._fields
    schema = spark_schema(without_not_null((ROWKIND_FIELD, *fields) if with_kinds else fields))
    if changes.is_empty:
        return no_rows(spark, schema)
    job = ChangesJob(fields, StoreAccess.of(changes._metadata.store), with_kinds)
    return run_tasks(spark, Work.CHANGES, job, [[unit(group)] for group in divided(changes._parts)], schema)
