"""Rules of casts: one row per cast of Java's CastExecutors that ALTER TABLE can make necessary.

Casts run on Arrow arrays (`morrow.readers.casts.cast_array`). A Polars query uses a native expression instead if
Polars gives exactly Java's result. ARRAY, MAP and ROW are cast to text, and member by member to nested types.
Java also casts STRING to ARRAY, MAP and ROW for default values; a column's type never changes that way.

Text that Java cannot parse is an error, as in Java. Leading or trailing blanks are errors unless stated otherwise,
so CHAR columns seldom parse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t
from morrow.engine.format.java_floats import format_double, format_float
from morrow.engine.schema.schema_changes import ELEMENT, VALUE
from morrow.engine.structs import replace
from morrow.engine.units import MILLIS_PER_DAY
from morrow.readers.casts import atomic
from morrow.readers.casts.atomic import (
    MAX_DECIMAL128,
    PER_SECOND,
    convert_unit,
    fit,
    to_clock_times,
    to_instants,
    to_unscaled_integers,
)
from morrow.readers.casts.base import (
    RULES,
    Cast,
    Ints,
    Rule,
    TypeChange,
    apply,
    fit_text,
    make_cast_error,
    map_distinct,
    resolve,
    to_arrow_like,
    to_numbers,
)
from morrow.readers.casts.dtypes import list_offsets, make_null_mask, to_arrow_array, to_polars_dtype, to_series

WHOLE_DIGITS: dict[type[t.DataType], int] = {t.TinyIntType: 3, t.SmallIntType: 5, t.IntType: 10, t.BigIntType: 19}
"""The maximum decimal digits of each integer type, by width."""
WIDTHS = tuple(WHOLE_DIGITS)


def polars_cast(expr: pl.Expr, source: t.DataType, target: t.DataType) -> pl.Expr | None:
    """Return the cast as a native expression; None if Polars does not give exactly Java's result.

    Native casts are widening of integers, FLOAT, DECIMAL, lengths and timestamp precisions (up to microseconds, since
    nanoseconds overflow), and integers to FLOAT, DOUBLE, wide enough DECIMAL, BOOLEAN and STRING.
    """
    if t.has_same_values(source, target):
        return expr
    if _is_renaming(source, target):
        return expr
    return expr.cast(to_polars_dtype(target)) if _is_exact(source, target) else None


def _is_renaming(source: t.DataType, target: t.DataType) -> bool:
    """Return whether both types have the same dtype in Polars and the cast preserves all values."""
    if isinstance(target, t.VarCharType) and isinstance(source, t.CharType | t.VarCharType):
        return target.length >= source.length
    if isinstance(target, t.VarBinaryType) and isinstance(source, t.BinaryType | t.VarBinaryType):
        return target.length >= source.length
    return False


def _is_exact(source: t.DataType, target: t.DataType) -> bool:
    kind, goal = source.__class__, target.__class__
    if kind in WIDTHS:
        if goal in WIDTHS:
            return WIDTHS.index(goal) > WIDTHS.index(kind)
        if isinstance(target, t.DecimalType):
            return target.precision - target.scale >= WHOLE_DIGITS[kind]
        return goal in (t.FloatType, t.DoubleType, t.BooleanType) or target == t.VarCharType()
    if isinstance(source, t.DecimalType) and isinstance(target, t.DecimalType):
        grows = target.precision - target.scale >= source.precision - source.scale
        return grows and target.scale >= source.scale
    for stamp in (t.TimestampType, t.LocalZonedTimestampType):
        if isinstance(source, stamp) and isinstance(target, stamp):
            return source.precision <= target.precision <= t.ARROW_MICROS_PRECISION
    return kind is t.FloatType and goal is t.DoubleType


def cast_expression(
    expr: pl.Expr,
    source: t.DataType,
    target: t.DataType,
    *,
    where: str | None = None,
    zone: str = "UTC",
    change: TypeChange | None = None,
) -> pl.Expr:
    """Return the cast as a lazy expression, native or through Arrow for this one column; see `cast_array`.

    `change`: the change of the column's type, for errors of values.

    Raises `Unsupported`: Java does not support the cast. Values that cannot be cast fail when the query runs.
    """
    require_allowed(source, target, where=where)
    native = polars_cast(expr, source, target)
    if native is not None:
        return native

    def cast(series: pl.Series) -> pl.Series:
        made = apply(to_arrow_array(series, source), Cast(source, target, zone, where, change))
        return to_series(series.name, made, target)

    return expr.map_batches(cast, return_dtype=to_polars_dtype(target), is_elementwise=True)


TEXT = t.VarCharType()


def _format_elements(array: pa.Array, type: t.DataType, cast: Cast) -> pa.Array:
    """Return the text of an element; ``null`` for null."""
    return pc.fill_null(apply(array, replace(cast, source=type, target=TEXT)), "null")


def _join_entries(array: pa.Array, entries: pa.Array, brackets: str) -> pa.Array:
    lists = pa.ListArray.from_arrays(list_offsets(array), entries, mask=make_null_mask(array))
    return pc.binary_join_element_wise(brackets[0], pc.binary_join(lists, ", "), brackets[1], "")


def cast_array_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Format ``[1, null, 3]``; the target's length is ignored."""
    return _join_entries(array, _format_elements(array.values, cast.source.element, cast), "[]")


def cast_map_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Format ``{a -> 1, b -> null}``; the target's length is ignored."""
    keys, values = (
        _format_elements(array.keys, cast.source.key, cast),
        _format_elements(array.items, cast.source.value, cast),
    )
    return _join_entries(array, pc.binary_join_element_wise(keys, values, " -> "), "{}")


def cast_row_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Format ``{1, x, null}``: values without names; the target's length is ignored."""
    members = [_format_elements(array.field(i), field.type, cast) for i, field in enumerate(cast.source.fields)]
    joined = pc.binary_join_element_wise(*members, ", ") if members else pa.array([""] * len(array))
    text = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string())) if array.null_count else text


def cast_row_to_row(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast members by field id: new members are null, dropped members left out, others renamed, moved and cast."""
    position = {field.id: i for i, field in enumerate(cast.source.fields)}
    members = []
    for field in cast.target.fields:
        at = position.get(field.id)
        if at is None:
            members.append(pa.nulls(len(array), field.type.arrow()))
            continue
        members.append(apply(array.field(at), cast.inside(field.name, cast.source.fields[at].type, field.type)))
    fields = list(cast.target.arrow())
    return pa.StructArray.from_arrays(members, fields=fields, mask=make_null_mask(array))


def cast_array_to_array(array: pa.Array, cast: Cast) -> pa.Array:
    values = apply(array.values, cast.inside(ELEMENT, cast.source.element, cast.target.element))
    return pa.ListArray.from_arrays(list_offsets(array), values, cast.target.arrow(), mask=make_null_mask(array))


def cast_map_to_map(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast the values; Java refuses a change of the key type."""
    values = apply(array.items, cast.inside(VALUE, cast.source.value, cast.target.value))
    return pa.MapArray.from_arrays(
        list_offsets(array), array.keys, values, type=cast.target.arrow(), mask=make_null_mask(array)
    )


FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
FOUR_DIGIT_YEARS = 10_000
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""A UTF-16 surrogate in three UTF-8 bytes: one replacement character in Java, three in Python."""


def cast_integer_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    return fit_text(array.cast(pa.string()), cast.target)


def cast_boolean_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    return fit_text(pc.if_else(array, "true", "false"), cast.target)


def cast_double_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Format each distinct value once: no kernel makes Java's digits."""
    return fit_text(map_distinct(array, format_double, pa.string()), cast.target)


def cast_float_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Format each distinct value once: no kernel makes Java's digits."""
    return fit_text(map_distinct(array, format_float, pa.string()), cast.target)


def cast_decimal_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Format all digits of the scale, never an exponent (Arrow's own text has one for small numbers)."""
    scale = array.type.scale
    text = to_unscaled_integers(array).cast(pa.string())
    if scale:
        negative = pc.starts_with(text, "-")
        digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
        before, after = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
        text = pc.binary_join_element_wise(pc.if_else(negative, "-", ""), before, ".", after, "")
    return fit_text(text, cast.target)


def cast_date_to_text(array: pa.Array, _cast: Cast) -> pa.Array:
    """Format ``2020-02-29``; a year beyond 9999 shows its last four digits."""
    return _to_arrow_text(_format_day(pl.Series(array)))


def cast_timestamp_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Format ``2020-02-29 10:11:12.5`` with as many digits as the precision, or more if the value has more."""
    clock = to_clock_times(array, cast)
    digits = FRACTION_DIGITS[clock.type.unit]
    series = pl.Series(clock)
    text = _format_day(series) + series.dt.strftime(f" %H:%M:%S%.{digits}f" if digits else " %H:%M:%S")
    spare = digits - cast.source.precision
    if spare > 0:
        text = text.str.replace(rf"0{{1,{spare}}}$", "")
    return _to_arrow_text(text)


def cast_time_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Format ``10:11:12``, and above precision 0 a fraction of one to three digits: ``10:11:12.0``."""
    series = pl.Series(array)
    text = series.dt.strftime("%H:%M:%S")
    if cast.source.precision:
        fraction = pl.Series(to_numbers(array) % 1000).cast(pl.String).str.zfill(3)
        text = text + "." + fraction.str.replace(r"0{1,2}$", "").str.slice(0, cast.source.precision)
    return _to_arrow_text(text)


def _format_day(series: pl.Series) -> pl.Series:
    year = (series.dt.year() % FOUR_DIGIT_YEARS).cast(pl.String).str.zfill(4)
    text: pl.Series = year + series.dt.strftime("-%m-%d")
    return text


def _to_arrow_text(series: pl.Series) -> pa.Array:
    return series.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())


def cast_text_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    return fit_text(array, cast.target)


def cast_binary_to_text(array: pa.Array, _cast: Cast) -> pa.Array:
    """Decode UTF-8, ignoring the target's length; invalid bytes become the replacement character."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return map_distinct(array, _decode_lossy, pa.string())


def _decode_lossy(value: Any) -> str:
    return SURROGATE.sub("\ufffd".encode(), value).decode("utf-8", "replace")


TRUE_WORDS = ("t", "true", "y", "yes", "1")
FALSE_WORDS = ("f", "false", "n", "no", "0")
INTEGER_PATTERN = r"^[+-]?[0-9]*(\.[0-9]*)?$"
NUMBER_PATTERN = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
HEX_NUMBER_PATTERN = r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
FLOAT_PATTERN = re.compile(
    rf"[\x00-\x20]*([+-]?)(?:({NUMBER_PATTERN})[fFdD]?|({HEX_NUMBER_PATTERN})[fFdD]?|(NaN|Infinity))[\x00-\x20]*"
)
DECIMAL_PATTERN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,9})?")
NUMERIC_PATTERN = r"^-?[0-9]+$"
EPOCH_PATTERN = re.compile(r"-?\d+")
BLANK_PATTERN = r"[\x00-\x20]*"
DATE_PATTERN = re.compile(
    rf"{BLANK_PATTERN}([0-9]+){BLANK_PATTERN}(?:-{BLANK_PATTERN}([0-9]+){BLANK_PATTERN}(?:-{BLANK_PATTERN}([0-9]+){BLANK_PATTERN})?)?"
)
CLOCK_PATTERN = re.compile(
    rf"{BLANK_PATTERN}([0-9]+){BLANK_PATTERN}(?::{BLANK_PATTERN}([0-9]+){BLANK_PATTERN}(?::{BLANK_PATTERN}([0-9]+){BLANK_PATTERN}(?:\.([^+-]*))?)?)?"
    rf"(?:([+-]){BLANK_PATTERN}([0-9]+){BLANK_PATTERN}(?::{BLANK_PATTERN}([0-9]+){BLANK_PATTERN})?)?"
)
TIMESTAMP_PATTERN = (
    r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{0,9}))?)?$"
)
DAYS_IN_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
MAX_YEAR = 9999
FEBRUARY = 2
INT_MAX = 2**31 - 1


def cast_text_to_boolean(array: pa.Array, cast: Cast) -> pa.Array:
    """Parse t, true, y, yes, 1 and f, false, n, no, 0, in any case."""
    lower = pc.utf8_lower(array)
    true = pc.is_in(lower, pa.array(TRUE_WORDS))
    cast.require(array, pc.or_(true, pc.is_in(lower, pa.array(FALSE_WORDS))), "it is not a BOOLEAN")
    return pc.if_else(array.is_valid(), true, pa.scalar(None, pa.bool_()))


def cast_text_to_integer(array: pa.Array, cast: Cast) -> pa.Array:
    """Parse digits with an optional sign; a fraction is checked and dropped. Out of range is an error."""
    signed = pc.match_substring_regex(array, r"^[+-]$")
    valid = pc.and_(pc.match_substring_regex(array, INTEGER_PATTERN), pc.invert(pc.or_(signed, pc.equal(array, ""))))
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


def cast_text_to_approximate(array: pa.Array, cast: Cast) -> pa.Array:
    """Parse Java's literals: decimal or hexadecimal, a suffix f or d, NaN, Infinity, blanks around."""
    single = isinstance(cast.target, t.FloatType)

    def parse(text: str) -> float:
        match = FLOAT_PATTERN.fullmatch(text)
        if match is None:
            raise cast.failure(text, "it is not a number")
        sign, plain, hexadecimal, word = match.groups()
        if hexadecimal:
            return float.fromhex(sign + hexadecimal)
        if plain and single:
            # One rounding from decimal to 24 bits: via a double it would be two.
            return float(pa.scalar(sign.replace("+", "") + plain).cast(pa.float32()).as_py())
        return float(sign + (plain or word))

    return map_distinct(array, parse, pa.float64()).cast(cast.target.arrow(), safe=False)


def cast_text_to_decimal(array: pa.Array, cast: Cast) -> pa.Array:
    """Round half up to the scale; null if the precision is too small. Exponents are parsed, blanks are errors."""

    def parse(text: str) -> Decimal | None:
        if not DECIMAL_PATTERN.fullmatch(text):
            raise cast.failure(text, "it is not a number")
        return fit(Decimal(text), cast.target.precision, cast.target.scale)

    return map_distinct(array, parse, cast.target.arrow())


def cast_text_to_date(array: pa.Array, cast: Cast) -> pa.Array:
    """Parse ``2020-02-29``, also ``2020-2-9``, ``2020-02``, up to the first blank; digits alone are epoch days."""

    def parse(text: str) -> int:
        if EPOCH_PATTERN.fullmatch(text):
            return _parse_int(text, text, cast)
        match = DATE_PATTERN.fullmatch(text[: text.find(" ")] if text.find(" ") > 0 else text)
        if match is None:
            raise cast.failure(text, "it is not a DATE")
        year, month, day = (int(part or 1) for part in match.groups())
        if year > MAX_YEAR or not 1 <= month <= 12:
            raise cast.failure(text, "it is not a DATE")
        if not 1 <= day <= DAYS_IN_MONTH[month] + (month == FEBRUARY and is_leap(year)):
            raise cast.failure(text, "it is not a DATE")
        return int(np.datetime64(f"{year:04d}-{month:02d}-{day:02d}", "D").astype(int))

    return map_distinct(array, parse, pa.int32()).cast(pa.date32())


def cast_text_to_time(array: pa.Array, cast: Cast) -> pa.Array:
    """Parse ``10:11:12.5``, shorter forms too, with an offset that is added; digits alone are milliseconds.

    Java keeps times outside of the 24 hours of a day; Arrow and Polars cannot hold such a TIME, so it is an error here.
    """

    def parse(text: str) -> int:
        millis = _parse_int(text, text, cast) if EPOCH_PATTERN.fullmatch(text) else _parse_clock(text, cast)
        if not 0 <= millis < MILLIS_PER_DAY:
            raise cast.failure(text, "a TIME is from 00:00 to 23:59:59.999 in Morrow")
        return millis

    return map_distinct(array, parse, pa.int32()).cast(pa.time32("ms"))


def _parse_clock(text: str, cast: Cast) -> int:
    match = CLOCK_PATTERN.fullmatch(text)
    if match is None:
        raise cast.failure(text, "it is not a TIME")
    hour, minute, second, fraction, sign, offset_hour, offset_minute = match.groups()
    factor = -1 if sign == "-" else 1
    hours = int(hour) + factor * int(offset_hour or 0)
    minutes = int(minute or 0) + factor * int(offset_minute or 0)
    return ((hours * 60 + minutes) * 60 + int(second or 0)) * 1000 + _parse_fraction_millis((fraction or "").strip())


def _parse_fraction_millis(fraction: str) -> int:
    """Return three digits, rounded by the fourth; characters other than digits count as 0."""
    digits = [int(c) if c in "0123456789" else 0 for c in fraction[:3].ljust(3, "0")]
    millis = digits[0] * 100 + digits[1] * 10 + digits[2]
    return millis + (fraction[3:4] >= "5")


def _parse_int(digits: str, text: str, cast: Cast) -> int:
    value = int(digits)
    if not -INT_MAX - 1 <= value <= INT_MAX or not digits.isascii():
        raise cast.failure(text, "it is not a 32-bit number")
    return value


def cast_text_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Parse ``2020-02-29 10:11:12.123456789`` or the date alone, in the session's zone for TIMESTAMP_LTZ.

    Digits beyond the precision are cut. Days 29-31 that a month lacks become its last day, and 24:00:00 is the next
    midnight. For TIMESTAMP of precision 0, 3, 6 or 9, a whole number counts seconds, milli-, micro- or nanoseconds.
    """
    unit = t.to_arrow_time_unit(cast.target.precision)
    zoned = isinstance(cast.target, t.LocalZonedTimestampType)
    epoch = pc.match_substring_regex(array, NUMERIC_PATTERN)
    if zoned or cast.target.precision % 3 or not pc.any(epoch).as_py():
        clock = _build_clock_times(array, unit, cast)
        return to_instants(clock, cast) if zoned else clock
    null = pa.scalar(None, array.type)
    counts = cast_text_to_integer(pc.if_else(epoch, array, null), replace(cast, target=t.BigIntType()))
    if unit == "s":
        # Java holds milliseconds, which wrap.
        counts = to_arrow_like(to_numbers(counts) * PER_SECOND["ms"] // PER_SECOND["ms"], counts, pa.int64())
    return pc.coalesce(counts.cast(pa.timestamp(unit)), _build_clock_times(pc.if_else(epoch, null, array), unit, cast))


def _build_clock_times(array: pa.Array, unit: str, cast: Cast) -> pa.Array:
    parts = pc.extract_regex(array, TIMESTAMP_PATTERN)
    cast.require(array, parts.is_valid(), "it is not a TIMESTAMP")
    year, month, day, hour, minute, second = (
        _parse_field(parts, name) for name in ("year", "month", "day", "hour", "minute", "second")
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
    return to_arrow_like(convert_unit(seconds, "s", unit, array, cast) + sub, array, pa.timestamp(unit))


def is_leap(year: Any) -> Any:
    """Return whether February has 29 days; for one year or an array of years."""
    return (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))


def _parse_field(parts: pa.Array, name: str) -> Ints:
    text = pc.struct_field(parts, name)
    text = pc.if_else(pc.equal(text, ""), "0", text)
    return np.asarray(pc.fill_null(text.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))


def cast_text_to_binary(array: pa.Array, cast: Cast) -> pa.Array:
    """Return the UTF-8 bytes, sized as by `cast_binary_to_binary`."""
    return cast_binary_to_binary(array.cast(pa.binary()), cast)


def cast_binary_to_binary(array: pa.Array, cast: Cast) -> pa.Array:
    """Cut to the target's length; BINARY is padded with zero bytes."""
    length = cast.target.length
    if isinstance(cast.target, t.BinaryType):
        array = pc.binary_join_element_wise(array, bytes(length), b"")
    return pc.binary_slice(array, 0, length) if length < t.MAX_LENGTH else array


SECONDS = (t.IntType, t.BigIntType)
APPROXIMATE = (t.FloatType, t.DoubleType)
BOOLEAN = (t.BooleanType,)
DECIMAL = (t.DecimalType,)
CHARACTERS = (t.CharType, t.VarCharType)
BYTES = (t.BinaryType, t.VarBinaryType)
DATE = (t.DateType,)
TIME = (t.TimeType,)
TIMESTAMPS = (t.TimestampType, t.LocalZonedTimestampType)

Types = Sequence[type[t.DataType]]

TABLE: tuple[tuple[Types, Types, Rule], ...] = (
    (t.INTEGER_TYPES, (*t.INTEGER_TYPES, *APPROXIMATE), atomic.cast_integer_to_number),
    (APPROXIMATE, t.INTEGER_TYPES, atomic.cast_approximate_to_integer),
    (APPROXIMATE, APPROXIMATE, atomic.cast_approximate_to_approximate),
    (t.INTEGER_TYPES, DECIMAL, atomic.cast_integer_to_decimal),
    (APPROXIMATE, DECIMAL, atomic.cast_approximate_to_decimal),
    (DECIMAL, t.INTEGER_TYPES, atomic.cast_decimal_to_integer),
    (DECIMAL, APPROXIMATE, atomic.cast_decimal_to_approximate),
    (DECIMAL, DECIMAL, atomic.rescale_decimal),
    (BOOLEAN, (*t.INTEGER_TYPES, *APPROXIMATE, *DECIMAL), atomic.cast_boolean_to_number),
    (t.INTEGER_TYPES, BOOLEAN, atomic.cast_integer_to_boolean),
    (SECONDS, TIMESTAMPS, atomic.cast_integer_to_timestamp),
    (TIMESTAMPS, SECONDS, atomic.cast_timestamp_to_integer),
    (TIMESTAMPS, TIMESTAMPS, atomic.cast_timestamp_to_timestamp),
    (TIMESTAMPS, DATE, atomic.cast_timestamp_to_date),
    (TIMESTAMPS, TIME, atomic.cast_timestamp_to_time),
    (DATE, TIMESTAMPS, atomic.cast_date_to_timestamp),
    (TIME, TIMESTAMPS, atomic.cast_time_to_timestamp),
    (t.INTEGER_TYPES, CHARACTERS, cast_integer_to_text),
    (BOOLEAN, CHARACTERS, cast_boolean_to_text),
    ((t.FloatType,), CHARACTERS, cast_float_to_text),
    ((t.DoubleType,), CHARACTERS, cast_double_to_text),
    (DECIMAL, CHARACTERS, cast_decimal_to_text),
    (DATE, CHARACTERS, cast_date_to_text),
    (TIME, CHARACTERS, cast_time_to_text),
    (TIMESTAMPS, CHARACTERS, cast_timestamp_to_text),
    (CHARACTERS, CHARACTERS, cast_text_to_text),
    (BYTES, CHARACTERS, cast_binary_to_text),
    ((t.ArrayType,), CHARACTERS, cast_array_to_text),
    ((t.MapType,), CHARACTERS, cast_map_to_text),
    ((t.RowType,), CHARACTERS, cast_row_to_text),
    (CHARACTERS, BOOLEAN, cast_text_to_boolean),
    (CHARACTERS, t.INTEGER_TYPES, cast_text_to_integer),
    (CHARACTERS, APPROXIMATE, cast_text_to_approximate),
    (CHARACTERS, DECIMAL, cast_text_to_decimal),
    (CHARACTERS, DATE, cast_text_to_date),
    (CHARACTERS, TIME, cast_text_to_time),
    (CHARACTERS, TIMESTAMPS, cast_text_to_timestamp),
    (CHARACTERS, BYTES, cast_text_to_binary),
    (BYTES, BYTES, cast_binary_to_binary),
    ((t.RowType,), (t.RowType,), cast_row_to_row),
    ((t.ArrayType,), (t.ArrayType,), cast_array_to_array),
    ((t.MapType,), (t.MapType,), cast_map_to_map),
)

RULES.update({(source, target): rule for sources, targets, rule in TABLE for source in sources for target in targets})


def is_allowed(source: t.DataType, target: t.DataType) -> bool:
    """Return whether a column written as `source` can be read as `target`, as in Java; nested types by members."""
    if t.has_same_values(source, target):
        return True
    if resolve(source, target) is None:
        return False
    return all(is_allowed(inner, outer) for inner, outer in _list_nested_casts(source, target))


def require_allowed(source: t.DataType, target: t.DataType, *, where: str | None = None) -> None:
    """Raise unless the cast is allowed. Raises `Unsupported`: Java does not support the cast."""
    if not is_allowed(source, target):
        raise make_cast_error(source, target, where)


def _list_nested_casts(source: t.DataType, target: t.DataType) -> list[tuple[t.DataType, t.DataType]]:
    """Return the casts of elements, values and members that make up a nested cast."""
    to_text = isinstance(target, t.CharType | t.VarCharType)
    string = t.VarCharType()
    if isinstance(source, t.ArrayType):
        return [(source.element, target.element if isinstance(target, t.ArrayType) else string)]
    if isinstance(source, t.MapType):
        if isinstance(target, t.MapType):
            # A change of the key type is not allowed: VARIANT has no rules.
            keys = (source.key, target.key if source.key == target.key else t.VariantType())
            return [keys, (source.value, target.value)]
        return [(source.key, string), (source.value, string)]
    if isinstance(source, t.RowType):
        if to_text:
            return [(field.type, string) for field in source.fields]
        targets = {field.id: field.type for field in target.fields} if isinstance(target, t.RowType) else {}
        return [(field.type, targets[field.id]) for field in source.fields if field.id in targets]
    return []
