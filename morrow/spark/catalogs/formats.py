"""`morrow.spark.register`: ``format("morrow")`` of DataFrames, streams, temporary views and Spark's own catalog."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from morrow.engine.errors import Unsupported
from morrow.engine.telling import logger
from morrow.spark.catalogs.answering import answer_statements, register_streams, start_answering
from morrow.spark.catalogs.answers import OfFormat
from morrow.spark.jvm.runtime import load, load_alias
from morrow.spark.sessions import is_connect
from morrow.spark.source import register_replacing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.morrow.format"
"""The setting of a session that has registered the format: the id under which `MorrowFormat` asks."""
REDACTED = "spark.sql.redaction.options.regex"
"""The setting of the options whose values Spark shows nowhere."""
OF_STORES = r"(?i)^storage\."
"""Options of stores, all of which are hidden: not every name of a secret looks like one."""

log = logger(__name__)


def register(spark: SparkSession) -> None:
    """Registers ``format("morrow")`` in a session; its options are in `morrow.spark.source.options`.

    It is registered as ``paimon``, too, unless a jar has that name. Repeating it changes nothing.

    From Spark 4.0 on the format is one of the session's JVM. Before, and over Spark Connect, methods of PySpark's
    classes are replaced, for sessions that have called this.
    """
    if not is_connect(spark):
        try:
            register_in_jvm(spark)
        except Unsupported as error:
            log.info("format('morrow') replaces methods of PySpark: %s", error)
        else:
            return
    register_replacing(spark)


def register_in_jvm(spark: SparkSession) -> None:
    """Registers the format as a class of the session's JVM. Raises `Unsupported` where none is reached or takes it."""
    load(spark)
    id = spark.conf.get(SETTING, None)
    if id is None:
        id = uuid.uuid4().hex
        spark.conf.set(SETTING, id)
    start_answering(spark, id, OfFormat(spark))
    register_streams(spark)
    load_alias(spark)
    answer_statements(spark)
    redacted = spark.conf.get(REDACTED, None)
    if redacted is None or OF_STORES not in redacted:
        spark.conf.set(REDACTED, f"{redacted}|{OF_STORES}" if redacted else OF_STORES)
