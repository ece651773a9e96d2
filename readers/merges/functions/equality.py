"""Java's notions of equality, as columns that Polars can group by: an expression's `identities`.

Polars groups both zeros together, and all NaNs. Java has two notions, and Paimon uses both:

* *boxed* equality, that of `HashSet` and `HashMap` elements and of rows in binary form: ``0.0`` and ``-0.0`` differ,
  NaN is itself;
* *compared* equality, that of ``==`` in the comparison of rows and arrays: zeros are equal, NaN equals nothing.

In both, null equals null, and maps are equal whatever the order of their entries. Bytes are equal when they have the
same content. (Paimon 1.4 compares the identity of byte arrays in sets and map keys, so that no two are equal;
2.0 compares contents.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import polars as pl

from morrow.engine.format.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from morrow.engine.names import member

OnFloat: TypeAlias = Callable[[pl.Expr, DataType], pl.Expr]
Identities: TypeAlias = Callable[[pl.Expr, DataType], list[pl.Expr]]
"""Maps an expression to its identities: expressions that are all equal exactly for equal values."""

FLOATS = (FloatType, DoubleType)
LISTS = (ArrayType, VectorType)
MAPS = (MapType, MultisetType)
NAN = float("nan")


def boxed(value: pl.Expr, kind: DataType) -> list[pl.Expr]:
    """Returns identities for the equality of sets, of map keys and of binary rows; see the module."""
    return [_rebuilt(value, kind, _bits)]


def compared(value: pl.Expr, kind: DataType) -> list[pl.Expr]:
    """Returns identities for the equality of rows and arrays compared member by member; see the module."""
    natural = _rebuilt(value, kind, lambda number, _kind: number)
    if not _has(kind, FLOATS):
        return [natural]
    return [natural, pl.when(_has_nan(value, kind)).then(pl.int_range(pl.len()))]


def _bits(number: pl.Expr, kind: DataType) -> pl.Expr:
    dtype = pl.UInt64() if isinstance(kind, DoubleType) else pl.UInt32()
    return pl.when(number.is_nan()).then(NAN).otherwise(number).reinterpret(dtype=dtype)


def parts(kind: DataType) -> dict[str, DataType]:
    """Returns the types inside a type: of a row by member, else of the element, or of the key and value of an entry."""
    if isinstance(kind, RowType):
        return {field.name: field.type for field in kind.fields}
    if isinstance(kind, MapType):
        return {"key": kind.key, "value": kind.value}
    if isinstance(kind, MultisetType):
        return {"key": kind.element}
    return {"element": kind.element} if isinstance(kind, LISTS) else {}


def _has(kind: DataType, sought: tuple[type[DataType], ...]) -> bool:
    return isinstance(kind, sought) or any(_has(part, sought) for part in parts(kind).values())


def _rebuilt(value: pl.Expr, kind: DataType, on_float: OnFloat) -> pl.Expr:
    """Returns the value with `on_float` applied to each number in it, and with the entries of maps in order."""
    if isinstance(kind, FLOATS):
        return on_float(value, kind)
    if not _has(kind, (*FLOATS, *MAPS)):
        return value
    if isinstance(kind, RowType):
        return _members(value, parts(kind), on_float)
    if isinstance(kind, MAPS):
        entry = {"value": IntCount, **parts(kind)}
        return value.list.eval(_members(pl.element(), entry, on_float)).list.sort()
    values = value.arr.to_list() if isinstance(kind, VectorType) else value
    return values.list.eval(_rebuilt(pl.element(), parts(kind)["element"], on_float))


IntCount = DataType()
"""A placeholder for the counts of a multiset, which hold no floats."""


def _members(row: pl.Expr, members: dict[str, DataType], on_float: OnFloat) -> pl.Expr:
    rebuilt = [_rebuilt(member(row, name, list(members)), kind, on_float).alias(name) for name, kind in members.items()]
    return pl.when(row.is_not_null()).then(pl.struct(rebuilt))


def _has_nan(value: pl.Expr, kind: DataType) -> pl.Expr:
    """Returns whether a value whose type has floats holds NaN; never null."""
    if isinstance(kind, FLOATS):
        return value.is_nan().fill_null(False)
    if isinstance(kind, RowType):
        return _any_nan(value, parts(kind))
    if isinstance(kind, MAPS):
        return value.list.eval(_any_nan(pl.element(), parts(kind))).list.any().fill_null(False)
    values = value.arr.to_list() if isinstance(kind, VectorType) else value
    return values.list.eval(_has_nan(pl.element(), parts(kind)["element"])).list.any().fill_null(False)


def _any_nan(row: pl.Expr, members: dict[str, DataType]) -> pl.Expr:
    names = list(members)
    floats = {name: kind for name, kind in members.items() if _has(kind, FLOATS)}
    return pl.any_horizontal(_has_nan(member(row, name, names), kind) for name, kind in floats.items())
