"""Keys of file indexes: how each type is read, and which keys a literal is compared as.

A key is the value that Java's index stores: numbers unchanged, DECIMAL unscaled, DATE in days, TIME in milliseconds,
TIMESTAMP in milliseconds (precision up to 3) or microseconds, text in UTF-8. Keys of one type compare as Java's do.

FLOAT and DOUBLE are kept as signed integers in Java's total order (-0.0 before 0.0, NaN last): the raw bits, with all
but the sign flipped for negative numbers. In SQL -0.0 = 0.0, so a literal of zero stands for two keys.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from morrow.engine.format import types as t
from morrow.engine.format.file_index.cursor import Cursor

Key: TypeAlias = "int | bytes"
Keys = tuple[Key, ...]
"""The keys equal to one literal, ascending; never empty."""

MILLIS_PRECISION = 3
MICROS_PRECISION = 6
MAX_LONG_DECIMAL = 18
"""The most digits of a DECIMAL that fits the 64 bits of a key."""
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DATE = dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_NAN32, _NAN64 = 0x7FC00000, 0x7FF8000000000000


@dataclass(frozen=True)
class KeyKind:
    """How keys of a type are read, and made from literals.

    Attributes:
        read: reads the next key of an index.
        of: returns the keys of a literal; None if it is not exactly a value of the type, so the index cannot tell.
        width: bytes of a stored key; None where they vary.
    """

    read: Callable[[Cursor], Key]
    of: Callable[[t.DataType, object], Keys | None]
    width: int | None


def keys_of(data_type: t.DataType, literal: object) -> Keys | None:
    """Returns the keys of a literal, or None when an index of this type cannot answer for it."""
    kind = KINDS.get(type(data_type))
    return kind.of(data_type, literal) if kind else None


def is_lossy(data_type: t.DataType) -> bool:
    """Returns whether different values share a key: TIMESTAMPs finer than the microseconds of the index."""
    return (
        isinstance(data_type, (t.TimestampType, t.LocalZonedTimestampType)) and data_type.precision > MICROS_PRECISION
    )


def total_order(bits: int, width: int) -> int:
    """Maps signed IEEE bits to their rank in Java's total order, and back: it is its own inverse."""
    return bits if bits >= 0 else bits ^ ((1 << (width - 1)) - 1)


def _integer(_: t.DataType, literal: object) -> Keys | None:
    return (literal,) if isinstance(literal, int) and not isinstance(literal, bool) else None


def _boolean(_: t.DataType, literal: object) -> Keys | None:
    return (int(literal),) if isinstance(literal, bool) else None


def _float(code: str, bits_code: str, width: int, nan: int) -> Callable[[t.DataType, object], Keys | None]:
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
        return (total_order(struct.unpack(bits_code, packed)[0], width),)

    return of


def _decimal(data_type: t.DataType, literal: object) -> Keys | None:
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


def _date(_: t.DataType, literal: object) -> Keys | None:
    if isinstance(literal, dt.datetime) or not isinstance(literal, dt.date):
        return None
    return ((literal - _EPOCH_DATE).days,)


def _time(_: t.DataType, literal: object) -> Keys | None:
    if not isinstance(literal, dt.time) or literal.tzinfo is not None or literal.microsecond % 1000:
        return None
    return (((literal.hour * 60 + literal.minute) * 60 + literal.second) * 1000 + literal.microsecond // 1000,)


def _timestamp(data_type: t.DataType, literal: object) -> Keys | None:
    zoned = isinstance(data_type, t.LocalZonedTimestampType)
    if not isinstance(data_type, (t.TimestampType, t.LocalZonedTimestampType)) or not isinstance(literal, dt.datetime):
        return None
    if zoned != (literal.tzinfo is not None):
        return None
    micros = (literal - (_EPOCH.replace(tzinfo=dt.UTC) if zoned else _EPOCH)) // _MICROSECOND
    if data_type.precision > MILLIS_PRECISION:
        return (micros,)
    return None if micros % 1000 else (micros // 1000,)


def _text(_: t.DataType, literal: object) -> Keys | None:
    try:
        return (literal.encode(),) if isinstance(literal, str) else None
    except UnicodeEncodeError:  # half a surrogate pair equals no stored text, and compares with none
        return None


def _never(_: t.DataType, _literal: object) -> Keys | None:
    """Returns None, for CHAR: some file formats drop trailing blanks of values, the index keeps them as written."""
    return None


def _bytes(_: t.DataType, literal: object) -> Keys | None:
    return (literal,) if isinstance(literal, bytes) else None


_LONG = Cursor.i64
_float32 = KeyKind(lambda c: _canonical(c.i32(), 32, _NAN32), _float(">f", ">i", 32, _NAN32), 4)
_float64 = KeyKind(lambda c: _canonical(c.i64(), 64, _NAN64), _float(">d", ">q", 64, _NAN64), 8)


def _canonical(bits: int, width: int, nan: int) -> int:
    """Returns the rank of IEEE bits: `nan` for any bit pattern of NaN, after infinity (`nan` without its quiet bit)."""
    infinity = nan & (nan << 1)
    return nan if bits & ((1 << (width - 1)) - 1) > infinity else total_order(bits, width)


KINDS: Mapping[type[t.DataType], KeyKind] = {
    t.BooleanType: KeyKind(lambda c: int(c.boolean()), _boolean, 1),
    t.TinyIntType: KeyKind(Cursor.i8, _integer, 1),
    t.SmallIntType: KeyKind(Cursor.i16, _integer, 2),
    t.IntType: KeyKind(Cursor.i32, _integer, 4),
    t.BigIntType: KeyKind(_LONG, _integer, 8),
    t.FloatType: _float32,
    t.DoubleType: _float64,
    t.DecimalType: KeyKind(_LONG, _decimal, 8),
    t.DateType: KeyKind(Cursor.i32, _date, 4),
    t.TimeType: KeyKind(Cursor.i32, _time, 4),
    t.TimestampType: KeyKind(_LONG, _timestamp, 8),
    t.LocalZonedTimestampType: KeyKind(_LONG, _timestamp, 8),
    t.CharType: KeyKind(Cursor.sized, _never, None),
    t.VarCharType: KeyKind(Cursor.sized, _text, None),
    t.BinaryType: KeyKind(Cursor.sized, _bytes, None),
    t.VarBinaryType: KeyKind(Cursor.sized, _bytes, None),
}
