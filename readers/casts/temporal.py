"""Casts among DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ and the integers that count seconds.

TIMESTAMP_LTZ is an instant; it becomes a wall clock, and a wall clock an instant, in the session's zone. A wall clock
that a zone skips moves forward by the gap; one that occurs twice is the earlier instant. Paimon 1.4 divides towards
zero where a TIMESTAMP becomes a DATE: 1969-12-31 12:00 is 1970-01-01 there, and here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t
from morrow.engine.units import MILLIS_PER_DAY
from morrow.readers.casts.base import Cast, Ints, like, numbers

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MILLIS_DIGITS = 3
MAX_ZONED_SECONDS = 947_000_000_000
UTC = "UTC"


def clock_times(array: pa.Array, cast: Cast) -> pa.Array:
    """Returns the array as wall-clock timestamps; LTZ in the session's zone."""
    if array.type.tz is None:
        return array
    return array.cast(pa.timestamp(array.type.unit)) if cast.zone == UTC else _local(array, cast)


def _local(array: pa.Array, cast: Cast) -> pa.Array:
    _require_calendar(array, cast)
    return pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, tz=cast.zone)))


def _require_calendar(array: pa.Array, cast: Cast) -> None:
    """Raises beyond the years of 16 bits, which time zones support; Arrow would return wrong values there."""
    near = np.abs(numbers(array) // PER_SECOND[array.type.unit]) <= MAX_ZONED_SECONDS
    if not near.all():
        cast.require(array, pa.array(near), "Morrow knows time zones only to the year 32000")


def instants(clock: pa.Array, cast: Cast) -> pa.Array:
    """Converts wall-clock timestamps in the session's zone to instants (timestamps in UTC)."""
    type = pa.timestamp(clock.type.unit, tz=UTC)
    if cast.zone == UTC:
        return clock.cast(type)
    # In a gap "earliest" is the last moment before it; Java continues with the offset of that moment.
    _require_calendar(clock, cast)
    near = pc.assume_timezone(clock, cast.zone, ambiguous="earliest", nonexistent="earliest").cast(type)
    offset = numbers(_local(near, cast)) - numbers(near)
    return like(numbers(clock) - offset, clock, type)


def in_unit(values: Ints, unit: str, target: str, array: pa.Array, cast: Cast) -> Ints:
    """Converts counts of one unit to another, floored.

    Raises:
        Unsupported: the value is out of range for a finer unit (nanoseconds end in 2262); Java has 96 bits there.
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


def _stamps(values: Ints, unit: str, array: pa.Array, cast: Cast) -> pa.Array:
    """Converts counts of `unit` to wall-clock timestamps in the target's unit."""
    target = t.arrow_time_unit(cast.target.precision)
    return like(in_unit(values, unit, target, array, cast), array, pa.timestamp(target))


def _is_zoned(type: Any) -> bool:
    return isinstance(type, t.LocalZonedTimestampType)


def _as_target(clock: pa.Array, cast: Cast) -> pa.Array:
    return instants(clock, cast) if _is_zoned(cast.target) else clock


def timestamp_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Changes the precision (digits are cut) and, between TIMESTAMP and TIMESTAMP_LTZ, the meaning."""
    if _is_zoned(cast.source) and not _is_zoned(cast.target):
        array = clock_times(array, cast)
    elif _is_zoned(cast.target) and not _is_zoned(cast.source):
        array = instants(array, cast)
    unit, values = array.type.unit, numbers(array)
    digits = cast.target.precision
    if digits < cast.source.precision:
        unit, values = _truncated(values, unit, digits)
    target = t.arrow_time_unit(digits)
    return like(in_unit(values, unit, target, array, cast), array, cast.target.arrow())


def _truncated(values: Ints, unit: str, digits: int) -> tuple[str, Ints]:
    """Cuts to `digits` of a second: below milliseconds downwards, milliseconds themselves towards zero, as in Java."""
    if digits > MILLIS_DIGITS:
        step = PER_SECOND[unit] // 10**digits
        return unit, values // step * step if step > 1 else values
    millis = values // (PER_SECOND[unit] // PER_SECOND["ms"]) if unit != "s" else values * PER_SECOND["ms"]
    step = 10 ** (MILLIS_DIGITS - digits)
    return "ms", np.sign(millis) * (np.abs(millis) // step) * step


def _millis(array: pa.Array, cast: Cast) -> Ints:
    return in_unit(numbers(array), array.type.unit, "ms", array, cast)


def timestamp_to_date(array: pa.Array, cast: Cast) -> pa.Array:
    """Returns the day; of a TIMESTAMP before 1970 the next day unless it is midnight (see the module)."""
    millis = _millis(clock_times(array, cast), cast)
    days = millis // MILLIS_PER_DAY
    if not _is_zoned(cast.source):
        days += (millis < 0) & (millis % MILLIS_PER_DAY != 0)
    return like(days.astype(np.int32), array, pa.int32()).cast(pa.date32())


def timestamp_to_time(array: pa.Array, cast: Cast) -> pa.Array:
    """Returns the milliseconds of the day, downwards also before 1970 (where Paimon 1.4 makes a negative TIME)."""
    millis = _millis(clock_times(array, cast), cast) % MILLIS_PER_DAY
    return like(millis.astype(np.int32), array, pa.int32()).cast(pa.time32("ms"))


def timestamp_to_integer(array: pa.Array, cast: Cast) -> pa.Array:
    """Returns seconds since 1970, towards zero; INT keeps the low 32 bits. The zone plays no part."""
    unit = array.type.unit
    millis = in_unit(numbers(array), unit, "ms", array, cast)
    seconds = np.sign(millis) * (np.abs(millis) // PER_SECOND["ms"])
    return like(seconds, array, pa.int64()).cast(cast.target.arrow(), safe=False)


def integer_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts from seconds since 1970; milliseconds beyond 64 bits wrap, as in Java.

    For TIMESTAMP_LTZ they are converted to a wall clock in the session's zone, which is then read as UTC, as in Java.
    """
    millis = numbers(array).astype(np.int64) * PER_SECOND["ms"]
    if _is_zoned(cast.target) and cast.zone != UTC:
        millis = numbers(_local(like(millis, array, pa.timestamp("ms", tz=UTC)), cast))
    return _stamps(millis, "ms", array, cast).cast(cast.target.arrow())


def date_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Returns midnight, in the session's zone for TIMESTAMP_LTZ."""
    millis = numbers(array).astype(np.int64) * MILLIS_PER_DAY
    return _as_target(_stamps(millis, "ms", array, cast), cast)


def time_to_timestamp(array: pa.Array, cast: Cast) -> pa.Array:
    """Returns that time of 1970-01-01 in UTC."""
    return _stamps(numbers(array).astype(np.int64), "ms", array, cast).cast(cast.target.arrow())
