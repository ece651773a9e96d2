"""bool_and and bool_or: nulls are ignored."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from morrow.readers.merges.functions.base import VALUE, Aggregator, Make, State, always, unless_null


class BoolAnd(Aggregator):
    """The conjunction: whether all values are true."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: unless_null(state[VALUE], new, state[VALUE] & new)}


class BoolOr(Aggregator):
    """The disjunction: whether any value is true."""

    def agg(self, state: State, new: pl.Expr) -> State:
        return {VALUE: unless_null(state[VALUE], new, state[VALUE] | new)}


AGGREGATORS: Mapping[str, Make] = {"bool_and": always(BoolAnd), "bool_or": always(BoolOr)}
