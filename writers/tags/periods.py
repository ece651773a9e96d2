"""Periods of automatic tags: which one has ended, and how its tag is named.

A tag is named by the time at which its period began. Times here are what a clock on the wall shows, in microseconds
since 1970-01-01T00:00 of that clock: an hour that summer time skips or repeats is nobody's business, and no time is out
of reach.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from morrow.engine.options.tagging import Period, PeriodFormatter, TagOptions

WallTime: TypeAlias = int

MICRO = dt.timedelta(microseconds=1)
MICROS_PER_MILLI = 1000
WALL_EPOCH = dt.datetime(1970, 1, 1)
INSTANT_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

FIELDS: Mapping[str, int] = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2}
"""Field of a pattern, in the order of the arguments of `datetime` -> its digits."""
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
    # Java knows one way to write these, whatever the formatter.
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
        """The periods that the options ask for."""
        pattern = PATTERNS[options.period, options.formatter]
        return cls(options.period_length // MICRO, pattern, options.period is Period.DAILY)

    def last_ended(self, time: WallTime) -> WallTime:
        """The beginning of the last period that has ended at `time`."""
        millis, length = time // MICROS_PER_MILLI, self.length // MICROS_PER_MILLI
        # Java's division rounds to zero: before 1970 that is upwards.
        whole = millis // length if millis >= 0 else -(-millis // length)
        return whole * length * MICROS_PER_MILLI - self.length

    def next(self, time: WallTime) -> WallTime:
        """The beginning of the period after that which begins at `time`."""
        return time + self.length

    def name(self, time: WallTime) -> str | None:
        """The name of the tag of the period that begins at `time`; None for a year that four digits cannot write."""
        try:
            moment = WALL_EPOCH + time * MICRO
        except OverflowError:
            return None
        text = self.pattern
        for (field, digits), value in zip(FIELDS.items(), moment.timetuple(), strict=False):
            text = text.replace(field, f"{value:0{digits}}")
        return text

    def time(self, name: str) -> WallTime | None:
        """When the period began whose tag has this name; None for a name that is not automatic."""
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
        """Whether automatic tags of this table have such names."""
        return self.time(name) is not None

    @property
    def _expression(self) -> re.Pattern[str]:
        text = re.escape(self.pattern)
        for field, digits in FIELDS.items():
            text = text.replace(field, f"(?P<{field}>[0-9]{{{digits}}})")
        return re.compile(text)


def wall_time(millis: int, zone: dt.tzinfo | None) -> WallTime | None:
    """What the clock of a zone (None: of this machine) shows at epoch milliseconds; None for a time in no calendar."""
    try:
        moment = (INSTANT_EPOCH + dt.timedelta(milliseconds=millis)).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return None
    return (moment.replace(tzinfo=None) - WALL_EPOCH) // MICRO
