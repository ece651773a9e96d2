"""Decoder of BinaryRow, the row encoding of partition values, keys and statistics in manifests, column by column.

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
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import polars_series, validity
from morrow.engine.format.binary_row_slots import ARITY_WIDTH, DECODERS, SLOT_WIDTH, Field, Rows, only_nulls
from morrow.engine.format.types import DataType

HEADER_BITS = 8
EPOCH = dt.datetime(1970, 1, 1)

BinaryColumn: TypeAlias = pl.Series | pa.Array | pa.ChunkedArray | Sequence[bytes | None]
Value: TypeAlias = bool | int | float | str | bytes | Decimal | dt.date | dt.time | dt.datetime | np.datetime64 | None


def bit_set_width(arity: int) -> int:
    """Returns the bytes of the header and null bits of a row of `arity` fields."""
    return (arity + 63 + HEADER_BITS) // 64 * 8


def fixed_width(arity: int) -> int:
    """Returns the bytes of a row before its variable part: header, null bits and slots."""
    return bit_set_width(arity) + SLOT_WIDTH * arity


def decode_columns(
    rows: BinaryColumn,
    types: Sequence[DataType],
    *,
    where: str,
    columns: Sequence[int] | None = None,
    unrepresentable: Literal["raise", "null"] = "raise",
) -> list[pl.Series]:
    """Decodes stored rows into one Series for each field.

    Args:
        rows: the stored bytes, arity first; a null row gives null in every column.
        types: the types of all fields, in order.
        where: names the file in errors.
        columns: indexes of the wanted fields; None is all of them.
        unrepresentable: the result of values that Polars cannot represent, nanosecond timestamps outside the years
            1677-2262 and nested values: an error, or null.

    Returns:
        Series as long as `rows`, in the order of `columns`: Int8-Int64, Float32/64, Boolean, Decimal, String, Binary,
        Date, Time, Datetime (ms up to precision 3, us up to 6, ns above; zone UTC for TIMESTAMP_LTZ).

    Raises:
        CorruptFile: a row is shorter than its fields, or has another number of them.
        Unsupported: an unrepresentable value, unless those may become null.
    """
    wanted = range(len(types)) if columns is None else columns
    located = _locate(rows, where)
    fixed = fixed_width(len(types))
    arity = located.load(np.where(located.present, located.start - ARITY_WIDTH, 0), ">i4")
    located.require((arity == len(types)) | ~located.present, f"the row does not have {len(types)} fields")
    located.require((located.size >= fixed) | ~located.present, f"the row is shorter than its {fixed} fixed bytes")
    return [_decode_field(located, i, types, unrepresentable == "null") for i in wanted]


def decode_row(data: bytes, types: Sequence[DataType], *, where: str) -> tuple[Value, ...]:
    """Decodes one stored row into Python values, None for null.

    TIMESTAMP is a naive datetime and TIMESTAMP_LTZ an aware one in UTC. A timestamp whose nanoseconds a datetime would
    lose is a `numpy.datetime64[ns]` instead (UTC for TIMESTAMP_LTZ), so no value changes silently.

    Raises:
        CorruptFile: as `decode_columns`.
        Unsupported: a nested value, a date or timestamp outside the years 1-9999 (1677-2262 for nanoseconds).
    """
    return decode_rows([data], types, where=where)[0]


def decode_rows(rows: Sequence[bytes], types: Sequence[DataType], *, where: str) -> list[tuple[Value, ...]]:
    """Decodes many stored rows at once, in their order; values and errors are those of `decode_row`."""
    columns = decode_columns(rows, types, where=where)
    return python_rows(columns, where=where) if columns else [()] * len(rows)


def python_rows(columns: Sequence[pl.Series], *, where: str) -> list[tuple[Value, ...]]:
    """Returns the rows of decoded columns (at least one) with values as in `decode_row`.

    Raises:
        Unsupported: as `decode_row`.
    """
    return list(zip(*(_python_values(column, where) for column in columns)))


def same_value(left: Value | None, right: Value | None) -> bool:
    """Returns whether two decoded values name the same partition, by Java's order: NaN is NaN, and -0.0 is not 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        return (
            math.isnan(left) and math.isnan(right)
            if left != right
            else math.copysign(1, left) == math.copysign(1, right)
        )
    return left == right


def arities(rows: BinaryColumn, *, where: str) -> npt.NDArray[np.int32]:
    """Returns the number of fields of each stored row, -1 for null rows.

    Raises:
        CorruptFile: a row is too short to hold its arity.
    """
    located = _locate(rows, where)
    arity = located.load(np.where(located.present, located.start - ARITY_WIDTH, 0), ">i4")
    return np.where(located.present, arity, -1).astype(np.int32)


def _python_values(column: pl.Series, where: str) -> list[Value]:
    if not isinstance(column.dtype, (pl.Date, pl.Datetime)):
        return cast("list[Value]", column.to_list())
    # Not column.to_list(): Polars panics on dates that Python cannot represent.
    try:
        return [_python_time(ticks, column.dtype) for ticks in column.to_physical().to_list()]
    except (OverflowError, ValueError) as error:
        raise Unsupported("a date or timestamp outside the years 1 to 9999", where=where) from error


def _python_time(ticks: int | None, dtype: pl.Date | pl.Datetime) -> Value:
    if ticks is None:
        return None
    if isinstance(dtype, pl.Date):
        return dt.date.fromordinal(EPOCH.toordinal() + ticks)
    return _python_timestamp(ticks, dtype)


def _python_timestamp(ticks: int, dtype: pl.Datetime) -> dt.datetime | np.datetime64:
    if dtype.time_unit == "ns" and ticks % 1_000:
        return np.datetime64(ticks, "ns")
    micros = {"ms": ticks * 1_000, "us": ticks, "ns": ticks // 1_000}[dtype.time_unit]
    naive = EPOCH + dt.timedelta(microseconds=micros)
    return naive.replace(tzinfo=dt.UTC) if dtype.time_zone else naive


def _locate(rows: BinaryColumn, where: str) -> Rows:
    """Reduces any form of a binary column to one byte buffer with starts and sizes."""
    if isinstance(rows, (pa.Array, pa.ChunkedArray)):
        array = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
    else:
        # Through Polars: the first time that Arrow converts Python values, it imports all of pandas.
        array = (rows if isinstance(rows, pl.Series) else pl.Series(rows, dtype=pl.Binary)).to_arrow()
    if array.type != pa.large_binary():  # casts of Arrow's bring a large module along
        array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    edges = np.frombuffer(offsets, np.int64, len(array) + 1, array.offset * 8) if len(array) else np.zeros(1, np.int64)
    present = validity(array)
    buffer = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    located = Rows(buffer, edges[:-1] + ARITY_WIDTH, np.diff(edges) - ARITY_WIDTH, present, where)
    located.require((located.size >= 0) | ~present, "the row is too short to hold its number of fields")
    return located


def _decode_field(rows: Rows, index: int, types: Sequence[DataType], lenient: bool) -> pl.Series:
    begin = np.where(rows.present, rows.start, 0)
    null_byte, null_bit = divmod(HEADER_BITS + index, 8)
    position = np.where(rows.present, begin + bit_set_width(len(types)) + SLOT_WIDTH * index, 0)
    valid = rows.present & (rows.load(np.where(rows.present, begin + null_byte, 0), "u1") >> null_bit & 1 == 0)
    field = Field(rows, position, rows.load(position, "<i8"), valid, fixed_width(len(types)), lenient)
    kind = types[index]
    array = DECODERS.get(type(kind), only_nulls)(field, kind)
    return polars_series(array)
