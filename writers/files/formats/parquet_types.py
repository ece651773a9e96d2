"""Paimon types in Parquet, and the Arrow arrays for which Arrow's Parquet writer makes exactly those.

================  =======================================================================================
Paimon            Parquet
================  =======================================================================================
TINYINT SMALLINT  INT32, INT(8) and INT(16)
DECIMAL(p, s)     INT32 up to precision 9, INT64 up to 18, then the fewest bytes that hold it
TIME              INT32, milliseconds
TIMESTAMP, LTZ    INT64 of milliseconds up to precision 3, of microseconds up to 6, then INT96
ARRAY             3 levels ``list`` and ``element``; MAP and MULTISET ``key_value`` with ``key`` and ``value``
VARIANT           a group of two required BINARYs with the ids 0 and 1
================  =======================================================================================

Every column and every part of a column has a field id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import fixed_values, validity
from morrow.engine.units import NANOS_PER_DAY
from morrow.readers.casts.dtypes import conform, list_offsets, null_mask
from morrow.writers.files.field_ids import Place

FIELD_ID = "PARQUET:field_id"

INT96_WIDTH = 12
"""Nanoseconds of the day (8 bytes) and Julian day (4 bytes)."""
JULIAN_DAY_OF_EPOCH = 2_440_588


def stored_field(field: t.DataField, where: str) -> pa.Field:
    """Returns a column as Arrow is to write it.

    Nanosecond timestamps are 12 bytes here; text and bytes at the top level are views, as in Polars (Arrow's writer
    does not accept views in nested columns).

    Raises:
        Unsupported: a type that Java Paimon does not write to Parquet either.
    """
    return _field(field.name, field.type, field.id, Place(field.id, where))


def has_nanos(type_: t.DataType) -> bool:
    """Returns whether a column has timestamps finer than microseconds, at any depth."""
    if isinstance(type_, (t.TimestampType, t.LocalZonedTimestampType)):
        return type_.precision > t.ARROW_MICROS_PRECISION
    if isinstance(type_, t.RowType):
        return any(has_nanos(member.type) for member in type_.fields)
    return any(has_nanos(getattr(type_, part)) for part in ("element", "key", "value") if hasattr(type_, part))


def _field(name: str, type_: t.DataType, field_id: int, at: Place) -> pa.Field:
    if isinstance(type_, (t.VectorType, t.BlobType)):
        raise Unsupported(f"a column of {type_} in Parquet files", where=at.where, hint="use ARRAY or BYTES")
    make = _STORED.get(type(type_))
    arrow = type_.arrow() if make is None else make(type_, at)
    return pa.field(name, arrow, type_.nullable, {FIELD_ID: str(field_id)})


def _text(_: t.DataType, at: Place) -> pa.DataType:
    return pa.string() if at.nested else pa.string_view()


def _bytes(_: t.DataType, at: Place) -> pa.DataType:
    return pa.binary() if at.nested else pa.binary_view()


def _timestamp(type_: Any, _: Place) -> pa.DataType:
    if type_.precision > t.ARROW_MICROS_PRECISION:
        return pa.binary(INT96_WIDTH)
    unit = "ms" if type_.precision <= t.ARROW_MILLIS_PRECISION else "us"
    return pa.timestamp(unit, "UTC" if isinstance(type_, t.LocalZonedTimestampType) else None)


def _array(type_: Any, at: Place) -> pa.DataType:
    inside = at.inside
    return pa.list_(_field("element", type_.element, inside.element_id, inside))


def _map(type_: Any, at: Place) -> pa.DataType:
    inside = at.inside
    key = _field("key", type_.key.with_nullable(False), inside.key_id, inside)
    return pa.map_(key, _field("value", type_.value, inside.element_id, inside))


def _multiset(type_: Any, at: Place) -> pa.DataType:
    return _map(t.MapType(key=type_.element, value=t.IntType(nullable=False)), at)


def _row(type_: Any, at: Place) -> pa.DataType:
    return pa.struct([_field(f.name, f.type, f.id, at.member(f.id)) for f in type_.fields])


def _variant(type_: Any, _: Place) -> pa.DataType:
    return pa.struct([member.with_metadata({FIELD_ID: str(i)}) for i, member in enumerate(type_.arrow())])


_STORED: Mapping[type[t.DataType], Callable[[Any, Place], pa.DataType]] = {
    **dict.fromkeys((t.CharType, t.VarCharType), _text),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType), _bytes),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _timestamp),
    t.ArrayType: _array,
    t.MapType: _map,
    t.MultisetType: _multiset,
    t.RowType: _row,
    t.VariantType: _variant,
}


# --- values ---


def stored_array(array: pa.Array, type_: pa.DataType, *, nanos: bool) -> pa.Array:
    """Returns the values of a column in the type of its stored field; `nanos` is the result of `has_nanos` for it.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: the values are not of that type.
    """
    return _finished(conform(array, _arrow_of(type_) if nanos else type_), type_)


def _arrow_of(type_: pa.DataType) -> pa.DataType:
    """Returns the type with timestamps where `type_` has INT96."""
    if is_int96(type_):
        return pa.timestamp("ns")
    if pa.types.is_map(type_):
        return pa.map_(_plain(type_.key_field), _plain(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_plain(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([_plain(member) for member in type_])
    return type_


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(_arrow_of(field.type))


def is_int96(type_: pa.DataType) -> bool:
    """Returns whether this type of a stored field stands for INT96."""
    return bool(pa.types.is_fixed_size_binary(type_) and type_.byte_width == INT96_WIDTH)


def is_text(type_: pa.DataType) -> bool:
    """Returns whether this is the type of the stored field of a text column."""
    return bool(pa.types.is_string_view(type_))


def _finished(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns the array with INT96 in place of timestamps, and values in required members of null rows."""
    if is_int96(type_):
        return _int96(array)
    if pa.types.is_map(type_):
        key, value = _finished(array.keys, type_.key_type), _finished(array.items, type_.item_type)
        return pa.MapArray.from_arrays(list_offsets(array), key, value, type=type_, mask=null_mask(array))
    if pa.types.is_list(type_):
        values = _finished(array.values, type_.value_type)
        return pa.ListArray.from_arrays(list_offsets(array), values, type_, mask=null_mask(array))
    if pa.types.is_struct(type_):
        members = [_member(array, i, member) for i, member in enumerate(type_)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=null_mask(array)) if members else array
    return array


def _member(array: pa.StructArray, number: int, field: pa.Field) -> pa.Array:
    member = _finished(array.field(number), field.type)
    if field.nullable or not array.null_count or not member.null_count:
        return member
    # Arrow's writer requires values although no reader sees them: take the empty one appended at the end.
    chosen = np.where(validity(array), np.arange(len(array)), len(array))
    return pa.concat_arrays([member, _empty(field.type)]).take(pa.array(chosen))


def _empty(type_: pa.DataType) -> pa.Array:
    """Returns a placeholder value."""
    if pa.types.is_map(type_):
        nothing = [pa.array([], type_.key_type), pa.array([], type_.item_type)]
        return pa.MapArray.from_arrays(pa.array([0, 0], pa.int32()), *nothing, type=type_)
    if pa.types.is_list(type_):
        return pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([], type_.value_type), type_)
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([_empty(member.type) for member in type_], fields=list(type_))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.array([b""], type_)
    width = type_.bit_width // 8 or 1
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(bytes(width))])


def _int96(array: pa.Array) -> pa.Array:
    days, nanos = np.divmod(fixed_values(array, "<i8"), NANOS_PER_DAY)
    values = np.empty(len(array), np.dtype([("nanos", "<i8"), ("day", "<i4")]))
    values["nanos"], values["day"] = nanos, days + JULIAN_DAY_OF_EPOCH
    valid = pa.array(validity(array)).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(INT96_WIDTH), len(array), [valid, pa.py_buffer(values.tobytes())])
