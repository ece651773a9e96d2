"""Values of SQL literals when DuckDB compares them with a column: numbers as they are, text as it is read."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import (
    BooleanType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
)
from morrow.engine.plan.filter.literals import BINARY_TYPES, INTEGER_BITS, STRING_TYPES, snapped
from morrow.engine.plan.predicate import Value

DOUBLE_DIGITS, FLOAT_DIGITS = 2**53, 2**24
"""The integers up to which all are exact in DOUBLE and FLOAT."""
DOUBLE_TENS, FLOAT_TENS = 22, 10
"""The powers of ten up to which all are exact in DOUBLE and FLOAT, so one division rounds correctly."""

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_REAL = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf|infinity|nan)", re.IGNORECASE)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?")
_STAMP = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[ T](?P<time>\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(?P<zone>Z|[+-]\d{2}(?::\d{2})?)?)?"
)
_BYTE = re.compile(r"\\x([0-9A-Fa-f]{2})")
_MAYBE_TEMPORAL = re.compile(
    r"\s*([+-]?\d[\d\s:./\\+\-TtZz]*([A-Za-z/_]+|\([bB][cC]\))?|epoch|-?infinity|inf|-inf)\s*", re.IGNORECASE
)
_MAYBE_NUMBER = re.compile(r"\s*[+-]?(\d|\.\d|inf|nan)[\w.+-]*\s*", re.IGNORECASE)


def from_text(text: str, column: DataField) -> Value | None:
    """Returns an untyped string as a value of the column; None when DuckDB may read it, but not certainly as it stands.

    Raises:
        InvalidArgument: it is no value of the column's type.
    """
    read = next((read for kinds, read in _READERS if isinstance(column.type, kinds)), None)
    if read is None:
        return None
    try:
        return read(text, column.type)
    except ValueError:
        raise InvalidArgument(
            f"filter: {text!r} is no {column.type.text()}, the type of column {column.name!r}"
        ) from None


def _read_boolean(text: str, _kind: DataType) -> Value | None:
    word = text.lower()
    if word in ("true", "t", "false", "f"):
        return word[0] == "t"
    return _rejected(word not in ("1", "0", "yes", "no", "y", "n"))


def _read_integer(text: str, kind: DataType) -> Value | None:
    if not _INTEGER.fullmatch(text):
        return _rejected(not _MAYBE_NUMBER.fullmatch(text))
    snap = snapped(kind, int(text))
    return snap.below if snap and snap.exact else _rejected(True)


def _read_decimal(text: str, kind: DataType) -> Value | None:
    if not _DECIMAL.fullmatch(text):
        return _rejected(not _MAYBE_NUMBER.fullmatch(text))
    snap = snapped(kind, Decimal(text))
    return snap.below if snap and snap.exact else None


def _read_float(text: str, kind: DataType) -> Value | None:
    if not _REAL.fullmatch(text):
        return _rejected(not _MAYBE_NUMBER.fullmatch(text))
    value = float(text)
    if not np.isfinite(value):
        return value if text.lstrip("+-")[0].isalpha() else None
    if isinstance(kind, DoubleType):
        return value
    snap = snapped(kind, value)
    if snap and snap.exact:
        return snap.below
    return number_for(Decimal(text), DataField(0, "", kind)) if _DECIMAL.fullmatch(text) else None


def _read_date(text: str, _kind: DataType) -> Value | None:
    if not _DATE.fullmatch(text):
        return _rejected(not _MAYBE_TEMPORAL.fullmatch(text))
    return None if text.startswith("0000") else dt.date.fromisoformat(text)


def _read_time(text: str, _kind: DataType) -> Value | None:
    match = _TIME.fullmatch(text)
    if match is None or match[1] == "24":
        return _rejected(not _MAYBE_TEMPORAL.fullmatch(text))
    return dt.time(int(match[1]), int(match[2]), int(match[3]), int((match[4] or "").ljust(6, "0")))


def _read_timestamp(text: str, kind: DataType) -> Value | None:
    match = _STAMP.fullmatch(text)
    if match is None or match["date"].startswith("0000") or (match["time"] or "").startswith("24"):
        return _rejected(not _MAYBE_TEMPORAL.fullmatch(text))
    date = _read_date(match["date"], kind)
    time = _read_time(match["time"] or "00:00:00", kind)
    if not isinstance(date, dt.date) or not isinstance(time, dt.time):
        return None
    value, zone = dt.datetime.combine(date, time), match["zone"]
    if isinstance(kind, LocalZonedTimestampType):
        value = value.replace(tzinfo=dt.UTC) if zone in (None, "Z") else _shifted(value, zone)
    elif zone:
        return None  # whether DuckDB ignores the zone here is left to DuckDB
    snap = snapped(kind, value)
    return snap.below if snap and snap.exact else None


def _shifted(value: dt.datetime, zone: str) -> dt.datetime:
    hours, minutes = int(zone[1:3]), int(zone[4:6] or 0)
    offset = dt.timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    try:
        return (value - offset).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise ValueError("beyond the years 1 to 9999") from None


def _read_binary(text: str, _kind: DataType) -> Value | None:
    plain = _BYTE.sub("", text)
    if not plain.isascii() or "\\" in plain:
        return None
    parts = _BYTE.split(text)
    return b"".join(bytes.fromhex(part) if i % 2 else part.encode("ascii") for i, part in enumerate(parts))


def _rejected(certainly: bool) -> Value | None:
    """Handles a form that is not read here: raises if DuckDB cannot read it either, else leaves it to DuckDB."""
    if certainly:
        raise ValueError
    return None


_READERS: tuple[tuple[type[DataType] | tuple[type[DataType], ...], Callable[[str, DataType], Value | None]], ...] = (
    (STRING_TYPES, lambda text, _kind: text),
    (BooleanType, _read_boolean),
    (tuple(INTEGER_BITS), _read_integer),
    (DecimalType, _read_decimal),
    ((FloatType, DoubleType), _read_float),
    (DateType, _read_date),
    (TimeType, _read_time),
    ((TimestampType, LocalZonedTimestampType), _read_timestamp),
    (BINARY_TYPES, _read_binary),
)


def number_for(value: Any, column: DataField) -> Value | None:
    """Converts INTEGER and DECIMAL literals: exact for integers and decimals, rounded once for FLOAT and DOUBLE."""
    if not isinstance(column.type, (FloatType, DoubleType)):
        return value if isinstance(column.type, (*INTEGER_BITS, DecimalType)) else None
    single = isinstance(column.type, FloatType)
    digits, tens = (FLOAT_DIGITS, FLOAT_TENS) if single else (DOUBLE_DIGITS, DOUBLE_TENS)
    sign, coefficient, exponent = Decimal(value).as_tuple()
    unscaled = int("".join(map(str, coefficient)))
    if not isinstance(exponent, int) or exponent > 0 or unscaled > digits or -exponent > tens:
        return None
    dtype: type[np.float32] | type[np.float64] = np.float32 if single else np.float64
    return float(dtype(-unscaled if sign else unscaled) / dtype(10**-exponent))


def double_for(value: Any, column: DataField) -> Value | None:
    """Converts DOUBLE literals: the column is cast to DOUBLE, exactly but for large integers and decimals."""
    bits = INTEGER_BITS.get(type(column.type))
    if bits:
        return value if bits <= 32 or not np.isfinite(value) or abs(value) < DOUBLE_DIGITS else None
    return value if isinstance(column.type, (FloatType, DoubleType)) else None


def float_for(value: Any, column: DataField) -> Value | None:
    return value if isinstance(column.type, (FloatType, DoubleType)) else None
