"""BinaryRow bytes as manifests hold them, written column by column.

4 bytes number of fields, big-endian; then the row, little-endian: one byte row kind and one null bit per field, padded
to 8 bytes; 8 bytes per field; then the variable part, each value padded to 8 bytes. A field's 8 bytes hold the value
itself when it is of fixed width; up to 7 bytes of text inline, their number with the top bit set in the last byte; or
offset (from the row's start) and length of the value in the variable part, 4 bytes each. A decimal of more than 18
digits takes 16 bytes of the variable part, a timestamp above milliseconds 8 (the milliseconds; the slot's lower half
keeps the nanoseconds within the millisecond), both also when they are null.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t

ARITY_BYTES = 4
WORD = 8
HEADER_BITS = 8
INLINE_BYTES = 7
COMPACT_DECIMAL = 18
WIDE_DECIMAL_BYTES = 16
MILLIS_PRECISION = 3
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
NANOS_PER_MILLI = 10**6

FIXED: dict[type[t.DataType], type[np.generic]] = {
    t.BooleanType: np.int8,
    t.TinyIntType: np.int8,
    t.SmallIntType: np.int16,
    t.IntType: np.int32,
    t.BigIntType: np.int64,
    t.FloatType: np.float32,
    t.DoubleType: np.float64,
    t.DateType: np.int32,
    t.TimeType: np.int32,
}
NESTED = (t.ArrayType, t.VectorType, t.MapType, t.MultisetType, t.RowType, t.VariantType)

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass
class Column:
    """A decomposed column: its 8-byte slots, and each value's bytes in the variable part (padded, maybe empty).

    `relative` marks slots that hold a length or nanoseconds and still lack the offset of the value in the upper half.
    """

    slots: Ints
    variable: list[bytes] | None = None
    relative: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None


def binary_rows(columns: Sequence[pa.Array], types: Sequence[t.DataType], count: int) -> list[bytes]:
    """Encode `count` rows from columns with one value per row. Nested types must be all null."""
    head = (len(types) + HEADER_BITS + 63) // 64 * WORD
    width = head + WORD * len(types)
    fixed = np.zeros((count, ARITY_BYTES + width), np.uint8)
    fixed[:, :ARITY_BYTES] = np.frombuffer(struct.pack(">i", len(types)), np.uint8)
    cursor = np.full(count, width, np.int64)
    variable: list[list[bytes]] = []
    for i, (array, kind) in enumerate(zip(columns, types, strict=True)):
        nulls = np.asarray(array.is_null(), bool) if array.null_count else np.zeros(count, bool)
        byte, bit = divmod(i + HEADER_BITS, 8)
        fixed[:, ARITY_BYTES + byte] |= (nulls << bit).astype(np.uint8)
        column = take_apart(array, kind, nulls)
        slots = column.slots
        if column.variable is not None and column.relative is not None:
            slots = np.where(column.relative, slots | cursor << 32, slots)
            cursor += np.fromiter(map(len, column.variable), np.int64, count)
            variable.append(column.variable)
        start = ARITY_BYTES + head + WORD * i
        fixed[:, start : start + WORD] = slots.astype("<i8").reshape(count, 1).view(np.uint8)
    data, step = fixed.tobytes(), ARITY_BYTES + width
    rows = [data[i * step : (i + 1) * step] for i in range(count)]
    if variable:
        rows = [b"".join(parts) for parts in zip(rows, *variable, strict=True)]
    return rows


def one_row(values: Sequence[pa.Scalar], types: Sequence[t.DataType]) -> bytes:
    """Encode a single row of these scalars."""
    arrays = [pa.array([value.as_py()], kind.arrow()) for value, kind in zip(values, types, strict=True)]
    return binary_rows(arrays, types, 1)[0]


def take_apart(array: pa.Array, kind: t.DataType, nulls: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Column:
    if isinstance(kind, NESTED):
        assert nulls.all(), f"no statistics for {kind}"
        return Column(np.zeros(len(array), np.int64))
    if isinstance(kind, t.DecimalType):
        return _decimal(array, kind, nulls)
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        return _timestamp(array, kind, nulls)
    if type(kind) in FIXED:
        return Column(_fixed(array, FIXED[type(kind)]))
    return _bytes([b"" if v is None else v for v in array.cast(pa.binary()).to_pylist()], nulls)


def _fixed(array: pa.Array, dtype: type[np.generic]) -> Ints:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.view(pa.int32())
    values = np.ascontiguousarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False), dtype)
    slots = np.zeros((len(array), WORD), np.uint8)
    slots[:, : values.itemsize] = values.reshape(-1, 1).view(np.uint8)
    return slots.view("<i8").reshape(-1)


def _bytes(values: list[bytes], nulls: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Column:
    inline = np.fromiter((len(v) <= INLINE_BYTES for v in values), bool, len(values))
    words = [
        v.ljust(INLINE_BYTES, b"\0") + bytes([0x80 | len(v)]) if ok else b""
        for v, ok in zip(values, inline, strict=True)
    ]
    slots = np.fromiter(
        (int.from_bytes(w, "little", signed=True) if w else len(v) for w, v in zip(words, values, strict=True)),
        np.int64,
        len(values),
    )
    slots[nulls] = 0
    variable = [b"" if ok else v.ljust(-(-len(v) // WORD) * WORD, b"\0") for v, ok in zip(values, inline, strict=True)]
    return Column(slots, variable, ~inline)


def _decimal(array: pa.Array, kind: t.DecimalType, nulls: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Column:
    unscaled = [0 if v is None else int(v.scaleb(kind.scale)) for v in array.to_pylist()]
    if kind.precision <= COMPACT_DECIMAL:
        return Column(np.array(unscaled, np.int64))
    shortest = [v.to_bytes((v if v >= 0 else ~v).bit_length() // 8 + 1, "big", signed=True) for v in unscaled]
    content = [b"" if null else b for b, null in zip(shortest, nulls, strict=True)]
    slots = np.fromiter(map(len, content), np.int64, len(content))
    return Column(slots, [b.ljust(WIDE_DECIMAL_BYTES, b"\0") for b in content], np.ones(len(content), bool))


def _timestamp(
    array: pa.Array,
    kind: t.TimestampType | t.LocalZonedTimestampType,
    nulls: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Column:
    ticks = pc.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    unit = NANOS[array.type.unit]
    if unit >= NANOS_PER_MILLI:
        millis, nanos = ticks * (unit // NANOS_PER_MILLI), np.zeros(len(ticks), np.int64)
    else:
        per_milli = NANOS_PER_MILLI // unit
        millis, nanos = ticks // per_milli, ticks % per_milli * unit
    if kind.precision <= MILLIS_PRECISION:
        return Column(millis)
    data = millis.astype("<i8").tobytes()
    variable = [data[i * WORD : (i + 1) * WORD] for i in range(len(millis))]
    return Column(np.where(nulls, 0, nanos), variable, np.ones(len(millis), bool))
