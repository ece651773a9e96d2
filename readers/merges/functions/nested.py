"""nested_update and nested_partial_update: an array of rows as a small table, with or without a key.

Null rows are dropped when two arrays are merged.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from morrow.engine.format.types import ArrayType, DataType, RowType
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.names import member
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.merges.functions.base import VALUE, Aggregator, Make, State, unless_null
from morrow.readers.merges.functions.elements import ELEMENT, IS_NEW, ROW, Elements, folded
from morrow.readers.merges.functions.equality import boxed, compared


def _row_type(kind: DataType) -> RowType:
    assert isinstance(kind, ArrayType) and isinstance(kind.element, RowType)
    return kind.element


def _key(rows: RowType, names: tuple[str, ...]) -> list[pl.Expr]:
    """Returns the identity of a row by these members; null equals null."""
    members = {field.name: field.type for field in rows.fields}
    return [same for name in names for same in boxed(member(ELEMENT, name, list(members)), members[name])]


class NestedUpdate(Aggregator):
    """The concatenation of rows up to `count_limit` elements; a longer accumulator stays as it is.

    A retraction removes all rows that equal one of its own.
    """

    def __init__(self, kind: DataType, count_limit: int) -> None:
        self.dtype = polars_dtype(kind)
        self.count_limit = count_limit
        self.identity = compared(ELEMENT, _row_type(kind))

    def agg(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        room = pl.max_horizontal(self.count_limit - array.list.len().cast(pl.Int64), 0)
        rows = self.updated(array.list.drop_nulls(), new.list.drop_nulls().list.head(room))
        return {VALUE: unless_null(array, new, pl.when(room > 0).then(rows).otherwise(array))}

    def updated(self, rows: pl.Expr, new: pl.Expr) -> pl.Expr:
        """Returns both arrays in one; neither has null rows."""
        return pl.concat_list(rows, new)

    def retract(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        left = folded(array, new, self._left, dtype=self.dtype, identity=self.identity, nulls=False)
        return {VALUE: pl.when(array.is_not_null() & new.is_not_null()).then(left).otherwise(array)}

    def _left(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(~IS_NEW & (elements.new_ones() == 0))


class NestedUpdateByKey(NestedUpdate):
    """Rows by key, later ones replacing earlier ones; their order is unspecified, as in Paimon.

    The limit counts rows before keys are matched. A retraction removes the keys that it has.
    """

    def __init__(self, kind: DataType, count_limit: int, key: tuple[str, ...]) -> None:
        super().__init__(kind, count_limit)
        self.identity = _key(_row_type(kind), key)

    def updated(self, rows: pl.Expr, new: pl.Expr) -> pl.Expr:
        return folded(rows, new, self._upserted, dtype=self.dtype, identity=self.identity, nulls=False)

    def _upserted(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(elements.is_last())

    def _left(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(elements.is_last() & (elements.new_ones() == 0))


class NestedPartialUpdate(Aggregator):
    """Rows by key, non-null members overwriting those of the row with the same key."""

    def __init__(self, kind: DataType, key: tuple[str, ...]) -> None:
        self.dtype = polars_dtype(kind)
        self.rows = _row_type(kind)
        self.identity = _key(self.rows, key)

    def agg(self, state: State, new: pl.Expr) -> State:
        rows = folded(state[VALUE], new, self._updated, dtype=self.dtype, identity=self.identity, nulls=False)
        return {VALUE: unless_null(state[VALUE], new, rows)}

    def _updated(self, elements: Elements) -> pl.DataFrame:
        names = [field.name for field in self.rows.fields]
        newest = [member(ELEMENT, name, names).drop_nulls().last().alias(f"newest {name}") for name in names]
        rows = elements.frame.group_by(elements.same, maintain_order=True).agg(newest)
        return rows.select(ROW, pl.struct(pl.col(f"newest {name}").alias(name) for name in names).alias("element"))


def _nested_update(call: AggregateCall, kind: DataType) -> Aggregator:
    if call.nested_key:
        return NestedUpdateByKey(kind, call.count_limit, call.nested_key)
    return NestedUpdate(kind, call.count_limit)


def _nested_partial_update(call: AggregateCall, kind: DataType) -> Aggregator:
    return NestedPartialUpdate(kind, call.nested_key)


AGGREGATORS: Mapping[str, Make] = {
    "nested_update": _nested_update,
    "nested_partial_update": _nested_partial_update,
}
