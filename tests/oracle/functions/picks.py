"""Functions that return one of their input values."""

from __future__ import annotations

import functools
import math
from typing import Any

from tests.oracle.functions.base import Aggregator, Call, NullsAside


class PrimaryKey(Aggregator):
    def agg(self, accumulator: Any, new: Any) -> Any:  # noqa: ARG002
        return new

    def retract(self, accumulator: Any, new: Any) -> Any:  # noqa: ARG002
        return new


class LastValue(Aggregator):
    def agg(self, accumulator: Any, new: Any) -> Any:  # noqa: ARG002
        return new

    def retract(self, accumulator: Any, new: Any) -> Any:  # noqa: ARG002
        return None


class LastNonNullValue(Aggregator):
    def agg(self, accumulator: Any, new: Any) -> Any:
        return accumulator if new is None else new

    def retract(self, accumulator: Any, new: Any) -> Any:
        return accumulator if new is None else None


class FirstValue(Aggregator):
    """The first value; a reversed step after it returns the accumulator, which is the older record's value."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.initialized = False

    def agg(self, accumulator: Any, new: Any) -> Any:
        if self.initialized:
            return accumulator
        self.initialized = True
        return new


class FirstNonNullValue(FirstValue):
    def agg(self, accumulator: Any, new: Any) -> Any:
        return accumulator if new is None else super().agg(accumulator, new)


class Max(NullsAside):
    def combine(self, accumulator: Any, new: Any) -> Any:
        return new if java_order(accumulator) < java_order(new) else accumulator


class Min(NullsAside):
    def combine(self, accumulator: Any, new: Any) -> Any:
        return accumulator if java_order(accumulator) < java_order(new) else new


@functools.singledispatch
def java_order(value: Any) -> Any:
    """Return a sort key with the order of ``compare`` in Java."""
    return value


@java_order.register
def _(value: bool) -> Any:
    raise TypeError(f"{value} has no order: Java does not compare BOOLEAN")


@java_order.register
def _(value: float) -> tuple[bool, float, float]:
    """Order floats: NaN is the greatest, and -0.0 is less than 0.0."""
    return (True, 0.0, 0.0) if math.isnan(value) else (False, value, math.copysign(1.0, value))


class BoolAnd(NullsAside):
    def combine(self, accumulator: bool, new: bool) -> bool:
        return accumulator and new


class BoolOr(NullsAside):
    def combine(self, accumulator: bool, new: bool) -> bool:
        return accumulator or new
