"""Aggregate functions as Polars expressions, by the names of Paimon's options.

A module per family; each exports its functions as a dict. Other packages add functions by the entry point
``morrow.aggregate_functions``: an `Aggregator`, or a class or function that makes one of a call and a column's type.
"""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.options.declarations import AGGREGATE_FUNCTION_PLUGINS
from morrow.engine.plugins import load_plugin
from morrow.readers.merges.functions import collections, scalars, sketches
from morrow.readers.merges.functions.base import VALUE, Aggregator, IgnoreRetract, Make, NoResult, State

__all__ = ["AGGREGATORS", "VALUE", "Aggregator", "NoResult", "State", "find_aggregator"]

AGGREGATORS: Mapping[str, Make] = {
    **scalars.SELECTION_FUNCTIONS,
    **scalars.NUMBER_FUNCTIONS,
    **scalars.BOOLEAN_FUNCTIONS,
    **scalars.TEXT_FUNCTIONS,
    **collections.COLLECTION_FUNCTIONS,
    **collections.NESTED_FUNCTIONS,
    **sketches.BITMAP_FUNCTIONS,
    **sketches.SKETCH_FUNCTIONS,
}
"""The built-in functions by name."""


def find_aggregator(call: AggregateCall, dtype: DataType) -> Aggregator:
    """Return the function of a column, ready for the fold.

    Args:
        call: the function with its options, as `morrow.engine.merge` has checked them.
        dtype: the column's type.

    Raises `Unsupported`: the function is neither built in nor installed, or does not support the column's type.
    """
    make = AGGREGATORS.get(call.function)
    function = make(call, dtype) if make else _load_installed(call, dtype)
    return IgnoreRetract(function) if call.ignore_retract else function


def _load_installed(call: AggregateCall, dtype: DataType) -> Aggregator:
    """Return a function of another package: an aggregator, or the result of a factory (such as a class)."""
    registered = load_plugin(AGGREGATE_FUNCTION_PLUGINS, call.function)
    if registered is None:
        raise Unsupported(f"the aggregate function {call.function!r}", hint=f"known are {', '.join(AGGREGATORS)}")
    made = registered(call, dtype) if callable(registered) else registered
    if not isinstance(made, Aggregator):
        raise Unsupported(
            f"the aggregate function {call.function!r}",
            hint=f"its entry point {AGGREGATE_FUNCTION_PLUGINS} has no Aggregator but {made!r}",
        )
    return made
