"""Encoder of one BinaryRow, value by value: for one row, columns take longer to set up than values to write.

The bytes are those of `binary_row_encode`, also of nulls: a null wide DECIMAL or TIMESTAMP has a zeroed variable part.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, TypeAlias

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.binary_row import HEADER_BITS, bit_set_width, fixed_width
from morrow.engine.format.binary_row_slots import (
    DECIMAL_WIDTH,
    INLINE_MARK,
    MAX_COMPACT_DECIMAL_PRECISION,
    MAX_COMPACT_TIMESTAMP_PRECISION,
    MAX_INLINE_LENGTH,
    SLOT_WIDTH,
)
from morrow.engine.units import NANOS_PER_MILLI

PER_MILLI = {"ms": 1, "us": 1_000, "ns": NANOS_PER_MILLI}
TICKS = (pl.Date, pl.Time, pl.Datetime)
"""Types whose values are numbers of their unit; Python's would have fewer digits."""
EXACT = Context(prec=38)

Slot: TypeAlias = tuple[int, bytes]
"""The number in a slot, without the offset of the variable part, and that part."""
Encode: TypeAlias = Callable[[Any, Any, Any], Slot]
"""Makes the slot of a value, its type and its dtype."""


def encode_value_row(columns: Sequence[pl.Series], types: Sequence[t.DataType], row: int = 0) -> bytes:
    """Returns one row of columns as metadata stores it, arity first; the columns have the dtypes of `polars_types`.

    Raises:
        Unsupported: a nested value.
    """
    nulls, slots, variable = 0, bytearray(), bytearray()
    for i, (column, kind) in enumerate(zip(columns, types, strict=True)):
        value = (column.cast(pl.Int64) if isinstance(column.dtype, TICKS) else column)[row]
        if value is None:
            nulls |= 1 << (HEADER_BITS + i)
            slot, part = 0, bytes(_width_of_null(kind))
        else:
            encode: Encode = _SLOTS.get(type(kind), _nested)
            slot, part = encode(value, kind, column.dtype)
        if part:
            slot |= (fixed_width(len(types)) + len(variable)) << 32
            variable += part
        slots += (slot % (1 << 64)).to_bytes(SLOT_WIDTH, "little")
    return struct.pack(">i", len(types)) + nulls.to_bytes(bit_set_width(len(types)), "little") + slots + variable


def _width_of_null(kind: t.DataType) -> int:
    if isinstance(kind, t.DecimalType):
        return DECIMAL_WIDTH if kind.precision > MAX_COMPACT_DECIMAL_PRECISION else 0
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)):
        return SLOT_WIDTH if kind.precision > MAX_COMPACT_TIMESTAMP_PRECISION else 0
    return 0


def _number(bits: int) -> Encode:
    return lambda value, _, __: (value % (1 << bits), b"")


def _float(form: str) -> Encode:
    return lambda value, _, __: (int.from_bytes(struct.pack(form, value), "little"), b"")


def _bytes(value: bytes | str, _: t.DataType, __: pl.DataType) -> Slot:
    data = value.encode() if isinstance(value, str) else value
    if len(data) <= MAX_INLINE_LENGTH:
        return int.from_bytes(data, "little") | (INLINE_MARK | len(data)) << 56, b""
    return len(data), data + bytes(-len(data) % SLOT_WIDTH)


def _decimal(value: Decimal, kind: t.DataType, _: pl.DataType) -> Slot:
    assert isinstance(kind, t.DecimalType)
    unscaled = int(value.scaleb(kind.scale, EXACT))
    if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION:
        return unscaled, b""
    length = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return length, unscaled.to_bytes(length, "big", signed=True) + bytes(DECIMAL_WIDTH - length)


def _timestamp(value: int, kind: t.DataType, dtype: pl.DataType) -> Slot:
    assert isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)) and isinstance(dtype, pl.Datetime)
    per_milli = PER_MILLI[dtype.time_unit]
    millis, rest = divmod(value, per_milli)
    if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION:
        return millis, b""
    return rest * (NANOS_PER_MILLI // per_milli), struct.pack("<q", millis)


def _nested(_: Any, kind: t.DataType, __: pl.DataType) -> Slot:
    raise Unsupported(f"{kind} in a partition, key or bucket key", hint="use columns of atomic types")


_SLOTS: Mapping[type[t.DataType], Encode] = {
    t.BooleanType: _number(8),
    t.TinyIntType: _number(8),
    t.SmallIntType: _number(16),
    t.IntType: _number(32),
    t.BigIntType: _number(64),
    t.FloatType: _float("<f"),
    t.DoubleType: _float("<d"),
    t.DecimalType: _decimal,
    **dict.fromkeys((t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType), _bytes),
    t.DateType: _number(32),
    t.TimeType: lambda value, _, __: (value // NANOS_PER_MILLI, b""),
    t.TimestampType: _timestamp,
    t.LocalZonedTimestampType: _timestamp,
}
