"""Casts from CHAR and VARCHAR, and between binary types. Text that Java cannot parse is an error, as in Java.

Leading or trailing blanks are errors unless stated otherwise, so CHAR columns seldom parse.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t
from morrow.engine.units import MILLIS_PER_DAY
from morrow.engine.values import replace
from morrow.readers.casts.base import Cast, Ints, like, numbers, over_distinct
from morrow.readers.casts.numeric import MAX_DECIMAL128, fit
from morrow.readers.casts.temporal import PER_SECOND, in_unit, instants

TRUE_WORDS = ("t", "true", "y", "yes", "1")
FALSE_WORDS = ("f", "false", "n", "no", "0")
INTEGER = r"^[+-]?[0-9]*(\.[0-9]*)?$"
NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
HEX_NUMBER = r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
FLOAT = re.compile(rf"[\x00-\x20]*([+-]?)(?:({NUMBER})[fFdD]?|({HEX_NUMBER})[fFdD]?|(NaN|Infinity))[\x00-\x20]*")
DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,9})?")
NUMERIC = r"^-?[0-9]+$"
EPOCH = re.compile(r"-?\d+")
BLANK = r"[\x00-\x20]*"
DATE = re.compile(rf"{BLANK}([0-9]+){BLANK}(?:-{BLANK}([0-9]+){BLANK}(?:-{BLANK}([0-9]+){BLANK})?)?")
CLOCK = re.compile(
    rf"{BLANK}([0-9]+){BLANK}(?::{BLANK}([0-9]+){BLANK}(?::{BLANK}([0-9]+){BLANK}(?:\.([^+-]*))?)?)?"
    rf"(?:([+-]){BLANK}([0-9]+){BLANK}(?::{BLANK}([0-9]+){BLANK})?)?"
)
TIMESTAMP = (
    r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{0,9}))?)?$"
)
DAYS_IN_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
MAX_YEAR = 9999
FEBRUARY = 2
INT_MAX = 2**31 - 1


def text_to_boolean(array: pa.Array, cast: Cast) -> pa.Array:
    """Parses t, true, y, yes, 1 and f, false, n, no, 0, in any case."""
    lower = pc.utf8_lower(array)
    true = pc.is_in(lower, pa.array(TRUE_WORDS))
    cast.require(array, pc.or_(true, pc.is_in(lower, pa.array(FALSE_WORDS))), "it is not a BOOLEAN")
    return pc.if_else(array.is_valid(), true, pa.scalar(None, pa.bool_()))


def text_to_integer(array: pa.Array, cast: Cast) -> pa.Array:
    """Parses digits with an optional sign; a fraction is checked and dropped. Out of range is an error."""
    signed = pc.match_substring_regex(array, r"^[+-]$")
    valid = pc.and_(pc.match_substring_regex(array, INTEGER), pc.invert(pc.or_(signed, pc.equal(array, ""))))
    cast.require(array, valid, "it is not a whole number")
    digits = pc.replace_substring_regex(array, r"^\+?(-?)0*([0-9]*)(\..*)?$", r"\1\2")
    digits = pc.if_else(pc.match_substring_regex(digits, "[0-9]"), digits, "0")
    digits = pc.if_else(array.is_valid(), digits, pa.scalar(None, pa.string()))
    type = cast.target.arrow()
    try:
        return digits.cast(type)
    except pa.ArrowInvalid:
        long = pc.greater(pc.utf8_length(digits), 20)
        wide = pc.if_else(long, "9" * 20, digits).cast(pa.decimal128(MAX_DECIMAL128, 0))
        bits = type.bit_width - 1
        limits = [pa.scalar(Decimal(x), wide.type) for x in (-(2**bits), 2**bits - 1)]
        cast.require(array, pc.and_(pc.greater_equal(wide, limits[0]), pc.less_equal(wide, limits[1])), "out of range")
        raise


def text_to_approximate(array: pa.Array, cast: Cast) -> pa.Array:
    """Parses Java's literals: decimal or hexadecimal, a suffix f or d, NaN, Infinity, blanks around."""
    single = isinstance(cast.target, t.FloatType)

    def parse(text: str) -> float:
        match = FLOAT.fullmatch(text)
        if match is None:
            raise cast.failure(text, "it is not a number")
        sign, plain, hexadecimal, word = match.groups()
        if hexadecimal:
            return float.fromhex(sign + hexadecimal)
        if plain and single:
            # One rounding from decimal to 24 bits: via a double it would be two.
            return float(pa.scalar(sign.replace("+", "") + plain).cast(pa.float32()).as_py())
        return float(sign + (plain or word))

    return over_distinct(array, parse, pa.float64()).cast(cast.target.arrow(), safe=False)


def text_to_decimal(array: pa.Array, cast: Cast) -> pa.Array:
    """Rounds half up to the scale; null where the precision is too small. Exponents are parsed, blanks are errors."""

    def parse(text: str) -> Decimal | None:
        if not DECIMAL.fullmatch(text):
            raise cast.failure(text, "it is not a number")
        return fit(Decimal(text), cast.target.precision, cast.target.scale)

    return over_distinct(array, parse, cast.target.arrow())


def text_to_date(array: pa.Array, cast: Cast) -> pa.Array:
    """Parses ``2020-02-29``, also ``2020-2-9``, ``2020-02``, up to the first blank; digits alone are epoch days."""

    def parse(text: str) -> int:
        if EPOCH.fullmatch(text):
            return _int(text, text, cast)
        match = DATE.fullmatch(text[: text.find(" ")] if text.find(" ") > 0 else text)
        if match is None:
            raise cast.failure(text, "it is not a DATE")
        year, month, day = (int(part or 1) for part in match.groups())
        if year > MAX_YEAR or not 1 <= month <= 12:
            raise cast.failure(text, "it is not a DATE")
        if not 1 <= day <= DAYS_IN_MONTH[month] + (month == FEBRUARY and is_leap(year)):
            raise cast.failure(text, "it is not a DATE")
        return int(np.datetime64(f"{year:04d}-{month:02d}-{day:02d}", "D").astype(int))

    return over_distinct(array, parse, pa.int32()).cast(pa.date32())


def text_to_time(array: pa.Array, cast: Cast) -> pa.Array:
    """Parses ``10:11:12.5``, shorter forms too, with an offset that is added; digits alone are milliseconds.

    Java keeps times outside of the 24 hours of a day; Arrow and Polars have no such TIME, so it is an error here.
    """

    def parse(text: str) -> int:
        millis = _int(text, text, cast) if EPOCH.fullmatch(text) else _clock(text, cast)
        if not 0 <= millis < MILLIS_PER_DAY:
            raise cast.failure(text, "a TIME is from 00:00 to 23:59:59.999 in Morrow")
        return millis

    return over_distinct(array, parse, pa.int32()).cast(pa.time32("ms"))


def _clock(text: str, cast: Cast) -> int:
    match = CLOCK.fullmatch(text)
    if match is None:
        raise cast.failure(text, "it is not a TIME")
    hour, minute, second, fraction, sign, offset_hour, offset_minute = match.groups()
    factor = -1 if sign == "-" else 1
    hours = int(hour) + factor * int(offset_hour or 0)
    minutes = int(minute or 0) + factor * int(offset_minute or 0)
    return ((hours * 60 + minutes) * 60 + int(second or 0)) * 1000 + _fraction_millis((fraction or "").strip())


def _fraction_millis(fraction: str) -> int:
    """Returns three digits, rounded by the fourth; characters other than digits count as 0."""
    digits = [int(c) if c in "0123456789" else 0 for c in fraction[:3].ljust(3, "0")]
    millis = digits[0] * 100 + digits[1] * 10 + digits[2]
    return millis + (fraction[3:4] >= "5")


def _int(digits: str, text: str, cast: Cast) -> int:
    value = int(digits)
    if not -INT_MAX - 1 <= value <= INT_MAX or not digits.isascii():
        raise cast.failure(text, "it is not a 32-bit number")
    return value


def text_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Parses ``2020-02-29 10:11:12.123456789`` or the date alone, in the session's zone for TIMESTAMP_LTZ.

    Digits beyond the precision are cut; days 29-31 that a month lacks become its last day; 24:00:00 is the next
    midnight. For TIMESTAMP of precision 0, 3, 6 or 9 a whole number is that many seconds, milli-, micro- or
    nanoseconds.
    """
    unit = t.arrow_time_unit(cast.target.precision)
    zoned = isinstance(cast.target, t.LocalZonedTimestampType)
    epoch = pc.match_substring_regex(array, NUMERIC)
    if zoned or cast.target.precision % 3 or not pc.any(epoch).as_py():
        clock = _clock_times(array, unit, cast)
        return instants(clock, cast) if zoned else clock
    null = pa.scalar(None, array.type)
    counts = text_to_integer(pc.if_else(epoch, array, null), replace(cast, target=t.BigIntType()))
    if unit == "s":
        # Java holds milliseconds, which wrap.
        counts = like(numbers(counts) * PER_SECOND["ms"] // PER_SECOND["ms"], counts, pa.int64())
    return pc.coalesce(counts.cast(pa.timestamp(unit)), _clock_times(pc.if_else(epoch, null, array), unit, cast))


def _clock_times(array: pa.Array, unit: str, cast: Cast) -> pa.Array:
    parts = pc.extract_regex(array, TIMESTAMP)
    cast.require(array, parts.is_valid(), "it is not a TIMESTAMP")
    year, month, day, hour, minute, second = (
        _field(parts, name) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    fraction = pc.utf8_rpad(pc.struct_field(parts, "fraction"), 9, "0")
    nanos = pc.fill_null(fraction.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    midnight = (hour == 24) & (minute == 0) & (second == 0) & (nanos == 0)
    real = (year > 0) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    real &= ((hour < 24) | midnight) & (minute < 60) & (second < 60)
    cast.require(array, pa.array(real), "there is no such date or time")
    month = np.clip(month, 1, 12)
    day = np.minimum(day, DAYS_IN_MONTH[month] + ((month == FEBRUARY) & is_leap(year)))
    days = ((year - 1970).astype("M8[Y]").astype("M8[M]") + (month - 1)).astype("M8[D]").astype(np.int64) + day - 1
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    step = 10 ** (9 - cast.target.precision)
    sub = nanos // step * step // (PER_SECOND["ns"] // PER_SECOND[unit])
    return like(in_unit(seconds, "s", unit, array, cast) + sub, array, pa.timestamp(unit))


def is_leap(year: Any) -> Any:
    """Returns whether February has 29 days; for one year or an array of years."""
    return (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))


def _field(parts: pa.Array, name: str) -> Ints:
    text = pc.struct_field(parts, name)
    text = pc.if_else(pc.equal(text, ""), "0", text)
    return np.asarray(pc.fill_null(text.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))


def text_to_binary(array: pa.Array, cast: Cast) -> pa.Array:
    """Returns the UTF-8 bytes, sized as by `binary_to_binary`."""
    return binary_to_binary(array.cast(pa.binary()), cast)


def binary_to_binary(array: pa.Array, cast: Cast) -> pa.Array:
    """Cuts to the target's length; BINARY is padded with zero bytes."""
    length = cast.target.length
    if isinstance(cast.target, t.BinaryType):
        array = pc.binary_join_element_wise(array, bytes(length), b"")
    return pc.binary_slice(array, 0, length) if length < t.MAX_LENGTH else array
