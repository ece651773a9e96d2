"""Casts among numbers and booleans, and among dates, times and timestamps.

Integers wrap when narrowed. FLOAT and DOUBLE become integers towards zero, saturated at INT (TINYINT, SMALLINT, INT)
or BIGINT, and NaN becomes 0; TINYINT and SMALLINT then wrap. DECIMAL rounds half up (away from zero) to the target
scale and is null if the target precision does not hold it.

TIMESTAMP_LTZ is an instant. It is converted to a wall-clock time, and back, in the session's zone. A wall-clock time
that the zone skips moves forward by the gap; a time that occurs twice becomes the earlier instant. Paimon 1.4 divides
towards zero when it casts a TIMESTAMP to a DATE, and so does Morrow: 1969-12-31 12:00 becomes 1970-01-01.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t
from morrow.engine.format.java_floats import format_double
from morrow.engine.units import MILLIS_PER_DAY
from morrow.readers.casts.base import Cast, Ints, map_distinct, to_arrow_like, to_numbers

MAX_DECIMAL128 = 38
MAX_DECIMAL256 = 76
LONG_DIGITS = 19
COMPACT_DIGITS = 18
"""Up to this precision Java keeps the unscaled value in a long and divides it as a double."""

WIDE = Context(prec=400, Emax=10**6, Emin=-(10**6), rounding=ROUND_HALF_UP)


def cast_integer_to_number(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast integers to integers (wrapping), FLOAT and DOUBLE (nearest)."""
    return array.cast(cast.target.arrow(), safe=False)


def cast_approximate_to_integer(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast FLOAT and DOUBLE to integers: towards zero, saturated; NaN is 0."""
    bits = 64 if isinstance(cast.target, t.BigIntType) else 32
    values = to_numbers(array).astype(np.float64)
    low, high = -(2.0 ** (bits - 1)), 2.0 ** (bits - 1)
    inside = (values >= low) & (values < high)
    result = np.where(inside, values, 0.0).astype(np.int64)
    result[values >= high] = 2 ** (bits - 1) - 1
    result[values < low] = -(2 ** (bits - 1))
    return to_arrow_like(result, array, pa.int64()).cast(cast.target.arrow(), safe=False)


def cast_approximate_to_approximate(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast FLOAT to DOUBLE, and DOUBLE to FLOAT: nearest, infinite beyond its range."""
    return array.cast(cast.target.arrow(), safe=False)


def cast_boolean_to_number(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast TRUE to 1, FALSE to 0."""
    ones = array.cast(pa.int64())
    return (
        cast_integer_to_decimal(ones, cast)
        if isinstance(cast.target, t.DecimalType)
        else ones.cast(cast.target.arrow())
    )


def cast_integer_to_boolean(array: pa.Array, _cast: Cast) -> pa.Array:
    """Cast 0 to FALSE, all other integers to TRUE."""
    return pc.not_equal(array, pa.scalar(0, array.type))


def cast_integer_to_decimal(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast integers to DECIMAL; null if the integer has more digits than the target has before the point."""
    return rescale_decimal(array.cast(pa.int64()).cast(pa.decimal128(LONG_DIGITS, 0)), cast)


def cast_approximate_to_decimal(array: pa.Array, cast: Cast) -> pa.Array:
    """Round DOUBLE's text half up to a decimal, once per distinct value. NaN and infinities fail."""
    values = array.cast(pa.float64())
    cast.require(array, pc.is_finite(values), "a DECIMAL is finite")
    target = cast.target
    return map_distinct(
        values, lambda x: fit(Decimal(format_double(x)), target.precision, target.scale), target.arrow()
    )


def fit(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """Return `value` rounded half up to `scale`; None if it then has more than `precision` digits."""
    if value.adjusted() > MAX_DECIMAL128:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-scale), context=WIDE)
    return None if rounded and rounded.adjusted() + scale >= precision else rounded


def cast_decimal_to_integer(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast towards zero, then keep the low bits (first 64, then the target's width)."""
    whole = pc.trunc(array.cast(pa.decimal256(MAX_DECIMAL256, array.type.scale)))
    whole = whole.cast(pa.decimal256(MAX_DECIMAL256, 0))
    # A decimal256 is four little-endian longs, the lowest first.
    low = np.frombuffer(whole.buffers()[1], dtype="<i8")[4 * whole.offset :: 4][: len(whole)]
    return to_arrow_like(low, array, pa.int64()).cast(cast.target.arrow(), safe=False)


def cast_decimal_to_approximate(array: pa.Array, cast: Cast) -> pa.Array:
    """Return the nearest DOUBLE (up to 18 digits a quotient of doubles, as in Java), and FLOAT from the DOUBLE."""
    scale = array.type.scale
    if array.type.precision <= COMPACT_DIGITS:
        unscaled = to_unscaled_integers(array).cast(pa.int64())
        doubles = to_arrow_like(to_numbers(unscaled).astype(np.float64) / 10**scale, array, pa.float64())
    else:
        doubles = map_distinct(array, float, pa.float64())
    return doubles.cast(cast.target.arrow(), safe=False)


def to_unscaled_integers(array: pa.Array) -> pa.Array:
    """Return the digits without the point, as DECIMAL(p, 0): the same bytes."""
    type = pa.decimal128(array.type.precision, 0)
    return pa.Array.from_buffers(type, len(array), array.buffers(), array.null_count, array.offset)


def rescale_decimal(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast DECIMAL to DECIMAL: half up to the target's scale, null if the target's precision is too small."""
    precision, scale = cast.target.precision, cast.target.scale
    if scale < array.type.scale:
        # One digit more than the source may be needed: 99.995 becomes 100.00.
        wide = pa.decimal256(MAX_DECIMAL256, array.type.scale)
        rounded = pc.round(array.cast(wide), ndigits=scale, round_mode="half_towards_infinity")
        array = rounded.cast(pa.decimal256(MAX_DECIMAL256, scale))
    digits_before = array.type.precision - array.type.scale
    if digits_before > precision - scale:
        limit = pa.scalar(Decimal(10) ** (precision - scale), array.type)
        array = pc.if_else(pc.less(pc.abs(array), limit), array, pa.scalar(None, array.type))
    return array.cast(cast.target.arrow())


PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MILLIS_DIGITS = 3
MAX_ZONED_SECONDS = 947_000_000_000
UTC = "UTC"


def to_clock_times(array: pa.Array, cast: Cast) -> pa.Array:
    """Return the array as wall-clock timestamps; LTZ in the session's zone."""
    if array.type.tz is None:
        return array
    return array.cast(pa.timestamp(array.type.unit)) if cast.zone == UTC else _to_local(array, cast)


def _to_local(array: pa.Array, cast: Cast) -> pa.Array:
    _require_calendar(array, cast)
    return pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, tz=cast.zone)))


def _require_calendar(array: pa.Array, cast: Cast) -> None:
    """Raise for years beyond 16 bits, which time zones do not support: Arrow would return wrong values."""
    near = np.abs(to_numbers(array) // PER_SECOND[array.type.unit]) <= MAX_ZONED_SECONDS
    if not near.all():
        cast.require(array, pa.array(near), "Morrow knows time zones only to the year 32000")


def to_instants(clock: pa.Array, cast: Cast) -> pa.Array:
    """Convert wall-clock timestamps in the session's zone to instants (timestamps in UTC)."""
    type = pa.timestamp(clock.type.unit, tz=UTC)
    if cast.zone == UTC:
        return clock.cast(type)
    # In a gap "earliest" is the last moment before it; Java continues with the offset of that moment.
    _require_calendar(clock, cast)
    near = pc.assume_timezone(clock, cast.zone, ambiguous="earliest", nonexistent="earliest").cast(type)
    offset = to_numbers(_to_local(near, cast)) - to_numbers(near)
    return to_arrow_like(to_numbers(clock) - offset, clock, type)


def convert_unit(values: Ints, unit: str, target: str, array: pa.Array, cast: Cast) -> Ints:
    """Convert counts of one unit to another, floored.

    Raises `Unsupported`: the value is out of range for a finer unit (nanoseconds end in 2262). Java uses 96 bits.
    """
    factor = PER_SECOND[target] / PER_SECOND[unit]
    if factor <= 1:
        return values // (PER_SECOND[unit] // PER_SECOND[target])
    whole = int(factor)
    fits = np.abs(values) <= (2**63 - 1) // whole
    if not fits.all():
        reason = f"64 bits of {target} do not reach so far, Morrow reads it only with a lower precision"
        cast.require(array, pa.array(fits & (values != np.iinfo(np.int64).min)), reason)
    return values * whole


def _to_timestamps(values: Ints, unit: str, array: pa.Array, cast: Cast) -> pa.Array:
    """Convert counts of `unit` to wall-clock timestamps in the target's unit."""
    target = t.to_arrow_time_unit(cast.target.precision)
    return to_arrow_like(convert_unit(values, unit, target, array, cast), array, pa.timestamp(target))


def _is_zoned(type: Any) -> bool:
    return isinstance(type, t.LocalZonedTimestampType)


def _to_target_kind(clock: pa.Array, cast: Cast) -> pa.Array:
    return to_instants(clock, cast) if _is_zoned(cast.target) else clock


def cast_timestamp_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Change the precision (digits are cut) and, between TIMESTAMP and TIMESTAMP_LTZ, the meaning."""
    if _is_zoned(cast.source) and not _is_zoned(cast.target):
        array = to_clock_times(array, cast)
    elif _is_zoned(cast.target) and not _is_zoned(cast.source):
        array = to_instants(array, cast)
    unit, values = array.type.unit, to_numbers(array)
    digits = cast.target.precision
    if digits < cast.source.precision:
        unit, values = _truncate_digits(values, unit, digits)
    target = t.to_arrow_time_unit(digits)
    return to_arrow_like(convert_unit(values, unit, target, array, cast), array, cast.target.arrow())


def _truncate_digits(values: Ints, unit: str, digits: int) -> tuple[str, Ints]:
    """Cut to `digits` of a second: below milliseconds downwards, milliseconds themselves towards zero, as in Java."""
    if digits > MILLIS_DIGITS:
        step = PER_SECOND[unit] // 10**digits
        return unit, values // step * step if step > 1 else values
    millis = values // (PER_SECOND[unit] // PER_SECOND["ms"]) if unit != "s" else values * PER_SECOND["ms"]
    step = 10 ** (MILLIS_DIGITS - digits)
    return "ms", np.sign(millis) * (np.abs(millis) // step) * step


def _to_millis(array: pa.Array, cast: Cast) -> Ints:
    return convert_unit(to_numbers(array), array.type.unit, "ms", array, cast)


def cast_timestamp_to_date(array: pa.Array, cast: Cast) -> pa.Array:
    """Return the day; for a TIMESTAMP before 1970 that is not midnight, the next day (see the module)."""
    millis = _to_millis(to_clock_times(array, cast), cast)
    days = millis // MILLIS_PER_DAY
    if not _is_zoned(cast.source):
        days += (millis < 0) & (millis % MILLIS_PER_DAY != 0)
    return to_arrow_like(days.astype(np.int32), array, pa.int32()).cast(pa.date32())


def cast_timestamp_to_time(array: pa.Array, cast: Cast) -> pa.Array:
    """Return the milliseconds of the day, rounded down, even before 1970 (where Paimon 1.4 returns a negative TIME)."""
    millis = _to_millis(to_clock_times(array, cast), cast) % MILLIS_PER_DAY
    return to_arrow_like(millis.astype(np.int32), array, pa.int32()).cast(pa.time32("ms"))


def cast_timestamp_to_integer(array: pa.Array, cast: Cast) -> pa.Array:
    """Return seconds since 1970, rounded towards zero; INT keeps the low 32 bits. The zone is ignored."""
    unit = array.type.unit
    millis = convert_unit(to_numbers(array), unit, "ms", array, cast)
    seconds = np.sign(millis) * (np.abs(millis) // PER_SECOND["ms"])
    return to_arrow_like(seconds, array, pa.int64()).cast(cast.target.arrow(), safe=False)


def cast_integer_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast from seconds since 1970; milliseconds beyond 64 bits wrap, as in Java.

    For TIMESTAMP_LTZ they become a wall-clock time in the session's zone, which is then read as UTC, as in Java.
    """
    millis = to_numbers(array).astype(np.int64) * PER_SECOND["ms"]
    if _is_zoned(cast.target) and cast.zone != UTC:
        millis = to_numbers(_to_local(to_arrow_like(millis, array, pa.timestamp("ms", tz=UTC)), cast))
    return _to_timestamps(millis, "ms", array, cast).cast(cast.target.arrow())


def cast_date_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Return midnight, in the session's zone for TIMESTAMP_LTZ."""
    millis = to_numbers(array).astype(np.int64) * MILLIS_PER_DAY
    return _to_target_kind(_to_timestamps(millis, "ms", array, cast), cast)


def cast_time_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Return the time on 1970-01-01 in UTC."""
    return _to_timestamps(to_numbers(array).astype(np.int64), "ms", array, cast).cast(cast.target.arrow())
