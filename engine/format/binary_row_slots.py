"""Decoders of the slots of BinaryRow by type: from the bytes of one field in all rows to an Arrow array.

The layout is in `morrow.engine.format.binary_row`. The target of a slot is checked to lie inside its own row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import NOT_UTF8, CorruptFile, Unsupported
from morrow.engine.format.arrow_buffers import Bools, Bytes, Ints
from morrow.engine.format.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    arrow_time_unit,
)
from morrow.engine.units import MILLIS_PER_DAY, NANOS_PER_MILLI

ARITY_WIDTH = 4
SLOT_WIDTH = 8
MAX_INLINE_LENGTH = 7
INLINE_MARK = 0x80
MAX_COMPACT_DECIMAL_PRECISION = 18
MAX_COMPACT_TIMESTAMP_PRECISION = 3
DECIMAL_WIDTH = 16


class Rows(msgspec.Struct, frozen=True):
    """Stored rows back to back in one buffer; `start` is each row's header byte, `size` its bytes without the arity."""

    buffer: Bytes
    start: Ints
    size: Ints
    present: Bools
    where: str

    def load(self, positions: Ints, dtype: str) -> npt.NDArray[Any]:
        """Returns one `dtype` value at each byte position, aligned or not; positions are already checked."""
        width = np.dtype(dtype).itemsize
        if len(self.buffer) < width:
            return np.zeros(len(positions), dtype)
        first = self.buffer[:width].view(dtype)
        return np.lib.stride_tricks.as_strided(first, (len(self.buffer) - width + 1,), (1,))[positions]

    def require(self, good: Bools, problem: str) -> None:
        """Raises `CorruptFile` with the number of the first row that is not `good`."""
        if not good.all():
            raise CorruptFile(self.where, f"row {int(np.argmin(good))}: {problem}")


class Field(msgspec.Struct, frozen=True):
    """One field of all rows: the byte position of its slot, the slot as int64, and which rows have a value."""

    rows: Rows
    position: Ints
    slot: Ints
    valid: Bools
    data_start: int
    lenient: bool

    def spans(self, length: Ints) -> Ints:
        """Returns where the variable part of each row's value begins, 0 for null rows.

        Checks that `length` bytes are there.
        """
        offset = self.slot >> 32
        inside = (offset >= self.data_start) & (length >= 0) & (offset + length <= self.rows.size)
        self.rows.require(inside | ~self.valid, "a value lies outside its row")
        return np.where(self.valid, self.rows.start + offset, 0)


def _array(kind: pa.DataType, values: npt.NDArray[Any], valid: Bools) -> pa.Array:
    """Returns an Arrow array over `values`, whose bytes already have the layout of `kind`."""
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(valid), [validity, pa.py_buffer(np.ascontiguousarray(values))])


def _plain(dtype: str) -> Callable[[Field, DataType], pa.Array]:
    """Returns the decoder of a type whose slot begins with its value."""

    def decode(field: Field, kind: DataType) -> pa.Array:
        return _array(kind.arrow(), field.rows.load(field.position, dtype), field.valid)

    return decode


def _boolean(field: Field, kind: DataType) -> pa.Array:
    return _array(kind.arrow(), np.packbits((field.slot & 0xFF) != 0, bitorder="little"), field.valid)


def _time(field: Field, kind: DataType) -> pa.Array:
    millis = field.rows.load(field.position, "<i4")
    field.rows.require((millis >= 0) & (millis < MILLIS_PER_DAY) | ~field.valid, "a TIME is outside its day")
    return _array(kind.arrow(), np.where(field.valid, millis, 0).astype(np.int32), field.valid)


def _decimal(field: Field, kind: DataType) -> pa.Array:
    assert isinstance(kind, DecimalType)
    if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION:
        unscaled = np.stack([field.slot, field.slot >> 63], axis=1)
    else:
        length = np.where(field.valid, field.slot & 0xFFFFFFFF, 0)
        sized = (length > 0) & (length <= DECIMAL_WIDTH)
        field.rows.require(sized | ~field.valid, "a DECIMAL is not 1 to 16 bytes long")
        unscaled = _wide_integers(field.rows.buffer, field.spans(length), length)
    array = _array(kind.arrow(), np.where(field.valid[:, None], unscaled, 0), field.valid)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptFile(field.rows.where, f"a value does not fit {kind}: {error}") from error
    return array


def _wide_integers(buffer: Bytes, start: Ints, length: Ints) -> Ints:
    """Reads big-endian two's complement integers of 1 to 16 bytes.

    They are sign-extended to pairs of little-endian words (n x 2).
    """
    from_end = np.arange(DECIMAL_WIDTH)
    positions = np.maximum((start + length - 1)[:, None] - from_end, 0)
    digits = buffer[positions] if len(buffer) else np.zeros(positions.shape, np.uint8)
    sign = np.where(buffer[start] >= 0x80, 0xFF, 0) if len(buffer) else np.zeros(len(start))
    filled = np.where(from_end < length[:, None], digits, sign[:, None]).astype(np.uint8)
    return filled.view("<i8")


def _timestamp(field: Field, kind: DataType) -> pa.Array:
    assert isinstance(kind, (TimestampType, LocalZonedTimestampType))
    unit = "ms" if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION else arrow_time_unit(kind.precision)
    arrow = pa.timestamp(unit, "UTC" if isinstance(kind, LocalZonedTimestampType) else None)
    if unit == "ms":
        return _array(arrow, field.slot, field.valid)
    nanos = np.where(field.valid, field.slot & 0xFFFFFFFF, 0)
    field.rows.require(nanos < NANOS_PER_MILLI, "a TIMESTAMP has more nanoseconds than a millisecond")
    millis = field.rows.load(field.spans(np.full_like(nanos, SLOT_WIDTH)), "<i8")
    per_milli = 1_000 if unit == "us" else NANOS_PER_MILLI
    limit = np.iinfo(np.int64).max // per_milli - 1
    fits = (np.abs(millis) <= limit) | ~field.valid
    if not fits.all() and not field.lenient:
        raise Unsupported(f"a {kind} too far from 1970 for Arrow's {unit}", where=field.rows.where)
    valid = field.valid & fits
    ticks = np.where(valid, millis, 0) * per_milli + nanos // (NANOS_PER_MILLI // per_milli)
    return _array(arrow, ticks, valid)


def _bytes(field: Field, kind: DataType) -> pa.Array:
    """Decodes variable-length values, copied once by Arrow.

    The values of one field lie in the order of the rows, so `begin, end, begin, end ...` are ascending offsets into
    the buffer: every second element of that array is a value, the others are the gaps between them.
    """
    mark = (field.slot >> 56) & 0xFF
    inline = mark >= INLINE_MARK
    length = np.where(inline, mark - INLINE_MARK, field.slot & 0xFFFFFFFF)
    field.rows.require((length <= MAX_INLINE_LENGTH) | ~inline | ~field.valid, "an inline value is over 7 bytes long")
    outside = msgspec.structs.replace(field, valid=field.valid & ~inline)
    begin = np.where(inline, field.position, outside.spans(length))
    begin = np.where(field.valid, begin, field.rows.start - ARITY_WIDTH)
    edges = np.stack([begin, begin + np.where(field.valid, length, 0)], axis=1).ravel()
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(field.rows.buffer)]
    spans = pa.Array.from_buffers(pa.large_binary(), max(len(edges) - 1, 0), buffers)
    wanted = _array(pa.int64(), np.arange(0, len(edges), 2), field.valid)
    try:
        return spans.take(wanted).cast(pa.large_string() if pa.types.is_string(kind.arrow()) else pa.large_binary())
    except pa.ArrowInvalid as error:
        raise Unsupported(f"a {kind} that is not UTF-8", where=field.rows.where, hint=NOT_UTF8) from error


def only_nulls(field: Field, kind: DataType) -> pa.Array:
    if field.valid.any() and not field.lenient:
        raise Unsupported(f"a {kind.keyword} value in a BinaryRow", where=field.rows.where)
    return pa.nulls(len(field.valid))


DECODERS: dict[type[DataType], Callable[[Field, DataType], pa.Array]] = {
    BooleanType: _boolean,
    TinyIntType: _plain("i1"),
    SmallIntType: _plain("<i2"),
    IntType: _plain("<i4"),
    BigIntType: _plain("<i8"),
    FloatType: _plain("<f4"),
    DoubleType: _plain("<f8"),
    DecimalType: _decimal,
    CharType: _bytes,
    VarCharType: _bytes,
    BinaryType: _bytes,
    VarBinaryType: _bytes,
    DateType: _plain("<i4"),
    TimeType: _time,
    TimestampType: _timestamp,
    LocalZonedTimestampType: _timestamp,
}
