"""``timestampAsOf`` as Spark reads it: on the clock of the session where it names no zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Clock: TypeAlias = Callable[[str], int | str]
"""Reads a time. Raises `ValueError` for what is none."""


def clock_of(spark: SparkSession) -> Clock:
    """Returns how a session reads times, in milliseconds."""

    def millis(text: str) -> int:
        from pyspark.sql import functions as f

        found: int | None = spark.range(1).select(f.unix_millis(f.try_to_timestamp(f.lit(text)))).collect()[0][0]
        if found is None:
            raise ValueError("it is a time such as '2024-01-01 00:00:00'")
        return found

    return millis


def with_zone(text: str) -> str:
    """Returns a time that names its zone, as it has to where no session says which clock it is on."""
    if dt.datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("nothing says here which zone it is in; write it with an offset, such as +01:00")
    return text
