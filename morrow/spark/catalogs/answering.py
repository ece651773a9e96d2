"""What the classes of the JVM ask: functions of this process, by the ids under which a session asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from morrow.spark.catalogs.answers import Answers, OfFormat, Rewriting
from morrow.spark.jvm.runtime import java_class, take_statements
from morrow.spark.source import register_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start_answering(spark: SparkSession, id: str, answers: Answers | OfFormat | Rewriting) -> None:
    """Has the JVM ask these answers under an id, in place of those that it has asked so far."""
    from pyspark import java_gateway

    gateway = cast("Any", spark).sparkContext._gateway
    cast("Any", java_gateway).ensure_callback_server_started(gateway)
    java_class(spark, "Python").getField("ANSWERING").get(None).put(id, answers)


def answer_statements(spark: SparkSession) -> None:
    """Has the parser of the session ask about statements that may be Paimon's, or that Spark would do in part."""
    statements = take_statements(spark)
    if statements is not None:
        start_answering(spark, statements, Rewriting(spark))


def register_streams(spark: SparkSession) -> None:
    """Registers the data source whose streams the JVM asks for."""
    from morrow.spark.source.datasource import StreamsByName  # which Spark 3.5 cannot import

    register_source(spark, StreamsByName)
