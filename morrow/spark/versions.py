"""Differences between PySpark versions; no other module checks versions.

3.5   DataFrames are made of Arrow rows, and Arrow rows of DataFrames, by the calls that pandas uses; Python data
      sources are missing, so ``format("morrow")`` lacks streams, and so are classes that the catalog's Java code needs
4.0   batches; streams are read without limits, and written row by row, which Morrow does not do
4.1   streams are written in Arrow batches; filters are pushed; the condition of a join may name the position of a row
4.2   streams have limits, and get the offset reached when asked for the newest; Spark opens ORC files with instants
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import Unsupported

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, InputPartition, WriterCommitMessage
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    from pyspark.sql.types import StructType
else:
    try:
        from pyspark.sql import datasource
        from pyspark.sql.datasource import InputPartition, WriterCommitMessage
    except ImportError:
        datasource, InputPartition, WriterCommitMessage = None, object, object
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", object)
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:
        SupportsTriggerAvailableNow = object

HAS_SOURCES = InputPartition.__module__ == "pyspark.sql.datasource"
WRITES_STREAMS = DataSourceStreamArrowWriter is not object
LIMITS_STREAMS = SupportsTriggerAvailableNow is not object
OPENS_ORC_INSTANTS = LIMITS_STREAMS
"""Whether Spark can open ORC files with instants. Before 4.2 it cannot parse their type, even to read other columns."""

JOINS_ROW_POSITIONS = (4, 1)
CATALOGS = (4, 0)
"""The first Spark versions with a feature. For joins: the condition may use `_metadata`."""

SCALA_2_12 = "2.12"
"""The Scala version with different class names for Java conversions; Spark 3.5 is built with 2.12 or 2.13."""


def get_version(spark: SparkSession) -> tuple[int, ...]:
    """Return the version of Spark, not of PySpark: with Spark Connect, the server's version may differ."""
    return tuple(int(part) for part in spark.version.split(".")[:2])


def has_row_position_joins(spark: SparkSession) -> bool:
    """Return whether a join condition may use a row's position; otherwise the position has to be a column."""
    return get_version(spark) >= JOINS_ROW_POSITIONS


def check_catalogs(spark: SparkSession) -> None:
    """Raise `Unsupported` if Spark lacks features that `morrow.spark.catalog` needs."""
    if get_version(spark) < CATALOGS:
        raise Unsupported(
            f"morrow.spark.catalog in Spark {spark.version}, before 4.0,",
            hint="use morrow.spark.read, write, call and attach",
        )


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType | str | None = None) -> DataFrame:
    """Convert Arrow rows, in the types of `morrow.spark.types`, to a DataFrame, with the schema if given.

    Raises `Unsupported`: Spark Connect before 4.0.
    """
    table = _drop_empty_chunks(table)
    if HAS_SOURCES:
        return cast("DataFrame", cast("Any", spark).createDataFrame(table, schema))
    if not hasattr(spark, "_jsparkSession"):
        raise Unsupported("Spark Connect before 4.0", hint="use a session with a JVM of its own")
    return _send_through_jvm(spark, table, schema)


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return all rows of a DataFrame."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    batches = cast("Any", frame)._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else to_arrow_schema(frame.schema).empty_table()


def spread_rows(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return rows with Spark's hint to distribute them evenly, keeping rows with equal values of `names` together."""
    from pyspark.sql import DataFrame, functions

    columns = list(map(functions.col, names))
    if HAS_SOURCES:
        return rows.hint("rebalance", *columns)
    plain: Any = rows  # in PySpark 3.5, the method does not accept columns
    listed = plain._jseq([cast("Any", column)._jc.expr() for column in columns])
    return DataFrame(plain._jdf.hint("rebalance", listed), plain.sparkSession)


def get_session_class(spark: Any) -> Any:
    """Return the JVM's session class, which knows the active session."""
    from pyspark.sql import SparkSession

    asks = getattr(SparkSession, "_get_j_spark_session_class", None)
    return spark._jvm.SparkSession if asks is None else asks(spark._jvm)


def save_mode(writer: Any) -> str:
    """Return the mode of a JVM writer, in lower case."""
    mode = writer.curmode() if HAS_SOURCES else writer.mode()
    return str(mode.toString()).lower()


def get_clustering(writer: Any) -> tuple[Any, ...]:
    """Return a JVM writer's clustering columns, as Scala's option; none before 4.0."""
    return (writer.clusteringColumns(),) if HAS_SOURCES else ()


def to_mapping(spark: Any, scala: Any) -> dict[str, str]:
    """Convert a Scala map."""
    if is_scala_2_12(spark):
        found = spark._jvm.scala.collection.JavaConverters.mapAsJavaMap(scala)
    else:
        found = spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala)
    return {key: found[key] for key in found.keySet().toArray()}


def to_list(spark: Any, scala: Any) -> list[Any]:
    """Convert a Scala sequence.

    It is read as an array: py4j's iterators end with an exception, about which PySpark asks the JVM many questions.
    """
    if is_scala_2_12(spark):
        found = spark._jvm.scala.collection.JavaConverters.seqAsJavaList(scala)
    else:
        found = spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(scala)
    return list(found.toArray())


def make_dataset(spark: Any, plan: Any) -> Any:
    """Return the JVM's Dataset of a logical plan."""
    sql = spark._jvm.org.apache.spark.sql
    return (sql.classic if HAS_SOURCES else sql).Dataset.ofRows(spark._jsparkSession, plan)


def is_scala_2_12(spark: Any) -> bool:
    return str(spark._jvm.scala.util.Properties.versionNumberString()).startswith(SCALA_2_12)


class _Stream:
    """Arrow rows as PySpark writes them for its JVM: a stream of Arrow IPC."""

    def dump_stream(self, table: pa.Table, stream: Any) -> None:
        import pyarrow as pa

        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)


def _drop_empty_chunks(table: pa.Table) -> pa.Table:
    """Drop record batches without rows: Spark considers them the end of the stream, and ignores later batches."""
    import pyarrow as pa

    batches = [batch for batch in table.to_batches() if batch.num_rows]
    return pa.Table.from_batches(batches, table.schema) if batches else table.slice(0, 0)


def _send_through_jvm(spark: Any, table: pa.Table, schema: StructType | str | None) -> DataFrame:
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import _parse_datatype_string

    columns: Any = _parse_datatype_string(schema) if isinstance(schema, str) else schema
    columns = columns or from_arrow_schema(table.schema)
    utils, server = spark._jvm.PythonSQLUtils, spark._jvm.ArrowIteratorServer
    batches = spark.sparkContext._serialize_to_jvm(table, _Stream(), utils.readArrowStreamFromFile, server)
    return DataFrame(utils.toDataFrame(batches, columns.json(), spark._jsparkSession), spark)


__all__ = [
    "HAS_SOURCES",
    "LIMITS_STREAMS",
    "WRITES_STREAMS",
    "DataSourceStreamArrowWriter",
    "InputPartition",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
    "check_catalogs",
    "from_arrow",
    "get_clustering",
    "get_session_class",
    "get_version",
    "has_row_position_joins",
    "save_mode",
    "spread_rows",
    "to_arrow",
    "to_list",
    "to_mapping",
]
