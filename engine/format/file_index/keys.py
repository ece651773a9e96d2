"""Keys of file indexes: their storage by type, and the keys of literals and of whole columns.

A key is the value that a Java index stores: numbers unchanged, DECIMAL unscaled, DATE in days, TIME in milliseconds,
TIMESTAMP in milliseconds (precision up to 3) or microseconds, text in UTF-8. Keys of one type compare as in Java.

FLOAT and DOUBLE are stored as signed integers in Java's total order (-0.0 before 0.0, NaN last): the raw bits, with all
bits except the sign flipped for negative numbers. In SQL -0.0 = 0.0, so a literal of zero has two keys.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import find_byte_spans
from morrow.engine.format.file_index.data_output import Cursor, Ragged, concat_rows, gather, to_fixed_width

Key: TypeAlias = "int | bytes"
Keys = tuple[Key, ...]
"""The keys equal to one literal, ascending; never empty."""

MILLIS_PRECISION = 3
MICROS_PRECISION = 6
MAX_LONG_DECIMAL = 18
"""Maximum digits of a DECIMAL that fits the 64 bits of a key."""
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DATE = dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_NAN32, _NAN64 = 0x7FC00000, 0x7FF8000000000000


@dataclass(frozen=True)
class KeyKind:
    """The reader of a type's keys, and their conversion from literals.

    Attributes:
        read: reads the next key of an index.
        of: returns the keys of a literal; None if it is not exactly a value of the type, so the index cannot decide.
        width: bytes of a stored key; None if the width varies.
    """

    read: Callable[[Cursor], Key]
    of: Callable[[t.DataType, object], Keys | None]
    width: int | None


def to_keys(data_type: t.DataType, literal: object) -> Keys | None:
    """Return the keys of a literal, or None if an index of this type cannot decide."""
    kind = KINDS.get(type(data_type))
    return kind.of(data_type, literal) if kind else None


def is_lossy(data_type: t.DataType) -> bool:
    """Return whether different values share a key: TIMESTAMPs finer than the microseconds of the index."""
    return (
        isinstance(data_type, (t.TimestampType, t.LocalZonedTimestampType)) and data_type.precision > MICROS_PRECISION
    )


def to_total_order(bits: int, width: int) -> int:
    """Map signed IEEE bits to their rank in Java's total order, and back: the function is its own inverse."""
    return bits if bits >= 0 else bits ^ ((1 << (width - 1)) - 1)


def _convert_integer(_: t.DataType, literal: object) -> Keys | None:
    return (literal,) if isinstance(literal, int) and not isinstance(literal, bool) else None


def _convert_boolean(_: t.DataType, literal: object) -> Keys | None:
    return (int(literal),) if isinstance(literal, bool) else None


def _make_float_converter(
    code: str, bits_code: str, width: int, nan: int
) -> Callable[[t.DataType, object], Keys | None]:
    def of(_: t.DataType, literal: object) -> Keys | None:
        if isinstance(literal, bool) or not isinstance(literal, (int, float)):
            return None
        try:
            packed = struct.pack(code, literal)
        except OverflowError:
            return None
        if literal != literal:  # only NaN differs from itself
            return (nan,)
        if struct.unpack(code, packed)[0] != literal:
            return None
        if literal == 0:
            return (-1, 0)
        return (to_total_order(struct.unpack(bits_code, packed)[0], width),)

    return of


def _convert_decimal(data_type: t.DataType, literal: object) -> Keys | None:
    if not isinstance(data_type, t.DecimalType) or isinstance(literal, (bool, float)):
        return None
    if not isinstance(literal, (int, Decimal)) or data_type.precision > MAX_LONG_DECIMAL:
        return None
    value = Decimal(literal)
    if not value.is_finite():
        return None
    sign, digits, exponent = value.as_tuple()
    shift = int(exponent) + data_type.scale
    unscaled = int("".join(map(str, digits)) or "0")
    if abs(shift) > 2 * t.DecimalType().precision + MAX_LONG_DECIMAL:  # far out of range: do not build huge integers
        return (0,) if unscaled == 0 else None
    if shift < 0 and unscaled % 10**-shift:
        return None
    unscaled = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
    return (-unscaled if sign else unscaled,)


def _convert_date(_: t.DataType, literal: object) -> Keys | None:
    if isinstance(literal, dt.datetime) or not isinstance(literal, dt.date):
        return None
    return ((literal - _EPOCH_DATE).days,)


def _convert_time(_: t.DataType, literal: object) -> Keys | None:
    if not isinstance(literal, dt.time) or literal.tzinfo is not None or literal.microsecond % 1000:
        return None
    return (((literal.hour * 60 + literal.minute) * 60 + literal.second) * 1000 + literal.microsecond // 1000,)


def _convert_timestamp(data_type: t.DataType, literal: object) -> Keys | None:
    zoned = isinstance(data_type, t.LocalZonedTimestampType)
    if not isinstance(data_type, (t.TimestampType, t.LocalZonedTimestampType)) or not isinstance(literal, dt.datetime):
        return None
    if zoned != (literal.tzinfo is not None):
        return None
    micros = (literal - (_EPOCH.replace(tzinfo=dt.UTC) if zoned else _EPOCH)) // _MICROSECOND
    if data_type.precision > MILLIS_PRECISION:
        return (micros,)
    return None if micros % 1000 else (micros // 1000,)


def _convert_text(_: t.DataType, literal: object) -> Keys | None:
    try:
        return (literal.encode(),) if isinstance(literal, str) else None
    except UnicodeEncodeError:  # half a surrogate pair cannot be compared with stored text
        return None


def _convert_nothing(_: t.DataType, _literal: object) -> Keys | None:
    """Return None, for CHAR: some file formats drop trailing blanks of values, but the index keeps them."""
    return None


def _convert_bytes(_: t.DataType, literal: object) -> Keys | None:
    return (literal,) if isinstance(literal, bytes) else None


_LONG = Cursor.i64
_float32 = KeyKind(lambda c: _to_canonical(c.i32(), 32, _NAN32), _make_float_converter(">f", ">i", 32, _NAN32), 4)
_float64 = KeyKind(lambda c: _to_canonical(c.i64(), 64, _NAN64), _make_float_converter(">d", ">q", 64, _NAN64), 8)


def _to_canonical(bits: int, width: int, nan: int) -> int:
    """Return the rank of IEEE bits: `nan` for any bit pattern of NaN, after infinity (`nan` without its quiet bit)."""
    infinity = nan & (nan << 1)
    return nan if bits & ((1 << (width - 1)) - 1) > infinity else to_total_order(bits, width)


KINDS: Mapping[type[t.DataType], KeyKind] = {
    t.BooleanType: KeyKind(lambda c: int(c.boolean()), _convert_boolean, 1),
    t.TinyIntType: KeyKind(Cursor.i8, _convert_integer, 1),
    t.SmallIntType: KeyKind(Cursor.i16, _convert_integer, 2),
    t.IntType: KeyKind(Cursor.i32, _convert_integer, 4),
    t.BigIntType: KeyKind(_LONG, _convert_integer, 8),
    t.FloatType: _float32,
    t.DoubleType: _float64,
    t.DecimalType: KeyKind(_LONG, _convert_decimal, 8),
    t.DateType: KeyKind(Cursor.i32, _convert_date, 4),
    t.TimeType: KeyKind(Cursor.i32, _convert_time, 4),
    t.TimestampType: KeyKind(_LONG, _convert_timestamp, 8),
    t.LocalZonedTimestampType: KeyKind(_LONG, _convert_timestamp, 8),
    t.CharType: KeyKind(Cursor.sized, _convert_nothing, None),
    t.VarCharType: KeyKind(Cursor.sized, _convert_text, None),
    t.BinaryType: KeyKind(Cursor.sized, _convert_bytes, None),
    t.VarBinaryType: KeyKind(Cursor.sized, _convert_bytes, None),
}

Ints = npt.NDArray[np.int64]
_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NANOS_PER_MILLI = 1_000_000


@dataclass(frozen=True, eq=False)
class ColumnKeys:
    """The keys of a column's rows.

    Attributes:
        data_type: type of the column.
        row_count: rows, null ones included.
        rows: int64, ascending: the non-null rows.
        keys: the keys of `rows`: Int64 (FLOAT and DOUBLE in Java's total order) or Binary.
    """

    data_type: t.DataType
    row_count: int
    rows: Ints
    keys: pl.Series

    @cached_property
    def null_rows(self) -> Ints:
        """The null rows, ascending."""
        is_null = np.ones(self.row_count, np.bool_)
        is_null[self.rows] = False
        return np.flatnonzero(is_null)

    @cached_property
    def _dictionary(self) -> tuple[pl.Series, Ints]:
        if self.keys.dtype == pl.Binary:
            distinct = self.keys.unique().sort()
            numbered = pl.DataFrame({"key": distinct, "code": pl.int_range(distinct.len(), eager=True)})
            found = pl.DataFrame({"key": self.keys}).join(numbered, on="key", how="left", maintain_order="left")
            return distinct, found["code"].to_numpy()
        values, codes = np.unique(self.keys.to_numpy(), return_inverse=True)
        return pl.Series(values), codes.astype(np.int64)

    @property
    def distinct(self) -> pl.Series:
        """The distinct keys, ascending."""
        return self._dictionary[0]

    @property
    def codes(self) -> Ints:
        """The index in `distinct` of the key of each of `rows`."""
        return self._dictionary[1]


def to_column_keys(column: pl.Series, data_type: t.DataType) -> ColumnKeys:
    """Return the keys of a column.

    `column`: in the dtype that Morrow's frames use for the type.

    Raises `Unsupported`: a type without keys, or a DECIMAL value that does not fit 64 bits.
    """
    if type(data_type) not in KINDS:
        raise Unsupported(f"a file index on a column of the type {data_type}")
    present = column.is_not_null()
    keys = _KEYS.get(type(data_type), _to_integers)(column.filter(present), data_type)
    return ColumnKeys(data_type, column.len(), np.flatnonzero(present.to_numpy()), keys)


def to_bits(keys: Ints, data_type: t.DataType) -> Ints:
    """Return the keys of FLOAT and DOUBLE columns as signed IEEE bits; other keys are stored unchanged."""
    width = _FLOAT_BITS.get(type(data_type))
    return np.where(keys >= 0, keys, keys ^ ((1 << (width - 1)) - 1)) if width else keys


def encode_keys(keys: pl.Series, data_type: t.DataType) -> Ragged:
    """Return the stored form of keys: big-endian in the width of the type, text after its length."""
    width = KINDS[type(data_type)].width
    if width is None:
        text = to_ragged(keys)
        return concat_rows([to_fixed_width(text.sizes, ">i4"), text])
    return to_fixed_width(to_bits(keys.to_numpy(), data_type), f">i{width}")


def to_ragged(keys: pl.Series) -> Ragged:
    """Return the byte strings of a Binary column without nulls."""
    array = keys.rechunk().to_arrow().cast("large_binary")
    data, begins, sizes = find_byte_spans(array)
    return gather(data, begins, sizes)


def _to_integers(column: pl.Series, _: t.DataType) -> pl.Series:
    return column.to_physical().cast(pl.Int64)


def _to_unscaled(column: pl.Series, data_type: t.DataType) -> pl.Series:
    try:
        return _to_integers(column, data_type)
    except pl.exceptions.InvalidOperationError:
        problem = f"a file index on {data_type} values whose digits do not fit 64 bits"
        raise Unsupported(problem, hint="leave this column out of file-index options") from None


def _to_millis(column: pl.Series, _: t.DataType) -> pl.Series:
    return column.to_physical() // _NANOS_PER_MILLI


def _to_ticks(column: pl.Series, data_type: t.DataType) -> pl.Series:
    assert isinstance(column.dtype, pl.Datetime)
    assert isinstance(data_type, (t.TimestampType, t.LocalZonedTimestampType))
    has, wants = _PER_SECOND[column.dtype.time_unit], 1_000 if data_type.precision <= MILLIS_PRECISION else 1_000_000
    ticks = column.to_physical()
    return ticks // (has // wants) if has >= wants else ticks * (wants // has)


def _make_float_order(code: str, width: int) -> Callable[[pl.Series, t.DataType], pl.Series]:
    def of(column: pl.Series, _: t.DataType) -> pl.Series:
        values = column.to_numpy()
        canonical = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        bits = canonical.view(code).astype(np.int64)
        return pl.Series(np.where(bits >= 0, bits, bits ^ ((1 << (width - 1)) - 1)))

    return of


def _to_bytes(column: pl.Series, _: t.DataType) -> pl.Series:
    return column.cast(pl.Binary)


_FLOAT_BITS: Mapping[type[t.DataType], int] = {t.FloatType: 32, t.DoubleType: 64}
_KEYS: Mapping[type[t.DataType], Callable[[pl.Series, t.DataType], pl.Series]] = {
    t.FloatType: _make_float_order("i4", 32),
    t.DoubleType: _make_float_order("i8", 64),
    t.DecimalType: _to_unscaled,
    t.TimeType: _to_millis,
    t.TimestampType: _to_ticks,
    t.LocalZonedTimestampType: _to_ticks,
    t.CharType: _to_bytes,
    t.VarCharType: _to_bytes,
    t.BinaryType: _to_bytes,
    t.VarBinaryType: _to_bytes,
}
