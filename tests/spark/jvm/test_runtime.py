"""The compiled classes in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("pyspark")

from morrow.spark.jvm.runtime import _takes_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_class_loaders_that_take_jars(spark: SparkSession) -> None:
    """That of a JVM's own class path takes none: where Spark runs in such a one, only threads that ADD JAR find it."""
    session: Any = spark
    assert _takes_jars(session._jsparkSession.sharedState().jarClassLoader())
    assert not _takes_jars(session._jvm.java.lang.ClassLoader.getSystemClassLoader())
    assert not _takes_jars(cast("Any", None))
