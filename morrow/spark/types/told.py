"""Filters as the JVM tells them, as predicates: those that cannot be translated prune nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from morrow.engine.format.types import DataField
from morrow.engine.plan.predicate import Predicate
from morrow.spark.types.filters import predicate


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
    "map": lambda given: given,
    "other": _refused,
}
"""By the kind of a value in `Values.java`. Filters on instants stay Spark's, as in `morrow.spark.types.filters`."""


def predicates(told: Iterable[Sequence[Any]], fields: Mapping[str, DataField]) -> list[Predicate]:
    """Returns the predicates of those filters that Morrow can test as Spark does."""
    found = []
    for filter in told:
        try:
            kept = _predicate(filter, fields)
        except (Untold, ValueError):  # a year beyond those of Python's dates
            continue
        if kept is not None:
            found.append(kept)
    return found


def _predicate(told: Sequence[Any], fields: Mapping[str, DataField]) -> Predicate | None:
    negated = told[0] == "Not"
    name, column, *values = told[1] if negated else told
    value: Any = None
    if values:
        value = tuple(map(value_of, values[0])) if name == "In" else value_of(values[0])
    return predicate(name, (column_of(column),), value, fields, negated=negated)


def value_of(told: Sequence[str]) -> Any:
    """Returns a value as the JVM tells it. Raises `Untold` for kinds that are not told exactly."""
    return None if told[0] == "null" else PARSERS[told[0]](told[1])


def partition_value_of(told: Sequence[str]) -> object:
    """Returns a value of a partition column: a time as a datetime, others as text, which is parsed as its type."""
    if told[0] == "null":
        return None
    return dt.datetime.fromisoformat(told[1]) if told[0] in ("timestamp", "instant") else told[1]


def column_of(told: str) -> str:
    """Returns the name of a column, which Spark quotes where it has dots; members of rows are no columns."""
    if told.startswith("`") and told.endswith("`") and len(told) > 1:
        return told[1:-1].replace("``", "`")
    return told
