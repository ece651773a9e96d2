"""Base of aggregate functions for the fold: expressions that map a state and one more value to the next state.

A state is a mapping of expressions. ``value`` is the accumulator, null before the first record; the other names come
from the function's `extra_state`. The fold evaluates `agg` and `retract` for every key of a round and then selects per
key. The new value is null if the result is not selected, so expressions must not fail on nulls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import polars as pl

from morrow.engine.errors import MorrowError, Unsupported
from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall

State: TypeAlias = Mapping[str, pl.Expr]
VALUE = "value"
"""The accumulator's name in a state."""

NO_STATE: Mapping[str, tuple[pl.DataType, Any]] = MappingProxyType({})

POLARS_CONTEXT = "\n\nThis error occurred"


class NoResult(Unsupported):
    """Error for values without a result of a function, in Java or in Arrow.

    Polars re-creates exceptions that pass through a query, and appends the expression to the message. The expression is
    removed.
    """

    def __init__(self, message: str) -> None:
        self.feature, self.where = message.partition(POLARS_CONTEXT)[0], None
        MorrowError.__init__(self, self.feature)


class Aggregator(ABC):
    """One aggregate function for one column. Subclasses define `agg`; everything else has a default."""

    picks: bool = False
    """Whether the result is always the accumulator, the new value or null, and values are inspected for null only.
    The fold then passes row numbers (null if the value is null) instead of values of the column."""

    extra_state: Mapping[str, tuple[pl.DataType, Any]] = NO_STATE
    """The state in addition to the accumulator: dtype and first value by name."""

    @abstractmethod
    def agg(self, state: State, new: pl.Expr) -> State:
        """Return the state after a record with this value. All expressions keep their dtypes."""

    def agg_reversed(self, state: State, new: pl.Expr) -> State:
        """Return the state after a record that is older than the accumulator, in a sequence group.

        As in Java this is `agg` with value and accumulator swapped, regardless of the rest of the state.
        """
        return self.agg({**state, VALUE: new}, state[VALUE])

    def retract(self, state: State, new: pl.Expr) -> State | None:  # noqa: ARG002
        """Return the state after this value is retracted; None if the function does not support retractions."""
        return None

    def finish(self, value: pl.Expr) -> pl.Expr:
        """Compute the value of the merged row from the last accumulator. Called once per fold."""
        return value


class IgnoreRetract(Aggregator):
    """A function whose retractions change nothing: ``fields.<column>.ignore-retract``.

    As in Java, `agg_reversed` is the default implementation even if `function` overrides it.
    """

    def __init__(self, function: Aggregator) -> None:
        self.function = function
        self.picks = function.picks
        self.extra_state = function.extra_state

    def agg(self, state: State, new: pl.Expr) -> State:
        return self.function.agg(state, new)

    def retract(self, state: State, new: pl.Expr) -> State:  # noqa: ARG002
        return state

    def finish(self, value: pl.Expr) -> pl.Expr:
        return self.function.finish(value)


Make: TypeAlias = Callable[[AggregateCall, DataType], Aggregator]
"""A factory of functions in the registry: takes the call with its options, and the column's type."""


def ignore_arguments(function: type[Aggregator]) -> Make:
    """Return a `Make` for a function that needs neither options nor the column's type."""
    return lambda _call, _dtype: function()


def combine_non_null(accumulator: pl.Expr, new: pl.Expr, both: pl.Expr) -> pl.Expr:
    """Return `both` if neither input is null, else the input that is not null; `both` may be null itself."""
    return pl.when(accumulator.is_null()).then(new).when(new.is_null()).then(accumulator).otherwise(both)


class CorruptValue(Unsupported):
    """Error for a column's value that is invalid for its aggregate function: users may write any bytes.

    It is built from its message alone, since Polars re-creates exceptions that pass through a query, and appends the
    expression to the message. The expression is removed.
    """

    def __init__(self, message: str) -> None:
        message = message.partition(POLARS_CONTEXT)[0]
        super().__init__(message)
        self.args = (message,)


def make_corrupt_value(function: str, problem: str) -> CorruptValue:
    """Return the error of an aggregate function about a value."""
    return CorruptValue(
        f"the aggregate function {function}: a value cannot be merged, {problem.replace('; ', ', ')}; "
        "write what the function expects, or give the column another function"
    )


@dataclass
class Cursor:
    """The bytes of a value and a read position; every read is checked against the end of the bytes."""

    data: bytes
    function: str
    at: int = 0

    def corrupt(self, problem: str) -> CorruptValue:
        return make_corrupt_value(self.function, f"{problem} (at byte {self.at} of {len(self.data)})")

    def take(self, size: int, what: str) -> bytes:
        if size > len(self.data) - self.at:
            raise self.corrupt(f"{what} needs {size} bytes, {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def integer(self, width: int, what: str) -> int:
        """Read an unsigned little-endian integer."""
        return int.from_bytes(self.take(width, what), "little")
