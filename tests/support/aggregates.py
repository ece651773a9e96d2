"""Single steps of aggregate functions, over tables of (accumulator, new value)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.merges.functions import find_aggregator
from morrow.readers.merges.functions.base import VALUE, Aggregator

Step = tuple[str, Any]
"""``("agg" | "agg_reversed" | "retract", value)``."""


def function(name: str, dtype: DataType, **options: Any) -> Aggregator:
    return find_aggregator(AggregateCall(name, **options), dtype)


def stepped(step: str, name: str, dtype: DataType, pairs: Sequence[tuple[Any, Any]], **options: Any) -> list[Any]:
    """Step the accumulator once for each pair (accumulator, new value), and check the column's dtype."""
    compiled, column = function(name, dtype, **options), to_polars_dtype(dtype)
    frame = pl.DataFrame(list(pairs), schema={"acc": column, "new": column}, orient="row")
    own = {name: pl.lit(value, dtype=kind) for name, (kind, value) in compiled.extra_state.items()}
    state = getattr(compiled, step)({VALUE: pl.col("acc"), **own}, pl.col("new"))
    result = frame.select(value=state[VALUE]).to_series()
    # A null literal lacks a dtype, and a fold casts it to the column's.
    assert result.dtype in (column, pl.Null())
    return result.to_list()


def folded(name: str, dtype: DataType, *steps: Step, **options: Any) -> Any:
    """Fold the steps of one key to its final value, as a merge does."""
    compiled, column = function(name, dtype, **options), to_polars_dtype(dtype)
    initial = {VALUE: (column, None), **compiled.extra_state}
    frame = pl.DataFrame([pl.Series(name, [value], dtype=kind) for name, (kind, value) in initial.items()])
    for step, value in steps:
        state = getattr(compiled, step)({name: pl.col(name) for name in initial}, pl.col("new"))
        given = frame.with_columns(pl.Series("new", [value], dtype=column))
        frame = given.select(state[name].cast(kind).alias(name) for name, (kind, _) in initial.items())
    return frame.select(compiled.finish(pl.col(VALUE))).item()
