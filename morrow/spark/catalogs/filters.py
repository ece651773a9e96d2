"""Filters as the JVM tells them, as predicates: those that cannot be translated prune nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import datasource as spark

from morrow.engine.format.types import DataField
from morrow.engine.plan.predicate import Predicate
from morrow.spark.source.filters import translated


class Untold(Exception):
    """A value that is not told exactly."""


def _refused(_text: str) -> Any:
    raise Untold


PARSERS: Mapping[str, Callable[[str], Any]] = {
    "boolean": lambda text: text == "true",
    "integer": int,
    "float": float,
    "decimal": Decimal,
    "string": str,
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "instant": _refused,
    "other": _refused,
}
"""By the kind of a value in `Values.java`. Filters on instants stay Spark's, as in `morrow.spark.source.filters`."""

COMPARED = {
    name: getattr(spark, name)
    for name in (
        "EqualTo",
        "EqualNullSafe",
        "GreaterThan",
        "GreaterThanOrEqual",
        "LessThan",
        "LessThanOrEqual",
        "StringStartsWith",
    )
}


def predicates(told: Iterable[Sequence[Any]], fields: Mapping[str, DataField]) -> list[Predicate]:
    """Returns the predicates of those filters that Morrow can test as Spark does."""
    found = []
    for filter in told:
        try:
            predicate = translated(_filter(filter), fields)
        except (Untold, ValueError):  # a year beyond those of Python's dates
            continue
        if predicate is not None:
            found.append(predicate)
    return found


def _filter(told: Sequence[Any]) -> spark.Filter:
    if told[0] == "Not":
        return spark.Not(_filter(told[1]))
    path = (_column(told[1]),)
    if told[0] in ("IsNull", "IsNotNull"):
        found: spark.Filter = getattr(spark, told[0])(path)
    elif told[0] == "In":
        found = spark.In(path, tuple(map(value_of, told[2])))
    else:
        found = COMPARED[told[0]](path, value_of(told[2]))
    return found


def value_of(told: Sequence[str]) -> Any:
    """Returns a value as the JVM tells it. Raises `Untold` for kinds that are not told exactly."""
    return None if told[0] == "null" else PARSERS[told[0]](told[1])


def _column(told: str) -> str:
    """Returns the name of a column, which Spark quotes where it has dots; members of rows are no columns."""
    if told.startswith("`") and told.endswith("`") and len(told) > 1:
        return told[1:-1].replace("``", "`")
    return told
