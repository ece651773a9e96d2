"""Sizes of rows that the driver hands over, told to Spark's planner, which takes them for 8 EiB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from morrow.spark.versions import HAS_SOURCES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

GIVEN = "LogicalRDD"
"""Spark's plan of rows that it is given."""
ROW_OVERHEAD, LONG = 8, 8
"""Bytes that Spark counts for a row beside its columns, and for a BIGINT."""


def sized(frame: DataFrame, size: int) -> DataFrame:
    """Returns rows that Spark was given as a DataFrame that it plans as `size` bytes: joins broadcast small ones.

    What is no such plan (a few rows, whose size Spark knows; Spark Connect) is returned as it is, as all is before 4.0.
    """
    plan = _plan(frame) if HAS_SOURCES else None
    if plan is None or plan.getClass().getSimpleName() != GIVEN:
        return frame
    spark = cast("Any", frame.sparkSession)
    session, jvm = spark._jsparkSession, spark._jvm
    # Scala's numbers do not pass py4j, so the statistics are those of another plan that has this size.
    alike = session.range(-(-size // LONG)).queryExecution().analyzed().stats()
    members = [plan.productElement(i) for i in range(plan.productArity())]
    given = [*members, session, jvm.scala.Option.apply(alike)]
    make = plan.getClass().getConstructors()[0]
    nothing = {"scala.Option": jvm.scala.Option.empty(), "boolean": False}
    kinds = [kind.getName() for kind in make.getParameterTypes()]
    given += [nothing[kind] for kind in kinds[len(given) :]]
    arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, len(given))
    for number, argument in enumerate(given):
        arguments[number] = argument
    made = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, make.newInstance(arguments))
    return type(frame)(made, frame.sparkSession)


def sized_for(frame: DataFrame, columns: StructType | str, size: int) -> DataFrame:
    """Returns given rows such that a function that maps them to rows of `columns` yields `size` bytes to the planner.

    Spark takes such a function for one that returns a row for each row.
    """
    from pyspark.sql.types import StructType

    if not HAS_SOURCES or _plan(frame) is None or not isinstance(columns, StructType):
        return frame
    jvm = cast("Any", frame.sparkSession)._jvm
    after = jvm.org.apache.spark.sql.types.DataType.fromJson(columns.json()).defaultSize()
    before = cast("Any", frame)._jdf.schema().defaultSize()
    return sized(frame, -(-size * (before + ROW_OVERHEAD) // (after + ROW_OVERHEAD)))


def _plan(frame: DataFrame) -> Any:
    """Returns the plan in the JVM, None where there is no JVM to reach."""
    inner = getattr(frame, "_jdf", None)
    return None if inner is None else inner.queryExecution().analyzed()
