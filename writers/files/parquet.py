"""Parquet data files as Java Paimon writes them: its types, its field ids, and a checksum for every page.

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

Each row group is written by Arrow as a file of its own, in memory, so that several threads can; `parquet_footer` makes
one footer of theirs. It also turns what Arrow wrote as 12 fixed bytes into INT96, for which Arrow has a switch, but one
that takes all timestamps of the file along.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import fixed_values
from morrow.engine.options.parsing import flag, integer, memory
from morrow.readers.dtypes import conform, list_offsets, null_mask
from morrow.writers.files.encoders import Block, EncoderOptions
from morrow.writers.files.layout import FileLayout
from morrow.writers.files.parquet_footer import merge_footers

MAGIC = b"PAR1"
TAIL = struct.Struct("<I4s")
"""At the end of a file: the length of the footer, and the magic again."""

NESTED_ID_BASE = (2**31 - 1) // 4
NESTED_ID_DEPTHS = 1 << 10
"""Elements, keys and values of nested columns have ids computed from the column's: a thousand per column."""

INT96_WIDTH = 12
JULIAN_DAY_OF_EPOCH = 2_440_588
NANOS_PER_DAY = 86_400_000_000_000

CODECS: Mapping[str, str] = {
    **{name: name for name in ("zstd", "snappy", "gzip", "brotli")},
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "none": "none",
    "uncompressed": "none",
}


def encoder(layout: FileLayout, options: EncoderOptions) -> ParquetEncoder:
    """Raises `Unsupported`: a codec or a column type that Parquet files do not have."""
    return ParquetEncoder(layout, options)


class ParquetEncoder:
    """See `morrow.writers.files.encoders.Encoder`; blocks are row groups."""

    head = MAGIC

    def __init__(self, layout: FileLayout, options: EncoderOptions) -> None:
        self._fields = layout.fields
        self._schema = pa.schema([stored_field(f.name, f.type, f.id, options.where) for f in layout.fields])
        self._nanos = [has_nanos(field.type) for field in layout.fields]
        self._properties = _properties(options) | {"write_statistics": self._columns_with_statistics()}

    def block(self, frame: pl.DataFrame) -> Block:
        columns = [
            self._column(series, field, nanos)
            for series, field, nanos in zip(frame.iter_columns(), self._schema, self._nanos, strict=True)
        ]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=max(frame.height, 1), **self._properties)
        data = memoryview(sink.getvalue())
        length, _ = TAIL.unpack(data[-TAIL.size :])
        end = len(data) - TAIL.size - length
        return Block(frame.height, data[len(MAGIC) : end], bytes(data[end : end + length]))

    def foot(self, blocks: Sequence[Block]) -> bytes:
        footer = merge_footers([(block.size, block.details) for block in blocks], int96=any(self._nanos))
        return footer + TAIL.pack(len(footer), MAGIC)

    def _column(self, series: pl.Series, field: pa.Field, nanos: bool) -> pa.ChunkedArray:
        type_ = field.type
        if nanos:
            type_ = _nanos_type(type_)
        try:
            chunks = [
                conform(piece.to_arrow(compat_level=pl.CompatLevel.newest()), type_) for piece in series.get_chunks()
            ]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgument(f"column {field.name!r} of {series.dtype} is not {field.type}: {error}") from error
        if nanos:
            chunks = [_with_int96(chunk, field.type) for chunk in chunks]
        return pa.chunked_array(chunks, field.type)

    def _columns_with_statistics(self) -> bool | list[str]:
        """All but INT96, whose order nobody defines; Arrow takes the names of leaves."""
        if not any(self._nanos):
            return True
        sink = pa.BufferOutputStream()
        pq.write_table(self._schema.empty_table(), sink)
        leaves = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
        columns = (leaves.column(i) for i in range(len(leaves)))
        return [leaf.path for leaf in columns if leaf.length != INT96_WIDTH or leaf.logical_type.type != "NONE"]


def _properties(options: EncoderOptions) -> dict[str, Any]:
    raw, where = options.write.raw, options.where
    name = raw.get("parquet.compression", options.compression).strip().lower()
    if name not in CODECS:
        hint = f"choose one of {', '.join(CODECS)}"
        raise Unsupported(f"the codec {name!r} in Parquet files", where=where, hint=hint)
    level = integer(raw, "parquet.compression.codec.zstd.level", options.write.zstd_level, where)
    return {
        "compression": CODECS[name],
        "compression_level": level if name == "zstd" else None,
        "use_dictionary": flag(raw, "parquet.enable.dictionary", True, where),
        "data_page_size": memory(raw, "parquet.page.size", None, where),
        "store_schema": False,
        "store_decimal_as_integer": True,
        "write_time_adjusted_to_utc": True,
        "write_page_checksum": True,
    }


# --- types ---


def stored_field(name: str, type_: t.DataType, field_id: int, where: str, depth: int = 0) -> pa.Field:
    """A column, or a part of one, as Arrow is to write it: exact types, with field ids.

    Raises:
        Unsupported: a type that Java Paimon does not write to Parquet either.
    """
    make = _STORED.get(type(type_), lambda kind, *_: kind.arrow())
    if isinstance(type_, (t.VectorType, t.BlobType)):
        raise Unsupported(f"a column of {type_} in Parquet files", where=where, hint="use ARRAY or BYTES")
    arrow = make(type_, field_id, where, depth)
    return pa.field(name, arrow, type_.nullable, {"PARQUET:field_id": str(field_id)})


def _text(*_: Any) -> pa.DataType:
    return pa.string_view()


def _bytes(*_: Any) -> pa.DataType:
    return pa.binary_view()


def _timestamp(type_: Any, *_: Any) -> pa.DataType:
    if type_.precision > t.ARROW_MICROS_PRECISION:
        return pa.binary(INT96_WIDTH)
    unit = "ms" if type_.precision <= t.ARROW_MILLIS_PRECISION else "us"
    return pa.timestamp(unit, "UTC" if isinstance(type_, t.LocalZonedTimestampType) else None)


def _array(type_: Any, field_id: int, where: str, depth: int) -> pa.DataType:
    element = stored_field("element", type_.element, field_id, where, depth + 1)
    return pa.list_(_numbered(element, NESTED_ID_BASE + field_id * NESTED_ID_DEPTHS + depth + 1))


def _map(type_: Any, field_id: int, where: str, depth: int) -> pa.DataType:
    kinds = (type_.element, t.IntType(nullable=False)) if isinstance(type_, t.MultisetType) else (type_.key, type_.value)
    key = stored_field("key", kinds[0].with_nullable(False), field_id, where, depth + 1)
    value = stored_field("value", kinds[1], field_id, where, depth + 1)
    offset = field_id * NESTED_ID_DEPTHS + depth + 1
    return pa.map_(_numbered(key, NESTED_ID_BASE - offset), _numbered(value, NESTED_ID_BASE + offset))


def _row(type_: Any, _: int, where: str, __: int) -> pa.DataType:
    return pa.struct([stored_field(f.name, f.type, f.id, where) for f in type_.fields])


def _variant(type_: Any, *_: Any) -> pa.DataType:
    return pa.struct([_numbered(member, i) for i, member in enumerate(type_.arrow())])


def _numbered(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(field_id)})


_STORED: Mapping[type[t.DataType], Callable[..., pa.DataType]] = {
    **dict.fromkeys((t.CharType, t.VarCharType), _text),
    **dict.fromkeys((t.BinaryType, t.VarBinaryType), _bytes),
    **dict.fromkeys((t.TimestampType, t.LocalZonedTimestampType), _timestamp),
    **dict.fromkeys((t.MapType, t.MultisetType), _map),
    t.ArrayType: _array,
    t.RowType: _row,
    t.VariantType: _variant,
}


# --- INT96: nanoseconds of the day (8 bytes), Julian day (4 bytes) ---


def has_nanos(type_: t.DataType) -> bool:
    """Whether timestamps of more than microseconds are in a column, however deep."""
    if isinstance(type_, (t.TimestampType, t.LocalZonedTimestampType)):
        return type_.precision > t.ARROW_MICROS_PRECISION
    if isinstance(type_, t.RowType):
        return any(has_nanos(member.type) for member in type_.fields)
    return any(has_nanos(getattr(type_, part)) for part in ("element", "key", "value") if hasattr(type_, part))


def _nanos_type(type_: pa.DataType) -> pa.DataType:
    """The type with timestamps where `type_` has 12 bytes: what values are before `_with_int96`."""
    if pa.types.is_fixed_size_binary(type_) and type_.byte_width == INT96_WIDTH and not pa.types.is_decimal(type_):
        return pa.timestamp("ns")
    if pa.types.is_map(type_):
        return pa.map_(_retyped(type_.key_field), _retyped(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_retyped(type_.value_field))
    if pa.types.is_struct(type_):
        return pa.struct([_retyped(member) for member in type_])
    return type_


def _retyped(field: pa.Field) -> pa.Field:
    return field.with_type(_nanos_type(field.type))


def _with_int96(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """The same values with timestamps of nanoseconds as 12 bytes, the layout of `type_`."""
    if array.type.equals(type_):
        return array
    if pa.types.is_map(type_):
        key, value = _with_int96(array.keys, type_.key_type), _with_int96(array.items, type_.item_type)
        return pa.MapArray.from_arrays(list_offsets(array), key, value, type=type_, mask=null_mask(array))
    if pa.types.is_list(type_):
        values = _with_int96(array.values, type_.value_type)
        return pa.ListArray.from_arrays(list_offsets(array), values, type_, mask=null_mask(array))
    if pa.types.is_struct(type_):
        members = [_with_int96(array.field(i), member.type) for i, member in enumerate(type_)]
        return pa.StructArray.from_arrays(members, fields=list(type_), mask=null_mask(array))
    return _int96(array)


def _int96(array: pa.Array) -> pa.Array:
    days, nanos = np.divmod(fixed_values(array, "<i8"), NANOS_PER_DAY)
    values = np.empty(len(array), np.dtype([("nanos", "<i8"), ("day", "<i4")]))
    values["nanos"], values["day"] = nanos, days + JULIAN_DAY_OF_EPOCH
    valid = pa.array(~np.asarray(array.is_null())).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(pa.binary(INT96_WIDTH), len(array), [valid, pa.py_buffer(values.tobytes())])
