"""The SparkSession that Morrow makes, or finds, and the Java that it runs on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.spark.java import LEAST_VERSION, find_java
from morrow.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_that_runs_is_given_the_settings_and_returned(spark: SparkSession) -> None:
    same = session("other", "local[7]", **{"spark.sql.maxPlanStringLength": 12_345, "spark.sql.caseSensitive": False})
    assert same.sparkContext is spark.sparkContext
    assert same.conf.get("spark.sql.maxPlanStringLength") == "12345"
    assert same.conf.get("spark.sql.caseSensitive") == "false"
    assert same.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    spark.conf.unset("spark.sql.maxPlanStringLength")


def test_workers_run_the_python_of_this_process(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec == sys.executable


def test_settings_that_are_none_are_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidArgument, match=r"begin with 'spark\.'"):
        session(driver_memory="2g")


def test_java_is_found_and_says_where() -> None:
    java = find_java()
    assert java.version >= LEAST_VERSION
    assert str(java) == f"Java {java.version} from {java.origin} ({java.home})"
