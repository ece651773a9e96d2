"""Decoder of BinaryRow, the row encoding of partition values, keys and statistics in manifests.

Layout of one stored row; all integers little-endian except the arity:

    arity        4 bytes, big-endian: number of fields (written in front of the row wherever it is stored as bytes)
    header       1 byte: row kind, 0 in metadata
    null bits    1 bit a field, bit 8 + i of the row (so header and null bits share words), padded to 8 bytes
    slots        8 bytes a field
    variable     values that do not fit their slot, each padded with zeros to 8 bytes

A slot holds, by type:

    BOOLEAN, TINYINT, SMALLINT, INT, DATE (epoch days), TIME (ms of day), BIGINT, FLOAT, DOUBLE
                             the value in the first bytes of the slot
    DECIMAL, precision <= 18 the unscaled value as int64
    DECIMAL, precision > 18  offset << 32 | length; there the unscaled value, two's complement, big-endian
    TIMESTAMP, precision <= 3  milliseconds since the epoch as int64
    TIMESTAMP, precision > 3 offset << 32 | nanoseconds within the millisecond; there the milliseconds as int64
    CHAR, VARCHAR, BINARY, VARBINARY
                             up to 7 bytes: the bytes, then 0x80 | length in the last byte of the slot;
                             longer: offset << 32 | length

Offsets count from the header byte. Nested types take an offset and a length too; metadata only ever has them as null.

A slot that points outside of its own row is refused.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import NOT_UTF8, CorruptFile, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import Bools, Bytes, Ints, read_validity, to_series
from morrow.engine.units import MILLIS_PER_DAY, NANOS_PER_MILLI

HEADER_BITS = 8
EPOCH = dt.datetime(1970, 1, 1)

BinaryColumn: TypeAlias = pl.Series | pa.Array | pa.ChunkedArray | Sequence[bytes | None]
Value: TypeAlias = bool | int | float | str | bytes | Decimal | dt.date | dt.time | dt.datetime | np.datetime64 | None


def compute_bit_set_width(arity: int) -> int:
    """Return the size in bytes of the header and null bits of a row of `arity` fields."""
    return (arity + 63 + HEADER_BITS) // 64 * 8


def compute_fixed_width(arity: int) -> int:
    """Return the size in bytes of a row before its variable part: header, null bits and slots."""
    return compute_bit_set_width(arity) + SLOT_WIDTH * arity


def decode_columns(
    rows: BinaryColumn,
    types: Sequence[t.DataType],
    *,
    where: str,
    columns: Sequence[int] | None = None,
    unrepresentable: Literal["raise", "null"] = "raise",
) -> list[pl.Series]:
    """Decode stored rows into one Series for each field.

    Args:
        rows: the stored bytes, arity first; a null row gives null in every column.
        types: the types of all fields, in order.
        where: names the file in errors.
        columns: indexes of the fields to decode; None for all.
        unrepresentable: the result for values that Polars cannot represent (nanosecond timestamps outside the years
            1677-2262, and nested values): an error, or null.

    Returns:
        Series as long as `rows`, in the order of `columns`: Int8-Int64, Float32/64, Boolean, Decimal, String, Binary,
        Date, Time, Datetime (ms up to precision 3, us up to 6, ns above; zone UTC for TIMESTAMP_LTZ).

    Raises:
        CorruptFile: a row is shorter than its fields, or has another number of fields.
        Unsupported: an unrepresentable value, unless such values become null.
    """
    wanted = range(len(types)) if columns is None else columns
    located = _locate(rows, where)
    fixed = compute_fixed_width(len(types))
    arity = located.load(np.where(located.present, located.start - ARITY_WIDTH, 0), ">i4")
    located.require((arity == len(types)) | ~located.present, f"the row does not have {len(types)} fields")
    located.require((located.size >= fixed) | ~located.present, f"the row is shorter than its {fixed} fixed bytes")
    return [_decode_field(located, i, types, unrepresentable == "null") for i in wanted]


def decode_row(data: bytes, types: Sequence[t.DataType], *, where: str) -> tuple[Value, ...]:
    """Decode one stored row into Python values, None for null.

    TIMESTAMP is a naive datetime and TIMESTAMP_LTZ an aware one in UTC. A timestamp with nanoseconds that a datetime
    would lose becomes a `numpy.datetime64[ns]` instead (UTC for TIMESTAMP_LTZ), so values never change silently.

    Raises:
        CorruptFile: as `decode_columns`.
        Unsupported: a nested value, a date or timestamp outside the years 1-9999 (1677-2262 for nanoseconds).
    """
    return decode_rows([data], types, where=where)[0]


def decode_rows(rows: Sequence[bytes], types: Sequence[t.DataType], *, where: str) -> list[tuple[Value, ...]]:
    """Decode many stored rows at once, in order, with the values and errors of `decode_row`."""
    columns = decode_columns(rows, types, where=where)
    return to_python_rows(columns, where=where) if columns else [()] * len(rows)


def to_python_rows(columns: Sequence[pl.Series], *, where: str) -> list[tuple[Value, ...]]:
    """Return the rows of decoded columns (at least one) with values as in `decode_row`.

    Raises `Unsupported`: as `decode_row`.
    """
    return list(zip(*(_to_python_values(column, where) for column in columns)))


def is_same_value(left: Value | None, right: Value | None) -> bool:
    """Return whether two decoded values mean the same partition, as in Java: NaN equals NaN, -0.0 differs from 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        return (
            math.isnan(left) and math.isnan(right)
            if left != right
            else math.copysign(1, left) == math.copysign(1, right)
        )
    return left == right


def read_arities(rows: BinaryColumn, *, where: str) -> npt.NDArray[np.int32]:
    """Return the number of fields of each stored row, -1 for null rows.

    Raises `CorruptFile`: a row is too short to hold its arity.
    """
    located = _locate(rows, where)
    arity = located.load(np.where(located.present, located.start - ARITY_WIDTH, 0), ">i4")
    return np.where(located.present, arity, -1).astype(np.int32)


def _to_python_values(column: pl.Series, where: str) -> list[Value]:
    if not isinstance(column.dtype, (pl.Date, pl.Datetime)):
        return cast("list[Value]", column.to_list())
    # Not column.to_list(): Polars panics on dates that Python cannot represent.
    try:
        return [_to_python_time(ticks, column.dtype) for ticks in column.to_physical().to_list()]
    except (OverflowError, ValueError) as error:
        raise Unsupported("a date or timestamp outside the years 1 to 9999", where=where) from error


def _to_python_time(ticks: int | None, dtype: pl.Date | pl.Datetime) -> Value:
    if ticks is None:
        return None
    if isinstance(dtype, pl.Date):
        return dt.date.fromordinal(EPOCH.toordinal() + ticks)
    return _to_python_timestamp(ticks, dtype)


def _to_python_timestamp(ticks: int, dtype: pl.Datetime) -> dt.datetime | np.datetime64:
    if dtype.time_unit == "ns" and ticks % 1_000:
        return np.datetime64(ticks, "ns")
    micros = {"ms": ticks * 1_000, "us": ticks, "ns": ticks // 1_000}[dtype.time_unit]
    naive = EPOCH + dt.timedelta(microseconds=micros)
    return naive.replace(tzinfo=dt.UTC) if dtype.time_zone else naive


def _locate(rows: BinaryColumn, where: str) -> Rows:
    """Reduce any form of a binary column to one byte buffer with starts and sizes."""
    if isinstance(rows, (pa.Array, pa.ChunkedArray)):
        array = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
    else:
        # Through Polars: Arrow's first conversion of Python values imports pandas.
        array = (rows if isinstance(rows, pl.Series) else pl.Series(rows, dtype=pl.Binary)).to_arrow()
    if array.type != pa.large_binary():  # avoids needless casts: they import a large Arrow module
        array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    edges = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8) if len(array) else np.zeros(1, np.int64)
    present = read_validity(array)
    buffer = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    located = Rows(buffer, edges[:-1] + ARITY_WIDTH, np.diff(edges) - ARITY_WIDTH, present, where)
    located.require((located.size >= 0) | ~present, "the row is too short to hold its number of fields")
    return located


def _decode_field(rows: Rows, index: int, types: Sequence[t.DataType], lenient: bool) -> pl.Series:
    begin = np.where(rows.present, rows.start, 0)
    null_byte, null_bit = divmod(HEADER_BITS + index, 8)
    position = np.where(rows.present, begin + compute_bit_set_width(len(types)) + SLOT_WIDTH * index, 0)
    valid = rows.present & (rows.load(np.where(rows.present, begin + null_byte, 0), "u1") >> null_bit & 1 == 0)
    field = Field(rows, position, rows.load(position, "<i8"), valid, compute_fixed_width(len(types)), lenient)
    kind = types[index]
    array = DECODERS.get(type(kind), decode_nulls)(field, kind)
    return to_series(array)


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
        """Return one `dtype` value at each byte position, aligned or not; positions are already checked."""
        width = np.dtype(dtype).itemsize
        if len(self.buffer) < width:
            return np.zeros(len(positions), dtype)
        first = self.buffer[:width].view(dtype)
        return np.lib.stride_tricks.as_strided(first, (len(self.buffer) - width + 1,), (1,))[positions]

    def require(self, good: Bools, problem: str) -> None:
        """Raise `CorruptFile` with the number of the first row that is not `good`."""
        if not good.all():
            raise CorruptFile(self.where, f"row {int(np.argmin(good))}: {problem}")


class Field(msgspec.Struct, frozen=True):
    """One field of all rows: the byte positions of its slots, the slots as int64, and a mask of non-null values."""

    rows: Rows
    position: Ints
    slot: Ints
    valid: Bools
    data_start: int
    lenient: bool

    def spans(self, length: Ints) -> Ints:
        """Return the start of the variable part of each row's value, 0 for null rows.

        Checks that `length` bytes are available.
        """
        offset = self.slot >> 32
        inside = (offset >= self.data_start) & (length >= 0) & (offset + length <= self.rows.size)
        self.rows.require(inside | ~self.valid, "a value lies outside its row")
        return np.where(self.valid, self.rows.start + offset, 0)


def build_array(kind: pa.DataType, values: npt.NDArray[Any], valid: Bools) -> pa.Array:
    """Return an Arrow array over `values`, which already has the memory layout of `kind`."""
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(valid), [validity, pa.py_buffer(np.ascontiguousarray(values))])


def _make_plain_decoder(dtype: str) -> Callable[[Field, t.DataType], pa.Array]:
    """Return the decoder of a type whose slot begins with its value."""

    def decode(field: Field, kind: t.DataType) -> pa.Array:
        return build_array(kind.arrow(), field.rows.load(field.position, dtype), field.valid)

    return decode


def _decode_boolean(field: Field, kind: t.DataType) -> pa.Array:
    return build_array(kind.arrow(), np.packbits((field.slot & 0xFF) != 0, bitorder="little"), field.valid)


def _decode_time(field: Field, kind: t.DataType) -> pa.Array:
    millis = field.rows.load(field.position, "<i4")
    field.rows.require((millis >= 0) & (millis < MILLIS_PER_DAY) | ~field.valid, "a TIME is outside its day")
    return build_array(kind.arrow(), np.where(field.valid, millis, 0).astype(np.int32), field.valid)


def _decode_decimal(field: Field, kind: t.DataType) -> pa.Array:
    assert isinstance(kind, t.DecimalType)
    if kind.precision <= MAX_COMPACT_DECIMAL_PRECISION:
        unscaled = np.stack([field.slot, field.slot >> 63], axis=1)
    else:
        length = np.where(field.valid, field.slot & 0xFFFFFFFF, 0)
        sized = (length > 0) & (length <= DECIMAL_WIDTH)
        field.rows.require(sized | ~field.valid, "a DECIMAL is not 1 to 16 bytes long")
        unscaled = read_wide_integers(field.rows.buffer, field.spans(length), length)
    return build_decimals(kind, unscaled, field.valid, field.rows.where)


def build_decimals(kind: t.DecimalType, unscaled: Ints, valid: Bools, where: str) -> pa.Array:
    """Build decimals from unscaled values (n x 2 words). Raises `CorruptFile` if one has too many digits."""
    array = build_array(kind.arrow(), np.where(valid[:, None], unscaled, 0), valid)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptFile(where, f"a value does not fit {kind}: {error}") from error
    return array


def read_wide_integers(buffer: Bytes, start: Ints, length: Ints) -> Ints:
    """Read big-endian two's complement integers of 1 to 16 bytes.

    They are sign-extended to pairs of little-endian words (n x 2).
    """
    from_end = np.arange(DECIMAL_WIDTH)
    positions = np.maximum((start + length - 1)[:, None] - from_end, 0)
    digits = buffer[positions] if len(buffer) else np.zeros(positions.shape, np.uint8)
    sign = np.where(buffer[start] >= 0x80, 0xFF, 0) if len(buffer) else np.zeros(len(start))
    filled = np.where(from_end < length[:, None], digits, sign[:, None]).astype(np.uint8)
    return filled.view("<i8")


def _decode_timestamp(field: Field, kind: t.DataType) -> pa.Array:
    assert isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType))
    if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION:
        return build_timestamps(kind, field.slot, np.zeros_like(field.slot), field.valid, field.rows.where)
    nanos = np.where(field.valid, field.slot & 0xFFFFFFFF, 0)
    millis = field.rows.load(field.spans(np.full_like(nanos, SLOT_WIDTH)), "<i8")
    return build_timestamps(kind, millis, nanos, field.valid, field.rows.where, lenient=field.lenient)


def build_timestamps(
    kind: t.TimestampType | t.LocalZonedTimestampType,
    millis: Ints,
    nanos: Ints,
    valid: Bools,
    where: str,
    *,
    lenient: bool = False,
) -> pa.Array:
    """Build timestamps from milliseconds, and the nanoseconds within each.

    Raises `CorruptFile`: too many nanoseconds. `Unsupported`: Arrow cannot hold a value; null if `lenient`.
    """
    unit = "ms" if kind.precision <= MAX_COMPACT_TIMESTAMP_PRECISION else t.to_arrow_time_unit(kind.precision)
    arrow = pa.timestamp(unit, "UTC" if isinstance(kind, t.LocalZonedTimestampType) else None)
    if unit == "ms":
        return build_array(arrow, millis, valid)
    bad = valid & (nanos >= NANOS_PER_MILLI)
    if bad.any():
        raise CorruptFile(where, f"row {int(np.argmax(bad))}: a TIMESTAMP has more nanoseconds than a millisecond")
    per_milli = 1_000 if unit == "us" else NANOS_PER_MILLI
    limit = np.iinfo(np.int64).max // per_milli - 1
    fits = (np.abs(millis) <= limit) | ~valid
    if not fits.all() and not lenient:
        raise Unsupported(f"a {kind} too far from 1970 for Arrow's {unit}", where=where)
    valid = valid & fits
    ticks = np.where(valid, millis, 0) * per_milli + nanos // (NANOS_PER_MILLI // per_milli)
    return build_array(arrow, ticks, valid)


def _decode_bytes(field: Field, kind: t.DataType) -> pa.Array:
    """Decode variable-length values."""
    mark = (field.slot >> 56) & 0xFF
    inline = mark >= INLINE_MARK
    length = np.where(inline, mark - INLINE_MARK, field.slot & 0xFFFFFFFF)
    field.rows.require((length <= MAX_INLINE_LENGTH) | ~inline | ~field.valid, "an inline value is over 7 bytes long")
    outside = msgspec.structs.replace(field, valid=field.valid & ~inline)
    begin = np.where(inline, field.position, outside.spans(length))
    begin = np.where(field.valid, begin, field.rows.start - ARITY_WIDTH)
    sizes = np.where(field.valid, length, 0)
    return take_spans(field.rows.buffer, begin, sizes, field.valid, kind, field.rows.where)


def take_spans(buffer: Bytes, begin: Ints, sizes: Ints, valid: Bools, kind: t.DataType, where: str) -> pa.Array:
    """Build text or bytes from spans of a buffer; Arrow copies the values once. The spans must not overlap, and be in
    order.

    So `begin, end, begin, end ...` are ascending offsets into the buffer: every second element of the resulting array
    is a value, the others are the gaps between values.
    """
    edges = np.stack([begin, begin + sizes], axis=1).ravel()
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(buffer)]
    spans = pa.Array.from_buffers(pa.large_binary(), max(len(edges) - 1, 0), buffers)
    wanted = build_array(pa.int64(), np.arange(0, len(edges), 2), valid)
    try:
        return spans.take(wanted).cast(pa.large_string() if pa.types.is_string(kind.arrow()) else pa.large_binary())
    except pa.ArrowInvalid as error:
        raise Unsupported(f"a {kind} that is not UTF-8", where=where, hint=NOT_UTF8) from error


def decode_nulls(field: Field, kind: t.DataType) -> pa.Array:
    if field.valid.any() and not field.lenient:
        raise Unsupported(f"a {kind.keyword} value in a BinaryRow", where=field.rows.where)
    return pa.nulls(len(field.valid))


DECODERS: dict[type[t.DataType], Callable[[Field, t.DataType], pa.Array]] = {
    t.BooleanType: _decode_boolean,
    t.TinyIntType: _make_plain_decoder("i1"),
    t.SmallIntType: _make_plain_decoder("<i2"),
    t.IntType: _make_plain_decoder("<i4"),
    t.BigIntType: _make_plain_decoder("<i8"),
    t.FloatType: _make_plain_decoder("<f4"),
    t.DoubleType: _make_plain_decoder("<f8"),
    t.DecimalType: _decode_decimal,
    t.CharType: _decode_bytes,
    t.VarCharType: _decode_bytes,
    t.BinaryType: _decode_bytes,
    t.VarBinaryType: _decode_bytes,
    t.DateType: _make_plain_decoder("<i4"),
    t.TimeType: _decode_time,
    t.TimestampType: _decode_timestamp,
    t.LocalZonedTimestampType: _decode_timestamp,
}
