"""The aggregate functions by name, each in a few lines of plain Python."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.functions import arithmetic, nested, picks, sketches
from tests.oracle.functions.base import Aggregator, Call, IgnoreRetract

AGGREGATORS: dict[str, Callable[[Call], Aggregator]] = {
    "primary-key": picks.PrimaryKey,
    "last_value": picks.LastValue,
    "last_non_null_value": picks.LastNonNullValue,
    "first_value": picks.FirstValue,
    "first_non_null_value": picks.FirstNonNullValue,
    "first_not_null_value": picks.FirstNonNullValue,
    "max": picks.Max,
    "min": picks.Min,
    "bool_and": picks.BoolAnd,
    "bool_or": picks.BoolOr,
    "sum": arithmetic.Sum,
    "product": arithmetic.Product,
    "listagg": nested.Listagg,
    "collect": nested.Collect,
    "merge_map": nested.MergeMap,
    "merge_map_with_keytime": nested.MergeMapWithKeyTime,
    "nested_update": nested.NestedUpdate,
    "nested_partial_update": nested.NestedPartialUpdate,
    "rbm32": sketches.Rbm32,
    "rbm64": sketches.Rbm64,
    "hll_sketch": sketches.HllSketch,
    "theta_sketch": sketches.ThetaSketch,
}


def aggregator(call: Call) -> Aggregator:
    made = AGGREGATORS[call.function](call)
    return IgnoreRetract(made) if call.flag("ignore-retract") else made


__all__ = ["AGGREGATORS", "Aggregator", "Call", "aggregator"]
