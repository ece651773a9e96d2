"""collect, merge_map and merge_map_with_keytime: arrays and maps that collect the elements of all versions."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VarBinaryType,
    VectorType,
)
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.names import member
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.merges.functions.base import VALUE, Aggregator, Make, State, unless_null
from morrow.readers.merges.functions.elements import ELEMENT, IS_NEW, ROW, Elements, folded
from morrow.readers.merges.functions.equality import boxed, compared
from morrow.readers.merges.functions.hash_order import can_hash, in_hash_order

COMPARED = (ArrayType, VectorType, MapType, MultisetType, RowType, BinaryType, VarBinaryType)
"""Elements that are compared member by member, not hashed; see `Collect`."""

KEY = ELEMENT.struct.field("key")
ENTRY_VALUE = ELEMENT.struct.field("value")

AFTER_SURROGATES = "([\ue000-\uffff])"
HIGHEST = "\U0010ffff${1}"
"""Java compares UTF-16 units: characters from U+E000 on sort after those of two units."""


class Collect(Aggregator):
    """The concatenation of all arrays; a null array adds nothing.

    A retraction removes, for each of its elements, the first equal one.
    """

    def __init__(self, kind: ArrayType) -> None:
        self.dtype = polars_dtype(kind)
        self.identity = boxed(ELEMENT, kind.element)

    def agg(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        return {VALUE: unless_null(array, new, pl.concat_list(array, new))}

    def agg_reversed(self, state: State, new: pl.Expr) -> State:
        """Appends the same way: older elements are appended too."""
        return self.agg(state, new)

    def retract(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        left = folded(array, new, self._left, dtype=self.dtype, identity=self.identity)
        return {VALUE: pl.when(array.is_not_null() & new.is_not_null()).then(left).otherwise(array)}

    def _left(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(~IS_NEW & (elements.occurrence() >= elements.new_ones()))


class CollectDistinct(Collect):
    """The concatenation of all arrays without elements that are already present.

    Elements of atomic types go through a hash set, so duplicates in the accumulator are dropped, and all are returned
    in the set's order. Nested ones (and bytes) are compared one by one: the accumulator's elements stay as they are.
    """

    def __init__(self, kind: ArrayType) -> None:
        super().__init__(kind)
        self.element = kind.element
        self.keeps_accumulator = isinstance(kind.element, COMPARED)
        if self.keeps_accumulator:
            self.identity = compared(ELEMENT, kind.element)

    def agg(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        union = folded(array, new, self._union, dtype=self.dtype, identity=self.identity)
        return {VALUE: pl.when(array.is_not_null() | new.is_not_null()).then(union)}

    def _union(self, elements: Elements) -> pl.DataFrame:
        stays = ~IS_NEW if self.keeps_accumulator else pl.lit(False)
        union = elements.frame.filter(stays | (elements.occurrence() == 0))
        return in_hash_order(union, self.element) if can_hash(self.element) else union


class MergeMap(Aggregator):
    """The union of all maps; later entries replace earlier ones. A retraction removes the keys that it has."""

    def __init__(self, kind: MapType) -> None:
        self.dtype = polars_dtype(kind)
        self.identity = boxed(KEY, kind.key)

    def agg(self, state: State, new: pl.Expr) -> State:
        entries = folded(state[VALUE], new, self._merged, dtype=self.dtype, identity=self.identity)
        return {VALUE: unless_null(state[VALUE], new, entries)}

    def _merged(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(elements.is_last())

    def retract(self, state: State, new: pl.Expr) -> State | None:
        left = folded(state[VALUE], new, self._left, dtype=self.dtype, identity=self.identity)
        return {VALUE: pl.when(state[VALUE].is_not_null() & new.is_not_null()).then(left).otherwise(state[VALUE])}

    def _left(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(elements.is_last() & (elements.new_ones() == 0))


class MergeMapWithKeyTime(MergeMap):
    """The union of maps of rows: per key the row with the greater time wins, the accumulator's when they are equal.

    A new entry that is null removes the key; one without time changes nothing. The accumulator's entry is replaced by
    any time when it is null or has none. Times are texts. Keys of a map are unique, as everywhere.
    """

    def __init__(self, kind: MapType, time: str) -> None:
        super().__init__(kind)
        assert isinstance(kind.value, RowType)
        self.members = [field.name for field in kind.value.fields]
        self.time = time

    def retract(self, state: State, new: pl.Expr) -> State | None:  # noqa: ARG002
        return None

    def _merged(self, elements: Elements) -> pl.DataFrame:
        time = member(ENTRY_VALUE, self.time, self.members).str.replace_all(AFTER_SURROGATES, HIGHEST)
        old, new = ~IS_NEW, IS_NEW
        keys = elements.frame.group_by(elements.same, maintain_order=True).agg(
            old.any().alias("has old"),
            new.any().alias("has new"),
            ELEMENT.filter(old).last().alias("old"),
            ELEMENT.filter(new).last().alias("new"),
            time.filter(old).last().alias("old time"),
            time.filter(new).last().alias("new time"),
        )
        removes = pl.col("has new") & pl.col("new").struct.field("value").is_null()
        newer = pl.col("new time").is_not_null() & (
            pl.col("old time").is_null() | (pl.col("new time") > pl.col("old time"))
        )
        stays = pl.col("has old") | newer
        return keys.filter(~removes & stays).select(ROW, pl.when(newer).then("new").otherwise("old").alias("element"))


def _collect(call: AggregateCall, kind: DataType) -> Aggregator:
    assert isinstance(kind, ArrayType)
    return CollectDistinct(kind) if call.distinct else Collect(kind)


def _merge_map(_call: AggregateCall, kind: DataType) -> Aggregator:
    assert isinstance(kind, MapType)
    return MergeMap(kind)


def _keytime(call: AggregateCall, kind: DataType) -> Aggregator:
    assert isinstance(kind, MapType)
    if call.timestamp_field is None:
        raise InvalidArgument(f"{call.function} needs to know which member of the map's rows is the time")
    return MergeMapWithKeyTime(kind, call.timestamp_field)


AGGREGATORS: Mapping[str, Make] = {
    "collect": _collect,
    "merge_map": _merge_map,
    "merge_map_with_keytime": _keytime,
}
