"""Aggregate functions of arrays and maps: collect, merge_map, merge_map_with_keytime, nested_update and similar ones.

The elements of two columns of lists become one long frame, and lists again, so that list functions work on whole
columns. The frame has one line per element: first the elements of the accumulators, then the elements of the new
values, each in order.

==========  =========================================================================
``row``     number of the element's pair of lists, from 0
``is_new``  whether it belongs to the new value
``element`` the element
``same 0``  and further: its identity, or part of it, `identify_boxed`
==========  =========================================================================

nested_update and nested_partial_update treat an array of rows as a small table, with or without a key. Null rows are
dropped when two arrays are merged.

Polars groups both zeros together, and all NaNs. Java has two notions, and Paimon uses both:

* *boxed* equality, that of `HashSet` and `HashMap` elements and of rows in binary form: ``0.0`` and ``-0.0`` differ,
  NaN is itself;
* *compared* equality, used by ``==`` in the comparison of rows and arrays: zeros are equal, NaN equals nothing.

In both, null equals null, and maps are equal regardless of the order of their entries. Bytes are equal if they have the
same content. (Paimon 1.4 compares the identity of byte arrays in sets and map keys, so that no two are equal;
2.0 compares contents.)

``collect`` with ``distinct`` leaves arrays in the iteration order of Java's HashSet. A table of n buckets (a power of
two, at most three quarters full) is walked from bucket 0 on; elements of one bucket are in insertion order. An
element's bucket is ``(h ^ h >>> 16) & (n - 1)`` of its ``hashCode()``, which is

=================  ==============================================================
BOOLEAN            1231 or 1237
up to 32 bits      the integer; of DATE the days, of TIME the milliseconds
BIGINT, DOUBLE     upper half ^ lower half, of a DOUBLE's bits
FLOAT              the bits
CHAR, VARCHAR      murmur3 of the UTF-8 bytes, seed 42, the last bytes one by one
DECIMAL            31 * hash of the unscaled integer + scale
TIMESTAMP, _LTZ    31 * (halves of the milliseconds ^) + nanoseconds within one
=================  ==============================================================

Buckets of nine or more elements, which Java turns into trees or avoids by a larger table, are not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import find_byte_spans, to_arrow_array
from morrow.engine.format.binary_row_encoder import hash_bytes
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.names import col, get_member
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.merges.functions.base import VALUE, Aggregator, Make, State, combine_non_null


def _get_row_type(kind: t.DataType) -> t.RowType:
    assert isinstance(kind, t.ArrayType) and isinstance(kind.element, t.RowType)
    return kind.element


def _identify_row(rows: t.RowType, names: tuple[str, ...]) -> list[pl.Expr]:
    """Return the identity of a row by these members; null equals null."""
    members = {field.name: field.type for field in rows.fields}
    return [same for name in names for same in identify_boxed(get_member(ELEMENT, name, list(members)), members[name])]


class NestedUpdate(Aggregator):
    """The concatenation of rows up to `count_limit` elements; a longer accumulator stays as it is.

    A retraction removes all rows that equal one of the retracted rows.
    """

    def __init__(self, kind: t.DataType, count_limit: int) -> None:
        self.dtype = to_polars_dtype(kind)
        self.count_limit = count_limit
        self.identity = identify_compared(ELEMENT, _get_row_type(kind))

    def agg(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        room = pl.max_horizontal(self.count_limit - array.list.len().cast(pl.Int64), 0)
        rows = self.updated(array.list.drop_nulls(), new.list.drop_nulls().list.head(room))
        return {VALUE: combine_non_null(array, new, pl.when(room > 0).then(rows).otherwise(array))}

    def updated(self, rows: pl.Expr, new: pl.Expr) -> pl.Expr:
        """Return both arrays in one; neither has null rows."""
        return pl.concat_list(rows, new)

    def retract(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        left = fold_elements(array, new, self._subtract, dtype=self.dtype, identity=self.identity, nulls=False)
        return {VALUE: pl.when(array.is_not_null() & new.is_not_null()).then(left).otherwise(array)}

    def _subtract(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(~IS_NEW & (elements.new_ones() == 0))


class NestedUpdateByKey(NestedUpdate):
    """Rows by key; later rows replace earlier rows. Their order is unspecified, as in Paimon.

    The limit counts rows before keys are matched. A retraction removes the rows with the retracted keys.
    """

    def __init__(self, kind: t.DataType, count_limit: int, key: tuple[str, ...]) -> None:
        super().__init__(kind, count_limit)
        self.identity = _identify_row(_get_row_type(kind), key)

    def updated(self, rows: pl.Expr, new: pl.Expr) -> pl.Expr:
        return fold_elements(rows, new, self._upsert, dtype=self.dtype, identity=self.identity, nulls=False)

    def _upsert(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(elements.is_last())

    def _subtract(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(elements.is_last() & (elements.new_ones() == 0))


class NestedUpdateBySequence(NestedUpdateByKey):
    """Rows by key; the row with the greatest sequence of each key stays, among equal ones the later row.

    The limit counts keys; rows of new keys beyond it are left out. Null is the least sequence.
    """

    def __init__(self, kind: t.DataType, call: AggregateCall) -> None:
        super().__init__(kind, call.count_limit, call.nested_key)
        self.nulls = NullKeys(_get_row_type(kind), call)
        names = [field.name for field in _get_row_type(kind).fields]
        self.sequence = [get_member(ELEMENT, name, names) for name in call.nested_sequence]

    def agg(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        return {VALUE: pl.when(new.is_null()).then(array).otherwise(self.updated(array, new))}

    def _upsert(self, elements: Elements) -> pl.DataFrame:
        frame = self.nulls.handle(elements).frame.with_row_index("place")
        if self.sequence:
            frame = frame.sort(self.sequence, nulls_last=False, maintain_order=True)
        of_key = frame.group_by(elements.same).agg(ELEMENT.last(), pl.col("place").min(), IS_NEW.all())
        of_key = of_key.sort("row", "place")
        keys = (~IS_NEW).sum().over("row") + IS_NEW.cum_sum().over("row")
        return of_key.filter(~IS_NEW | (keys <= self.count_limit)).select(ROW, ELEMENT)

    def _subtract(self, elements: Elements) -> pl.DataFrame:
        return super()._subtract(self.nulls.handle(elements))


@dataclass(frozen=True)
class NullKeys:
    """The handling of nested rows with a null in their key: ``nested-key-null-strategy``."""

    rows: t.RowType
    call: AggregateCall

    def handle(self, elements: Elements) -> Elements:
        """Return the elements, without those with a null key if they are ignored.

        Raises `InvalidArgument`: the strategy is ``error``, and a key is null.
        """
        if self.call.nested_nulls == MERGE_NULLS:
            return elements
        names = [field.name for field in self.rows.fields]
        has_null = pl.any_horizontal(get_member(ELEMENT, name, names).is_null() for name in self.call.nested_key)
        kept = elements.frame.filter(~has_null)
        if self.call.nested_nulls == REFUSE_NULLS and kept.height < elements.frame.height:
            raise InvalidArgument(
                f"a nested row whose key ({', '.join(self.call.nested_key)}) has a null; write another key, or set "
                "'nested-key-null-strategy' to ignore or merge"
            )
        return Elements(kept, elements.same)


MERGE_NULLS, REFUSE_NULLS = "merge", "error"
"""Values of ``nested-key-null-strategy``; the third one is ``ignore``."""


class NestedPartialUpdate(Aggregator):
    """Rows by key; non-null members overwrite the members of the row with the same key."""

    def __init__(self, kind: t.DataType, call: AggregateCall) -> None:
        self.dtype = to_polars_dtype(kind)
        self.rows = _get_row_type(kind)
        self.nulls = NullKeys(self.rows, call)
        self.identity = _identify_row(self.rows, call.nested_key)

    def agg(self, state: State, new: pl.Expr) -> State:
        rows = fold_elements(state[VALUE], new, self._update, dtype=self.dtype, identity=self.identity, nulls=False)
        return {VALUE: combine_non_null(state[VALUE], new, rows)}

    def _update(self, elements: Elements) -> pl.DataFrame:
        elements = self.nulls.handle(elements)
        names = [field.name for field in self.rows.fields]
        newest = [get_member(ELEMENT, name, names).drop_nulls().last().alias(f"newest {name}") for name in names]
        rows = elements.frame.group_by(elements.same, maintain_order=True).agg(newest)
        return rows.select(ROW, pl.struct(pl.col(f"newest {name}").alias(name) for name in names).alias("element"))


def _make_nested_update(call: AggregateCall, kind: t.DataType) -> Aggregator:
    if call.nested_sequence or call.nested_nulls != MERGE_NULLS:
        return NestedUpdateBySequence(kind, call)
    if call.nested_key:
        return NestedUpdateByKey(kind, call.count_limit, call.nested_key)
    return NestedUpdate(kind, call.count_limit)


def _make_nested_partial_update(call: AggregateCall, kind: t.DataType) -> Aggregator:
    return NestedPartialUpdate(kind, call)


NESTED_FUNCTIONS: Mapping[str, Make] = {
    "nested_update": _make_nested_update,
    "nested_partial_update": _make_nested_partial_update,
}

ROW = pl.col("row")
IS_NEW = pl.col("is_new")
ELEMENT = pl.col("element")


@dataclass(frozen=True)
class Elements:
    """The frame described in the module, with the names of its identifying columns; ``row`` is the first."""

    frame: pl.DataFrame
    same: tuple[str, ...]

    def occurrence(self) -> pl.Expr:
        """Return the number of equal elements of the row that precede this one."""
        return pl.int_range(pl.len()).over(self.same)

    def is_last(self) -> pl.Expr:
        """Return whether no equal element of the row follows."""
        return pl.int_range(pl.len()).over(self.same) == pl.len().over(self.same) - 1

    def new_ones(self) -> pl.Expr:
        """Return the number of new elements of the row that equal this one."""
        return IS_NEW.sum().over(self.same)


Step: TypeAlias = Callable[[Elements], pl.DataFrame]
"""Maps the input elements to the result's elements: lines of ``row`` and ``element``, in order within each row."""


def fold_elements(
    accumulator: pl.Expr,
    new: pl.Expr,
    step: Step,
    *,
    dtype: pl.DataType,
    identity: Sequence[pl.Expr],
    nulls: bool = True,
) -> pl.Expr:
    """Return lists made of the elements of two columns of lists by `step`; never null.

    Args:
        dtype: the dtype of the lists in both columns and the result.
        identity: the identity of an element, as expressions of `ELEMENT`.
        nulls: whether elements may be null; if not, null elements are left out first.
    """

    def fold(pairs: pl.Series) -> pl.Series:
        lists = pairs.struct.unnest().with_row_index("row")
        sides = [_unfold_side(lists, "accumulator", is_new=False), _unfold_side(lists, "new", is_new=True)]
        frame = pl.concat(sides)
        if not nulls:
            frame = frame.filter(ELEMENT.is_not_null())
        frame = frame.with_columns(expression.alias(f"same {i}") for i, expression in enumerate(identity))
        result = step(Elements(frame, ("row", *(f"same {i}" for i in range(len(identity))))))
        return _collect_lists(result, len(pairs), dtype)

    pairs = pl.struct(accumulator.alias("accumulator"), new.alias("new"))
    return pairs.map_batches(fold, return_dtype=dtype, is_elementwise=True)


def _unfold_side(lists: pl.DataFrame, name: str, *, is_new: bool) -> pl.DataFrame:
    column = lists.select(ROW, pl.lit(is_new).alias("is_new"), col(name).alias("element"))
    return column.explode("element", empty_as_null=False, keep_nulls=False)


def _collect_lists(elements: pl.DataFrame, count: int, dtype: pl.DataType) -> pl.Series:
    """Return `count` lists with the elements of each row; the list is empty for rows without elements."""
    lists = elements.group_by("row", maintain_order=True).agg("element")
    rows = pl.DataFrame({"row": pl.int_range(count, dtype=pl.UInt32, eager=True)})
    joined = rows.join(lists, on="row", how="left", maintain_order="left")["element"].cast(dtype)
    return joined.fill_null(pl.Series([[]], dtype=dtype)) if joined.null_count() else joined


COMPARED = (t.ArrayType, t.VectorType, t.MapType, t.MultisetType, t.RowType, t.BinaryType, t.VarBinaryType)
"""Elements that are compared member by member, not hashed; see `Collect`."""

KEY = ELEMENT.struct.field("key")
ENTRY_VALUE = ELEMENT.struct.field("value")

AFTER_SURROGATES = "([\ue000-\uffff])"
HIGHEST = "\U0010ffff${1}"
"""Java compares UTF-16 units: characters from U+E000 on sort after characters of two units."""


class Collect(Aggregator):
    """The concatenation of all arrays; a null array adds nothing.

    A retraction removes, for each of its elements, the first equal one.
    """

    def __init__(self, kind: t.ArrayType) -> None:
        self.dtype = to_polars_dtype(kind)
        self.identity = identify_boxed(ELEMENT, kind.element)

    def agg(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        return {VALUE: combine_non_null(array, new, pl.concat_list(array, new))}

    def agg_reversed(self, state: State, new: pl.Expr) -> State:
        """Append older elements too, in the same way as newer ones."""
        return self.agg(state, new)

    def retract(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        left = fold_elements(array, new, self._subtract, dtype=self.dtype, identity=self.identity)
        return {VALUE: pl.when(array.is_not_null() & new.is_not_null()).then(left).otherwise(array)}

    def _subtract(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(~IS_NEW & (elements.occurrence() >= elements.new_ones()))


class CollectDistinct(Collect):
    """The concatenation of all arrays without elements that are already present.

    Elements of atomic types go through a hash set, so duplicates in the accumulator are dropped, and all are returned
    in the set's order. Nested elements and bytes are compared one by one: the accumulator's elements stay as they are.
    """

    def __init__(self, kind: t.ArrayType) -> None:
        super().__init__(kind)
        self.element = kind.element
        self.keeps_accumulator = isinstance(kind.element, COMPARED)
        if self.keeps_accumulator:
            self.identity = identify_compared(ELEMENT, kind.element)

    def agg(self, state: State, new: pl.Expr) -> State:
        array = state[VALUE]
        union = fold_elements(array, new, self._union, dtype=self.dtype, identity=self.identity)
        return {VALUE: pl.when(array.is_not_null() | new.is_not_null()).then(union)}

    def _union(self, elements: Elements) -> pl.DataFrame:
        stays = ~IS_NEW if self.keeps_accumulator else pl.lit(False)
        union = elements.frame.filter(stays | (elements.occurrence() == 0))
        return sort_by_hash(union, self.element) if is_hashable(self.element) else union


class MergeMap(Aggregator):
    """The union of all maps; later entries replace earlier ones. A retraction removes its keys."""

    def __init__(self, kind: t.MapType) -> None:
        self.dtype = to_polars_dtype(kind)
        self.identity = identify_boxed(KEY, kind.key)

    def agg(self, state: State, new: pl.Expr) -> State:
        entries = fold_elements(state[VALUE], new, self._merge, dtype=self.dtype, identity=self.identity)
        return {VALUE: combine_non_null(state[VALUE], new, entries)}

    def _merge(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(elements.is_last())

    def retract(self, state: State, new: pl.Expr) -> State | None:
        left = fold_elements(state[VALUE], new, self._subtract, dtype=self.dtype, identity=self.identity)
        return {VALUE: pl.when(state[VALUE].is_not_null() & new.is_not_null()).then(left).otherwise(state[VALUE])}

    def _subtract(self, elements: Elements) -> pl.DataFrame:
        return elements.frame.filter(elements.is_last() & (elements.new_ones() == 0))


class MergeMapWithKeyTime(MergeMap):
    """The union of maps of rows: per key the row with the greater time wins, and the accumulator's row if equal.

    A null entry in the new value removes the key; an entry without a time changes nothing. If the accumulator's entry
    is null or lacks a time, an entry with any time replaces it. Times are texts. Keys of a map are unique.
    """

    def __init__(self, kind: t.MapType, time: str) -> None:
        super().__init__(kind)
        assert isinstance(kind.value, t.RowType)
        self.members = [field.name for field in kind.value.fields]
        self.time = time

    def retract(self, state: State, new: pl.Expr) -> State | None:  # noqa: ARG002
        return None

    def _merge(self, elements: Elements) -> pl.DataFrame:
        time = get_member(ENTRY_VALUE, self.time, self.members).str.replace_all(AFTER_SURROGATES, HIGHEST)
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


def _collect(call: AggregateCall, kind: t.DataType) -> Aggregator:
    assert isinstance(kind, t.ArrayType)
    return CollectDistinct(kind) if call.distinct else Collect(kind)


def _merge_map(_call: AggregateCall, kind: t.DataType) -> Aggregator:
    assert isinstance(kind, t.MapType)
    return MergeMap(kind)


def _make_keytime(call: AggregateCall, kind: t.DataType) -> Aggregator:
    assert isinstance(kind, t.MapType)
    if call.timestamp_field is None:
        raise InvalidArgument(f"{call.function} needs to know which member of the map's rows is the time")
    return MergeMapWithKeyTime(kind, call.timestamp_field)


COLLECTION_FUNCTIONS: Mapping[str, Make] = {
    "collect": _collect,
    "merge_map": _merge_map,
    "merge_map_with_keytime": _make_keytime,
}

OnFloat: TypeAlias = Callable[[pl.Expr, t.DataType], pl.Expr]

FLOATS = (t.FloatType, t.DoubleType)
LISTS = (t.ArrayType, t.VectorType)
MAPS = (t.MapType, t.MultisetType)
NAN = float("nan")


def identify_boxed(value: pl.Expr, kind: t.DataType) -> list[pl.Expr]:
    """Return identities for the equality of sets, of map keys and of binary rows; see the module."""
    return [_rebuild_value(value, kind, _to_bits)]


def identify_compared(value: pl.Expr, kind: t.DataType) -> list[pl.Expr]:
    """Return identities for the equality of rows and arrays compared member by member; see the module."""
    natural = _rebuild_value(value, kind, lambda number, _kind: number)
    if not _has(kind, FLOATS):
        return [natural]
    return [natural, pl.when(_has_nan(value, kind)).then(pl.int_range(pl.len()))]


def _to_bits(number: pl.Expr, kind: t.DataType) -> pl.Expr:
    dtype = pl.UInt64() if isinstance(kind, t.DoubleType) else pl.UInt32()
    return pl.when(number.is_nan()).then(NAN).otherwise(number).reinterpret(dtype=dtype)


def list_inner_types(kind: t.DataType) -> dict[str, t.DataType]:
    """Return the types inside a type: the members of a row, the element, or the key and value of an entry."""
    if isinstance(kind, t.RowType):
        return {field.name: field.type for field in kind.fields}
    if isinstance(kind, t.MapType):
        return {"key": kind.key, "value": kind.value}
    if isinstance(kind, t.MultisetType):
        return {"key": kind.element}
    return {"element": kind.element} if isinstance(kind, LISTS) else {}


def _has(kind: t.DataType, sought: tuple[type[t.DataType], ...]) -> bool:
    return isinstance(kind, sought) or any(_has(part, sought) for part in list_inner_types(kind).values())


def _rebuild_value(value: pl.Expr, kind: t.DataType, on_float: OnFloat) -> pl.Expr:
    """Return the value with `on_float` applied to each number in it, and with the entries of maps in order."""
    if isinstance(kind, FLOATS):
        return on_float(value, kind)
    if not _has(kind, (*FLOATS, *MAPS)):
        return value
    if isinstance(kind, t.RowType):
        return _rebuild_members(value, list_inner_types(kind), on_float)
    if isinstance(kind, MAPS):
        entry = {"value": IntCount, **list_inner_types(kind)}
        return value.list.eval(_rebuild_members(pl.element(), entry, on_float)).list.sort()
    values = value.arr.to_list() if isinstance(kind, t.VectorType) else value
    return values.list.eval(_rebuild_value(pl.element(), list_inner_types(kind)["element"], on_float))


IntCount = t.DataType()
"""A placeholder for the counts of a multiset, which hold no floats."""


def _rebuild_members(row: pl.Expr, members: dict[str, t.DataType], on_float: OnFloat) -> pl.Expr:
    rebuilt = [
        _rebuild_value(get_member(row, name, list(members)), kind, on_float).alias(name)
        for name, kind in members.items()
    ]
    return pl.when(row.is_not_null()).then(pl.struct(rebuilt))


def _has_nan(value: pl.Expr, kind: t.DataType) -> pl.Expr:
    """Return whether a value whose type has floats holds NaN; never null."""
    if isinstance(kind, FLOATS):
        return value.is_nan().fill_null(False)
    if isinstance(kind, t.RowType):
        return _has_any_nan(value, list_inner_types(kind))
    if isinstance(kind, MAPS):
        return value.list.eval(_has_any_nan(pl.element(), list_inner_types(kind))).list.any().fill_null(False)
    values = value.arr.to_list() if isinstance(kind, t.VectorType) else value
    return values.list.eval(_has_nan(pl.element(), list_inner_types(kind)["element"])).list.any().fill_null(False)


def _has_any_nan(row: pl.Expr, members: dict[str, t.DataType]) -> pl.Expr:
    names = list(members)
    floats = {name: kind for name, kind in members.items() if _has(kind, FLOATS)}
    return pl.any_horizontal(_has_nan(get_member(row, name, names), kind) for name, kind in floats.items())


Hashes = npt.NDArray[np.int64]
"""Hash codes as 32-bit patterns in 64-bit integers; null's is 0."""

MIN_BUCKETS = 16
MAX_LOAD = 0.75
WORD = 0xFFFF_FFFF


def sort_by_hash(elements: pl.DataFrame, dtype: t.DataType) -> pl.DataFrame:
    """Sort lines of ``row`` and distinct ``element``, given in insertion order, as a HashSet iterates over them."""
    spread = hash_codes(elements["element"], dtype)
    spread = spread ^ (spread >> 16)
    count = pl.len().over("row")
    doublings = (count / (MAX_LOAD * MIN_BUCKETS)).log(2).ceil().clip(0)
    buckets = MIN_BUCKETS * pl.lit(2).pow(doublings).cast(pl.Int64)
    placed = elements.with_columns((pl.lit(pl.Series(spread)) & (buckets - 1)).alias("bucket"))
    return placed.sort("row", "bucket", maintain_order=True).drop("bucket")


def is_hashable(dtype: t.DataType) -> bool:
    """Return whether the order is known: bytes hash by identity, and nested elements are not kept in a set."""
    return type(dtype) in HASHES


def hash_codes(values: pl.Series, dtype: t.DataType) -> Hashes:
    """Return ``hashCode()`` of each value."""
    return np.where(values.is_null().to_numpy(), 0, HASHES[type(dtype)](values) & WORD)


def _fold_halves(numbers: npt.NDArray[np.int64]) -> Hashes:
    halves: Hashes = (numbers ^ (numbers >> 32)) & WORD
    return halves


def _hash_integer(values: pl.Series) -> Hashes:
    integers: Hashes = values.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
    return integers


def _hash_boolean(values: pl.Series) -> Hashes:
    return np.where(values.fill_null(False).to_numpy(), 1231, 1237)


def _hash_time(values: pl.Series) -> Hashes:
    return _hash_integer(values) // 1_000_000


def _hash_float(values: pl.Series) -> Hashes:
    floats = values.fill_null(0.0).to_numpy()
    bits = np.where(np.isnan(floats), np.float32(np.nan), floats).view(np.int32)
    return bits.astype(np.int64)


def _hash_double(values: pl.Series) -> Hashes:
    doubles = values.fill_null(0.0).to_numpy()
    return _fold_halves(np.where(np.isnan(doubles), np.nan, doubles).view(np.int64))


def _hash_text(values: pl.Series) -> Hashes:
    return hash_bytes(*find_byte_spans(to_arrow_array(values, t.VarCharType()))).astype(np.int64)


def _hash_timestamp(values: pl.Series) -> Hashes:
    nanos_per_unit = {"ms": 1_000_000, "us": 1_000, "ns": 1}[values.dtype.time_unit]  # type: ignore[attr-defined]  # Datetime
    units_per_milli = 1_000_000 // nanos_per_unit
    units = _hash_integer(values)
    nanos = units % units_per_milli * nanos_per_unit
    return 31 * _fold_halves(units // units_per_milli) + nanos


def _hash_decimal(values: pl.Series) -> Hashes:
    scale = values.dtype.scale  # type: ignore[attr-defined]  # Decimal
    unscaled = values.fill_null(0).to_physical()
    magnitude = unscaled.abs()
    hashes = np.zeros(len(values), np.int64)
    for shift in (96, 64, 32, 0):  # the words of a BigInteger, the highest first
        word = (magnitude // (1 << shift)) & WORD
        hashes = (31 * hashes + word.cast(pl.Int64).to_numpy()) & WORD
    signed: Hashes = np.where((unscaled < 0).to_numpy(), -hashes, hashes)
    return 31 * signed + int(scale)


HASHES: Mapping[type[t.DataType], Callable[[pl.Series], Hashes]] = {
    t.BooleanType: _hash_boolean,
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType, t.DateType), _hash_integer),
    t.TimeType: _hash_time,
    t.BigIntType: lambda values: _fold_halves(_hash_integer(values)),
    t.FloatType: _hash_float,
    t.DoubleType: _hash_double,
    **dict.fromkeys((t.CharType, t.VarCharType), _hash_text),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _hash_timestamp),
    t.DecimalType: _hash_decimal,
}
