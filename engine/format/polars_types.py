"""The Polars dtypes in which Morrow's frames hold values of Paimon types.

Polars has fewer types than Arrow, so some are represented by others:

================  ==========================================
Paimon            Polars
================  ==========================================
CHAR, VARCHAR     String
BINARY, BYTES     Binary
TIME              Time (nanoseconds)
TIMESTAMP(0)      Datetime("ms")
TIMESTAMP_LTZ     Datetime(unit, "UTC")
MAP, MULTISET     List(Struct{key, value})
ROW               Struct
VECTOR            Array(element, length)
VARIANT           Struct{value: Binary, metadata: Binary}
================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t

_ATOMIC: dict[type[t.DataType], pl.DataType] = {
    t.BooleanType: pl.Boolean(),
    t.TinyIntType: pl.Int8(),
    t.SmallIntType: pl.Int16(),
    t.IntType: pl.Int32(),
    t.BigIntType: pl.Int64(),
    t.FloatType: pl.Float32(),
    t.DoubleType: pl.Float64(),
    t.DateType: pl.Date(),
    t.TimeType: pl.Time(),
    t.CharType: pl.String(),
    t.VarCharType: pl.String(),
    t.BinaryType: pl.Binary(),
    t.VarBinaryType: pl.Binary(),
    t.BlobType: pl.Binary(),
    t.VariantType: pl.Struct({"value": pl.Binary(), "metadata": pl.Binary()}),
}


def _build_entries_dtype(key: t.DataType, value: t.DataType) -> pl.DataType:
    return pl.List(pl.Struct({"key": to_polars_dtype(key), "value": to_polars_dtype(value)}))


def _find_time_unit(precision: int) -> Any:
    unit = t.to_arrow_time_unit(precision)
    return "ms" if unit == "s" else unit


_PARAMETRIC: dict[type[t.DataType], Callable[[Any], pl.DataType]] = {
    t.DecimalType: lambda d: pl.Decimal(d.precision, d.scale),
    t.TimestampType: lambda d: pl.Datetime(_find_time_unit(d.precision)),
    t.LocalZonedTimestampType: lambda d: pl.Datetime(_find_time_unit(d.precision), "UTC"),
    t.ArrayType: lambda d: pl.List(to_polars_dtype(d.element)),
    t.VectorType: lambda d: pl.Array(to_polars_dtype(d.element), d.length),
    t.MapType: lambda d: _build_entries_dtype(d.key, d.value),
    t.MultisetType: lambda d: _build_entries_dtype(d.element, t.IntType()),
    t.RowType: lambda d: pl.Struct({field.name: to_polars_dtype(field.type) for field in d.fields}),
}


def to_polars_dtype(type: t.DataType) -> pl.DataType:
    """Return the Polars dtype in which Morrow's frames hold values of this Paimon type (see the table above).

    Raises:
        Unsupported: a type without Polars representation.
    """
    kind = type.__class__
    if kind in _ATOMIC:
        return _ATOMIC[kind]
    if kind in _PARAMETRIC:
        return _PARAMETRIC[kind](type)
    raise Unsupported(f"the type {type} in a Polars frame")


def to_polars_schema(fields: Sequence[t.DataField]) -> pl.Schema:
    """Return the Polars schema of a frame with these columns."""
    return pl.Schema({field.name: to_polars_dtype(field.type) for field in fields})
