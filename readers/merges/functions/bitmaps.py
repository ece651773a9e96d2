"""rbm32 and rbm64: unions of Java's roaring bitmaps, kept in byte columns.

There is no vectorised union: bitmaps are united one by one, for keys with several versions only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import polars as pl

from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall
from morrow.readers.merges.functions import roaring32, roaring64
from morrow.readers.merges.functions.base import VALUE, Aggregator, Make, State, unless_null


class Union(Protocol):
    """A function that unites two values as bytes."""

    def __call__(self, first: bytes, second: bytes, *, function: str) -> bytes: ...


class BytesUnion(Aggregator):
    """The union of two values; a single value stays as it is, unparsed.

    Raises `CorruptValue` while it runs for bytes that are no value of the function.
    """

    def __init__(self, function: str, union: Union) -> None:
        self.function = function
        self.union = union

    def agg(self, state: State, new: pl.Expr) -> State:
        accumulator = state[VALUE]
        pairs = pl.struct(accumulator.alias("accumulator"), new.alias("new"))
        united = pairs.map_batches(self._united, return_dtype=pl.Binary(), is_elementwise=True)
        return {VALUE: unless_null(accumulator, new, united)}

    def _united(self, pairs: pl.Series) -> pl.Series:
        firsts, seconds = pairs.struct.field("accumulator"), pairs.struct.field("new")
        values = [
            None if first is None or second is None else self.union(first, second, function=self.function)
            for first, second in zip(firsts, seconds)
        ]
        return pl.Series(values, dtype=pl.Binary())


def make_union(union: Union) -> Callable[[AggregateCall, DataType], Aggregator]:
    """Returns the `Make` of a function that unites values of bytes."""
    return lambda call, _kind: BytesUnion(call.function, union)


AGGREGATORS: Mapping[str, Make] = {"rbm32": make_union(roaring32.union), "rbm64": make_union(roaring64.union)}
