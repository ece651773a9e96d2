"""Schemas and footers of Parquet files: Paimon types, the Arrow arrays to write for them, and merged footers.

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

A footer is the struct FileMetaData of the Parquet format in Thrift's compact protocol. It is decoded without its
schema, changed in a few places, and encoded again, so that everything else from the writer is kept:

    FileMetaData    2 schema: list<SchemaElement>   3 num_rows: i64   4 row_groups: list<RowGroup>
    SchemaElement   1 type: i32   2 type_length: i32   6 converted_type   10 logicalType
    RowGroup        1 columns: list<ColumnChunk>   5 file_offset: i64   7 ordinal: i16
    ColumnChunk     2 file_offset: i64   3 meta_data: ColumnMetaData   4, 6 offsets of the page indexes
    ColumnMetaData  1 type: i32   9 data_page_offset   10 index_page_offset   11 dictionary_page_offset: i64
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from morrow.engine.arrow_versions import BYTES, TEXT, WRITES_UTC_TIMES
from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import read_fixed_values, read_validity
from morrow.engine.format.parquet_metadata import (
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Items,
    Struct,
    decode_thrift,
    encode_thrift,
)
from morrow.engine.units import NANOS_PER_DAY
from morrow.readers.casts.dtypes import cast_layout, list_offsets, make_null_mask
from morrow.writers.files.encoders import FieldPlace

FIELD_ID = "PARQUET:field_id"

INT96_WIDTH = 12
"""Bytes of an INT96: nanoseconds of the day (8 bytes) and Julian day (4 bytes)."""
JULIAN_DAY_OF_EPOCH = 2_440_588


def to_stored_field(field: t.DataField, where: str) -> pa.Field:
    """Return the Arrow field with which to write a column.

    Nanosecond timestamps have 12 bytes. Text and bytes at the top level are views, as in Polars (Arrow's writer does
    not accept views in nested columns).

    Raises:
        Unsupported: Java Paimon does not write this type to Parquet either.
    """
    return _build_field(field.name, field.type, field.id, FieldPlace(field.id, where))


def has_nanos(type_: t.DataType) -> bool:
    """Return whether a column has timestamps finer than microseconds, at any depth."""
    if isinstance(type_, (t.TimestampType, t.LocalZonedTimestampType)):
        return type_.precision > t.ARROW_MICROS_PRECISION
    if isinstance(type_, t.RowType):
        return any(has_nanos(member.type) for member in type_.fields)
    return any(has_nanos(getattr(type_, part)) for part in ("element", "key", "value") if hasattr(type_, part))


def _build_field(name: str, type_: t.DataType, field_id: int, at: FieldPlace) -> pa.Field:
    if isinstance(type_, (t.VectorType, t.BlobType)):
        raise Unsupported(f"a column of {type_} in Parquet files", where=at.where, hint="use ARRAY or BYTES")
    if isinstance(type_, t.TimeType) and not WRITES_UTC_TIMES:
        raise Unsupported("a column of TIME in Parquet files with pyarrow 22", where=at.where, hint="install another")
    make = _STORED.get(type(type_))
    arrow = type_.arrow() if make is None else make(type_, at)
    return pa.field(name, arrow, type_.nullable, {FIELD_ID: str(field_id)})


def _build_text(_: t.DataType, at: FieldPlace) -> pa.DataType:
    return pa.string() if at.nested else TEXT


def _build_bytes(_: t.DataType, at: FieldPlace) -> pa.DataType:
    return pa.binary() if at.nested else BYTES


def _build_timestamp(type_: Any, _: FieldPlace) -> pa.DataType:
    if type_.precision > t.ARROW_MICROS_PRECISION:
        return pa.binary(INT96_WIDTH)
    unit = "ms" if type_.precision <= t.ARROW_MILLIS_PRECISION else "us"
    return pa.timestamp(unit, "UTC" if isinstance(type_, t.LocalZonedTimestampType) else None)


def _build_array(type_: Any, at: FieldPlace) -> pa.DataType:
    inside = at.inside
    return pa.list_(_build_field("element", type_.element, inside.element_id, inside))


def _build_map(type_: Any, at: FieldPlace) -> pa.DataType:
    inside = at.inside
    key = _build_field("key", type_.key.with_nullable(False), inside.key_id, inside)
    return pa.map_(key, _build_field("value", type_.value, inside.element_id, inside))


def _build_multiset(type_: Any, at: FieldPlace) -> pa.DataType:
    return _build_map(t.MapType(key=type_.element, value=t.IntType(nullable=False)), at)


def _build_row(type_: Any, at: FieldPlace) -> pa.DataType:
    return pa.struct([_build_field(f.name, f.type, f.id, at.member(f.id)) for f in type_.fields])


def _build_variant(type_: Any, _: FieldPlace) -> pa.DataType:
    return pa.struct([member.with_metadata({FIELD_ID: str(i)}) for i, member in enumerate(type_.arrow())])


_STORED: Mapping[type[t.DataType], Callable[[Any, FieldPlace], pa.DataType]] = {
    **dict.fromkeys((t.CharType, t.VarCharType), _build_text),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType), _build_bytes),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _build_timestamp),
    t.ArrayType: _build_array,
    t.MapType: _build_map,
    t.MultisetType: _build_multiset,
    t.RowType: _build_row,
    t.VariantType: _build_variant,
}


# --- values ---


def to_stored_array(array: pa.Array, type_: pa.DataType, *, nanos: bool) -> pa.Array:
    """Return the values of a column in the type of its stored field; `nanos` is the result of `has_nanos` for it.

    Raises:
        pa.ArrowInvalid, pa.ArrowNotImplementedError: the values do not have this type.
    """
    return _finish_array(cast_layout(array, _to_arrow_type(type_) if nanos else type_), type_)


def _to_arrow_type(type_: pa.DataType) -> pa.DataType:
    """Return the type with timestamps instead of INT96."""
    if is_int96(type_):
        return pa.timestamp("ns")
    if pa.types.is_map(type_):
        return pa.map_(_to_arrow_field(type_.key_field), _to_arrow_field(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_to_arrow_field(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([_to_arrow_field(member) for member in type_])
    return type_


def _to_arrow_field(field: pa.Field) -> pa.Field:
    return field.with_type(_to_arrow_type(field.type))


def is_int96(type_: pa.DataType) -> bool:
    """Return whether this type of a stored field represents INT96."""
    return bool(pa.types.is_fixed_size_binary(type_) and type_.byte_width == INT96_WIDTH)


def is_text(type_: pa.DataType) -> bool:
    """Return whether this is the type of the stored field of a text column."""
    return bool(type_ == TEXT)


def _finish_array(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the array with INT96 instead of timestamps, and with placeholders in required members of null rows."""
    if is_int96(type_):
        return _to_int96(array)
    if pa.types.is_map(type_):
        key, value = _finish_array(array.keys, type_.key_type), _finish_array(array.items, type_.item_type)
        return pa.MapArray.from_arrays(list_offsets(array), key, value, type=type_, mask=make_null_mask(array))
    if pa.types.is_list(type_):
        values = _finish_array(array.values, type_.value_type)
        return pa.ListArray.from_arrays(list_offsets(array), values, type_, mask=make_null_mask(array))
    if pa.types.is_struct(type_):
        members = [_finish_member(array, i, member) for i, member in enumerate(type_)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=make_null_mask(array)) if members else array
    return array


def _finish_member(array: pa.StructArray, number: int, field: pa.Field) -> pa.Array:
    member = _finish_array(array.field(number), field.type)
    if field.nullable or not array.null_count or not member.null_count:
        return member
    # Arrow's writer requires values that readers never see: take the placeholder appended at the end.
    chosen = np.where(read_validity(array), np.arange(len(array)), len(array))
    return pa.concat_arrays([member, _make_placeholder(field.type)]).take(pa.array(chosen))


def _make_placeholder(type_: pa.DataType) -> pa.Array:
    """Return a placeholder value."""
    if pa.types.is_map(type_):
        nothing = [pa.array([], type_.key_type), pa.array([], type_.item_type)]
        return pa.MapArray.from_arrays(pa.array([0, 0], pa.int32()), *nothing, type=type_)
    if pa.types.is_list(type_):
        return pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array([], type_.value_type), type_)
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([_make_placeholder(member.type) for member in type_], fields=list(type_))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.array([b""], type_)
    width = type_.bit_width // 8 or 1
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(bytes(width))])


def _to_int96(array: pa.Array) -> pa.Array:
    days, nanos = np.divmod(read_fixed_values(array, "<i8"), NANOS_PER_DAY)
    values = np.empty(len(array), np.dtype([("nanos", "<i8"), ("day", "<i4")]))
    values["nanos"], values["day"] = nanos, days + JULIAN_DAY_OF_EPOCH
    valid = pa.array(read_validity(array)).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(INT96_WIDTH), len(array), [valid, pa.py_buffer(values.tobytes())])


FIXED_LEN_BYTE_ARRAY, INT96 = 7, 3

SCHEMA, NUM_ROWS, ROW_GROUPS = 2, 3, 4
ELEMENT_TYPE, ELEMENT_LENGTH, ELEMENT_CONVERTED, ELEMENT_LOGICAL = 1, 2, 6, 10
GROUP_COLUMNS, GROUP_OFFSET, GROUP_ORDINAL = 1, 5, 7
CHUNK_OFFSET, CHUNK_METADATA, CHUNK_OFFSETS = 2, 3, (2, 4, 6)
METADATA_TYPE, METADATA_OFFSETS = 1, (9, 10, 11, 14)


def merge_footers(parts: Sequence[tuple[int, bytes]], *, int96: bool) -> bytes:
    """Return the footer of a file with the concatenated row groups of several files.

    Args:
        parts: for each file the number of bytes between its magic and its footer, and the footer.
        int96: columns of 12 fixed bytes, other than decimals, become INT96.
    """
    if len(parts) == 1 and not int96:
        return parts[0][1]
    footers = [decode_thrift(footer) for _, footer in parts]
    merged, rows, shift = footers[0], 0, 0
    groups: list[Struct] = []
    for footer, (length, _) in zip(footers, parts, strict=True):
        for group in footer[ROW_GROUPS][1]:
            _move(group, shift, len(groups))
            groups.append(group)
        rows += footer[NUM_ROWS][1]
        shift += length
    merged[NUM_ROWS] = (I64, rows)
    merged[ROW_GROUPS] = (LIST, Items(STRUCT, groups))
    if int96:
        _relabel(merged)
    return encode_thrift(merged)


def _move(group: Struct, shift: int, ordinal: int) -> None:
    _add(group, (GROUP_OFFSET,), shift)
    group[GROUP_ORDINAL] = (I16, ordinal)
    for chunk in group[GROUP_COLUMNS][1]:
        _add(chunk, CHUNK_OFFSETS, shift)
        _add(chunk[CHUNK_METADATA][1], METADATA_OFFSETS, shift)


def _add(node: Struct, fields: Sequence[int], shift: int) -> None:
    """Add `shift` to offsets, except 0, with which writers fill a required but unknown offset."""
    for field in fields:
        if field in node and node[field][1]:
            node[field] = (I64, node[field][1] + shift)


def _relabel(footer: Struct) -> None:
    leaves = [node for node in footer[SCHEMA][1] if ELEMENT_TYPE in node]
    nanos = [
        leaf[ELEMENT_TYPE][1] == FIXED_LEN_BYTE_ARRAY
        and leaf[ELEMENT_LENGTH][1] == INT96_WIDTH
        and ELEMENT_LOGICAL not in leaf
        and ELEMENT_CONVERTED not in leaf
        for leaf in leaves
    ]
    for leaf, is_nanos in zip(leaves, nanos, strict=True):
        if is_nanos:
            leaf[ELEMENT_TYPE] = (I32, INT96)
            del leaf[ELEMENT_LENGTH]
    for group in footer[ROW_GROUPS][1]:
        for chunk, is_nanos in zip(group[GROUP_COLUMNS][1], nanos, strict=True):
            if is_nanos:
                chunk[CHUNK_METADATA][1][METADATA_TYPE] = (I32, INT96)
