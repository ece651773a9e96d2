"""Periods of automatic tags, and the names of their tags.

A tag is named by the time at which its period began. Times here are local times without zone, in microseconds since
1970-01-01T00:00 local time. Hours that summer time skips or repeats are ignored, and every time is in range.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from morrow.engine.options.declarations import Period, PeriodFormatter
from morrow.engine.options.retention import TagOptions

WallTime: TypeAlias = int

MICRO = dt.timedelta(microseconds=1)
MICROS_PER_MILLI = 1000
WALL_EPOCH = dt.datetime(1970, 1, 1)
INSTANT_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

FIELDS: Mapping[str, int] = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2}
"""Number of digits per field of a pattern, in the order of the arguments of `datetime`."""
DASHED_DAY = "yyyy-MM-dd"
DASHED_HOUR = "yyyy-MM-dd HH"
MINUTE = "yyyyMMddHHmm"

PATTERNS: Mapping[tuple[Period | None, PeriodFormatter], str] = {
    (Period.DAILY, PeriodFormatter.WITH_DASHES): DASHED_DAY,
    (Period.DAILY, PeriodFormatter.WITHOUT_DASHES): "yyyyMMdd",
    (Period.DAILY, PeriodFormatter.WITHOUT_DASHES_AND_SPACES): "yyyyMMdd",
    (Period.HOURLY, PeriodFormatter.WITH_DASHES): DASHED_HOUR,
    (Period.HOURLY, PeriodFormatter.WITHOUT_DASHES): "yyyyMMdd HH",
    (Period.HOURLY, PeriodFormatter.WITHOUT_DASHES_AND_SPACES): "yyyyMMddHH",
    # Java has a single format for these, whatever the formatter.
    **{(Period.TWO_HOURS, formatter): DASHED_HOUR for formatter in PeriodFormatter},
    **{(None, formatter): MINUTE for formatter in PeriodFormatter},
}


@dataclass(frozen=True)
class TagPeriod:
    """Periods of `length` microseconds, counted from the epoch."""

    length: int
    pattern: str
    ignores_text_after_blank: bool = False

    @classmethod
    def of(cls, options: TagOptions) -> TagPeriod:
        """Return the periods that the options configure."""
        pattern = PATTERNS[options.period, options.formatter]
        return cls(options.period_length // MICRO, pattern, options.period is Period.DAILY)

    def last_ended(self, time: WallTime) -> WallTime:
        """Return the beginning of the last period that has ended at `time`."""
        millis, length = time // MICROS_PER_MILLI, self.length // MICROS_PER_MILLI
        # Java's division rounds to zero: before 1970 that is upwards.
        whole = millis // length if millis >= 0 else -(-millis // length)
        return whole * length * MICROS_PER_MILLI - self.length

    def next(self, time: WallTime) -> WallTime:
        """Return the beginning of the period after the one that begins at `time`."""
        return time + self.length

    def name(self, time: WallTime) -> str | None:
        """Return the tag name of the period that begins at `time`; None if the year does not fit into four digits."""
        try:
            moment = WALL_EPOCH + time * MICRO
        except OverflowError:
            return None
        text = self.pattern
        for (field, digits), value in zip(FIELDS.items(), moment.timetuple(), strict=False):
            text = text.replace(field, f"{value:0{digits}}")
        return text

    def time(self, name: str) -> WallTime | None:
        """Return the beginning of the period whose tag has this name; None for a name that is not automatic."""
        if self.ignores_text_after_blank:
            name = name.split(" ")[0]
        match = self._expression.fullmatch(name)
        if match is None:
            return None
        parts = {field: int(text) for field, text in match.groupdict().items()}
        try:
            year, month, day, hour, minute = (parts.get(field, 0) for field in FIELDS)
            return (dt.datetime(year, month, day, hour, minute) - WALL_EPOCH) // MICRO
        except ValueError:  # a 13th month
            return None

    def is_automatic(self, name: str) -> bool:
        """Return whether this is a name of an automatic tag of this table."""
        return self.time(name) is not None

    @property
    def _expression(self) -> re.Pattern[str]:
        text = re.escape(self.pattern)
        for field, digits in FIELDS.items():
            text = text.replace(field, f"(?P<{field}>[0-9]{{{digits}}})")
        return re.compile(text)


def to_wall_time(millis: int, zone: dt.tzinfo | None) -> WallTime | None:
    """Return the local time of a zone (None: this machine's) at epoch milliseconds; None if out of range."""
    try:
        moment = (INSTANT_EPOCH + dt.timedelta(milliseconds=millis)).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return None
    return (moment.replace(tzinfo=None) - WALL_EPOCH) // MICRO
