"""Polars dtypes of Paimon types, and conversions of Polars frames to the exact Arrow types of `to_arrow_schema`.

Polars has fewer types than Arrow, so some types are represented by others (`morrow.engine.format.types`):

================  ==========================================  ===============================================
Paimon            Polars                                      Arrow
================  ==========================================  ===============================================
CHAR, VARCHAR     String                                      string
BINARY, BYTES     Binary                                      binary (BLOB: large_binary)
TIME              Time (nanoseconds)                          time32[ms]
TIMESTAMP(0)      Datetime("ms")                              timestamp[s]
TIMESTAMP_LTZ     Datetime(unit, "UTC")                       timestamp[unit, UTC]
MAP, MULTISET     List(Struct{key, value})                    map<key, value>
ROW               Struct                                      struct, with the members' NOT NULL flags
VECTOR            Array(element, length)                      fixed_size_list
VARIANT           Struct{value: Binary, metadata: Binary}     struct<value: binary, metadata: binary>
================  ==========================================  ===============================================

Fixed-width columns are converted without a copy. Text, which Polars stores as views, is copied once into Arrow's
32-bit layout, for large frames in several threads. Lists change from 64-bit to 32-bit offsets; their values stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.types import DataType, to_polars_dtype, to_polars_schema
from morrow.engine.library_versions import export_series, import_array
from morrow.engine.names import clear_pattern_name, cols
from morrow.engine.polars_threads import open_threads

__all__ = [
    "cast_layout",
    "list_offsets",
    "make_null_mask",
    "to_arrow_array",
    "to_arrow_table",
    "to_frame",
    "to_polars_dtype",
    "to_polars_schema",
    "to_series",
]

MAX_FEW_VALUES = 1 << 16
"""Maximum text values that are copied a second time, which avoids importing the modules that Arrow's casts need."""
VIEW_TYPES = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
NARROW_TYPES = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}

MAX_CHUNK_BYTES = 2**31 - 1
"""The limit of 32-bit offsets: a larger chunk is split, as Arrow's string and list types require."""

MIN_THREADED_ROWS = 1 << 18
"""Minimum rows of a frame to convert it in threads; for fewer rows, starting threads costs as much as they save."""

VIEW_DTYPES = frozenset({pl.String(), pl.Binary()})
"""Types that Polars keeps as views."""


def to_arrow_table(
    frame: pl.DataFrame, fields: Sequence[t.DataField], *, pool: pa.MemoryPool | None = None
) -> pa.Table:
    """Convert a frame in Morrow's representation to an Arrow table with exactly the schema `to_arrow_schema(fields)`.

    Columns are taken by name, in the order of `fields`. NOT NULL columns are not checked for nulls. Text and bytes are
    allocated from `pool` (Arrow's default pool if None).

    Raises `InvalidArgument`: a column is missing or holds values that are not of the type.
    """
    schema = t.to_arrow_schema(tuple(fields))
    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise InvalidArgument(f"the frame has no column {missing[0]!r}; its columns are {frame.columns}")
    columns = frame.select(cols(schema.names)).get_columns()
    del frame  # unless the caller holds the frame, only the column being converted is in memory twice
    return _convert_columns(columns, schema, pool)


def _convert_columns(series: list[pl.Series], schema: pa.Schema, pool: pa.MemoryPool | None = None) -> pa.Table:
    """Convert columns chunk by chunk, and remove them from the list to free their memory."""
    rows = len(series[0]) if series else 0
    series.reverse()
    fields = list(schema)
    left = [(field, clear_pattern_name(series.pop()).get_chunks()) for field in fields]

    def column(number: int) -> pa.ChunkedArray:
        field, pieces = left[number]
        pieces.reverse()
        made: list[pa.Array] = []
        while pieces:
            piece = pieces.pop()
            made += (
                _convert_text_chunk(piece, field, pool) if piece.dtype in VIEW_DTYPES else _convert_chunk(piece, field)
            )
        return pa.chunked_array(made, field.type)

    if rows < MIN_THREADED_ROWS:
        columns = list(map(column, range(len(fields))))
    else:
        with open_threads(pl.thread_pool_size()) as threads:
            columns = list(threads.map(column, range(len(fields))))
    return pa.Table.from_arrays(columns, schema=schema)


def _convert_chunk(piece: pl.Series, field: pa.Field) -> list[pa.Array]:
    """Return one chunk of a column, split into several arrays if 32-bit offsets do not suffice."""
    array = export_series(piece, pl.CompatLevel.oldest())
    if array.nbytes <= MAX_CHUNK_BYTES or len(piece) == 1:
        return [_cast_field_layout(field, array)]
    return _convert_halves(piece, field, _convert_chunk)


def _convert_text_chunk(piece: pl.Series, field: pa.Field, pool: pa.MemoryPool | None = None) -> list[pa.Array]:
    """Convert a chunk of text or bytes directly from Polars' views; see `_convert_chunk`."""
    if len(piece) <= MAX_FEW_VALUES and (
        narrow := _narrow(piece.to_arrow(compat_level=pl.CompatLevel.oldest()), field)
    ):
        return narrow
    views = export_series(piece)
    own = pool is not None and views.type == VIEW_TYPES.get(field.type)
    array = views.cast(field.type, memory_pool=pool) if own else _cast_field_layout(field, views)
    # The size of the views is known only now: several may share bytes. Arrow's cast lets 32-bit offsets overflow.
    if array.get_total_buffer_size() <= MAX_CHUNK_BYTES:
        return [array]
    return (
        _convert_halves(piece, field, partial(_convert_text_chunk, pool=pool))
        if len(piece) > 1
        else _convert_chunk(piece, field)
    )


def _narrow(array: pa.Array, field: pa.Field) -> list[pa.Array]:
    """Convert text or bytes from 64-bit to 32-bit offsets; return an empty list if 32 bits do not suffice.

    Arrow's cast does that as well, and imports a large module the first time.
    """
    there, offsets, values = array.buffers()
    if not len(array) or array.offset or NARROW_TYPES.get(array.type) != field.type:
        return []
    ends = np.frombuffer(offsets, np.int64, len(array) + 1)
    if ends[-1] > MAX_CHUNK_BYTES:
        return []
    buffers = [there, pa.py_buffer(ends.astype(np.int32)), values or pa.py_buffer(b"")]
    return [pa.Array.from_buffers(field.type, len(array), buffers, array.null_count)]


def _convert_halves(
    piece: pl.Series, field: pa.Field, convert: Callable[[pl.Series, pa.Field], list[pa.Array]]
) -> list[pa.Array]:
    middle = len(piece) // 2
    return [*convert(piece[:middle], field), *convert(piece[middle:], field)]


def _cast_field_layout(field: pa.Field, chunk: pa.Array) -> pa.Array:
    try:
        return cast_layout(chunk, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"column {field.name!r} of type {chunk.type} is not {field.type}: {error}") from error


def cast_layout(array: pa.Array, type: pa.DataType) -> pa.Array:
    """Convert values to another Arrow layout of the same logical type, nested types included.

    Lists (also of a fixed size), large lists and maps take the layout of `type`. Struct members are taken in order and
    renamed. Offsets narrow to 32 bits. Units and nullability flags follow `type`; finer timestamps are floored.

    Raises `pa.ArrowInvalid`, `pa.ArrowNotImplementedError`: the values do not fit, or the logical types differ.
    """
    if not len(array) and array.offset:
        # Polars cuts lists without elements out of longer ones; Arrow cannot combine such empty arrays with others.
        return pa.array([], type)
    if array.type.equals(type, check_metadata=True):
        return array
    if pa.types.is_map(type):
        return _cast_map_layout(array, type)
    if pa.types.is_list(type):
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        return pa.ListArray.from_arrays(
            list_offsets(array), cast_layout(array.values, type.value_type), type, mask=make_null_mask(array)
        )
    if pa.types.is_fixed_size_list(type):
        values = array.values[array.offset * type.list_size : (array.offset + len(array)) * type.list_size]
        return pa.FixedSizeListArray.from_arrays(
            cast_layout(values, type.value_type), type=type, mask=make_null_mask(array)
        )
    if pa.types.is_struct(type):
        return _cast_struct_layout(array, type)
    return _cast_atomic_layout(array, type)


def _cast_map_layout(array: pa.Array, type: pa.MapType) -> pa.Array:
    if pa.types.is_map(array.type):
        key, value = array.keys, array.items
    else:
        if array.values.field(0).null_count:
            array = _drop_unused_entries(array)
        key, value = array.values.field(0), array.values.field(1)
    key, value = cast_layout(key, type.key_type), cast_layout(value, type.item_type)
    return pa.MapArray.from_arrays(list_offsets(array), key, value, type=type, mask=make_null_mask(array))


def _drop_unused_entries(array: pa.Array) -> pa.Array:
    """Copy lists without the values that no list holds. Polars leaves null entries there, which Arrow's maps refuse."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(valid, np.diff(array.offsets.to_numpy()), 0)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), array.offsets.type)
    return array.__class__.from_arrays(offsets, array.flatten(), mask=pa.array(~valid))


def _cast_struct_layout(array: pa.StructArray, type: pa.StructType) -> pa.Array:
    if array.type.num_fields != type.num_fields:
        raise pa.ArrowInvalid(f"{array.type.num_fields} members where {type.num_fields} are expected")
    members = [cast_layout(array.field(i), type.field(i).type) for i in range(type.num_fields)]
    if not members:
        return array.cast(type)
    return pa.StructArray.from_arrays(members, fields=list(type), mask=make_null_mask(array))


def _cast_atomic_layout(array: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(type) and pa.types.is_timestamp(array.type):
        try:
            return array.cast(type)
        except pa.ArrowInvalid:
            import pyarrow.compute as pc  # a large module, which most reads do without

            # The writer kept more digits than the declared precision.
            unit = {"s": "second", "ms": "millisecond", "us": "microsecond"}[type.unit]
            return pc.floor_temporal(array, unit=unit).cast(type)
    return array.cast(type)


def list_offsets(array: pa.Array) -> pa.Array:
    """Return 32-bit offsets of a list or map array, unsliced (Arrow rejects a slice together with a null mask)."""
    offsets = array.offsets.cast(pa.int32())
    if not offsets.offset:
        return offsets
    import pyarrow.compute as pc  # a large module, which most reads do without

    return pc.add(offsets, pa.scalar(0, pa.int32()))


def make_null_mask(array: pa.Array) -> pa.Array | None:
    """Return a mask that is true for nulls, for Arrow's `from_arrays` constructors; None without nulls."""
    return array.is_null() if array.null_count else None


def to_arrow_array(series: pl.Series, type: t.DataType) -> pa.Array:
    """Convert a column in Morrow's Polars representation to an Arrow array of exactly `type.arrow()`."""
    return cast_layout(export_series(clear_pattern_name(series), pl.CompatLevel.oldest()), type.arrow())


def to_frame(rows: pa.RecordBatch | pa.Table, fields: Sequence[t.DataField]) -> pl.DataFrame:
    """Convert Arrow columns of these types, in their order, to a frame in Morrow's representation."""
    return pl.DataFrame([to_series(field.name, rows.column(field.name), field.type) for field in fields])


def to_series(name: str, array: pa.Array | pa.ChunkedArray, type: t.DataType) -> pl.Series:
    """Convert an Arrow column of `type` to a Polars series in Morrow's representation."""
    return import_array(array, to_polars_dtype(type)).alias(name)


DTYPE_BYTES: dict[type[pl.DataType], int] = {
    **dict.fromkeys((pl.Boolean, pl.Int8), 1),
    pl.Int16: 2,
    **dict.fromkeys((pl.Int32, pl.Float32, pl.Date), 4),
    **dict.fromkeys((pl.Int64, pl.Float64, pl.Datetime, pl.Time), 8),
    pl.Decimal: 16,
}
"""Bytes of a value by its dtype."""

VARIABLE_BYTES = 40
"""Approximate size in bytes of a value of variable width."""


def estimate_width(type_: DataType) -> int:
    """Estimate the bytes that a value of this type takes in memory."""
    return DTYPE_BYTES.get(type(to_polars_dtype(type_)), VARIABLE_BYTES)
