"""Units of time and of bytes, and the text of counts, sizes and time spans in messages."""

from __future__ import annotations

import datetime as dt

NANOS_PER_MICRO = 1_000
NANOS_PER_MILLI = 1_000_000
NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_DAY = 86_400 * NANOS_PER_SECOND
MILLIS_PER_SECOND = 1_000
MILLIS_PER_DAY = 86_400 * MILLIS_PER_SECOND

SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SIZE_STEP = 1024
SPAN_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
IRREGULAR = {"branch": "branches", "entry": "entries", "index": "indexes"}


def format_count(count: int, what: str) -> str:
    """Return ``1 row``, ``2,000 rows``, ``2 branches``."""
    if count == 1:
        return f"1 {what}"
    head, _, noun = what.rpartition(" ")
    return f"{count:,} {head}{' ' if head else ''}{IRREGULAR.get(noun, noun + 's')}"


def format_size(count: float) -> str:
    """Return ``0 B``, ``1.5 KiB``: bytes in the largest unit that is at most the size."""
    for unit in SIZE_UNITS[:-1]:
        if count < SIZE_STEP:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= SIZE_STEP
    return f"{count:,.1f} {SIZE_UNITS[-1]}"


def format_span(span: dt.timedelta | float) -> str:
    """Return ``3 days``, ``2 hours``, ``1 second``: a time span in the largest unit that is at most the span."""
    seconds = span.total_seconds() if isinstance(span, dt.timedelta) else span
    for unit, length in SPAN_UNITS:
        if abs(seconds) >= length:
            return format_count(int(abs(seconds) // length), unit)
    return f"{abs(seconds) * 1000:.0f} ms"


def format_duration(span: dt.timedelta) -> str:
    """Return ``7 days``, ``1 day 12 hours``, ``1.5 seconds``: a time span, exactly."""
    whole, seconds = [], span.total_seconds()
    for unit, length in SPAN_UNITS[:-1]:
        count, seconds = divmod(seconds, length)
        whole += [format_count(int(count), unit)] if count else []
    if seconds or not whole:
        whole.append("1 second" if seconds == 1 else f"{seconds:g} seconds")
    return " ".join(whole)


def format_moment(moment: dt.datetime) -> str:
    """Return ``2024-05-14 12:30 UTC`` of an aware datetime."""
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def format_age(moment: dt.datetime, now: dt.datetime | None = None) -> str:
    """Return ``3 days ago``, or ``in 3 days`` for a future moment."""
    passed = ((now or dt.datetime.now(dt.UTC)) - moment).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{format_span(passed)} ago" if passed > 0 else f"in {format_span(passed)}"
