"""Functions that pick one of the values: the first or last one, null or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from morrow.readers.merges.functions.base import VALUE, Aggregator, Make, State, always

INITIALIZED = "initialized"
"""State of the ``first_`` functions: whether they have taken their value."""


class LastValue(Aggregator):
    """The newest value, null or not; a retraction clears it."""

    picks = True

    def agg(self, state: State, new: pl.Expr) -> State:
        return {**state, VALUE: new}

    def retract(self, state: State, new: pl.Expr) -> State:  # noqa: ARG002
        return {**state, VALUE: pl.lit(None)}


class LastNonNullValue(Aggregator):
    """The newest non-null value; a retraction of any non-null value clears it."""

    picks = True

    def agg(self, state: State, new: pl.Expr) -> State:
        return {**state, VALUE: pl.coalesce(new, state[VALUE])}

    def retract(self, state: State, new: pl.Expr) -> State:
        return {**state, VALUE: pl.when(new.is_null()).then(state[VALUE])}


class _First(Aggregator):
    """A function that takes one value and keeps it as the accumulator.

    Reversed, accumulator and value are swapped, so the older record's value is kept: null too, also for
    ``first_non_null_value``. A reversed step that finds nothing taken yet marks the accumulator itself as taken.
    """

    picks = True
    extra_state: Mapping[str, tuple[pl.DataType, Any]] = {INITIALIZED: (pl.Boolean(), False)}

    def takes(self, state: State, new: pl.Expr) -> pl.Expr:
        """Returns whether this is the value to take."""
        raise NotImplementedError

    def agg(self, state: State, new: pl.Expr) -> State:
        takes = self.takes(state, new)
        return {
            VALUE: pl.when(takes).then(new).otherwise(state[VALUE]),
            INITIALIZED: state[INITIALIZED] | takes,
        }


class FirstValue(_First):
    """The value of the first record, null or not."""

    def takes(self, state: State, new: pl.Expr) -> pl.Expr:  # noqa: ARG002
        return ~state[INITIALIZED]


class FirstNonNullValue(_First):
    """The first non-null value."""

    def takes(self, state: State, new: pl.Expr) -> pl.Expr:
        return ~state[INITIALIZED] & new.is_not_null()


class PrimaryKey(LastValue):
    """Java's function of key columns: the value of the newest record, of retractions too."""

    def retract(self, state: State, new: pl.Expr) -> State:
        return self.agg(state, new)


AGGREGATORS: Mapping[str, Make] = {
    "last_value": always(LastValue),
    "last_non_null_value": always(LastNonNullValue),
    "first_value": always(FirstValue),
    "first_non_null_value": always(FirstNonNullValue),
    "primary-key": always(PrimaryKey),
}
