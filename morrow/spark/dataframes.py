"""Arrow rows of the driver as Spark DataFrames, with the size that Spark's planner assumes for them.

Without a given size the planner assumes 8 EiB, and never broadcasts such rows in a join.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import DataField
from morrow.spark.types import make_members_nullable, to_spark_rows, to_spark_schema, to_travel_schema
from morrow.spark.versions import HAS_SOURCES, from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MAX_BYTES = 1 << 30
"""The maximum bytes of Arrow rows to transfer, unless the caller sets a limit: the driver and the JVM both hold
them."""

DISTRIBUTE = "read the table with morrow.spark.read, which leaves the rows to the executors"
CHOOSE_LESS = "choose fewer by columns=[...] and filter=..."


def to_spark(
    batches: Iterable[pa.RecordBatch],
    fields: Sequence[DataField],
    spark: SparkSession,
    *,
    where: str,
    most_bytes: int | None = None,
    advice: str = DISTRIBUTE,
) -> DataFrame:
    """Convert record batches, columns `fields`, to a Spark DataFrame in the types of `morrow.spark.types`.

    Reading ends as soon as the limit is exceeded; batches are transferred one by one. Errors name
    `where` and, for too many rows, a remedy.

    Raises:
        Unsupported: a column whose type this version of Spark does not have.
        InvalidArgument: the rows take more than `most_bytes` (`MAX_BYTES` unless given) as Arrow.
    """
    if not hasattr(spark, "createDataFrame"):
        raise InvalidArgument(f"spark is a SparkSession, such as morrow.spark.session() makes, not {spark!r}")
    most_bytes = MAX_BYTES if most_bytes is None else most_bytes
    given = make_members_nullable(fields)
    schema, travel = to_spark_schema(given), to_travel_schema(given)
    held, rows, size = [], 0, 0
    for batch in batches:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size > most_bytes:
            raise InvalidArgument(
                f"{where}: {rows:,} rows and more take over {most_bytes >> 20:,} MiB, too much to hand over through "
                f"the driver; {advice}"
            )
        held.append(to_spark_rows(batch, travel))
    # createDataFrame localises timestamps chunk by chunk, and fails without any chunk.
    held = held or [pa.RecordBatch.from_arrays([pa.array([], field.type) for field in travel], schema=travel)]
    # Spark rejects an INSERT into a projection clearly; for plain rows its message may look like an internal error.
    return set_planned_size(from_arrow(spark, pa.Table.from_batches(held, travel), schema), size).select("*")


GIVEN = "LogicalRDD"
"""The class of Spark's plan for given rows."""
ROW_OVERHEAD, LONG = 8, 8
"""The bytes that Spark's planner counts for a row besides its columns, and for a BIGINT."""


def set_planned_size(frame: DataFrame, size: int) -> DataFrame:
    """Return given rows as a DataFrame whose planned size is `size` bytes: joins broadcast small sides.

    Other plans (a few rows, whose size Spark knows; Spark Connect) are returned unchanged, as are all before Spark 4.0.
    """
    plan = _plan(frame) if HAS_SOURCES else None
    if plan is None or plan.getClass().getSimpleName() != GIVEN:
        return frame
    spark = cast("Any", frame.sparkSession)
    session, jvm = spark._jsparkSession, spark._jvm
    # Py4j cannot pass Scala's numbers, so the statistics are taken from another plan of this size.
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


def set_mapped_size(frame: DataFrame, columns: StructType | str, size: int) -> DataFrame:
    """Set the planned size of given rows so that mapping them to rows of `columns` has `size` bytes for the planner.

    Spark assumes that such a function returns one row for each row.
    """
    from pyspark.sql.types import StructType

    if not HAS_SOURCES or _plan(frame) is None or not isinstance(columns, StructType):
        return frame
    jvm = cast("Any", frame.sparkSession)._jvm
    after = jvm.org.apache.spark.sql.types.DataType.fromJson(columns.json()).defaultSize()
    before = cast("Any", frame)._jdf.schema().defaultSize()
    return set_planned_size(frame, -(-size * (before + ROW_OVERHEAD) // (after + ROW_OVERHEAD)))


def _plan(frame: DataFrame) -> Any:
    """Return the plan in the JVM, or None if the JVM cannot be reached."""
    inner = getattr(frame, "_jdf", None)
    return None if inner is None else inner.queryExecution().analyzed()
