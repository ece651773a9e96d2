"""Canonical values: rows in the form of the golden files, from any Arrow data that a reader returns.

null; booleans; integers as numbers; FLOAT and DOUBLE as numbers or the texts NaN, Infinity, -Infinity; DECIMAL text
with its scale; binary types lower-case hex; DATE ``YYYY-MM-DD``; TIME ``HH:MM:SS.mmm``; TIMESTAMP
``YYYY-MM-DDTHH:MM:SS.ffffff`` (nine digits above precision 6), with ``Z`` when it is an instant; ARRAY a list; MAP and
MULTISET a list of ``[key, value]`` sorted by JSON text; ROW a list; VARIANT ``{"variant": "json text"}``.

Row-wise and slow on purpose, since the vectorised code is compared with it.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from morrow.engine.format import types as t
from tests.support.variant import variant_json

TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS_PER_DAY = 86_400
MICROS_PRECISION = 6
INT_BITS = 32
SHOWN_ROWS = 5

_json = msgspec.json.encode

Values = list[Any]


def rows_of(table: pa.Table, fields: Sequence[t.DataField]) -> list[list[Any]]:
    """Return the rows of a table in canonical values; its columns must be exactly `fields` in this order."""
    assert table.column_names == [f.name for f in fields]
    # Chunk by chunk: Arrow cannot combine the chunks that Polars exports for lists without elements.
    columns = [
        [value for piece in table.column(i).chunks for value in values_of(piece, f.type)] for i, f in enumerate(fields)
    ]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(table.num_rows)]


def values_of(array: pa.Array, kind: t.DataType) -> Values:
    """Convert one Arrow array of this Paimon type to canonical values."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return [None] * len(array)
    return CONVERTERS[type(kind)](array, kind)


def normal_rows(rows: Iterable[list[Any]], fields: Sequence[t.DataField]) -> list[list[Any]]:
    """Normalize rows of a golden file: FLOAT is rounded to 32 bits, and map entries get this module's order."""
    changing = [(i, f.type) for i, f in enumerate(fields) if isinstance(f.type, NOT_AS_WRITTEN)]
    normal = []
    for row in rows:
        assert len(row) == len(fields)
        values = list(row)
        for i, kind in changing:
            values[i] = _normal(values[i], kind)
        normal.append(values)
    return normal


def assert_same_rows(
    actual: Iterable[list[Any]],
    expected: Iterable[list[Any]],
    fields: Sequence[t.DataField],
    set_columns: Sequence[str] = (),
) -> None:
    """Assert that both have the same rows as multisets; arrays in `set_columns` are compared as sets."""
    assert_same_lines(actual, counted(expected, fields, set_columns), fields, set_columns)


Lines = Counter[bytes]
"""The number of times that each row occurs; rows are JSON, in which 1 differs from 1.0 and 0.0 from -0.0."""


def counted(rows: Iterable[list[Any]], fields: Sequence[t.DataField], set_columns: Sequence[str] = ()) -> Lines:
    """Count rows for `assert_same_lines`, to compare them several times."""
    sets = {i for i, f in enumerate(fields) if f.name in set_columns}
    if sets:
        rows = ([sorted(v, key=_json) if i in sets and v is not None else v for i, v in enumerate(row)] for row in rows)
    return Counter(map(_json, rows))


def assert_same_lines(
    actual: Iterable[list[Any]], want: Lines, fields: Sequence[t.DataField], set_columns: Sequence[str] = ()
) -> None:
    """Assert that rows equal expected rows that have been `counted`."""
    got = counted(actual, fields, set_columns)
    assert got == want, _difference(got, want, fields)


def _difference(got: Lines, want: Lines, fields: Sequence[t.DataField]) -> str:
    missing, extra = want - got, got - want
    lines = [f"{got.total()} rows for {want.total()}: {missing.total()} missing, {extra.total()} extra"]
    lines.append("columns: " + ", ".join(map(str, fields)))
    for sign, rows in (("missing", missing), ("extra", extra)):
        lines += [f"{sign}: {row.decode()}" for row in sorted(rows.elements())[:SHOWN_ROWS]]
    return "\n".join(lines)


NOT_AS_WRITTEN = (t.FloatType, t.DoubleType, t.ArrayType, t.VectorType, t.RowType, t.MapType, t.MultisetType)
"""Types whose values in golden files may differ from this module's form."""


def _normal(value: Any, kind: t.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, t.FloatType) and not isinstance(value, str):
        return _real(float32(value))
    if isinstance(kind, t.DoubleType) and not isinstance(value, str):
        return _real(float(value))
    if isinstance(kind, (t.ArrayType, t.VectorType)):
        return [_normal(item, kind.element) for item in value]
    if isinstance(kind, t.RowType):
        return [_normal(item, f.type) for item, f in zip(value, kind.fields, strict=True)]
    if isinstance(kind, (t.MapType, t.MultisetType)):
        key, item = (kind.key, kind.value) if isinstance(kind, t.MapType) else (kind.element, t.IntType())
        return sorted(([_normal(k, key), _normal(v, item)] for k, v in value), key=_json)
    return value


def float32(value: float) -> float:
    """Round to the nearest 32-bit number."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _each(function: Callable[[Any], Any]) -> Callable[[pa.Array, t.DataType], Values]:
    """Make a converter that calls `function` on each non-null value."""
    return lambda array, _: [None if v is None else function(v) for v in array.to_pylist()]


def _real(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _exact(array: pa.Array, expected: Callable[[pa.DataType], bool]) -> None:
    assert expected(array.type), f"unexpected Arrow type {array.type}"


def _boolean(array: pa.Array, _: t.DataType) -> Values:
    _exact(array, pa.types.is_boolean)
    return array.to_pylist()  # type: ignore[no-any-return]  # pyarrow ships no types


def _integer(array: pa.Array, _: t.DataType) -> Values:
    _exact(array, pa.types.is_signed_integer)
    return array.to_pylist()  # type: ignore[no-any-return]  # pyarrow ships no types


def _text(array: pa.Array, _: t.DataType) -> Values:
    _exact(array, lambda a: pa.types.is_string(a) or pa.types.is_large_string(a) or pa.types.is_string_view(a))
    return array.to_pylist()  # type: ignore[no-any-return]  # pyarrow ships no types


def _decimal(array: pa.Array, kind: t.DataType) -> Values:
    assert isinstance(kind, t.DecimalType) and array.type.scale == kind.scale, f"{array.type} for {kind}"
    return [None if v is None else format(v, "f") for v in array.to_pylist()]


def _time(array: pa.Array, _: t.DataType) -> Values:
    per_milli = TICKS_PER_SECOND[array.type.unit] // 1000
    millis = [None if v is None else v // per_milli for v in _ticks(array)]
    return [None if v is None else f"{_clock(v // 1000)}.{v % 1000:03d}" for v in millis]


def _timestamp(array: pa.Array, kind: t.DataType) -> Values:
    assert isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType))
    instant = isinstance(kind, t.LocalZonedTimestampType)
    assert bool(array.type.tz) == instant, f"{array.type} for {kind}"
    per_second = TICKS_PER_SECOND[array.type.unit]
    digits = 6 if kind.precision <= MICROS_PRECISION else 9
    scale = 10**9 // per_second

    def show(ticks: int) -> str:
        seconds, rest = divmod(ticks, per_second)
        days, second = divmod(seconds, SECONDS_PER_DAY)
        fraction = f"{rest * scale:09d}"[:digits]
        return f"{_date(days)}T{_clock(second)}.{fraction}{'Z' if instant else ''}"

    return [None if v is None else show(v) for v in _ticks(array)]


def _ticks(array: pa.Array) -> Values:
    width = pa.int32() if array.type.bit_width == INT_BITS else pa.int64()
    return array.view(width).to_pylist()  # type: ignore[no-any-return]  # pyarrow ships no types


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _date(epoch_day: int) -> str:
    # NumPy supports years before 1, which Java reads from some ORC files.
    return str(np.datetime64(epoch_day, "D"))


def _dates(array: pa.Array, _: t.DataType) -> Values:
    _exact(array, pa.types.is_date32)
    return [None if v is None else _date(v) for v in _ticks(array)]


def _list(array: pa.Array, kind: t.DataType) -> Values:
    assert isinstance(kind, (t.ArrayType, t.VectorType))
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    return _sliced(array, values_of(array.values, kind.element))


def _map(array: pa.Array, kind: t.DataType) -> Values:
    """Convert a map, also if it is a list of key-value structs, since Polars lacks a map type."""
    key, value = (kind.key, kind.value) if isinstance(kind, t.MapType) else (_element(kind), t.IntType())
    if pa.types.is_map(array.type):
        keys, items = array.keys, array.items
    else:
        if not pa.types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_type))
        keys, items = array.values.field(0), array.values.field(1)
    pairs = [list(pair) for pair in zip(values_of(keys, key), values_of(items, value), strict=True)]
    return [None if entries is None else sorted(entries, key=_json) for entries in _sliced(array, pairs)]


def _element(kind: t.DataType) -> t.DataType:
    assert isinstance(kind, t.MultisetType)
    return kind.element


def _sliced(array: pa.Array, values: Values) -> Values:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    spans = zip(valid, offsets, offsets[1:], strict=False)
    return [values[start:end] if ok else None for ok, start, end in spans]


def _row(array: pa.Array, kind: t.DataType) -> Values:
    assert isinstance(kind, t.RowType)
    assert [f.name for f in array.type] == [f.name for f in kind.fields]
    columns = [values_of(array.field(i), f.type) for i, f in enumerate(kind.fields)]
    rows = zip(*columns, strict=True)
    return [list(row) if ok else None for ok, row in zip(array.is_valid().to_pylist(), rows, strict=True)]


CONVERTERS: dict[type[t.DataType], Callable[[pa.Array, Any], Values]] = {
    t.BooleanType: _boolean,
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType), _integer),
    **dict.fromkeys((t.FloatType, t.DoubleType), _each(_real)),
    **dict.fromkeys((t.CharType, t.VarCharType), _text),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType, t.BlobType), _each(bytes.hex)),
    t.DecimalType: _decimal,
    t.DateType: _dates,
    t.TimeType: _time,
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _timestamp),
    **dict.fromkeys((t.ArrayType, t.VectorType), _list),
    **dict.fromkeys((t.MapType, t.MultisetType), _map),
    t.RowType: _row,
    t.VariantType: _each(lambda v: {"variant": variant_json(v["value"], v["metadata"])}),
}
