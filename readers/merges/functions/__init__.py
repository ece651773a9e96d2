"""Aggregate functions as Polars expressions, by the names of Paimon's options.

A module per family; each exports its functions as a dict `AGGREGATORS`. Other packages add functions by the entry point
``morrow.aggregate_functions``.
"""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataType
from morrow.engine.merge.plugins import AGGREGATE_FUNCTIONS, plugin
from morrow.engine.merge.spec import AggregateCall
from morrow.readers.merges.functions import booleans, numbers, picks, text
from morrow.readers.merges.functions.base import VALUE, Aggregator, IgnoreRetract, Make, State

__all__ = ["AGGREGATORS", "VALUE", "Aggregator", "State", "aggregator"]

AGGREGATORS: Mapping[str, Make] = {
    **picks.AGGREGATORS,
    **numbers.AGGREGATORS,
    **booleans.AGGREGATORS,
    **text.AGGREGATORS,
}
"""The built-in functions by name."""


def aggregator(call: AggregateCall, dtype: DataType) -> Aggregator:
    """The function of a column, ready for the fold.

    Args:
        call: the function with its options, as `morrow.engine.merge` has checked them.
        dtype: the column's type.

    Raises:
        Unsupported: there is no such function, neither built in nor installed, or it does not compute.
    """
    make = AGGREGATORS.get(call.function)
    function = make(call, dtype) if make else _installed(call)
    return IgnoreRetract(function) if call.ignore_retract else function


def _installed(call: AggregateCall) -> Aggregator:
    registered = plugin(AGGREGATE_FUNCTIONS, call.function)
    if registered is None:
        raise Unsupported(f"the aggregate function {call.function!r}", hint=f"known are {', '.join(AGGREGATORS)}")
    if not isinstance(registered, Aggregator):
        raise Unsupported(
            f"the aggregate function {call.function!r}",
            hint=f"what its entry point {AGGREGATE_FUNCTIONS} loads is no Aggregator",
        )
    return registered
